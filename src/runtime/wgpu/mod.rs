//! The portable GPU device, through wgpu: Vulkan, Metal, DX12. The only
//! folder that knows wgpu.
//!
//! - [`adapter`]: which adapters there are, and what they can do.
//! - [`gpu`]: an opened device and its errors.
//! - [`memory`]: blocks, pooled.
//! - [`pipeline`]: compiled shaders.
//! - [`queue`]: what is recorded, submitted, read back.
//! - [`answers`]: what the device tells, as futures.
//! - [`reports`]: bad indices.
//! - [`timestamps`]: the times of launches that somebody records.
//! - [`staging`]: what the host writes through.
//! - [`program`]: kernels, launched.
//! - [`tune`]: the fastest of a template's variants.
//! - [`copy`]: kernels that only copy or clear, without a shader.
//! - [`custom`]: users' kernels, on the host.

pub mod adapter;
pub mod answers;
pub mod copy;
pub mod custom;
pub mod gpu;
pub mod memory;
pub mod pipeline;
pub mod program;
pub mod queue;
pub mod reports;
pub mod staging;
pub mod timestamps;
pub mod tune;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use crate::base::system::THREADS_WAIT;
use crate::base::{DType, Device, Optimization, Result};
use crate::ir::DeviceBuffer;
use crate::kernel::Workload;
use crate::render::{Adapter, attention};
use crate::runtime::wgpu::copy::CopyProgram;
use crate::runtime::wgpu::custom::WgpuHostProgram;
use crate::runtime::wgpu::gpu::{WgpuGpu, lock};
use crate::runtime::wgpu::program::ShaderProgram;
use crate::runtime::wgpu::reports::WgpuReports;
use crate::runtime::{
    Backend, Binding, Capabilities, Download, InPlace, LaunchClock, Ledger, MemoryStats, Pending, Program,
    Properties, host,
};

/// The devices that the process has opened.
static OPEN: LazyLock<Mutex<HashMap<Device, Arc<WgpuGpu>>>> = LazyLock::new(Mutex::default);

/// An adapter as a device.
#[derive(Debug)]
pub struct WgpuBackend {
    gpu: Arc<WgpuGpu>,
    reports: Arc<WgpuReports>,
    capabilities: Capabilities,
}

impl WgpuBackend {
    /// The device of that number; the process opens each adapter once, and
    /// again if it was lost.
    ///
    /// # Errors
    /// No such adapter, or its driver refuses.
    pub fn open(name: Device) -> Result<WgpuBackend> {
        // Locked while it opens: memory of two could not be used together.
        let mut open = lock(&OPEN);
        let gpu = match open.get(&name).filter(|gpu| !gpu.is_lost()) {
            Some(gpu) => gpu.clone(),
            None => {
                let gpu = WgpuGpu::open(name)?;
                open.insert(name, gpu.clone());
                gpu
            }
        };
        Ok(WgpuBackend::of(gpu))
    }

    /// Whether a device of that number has been opened, and is not lost.
    pub fn is_open(name: Device) -> bool {
        lock(&OPEN).get(&name).is_some_and(|gpu| !gpu.is_lost())
    }

    /// A backend of an opened device.
    pub fn of(gpu: Arc<WgpuGpu>) -> WgpuBackend {
        // Room for the report of bad indices and the outputs' own pieces.
        let max_bindings = gpu.target.max_buffers.saturating_sub(1).max(4);
        // The bits of 64-bit floats are 64-bit integers.
        let has_doubles = gpu.target.int64 && gpu.target.float64;
        let missing: &'static [DType] = if has_doubles { &[] } else { &[DType::F64] };
        // How many compute units a GPU has, wgpu does not say.
        let (workers, row_bytes) = match gpu.target.adapter {
            Adapter::Software => (std::thread::available_parallelism().map_or(1, usize::from), 128 << 10),
            Adapter::Integrated => (16, 32 << 10),
            Adapter::Discrete => (128, 32 << 10),
        };
        let reports = Arc::new(WgpuReports::new(&gpu.device));
        let attention = attention::range(&gpu.target);
        let in_place = if gpu.target.separate_buffers { InPlace::Never } else { InPlace::SingleOutput };
        let joint_rows = !gpu.target.separate_buffers && Optimization::JointLaunches.is_on();
        WgpuBackend {
            gpu,
            reports,
            capabilities: Capabilities {
                max_bindings,
                workers,
                row_bytes,
                attention,
                missing,
                in_place,
                late_index_errors: true,
                cheap_guards: true,
                joint_rows,
                output_alignment: 256,
                can_block: THREADS_WAIT,
            },
        }
    }

    fn blocks_of(&self, parts: &[Download<'_>]) -> Result<Vec<wgpu::Buffer>> {
        let blocks = lock(&self.gpu.blocks);
        parts.iter().map(|part| blocks.get(part.buffer)).collect()
    }

    /// The opened device.
    pub fn gpu(&self) -> &Arc<WgpuGpu> {
        &self.gpu
    }
}

impl Backend for WgpuBackend {
    fn device(&self) -> Device {
        self.gpu.name
    }
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }
    fn allocate(&self, bytes: usize) -> Result<DeviceBuffer> {
        memory::allocate(&self.gpu, bytes)
    }
    fn upload(&self, data: &[u8]) -> Result<DeviceBuffer> {
        let buffer = memory::allocate_to_fill(&self.gpu, data.len())?;
        if !data.is_empty() {
            let block = lock(&self.gpu.blocks).get(&buffer)?;
            self.gpu.write((&block, 0), data)?;
        }
        Ok(buffer)
    }
    fn download(&self, buffer: &DeviceBuffer, start: usize, out: &mut [u8]) -> Result<()> {
        if out.is_empty() {
            return Ok(());
        }
        let block = lock(&self.gpu.blocks).get(buffer)?;
        self.gpu.read(&self.reports, &block, start as u64, out)
    }
    fn copy(&self, from: Binding<'_>, to: Binding<'_>, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let (source, target) = {
            let blocks = lock(&self.gpu.blocks);
            (blocks.get(from.buffer)?, blocks.get(to.buffer)?)
        };
        let whole = from.offset.is_multiple_of(4) && to.offset.is_multiple_of(4) && bytes.is_multiple_of(4);
        if whole && source != target {
            let (from, to) = ((&source, from.offset as u64), (&target, to.offset as u64));
            return self.gpu.record_copy(from, to, bytes as u64);
        }
        program::copy_bytes(&self.gpu, from, to, bytes)
    }
    fn write(&self, to: Binding<'_>, data: &[u8]) -> Result<()> {
        let to_end = to.offset + data.len() == to.buffer.bytes;
        if to.offset.is_multiple_of(8) && (data.len().is_multiple_of(4) || to_end) {
            let block = lock(&self.gpu.blocks).get(to.buffer)?;
            return if data.is_empty() { Ok(()) } else { self.gpu.write((&block, to.offset as u64), data) };
        }
        let staged = self.upload(data)?;
        self.copy(Binding { buffer: &staged, offset: 0 }, to, data.len())
    }
    fn download_all(&self, parts: &mut [Download<'_>]) -> Result<()> {
        self.gpu.read_all(&self.reports, &self.blocks_of(parts)?, parts)
    }
    fn download_async<'a>(&'a self, parts: &'a mut [Download<'_>]) -> Pending<'a> {
        Box::pin(async move { self.gpu.read_async(&self.reports, &self.blocks_of(parts)?, parts).await })
    }
    fn scratch(&self, work: &Workload) -> usize {
        // What cannot be rendered is refused when it is compiled.
        let shader = crate::render::wgsl::render_work(work, &self.gpu.target).ok().flatten();
        shader.map_or(0, |shader| shader.scratch.iter().sum())
    }
    fn compile(&self, work: &Workload) -> Result<Arc<dyn Program>> {
        if let Workload::Custom(custom, inputs, outputs) = work {
            return Ok(Arc::new(WgpuHostProgram {
                gpu: self.gpu.clone(),
                reports: self.reports.clone(),
                custom: custom.clone(),
                inputs: inputs.clone(),
                outputs: outputs.clone(),
            }));
        }
        if let Some(copy) = CopyProgram::of(&self.gpu, &self.reports, work) {
            return Ok(Arc::new(copy));
        }
        Ok(Arc::new(ShaderProgram::new(self.gpu.clone(), self.reports.clone(), work.clone())?))
    }
    fn describe(&self) -> String {
        adapter::describe(&self.gpu.info)
    }
    fn launch_clock(&self) -> LaunchClock {
        if timestamps::are_there(&self.gpu) { LaunchClock::Device } else { LaunchClock::Waiting }
    }
    fn flush(&self) -> Result<()> {
        self.gpu.submit()
    }
    fn sync(&self) -> Result<()> {
        self.gpu.finish(&self.reports)
    }
    fn sync_async(&self) -> Pending<'_> {
        Box::pin(self.gpu.read_async(&self.reports, &[], &mut []))
    }
    fn memory(&self) -> MemoryStats {
        lock(&self.gpu.blocks).stats()
    }
    fn set_memory_limit(&self, bytes: u64) {
        lock(&self.gpu.blocks).ledger().set_limit(bytes);
    }
    fn with_ledger(&self, look: &mut dyn FnMut(&mut Ledger)) -> bool {
        look(lock(&self.gpu.blocks).ledger());
        true
    }
    fn driver_memory(&self) -> Option<(u64, u64)> {
        host::system_memory().filter(|_| memory::is_host_memory(&self.gpu.info))
    }
    fn properties(&self) -> Properties {
        let info = &self.gpu.info;
        Properties {
            name: info.name.clone(),
            capability: format!("{:?}", info.backend),
            driver: format!("{} {}", info.driver, info.driver_info).trim_end().into(),
            total_memory: self.driver_memory().map(|(_, total)| total),
            simulated: info.device_type == wgpu::DeviceType::Cpu,
            ..Properties::of(&self.capabilities)
        }
    }
    fn empty_cache(&self) {
        lock(&self.gpu.blocks).empty_cache();
        self.gpu.staging.empty();
    }
}
