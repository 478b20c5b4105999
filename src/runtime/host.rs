//! Host memory: the blocks behind tensors on the CPU device.

use std::alloc::{Layout, alloc, dealloc};
use std::sync::{Arc, LazyLock};

use crate::base::{Device, Error, Result};
use crate::ir::{Buffer, Reclaim};

/// Alignment of every block: a cache line and the widest vector register.
pub const ALIGN: usize = 64;

/// Returns blocks to the system allocator.
struct System;

impl Reclaim for System {
    fn reclaim(&self, handle: u64, bytes: usize) {
        // SAFETY: the handle is an address that `allocate` got for this size,
        // and a `Buffer` is reclaimed once.
        unsafe { dealloc(handle as *mut u8, layout(bytes)) }
    }
}

static SYSTEM: LazyLock<Arc<System>> = LazyLock::new(|| Arc::new(System));

fn layout(bytes: usize) -> Layout {
    // Sizes come from `allocate`, which refuses what a layout cannot hold.
    Layout::from_size_align(bytes.max(ALIGN), ALIGN).unwrap_or(Layout::new::<[u8; ALIGN]>())
}

/// An uninitialised block of host memory.
///
/// # Errors
/// [`Error::OutOfMemory`] when the system refuses.
pub fn allocate(bytes: usize) -> Result<Buffer> {
    let refused =
        || Error::OutOfMemory { device: Device::cpu(), requested: bytes as u64, in_use: 0, limit: u64::MAX };
    let layout = Layout::from_size_align(bytes.max(ALIGN), ALIGN).map_err(|_| refused())?;
    // SAFETY: the layout has a size of at least ALIGN.
    let address = unsafe { alloc(layout) };
    if address.is_null() {
        return Err(refused());
    }
    Ok(Buffer::new(Device::cpu(), bytes, address as u64, SYSTEM.clone()))
}

/// A block holding a copy of `data`.
///
/// # Errors
/// [`Error::OutOfMemory`] when the system refuses.
pub fn upload(data: &[u8]) -> Result<Buffer> {
    let buffer = allocate(data.len())?;
    // SAFETY: the block is fresh, of `data.len()` bytes, and ours alone.
    unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), buffer.handle as *mut u8, data.len()) };
    Ok(buffer)
}

/// The bytes of a block on the CPU device.
///
/// Blocks are written only by the realize that creates them, before anything
/// else can see them.
pub fn bytes(buffer: &Buffer) -> &[u8] {
    debug_assert_eq!(buffer.device, Device::cpu());
    // SAFETY: the handle of a CPU buffer is the address of `bytes` bytes that
    // live as long as the buffer.
    unsafe { std::slice::from_raw_parts(buffer.handle as *const u8, buffer.bytes) }
}
