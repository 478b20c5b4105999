//! Compiled work, and how it is launched.

use std::sync::{Arc, OnceLock};

use crate::base::{Error, Result};
use crate::ir::DeviceBuffer;
use crate::kernel::Workload;
use crate::render::shader::{BufferBinding, DISPATCH_START, INPUT_OFFSETS, LAUNCH_NUMBER, argument_uniform};
use crate::render::{GpuTarget, Pass, PassBuffer, Shader, Unsupported, wgsl};
use crate::runtime::wgpu::adapter::describe;
use crate::runtime::wgpu::gpu::{WgpuGpu, buffer, lock};
use crate::runtime::wgpu::memory::{allocate, allocate_to_fill};
use crate::runtime::wgpu::pipeline::{Access, CompiledPipeline};
use crate::runtime::wgpu::queue::RecordedLaunch;
use crate::runtime::wgpu::reports::{STATUS_BYTES, WgpuReports};
use crate::runtime::wgpu::tune;
use crate::runtime::{Binding, Bindings, Program};

/// A kernel as shaders. Where inputs do not start at multiples of eight elements, or
/// of four, in further versions that need no such thing.
pub struct ShaderProgram {
    gpu: Arc<WgpuGpu>,
    reports: Arc<WgpuReports>,
    work: Workload,
    /// Of each kernel of the work.
    targets: Vec<GpuTarget>,
    aligned: CompiledShader,
    /// Where inputs start at multiples of four elements.
    by_four: OnceLock<CompiledShader>,
    unaligned: OnceLock<CompiledShader>,
}

/// A shader with its pipelines.
#[derive(Debug)]
struct CompiledShader {
    shader: Shader,
    /// By pass.
    pipelines: Vec<CompiledPipeline>,
}

impl ShaderProgram {
    /// Renders and compiles.
    ///
    /// # Errors
    /// What the adapter lacks; what the compiler said.
    pub fn new(gpu: Arc<WgpuGpu>, reports: Arc<WgpuReports>, work: Workload) -> Result<ShaderProgram> {
        let target = |work: &Workload| tune::target(&gpu, &reports, work);
        let targets = match &work {
            Workload::Joint(joint) => joint.works().iter().map(|work| target(work)).collect(),
            Workload::Kernel(_) | Workload::Sort(_) | Workload::Custom(..) => vec![target(&work)],
        };
        ShaderProgram::for_targets(gpu, reports, work, targets)
    }

    /// Renders for a target and compiles.
    ///
    /// # Errors
    /// What the adapter lacks; what the compiler said.
    pub fn for_target(
        gpu: Arc<WgpuGpu>,
        reports: Arc<WgpuReports>,
        work: Workload,
        target: GpuTarget,
    ) -> Result<ShaderProgram> {
        ShaderProgram::for_targets(gpu, reports, work, vec![target])
    }

    fn for_targets(
        gpu: Arc<WgpuGpu>,
        reports: Arc<WgpuReports>,
        work: Workload,
        targets: Vec<GpuTarget>,
    ) -> Result<ShaderProgram> {
        let aligned = compile(&gpu, &work, &targets)?;
        Ok(ShaderProgram {
            gpu,
            reports,
            work,
            targets,
            aligned,
            by_four: OnceLock::new(),
            unaligned: OnceLock::new(),
        })
    }

    /// The version for these bindings.
    fn version(&self, bindings: &Bindings<'_>) -> Result<&CompiledShader> {
        let passes = || self.aligned.shader.passes.iter();
        let starts_at = |slot: &usize, multiple: usize| {
            let size = self.work.input_dtype(*slot).size();
            bindings.inputs[*slot].offset.is_multiple_of(multiple * size)
        };
        let by_four = passes()
            .flat_map(|pass| pass.vec4_inputs.iter().chain(&pass.vec8_inputs))
            .all(|slot| starts_at(slot, 4));
        let by_eight = passes().flat_map(|pass| &pass.vec8_inputs).all(|slot| starts_at(slot, 8));
        let (version, alignment) = match (by_four, by_eight) {
            (true, true) => return Ok(&self.aligned),
            (true, false) => (&self.by_four, 4),
            (false, _) => (&self.unaligned, 1),
        };
        if let Some(known) = version.get() {
            return Ok(known);
        }
        let targets: Vec<GpuTarget> =
            self.targets.iter().map(|target| GpuTarget { alignment, ..target.clone() }).collect();
        let compiled = compile(&self.gpu, &self.work, &targets)?;
        Ok(version.get_or_init(|| compiled))
    }
}

fn compile(gpu: &WgpuGpu, work: &Workload, targets: &[GpuTarget]) -> Result<CompiledShader> {
    let target = &targets[0];
    let shader = match work {
        Workload::Joint(joint) => wgsl::render_joint(joint, targets).map(Some),
        Workload::Kernel(_) | Workload::Sort(_) | Workload::Custom(..) => wgsl::render_work(work, target),
    };
    let shader = shader.map_err(|reason| unsupported(gpu, work, &reason))?;
    let shader = shader.unwrap_or_else(|| panic!("work without shaders: {work:?}"));
    let access = |slot: &BufferBinding| match slot.memory {
        PassBuffer::Input(_) if target.separate_buffers => Access::Read,
        _ => Access::Write,
    };
    let compile = |pass: &Pass| {
        let storage: Vec<Access> = pass.bindings.iter().map(access).collect();
        gpu.pipeline(&shader.name, &pass.source, &storage)
    };
    let pipelines = shader.passes.iter().map(compile).collect::<Result<_>>()?;
    Ok(CompiledShader { shader, pipelines })
}

/// The error for work that the adapter cannot run.
pub fn unsupported(gpu: &WgpuGpu, work: &Workload, reason: &Unsupported) -> Error {
    gpu.error(&work.name(), reason.to_string().replace("{adapter}", &describe(&gpu.info)))
}

impl Program for ShaderProgram {
    fn source(&self) -> String {
        self.aligned.shader.passes.iter().map(Pass::text).collect::<Vec<_>>().join("\n")
    }

    fn launch(&self, bindings: &Bindings<'_>) -> Result<()> {
        let compiled = self.version(bindings)?;
        let mut scratch = Vec::new();
        for &bytes in &compiled.shader.scratch {
            scratch.push(allocate(&self.gpu, bytes)?);
        }
        let scratch: Vec<Binding<'_>> = scratch.iter().map(|buffer| Binding { buffer, offset: 0 }).collect();
        for (pass, found) in compiled.shader.passes.iter().zip(&compiled.pipelines) {
            self.launch_pass(pass, found, bindings, &scratch)?;
        }
        Ok(())
    }

    fn compiled(&self) -> Option<u64> {
        Some(self.aligned.pipelines.iter().any(|found| found.new).into())
    }
}

impl ShaderProgram {
    fn launch_pass(
        &self,
        pass: &Pass,
        found: &CompiledPipeline,
        bindings: &Bindings<'_>,
        scratch: &[Binding<'_>],
    ) -> Result<()> {
        if pass.workgroups == 0 {
            return Ok(());
        }
        let limits = self.gpu.device.limits();
        let Some(groups) = grid(pass.workgroups, self.gpu.target.max_groups) else {
            let limit = u64::from(self.gpu.target.max_groups).pow(2);
            let reason = Unsupported::Groups { found: pass.workgroups, limit };
            return Err(unsupported(&self.gpu, &self.work, &reason));
        };
        let alignment = u64::from(limits.min_storage_buffer_offset_alignment);
        let reports = pass.bindings.iter().any(|slot| slot.memory == PassBuffer::Status);
        let site = match reports {
            true => Some(self.gpu.site(&self.reports, bindings.status.site())?),
            false => None,
        };
        let mut words = self.words(pass, bindings, alignment);
        words.extend(&found.words);
        words.resize(words.len().next_multiple_of(4), 0);
        words[LAUNCH_NUMBER] = site.as_ref().map_or(0, |site| site.number);
        let mut storage = self.storage(pass, bindings, scratch, alignment)?;
        let _copies = match self.targets[0].separate_buffers {
            true => self.separate(pass, &mut storage)?,
            false => Vec::new(),
        };
        let mut first = 0;
        loop {
            words[DISPATCH_START] = first;
            let launch = RecordedLaunch {
                pipeline: &found.pipeline,
                words: words.clone(),
                storage: storage.clone(),
                groups,
            };
            self.gpu.launch(&launch)?;
            first += pass.dispatch_stride;
            if first >= pass.dispatch_end {
                return Ok(());
            }
        }
    }

    /// The launch words.
    fn words(&self, pass: &Pass, bindings: &Bindings<'_>, alignment: u64) -> Vec<u32> {
        let mut words = vec![0u32; pass.uniform_words];
        for (slot, binding) in bindings.inputs.iter().enumerate() {
            let size = self.work.input_dtype(slot).size() as u64;
            words[INPUT_OFFSETS + slot] = ((binding.offset as u64 % alignment) / size) as u32;
        }
        for (number, bits) in bindings.scalars.iter().enumerate() {
            let at = argument_uniform(bindings.inputs.len(), number);
            (words[at], words[at + 1]) = (*bits as u32, (*bits >> 32) as u32);
        }
        words
    }

    /// What a pass binds: blocks with start and size.
    fn storage(
        &self,
        pass: &Pass,
        bindings: &Bindings<'_>,
        scratch: &[Binding<'_>],
        alignment: u64,
    ) -> Result<Vec<(wgpu::Buffer, u64, u64)>> {
        let blocks = lock(&self.gpu.blocks);
        let window = self.gpu.target.max_binding / 1024 * 1024;
        let of = |binding: &Binding<'_>, start: u64| {
            let block = blocks.get(binding.buffer)?;
            let from = binding.offset as u64 / alignment * alignment + start;
            // A piece beyond the block is never read; it must only be there.
            let from = if from < block.size() { from } else { 0 };
            let size = (block.size() - from).min(window);
            Ok((block, from, size))
        };
        // Other outputs may lie in the same block, from a multiple of the alignment on.
        let output = |number: usize, start: u64| {
            let (block, from, size) = of(&bindings.outputs[number], start)?;
            let stored = self.work.kernel().and_then(|kernel| kernel.stores.get(number));
            let Some(store) = stored.filter(|_| self.targets[0].separate_buffers) else {
                return Ok((block, from, size));
            };
            let bytes = ((store.numel * store.dtype.size()) as u64).saturating_sub(start);
            Ok((block, from, size.min(bytes.max(1).next_multiple_of(alignment))))
        };
        (pass.bindings.iter())
            .map(|slot| match slot.memory {
                PassBuffer::Status => Ok((self.reports.status.clone(), 0, STATUS_BYTES)),
                PassBuffer::Input(number) => of(&bindings.inputs[number], slot.start),
                PassBuffer::Output(number) => output(number, slot.start),
                PassBuffer::Scratch(number) => of(&scratch[number], slot.start),
            })
            .collect()
    }
}

impl ShaderProgram {
    /// Puts copies in the place of inputs that lie in a block which the pass writes, as parts of a pack may;
    /// gives the memory of the copies.
    fn separate(&self, pass: &Pass, storage: &mut [(wgpu::Buffer, u64, u64)]) -> Result<Vec<DeviceBuffer>> {
        let is_input = |number: usize| matches!(pass.bindings[number].memory, PassBuffer::Input(_));
        let written: Vec<wgpu::Buffer> =
            (0..storage.len()).filter(|&i| !is_input(i)).map(|i| storage[i].0.clone()).collect();
        let mut copies = Vec::new();
        for number in (0..storage.len()).filter(|&i| is_input(i)) {
            let (block, start, bytes) = &storage[number];
            if written.contains(block) {
                let copy = allocate_to_fill(&self.gpu, *bytes as usize)?;
                let own = lock(&self.gpu.blocks).get(&copy)?;
                self.gpu.record_copy((block, *start), (&own, 0), *bytes)?;
                storage[number] = (own, 0, *bytes);
                copies.push(copy);
            }
        }
        Ok(copies)
    }
}

/// Copies any bytes: what is not whole words, or within one block.
///
/// # Errors
/// The driver's failure.
pub fn copy_bytes(gpu: &WgpuGpu, from: Binding<'_>, to: Binding<'_>, bytes: usize) -> Result<()> {
    const PIECE: usize = 32 << 20;
    let source = include_str!("copy.wgsl");
    let pipeline = gpu.pipeline("copy", source, &[Access::Write; 2])?.pipeline;
    let (read, written) = {
        let blocks = lock(&gpu.blocks);
        (blocks.get(from.buffer)?, blocks.get(to.buffer)?)
    };
    // Where one block may not be bound twice, what is read is copied before.
    let copied = match gpu.target.separate_buffers && read == written {
        true => {
            Some(buffer(&gpu.device, read.size(), wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST))
        }
        false => None,
    };
    if let Some(copied) = &copied {
        gpu.record_copy((&read, 0), (copied, 0), read.size())?;
    }
    let read = copied.unwrap_or(read);
    for start in (0..bytes).step_by(PIECE) {
        let count = PIECE.min(bytes - start);
        let at = |block: &wgpu::Buffer, offset: usize| {
            let first = offset / 256 * 256;
            let size = (block.size() - first as u64).min(gpu.target.max_binding / 1024 * 1024);
            ((block.clone(), first as u64, size), (offset - first) as u32)
        };
        let (read, skip) = at(&read, from.offset + start);
        let (written, into) = at(&written, to.offset + start);
        let words = vec![skip, into, count as u32, 0];
        let groups = ((into as u64 + count as u64).div_ceil(4)).div_ceil(64);
        let Some(groups) = grid(groups, gpu.target.max_groups) else {
            return Err(gpu.error("copy", "too many workgroups".into()));
        };
        gpu.launch(&RecordedLaunch { pipeline: &pipeline, words, storage: vec![read, written], groups })?;
    }
    Ok(())
}

/// Fills a block with bytes of 0xFF.
///
/// # Errors
/// The driver's failure.
pub fn poison(gpu: &WgpuGpu, block: &wgpu::Buffer) -> Result<()> {
    let pipeline = gpu.pipeline("poison", include_str!("poison.wgsl"), &[Access::Write])?.pipeline;
    let window = gpu.target.max_binding / 1024 * 1024;
    for start in (0..block.size()).step_by(window as usize) {
        let size = window.min(block.size() - start);
        let Some(groups) = grid(size.div_ceil(1024), gpu.target.max_groups) else {
            return Err(gpu.error("poison", "too many workgroups".into()));
        };
        let storage = vec![(block.clone(), start, size)];
        gpu.launch(&RecordedLaunch { pipeline: &pipeline, words: vec![0; 4], storage, groups })?;
    }
    Ok(())
}

/// Workgroups in two dimensions of at most `most`, not many more than asked for.
fn grid(groups: u64, most: u32) -> Option<(u32, u32)> {
    let rows = groups.div_ceil(u64::from(most));
    let columns = groups.div_ceil(rows.max(1));
    (rows <= u64::from(most)).then_some((columns as u32, rows as u32))
}

impl std::fmt::Debug for ShaderProgram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.source())
    }
}

#[cfg(test)]
mod tests {
    use super::grid;

    #[test]
    fn a_grid_covers_its_groups_within_the_limit() {
        for groups in [1, 65_535, 65_536, 1 << 20, (1 << 31) + 7] {
            let (x, y) = grid(groups, 65_535).unwrap();
            let there = u64::from(x) * u64::from(y);
            assert!(x <= 65_535 && there >= groups && there - groups < u64::from(y), "{groups} {x} {y}");
        }
        assert_eq!(grid(1 << 40, 65_535), None);
    }
}
