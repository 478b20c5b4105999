//! Blocks through which the host writes to the device: mapped while they are
//! free, so that filling one waits for nothing, and copied from in the order
//! of what is recorded.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::base::Result;
use crate::runtime::wgpu::gpu::{WgpuGpu, lock};

/// Bytes of a block; what is longer goes through several.
pub const CHUNK: usize = 4 << 20;
/// The least a block holds.
const SMALLEST: u64 = 16 << 10;
/// Bytes on the way to the device before the host waits for it; bytes of free
/// blocks that are kept.
const MOST: u64 = 64 << 20;

/// The blocks of a device.
#[derive(Debug, Default)]
pub struct Staging {
    state: Arc<Mutex<StagingState>>,
}

#[derive(Debug, Default)]
struct StagingState {
    /// Mapped blocks by size.
    free: BTreeMap<u64, Vec<wgpu::Buffer>>,
    /// Bytes of those.
    free_bytes: u64,
    /// Bytes of blocks that wait for the device.
    under_way: u64,
    /// Blocks made so far.
    made: usize,
}

impl Staging {
    /// Blocks made so far.
    pub fn made(&self) -> usize {
        lock(&self.state).made
    }

    /// Whether the host should wait before it writes more.
    pub fn is_full(&self) -> bool {
        lock(&self.state).under_way >= MOST
    }

    /// A block that holds a copy of the bytes, filled up with zeros to a
    /// multiple of four.
    ///
    /// # Errors
    /// The driver's failure.
    pub fn filled(&self, gpu: &WgpuGpu, data: &[u8]) -> Result<wgpu::Buffer> {
        let class = (data.len() as u64).next_power_of_two().max(SMALLEST);
        let known = {
            let mut state = lock(&self.state);
            let known = state.free.get_mut(&class).and_then(Vec::pop);
            state.free_bytes -= known.as_ref().map_or(0, wgpu::Buffer::size);
            known
        };
        let block = match known {
            Some(block) => block,
            None => self.make(gpu, class)?,
        };
        let padded = data.len().next_multiple_of(4);
        let filled = block.slice(..padded as u64).get_mapped_range_mut().map(|mut view| {
            let mut last = [0; 4];
            let whole = data.len() / 4 * 4;
            last[..data.len() - whole].copy_from_slice(&data[whole..]);
            view.slice(..whole).copy_from_slice(&data[..whole]);
            view.slice(whole..padded).copy_from_slice(&last[..padded - whole]);
        });
        filled.map_err(|error| gpu.error("", error.to_string()))?;
        block.unmap();
        Ok(block)
    }

    fn make(&self, gpu: &WgpuGpu, class: u64) -> Result<wgpu::Buffer> {
        let made = gpu.scoped("", || {
            gpu.device.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size: class,
                usage: wgpu::BufferUsages::MAP_WRITE | wgpu::BufferUsages::COPY_SRC,
                mapped_at_creation: true,
            })
        })?;
        lock(&self.state).made += 1;
        Ok(made)
    }

    /// Takes back blocks that were submitted, once the device has copied them.
    pub fn give_back(&self, blocks: Vec<wgpu::Buffer>) {
        for block in blocks {
            let size = block.size();
            lock(&self.state).under_way += size;
            let (state, mapped) = (self.state.clone(), block.clone());
            block.map_async(wgpu::MapMode::Write, .., move |result| {
                let mut state = lock(&state);
                state.under_way -= size;
                // One that was not mapped, or is too much, is dropped.
                if result.is_ok() && state.free_bytes + size <= MOST {
                    state.free_bytes += size;
                    state.free.entry(size).or_default().push(mapped);
                }
            });
        }
    }

    /// Gives free blocks back to the driver.
    pub fn empty(&self) {
        let mut state = lock(&self.state);
        state.free_bytes = 0;
        let free = std::mem::take(&mut state.free);
        drop(state);
        drop(free);
    }
}
