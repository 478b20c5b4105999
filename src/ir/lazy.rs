//! The number of pending operations: built, and neither computed nor dropped.
//!
//! Nodes are built by the million, so each thread has a count that only it
//! writes: no number travels between caches, and no instruction is locked. A
//! node may be dropped by another thread, so one count alone means nothing;
//! their sum does.

use std::sync::atomic::{AtomicIsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The counts of all threads, and the sum of those that have ended.
struct ThreadCounts {
    threads: Vec<Arc<AtomicIsize>>,
    ended: isize,
}

static COUNTS: Mutex<ThreadCounts> = Mutex::new(ThreadCounts { threads: Vec::new(), ended: 0 });

thread_local! {
    static OWN: Arc<AtomicIsize> = with_counts(|counts| {
        let own = Arc::new(AtomicIsize::new(0));
        counts.threads.push(own.clone());
        own
    });
}

fn with_counts<R>(body: impl FnOnce(&mut ThreadCounts) -> R) -> R {
    // Every change is one push or one addition, so a poisoned lock holds whole counts.
    body(&mut COUNTS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// ThreadCounts operations built (or, below 0, computed or dropped).
pub(super) fn count(change: isize) {
    let own = OWN.try_with(|own| own.store(own.load(Ordering::Relaxed) + change, Ordering::Relaxed));
    // A thread that is ending drops nodes too.
    if own.is_err() {
        with_counts(|counts| counts.ended += change);
    }
}

/// Operations of the whole program that are neither computed nor dropped.
pub fn lazy_nodes() -> usize {
    let sum = with_counts(|counts| {
        let ThreadCounts { threads, ended } = counts;
        // Only this list holds the count of a thread that has ended.
        threads.retain_mut(|count| match Arc::get_mut(count) {
            Some(last) => {
                *ended += *last.get_mut();
                false
            }
            None => true,
        });
        *ended + threads.iter().map(|count| count.load(Ordering::Relaxed)).sum::<isize>()
    });
    sum.max(0) as usize
}
