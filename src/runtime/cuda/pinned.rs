//! Pinned memory of the host, pooled, since the driver takes long to lock pages;
//! and the copies from it that are under way.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, Weak};

use crate::base::{Device, Result};
use crate::ir::{Buffer, Reclaim};
use crate::runtime::Binding;
use crate::runtime::cuda::driver::Event;
use crate::runtime::cuda::gpu::{Gpu, allocate_with, lock};

/// The least that is taken from the driver.
const SMALLEST: usize = 4096;

/// Free pinned blocks and copies under way.
#[derive(Debug, Default)]
pub struct Pinned {
    /// Addresses of free blocks, by size.
    free: Mutex<HashMap<usize, Vec<u64>>>,
    /// Blocks that copies still read, oldest first.
    copies: Mutex<VecDeque<(Event, Arc<Buffer>)>>,
    /// Device memory that nothing has used since it was allocated to be filled.
    unused: Mutex<HashSet<u64>>,
}

/// Pinned memory. What is free serves again once no copy reads it.
///
/// # Errors
/// [`crate::base::Error::OutOfMemory`] where the driver refuses.
pub fn allocate(gpu: &Arc<Gpu>, bytes: usize) -> Result<Buffer> {
    drop(gpu.pinned.settle(gpu));
    let class = bytes.max(SMALLEST).next_power_of_two();
    let known = lock(&gpu.pinned.free).get_mut(&class).and_then(Vec::pop);
    let address = match known {
        Some(address) => address,
        None => gpu.driver.allocate_pinned(class).map_err(|failure| gpu.error("", failure))?,
    };
    let owner = Owner { gpu: Arc::downgrade(gpu), class };
    Ok(Buffer::new(Device::cpu(), bytes, address, Arc::new(owner)))
}

/// Device memory for a copy from the host to fill.
///
/// # Errors
/// As [`crate::runtime::cuda::gpu::allocate`].
pub fn allocate_to_fill(gpu: &Arc<Gpu>, bytes: usize) -> Result<Buffer> {
    let buffer = allocate_with(gpu, bytes, |bytes| gpu.driver.allocate_to_fill(bytes))?;
    lock(&gpu.pinned.unused).insert(buffer.handle);
    Ok(buffer)
}

/// Starts a copy of bytes of a pinned block, which is kept until it is done.
///
/// # Errors
/// The driver's failure.
pub fn write(gpu: &Gpu, to: Binding<'_>, from: &Arc<Buffer>, start: usize, bytes: usize) -> Result<()> {
    assert!(start + bytes <= from.bytes && to.offset + bytes <= to.buffer.bytes);
    let beside = lock(&gpu.pinned.unused).remove(&to.buffer.handle);
    let (target, source) = (to.buffer.handle + to.offset as u64, from.handle + start as u64);
    // SAFETY: both ranges are inside their blocks, as just checked; nothing
    // writes to a block that someone else holds, and `copies` holds it.
    let event = unsafe { gpu.driver.start_write(target, source, bytes, beside) };
    let event = event.map_err(|failure| gpu.error("", failure))?;
    lock(&gpu.pinned.copies).push_back((event, from.clone()));
    drop(gpu.pinned.settle(gpu));
    Ok(())
}

impl Pinned {
    /// Takes out the blocks whose copies are done; to be dropped without a lock.
    fn settle(&self, gpu: &Gpu) -> Vec<(Event, Arc<Buffer>)> {
        let mut copies = lock(&self.copies);
        let done = copies.iter().take_while(|(event, _)| gpu.driver.is_through(event)).count();
        copies.drain(..done).collect()
    }

    /// Gives free blocks back to the driver.
    pub fn trim(&self, gpu: &Gpu) {
        drop(self.settle(gpu));
        let free = std::mem::take(&mut *lock(&self.free));
        free.into_values().flatten().for_each(|address| gpu.driver.free_pinned(address));
    }

    /// Device memory that is no longer.
    pub fn forget(&self, handle: u64) {
        lock(&self.unused).remove(&handle);
    }
}

/// Takes pinned blocks back.
struct Owner {
    gpu: Weak<Gpu>,
    class: usize,
}

impl Reclaim for Owner {
    fn reclaim(&self, handle: u64, _: usize) {
        if let Some(gpu) = self.gpu.upgrade() {
            lock(&gpu.pinned.free).entry(self.class).or_default().push(handle);
        }
    }
    fn is_pinned(&self) -> bool {
        true
    }
}
