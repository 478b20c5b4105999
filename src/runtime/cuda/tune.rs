//! Which implementation of a kernel is fastest on this device: a template's, or
//! cuBLASLt ([`crate::runtime::tune`]).

use std::sync::Arc;
use std::time::Instant;

use crate::base::Result;
use crate::base::config::config;
use crate::kernel::{Kernel, Workload};
use crate::render::{GpuTarget, TemplateChoice, cuda};
use crate::runtime::Program;
use crate::runtime::cuda::gpu::{CudaGpu, allocate};
use crate::runtime::cuda::library::LibraryProgram;
use crate::runtime::cuda::program::CudaProgram;
use crate::runtime::cuda::reports::CudaReports;
use crate::runtime::tune::{CANDIDATES, LAUNCHES, TrialBuffers, fastest, timed};

/// An implementation of a kernel.
#[derive(Clone, Copy, Debug)]
enum KernelCandidate {
    /// By a template, in one of its sizes.
    Template(TemplateChoice),
    /// A product, by cuBLASLt.
    Library,
}

/// What is compiled, and for which device.
struct KernelCandidates<'a> {
    gpu: &'a Arc<CudaGpu>,
    reports: &'a Arc<CudaReports>,
    work: &'a Workload,
    plain: &'a GpuTarget,
    library: Option<LibraryProgram>,
}

/// Some work compiled: the candidate found fastest where they are timed, else by cuBLASLt
/// where that is worth it, else as the templates' tables say.
///
/// # Errors
/// What the compiler said.
pub fn program(
    gpu: &Arc<CudaGpu>,
    reports: &Arc<CudaReports>,
    work: &Workload,
    plain: &GpuTarget,
) -> Result<Arc<dyn Program>> {
    // A template's way that was named is taken.
    let library = plain.choice.is_none().then(|| LibraryProgram::of(gpu, work)).flatten();
    let candidates = KernelCandidates { gpu, reports, work, plain, library };
    if let Some(candidate) = candidates.fastest() {
        return candidates.program(Some(candidate));
    }
    let by_library = candidates.library.as_ref().is_some_and(LibraryProgram::is_worth_a_call);
    candidates.program(by_library.then_some(KernelCandidate::Library))
}

impl KernelCandidates<'_> {
    /// One of them; `None`: the tables'.
    fn program(&self, way: Option<KernelCandidate>) -> Result<Arc<dyn Program>> {
        if let (Some(KernelCandidate::Library), Some(library)) = (way, &self.library) {
            return Ok(Arc::new(library.clone()));
        }
        let choice =
            if let Some(KernelCandidate::Template(choice)) = way { Some(choice) } else { self.plain.choice };
        let target = GpuTarget { choice, ..self.plain.clone() };
        let (gpu, reports) = (self.gpu.clone(), self.reports.clone());
        Ok(Arc::new(CudaProgram::new(gpu, reports, self.work.clone(), target)?))
    }

    /// The fastest, if there are several and they are timed.
    fn fastest(&self) -> Option<KernelCandidate> {
        let kernel = timed(self.work, false)?;
        let choices = cuda::choices(kernel, self.plain).into_iter().take(CANDIDATES);
        let mut candidates: Vec<KernelCandidate> = choices.map(KernelCandidate::Template).collect();
        candidates.extend(self.library.as_ref().map(|_| KernelCandidate::Library));
        if candidates.len() < 2 {
            return None;
        }
        let memory = TrialBuffers::of(kernel, &|bytes| allocate(self.gpu, bytes))?;
        let key = self.key(kernel, &candidates);
        let number = fastest(config().cache_dir.as_deref(), &key, candidates.len(), &mut |number| {
            time(self.gpu, &memory, self.program(Some(candidates[number]))?.as_ref())
        });
        candidates.get(number).copied()
    }

    /// Under which the number of the fastest way is kept.
    fn key(&self, kernel: &Kernel, candidates: &[KernelCandidate]) -> String {
        let driver = &self.gpu.driver;
        let version =
            self.library.as_ref().and_then(|_| driver.library().ok()).map(|library| library.version);
        let text = crate::kernel::print::text(kernel);
        format!("one of {candidates:?}, cuBLASLt {version:?}\n{:?}\n{text}", driver.info)
    }
}

/// Seconds that some launches of a program take, after one to warm up.
fn time(gpu: &CudaGpu, memory: &TrialBuffers, program: &dyn Program) -> Result<f64> {
    let wait = || gpu.driver.wait().map_err(|failure| gpu.error("", failure));
    memory.launch(program, 1)?;
    wait()?;
    let start = Instant::now();
    memory.launch(program, LAUNCHES)?;
    wait()?;
    Ok(start.elapsed().as_secs_f64())
}
