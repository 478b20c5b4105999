//! Which of the ways that suit a product is fastest on this device
//! ([`crate::runtime::tune`]).

use std::sync::Arc;
use std::time::Instant;

use crate::base::Result;
use crate::base::config::config;
use crate::base::tuning::chooses_by_timing;
use crate::kernel::Work;
use crate::render::cuda::product;
use crate::render::target::Nvidia;
use crate::render::{Target, cuda};
use crate::runtime::cuda::gpu::{Gpu, allocate};
use crate::runtime::cuda::program::CudaProgram;
use crate::runtime::cuda::reports::Reports;
use crate::runtime::tune::{CANDIDATES, LAUNCHES, Memory, fastest, reads_at_axes};

/// What to render some work for: the device, with the tile found fastest where
/// tiles are timed.
pub fn target(gpu: &Arc<Gpu>, reports: &Arc<Reports>, work: &Work, plain: &Target) -> Target {
    let plain = plain.clone();
    let timed = work.kernel().filter(|kernel| chooses_by_timing(false) && reads_at_axes(kernel));
    let Some(kernel) = timed else { return plain };
    let mut tiles: Vec<cuda::tiles::Tile> =
        product::choices(kernel, &plain).iter().map(|choice| choice.tile).collect();
    tiles.truncate(CANDIDATES);
    if tiles.len() < 2 {
        return plain;
    }
    let Some(memory) = Memory::of(kernel, &|bytes| allocate(gpu, bytes)) else { return plain };
    let with = |number: usize| {
        let tile = tiles.get(number).copied();
        Target { nvidia: plain.nvidia.map(|nvidia| Nvidia { tile, ..nvidia }), ..plain.clone() }
    };
    let info = &gpu.driver.info;
    let key = format!("tile of {tiles:?}\n{info:?}\n{}", crate::kernel::print::text(kernel));
    let number = fastest(config().cache_dir.as_deref(), &key, tiles.len(), &mut |number| {
        let program = CudaProgram::new(gpu.clone(), reports.clone(), work.clone(), with(number))?;
        time(gpu, &memory, &program)
    });
    with(number)
}

/// Seconds that some launches of a program take, after one to warm up.
fn time(gpu: &Gpu, memory: &Memory, program: &CudaProgram) -> Result<f64> {
    let wait = || gpu.driver.wait().map_err(|failure| gpu.error("", failure));
    memory.launch(program, 1)?;
    wait()?;
    let start = Instant::now();
    memory.launch(program, LAUNCHES)?;
    wait()?;
    Ok(start.elapsed().as_secs_f64())
}
