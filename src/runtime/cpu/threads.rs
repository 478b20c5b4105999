//! Work shared between threads.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::{ThreadPool, ThreadPoolBuilder};
use smallvec::SmallVec;

use crate::base::config::config;
use crate::base::process;
use crate::runtime::cpu::team::Team;
use crate::runtime::trace;

/// The device's threads besides the one that calls.
fn team() -> &'static Team {
    static TEAM: OnceLock<Team> = OnceLock::new();
    TEAM.get_or_init(|| {
        let threads = match config().threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        process::started();
        Team::new(threads - 1)
    })
}

/// As many for who calls while the team is busy; none where the system refuses.
fn others() -> Option<&'static ThreadPool> {
    static POOL: OnceLock<Option<ThreadPool>> = OnceLock::new();
    let name = |number: usize| format!("cpu worker {}, second team", number + 1);
    let pool = || ThreadPoolBuilder::new().num_threads(team().members()).thread_name(name).build().ok();
    POOL.get_or_init(pool).as_ref()
}

/// Whether a thread of a pool calls, which then is the pool to use where nothing else is asked
/// for.
fn in_pool() -> bool {
    config().threads == 0 && rayon::current_thread_index().is_some()
}

/// Threads to share work with, the one that calls among them.
pub fn count() -> usize {
    if in_pool() { rayon::current_num_threads() } else { team().members() + 1 }
}

/// Calls `body` with each of `0..jobs` on several threads. Each thread goes up a part of its
/// own, so that what it reads lies far from what others read: memory serves two streams a page
/// apart at half the rate. One that is done steals half of what another has left.
///
/// The caller works too, so that little is lost where other threads are slow
/// to wake.
pub fn parallel_for(jobs: usize, body: impl Fn(usize) + Sync) {
    for_each_worker(jobs, |jobs| jobs.for_each(&body));
}

/// Calls `work` on several threads with the jobs of `0..jobs` that each is to do, as
/// [`parallel_for`] does, for what threads prepare once for all of theirs.
pub fn for_each_worker(jobs: usize, work: impl Fn(Jobs<'_>) + Sync) {
    let workers = jobs.min(count());
    if workers == 0 {
        return;
    }
    let (parts, launch) = (JobRanges::new(jobs, workers), trace::current_launch());
    let work = |worker: usize| {
        let _part = (worker > 0).then(|| trace::work(launch));
        work(Jobs { parts: &parts, worker });
    };
    if workers == 1 {
        return work(0);
    }
    if in_pool() {
        return rayon::in_place_scope(|scope| spawn(scope, workers, &work));
    }
    if !team().run(workers, &work) {
        match others() {
            Some(others) => others.in_place_scope(|scope| spawn(scope, workers, &work)),
            // Jobs that no other worker takes are taken from it.
            None => work(0),
        }
    }
}

/// Runs `work` as worker 0 on the calling thread and as the other `workers` on others.
fn spawn<'s>(scope: &rayon::Scope<'s>, workers: usize, work: &'s (impl Fn(usize) + Sync)) {
    for worker in 1..workers {
        scope.spawn(move |_| work(worker));
    }
    work(0);
}

/// The jobs of one worker.
pub struct Jobs<'p> {
    parts: &'p JobRanges,
    worker: usize,
}

impl Iterator for Jobs<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.parts.next(self.worker)
    }
}

/// Jobs that are left, by worker.
struct JobRanges(SmallVec<[JobRange; 8]>);

/// The first job of a range and the one after its last, in one word, on a line of its own.
#[repr(align(128))]
struct JobRange(AtomicU64);

impl JobRange {
    fn new(jobs: Range<u32>) -> JobRange {
        JobRange(AtomicU64::new(packed(&jobs)))
    }

    fn get(&self) -> Range<u32> {
        let word = self.0.load(Ordering::Relaxed);
        (word >> 32) as u32..word as u32
    }

    fn set(&self, jobs: &Range<u32>) {
        self.0.store(packed(jobs), Ordering::Relaxed);
    }

    /// Leaves `after` where there was `before`, if there still was.
    fn replace(&self, before: &Range<u32>, after: &Range<u32>) -> bool {
        let (before, after) = (packed(before), packed(after));
        self.0.compare_exchange_weak(before, after, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

fn packed(jobs: &Range<u32>) -> u64 {
    u64::from(jobs.start) << 32 | u64::from(jobs.end)
}

impl JobRanges {
    fn new(jobs: usize, workers: usize) -> JobRanges {
        let start = |worker: usize| (jobs * worker / workers) as u32;
        JobRanges((0..workers).map(|worker| JobRange::new(start(worker)..start(worker + 1))).collect())
    }

    /// A job for a worker; `None` once none is left for it.
    fn next(&self, worker: usize) -> Option<usize> {
        let own = &self.0[worker];
        loop {
            let left = own.get();
            if left.is_empty() {
                // Nobody takes from an empty part, so it is this worker's to fill.
                own.set(&self.steal()?);
            } else if own.replace(&left, &(left.start + 1..left.end)) {
                return Some(left.start as usize);
            }
        }
    }

    /// Steals the latter half of the longest range, or all of one that is a single job.
    fn steal(&self) -> Option<Range<u32>> {
        loop {
            let parts = self.0.iter().map(|part| (part, part.get()));
            let (part, left) = parts.max_by_key(|(_, left)| left.len())?;
            if left.is_empty() {
                return None;
            }
            let middle = left.start + left.len() as u32 / 2;
            if part.replace(&left, &(left.start..middle)) {
                return Some(middle..left.end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn every_job_runs_once() {
        for count in [1, 2, 3, 1000] {
            let runs: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
            parallel_for(count, |i| {
                runs[i].fetch_add(1, Ordering::Relaxed);
            });
            assert!(runs.iter().all(|runs| runs.load(Ordering::Relaxed) == 1));
        }
    }

    #[test]
    fn a_worker_goes_up_its_part_and_then_takes_half_of_what_another_has_left() {
        let parts = JobRanges::new(8, 2);
        let order: Vec<Option<usize>> = (0..6).map(|_| parts.next(1)).collect();
        assert_eq!(order, [4, 5, 6, 7, 2, 3].map(Some));
        assert_eq!(parts.next(0), Some(0));
        assert_eq!(parts.next(1), Some(1));
        assert_eq!((parts.next(0), parts.next(1)), (None, None));
    }

    #[test]
    fn threads_that_take_from_each_other_run_every_job_once() {
        const WORKERS: usize = 4;
        let parts = JobRanges::new(10_000, WORKERS);
        let runs: Vec<AtomicUsize> = (0..10_000).map(|_| AtomicUsize::new(0)).collect();
        std::thread::scope(|scope| {
            for worker in 0..WORKERS {
                let (parts, runs) = (&parts, &runs);
                scope.spawn(move || {
                    while let Some(job) = parts.next(worker) {
                        runs[job].fetch_add(1, Ordering::Relaxed);
                        // Parts of different speeds, so that there is something to take.
                        (0..worker * 50).for_each(|_| std::hint::spin_loop());
                    }
                });
            }
        });
        assert!(runs.iter().all(|runs| runs.load(Ordering::Relaxed) == 1));
    }
}
