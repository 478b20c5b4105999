//! Precision of products of 32-bit floats.

use std::sync::atomic::{AtomicU8, Ordering};

/// How exactly a device multiplies matrices of 32-bit floats; sums always have 32
/// bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Precision {
    /// As [`Precision::Highest`], and each sum is of its own products: no algorithm that
    /// adds factors up first (Winograd's, for convolutions), whose error is relative to
    /// neighbouring elements. And no factor of 16 bits is taken for zero because it is
    /// subnormal.
    Strict,
    /// With all 24 significant bits.
    #[default]
    Highest,
    /// Where a device has tensor cores, with the 11 significant bits that they take
    /// of a 32-bit float (TF32); else as [`Precision::Highest`].
    High,
    /// Where a device has tensor cores, with the 8 significant bits of BF16; so on a CPU with AMX. On a CPU, rows
    /// that meet [quantized](crate::QuantizedTensor) weights are rounded to 8 bits, block by block: one row on
    /// any, several where it has VNNI (AVX-512's or AVX's) or, with 4 bits, AVX2. Else as [`Precision::High`].
    Medium,
}

static CURRENT: AtomicU8 = AtomicU8::new(Precision::Highest as u8);

/// Says how exactly products of 32-bit floats built from now on, in the whole
/// process, are computed: matrix products, contractions, and convolutions too (for
/// which PyTorch has another switch). Products built before keep what they have.
pub fn set_float32_matmul_precision(precision: Precision) {
    CURRENT.store(precision as u8, Ordering::Relaxed);
}

/// What [`set_float32_matmul_precision`] said last.
pub fn float32_matmul_precision() -> Precision {
    match CURRENT.load(Ordering::Relaxed) {
        0 => Precision::Strict,
        1 => Precision::Highest,
        2 => Precision::High,
        _ => Precision::Medium,
    }
}
