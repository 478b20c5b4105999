//! Device memory: blocks by size class, kept when they come back.
//!
//! Commands run in the order in which they are recorded, so a block may be
//! handed out again while commands that use it still wait. What bounds the
//! blocks kept is what bounds the CPU's: before the driver is asked for more,
//! those unused longest go back until the pool is within a fifth of the most
//! that was ever in use.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crate::base::{Device, Error, Result};
use crate::ir::{DeviceBuffer, Reclaim};
use crate::runtime::wgpu::gpu::{WgpuGpu, buffer, lock};
use crate::runtime::wgpu::program;
use crate::runtime::{Ledger, MemoryStats, host};

/// The pool holds at most this part more than the most that was ever in use,
/// or [`SMALL`] bytes more, whichever is more.
const SLACK: f64 = 1.2;

/// What a pool may hold beyond what is in use, however little that is.
const SMALL: u64 = 1 << 20;
/// DeviceBlocks from this size on are rounded up less.
const LARGE: u64 = 1 << 20;

/// The number of the next block, of whatever device: that of another is then
/// not taken for one's own.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The blocks of a device.
#[derive(Debug)]
pub struct DeviceBlocks {
    live: HashMap<u64, wgpu::Buffer>,
    /// Free blocks by size, the longest unused first, each with the count of
    /// blocks that had come back then.
    free: BTreeMap<u64, VecDeque<(u64, wgpu::Buffer)>>,
    /// DeviceBlocks that the host maps to read.
    staging: BTreeMap<u64, Vec<wgpu::Buffer>>,
    clock: u64,
    ledger: Ledger,
    largest: u64,
    /// What blocks are for, besides kernels and copies.
    usage: wgpu::BufferUsages,
}

impl DeviceBlocks {
    /// None yet. Where device memory is the host's, at most three quarters
    /// of that: such drivers promise more than there is. Where the device
    /// allows it, the host maps blocks themselves.
    pub fn new(name: Device, device: &wgpu::Device, info: &wgpu::AdapterInfo) -> DeviceBlocks {
        let mut ledger = Ledger::new(name);
        if let Some((_, bytes)) = host::system_memory().filter(|_| is_host_memory(info)) {
            ledger.set_limit(bytes / 4 * 3);
        }
        let mappable = device.features().contains(wgpu::Features::MAPPABLE_PRIMARY_BUFFERS);
        let map = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::MAP_WRITE;
        DeviceBlocks {
            live: HashMap::new(),
            free: BTreeMap::new(),
            staging: BTreeMap::new(),
            clock: 0,
            ledger,
            largest: device.limits().max_buffer_size,
            usage: if mappable { map } else { wgpu::BufferUsages::empty() },
        }
    }

    /// Whether the host maps blocks themselves.
    pub fn are_mappable(&self) -> bool {
        !self.usage.is_empty()
    }

    /// The sums.
    pub fn stats(&self) -> MemoryStats {
        self.ledger.stats()
    }

    /// The books.
    pub fn ledger(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    /// Gives free blocks back.
    pub fn empty_cache(&mut self) {
        for (class, blocks) in std::mem::take(&mut self.free) {
            blocks.iter().for_each(|_| self.ledger.release(class));
        }
        self.staging.clear();
    }

    /// The driver's block behind a buffer.
    ///
    /// # Errors
    /// The memory is not of this device but of one that was opened apart from
    /// it, or that was lost before this one was opened.
    pub fn get(&self, buffer: &DeviceBuffer) -> Result<wgpu::Buffer> {
        self.live.get(&buffer.handle).cloned().ok_or_else(|| Error::DeviceUnavailable {
            device: buffer.device,
            reason: "its memory was asked for, but of another opening of the adapter: \
                     one that was lost, or that another context has to itself"
                .into(),
            span: None,
        })
    }

    /// That so many bytes are not to be had.
    pub fn refused(&self, gpu: &WgpuGpu, bytes: u64) -> Error {
        let MemoryStats { allocated, limit, .. } = self.stats();
        Error::OutOfMemory {
            device: gpu.name,
            requested: bytes,
            in_use: allocated,
            limit: limit.min(if bytes > self.largest { self.largest } else { u64::MAX }),
            largest: self.ledger.largest(Ledger::NAMED).into(),
            span: None,
        }
    }

    /// Gives back blocks until the pool with `class` bytes more, of which
    /// `bytes` will be in use, is within bounds.
    fn trim(&mut self, class: u64, bytes: u64) {
        let stats = self.stats();
        let most = stats.peak.max(stats.allocated.saturating_add(bytes));
        let bound = ((most as f64 * SLACK) as u64).max(most.saturating_add(SMALL)).min(stats.limit);
        while self.stats().reserved.saturating_add(class) > bound {
            let oldest = self.free.iter().filter_map(|(&class, free)| Some((free.front()?.0, class)));
            let Some((_, class)) = oldest.min() else { return };
            if self.free.get_mut(&class).and_then(VecDeque::pop_front).is_some() {
                self.ledger.release(class);
            }
        }
    }
}

/// Whether an adapter's memory is the host's.
pub fn is_host_memory(info: &wgpu::AdapterInfo) -> bool {
    matches!(info.device_type, wgpu::DeviceType::Cpu | wgpu::DeviceType::IntegratedGpu)
}

/// Uninitialised memory. Debug builds fill it with bytes of 0xFF, NaN as
/// every floating-point type, so that a read of what nothing wrote shows.
///
/// # Errors
/// [`Error::OutOfMemory`] over the limit or when the driver refuses.
pub fn allocate(gpu: &Arc<WgpuGpu>, bytes: usize) -> Result<DeviceBuffer> {
    let buffer = allocate_to_fill(gpu, bytes)?;
    if cfg!(debug_assertions) {
        program::poison(gpu, &lock(&gpu.blocks).get(&buffer)?)?;
    }
    Ok(buffer)
}

/// Memory that the caller fills at once.
///
/// # Errors
/// As [`allocate`].
pub fn allocate_to_fill(gpu: &Arc<WgpuGpu>, bytes: usize) -> Result<DeviceBuffer> {
    let class = size_class(bytes as u64);
    let mut blocks = lock(&gpu.blocks);
    if class > blocks.largest || !blocks.ledger.admits(bytes as u64) {
        return Err(blocks.refused(gpu, bytes as u64));
    }
    // The block used last is likeliest in cache.
    let mut fitting = blocks.free.range_mut(class..=class.saturating_add(class / 16));
    let cached = fitting.find_map(|(_, free)| free.pop_back());
    let block = match cached {
        Some((_, block)) => block,
        None => {
            blocks.trim(class, bytes as u64);
            let usage = blocks.usage | wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC;
            drop(blocks);
            let block = create(gpu, class, bytes as u64, usage)?;
            blocks = lock(&gpu.blocks);
            blocks.ledger.reserve(class);
            block
        }
    };
    let handle = NEXT.fetch_add(1, Ordering::Relaxed);
    blocks.live.insert(handle, block);
    blocks.ledger.allocated(handle, bytes as u64);
    let owner: Arc<dyn Reclaim> = Arc::new(WgpuReclaim(Arc::downgrade(gpu)));
    Ok(DeviceBuffer::new(gpu.name, bytes, handle, owner))
}

/// A block from the driver; where that refuses, after the cache was given
/// back to it.
fn create(gpu: &WgpuGpu, class: u64, bytes: u64, usage: wgpu::BufferUsages) -> Result<wgpu::Buffer> {
    let make = || gpu.scoped("", || buffer(&gpu.device, class, usage | wgpu::BufferUsages::COPY_DST));
    // A refusal is a validation error with some drivers, so any is taken for one.
    let is_refusal = |error: &Error| matches!(error, Error::Kernel { .. } | Error::OutOfMemory { .. });
    match make() {
        Err(error) if is_refusal(&error) => {
            lock(&gpu.blocks).empty_cache();
            make().map_err(
                |error| {
                    if is_refusal(&error) { lock(&gpu.blocks).refused(gpu, bytes) } else { error }
                },
            )
        }
        made => made,
    }
}

/// A block the host can map to read.
///
/// # Errors
/// As [`allocate`].
pub fn staging(gpu: &WgpuGpu, bytes: u64) -> Result<wgpu::Buffer> {
    let class = size_class(bytes);
    if let Some(block) = lock(&gpu.blocks).staging.get_mut(&class).and_then(Vec::pop) {
        return Ok(block);
    }
    create(gpu, class, bytes, wgpu::BufferUsages::MAP_READ)
}

/// Keeps a staging block for the next read.
pub fn give_staging_back(gpu: &WgpuGpu, block: wgpu::Buffer) {
    lock(&gpu.blocks).staging.entry(block.size()).or_default().push(block);
}

/// Takes buffers back for a device that is still there.
struct WgpuReclaim(Weak<WgpuGpu>);

impl Reclaim for WgpuReclaim {
    fn reclaim(&self, handle: u64, bytes: usize) {
        let Some(gpu) = self.0.upgrade() else { return };
        let mut blocks = lock(&gpu.blocks);
        blocks.ledger.freed(handle, bytes as u64);
        blocks.clock += 1;
        let since = blocks.clock;
        if let Some(block) = blocks.live.remove(&handle) {
            blocks.free.entry(block.size()).or_default().push_back((since, block));
        }
    }
}

/// The bytes of the block behind a request: the least of 16, 17, .. 31 times
/// a power of two that holds it, at least 256 and a multiple of 16; for large
/// ones, whose waste would show, of 128, 129, .. 255 times.
fn size_class(bytes: u64) -> u64 {
    let bytes = bytes.max(256);
    match bytes.checked_next_power_of_two() {
        Some(power) if bytes >= LARGE => bytes.next_multiple_of(power / 256),
        Some(power) => bytes.next_multiple_of((power / 32).max(16)),
        None => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::size_class;

    #[test]
    fn classes_hold_the_request_and_waste_at_most_a_sixteenth() {
        for bytes in (257..5000).chain([1 << 20, (1 << 20) + 1, 1 << 40]) {
            let class = size_class(bytes);
            let part = if bytes < super::LARGE { 16 } else { 128 };
            assert!(class >= bytes && class - bytes <= class / part, "{bytes} {class}");
            assert_eq!(class % 16, 0);
        }
    }
}
