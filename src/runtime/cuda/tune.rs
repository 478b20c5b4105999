//! Which of the ways that suit a product is fastest on this device: tiles, and cuBLASLt
//! ([`crate::runtime::tune`]).

use std::sync::Arc;
use std::time::Instant;

use crate::base::Result;
use crate::base::config::config;
use crate::base::tuning::chooses_by_timing;
use crate::kernel::Work;
use crate::render::Target;
use crate::render::cuda::product;
use crate::render::cuda::tiles::Tile;
use crate::render::target::Nvidia;
use crate::runtime::Program;
use crate::runtime::cuda::gpu::{Gpu, allocate};
use crate::runtime::cuda::library::LibraryProgram;
use crate::runtime::cuda::program::CudaProgram;
use crate::runtime::cuda::reports::Reports;
use crate::runtime::tune::{CANDIDATES, LAUNCHES, Memory, fastest, reads_at_axes};

/// A way to compute a product.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// By a template, with a tile of the table.
    Tile(Tile),
    /// By cuBLASLt.
    Library,
}

/// What is compiled, and for which device.
struct Ways<'a> {
    gpu: &'a Arc<Gpu>,
    reports: &'a Arc<Reports>,
    work: &'a Work,
    plain: &'a Target,
    library: Option<LibraryProgram>,
}

/// Some work compiled: the way found fastest where ways are timed, else by cuBLASLt
/// where that is worth it, else as the table of tiles says.
///
/// # Errors
/// What the compiler said.
pub fn program(
    gpu: &Arc<Gpu>,
    reports: &Arc<Reports>,
    work: &Work,
    plain: &Target,
) -> Result<Arc<dyn Program>> {
    let ways = Ways { gpu, reports, work, plain, library: LibraryProgram::of(gpu, work) };
    if let Some(way) = ways.fastest() {
        return ways.program(Some(way));
    }
    let by_library = ways.library.as_ref().is_some_and(LibraryProgram::is_worth_a_call);
    ways.program(by_library.then_some(Way::Library))
}

impl Ways<'_> {
    /// One of them; `None`: the table's.
    fn program(&self, way: Option<Way>) -> Result<Arc<dyn Program>> {
        if let (Some(Way::Library), Some(library)) = (way, &self.library) {
            return Ok(Arc::new(library.clone()));
        }
        let tile = if let Some(Way::Tile(tile)) = way { Some(tile) } else { None };
        let target = Target {
            nvidia: self.plain.nvidia.map(|nvidia| Nvidia { tile: tile.or(nvidia.tile), ..nvidia }),
            ..self.plain.clone()
        };
        let (gpu, reports) = (self.gpu.clone(), self.reports.clone());
        Ok(Arc::new(CudaProgram::new(gpu, reports, self.work.clone(), target)?))
    }

    /// The fastest, if there are several and they are timed.
    fn fastest(&self) -> Option<Way> {
        let kernel = self.work.kernel().filter(|kernel| chooses_by_timing(false) && reads_at_axes(kernel))?;
        let tiles = product::choices(kernel, self.plain).into_iter().take(CANDIDATES);
        let mut ways: Vec<Way> = tiles.map(|choice| Way::Tile(choice.tile)).collect();
        ways.extend(self.library.as_ref().map(|_| Way::Library));
        if ways.len() < 2 {
            return None;
        }
        let memory = Memory::of(kernel, &|bytes| allocate(self.gpu, bytes))?;
        let driver = &self.gpu.driver;
        let version =
            self.library.as_ref().and_then(|_| driver.library().ok()).map(|library| library.version);
        let text = crate::kernel::print::text(kernel);
        let key = format!("way of {ways:?}, cuBLASLt {version:?}\n{:?}\n{text}", driver.info);
        let number = fastest(config().cache_dir.as_deref(), &key, ways.len(), &mut |number| {
            time(self.gpu, &memory, self.program(Some(ways[number]))?.as_ref())
        });
        ways.get(number).copied()
    }
}

/// Seconds that some launches of a program take, after one to warm up.
fn time(gpu: &Gpu, memory: &Memory, program: &dyn Program) -> Result<f64> {
    let wait = || gpu.driver.wait().map_err(|failure| gpu.error("", failure));
    memory.launch(program, 1)?;
    wait()?;
    let start = Instant::now();
    memory.launch(program, LAUNCHES)?;
    wait()?;
    Ok(start.elapsed().as_secs_f64())
}
