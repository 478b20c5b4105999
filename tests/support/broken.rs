//! A device that computes something else than it is told.

use std::sync::Arc;

use kiln::unstable::ir::DeviceBuffer;
use kiln::unstable::kernel::{ExprNode, Kernel, Workload};
use kiln::unstable::runtime::cpu::CpuBackend;
use kiln::unstable::runtime::{Backend, Binding, Capabilities, MemoryStats, Program};
use kiln::{Device, Result};

/// The CPU with a bug in its compiler.
#[derive(Debug)]
pub struct BrokenBackend {
    cpu: CpuBackend,
    bug: Bug,
}

/// What the compiler does to each expression.
pub type Bug = fn(&mut ExprNode);

impl BrokenBackend {
    /// A CPU whose kernels have this bug.
    pub fn new(bug: Bug) -> BrokenBackend {
        BrokenBackend { cpu: CpuBackend::new(), bug }
    }
}

impl Backend for BrokenBackend {
    fn device(&self) -> Device {
        self.cpu.device()
    }
    fn capabilities(&self) -> &Capabilities {
        self.cpu.capabilities()
    }
    fn allocate(&self, bytes: usize) -> Result<DeviceBuffer> {
        self.cpu.allocate(bytes)
    }
    fn upload(&self, data: &[u8]) -> Result<DeviceBuffer> {
        self.cpu.upload(data)
    }
    fn download(&self, buffer: &DeviceBuffer, start: usize, out: &mut [u8]) -> Result<()> {
        self.cpu.download(buffer, start, out)
    }
    fn copy(&self, from: Binding<'_>, to: Binding<'_>, bytes: usize) -> Result<()> {
        self.cpu.copy(from, to, bytes)
    }
    fn compile(&self, work: &Workload) -> Result<Arc<dyn Program>> {
        let Some(kernel) = work.kernel() else { return self.cpu.compile(work) };
        let mut kernel: Kernel = kernel.clone();
        kernel.exprs.iter_mut().for_each(self.bug);
        self.cpu.compile(&Workload::Kernel(kernel))
    }
    fn sync(&self) -> Result<()> {
        self.cpu.sync()
    }
    fn memory(&self) -> MemoryStats {
        self.cpu.memory()
    }
    fn set_memory_limit(&self, bytes: u64) {
        self.cpu.set_memory_limit(bytes);
    }
    fn empty_cache(&self) {
        self.cpu.empty_cache();
    }
}
