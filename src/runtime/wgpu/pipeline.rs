//! Compiled shaders, by their text.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::base::Result;
use crate::runtime::wgpu::gpu::{Gpu, lock};

/// Pipelines kept before all are forgotten.
const MOST: usize = 4096;

/// What was compiled, and the layouts of bindings, by their number.
#[derive(Debug, Default)]
pub struct Pipelines {
    compiled: Mutex<HashMap<String, Arc<Pipeline>>>,
    layouts: Mutex<HashMap<usize, Arc<Layout>>>,
}

/// A compiled shader.
#[derive(Debug)]
pub struct Pipeline {
    /// The driver's.
    pub pipeline: wgpu::ComputePipeline,
    /// The layout of its bindings.
    pub layout: Arc<Layout>,
}

/// One uniform block and some storage buffers.
#[derive(Debug)]
pub struct Layout {
    /// Of the bind group.
    pub group: wgpu::BindGroupLayout,
    pipeline: wgpu::PipelineLayout,
}

impl Gpu {
    /// A shader with that many storage buffers, compiled now or before.
    ///
    /// # Errors
    /// What the compiler said, with the text.
    pub fn pipeline(&self, name: &str, source: &str, storage: usize) -> Result<Arc<Pipeline>> {
        if let Some(known) = lock(&self.pipelines.compiled).get(source) {
            return Ok(known.clone());
        }
        let layout = self.layout(storage)?;
        let compiled =
            self.scoped(name, || self.compile(name, source, &layout)).map_err(|error| match error {
                crate::base::Error::Kernel { kernel, device, message } => {
                    crate::base::Error::Kernel { kernel, device, message: format!("{message}\nin\n{source}") }
                }
                other => other,
            })?;
        let pipeline = Arc::new(Pipeline { pipeline: compiled, layout });
        let mut known = lock(&self.pipelines.compiled);
        if known.len() >= MOST {
            known.clear();
        }
        Ok(known.entry(source.to_string()).or_insert(pipeline).clone())
    }

    fn compile(&self, name: &str, source: &str, layout: &Layout) -> wgpu::ComputePipeline {
        let descriptor = wgpu::ShaderModuleDescriptor {
            label: Some(name),
            source: wgpu::ShaderSource::Wgsl(source.into()),
        };
        // SAFETY: kernels keep to their buffers by construction: addresses
        // that data determines are clamped, the others follow from extents;
        // their loops end. Debug builds leave the checks out too: they would
        // hide an address outside a buffer rather than report it, and keep
        // drivers from unrolling loops over registers.
        let module = unsafe {
            self.device.create_shader_module_trusted(descriptor, wgpu::ShaderRuntimeChecks::unchecked())
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

    fn layout(&self, storage: usize) -> Result<Arc<Layout>> {
        if let Some(known) = lock(&self.pipelines.layouts).get(&storage) {
            return Ok(known.clone());
        }
        let layout = Arc::new(self.scoped("", || self.make_layout(storage))?);
        Ok(lock(&self.pipelines.layouts).entry(storage).or_insert(layout).clone())
    }

    fn make_layout(&self, storage: usize) -> Layout {
        let entry = |binding: usize| wgpu::BindGroupLayoutEntry {
            binding: binding as u32,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer {
                ty: match binding {
                    0 => wgpu::BufferBindingType::Uniform,
                    _ => wgpu::BufferBindingType::Storage { read_only: false },
                },
                has_dynamic_offset: false,
                min_binding_size: None,
            },
            count: None,
        };
        let entries: Vec<_> = (0..=storage).map(entry).collect();
        let group = self
            .device
            .create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries });
        let pipeline = self.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&group)],
            immediate_size: 0,
        });
        Layout { group, pipeline }
    }
}
