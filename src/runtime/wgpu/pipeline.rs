//! Compiled shaders, by their text.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::base::Result;
use crate::render::wgsl::sized::{ParameterizedText, UniformPlacement};
use crate::runtime::sources;
use crate::runtime::wgpu::gpu::{WgpuGpu, buffer, lock};

/// Families of pipelines kept before all are forgotten.
const MOST: usize = 4096;

/// Bytes of launch words that no shader exceeds: what a uniform block may have anywhere.
const LAUNCH_WORDS: u64 = 16 << 10;

/// How a shader uses a storage buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// It only reads it, and says so.
    Read,
    /// It may write it.
    Write,
}

/// What was compiled, and the layouts of bindings.
#[derive(Debug, Default)]
pub struct Pipelines {
    /// By family.
    compiled: Mutex<HashMap<String, Vec<Variant>>>,
    layouts: Mutex<HashMap<Vec<Access>, Arc<BindingLayout>>>,
}

/// One of a family, compiled.
#[derive(Debug)]
struct Variant {
    /// The numbers in its text.
    numbers: Vec<i64>,
    /// Those that it reads from launch words instead.
    places: UniformPlacement,
    pipeline: Arc<Pipeline>,
}

/// A compiled shader, and what makes it that of a text.
#[derive(Clone, Debug)]
pub struct CompiledPipeline {
    /// The shader.
    pub pipeline: Arc<Pipeline>,
    /// RecordedLaunch words after the text's own.
    pub words: Vec<u32>,
    /// Whether it was compiled now.
    pub new: bool,
}

impl Variant {
    /// Whether it does the same as a text of its family with these numbers, given
    /// those that it reads.
    fn serves(&self, numbers: &[i64]) -> bool {
        let same = |(i, place): (usize, &Option<usize>)| match place {
            Some(first) => numbers[i] == numbers[*first],
            None => numbers[i] == self.numbers[i],
        };
        self.places.iter().enumerate().all(same)
    }
}

/// A compiled shader.
#[derive(Debug)]
pub struct Pipeline {
    /// The driver's.
    pub pipeline: wgpu::ComputePipeline,
    /// The layout of its bindings.
    pub layout: Arc<BindingLayout>,
}

/// One uniform block and some storage buffers.
#[derive(Debug)]
pub struct BindingLayout {
    /// Of the bind group.
    pub group: wgpu::BindGroupLayout,
    pipeline: wgpu::PipelineLayout,
    /// On software drivers, the device's placeholder.
    placeholder: Option<wgpu::BindGroup>,
}

/// Memory that new shaders are launched on, without workgroups: as little as any accepts.
#[derive(Debug)]
pub struct Placeholder {
    words: wgpu::Buffer,
    elements: wgpu::Buffer,
}

impl Placeholder {
    /// That of a device.
    pub fn new(device: &wgpu::Device) -> Placeholder {
        Placeholder {
            words: buffer(device, LAUNCH_WORDS, wgpu::BufferUsages::UNIFORM),
            elements: buffer(device, 256, wgpu::BufferUsages::STORAGE),
        }
    }
}

impl WgpuGpu {
    /// A shader with storage buffers for such uses, compiled now or before, perhaps
    /// for other sizes. The text may be marked ([`sized`](crate::render::wgsl::sized)).
    ///
    /// # Errors
    /// What the compiler said, with the text.
    pub fn pipeline(&self, name: &str, source: &str, storage: &[Access]) -> Result<CompiledPipeline> {
        let sized = ParameterizedText::new(source);
        let (family, numbers) = (sized.family(), sized.numbers());
        let places = match self.known(&family, &numbers, &sized) {
            Ok(found) => return Ok(found),
            Err(places) => places,
        };
        let text = sized.text(&places, self.target.int64);
        let layout = self.layout(storage)?;
        let compile = || {
            let compiled = self.compile(name, &text, &layout);
            self.begin(&compiled, &layout);
            compiled
        };
        let compiled = self.scoped(name, compile).map_err(|error| match error {
            crate::base::Error::Kernel { kernel, device, message, .. } => crate::base::Error::Kernel {
                kernel,
                device,
                message: format!("{message}\nin\n{text}"),
                span: None,
            },
            other => other,
        })?;
        let pipeline = Arc::new(Pipeline { pipeline: compiled, layout });
        let words = sized.words(&places);
        let variant = Variant { numbers, places, pipeline };
        let found = CompiledPipeline { pipeline: variant.pipeline.clone(), words, new: true };
        let mut known = lock(&self.pipelines.compiled);
        if known.len() >= MOST {
            known.clear();
        }
        // The newest reads the most from words, and so serves most often.
        known.entry(family).or_default().insert(0, variant);
        Ok(found)
    }

    /// What was compiled that serves; else which numbers the next should read
    /// from words: those in which it differs from one that is there.
    fn known(
        &self,
        family: &str,
        numbers: &[i64],
        sized: &ParameterizedText,
    ) -> std::result::Result<CompiledPipeline, UniformPlacement> {
        let known = lock(&self.pipelines.compiled);
        let variants = known.get(family).map_or(&[][..], |variants| variants);
        for variant in variants {
            if variant.serves(numbers) {
                let words = sized.words(&variant.places);
                return Ok(CompiledPipeline { pipeline: variant.pipeline.clone(), words, new: false });
            }
        }
        let mut lifted = sized.lifted_at_once();
        for variant in variants {
            for (i, may) in sized.may_lift().into_iter().enumerate() {
                lifted[i] |= may && (variant.places[i].is_some() || variant.numbers[i] != numbers[i]);
            }
        }
        let others: Vec<&[i64]> = variants.iter().map(|variant| &variant.numbers[..]).collect();
        Err(sized.places(&lifted, &others))
    }

    fn compile(&self, name: &str, source: &str, layout: &BindingLayout) -> wgpu::ComputePipeline {
        #[cfg(test)]
        let rewritten = self.rewrite.map(|rewrite| rewrite(source));
        #[cfg(test)]
        let source = rewritten.as_deref().unwrap_or(source);
        let text = sources::edited(name, source, "wgsl");
        let descriptor = wgpu::ShaderModuleDescriptor {
            label: Some(name),
            source: wgpu::ShaderSource::Wgsl(text.as_ref().into()),
        };
        let module = match text {
            // SAFETY: kernels keep to their buffers by construction: addresses
            // that data determines are clamped, the others follow from extents;
            // their loops end. Debug builds leave the checks out too: they would
            // hide an address outside a buffer rather than report it, and keep
            // drivers from unrolling loops over registers.
            Cow::Borrowed(_) => unsafe {
                self.device.create_shader_module_trusted(descriptor, wgpu::ShaderRuntimeChecks::unchecked())
            },
            // A person may have made any mistake.
            Cow::Owned(_) => self.device.create_shader_module(descriptor),
        };
        self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(name),
            layout: Some(&layout.pipeline),
            module: &module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions {
                constants: &[],
                zero_initialize_workgroup_memory: false,
            },
            cache: None,
        })
    }

    /// Launches no workgroups of a new shader: software drivers make its machine code at the
    /// first launch, in the thread that carries out their queue, and so do that while this
    /// thread compiles the next.
    fn begin(&self, pipeline: &wgpu::ComputePipeline, layout: &BindingLayout) {
        let Some(placeholder) = &layout.placeholder else { return };
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor { label: None });
        let descriptor = wgpu::ComputePassDescriptor { label: None, timestamp_writes: None };
        let mut pass = encoder.begin_compute_pass(&descriptor);
        pass.set_pipeline(pipeline);
        pass.set_bind_group(0, placeholder, &[]);
        pass.dispatch_workgroups(0, 1, 1);
        drop(pass);
        self.queue.submit([encoder.finish()]);
    }

    fn layout(&self, storage: &[Access]) -> Result<Arc<BindingLayout>> {
        if let Some(known) = lock(&self.pipelines.layouts).get(storage) {
            return Ok(known.clone());
        }
        let layout = Arc::new(self.scoped("", || self.make_layout(storage))?);
        Ok(lock(&self.pipelines.layouts).entry(storage.to_vec()).or_insert(layout).clone())
    }

    fn make_layout(&self, storage: &[Access]) -> BindingLayout {
        let entry = |binding: usize| wgpu::BindGroupLayoutEntry {
            binding: binding as u32,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer {
                ty: match binding.checked_sub(1) {
                    None => wgpu::BufferBindingType::Uniform,
                    Some(number) => {
                        wgpu::BufferBindingType::Storage { read_only: storage[number] == Access::Read }
                    }
                },
                has_dynamic_offset: false,
                min_binding_size: None,
            },
            count: None,
        };
        let entries: Vec<_> = (0..=storage.len()).map(entry).collect();
        let group = self
            .device
            .create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries });
        let pipeline = self.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&group)],
            immediate_size: 0,
        });
        let placeholder =
            self.placeholder.as_ref().map(|memory| self.bind_placeholder(memory, &group, storage.len()));
        BindingLayout { group, pipeline, placeholder }
    }

    /// The placeholder as the memory of a shader.
    fn bind_placeholder(
        &self,
        Placeholder { words, elements }: &Placeholder,
        layout: &wgpu::BindGroupLayout,
        storage: usize,
    ) -> wgpu::BindGroup {
        let entry = |binding: usize| wgpu::BindGroupEntry {
            binding: binding as u32,
            resource: if binding == 0 { words } else { elements }.as_entire_binding(),
        };
        let entries: Vec<_> = (0..=storage).map(entry).collect();
        self.device.create_bind_group(&wgpu::BindGroupDescriptor { label: None, layout, entries: &entries })
    }
}
