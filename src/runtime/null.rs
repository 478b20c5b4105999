//! The null device: plans, allocates and launches like a real one, runs
//! nothing, and reports everything.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::base::{Device, Error, Result};
use crate::ir::{DeviceBuffer, Reclaim};
use crate::kernel::Workload;
use crate::runtime::{Backend, Binding, Bindings, Capabilities, InPlace, Ledger, MemoryStats, Program};

/// A device whose memory is a count and whose data are zeros.
#[derive(Debug)]
pub struct NullBackend {
    name: Device,
    capabilities: Capabilities,
    memory: Arc<Counted>,
}

/// The books, and the number of the next buffer.
#[derive(Debug)]
struct Counted(Mutex<(Ledger, u64)>);

impl Counted {
    fn lock(&self) -> MutexGuard<'_, (Ledger, u64)> {
        // The numbers change only by steps that cannot panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reclaim for Counted {
    fn reclaim(&self, handle: u64, bytes: usize) {
        let ledger = &mut self.lock().0;
        ledger.freed(handle, bytes as u64);
        ledger.release(bytes as u64);
    }
}

/// What the null device pretends to be, and what planning assumes of a
/// device that is not there: a small machine with many bindings.
pub const CAPABILITIES: Capabilities = Capabilities {
    max_bindings: 64,
    workers: 2,
    row_bytes: 128 << 10,
    attention: None,
    missing: &[],
    in_place: InPlace::AnyOutputs,
    late_index_errors: false,
    cheap_guards: true,
    joint_rows: false,
    output_alignment: 1,
    can_block: true,
};

impl NullBackend {
    /// The first null device, with the given capabilities.
    pub fn new(capabilities: Capabilities) -> NullBackend {
        NullBackend::named(Device::null(), capabilities)
    }
    /// A null device in the place of `name`.
    pub fn named(name: Device, capabilities: Capabilities) -> NullBackend {
        NullBackend { name, capabilities, memory: Arc::new(Counted(Mutex::new((Ledger::new(name), 0)))) }
    }
}

impl Backend for NullBackend {
    fn device(&self) -> Device {
        self.name
    }
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }
    fn allocate(&self, bytes: usize) -> Result<DeviceBuffer> {
        let (ledger, next) = &mut *self.memory.lock();
        if !ledger.admits(bytes as u64) {
            let MemoryStats { allocated, limit, .. } = ledger.stats();
            return Err(Error::OutOfMemory {
                device: self.name,
                requested: bytes as u64,
                in_use: allocated,
                limit,
                largest: ledger.largest(Ledger::NAMED).into(),
                span: None,
            });
        }
        *next += 1;
        ledger.reserve(bytes as u64);
        ledger.allocated(*next, bytes as u64);
        Ok(DeviceBuffer::new(self.name, bytes, *next, self.memory.clone()))
    }
    fn upload(&self, data: &[u8]) -> Result<DeviceBuffer> {
        self.allocate(data.len())
    }
    fn download(&self, _buffer: &DeviceBuffer, _start: usize, out: &mut [u8]) -> Result<()> {
        out.fill(0);
        Ok(())
    }
    fn copy(&self, _from: Binding<'_>, _to: Binding<'_>, _bytes: usize) -> Result<()> {
        Ok(())
    }
    fn write(&self, _to: Binding<'_>, _data: &[u8]) -> Result<()> {
        Ok(())
    }
    fn compile(&self, work: &Workload) -> Result<Arc<dyn Program>> {
        if let Workload::Kernel(kernel) = work {
            let (found, limit) = (kernel.inputs.len() + kernel.stores.len(), self.capabilities.max_bindings);
            if found > limit {
                let message = format!("{found} buffers, more than the {limit} that it binds at once");
                return Err(Error::Kernel {
                    kernel: kernel.name.to_string(),
                    device: self.name,
                    message,
                    span: None,
                });
            }
        }
        Ok(Arc::new(NullProgram(work.clone())))
    }
    fn describe(&self) -> String {
        "runs nothing, reports everything; for tests of plans".into()
    }
    fn sync(&self) -> Result<()> {
        Ok(())
    }
    fn memory(&self) -> MemoryStats {
        self.memory.lock().0.stats()
    }
    fn with_ledger(&self, look: &mut dyn FnMut(&mut Ledger)) -> bool {
        look(&mut self.memory.lock().0);
        true
    }
    fn set_memory_limit(&self, bytes: u64) {
        self.memory.lock().0.set_limit(bytes);
    }
    fn empty_cache(&self) {}
}

/// A program that does nothing, for a work.
#[derive(Debug)]
struct NullProgram(Workload);

impl Program for NullProgram {
    fn source(&self) -> String {
        format!("{:#?}", self.0)
    }
    fn launch(&self, _bindings: &Bindings<'_>) -> Result<()> {
        Ok(())
    }
    fn compiled(&self) -> Option<u64> {
        None
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
