//! Which of the tiles that suit a product is fastest on this adapter: timed
//! when the product is compiled, and kept in the folder of compiled kernels.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use crate::base::Result;
use crate::base::config::config;
use crate::ir::Buffer;
use crate::kernel::{Kernel, Work};
use crate::render::wgsl::memory::reaches;
use crate::render::{Target, wgsl};
use crate::runtime::disk_cache::cached;
use crate::runtime::wgpu::adapter::describe;
use crate::runtime::wgpu::gpu::Gpu;
use crate::runtime::wgpu::memory::allocate;
use crate::runtime::wgpu::program::ShaderProgram;
use crate::runtime::wgpu::queue::Reports;
use crate::runtime::{Binding, Bindings, IndexStatus, Program};

/// Tiles timed for one product: the table's first ones.
const CANDIDATES: usize = 3;
/// Launches that are timed together.
const LAUNCHES: usize = 4;
/// Bytes of operands and results above which nothing is timed, since timing
/// needs memory of its own.
const MOST_BYTES: u64 = 512 << 20;

/// What to render some work for: the adapter, with the tile found fastest
/// where the adapter's tiles are timed.
///
/// # Errors
/// None of its own: a tile that fails is not chosen.
pub fn target(gpu: &Arc<Gpu>, reports: &Arc<Reports>, work: &Work) -> Target {
    let plain = || gpu.target.clone();
    let Some(kernel) = work.kernel().filter(|kernel| gpu.times_tiles && reads_at_axes(kernel)) else {
        return plain();
    };
    let mut tiles = wgsl::tiles(kernel, &gpu.target);
    tiles.truncate(CANDIDATES);
    if tiles.len() < 2 {
        return plain();
    }
    let Some(memory) = Memory::of(gpu, kernel) else { return plain() };
    let key = format!("tile of {tiles:?}\n{}\n{}", describe(&gpu.info), crate::kernel::print::text(kernel));
    let number = fastest(config().cache_dir.as_deref(), &key, tiles.len(), &mut |number| {
        let target = Target { tile: Some(tiles[number]), ..gpu.target.clone() };
        let program = ShaderProgram::for_target(gpu.clone(), reports.clone(), work.clone(), target)?;
        memory.time(gpu, reports, &program)
    });
    Target { tile: tiles.get(number).copied(), ..plain() }
}

/// The number of the fastest of some candidates, timed now or before.
fn fastest(
    folder: Option<&Path>,
    key: &str,
    count: usize,
    time: &mut dyn FnMut(usize) -> Result<f64>,
) -> usize {
    let mut choose = || -> std::result::Result<Vec<u8>, ()> {
        // One that cannot be timed is not chosen.
        let times = (0..count).filter_map(|number| Some((time(number).ok()?, number)));
        let (_, number) = times.min_by(|(a, _), (b, _)| a.total_cmp(b)).ok_or(())?;
        Ok(vec![number as u8])
    };
    let found = match folder {
        Some(folder) => cached(folder, key, choose),
        None => choose(),
    };
    found.ok().and_then(|found| found.first().map(|&number| usize::from(number))).unwrap_or(0)
}

/// Whether no address depends on data, which here would be any.
fn reads_at_axes(kernel: &Kernel) -> bool {
    let dynamic = |node: &crate::kernel::ExprNode| {
        node.expr.load().is_some_and(|(_, access)| !access.dynamic.is_empty())
    };
    !kernel.exprs.iter().any(dynamic)
}

/// Operands and results of nobody.
struct Memory {
    inputs: Vec<Buffer>,
    outputs: Vec<Buffer>,
    scalars: Vec<u64>,
}

impl Memory {
    /// Enough for a kernel; `None` if that is too much.
    fn of(gpu: &Arc<Gpu>, kernel: &Kernel) -> Option<Memory> {
        let reaches = reaches(kernel).ok()?;
        let inputs: Vec<u64> = kernel
            .inputs
            .iter()
            .zip(reaches)
            .map(|(input, reach)| reach * input.dtype.size() as u64)
            .collect();
        let outputs: Vec<u64> =
            kernel.stores.iter().map(|store| (store.numel * store.dtype.size()) as u64).collect();
        if inputs.iter().chain(&outputs).sum::<u64>() > MOST_BYTES {
            return None;
        }
        let all = |sizes: &[u64]| -> Option<Vec<Buffer>> {
            sizes.iter().map(|&bytes| allocate(gpu, bytes as usize).ok()).collect()
        };
        Some(Memory { inputs: all(&inputs)?, outputs: all(&outputs)?, scalars: vec![0; kernel.args.len()] })
    }

    /// Seconds that some launches of a program take, after one to warm up.
    fn time(&self, gpu: &Gpu, reports: &Reports, program: &ShaderProgram) -> Result<f64> {
        let (inputs, outputs, status) = (bound(&self.inputs), bound(&self.outputs), IndexStatus::default());
        let bindings =
            Bindings { inputs: &inputs, outputs: &outputs, scalars: &self.scalars, status: &status };
        program.launch(&bindings)?;
        gpu.finish(reports)?;
        let clock = Clock::new(gpu);
        let start = Instant::now();
        clock.mark(gpu, 0)?;
        (0..LAUNCHES).try_for_each(|_| program.launch(&bindings))?;
        gpu.submit()?;
        clock.mark(gpu, 1)?;
        gpu.finish(reports)?;
        let wall = start.elapsed().as_secs_f64();
        Ok(clock.between(gpu, reports)?.unwrap_or(wall))
    }
}

fn bound(buffers: &[Buffer]) -> Vec<Binding<'_>> {
    buffers.iter().map(|buffer| Binding { buffer, offset: 0 }).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Device, Error};

    /// A folder that goes when the test ends.
    struct Folder(std::path::PathBuf);
    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_fastest_is_found_once_for_each_key() {
        let folder = Folder(std::env::temp_dir().join(format!("kiln-tiles-{}", std::process::id())));
        let mut timed = 0;
        let mut choose = |key: &str, times: [f64; 3]| {
            fastest(Some(&folder.0), key, 3, &mut |number| {
                timed += 1;
                Ok(times[number])
            })
        };
        assert_eq!(choose("one", [3.0, 1.0, 2.0]), 1);
        // Known: other times are not looked at.
        assert_eq!(choose("one", [1.0, 2.0, 3.0]), 1);
        assert_eq!(choose("two", [3.0, 2.0, 1.0]), 2);
        assert_eq!(timed, 6);
    }

    #[test]
    fn a_tile_that_fails_is_not_chosen_and_if_all_do_the_table_decides() {
        let fail = || {
            let message = "does not run".into();
            Err(Error::Kernel { kernel: "tile".into(), device: Device::wgpu(0), message })
        };
        let some =
            fastest(None, "", 3, &mut |number| if number == 0 { fail() } else { Ok(3.0 - number as f64) });
        assert_eq!(some, 2);
        assert_eq!(fastest(None, "", 3, &mut |_| fail()), 0);
    }
}
