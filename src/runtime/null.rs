//! The null device: plans, allocates and launches like a real one, runs
//! nothing, and reports everything.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::base::{Device, Error, Result};
use crate::ir::{Buffer, Reclaim};
use crate::kernel::Work;
use crate::runtime::{Backend, Binding, Bindings, Capabilities, MemoryStats, Program};

/// A device whose memory is a count and whose data are zeros.
#[derive(Debug)]
pub struct NullBackend {
    name: Device,
    capabilities: Capabilities,
    memory: Arc<Counted>,
}

/// The bytes handed out.
#[derive(Debug)]
struct Counted(Mutex<MemoryStats>);

impl Counted {
    fn lock(&self) -> MutexGuard<'_, MemoryStats> {
        // The numbers change only by steps that cannot panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reclaim for Counted {
    fn reclaim(&self, _handle: u64, bytes: usize) {
        let mut stats = self.lock();
        stats.allocated -= bytes as u64;
        stats.reserved = stats.allocated;
    }
}

/// What the null device pretends to be, and what planning assumes of a
/// device that is not there: a small machine with many bindings.
pub const CAPABILITIES: Capabilities = Capabilities {
    max_bindings: 64,
    workers: 2,
    row_bytes: 128 << 10,
    templates: &[],
    missing: &[],
    several_in_place: true,
};

impl NullBackend {
    /// The first null device, with the given capabilities.
    pub fn new(capabilities: Capabilities) -> NullBackend {
        NullBackend::named(Device::null(), capabilities)
    }
    /// A null device in the place of `name`.
    pub fn named(name: Device, capabilities: Capabilities) -> NullBackend {
        let stats = MemoryStats { limit: u64::MAX, ..MemoryStats::default() };
        NullBackend { name, capabilities, memory: Arc::new(Counted(Mutex::new(stats))) }
    }
}

impl Backend for NullBackend {
    fn device(&self) -> Device {
        self.name
    }
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }
    fn allocate(&self, bytes: usize) -> Result<Buffer> {
        let mut stats = self.memory.lock();
        let allocated = stats.allocated.saturating_add(bytes as u64);
        if allocated > stats.limit {
            return Err(Error::OutOfMemory {
                device: self.name,
                requested: bytes as u64,
                in_use: stats.allocated,
                limit: stats.limit,
            });
        }
        stats.allocated = allocated;
        stats.reserved = allocated;
        stats.peak = stats.peak.max(allocated);
        Ok(Buffer::new(self.name, bytes, 0, self.memory.clone()))
    }
    fn upload(&self, data: &[u8]) -> Result<Buffer> {
        self.allocate(data.len())
    }
    fn download(&self, _buffer: &Buffer, _start: usize, out: &mut [u8]) -> Result<()> {
        out.fill(0);
        Ok(())
    }
    fn copy(&self, _from: Binding<'_>, _to: Binding<'_>, _bytes: usize) -> Result<()> {
        Ok(())
    }
    fn compile(&self, work: &Work) -> Result<Arc<dyn Program>> {
        Ok(Arc::new(NullProgram(format!("{work:#?}"))))
    }
    fn describe(&self) -> String {
        "runs nothing, reports everything; for tests of plans".into()
    }
    fn sync(&self) -> Result<()> {
        Ok(())
    }
    fn memory(&self) -> MemoryStats {
        *self.memory.lock()
    }
    fn set_memory_limit(&self, bytes: u64) {
        self.memory.lock().limit = bytes;
    }
    fn empty_cache(&self) {}
}

/// A program that does nothing.
#[derive(Debug)]
struct NullProgram(String);

impl Program for NullProgram {
    fn source(&self) -> String {
        self.0.clone()
    }
    fn launch(&self, _bindings: &Bindings<'_>) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_what_it_does_not_hold() {
        let capabilities = Capabilities { max_bindings: 8, workers: 1, row_bytes: 0, ..CAPABILITIES };
        let null = NullBackend::new(capabilities);
        let buffer = null.allocate(1 << 40).unwrap();
        assert_eq!(null.memory().allocated, 1 << 40);
        null.set_memory_limit(1 << 40);
        assert!(null.upload(&[1, 2]).is_err());
        let mut out = [1u8; 4];
        null.download(&buffer, 8, &mut out).unwrap();
        assert_eq!(out, [0; 4]);
        drop(buffer);
        assert_eq!((null.memory().allocated, null.memory().peak), (0, 1 << 40));
    }
}
