//! Work shared between threads.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::base::config::config;

/// The device's own threads, where `KILN_THREADS` asks for other than all cores.
fn own_pool() -> Option<&'static ThreadPool> {
    static POOL: OnceLock<Option<ThreadPool>> = OnceLock::new();
    let build = || match config().threads {
        0 => None,
        threads => ThreadPoolBuilder::new().num_threads(threads).build().ok(),
    };
    POOL.get_or_init(build).as_ref()
}

/// Threads the device uses.
pub fn count() -> usize {
    own_pool().map_or_else(rayon::current_num_threads, ThreadPool::current_num_threads)
}

/// Calls `body` where rayon's own calls use the device's threads.
pub fn install<R: Send>(body: impl FnOnce() -> R + Send) -> R {
    match own_pool() {
        Some(pool) => pool.install(body),
        None => body(),
    }
}

/// Calls `body` with each of `0..jobs`, in no order, on several threads.
///
/// The caller works too, so that little is lost where other threads are slow
/// to wake.
pub fn jobs(jobs: usize, body: impl Fn(usize) + Sync) {
    let helpers = jobs.min(count()).saturating_sub(1);
    if helpers == 0 {
        return (0..jobs).for_each(body);
    }
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let job = next.fetch_add(1, Ordering::Relaxed);
            if job >= jobs {
                return;
            }
            body(job);
        }
    };
    match own_pool() {
        Some(pool) => pool.in_place_scope(|scope| share(scope, helpers, &work)),
        None => rayon::in_place_scope(|scope| share(scope, helpers, &work)),
    }
}

/// Runs `work` on the calling thread and `helpers` others.
fn share<'s>(scope: &rayon::Scope<'s>, helpers: usize, work: &'s (impl Fn() + Sync)) {
    for _ in 0..helpers {
        scope.spawn(move |_| work());
    }
    work();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_runs_once() {
        let counts: Vec<AtomicUsize> = (0..1000).map(|_| AtomicUsize::new(0)).collect();
        jobs(counts.len(), |i| {
            counts[i].fetch_add(1, Ordering::Relaxed);
        });
        assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == 1));
    }
}
