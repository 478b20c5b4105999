//! The CPU device.

mod attention;
mod contraction;
mod convolution;
#[cfg(feature = "linalg")]
pub mod decomposition;
pub mod fourier;
pub mod gemm;
mod interpreter;
pub mod memory;
pub mod pool;
pub(crate) mod reference;
mod regions;
mod row_product;
mod sort;
mod stencil;
mod team;
pub mod threads;
pub mod thresholds;
pub mod tile;
mod winograd;

use std::any::Any;
use std::cmp::Reverse;
use std::sync::Arc;

use kiln_simd::micro;
use smallvec::SmallVec;

use crate::base::{Device, Error, Optimization, Result};
use crate::ir::{Custom, DeviceBuffer, Type};
use crate::kernel::horizontal_fusion::fuse_horizontally;
use crate::kernel::index_set_splitting::split_index_set;
use crate::kernel::{Contraction, JointWork, Kernel, KernelRoot, Sort, Workload};
use crate::runtime::cpu::attention::AttentionProgram;
use crate::runtime::cpu::contraction::joint::JointLaunch;
use crate::runtime::cpu::interpreter::INTERPRETS;
use crate::runtime::cpu::memory::MemoryView;
use crate::runtime::cpu::pool::HostPool;
use crate::runtime::cpu::row_product::ColumnOrder;
use crate::runtime::cpu::stencil::Stencil;
use crate::runtime::cpu::thresholds::{CAPABILITY_ROW_BYTES, SPLIT_MIN_POINTS};
use crate::runtime::cpu::winograd::Winograd;
use crate::runtime::{
    Backend, Binding, Bindings, Capabilities, InPlace, Ledger, MemoryStats, Program, Properties, host,
};

/// The host processor as a device. Launches run at once, on the calling
/// thread and the device's others.
#[derive(Debug)]
pub struct CpuBackend {
    name: Device,
    pool: HostPool,
    capabilities: Capabilities,
    /// Whether it interprets kernels.
    interprets: bool,
}

impl CpuBackend {
    /// The device, with host memory's pool.
    pub fn new() -> CpuBackend {
        CpuBackend::with_pool(Device::cpu(), host::pool().clone())
    }

    /// A virtual device: the host processor under another name, with a pool
    /// of its own. Another family's name makes it a simulator of that device.
    pub fn named(name: Device) -> CpuBackend {
        CpuBackend::with_pool(name, HostPool::new(name))
    }

    fn with_pool(name: Device, pool: HostPool) -> CpuBackend {
        let capabilities = Capabilities {
            max_bindings: 64,
            workers: threads::count(),
            row_bytes: CAPABILITY_ROW_BYTES,
            attention: Some(attention::RANGE),
            missing: &[],
            in_place: InPlace::AnyOutputs,
            late_index_errors: false,
            cheap_guards: false,
            joint_rows: Optimization::JointLaunches.is_on(),
            output_alignment: 1,
            can_block: true,
        };
        let compiling = CpuBackend { name, pool, capabilities, interprets: false };
        if INTERPRETS { compiling.as_interpreter() } else { compiling }
    }

    /// The same, as it is without the feature `cpu`.
    fn as_interpreter(self) -> CpuBackend {
        CpuBackend { capabilities: interpreter::limited(self.capabilities), interprets: true, ..self }
    }

    /// The device as it is without the feature `cpu`.
    #[cfg(test)]
    fn interpreting() -> CpuBackend {
        CpuBackend::new().as_interpreter()
    }
}

impl Default for CpuBackend {
    fn default() -> CpuBackend {
        CpuBackend::new()
    }
}

impl Backend for CpuBackend {
    fn device(&self) -> Device {
        self.name
    }
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }
    fn allocate(&self, bytes: usize) -> Result<DeviceBuffer> {
        self.pool.allocate(bytes)
    }
    fn upload(&self, data: &[u8]) -> Result<DeviceBuffer> {
        host::upload_to(&self.pool, data)
    }
    fn download(&self, buffer: &DeviceBuffer, start: usize, out: &mut [u8]) -> Result<()> {
        out.copy_from_slice(&host::bytes_of_pool(buffer)[start..start + out.len()]);
        Ok(())
    }
    fn copy(&self, from: Binding<'_>, to: Binding<'_>, bytes: usize) -> Result<()> {
        assert!(from.offset + bytes <= from.buffer.bytes && to.offset + bytes <= to.buffer.bytes);
        // SAFETY: both ranges are inside their blocks, as just checked; `copy`
        // allows them to overlap.
        unsafe {
            let source = (from.buffer.handle as *const u8).add(from.offset);
            std::ptr::copy(source, (to.buffer.handle as *mut u8).add(to.offset), bytes);
        }
        Ok(())
    }
    fn write(&self, to: Binding<'_>, data: &[u8]) -> Result<()> {
        assert!(to.offset + data.len() <= to.buffer.bytes);
        // SAFETY: the range is inside the block, as just checked, and no part
        // of what the host lends.
        unsafe {
            let target = (to.buffer.handle as *mut u8).add(to.offset);
            std::ptr::copy_nonoverlapping(data.as_ptr(), target, data.len());
        }
        Ok(())
    }
    fn compile(&self, work: &Workload) -> Result<Arc<dyn Program>> {
        Ok(match work {
            Workload::Kernel(kernel) if INTERPRETS || self.interprets => interpreter::program(kernel),
            Workload::Kernel(kernel) => match &kernel.root {
                KernelRoot::Contraction(product) => compile_product(kernel, product),
                KernelRoot::Attention(attention) => Arc::new(AttentionProgram::new(kernel, attention)),
                KernelRoot::Elementwise | KernelRoot::Scatter(_) => compile_loops(kernel),
            },
            Workload::Sort(sort) => Arc::new(SortProgram(sort.clone())),
            Workload::Custom(custom, inputs, outputs) => Arc::new(CustomProgram {
                custom: custom.clone(),
                inputs: inputs.clone(),
                outputs: outputs.clone(),
            }),
            Workload::Joint(joint) => {
                let programs = joint.works().iter().map(|work| self.compile(work)).collect::<Result<_>>()?;
                Arc::new(JointProgram { work: joint.clone(), programs })
            }
        })
    }
    fn sync(&self) -> Result<()> {
        Ok(())
    }
    fn describe(&self) -> String {
        self.properties().name
    }
    fn properties(&self) -> Properties {
        let level = match micro::level() {
            micro::Level::Base => "",
            micro::Level::Avx2 => "AVX2",
            micro::Level::Avx512 => "AVX-512",
        };
        let processor = host::processor().unwrap_or_else(|| std::env::consts::ARCH.into());
        let simulated = self.name != Device::cpu();
        Properties {
            name: if simulated { format!("virtual device on {processor}") } else { processor },
            capability: format!("{} {level}", std::env::consts::ARCH).trim_end().into(),
            driver: format!("kiln {}", env!("CARGO_PKG_VERSION")),
            total_memory: host::system_memory().map(|(_, total)| total),
            simulated,
            ..Properties::of(&self.capabilities)
        }
    }
    fn driver_memory(&self) -> Option<(u64, u64)> {
        host::system_memory()
    }
    fn memory(&self) -> MemoryStats {
        self.pool.stats()
    }
    fn with_ledger(&self, look: &mut dyn FnMut(&mut Ledger)) -> bool {
        self.pool.with_ledger(look);
        true
    }
    fn set_memory_limit(&self, bytes: u64) {
        self.pool.set_limit(bytes);
    }
    fn empty_cache(&self) {
        self.pool.empty_cache();
    }
}

/// The program of a kernel with a contraction.
fn compile_product(kernel: &Kernel, product: &Contraction) -> Arc<dyn Program> {
    if Optimization::Stencils.is_on()
        && let Some(stencil) = Stencil::of(kernel, product)
    {
        return Arc::new(stencil);
    }
    if let Some(sums) = contraction::sums(kernel) {
        return Arc::new(LoopProgram::new(&sums, SPLIT_MIN_POINTS));
    }
    match Winograd::of(kernel, product).filter(|_| Optimization::Winograd.is_on()) {
        Some(convolution) => Arc::new(convolution),
        None => Arc::new(ProductProgram(contraction::compile(kernel, product))),
    }
}

/// The program of a kernel without a contraction.
fn compile_loops(kernel: &Kernel) -> Arc<dyn Program> {
    match contraction::differences::of(kernel).filter(|_| Optimization::DistanceProducts.is_on()) {
        Some((kernel, contraction, terms)) => {
            Arc::new(ProductProgram(contraction::compile_terms(&kernel, &contraction, terms)))
        }
        None => Arc::new(LoopProgram::new(kernel, SPLIT_MIN_POINTS)),
    }
}

/// A program for each piece of a kernel.
#[derive(Debug)]
struct LoopProgram(Vec<tile::TileProgram>);

impl LoopProgram {
    /// Cuts grids of `least` points and more.
    fn new(kernel: &Kernel, least: usize) -> LoopProgram {
        let outputs = kernel.stores.len();
        let mut pieces = match Optimization::IndexSetSplitting.is_on() {
            true => fuse_horizontally(split_index_set(kernel, least)),
            false => vec![kernel.clone()],
        };
        // Along the rows of the largest hardware prefetches memory, which the others, mostly
        // borders, then find in the cache.
        pieces.sort_by_key(|piece| Reverse(piece.level_points(0)));
        LoopProgram(pieces.iter().map(|piece| tile::compile(piece, outputs)).collect())
    }
}

impl Program for LoopProgram {
    fn source(&self) -> String {
        self.0.iter().map(ToString::to_string).collect()
    }
    fn launch(&self, bindings: &Bindings<'_>) -> Result<()> {
        tile::launch(&self.0, bindings);
        Ok(())
    }
    fn compiled(&self) -> Option<u64> {
        None
    }
}

#[derive(Debug)]
struct ProductProgram(contraction::ContractionProgram);

impl Program for ProductProgram {
    fn source(&self) -> String {
        self.0.source()
    }
    fn launch(&self, bindings: &Bindings<'_>) -> Result<()> {
        self.0.launch(bindings);
        Ok(())
    }
    fn compiled(&self) -> Option<u64> {
        None
    }
}

/// Products of one row, of which threads take columns of all at once; kernels one by one where they are not all
/// multiplied so.
#[derive(Debug)]
struct JointProgram {
    work: JointWork,
    /// Of each part.
    programs: Vec<Arc<dyn Program>>,
}

impl Program for JointProgram {
    fn source(&self) -> String {
        self.programs.iter().map(|program| program.source()).collect()
    }
    fn launch(&self, bindings: &Bindings<'_>) -> Result<()> {
        let order =
            if self.work.aliases.is_empty() { ColumnOrder::Independent } else { ColumnOrder::Elementwise };
        let parts = self.programs.iter().zip(self.work.parts());
        let parts: SmallVec<[(&dyn Program, Bindings<'_>); 4]> =
            parts.map(|(program, part)| (&**program, bindings.of_part(&part))).collect();
        let rows = parts.iter().map(|(program, bindings)| Some((row_product_of(*program)?, bindings)));
        match rows.collect::<Option<SmallVec<[JointLaunch<'_>; 4]>>>() {
            Some(rows) => contraction::joint::launch(&rows, order),
            None => parts.iter().try_for_each(|(program, bindings)| program.launch(bindings))?,
        }
        Ok(())
    }
    fn compiled(&self) -> Option<u64> {
        None
    }
}

/// The contraction of a program, if it is of one row.
fn row_product_of(program: &dyn Program) -> Option<&contraction::ContractionProgram> {
    let ProductProgram(product) = (program as &dyn Any).downcast_ref()?;
    product.is_of_one_row().then_some(product)
}

#[derive(Debug)]
struct SortProgram(Sort);

impl Program for SortProgram {
    fn source(&self) -> String {
        self.0.to_string()
    }
    fn launch(&self, bindings: &Bindings<'_>) -> Result<()> {
        sort::sort(&self.0, MemoryView::of(&bindings.inputs[0]), MemoryView::of(&bindings.outputs[0]));
        Ok(())
    }
    fn compiled(&self) -> Option<u64> {
        None
    }
}

#[derive(Debug)]
struct CustomProgram {
    custom: Arc<dyn Custom>,
    inputs: Vec<Type>,
    outputs: Vec<Type>,
}

impl Program for CustomProgram {
    fn source(&self) -> String {
        format!("custom {}", self.custom.name())
    }
    fn launch(&self, bindings: &Bindings<'_>) -> Result<()> {
        let (inputs, outputs) = (memory::inputs_of(bindings), memory::outputs_of(bindings));
        // SAFETY: bindings hold at least the bytes of their types; outputs are
        // this launch's alone and overlap nothing.
        let operands: Vec<&[u8]> = (inputs.iter().zip(&self.inputs))
            .map(|(m, ty)| unsafe { std::slice::from_raw_parts(m.start, ty.bytes()) })
            .collect();
        // SAFETY: as above.
        let mut results: Vec<&mut [u8]> = (outputs.iter().zip(&self.outputs))
            .map(|(m, ty)| unsafe { std::slice::from_raw_parts_mut(m.start, ty.bytes()) })
            .collect();
        self.custom.run_cpu(&operands, &mut results).map_err(|message| Error::Kernel {
            kernel: self.custom.name().to_string(),
            device: Device::cpu(),
            message,
            span: None,
        })
    }
}

#[cfg(test)]
pub(in crate::runtime) mod tests;
