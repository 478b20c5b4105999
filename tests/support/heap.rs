//! The system's allocator, counting bytes: what a program holds as its allocator
//! sees it, outside of kiln's own books. It is everybody's in its program, so
//! whoever counts is alone there.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(held, Ordering::Relaxed);
        // SAFETY: the caller keeps the allocator's contract.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the allocator's contract.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes held now.
pub fn held() -> usize {
    HELD.load(Ordering::Relaxed)
}

/// The most bytes held since [`forget_most`].
#[allow(dead_code, reason = "not every program that counts asks")]
pub fn most() -> usize {
    MOST.load(Ordering::Relaxed)
}

/// Begins to look for the most bytes anew.
#[allow(dead_code, reason = "not every program that counts asks")]
pub fn forget_most() {
    MOST.store(held(), Ordering::Relaxed);
}
