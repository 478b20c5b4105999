//! Host memory: the blocks behind tensors on the CPU device.

use std::sync::{Arc, LazyLock};

use crate::base::{Device, DeviceKind, Result};
use crate::ir::{DeviceBuffer, Reclaim};
use crate::runtime::cpu::pool::HostPool;

/// The pool that all host memory comes from.
pub fn pool() -> &'static HostPool {
    static POOL: LazyLock<HostPool> = LazyLock::new(|| HostPool::new(Device::cpu()));
    &POOL
}

/// An uninitialised block of host memory.
///
/// # Errors
/// [`crate::base::Error::OutOfMemory`] over the limit or when the system refuses.
pub fn allocate(bytes: usize) -> Result<DeviceBuffer> {
    pool().allocate(bytes)
}

/// A block holding a copy of `data`.
///
/// # Errors
/// As [`allocate`].
pub fn upload(data: &[u8]) -> Result<DeviceBuffer> {
    upload_to(pool(), data)
}

/// A block of a pool of host memory, holding a copy of `data`.
///
/// # Errors
/// As [`allocate`].
pub fn upload_to(pool: &HostPool, data: &[u8]) -> Result<DeviceBuffer> {
    let buffer = pool.allocate(data.len())?;
    // SAFETY: the block is fresh, of `data.len()` bytes, and ours alone.
    unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), buffer.handle as *mut u8, data.len()) };
    Ok(buffer)
}

/// Keeps the block that a pinned one is.
struct HostPinned {
    _block: DeviceBuffer,
}

impl Reclaim for HostPinned {
    fn reclaim(&self, _: u64, _: usize) {
        // The block goes back when this is dropped, with the buffer.
    }
    fn is_pinned(&self) -> bool {
        true
    }
}

/// A block that counts as pinned, where there is nothing to pin it for.
///
/// # Errors
/// As [`allocate`].
pub fn allocate_pinned(bytes: usize) -> Result<DeviceBuffer> {
    let block = allocate(bytes)?;
    let handle = block.handle;
    Ok(DeviceBuffer::new(Device::cpu(), bytes, handle, Arc::new(HostPinned { _block: block })))
}

/// Fills a block of host memory that nothing else sees yet.
pub fn fill(block: &mut DeviceBuffer, write: impl FnOnce(&mut [u8])) {
    write(zeroed(block));
}

/// The bytes, set to zero, of a block of host memory that nothing else sees yet.
pub fn zeroed(block: &mut DeviceBuffer) -> &mut [u8] {
    assert_eq!(block.device.kind, DeviceKind::Cpu, "only the CPU's blocks are in host memory");
    // SAFETY: the handle is the address of `bytes` bytes, which are this
    // buffer's alone; they are initialised first.
    unsafe {
        std::ptr::write_bytes(block.handle as *mut u8, 0, block.bytes);
        std::slice::from_raw_parts_mut(block.handle as *mut u8, block.bytes)
    }
}

/// Fills a block of host memory that nothing else sees yet with as many bytes.
pub fn fill_from(block: &mut DeviceBuffer, data: &[u8]) {
    assert_eq!(block.device.kind, DeviceKind::Cpu, "only the CPU's blocks are in host memory");
    assert_eq!(block.bytes, data.len());
    // SAFETY: the handle is the address of `bytes` bytes, which are this buffer's
    // alone, and so not among the data.
    unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), block.handle as *mut u8, block.bytes) }
}

/// The bytes of a block on the CPU device.
///
/// Blocks are written only by the realize that creates them, before anything
/// else can see them.
pub fn bytes(buffer: &DeviceBuffer) -> &[u8] {
    assert_eq!(buffer.device.kind, DeviceKind::Cpu, "only the CPU's blocks are in host memory");
    bytes_of_pool(buffer)
}

/// The bytes of a block that a pool of host memory made, whatever its device
/// is called.
pub(in crate::runtime) fn bytes_of_pool(buffer: &DeviceBuffer) -> &[u8] {
    // SAFETY: the handle of such a block is the address of `bytes` bytes that
    // live as long as the buffer.
    unsafe { std::slice::from_raw_parts(buffer.handle as *const u8, buffer.bytes) }
}

/// What the system says of its memory: bytes free for programs, and bytes in
/// all. `None` where it does not say.
pub fn system_memory() -> Option<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let field = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? << 10)
    };
    Some((field("MemAvailable:")?, field("MemTotal:")?))
}

/// The processor's name, where the system says.
pub fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_string())
}
