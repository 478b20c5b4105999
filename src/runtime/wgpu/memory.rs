//! Device memory: blocks by size class, kept when they come back.
//!
//! Commands run in the order in which they are recorded, so a block may be
//! handed out again while commands that use it still wait.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};

use crate::base::{Error, Result};
use crate::ir::{Buffer, Reclaim};
use crate::runtime::MemoryStats;
use crate::runtime::wgpu::gpu::{Gpu, lock};

/// The blocks of a device.
#[derive(Debug)]
pub struct Blocks {
    live: HashMap<u64, wgpu::Buffer>,
    free: BTreeMap<u64, Vec<wgpu::Buffer>>,
    /// Blocks that the host maps to read.
    staging: BTreeMap<u64, Vec<wgpu::Buffer>>,
    next: u64,
    stats: MemoryStats,
    largest: u64,
}

impl Blocks {
    /// None yet. Where device memory is the host's, at most three quarters
    /// of that: such drivers promise more than there is.
    pub fn new(device: &wgpu::Device, info: &wgpu::AdapterInfo) -> Blocks {
        let shared = matches!(info.device_type, wgpu::DeviceType::Cpu | wgpu::DeviceType::IntegratedGpu);
        let limit = host_bytes().filter(|_| shared).map_or(u64::MAX, |bytes| bytes / 4 * 3);
        Blocks {
            live: HashMap::new(),
            free: BTreeMap::new(),
            staging: BTreeMap::new(),
            next: 0,
            stats: MemoryStats { limit, ..MemoryStats::default() },
            largest: device.limits().max_buffer_size,
        }
    }

    /// What there is.
    pub fn stats(&self) -> MemoryStats {
        self.stats
    }

    /// Sets the most bytes that may be allocated at once.
    pub fn set_limit(&mut self, bytes: u64) {
        self.stats.limit = bytes;
    }

    /// Gives free blocks back.
    pub fn empty_cache(&mut self) {
        self.free.clear();
        self.staging.clear();
        self.stats.reserved = self.live.values().map(wgpu::Buffer::size).sum();
    }

    /// The driver's block behind a buffer.
    pub fn get(&self, buffer: &Buffer) -> wgpu::Buffer {
        match self.live.get(&buffer.handle) {
            Some(block) => block.clone(),
            None => panic!("{buffer:?} is of another device"),
        }
    }

    /// Whether a block of this size may be handed out.
    fn admit(&mut self, gpu: &Gpu, bytes: u64, class: u64) -> Result<()> {
        let refuse = |limit: u64, stats: &MemoryStats| {
            Err(Error::OutOfMemory {
                device: gpu.name,
                requested: bytes,
                in_use: stats.allocated,
                limit,
                largest: [].into(),
            })
        };
        if class > self.largest {
            return refuse(self.largest, &self.stats);
        }
        if self.stats.allocated.saturating_add(bytes) > self.stats.limit {
            return refuse(self.stats.limit, &self.stats);
        }
        Ok(())
    }
}

/// Uninitialised memory.
///
/// # Errors
/// [`Error::OutOfMemory`] over the limit or when the driver refuses.
pub fn allocate(gpu: &Arc<Gpu>, bytes: usize) -> Result<Buffer> {
    let class = size_class(bytes as u64);
    let mut blocks = lock(&gpu.blocks);
    blocks.admit(gpu, bytes as u64, class)?;
    let cached = blocks.free.get_mut(&class).and_then(Vec::pop);
    let block = match cached {
        Some(block) => block,
        None => {
            if blocks.stats.reserved.saturating_add(class) > blocks.stats.limit {
                blocks.empty_cache();
            }
            drop(blocks);
            let block = create(gpu, class, wgpu::BufferUsages::STORAGE)?;
            blocks = lock(&gpu.blocks);
            blocks.stats.reserved += class;
            block
        }
    };
    blocks.next += 1;
    let handle = blocks.next;
    blocks.live.insert(handle, block);
    blocks.stats.allocated += bytes as u64;
    blocks.stats.peak = blocks.stats.peak.max(blocks.stats.allocated);
    let owner: Arc<dyn Reclaim> = Arc::new(Owner(Arc::downgrade(gpu)));
    Ok(Buffer::new(gpu.name, bytes, handle, owner))
}

/// A block from the driver.
fn create(gpu: &Gpu, class: u64, usage: wgpu::BufferUsages) -> Result<wgpu::Buffer> {
    let make = || {
        gpu.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: class,
            usage: usage | wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC,
            mapped_at_creation: false,
        })
    };
    // A refusal is a validation error with some drivers, so any is taken for one.
    gpu.scoped("", make).map_err(|error| match error {
        Error::Kernel { .. } | Error::OutOfMemory { .. } => {
            let stats = lock(&gpu.blocks).stats();
            Error::OutOfMemory {
                device: gpu.name,
                requested: class,
                in_use: stats.reserved,
                limit: stats.limit,
                largest: [].into(),
            }
        }
        other => other,
    })
}

/// A block the host can map to read.
///
/// # Errors
/// As [`allocate`].
pub fn staging(gpu: &Gpu, bytes: u64) -> Result<wgpu::Buffer> {
    let class = size_class(bytes);
    if let Some(block) = lock(&gpu.blocks).staging.get_mut(&class).and_then(Vec::pop) {
        return Ok(block);
    }
    let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
    gpu.scoped("", || {
        gpu.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: class,
            usage,
            mapped_at_creation: false,
        })
    })
}

/// Keeps a staging block for the next read.
pub fn give_staging_back(gpu: &Gpu, block: wgpu::Buffer) {
    lock(&gpu.blocks).staging.entry(block.size()).or_default().push(block);
}

/// Takes buffers back for a device that is still there.
struct Owner(Weak<Gpu>);

impl Reclaim for Owner {
    fn reclaim(&self, handle: u64, bytes: usize) {
        let Some(gpu) = self.0.upgrade() else { return };
        let mut blocks = lock(&gpu.blocks);
        blocks.stats.allocated -= bytes as u64;
        if let Some(block) = blocks.live.remove(&handle) {
            blocks.free.entry(block.size()).or_default().push(block);
        }
    }
}

/// The bytes of the block behind a request: the least of 1, 1.25, 1.5, 1.75
/// times a power of two that holds it, at least 256.
fn size_class(bytes: u64) -> u64 {
    let bytes = bytes.max(256);
    match bytes.checked_next_power_of_two() {
        Some(power) => bytes.next_multiple_of(power / 8),
        None => u64::MAX,
    }
}

/// Bytes of the host's memory, where the system says.
fn host_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes << 10)
}

#[cfg(test)]
mod tests {
    use super::size_class;

    #[test]
    fn classes_hold_the_request_and_waste_at_most_a_fifth() {
        for bytes in (257..5000).chain([1 << 20, (1 << 20) + 1, 1 << 40]) {
            let class = size_class(bytes);
            assert!(class >= bytes && class - bytes <= class / 5, "{bytes} {class}");
            assert_eq!(class % 16, 0);
        }
    }
}
