//! Compiled work, and how it is launched.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use crate::base::Result;
use crate::ir::{Custom, Type};
use crate::kernel::Workload;
use crate::render::{GpuTarget, Pass, PassBuffer, Shader, cuda};
use crate::runtime::cuda::driver::LoadedFunction;
use crate::runtime::cuda::driver::call::{DriverCall, KernelCall};
use crate::runtime::cuda::gpu::{CudaGpu, allocate};
use crate::runtime::cuda::graph;
use crate::runtime::cuda::library::LibraryProgram;
use crate::runtime::cuda::reports::CudaReports;
use crate::runtime::sources;
use crate::runtime::{Binding, Bindings, Launch, Program, Replay};

/// A kernel as functions. Where inputs do not start at multiples of four
/// elements, in a second version that needs no such thing.
pub struct CudaProgram {
    gpu: Arc<CudaGpu>,
    reports: Arc<CudaReports>,
    work: Workload,
    target: GpuTarget,
    aligned: LoadedShader,
    unaligned: OnceLock<LoadedShader>,
}

/// A shader with its functions.
#[derive(Debug)]
struct LoadedShader {
    shader: Shader,
    functions: Vec<Arc<LoadedFunction>>,
}

impl CudaProgram {
    /// Renders and compiles.
    ///
    /// # Errors
    /// What the compiler said.
    pub fn new(
        gpu: Arc<CudaGpu>,
        reports: Arc<CudaReports>,
        work: Workload,
        target: GpuTarget,
    ) -> Result<CudaProgram> {
        let aligned = LoadedShader::new(&gpu, rendered(&gpu, &work, &target)?)?;
        Ok(CudaProgram { gpu, reports, work, target, aligned, unaligned: OnceLock::new() })
    }

    /// Work in a text of a test's.
    #[cfg(test)]
    pub fn with_text(
        gpu: Arc<CudaGpu>,
        reports: Arc<CudaReports>,
        work: Workload,
        target: GpuTarget,
        rewrite: impl Fn(&str) -> String,
    ) -> Result<CudaProgram> {
        let mut shader = rendered(&gpu, &work, &target)?;
        shader.passes.iter_mut().for_each(|pass| pass.source = rewrite(&pass.source));
        let aligned = LoadedShader::new(&gpu, shader)?;
        Ok(CudaProgram { gpu, reports, work, target, aligned, unaligned: OnceLock::new() })
    }

    /// The version for these bindings.
    fn version(&self, bindings: &Bindings<'_>) -> Result<&LoadedShader> {
        let passes = &self.aligned.shader.passes;
        let starts_at = |slot: usize, unit: usize| bindings.inputs[slot].offset.is_multiple_of(unit);
        let mut fours = passes.iter().flat_map(|pass| &pass.vec4_inputs);
        let mut pieces = passes.iter().flat_map(|pass| &pass.inputs_aligned_to_16);
        if fours.all(|&slot| starts_at(slot, 4 * self.work.input_dtype(slot).size()))
            && pieces.all(|&slot| starts_at(slot, 16))
        {
            return Ok(&self.aligned);
        }
        if let Some(known) = self.unaligned.get() {
            return Ok(known);
        }
        let target = GpuTarget { alignment: 1, ..self.target.clone() };
        let compiled = LoadedShader::new(&self.gpu, rendered(&self.gpu, &self.work, &target)?)?;
        Ok(self.unaligned.get_or_init(|| compiled))
    }

    /// The launches of one pass, which counts from `scratch` on.
    fn calls_of(
        &self,
        (name, pass, function): (&Arc<str>, &Pass, &Arc<LoadedFunction>),
        bindings: &Bindings<'_>,
        scratch: &[u64],
        calls: &mut Vec<DriverCall>,
    ) -> Result<()> {
        if pass.workgroups == 0 {
            return Ok(());
        }
        let groups = i32::try_from(pass.workgroups)
            .map_err(|_| self.gpu.refusal(name, format!("{} blocks are too many", pass.workgroups)))?;
        let at = |binding: &Binding<'_>| binding.buffer.handle + binding.offset as u64;
        let mut number = 0;
        let mut parameters: Vec<u64> = Vec::new();
        let address = |memory: PassBuffer| match memory {
            PassBuffer::Status => self.reports.pointer(),
            PassBuffer::Input(slot) => at(&bindings.inputs[slot]),
            PassBuffer::Output(slot) => at(&bindings.outputs[slot]),
            PassBuffer::Scratch(slot) => scratch[slot],
        };
        for slot in &pass.bindings {
            if slot.memory == PassBuffer::Status {
                number = self.reports.site(bindings.status.site());
            }
            parameters.push(address(slot.memory));
        }
        let first = parameters.len() + 1;
        parameters.extend([u64::from(number), 0]);
        parameters.extend_from_slice(bindings.scalars);
        let maps = pass.tensor_maps.iter().map(|described| {
            let map = self.gpu.driver.tensor_map(address(described.memory), described);
            map.map_err(|failure| self.gpu.error(name, failure))
        });
        let maps = maps.collect::<Result<Vec<_>>>()?;
        let (groups, workgroup, shared_bytes) = (groups as u32, pass.workgroup_size, pass.shared_bytes);
        loop {
            let (name, function, parameters_now) = (name.clone(), function.clone(), parameters.clone());
            calls.push(DriverCall::Kernel(KernelCall {
                name,
                function,
                groups,
                workgroup,
                shared_bytes,
                parameters: parameters_now,
                maps: maps.clone(),
            }));
            parameters[first] += u64::from(pass.dispatch_stride);
            if parameters[first] >= u64::from(pass.dispatch_end) {
                return Ok(());
            }
        }
    }

    /// All launches for some bindings, with scratch memory from `scratch` on.
    fn calls(
        &self,
        compiled: &LoadedShader,
        bindings: &Bindings<'_>,
        scratch: u64,
        calls: &mut Vec<DriverCall>,
    ) -> Result<()> {
        let name: Arc<str> = self.work.name().into();
        let ends = compiled.shader.scratch.iter().scan(scratch, |end, &bytes| {
            let start = *end;
            *end += aligned(bytes) as u64;
            Some(start)
        });
        let starts: Vec<u64> = ends.collect();
        let mut passes = compiled.shader.passes.iter().zip(&compiled.functions);
        passes
            .try_for_each(|(pass, function)| self.calls_of((&name, pass, function), bindings, &starts, calls))
    }
}

/// Bytes with what separates a block of scratch memory from the next.
fn aligned(bytes: usize) -> usize {
    const ALIGNMENT: usize = 256;
    bytes.next_multiple_of(ALIGNMENT)
}

/// Bytes of memory that a shader's launches take for themselves.
pub fn scratch_of(shader: &Shader) -> usize {
    shader.scratch.iter().map(|&bytes| aligned(bytes)).sum()
}

/// A program of this device's that is launched with others, for some bindings.
enum Version<'a> {
    Kernels(&'a CudaProgram, &'a LoadedShader),
    Library(&'a LibraryProgram),
}

impl<'a> Version<'a> {
    /// Of a launch.
    fn of(launch: &Launch<'a>) -> Result<Version<'a>> {
        let program = launch.program as &dyn Any;
        match (program.downcast_ref::<CudaProgram>(), program.downcast_ref::<LibraryProgram>()) {
            (Some(program), _) => Ok(Version::Kernels(program, program.version(&launch.bindings)?)),
            (None, Some(program)) => Ok(Version::Library(program)),
            (None, None) => panic!("{:?} is not launched with others", launch.program),
        }
    }

    /// Bytes of memory that it takes for itself.
    fn scratch(&self) -> usize {
        match self {
            Version::Kernels(_, compiled) => scratch_of(&compiled.shader),
            Version::Library(program) => program.workspace(),
        }
    }

    fn calls(&self, bindings: &Bindings<'_>, scratch: u64, calls: &mut Vec<DriverCall>) -> Result<()> {
        match self {
            Version::Kernels(program, compiled) => program.calls(compiled, bindings, scratch, calls),
            Version::Library(program) => {
                calls.push(program.call(bindings, scratch));
                Ok(())
            }
        }
    }
}

/// Whether a program is launched with those before and after it.
pub fn replays(program: &dyn Program) -> bool {
    let program = program as &dyn Any;
    program.is::<CudaProgram>() || program.is::<LibraryProgram>()
}

/// Launches programs of this device that follow each other. They come one after
/// the other, so they share the memory that each takes for itself.
///
/// # Errors
/// Out of memory, the compiler's or the driver's failure.
pub fn launch_all(gpu: &Arc<CudaGpu>, launches: &[Launch<'_>], replay: &Replay) -> Result<u64> {
    let versions = launches.iter().map(Version::of).collect::<Result<Vec<_>>>()?;
    let most = versions.iter().map(Version::scratch).max().unwrap_or(0);
    let scratch = if most > 0 { Some(allocate(gpu, most)?) } else { None };
    let start = scratch.as_ref().map_or(0, |buffer| buffer.handle);
    let mut calls = Vec::new();
    for (version, launch) in versions.iter().zip(launches) {
        version.calls(&launch.bindings, start, &mut calls)?;
    }
    graph::launch(gpu, &calls, replay)
}

fn rendered(gpu: &CudaGpu, work: &Workload, target: &GpuTarget) -> Result<Shader> {
    let shader = cuda::render_work(work, target).map_err(|reason| {
        gpu.refusal(&work.name(), reason.to_string().replace("{adapter}", &gpu.driver.info.name))
    })?;
    Ok(shader.unwrap_or_else(|| panic!("work without functions: {work:?}")))
}

impl LoadedShader {
    fn new(gpu: &CudaGpu, shader: Shader) -> Result<LoadedShader> {
        let compile = |pass: &Pass| {
            let source = sources::edited(&shader.name, &pass.source, "cu");
            gpu.function(&shader.name, &source, pass.shared_bytes)
        };
        let functions = shader.passes.iter().map(compile).collect::<Result<_>>()?;
        Ok(LoadedShader { shader, functions })
    }
}

impl Program for CudaProgram {
    fn source(&self) -> String {
        self.aligned.shader.passes.iter().map(|pass| pass.source.as_str()).collect::<Vec<_>>().join("\n")
    }

    fn launch(&self, bindings: &Bindings<'_>) -> Result<()> {
        let compiled = self.version(bindings)?;
        let scratch = match scratch_of(&compiled.shader) {
            0 => None,
            bytes => Some(allocate(&self.gpu, bytes)?),
        };
        let mut calls = Vec::new();
        self.calls(compiled, bindings, scratch.as_ref().map_or(0, |buffer| buffer.handle), &mut calls)?;
        graph::one_by_one(&self.gpu, &calls)
    }
}

impl std::fmt::Debug for CudaProgram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.source())
    }
}

/// A user's kernel: reads the operands, runs on the host, writes the results.
#[derive(Debug)]
pub struct CudaHostProgram {
    /// The device.
    pub gpu: Arc<CudaGpu>,
    /// Where kernels before it report bad indices.
    pub reports: Arc<CudaReports>,
    /// The kernel.
    pub custom: Arc<dyn Custom>,
    /// Types of the operands.
    pub inputs: Vec<Type>,
    /// Types of the results.
    pub outputs: Vec<Type>,
}

impl Program for CudaHostProgram {
    fn source(&self) -> String {
        format!("custom {}, on the host", self.custom.name())
    }

    fn launch(&self, bindings: &Bindings<'_>) -> Result<()> {
        let (gpu, name) = (&self.gpu, self.custom.name());
        let mut operands: Vec<Vec<u8>> = self.inputs.iter().map(|ty| vec![0; ty.bytes()]).collect();
        self.reports.after(gpu, || {
            for (binding, bytes) in bindings.inputs.iter().zip(&mut operands).filter(|(_, b)| !b.is_empty()) {
                let read = gpu.driver.read(binding.buffer.handle + binding.offset as u64, bytes);
                read.map_err(|failure| gpu.error(name, failure))?;
            }
            Ok(())
        })?;
        let mut results: Vec<Vec<u8>> = self.outputs.iter().map(|ty| vec![0; ty.bytes()]).collect();
        let slices: Vec<&[u8]> = operands.iter().map(Vec::as_slice).collect();
        let mut out: Vec<&mut [u8]> = results.iter_mut().map(Vec::as_mut_slice).collect();
        self.custom.run_cpu(&slices, &mut out).map_err(|message| gpu.refusal(name, message))?;
        for (binding, bytes) in bindings.outputs.iter().zip(&results).filter(|(_, bytes)| !bytes.is_empty()) {
            let written = gpu.driver.write(binding.buffer.handle + binding.offset as u64, bytes);
            written.map_err(|failure| gpu.error(name, failure))?;
        }
        Ok(())
    }
}
