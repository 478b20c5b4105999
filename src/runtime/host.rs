//! Host memory: the blocks behind tensors on the CPU device.

use std::sync::LazyLock;

use crate::base::{Device, Result};
use crate::ir::Buffer;
use crate::runtime::cpu::pool::Pool;

/// The pool that all host memory comes from.
pub fn pool() -> &'static Pool {
    static POOL: LazyLock<Pool> = LazyLock::new(|| Pool::new(Device::cpu()));
    &POOL
}

/// An uninitialised block of host memory.
///
/// # Errors
/// [`crate::base::Error::OutOfMemory`] over the limit or when the system refuses.
pub fn allocate(bytes: usize) -> Result<Buffer> {
    pool().allocate(bytes)
}

/// A block holding a copy of `data`.
///
/// # Errors
/// As [`allocate`].
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
