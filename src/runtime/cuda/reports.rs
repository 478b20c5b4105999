//! Bad indices: where kernels of one backend report them, and whose they were.

use std::collections::VecDeque;
use std::sync::Mutex;

use crate::base::Result;
use crate::runtime::IndexSite;
use crate::runtime::cuda::driver::words::SharedWords;
use crate::runtime::cuda::gpu::{CudaGpu, lock};

/// Words of a report: whether, the launch, the index's halves, the extent's.
const WORDS: usize = 6;

/// Where the kernels of one backend report bad indices: a context's launches
/// are no other's business.
#[derive(Debug)]
pub struct CudaReports {
    words: SharedWords,
    sites: Mutex<Sites>,
}

/// The user's lines of launches that may report.
#[derive(Debug, Default)]
struct Sites {
    /// The number of the first that is kept.
    first: u32,
    kept: VecDeque<Option<IndexSite>>,
}

impl CudaReports {
    /// Nothing reported.
    ///
    /// # Errors
    /// The driver has no memory for it.
    pub fn new(gpu: &CudaGpu) -> Result<CudaReports> {
        let words = gpu.driver.shared_words(WORDS).map_err(|failure| gpu.error("", failure))?;
        Ok(CudaReports { words, sites: Mutex::default() })
    }

    /// Where kernels find the words.
    pub fn pointer(&self) -> u64 {
        self.words.device
    }

    /// Keeps the line of a launch that may report; gives its number.
    pub fn site(&self, site: Option<IndexSite>) -> u32 {
        let mut sites = lock(&self.sites);
        sites.kept.push_back(site);
        sites.first.wrapping_add(sites.kept.len() as u32 - 1)
    }

    /// Waits with `wait`, then gives the error that launches before reported.
    ///
    /// # Errors
    /// That, or the wait's.
    pub fn after(&self, gpu: &CudaGpu, wait: impl FnOnce() -> Result<()>) -> Result<()> {
        let before = lock(&self.sites).kept.len();
        wait()?;
        let words = self.words.read();
        let mut sites = lock(&self.sites);
        let site = sites.kept.get(words[1].wrapping_sub(sites.first) as usize).copied().flatten();
        // Launches that other threads enqueued since keep their numbers.
        let before = before.min(sites.kept.len());
        sites.kept.drain(..before);
        sites.first = sites.first.wrapping_add(before as u32);
        if words[0] == 0 {
            return Ok(());
        }
        self.words.clear();
        let index = (u64::from(words[3]) << 32 | u64::from(words[2])) as i64;
        let extent = (u64::from(words[5]) << 32 | u64::from(words[4])) as usize;
        match site {
            Some(site) => Err(site.error(index, extent)),
            None => Err(gpu.refusal("", format!("index {index} out of range for an axis of {extent}"))),
        }
    }
}
