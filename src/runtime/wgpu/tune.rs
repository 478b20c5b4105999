//! Which variant of a template is fastest on this adapter
//! ([`crate::runtime::tune`]).

use std::sync::Arc;

use crate::base::Result;
use crate::base::config::config;
use crate::base::system::Instant;
use crate::kernel::{Kernel, Workload};
use crate::render::{GpuTarget, TemplateChoice, wgsl};
use crate::runtime::tune::{CANDIDATES, LAUNCHES, TrialBuffers, fastest, timed};
use crate::runtime::wgpu::adapter::describe;
use crate::runtime::wgpu::gpu::{WgpuGpu, buffer};
use crate::runtime::wgpu::memory::allocate;
use crate::runtime::wgpu::program::ShaderProgram;
use crate::runtime::wgpu::reports::WgpuReports;

/// What to render some work for: the adapter, with the way found fastest where ways are
/// timed. One that fails is not chosen.
pub fn target(gpu: &Arc<WgpuGpu>, reports: &Arc<WgpuReports>, work: &Workload) -> GpuTarget {
    let of = |choice| GpuTarget { choice, ..gpu.target.clone() };
    let Some(kernel) = timed(work, gpu.times_choices) else { return gpu.target.clone() };
    let mut choices = wgsl::choices(kernel, &gpu.target);
    choices.truncate(CANDIDATES);
    if choices.len() < 2 {
        return gpu.target.clone();
    }
    let Some(memory) = TrialBuffers::of(kernel, &|bytes| allocate(gpu, bytes)) else {
        return gpu.target.clone();
    };
    let key = key(gpu, kernel, &choices);
    let number = fastest(config().cache_dir.as_deref(), &key, choices.len(), &mut |number| {
        let target = of(Some(choices[number]));
        let program = ShaderProgram::for_target(gpu.clone(), reports.clone(), work.clone(), target)?;
        time(gpu, reports, &memory, &program)
    });
    of(choices.get(number).copied())
}

/// Under which the number of the fastest way is kept.
fn key(gpu: &WgpuGpu, kernel: &Kernel, choices: &[TemplateChoice]) -> String {
    format!("one of {choices:?}\n{}\n{}", describe(&gpu.info), crate::kernel::print::text(kernel))
}

/// Seconds that some launches of a program take, after one to warm up.
fn time(gpu: &WgpuGpu, reports: &WgpuReports, memory: &TrialBuffers, program: &ShaderProgram) -> Result<f64> {
    memory.launch(program, 1)?;
    gpu.finish(reports)?;
    let clock = Clock::new(gpu);
    let start = Instant::now();
    clock.mark(gpu, 0)?;
    memory.launch(program, LAUNCHES)?;
    gpu.submit()?;
    clock.mark(gpu, 1)?;
    gpu.finish(reports)?;
    let wall = start.elapsed().as_secs_f64();
    Ok(clock.between(gpu, reports)?.unwrap_or(wall))
}

/// The adapter's own clock, where it has one.
struct Clock(Option<(wgpu::QuerySet, wgpu::Buffer)>);

impl Clock {
    fn new(gpu: &WgpuGpu) -> Clock {
        if !gpu.device.features().contains(wgpu::Features::TIMESTAMP_QUERY) {
            return Clock(None);
        }
        let queries = gpu.device.create_query_set(&wgpu::QuerySetDescriptor {
            label: None,
            ty: wgpu::QueryType::Timestamp,
            count: 2,
        });
        let usage = wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC;
        let times = buffer(&gpu.device, 16, usage);
        Clock(Some((queries, times)))
    }

    /// Notes the time at which the adapter comes here.
    fn mark(&self, gpu: &WgpuGpu, number: u32) -> Result<()> {
        let Some((queries, times)) = &self.0 else { return Ok(()) };
        gpu.scoped("", || {
            let mut encoder = gpu.device.create_command_encoder(&Default::default());
            encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
                label: None,
                timestamp_writes: Some(wgpu::ComputePassTimestampWrites {
                    query_set: queries,
                    beginning_of_pass_write_index: Some(number),
                    end_of_pass_write_index: None,
                }),
            });
            if number == 1 {
                encoder.resolve_query_set(queries, 0..2, times, 0);
            }
            gpu.queue.submit([encoder.finish()]);
        })
    }

    /// Seconds between the marks.
    fn between(&self, gpu: &WgpuGpu, reports: &WgpuReports) -> Result<Option<f64>> {
        let Some((_, times)) = &self.0 else { return Ok(None) };
        let mut bytes = [0u8; 16];
        gpu.read(reports, times, 0, &mut bytes)?;
        let tick = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let ticks = tick(8).wrapping_sub(tick(0)) as f64;
        Ok(Some(ticks * f64::from(gpu.queue.get_timestamp_period()) * 1e-9))
    }
}
