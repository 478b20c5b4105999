//! The system's allocator, counting bytes: what a program holds as its allocator
//! sees it, outside of kiln's own books. It is everybody's in its program, so
//! whoever counts is alone there. Nothing is counted before [`count`] is called: threads
//! that count wait for each other, which is no part of what they do.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};

struct Counting;

static COUNTS: AtomicBool = AtomicBool::new(false);
// Below 0 where more is given back than was taken since counting began.
static HELD: AtomicIsize = AtomicIsize::new(0);
static MOST: AtomicIsize = AtomicIsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if COUNTS.load(Ordering::Relaxed) {
            let bytes = layout.size() as isize;
            MOST.fetch_max(HELD.fetch_add(bytes, Ordering::Relaxed) + bytes, Ordering::Relaxed);
        }
        // SAFETY: the caller keeps the allocator's contract.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if COUNTS.load(Ordering::Relaxed) {
            HELD.fetch_sub(layout.size() as isize, Ordering::Relaxed);
        }
        // SAFETY: the caller keeps the allocator's contract.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Begins to count.
pub fn count() {
    COUNTS.store(true, Ordering::Relaxed);
}

/// Bytes held now, of those taken since counting began.
pub fn held() -> isize {
    HELD.load(Ordering::Relaxed)
}

/// The most bytes held since [`forget_most`].
#[allow(dead_code, reason = "not every program that counts asks")]
pub fn most() -> isize {
    MOST.load(Ordering::Relaxed)
}

/// Begins to look for the most bytes anew.
#[allow(dead_code, reason = "not every program that counts asks")]
pub fn forget_most() {
    MOST.store(held(), Ordering::Relaxed);
}
