//! Bad indices: where kernels of one backend report them, and whose they were.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::thread::ThreadId;

use crate::base::{Error, Result};
use crate::runtime::IndexSite;
use crate::runtime::cuda::driver::words::SharedWords;
use crate::runtime::cuda::gpu::{CudaGpu, lock};

/// Words of a report: whether, the launch, the index's halves, the extent's. `report` in `kernels/prelude.cuh`
/// knows both numbers.
const WORDS: usize = 6;
/// Launches in a row whose reports are kept apart.
const SLOTS: usize = 256;

/// Where the kernels of one backend report bad indices: a context's launches
/// are no other's business, nor one thread's another's.
#[derive(Debug)]
pub struct CudaReports {
    words: SharedWords,
    state: Mutex<PendingReports>,
}

/// Launches that may report, and reports that their threads have not seen.
#[derive(Debug, Default)]
struct PendingReports {
    /// The number of the first launch that is kept.
    first: u32,
    kept: VecDeque<(ThreadId, Option<IndexSite>)>,
    errors: Vec<(ThreadId, Error)>,
}

impl CudaReports {
    /// Nothing reported.
    ///
    /// # Errors
    /// The driver has no memory for it.
    pub fn new(gpu: &CudaGpu) -> Result<CudaReports> {
        let words = gpu.driver.shared_words(WORDS * SLOTS).map_err(|failure| gpu.error("", failure))?;
        Ok(CudaReports { words, state: Mutex::default() })
    }

    /// Where kernels find the words.
    pub fn pointer(&self) -> u64 {
        self.words.device
    }

    /// Keeps the line of a launch that may report; gives its number.
    pub fn site(&self, site: Option<IndexSite>) -> u32 {
        let mut state = lock(&self.state);
        state.kept.push_back((std::thread::current().id(), site));
        state.end().wrapping_sub(1)
    }

    /// Waits with `wait`, then gives the error that this thread's launches before reported.
    ///
    /// # Errors
    /// That, or the wait's.
    pub fn after(&self, gpu: &CudaGpu, wait: impl FnOnce() -> Result<()>) -> Result<()> {
        let end = lock(&self.state).end();
        wait()?;
        let mut state = lock(&self.state);
        // Another thread may have waited for more.
        let finished = usize::try_from(end.wrapping_sub(state.first) as i32).unwrap_or(0);
        for launch in 0..finished.min(SLOTS) {
            let slot = (state.first.wrapping_add(launch as u32)) as usize % SLOTS;
            self.gather(gpu, &mut state, slot, finished);
        }
        state.kept.drain(..finished);
        state.first = state.first.wrapping_add(finished as u32);
        state.take()
    }

    /// Moves the report of a launch that is finished to the host.
    fn gather(&self, gpu: &CudaGpu, state: &mut PendingReports, slot: usize, finished: usize) {
        let at = WORDS * slot;
        if self.words.read(at) == 0 {
            return;
        }
        let word = |i: usize| u64::from(self.words.read(at + i));
        let launch = (word(1) as u32).wrapping_sub(state.first) as usize;
        if launch >= finished {
            return;
        }
        let (thread, site) = state.kept[launch];
        let (index, extent) = ((word(3) << 32 | word(2)) as i64, (word(5) << 32 | word(4)) as usize);
        let error = match site {
            Some(site) => site.error(index, extent),
            None => gpu.refusal("", format!("index {index} out of range for an axis of {extent}")),
        };
        state.errors.push((thread, error));
        self.words.clear(at..at + WORDS);
    }
}

impl PendingReports {
    /// The number after the last launch.
    fn end(&self) -> u32 {
        self.first.wrapping_add(self.kept.len() as u32)
    }

    /// The first report of this thread's launches. What its others reported is told with it: no later read is to
    /// blame.
    fn take(&mut self) -> Result<()> {
        let own = std::thread::current().id();
        let Some(at) = self.errors.iter().position(|(thread, _)| *thread == own) else { return Ok(()) };
        let (_, error) = self.errors.remove(at);
        self.errors.retain(|(thread, _)| *thread != own);
        Err(error)
    }
}
