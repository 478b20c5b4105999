//! Which of the tiles that suit a product is fastest on this adapter: timed
//! when the product is compiled, and kept in the folder of compiled kernels.

use std::sync::Arc;
use std::time::Instant;

use crate::base::Result;
use crate::base::config::config;
use crate::base::tuning::chooses_by_timing;
use crate::kernel::Work;
use crate::render::{Target, wgsl};
use crate::runtime::tune::{CANDIDATES, LAUNCHES, Memory, fastest, reads_at_axes};
use crate::runtime::wgpu::adapter::describe;
use crate::runtime::wgpu::gpu::Gpu;
use crate::runtime::wgpu::memory::allocate;
use crate::runtime::wgpu::program::ShaderProgram;
use crate::runtime::wgpu::queue::Reports;

/// What to render some work for: the adapter, with the tile found fastest
/// where the adapter's tiles are timed.
///
/// # Errors
/// None of its own: a tile that fails is not chosen.
pub fn target(gpu: &Arc<Gpu>, reports: &Arc<Reports>, work: &Work) -> Target {
    let plain = || gpu.target.clone();
    let Some(kernel) =
        work.kernel().filter(|kernel| chooses_by_timing(gpu.times_tiles) && reads_at_axes(kernel))
    else {
        return plain();
    };
    let mut tiles = wgsl::tiles(kernel, &gpu.target);
    tiles.truncate(CANDIDATES);
    if tiles.len() < 2 {
        return plain();
    }
    let Some(memory) = Memory::of(kernel, &|bytes| allocate(gpu, bytes)) else { return plain() };
    let key = format!("tile of {tiles:?}\n{}\n{}", describe(&gpu.info), crate::kernel::print::text(kernel));
    let number = fastest(config().cache_dir.as_deref(), &key, tiles.len(), &mut |number| {
        let target = Target { tile: Some(tiles[number]), ..gpu.target.clone() };
        let program = ShaderProgram::for_target(gpu.clone(), reports.clone(), work.clone(), target)?;
        time(gpu, reports, &memory, &program)
    });
    Target { tile: tiles.get(number).copied(), ..plain() }
}

/// Seconds that some launches of a program take, after one to warm up.
fn time(gpu: &Gpu, reports: &Reports, memory: &Memory, program: &ShaderProgram) -> Result<f64> {
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
    fn new(gpu: &Gpu) -> Clock {
        if !gpu.device.features().contains(wgpu::Features::TIMESTAMP_QUERY) {
            return Clock(None);
        }
        let queries = gpu.device.create_query_set(&wgpu::QuerySetDescriptor {
            label: None,
            ty: wgpu::QueryType::Timestamp,
            count: 2,
        });
        let times = gpu.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: 16,
            usage: wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC,
            mapped_at_creation: false,
        });
        Clock(Some((queries, times)))
    }

    /// Notes the time at which the adapter comes here.
    fn mark(&self, gpu: &Gpu, number: u32) -> Result<()> {
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
    fn between(&self, gpu: &Gpu, reports: &Reports) -> Result<Option<f64>> {
        let Some((_, times)) = &self.0 else { return Ok(None) };
        let mut bytes = [0u8; 16];
        gpu.read(reports, times, 0, &mut bytes)?;
        let tick = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let ticks = tick(8).wrapping_sub(tick(0)) as f64;
        Ok(Some(ticks * f64::from(gpu.queue.get_timestamp_period()) * 1e-9))
    }
}
