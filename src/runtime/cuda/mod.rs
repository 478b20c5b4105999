//! NVIDIA GPUs, through CUDA's driver and NVRTC, both loaded at run time. The
//! only folder that knows cudarc.
//!
//! - [`driver`]: the driver's calls, made safe.
//! - [`nvrtc`]: the compiler.
//! - [`gpu`]: an opened device, its memory, its errors.
//! - [`graph`]: launches of a plan that runs again, as CUDA graphs.
//! - [`library`]: products by cuBLASLt.
//! - `collective`: collectives by NCCL.
//! - [`peers`]: copies from one device to another.
//! - [`pinned`]: pinned memory of the host, copied from beside kernels.
//! - [`reports`]: bad indices.
//! - [`times`]: when launches ran, for those who record them.
//! - [`tune`]: the fastest of a template's variants and the library.
//! - [`program`]: kernels, launched; users' kernels, on the host.

#[cfg(feature = "nccl")]
pub mod collective;
pub mod driver;
pub mod gpu;
pub mod graph;
pub mod library;
pub mod nvrtc;
pub mod peers;
pub mod pinned;
pub mod program;
pub mod reports;
pub mod times;
pub mod tune;

#[cfg(test)]
mod tests;

use std::any::Any;
use std::sync::Arc;

use crate::base::tuning::chooses_by_timing;
use crate::base::{Device, Optimization, Result};
use crate::ir::DeviceBuffer;
#[cfg(feature = "nccl")]
use crate::ir::device_collective::DeviceCollective;
use crate::kernel::Workload;
use crate::render::{self, GpuTarget};
#[cfg(feature = "nccl")]
use crate::runtime::RankCollective;
use crate::runtime::cuda::driver::Outcome;
use crate::runtime::cuda::gpu::CudaGpu;
use crate::runtime::cuda::library::LibraryProgram;
use crate::runtime::cuda::peers::Peers;
use crate::runtime::cuda::program::CudaHostProgram;
use crate::runtime::cuda::reports::CudaReports;
use crate::runtime::{
    Backend, Binding, Capabilities, Download, InPlace, Launch, LaunchClock, Ledger, MemoryStats, Program,
    Properties, Replay, host,
};

/// An NVIDIA GPU as a device.
#[derive(Debug)]
pub struct CudaBackend {
    gpu: Arc<CudaGpu>,
    reports: Arc<CudaReports>,
    peers: Peers,
    /// What kernels are rendered for.
    target: GpuTarget,
    capabilities: Capabilities,
}

/// Whether the first device can be used.
pub fn is_present() -> bool {
    CudaGpu::open(Device::cuda(0)).is_ok()
}

/// What a device with so many multiprocessors can do.
pub fn capabilities(processors: usize) -> Capabilities {
    Capabilities {
        max_bindings: 128,
        workers: processors,
        row_bytes: 32 << 10,
        attention: Some(render::cuda::attention::LIMITS),
        missing: &[],
        in_place: InPlace::SingleOutput,
        late_index_errors: true,
        cheap_guards: true,
        joint_rows: Optimization::JointLaunches.is_on(),
        output_alignment: 16,
        can_block: true,
    }
}

impl CudaBackend {
    /// The device of that name; the process opens each once.
    ///
    /// # Errors
    /// What is missing, and what mends it.
    pub fn open(name: Device) -> Result<CudaBackend> {
        let gpu = CudaGpu::open(name)?;
        let reports = Arc::new(CudaReports::new(&gpu)?);
        let capabilities = capabilities(gpu.driver.info.processors);
        let target = gpu.target();
        Ok(CudaBackend { gpu, reports, peers: Peers::default(), target, capabilities })
    }

    /// The opened device.
    pub fn gpu(&self) -> &Arc<CudaGpu> {
        &self.gpu
    }

    /// Waits with `wait`, then gives the error that launches before reported,
    /// those of other devices whose results came here among them.
    fn after(&self, wait: impl FnOnce() -> Outcome<()>) -> Result<()> {
        let waited = self.reports.after(&self.gpu, || wait().map_err(|failure| self.gpu.error("", failure)));
        self.gpu.times.settle(&self.gpu);
        waited?;
        self.peers.settle()
    }

    fn at(binding: Binding<'_>) -> u64 {
        binding.buffer.handle + binding.offset as u64
    }
}

impl Backend for CudaBackend {
    fn device(&self) -> Device {
        self.gpu.name
    }
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }
    fn allocate(&self, bytes: usize) -> Result<DeviceBuffer> {
        gpu::allocate(&self.gpu, bytes)
    }
    fn allocate_to_fill(&self, bytes: usize) -> Result<DeviceBuffer> {
        pinned::allocate_to_fill(&self.gpu, bytes)
    }
    fn allocate_pinned(&self, bytes: usize) -> Result<DeviceBuffer> {
        pinned::allocate(&self.gpu, bytes)
    }
    fn write_from(
        &self,
        to: Binding<'_>,
        from: &Arc<DeviceBuffer>,
        start: usize,
        bytes: usize,
    ) -> Result<()> {
        if !from.is_pinned() {
            return self.write(to, &host::bytes(from)[start..start + bytes]);
        }
        if bytes == 0 { Ok(()) } else { pinned::write(&self.gpu, to, from, start, bytes) }
    }
    fn write(&self, to: Binding<'_>, data: &[u8]) -> Result<()> {
        // In the order of kernels, so nobody need know that it is used now.
        self.gpu.pinned.forget(to.buffer.handle);
        pinned::stage(&self.gpu, Self::at(to), data)
    }
    fn upload(&self, data: &[u8]) -> Result<DeviceBuffer> {
        let buffer = self.allocate(data.len())?;
        pinned::stage(&self.gpu, buffer.handle, data)?;
        Ok(buffer)
    }
    fn download(&self, buffer: &DeviceBuffer, start: usize, out: &mut [u8]) -> Result<()> {
        if out.is_empty() {
            return Ok(());
        }
        self.after(|| self.gpu.driver.read(buffer.handle + start as u64, out))
    }
    fn download_all(&self, parts: &mut [Download<'_>]) -> Result<()> {
        let parts = parts.iter_mut().filter(|part| !part.out.is_empty());
        let parts = parts.map(|part| (part.buffer.handle + part.start as u64, &mut *part.out));
        self.after(|| self.gpu.driver.read_all(parts))
    }
    fn scratch(&self, work: &Workload) -> usize {
        // What cannot be rendered is refused when it is compiled.
        let shader = render::cuda::render_work(work, &self.target).ok().flatten();
        let own = shader.map_or(0, |shader| program::scratch_of(&shader));
        // Which way it goes is known when it is compiled.
        LibraryProgram::of(&self.gpu, work).map_or(own, |library| own.max(library.workspace()))
    }
    fn replays(&self, program: &dyn Program) -> bool {
        program::replays(program)
    }
    fn launch_all(&self, launches: &[Launch<'_>], replay: &Replay) -> Result<u64> {
        program::launch_all(&self.gpu, launches, replay)
    }
    fn copy(&self, from: Binding<'_>, to: Binding<'_>, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let copied = self.gpu.driver.copy(Self::at(from), Self::at(to), bytes);
        copied.map_err(|failure| self.gpu.error("", failure))
    }
    fn copy_from_peer(
        &self,
        to: Binding<'_>,
        source: &dyn Backend,
        from: Binding<'_>,
        bytes: usize,
    ) -> Result<bool> {
        let Some(source) = (source as &dyn Any).downcast_ref::<CudaBackend>() else { return Ok(false) };
        self.gpu.pinned.forget(to.buffer.handle);
        let from = (&source.gpu, &source.reports, Self::at(from));
        self.peers.copy((&self.gpu, Self::at(to)), from, bytes)
    }
    #[cfg(feature = "nccl")]
    fn collective(&self, part: &RankCollective<'_>) -> Result<Option<Box<dyn DeviceCollective>>> {
        self.gpu.pinned.forget(part.result.0.handle);
        let prepared = collective::prepare(&self.gpu, part)?;
        Ok(prepared.map(|prepared| Box::new(prepared) as Box<dyn DeviceCollective>))
    }
    fn compile(&self, work: &Workload) -> Result<Arc<dyn Program>> {
        let (gpu, reports) = (self.gpu.clone(), self.reports.clone());
        if let Workload::Custom(custom, inputs, outputs) = work {
            let (custom, inputs, outputs) = (custom.clone(), inputs.clone(), outputs.clone());
            return Ok(Arc::new(CudaHostProgram { gpu, reports, custom, inputs, outputs }));
        }
        tune::program(&gpu, &reports, work, &self.target)
    }
    fn compiles_in_parallel(&self) -> bool {
        // Variants are timed one by one.
        !chooses_by_timing(false)
    }
    fn describe(&self) -> String {
        let info = &self.gpu.driver.info;
        let ((major, minor), (cuda, point)) = (info.capability, info.driver);
        format!("{} (sm_{major}{minor}, {} MiB, CUDA {cuda}.{point})", info.name, info.bytes >> 20)
    }
    fn properties(&self) -> Properties {
        let info = &self.gpu.driver.info;
        let ((major, minor), (cuda, point)) = (info.capability, info.driver);
        Properties {
            name: info.name.clone(),
            capability: format!("{major}.{minor}"),
            driver: format!("CUDA {cuda}.{point}"),
            compute_units: info.processors,
            total_memory: Some(info.bytes as u64),
            ..Properties::of(&self.capabilities)
        }
    }
    fn launch_clock(&self) -> LaunchClock {
        if self.gpu.driver.tells_times() { LaunchClock::Device } else { LaunchClock::Waiting }
    }
    fn sync(&self) -> Result<()> {
        self.after(|| self.gpu.driver.wait())
    }
    fn memory(&self) -> MemoryStats {
        self.gpu.memory()
    }
    fn driver_memory(&self) -> Option<(u64, u64)> {
        self.gpu.driver.free_and_total()
    }
    fn with_ledger(&self, look: &mut dyn FnMut(&mut Ledger)) -> bool {
        look(&mut gpu::lock(&self.gpu.ledger));
        true
    }
    fn set_memory_limit(&self, bytes: u64) {
        self.gpu.set_memory_limit(bytes);
    }
    fn empty_cache(&self) {
        self.gpu.pinned.trim(&self.gpu);
        self.gpu.driver.trim();
    }
}
