//! How many operations have been built and neither computed nor dropped.
//!
//! Threads count apart, since nodes are built by the million: one shared
//! number would travel between their caches. A node may be dropped by
//! another thread, so that one count alone means nothing; their sum does.

use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};

const COUNTERS: usize = 16;

/// A counter with a cache line of its own.
#[repr(align(128))]
struct Counter(AtomicIsize);

static COUNTS: [Counter; COUNTERS] = [const { Counter(AtomicIsize::new(0)) }; COUNTERS];
static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static OWN: usize = NEXT.fetch_add(1, Ordering::Relaxed) % COUNTERS;
}

/// Counts operations built (or, below 0, computed or dropped).
pub(super) fn count(change: isize) {
    // A thread that is ending drops nodes too.
    let own = OWN.try_with(|own| *own).unwrap_or(0);
    COUNTS[own].0.fetch_add(change, Ordering::Relaxed);
}

/// Operations of the whole program that are neither computed nor dropped.
pub fn lazy_nodes() -> usize {
    COUNTS.iter().map(|counter| counter.0.load(Ordering::Relaxed)).sum::<isize>().max(0) as usize
}
