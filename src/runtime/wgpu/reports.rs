//! Bad indices that kernels report.

use std::sync::Mutex;
use std::thread::ThreadId;

use crate::base::{Error, Result};
use crate::runtime::IndexSite;
use crate::runtime::wgpu::gpu::{buffer, lock};

/// Launches whose reports are kept apart.
pub(super) const SITES: usize = 1024;
/// Bytes of one launch's report.
pub(super) const REPORT_BYTES: u64 = 16;
/// Bytes of the words that report bad indices.
pub const STATUS_BYTES: u64 = SITES as u64 * REPORT_BYTES;

/// Where the kernels of one backend report bad indices. Each launch has words
/// of its own, so that a thread learns of its launches only.
#[derive(Debug)]
pub struct WgpuReports {
    /// The status words.
    pub status: wgpu::Buffer,
    pub(super) state: Mutex<PendingReports>,
}

/// Launches that may report, and reports that their threads have not seen.
#[derive(Debug, Default)]
pub(super) struct PendingReports {
    /// By number; `None` once the report was taken.
    pub(super) sites: Vec<Option<(ThreadId, Option<IndexSite>)>>,
    pub(super) errors: Vec<(ThreadId, Error)>,
    /// Launches that have words but are not recorded yet.
    pub(super) open: usize,
    /// How often all words were freed: words that a thread copied before are reused since.
    pub(super) freed: u64,
}

/// The launches that may have reported at some time.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) count: usize,
    pub(super) open: usize,
    pub(super) freed: u64,
}

/// A launch's words, while it is being recorded.
#[derive(Debug)]
pub struct ReportSlot<'a> {
    pub(super) reports: &'a WgpuReports,
    /// The number of its words.
    pub number: u32,
}

impl Drop for ReportSlot<'_> {
    fn drop(&mut self) {
        lock(&self.reports.state).open -= 1;
    }
}

impl WgpuReports {
    /// Nothing reported.
    pub fn new(device: &wgpu::Device) -> WgpuReports {
        let copies = wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC;
        let status = buffer(device, STATUS_BYTES, wgpu::BufferUsages::STORAGE | copies);
        WgpuReports { status, state: Mutex::default() }
    }

    /// Launches that may have reported, so far.
    pub(super) fn launches(&self) -> usize {
        lock(&self.state).sites.len()
    }

    /// The launches that may have reported by now.
    pub(super) fn snapshot(&self) -> Snapshot {
        let state = lock(&self.state);
        Snapshot { count: state.sites.len(), open: state.open, freed: state.freed }
    }

    /// The first report of this thread's launches.
    pub(super) fn take(&self) -> Result<()> {
        let mut state = lock(&self.state);
        let own = std::thread::current().id();
        match state.errors.iter().position(|(thread, _)| *thread == own) {
            // What its other launches reported is told with it: no later read is to blame.
            Some(at) => {
                let (_, error) = state.errors.remove(at);
                state.errors.retain(|(thread, _)| *thread != own);
                Err(error)
            }
            None => Ok(()),
        }
    }
}
