//! Memory from the system, on huge pages.
//!
//! A processor looks addresses up in tables of pages, and keeps the answers for some 8 MiB of small pages. A model's
//! weights are more than that, so each stretch of a matrix waits for the tables too, on virtual machines twice. An
//! answer for a huge page covers 2 MiB. Blocks are seldom multiples of that, so those of middling size share
//! regions that are; only whole huge pages of what is free in a region go back to the system.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::runtime::cpu::thresholds::{
    HUGE_PAGE_MIN_BYTES, REGION_BYTES, REGION_MAX_BLOCK, REGION_MIN_BLOCK,
};

/// Alignment of every block: a cache line and the widest vector register.
pub const ALIGN: usize = 64;

/// Bytes of the pages that save entries of the processor's table of pages.
const HUGE_PAGE: usize = 2 << 20;

/// The regions of the process.
static REGIONS: Mutex<Regions> = Mutex::new(Regions(Vec::new()));

struct Regions(Vec<Region>);

/// A run of huge pages.
struct Region {
    start: usize,
    /// What is free: where it begins, and how many bytes.
    free: BTreeMap<usize, usize>,
}

/// An uninitialized block, aligned to [`ALIGN`]; `None` if the system refuses. `bytes` is a multiple of [`ALIGN`].
pub fn allocate(bytes: usize) -> Option<u64> {
    if shares_a_region(bytes) { regions().allocate(bytes) } else { system_allocate(bytes) }
}

/// Gives a block back.
///
/// # Safety
/// It came from [`allocate`] of as many bytes, and nothing refers to it.
pub unsafe fn free(address: u64, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        if shares_a_region(bytes) { regions().free(address, bytes) } else { system_free(address, bytes) }
    }
}

fn regions() -> MutexGuard<'static, Regions> {
    // Regions change only by steps that cannot panic half-way.
    REGIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether blocks of so many bytes lie in regions: elsewhere than on Linux, pages are the system's concern.
fn shares_a_region(bytes: usize) -> bool {
    let on_linux = cfg!(all(target_os = "linux", not(miri)));
    on_linux
        && (REGION_MIN_BLOCK..=REGION_MAX_BLOCK).contains(&bytes)
        && crate::base::Optimization::Regions.is_on()
}

impl Regions {
    fn allocate(&mut self, bytes: usize) -> Option<u64> {
        let found = self.0.iter_mut().find_map(|region| region.take(bytes));
        found.or_else(|| self.grow()?.take(bytes)).map(|address| address as u64)
    }

    fn grow(&mut self) -> Option<&mut Region> {
        let start = system_allocate(REGION_BYTES)? as usize;
        self.0.push(Region { start, free: BTreeMap::from([(start, REGION_BYTES)]) });
        self.0.last_mut()
    }

    /// # Safety
    /// As [`free`].
    unsafe fn free(&mut self, address: u64, bytes: usize) {
        let address = address as usize;
        let holder = self.0.iter().position(|region| region.holds(address));
        let index = holder.expect("a block lies in the region that it came from");
        let (start, room) = self.0[index].put_back(address, bytes);
        // SAFETY: nothing of the hole is in use, by the caller's promise.
        unsafe {
            if room < REGION_BYTES {
                return empty_pages(start, room);
            }
            self.0.swap_remove(index);
            system_free(start as u64, room);
        }
    }
}

impl Region {
    fn holds(&self, address: usize) -> bool {
        (self.start..self.start + REGION_BYTES).contains(&address)
    }

    /// A block out of the first hole that has room.
    fn take(&mut self, bytes: usize) -> Option<usize> {
        let (at, room) = self.free.iter().find(|(_, room)| **room >= bytes).map(|(at, room)| (*at, *room))?;
        self.free.remove(&at);
        if room > bytes {
            self.free.insert(at + bytes, room - bytes);
        }
        Some(at)
    }

    /// Frees a block; returns the hole that it is part of now.
    fn put_back(&mut self, address: usize, bytes: usize) -> (usize, usize) {
        let (mut start, mut end) = (address, address + bytes);
        if let Some((&before, &room)) = self.free.range(..address).next_back()
            && before + room == address
        {
            start = before;
        }
        if let Some(room) = self.free.remove(&end) {
            end += room;
        }
        self.free.insert(start, end - start);
        (start, end - start)
    }
}

/// How a block of so many bytes lies that is the system's own.
pub fn layout(bytes: usize) -> Layout {
    let align = if bytes >= HUGE_PAGE_MIN_BYTES { HUGE_PAGE } else { ALIGN };
    Layout::from_size_align(bytes, align).expect("blocks fit the address space")
}

/// Memory of its own, on huge pages if there are several of them.
fn system_allocate(bytes: usize) -> Option<u64> {
    // SAFETY: no block is empty.
    let address = unsafe { alloc(layout(bytes)) };
    if address.is_null() {
        return None;
    }
    #[cfg(all(target_os = "linux", not(miri)))]
    if bytes >= HUGE_PAGE_MIN_BYTES {
        let whole = bytes - bytes % HUGE_PAGE;
        // SAFETY: pages of the block alone; the advice changes nothing in them. A
        // system that does not take it works with small pages.
        unsafe { libc::madvise(address.cast(), whole, libc::MADV_HUGEPAGE) };
    }
    Some(address as u64)
}

/// # Safety
/// The block came from [`system_allocate`] of as many bytes, and nothing refers to it.
unsafe fn system_free(address: u64, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { dealloc(address as *mut u8, layout(bytes)) }
}

/// Lets the system have the whole huge pages of a hole until they are written again.
///
/// # Safety
/// Nothing refers to the hole.
unsafe fn empty_pages(start: usize, bytes: usize) {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        let (first, end) = (start.next_multiple_of(HUGE_PAGE), (start + bytes) / HUGE_PAGE * HUGE_PAGE);
        if first < end {
            // SAFETY: pages of the hole alone, whose contents nobody reads.
            unsafe { libc::madvise(first as *mut libc::c_void, end - first, libc::MADV_DONTNEED) };
        }
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = (start, bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        /// Marks that the holders write stay theirs, and in the end nothing is left.
        #[test]
        fn blocks_are_their_holders_alone(
            sizes in proptest::collection::vec((1usize..2000, 0usize..8), 1..40)
        ) {
            let mut regions = Regions(Vec::new());
            let mut held: Vec<(u64, usize, u8)> = Vec::new();
            let edges = |address: u64, bytes: usize| [address, address + bytes as u64 - 1].map(|at| at as *mut u8);
            // SAFETY: blocks are read and written between their ends, and freed once.
            unsafe {
                for (mark, (size, which)) in (1u8..).zip(sizes) {
                    let bytes = REGION_MIN_BLOCK + size * 100 * ALIGN;
                    let address = regions.allocate(bytes).unwrap();
                    prop_assert_eq!(address % ALIGN as u64, 0);
                    for at in edges(address, bytes) {
                        at.write(mark);
                    }
                    held.push((address, bytes, mark));
                    if which < held.len() && which > 2 {
                        let (address, bytes, mark) = held.swap_remove(which);
                        prop_assert_eq!(edges(address, bytes).map(|at| at.read()), [mark; 2]);
                        regions.free(address, bytes);
                    }
                }
                for (address, bytes, mark) in held {
                    prop_assert_eq!(edges(address, bytes).map(|at| at.read()), [mark; 2]);
                    regions.free(address, bytes);
                }
            }
            prop_assert!(regions.0.is_empty());
        }
    }

    /// Whether the page at an address takes memory.
    #[cfg(all(target_os = "linux", not(miri)))]
    fn is_resident(address: u64) -> bool {
        let mut resident = 0u8;
        let page = (address / 4096 * 4096) as *mut libc::c_void;
        // SAFETY: one page, one answer.
        assert_eq!(unsafe { libc::mincore(page, 1, &mut resident) }, 0);
        resident & 1 == 1
    }

    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn what_is_free_goes_back_to_the_system_beside_what_is_not() {
        let mut regions = Regions(Vec::new());
        let [large, small] = [8 << 20, REGION_MIN_BLOCK];
        // SAFETY: blocks are written between their ends, and freed once.
        unsafe {
            let blocks = [large, small].map(|bytes| (regions.allocate(bytes).unwrap(), bytes));
            for (address, bytes) in blocks {
                std::ptr::write_bytes(address as *mut u8, 1, bytes);
            }
            let (middle, last) = (blocks[0].0 + (4 << 20), blocks[1].0);
            assert!(is_resident(middle) && is_resident(last));
            regions.free(blocks[0].0, large);
            assert!(!is_resident(middle) && is_resident(last));
            assert_eq!((last as *const u8).read(), 1);
            assert_eq!(regions.allocate(large), Some(blocks[0].0), "the hole serves again");
            for (address, bytes) in blocks {
                regions.free(address, bytes);
            }
        }
    }
}
