//! Pinned memory of the host, pooled, since the driver takes long to lock pages;
//! and the copies from it that are under way.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, Weak};

use crate::base::{Device, Result};
use crate::ir::{DeviceBuffer, Reclaim};
use crate::runtime::cuda::driver::StreamEvent;
use crate::runtime::cuda::gpu::{CudaGpu, allocate_with, lock};
use crate::runtime::{Binding, host};

/// The least that is taken from the driver.
const SMALLEST: usize = 4096;

/// Bytes of plain memory that the driver copies at once, with the call.
const SMALL: usize = 64 << 10;

/// Bytes of plain memory that go through one block.
pub const PIECE: usize = 4 << 20;

/// Copies under way from which on plain memory gets no more blocks.
const MOST_UNDER_WAY: usize = 64;

/// Free pinned blocks and copies under way.
#[derive(Debug, Default)]
pub struct Pinned {
    /// Addresses of free blocks, by size.
    free: Mutex<HashMap<usize, Vec<u64>>>,
    /// Blocks that copies still read, oldest first.
    copies: Mutex<VecDeque<(StreamEvent, Arc<DeviceBuffer>)>>,
    /// Device memory that nothing has used since it was allocated to be filled.
    unused: Mutex<HashSet<u64>>,
}

/// Pinned memory. What is free serves again once no copy reads it.
///
/// # Errors
/// [`crate::base::Error::OutOfMemory`] where the driver refuses.
pub fn allocate(gpu: &Arc<CudaGpu>, bytes: usize) -> Result<DeviceBuffer> {
    drop(gpu.pinned.settle(gpu));
    let class = bytes.max(SMALLEST).next_power_of_two();
    let known = lock(&gpu.pinned.free).get_mut(&class).and_then(Vec::pop);
    let address = match known {
        Some(address) => address,
        None => gpu.driver.allocate_pinned(class).map_err(|failure| gpu.error("", failure))?,
    };
    let owner = PinnedReclaim { gpu: Arc::downgrade(gpu), class };
    Ok(DeviceBuffer::new(Device::cpu(), bytes, address, Arc::new(owner)))
}

/// Device memory for a copy from the host to fill.
///
/// # Errors
/// As [`crate::runtime::cuda::gpu::allocate`].
pub fn allocate_to_fill(gpu: &Arc<CudaGpu>, bytes: usize) -> Result<DeviceBuffer> {
    let buffer = allocate_with(gpu, bytes, |bytes| gpu.driver.allocate_to_fill(bytes))?;
    lock(&gpu.pinned.unused).insert(buffer.handle);
    Ok(buffer)
}

/// Copies plain memory of the host, which may change once this returns: small
/// data by the driver, which keeps them with the call; larger ones through pinned
/// blocks, since the driver would wait until the device comes to them. Where too
/// many blocks are under way, or no more pages can be locked, it does.
///
/// # Errors
/// The driver's failure.
pub fn stage(gpu: &Arc<CudaGpu>, to: u64, data: &[u8]) -> Result<()> {
    let mut rest = data;
    let mut to = to;
    while rest.len() > SMALL && lock(&gpu.pinned.copies).len() < MOST_UNDER_WAY {
        let (piece, after) = rest.split_at(rest.len().min(PIECE));
        let Ok(mut block) = allocate(gpu, piece.len()) else { break };
        host::fill_from(&mut block, piece);
        start(gpu, to, &Arc::new(block), 0..piece.len(), false)?;
        to += piece.len() as u64;
        rest = after;
    }
    if rest.is_empty() {
        return Ok(());
    }
    gpu.driver.write(to, rest).map_err(|failure| gpu.error("", failure))
}

/// Starts a copy of bytes of a pinned block, which is kept until it is done.
///
/// # Errors
/// The driver's failure.
pub fn write(
    gpu: &CudaGpu,
    to: Binding<'_>,
    from: &Arc<DeviceBuffer>,
    start: usize,
    bytes: usize,
) -> Result<()> {
    assert!(start + bytes <= from.bytes && to.offset + bytes <= to.buffer.bytes);
    let beside = lock(&gpu.pinned.unused).remove(&to.buffer.handle);
    self::start(gpu, to.buffer.handle + to.offset as u64, from, start..start + bytes, beside)
}

/// Starts a copy to device memory, which has room for it.
fn start(gpu: &CudaGpu, to: u64, from: &Arc<DeviceBuffer>, range: Range<usize>, beside: bool) -> Result<()> {
    assert!(range.end <= from.bytes && from.is_pinned());
    let source = from.handle + range.start as u64;
    // SAFETY: the range is inside its block, as just checked; nothing writes to a
    // block that someone else holds, and `copies` holds it.
    let event = unsafe { gpu.driver.start_write(to, source, range.len(), beside) };
    let event = event.map_err(|failure| gpu.error("", failure))?;
    lock(&gpu.pinned.copies).push_back((event, from.clone()));
    drop(gpu.pinned.settle(gpu));
    Ok(())
}

impl Pinned {
    /// Takes out the blocks whose copies are done; to be dropped without a lock.
    fn settle(&self, gpu: &CudaGpu) -> Vec<(StreamEvent, Arc<DeviceBuffer>)> {
        let mut copies = lock(&self.copies);
        let done = copies.iter().take_while(|(event, _)| gpu.driver.is_through(event)).count();
        copies.drain(..done).collect()
    }

    /// Gives free blocks back to the driver.
    pub fn trim(&self, gpu: &CudaGpu) {
        drop(self.settle(gpu));
        let free = std::mem::take(&mut *lock(&self.free));
        free.into_values().flatten().for_each(|address| gpu.driver.free_pinned(address));
    }

    /// Blocks that there are, under way or free.
    #[cfg(test)]
    pub fn blocks(&self) -> usize {
        lock(&self.copies).len() + lock(&self.free).values().map(Vec::len).sum::<usize>()
    }

    /// Device memory that is no longer.
    pub fn forget(&self, handle: u64) {
        lock(&self.unused).remove(&handle);
    }
}

/// Takes pinned blocks back.
struct PinnedReclaim {
    gpu: Weak<CudaGpu>,
    class: usize,
}

impl Reclaim for PinnedReclaim {
    fn reclaim(&self, handle: u64, _: usize) {
        if let Some(gpu) = self.gpu.upgrade() {
            lock(&gpu.pinned.free).entry(self.class).or_default().push(handle);
        }
    }
    fn is_pinned(&self) -> bool {
        true
    }
}
