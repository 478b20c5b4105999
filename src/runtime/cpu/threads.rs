//! Work shared between threads.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use rayon::{ThreadPool, ThreadPoolBuilder};
use smallvec::SmallVec;

use crate::base::config::config;
use crate::base::process;
use crate::runtime::cpu::thresholds::{SPIN_LIMIT, SPINS_AFTER};
use crate::runtime::trace;

/// The device's threads besides the one that calls; none where one thread is all there is.
fn others() -> Option<&'static ThreadPool> {
    static POOL: OnceLock<Option<ThreadPool>> = OnceLock::new();
    let build = || {
        let threads = match config().threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        process::started();
        // A pool of no threads would have as many as there are cores.
        let name = |number: usize| format!("cpu worker {}", number + 1);
        let pool = || ThreadPoolBuilder::new().num_threads(threads - 1).thread_name(name).build().ok();
        (threads > 1).then(pool).flatten()
    };
    POOL.get_or_init(build).as_ref()
}

/// Whether a thread of a pool calls, which then is the pool to use where nothing else is asked
/// for.
fn in_pool() -> bool {
    config().threads == 0 && rayon::current_thread_index().is_some()
}

/// Threads the device uses.
pub fn count() -> usize {
    match in_pool() {
        true => rayon::current_num_threads(),
        false => others().map_or(1, |others| others.current_num_threads() + 1),
    }
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
    let busy = Busy::new(workers);
    let work = |worker: usize| {
        let _part = (worker > 0).then(|| trace::work(launch));
        work(Jobs { parts: &parts, worker });
    };
    match others() {
        _ if workers == 1 => work(0),
        Some(others) if !in_pool() => others.in_place_scope(|scope| spawn(scope, workers, &work, &busy)),
        _ => rayon::in_place_scope(|scope| spawn(scope, workers, &work, &busy)),
    }
}

/// Runs `work` as worker 0 on the calling thread and as the other `workers` on others.
fn spawn<'s>(scope: &rayon::Scope<'s>, workers: usize, work: &'s (impl Fn(usize) + Sync), busy: &'s Busy) {
    for worker in 1..workers {
        scope.spawn(move |_| {
            let _done = busy.one();
            work(worker);
        });
    }
    work(0);
    busy.wait_for_none();
}

/// Workers that are at work beside the calling thread.
struct Busy(AtomicUsize);

impl Busy {
    fn new(workers: usize) -> Busy {
        Busy(AtomicUsize::new(workers - 1))
    }

    /// One of them, until it is dropped.
    fn one(&self) -> impl Drop + '_ {
        struct One<'b>(&'b AtomicUsize);
        impl Drop for One<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Release);
            }
        }
        One(&self.0)
    }

    /// Waits a little for those that are at their last jobs: a thread that sleeps until they are done takes as long
    /// to wake as a small kernel runs.
    fn wait_for_none(&self) {
        let start = Instant::now();
        while self.0.load(Ordering::Acquire) > 0 && start.elapsed() < SPIN_LIMIT {
            std::hint::spin_loop();
        }
        // The scope hears of the last worker a moment after this does.
        (0..SPINS_AFTER).for_each(|_| std::hint::spin_loop());
    }
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
