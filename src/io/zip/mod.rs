//! Zip archives, as far as NumPy and PyTorch write them: files that are stored or deflated, not
//! encrypted, in one volume, with sizes of 32 or 64 bits.

mod read;
#[cfg(feature = "npy")]
mod write;

pub use read::{Entry, entries};
#[cfg(feature = "npy")]
pub use write::archive;

/// How local headers, entries of the directory, and the ends of it begin.
const LOCAL: [u8; 4] = *b"PK\x03\x04";
const CENTRAL: [u8; 4] = *b"PK\x01\x02";
const END: [u8; 4] = *b"PK\x05\x06";
const END_64: [u8; 4] = *b"PK\x06\x06";
const LOCATOR_64: [u8; 4] = *b"PK\x06\x07";
/// The extra field of sizes of 64 bits, and what stands in their place before.
const EXTRA_64: u16 = 1;
const SEE_EXTRA: u32 = u32::MAX;
