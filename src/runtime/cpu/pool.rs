//! A caching pool of host memory.
//!
//! Fresh pages cost ten times what a memory-bound kernel does, so blocks that
//! come back are kept by size class and handed out again. Four classes per
//! power of two waste at most a fifth of a block.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::base::{Device, Error, Result};
use crate::ir::{Buffer, Reclaim};
use crate::runtime::MemoryStats;

/// Alignment of every block: a cache line and the widest vector register.
pub const ALIGN: usize = 64;

/// Blocks of at least this many bytes start on a page boundary of 2 MiB, so
/// that the system can back them with huge pages.
const HUGE: usize = 4 << 20;

/// A pool of host memory; clones share it.
#[derive(Clone, Debug)]
pub struct Pool(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    device: Device,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Addresses of free blocks by the size of their class.
    free: BTreeMap<usize, Vec<u64>>,
    stats: MemoryStats,
}

impl Pool {
    /// An empty pool whose buffers belong to `device`.
    pub fn new(device: Device) -> Pool {
        let stats = MemoryStats { limit: u64::MAX, ..MemoryStats::default() };
        Pool(Arc::new(Inner { device, state: Mutex::new(State { free: BTreeMap::new(), stats }) }))
    }

    /// An uninitialised block, aligned to [`ALIGN`]. Debug builds fill it
    /// with bytes of 0xFF: NaN as every floating-point type.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] over the limit, or when the system refuses even
    /// after the cache was given back to it.
    pub fn allocate(&self, bytes: usize) -> Result<Buffer> {
        let class = size_class(bytes).ok_or_else(|| self.refused(bytes))?;
        let address = self.take(bytes, class)?;
        if cfg!(debug_assertions) {
            // SAFETY: the block has `class >= bytes` bytes and nobody else's eyes.
            unsafe { std::ptr::write_bytes(address as *mut u8, 0xff, bytes) }
        }
        Ok(Buffer::new(self.0.device, bytes, address, self.0.clone()))
    }

    /// What the pool holds.
    pub fn stats(&self) -> MemoryStats {
        self.0.lock().stats
    }

    /// Sets the most bytes that may be allocated at once.
    pub fn set_limit(&self, bytes: u64) {
        self.0.lock().stats.limit = bytes;
    }

    /// Gives free blocks back to the system.
    pub fn empty_cache(&self) {
        self.0.lock().release_free();
    }

    /// A block of a class, from the cache or the system.
    fn take(&self, bytes: usize, class: usize) -> Result<u64> {
        let mut state = self.0.lock();
        let allocated = state.stats.allocated.saturating_add(bytes as u64);
        if allocated > state.stats.limit {
            drop(state);
            return Err(self.refused(bytes));
        }
        let cached = state.free.get_mut(&class).and_then(Vec::pop);
        let address = match cached {
            Some(address) => address,
            None => match state.fresh(class) {
                Some(address) => address,
                None => {
                    drop(state);
                    return Err(self.refused(bytes));
                }
            },
        };
        state.stats.allocated = allocated;
        state.stats.peak = state.stats.peak.max(allocated);
        Ok(address)
    }

    fn refused(&self, bytes: usize) -> Error {
        let MemoryStats { allocated, limit, .. } = self.stats();
        Error::OutOfMemory { device: self.0.device, requested: bytes as u64, in_use: allocated, limit }
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state changes only by steps that cannot panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reclaim for Inner {
    fn reclaim(&self, handle: u64, bytes: usize) {
        let class = size_class(bytes).expect("a block that was allocated has a class");
        let mut state = self.lock();
        state.stats.allocated -= bytes as u64;
        state.free.entry(class).or_default().push(handle);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.lock().release_free();
    }
}

impl State {
    /// A new block from the system, after giving back the cache if need be.
    fn fresh(&mut self, class: usize) -> Option<u64> {
        let mut address = system_allocate(class);
        if address.is_none() {
            self.release_free();
            address = system_allocate(class);
        }
        if address.is_some() {
            self.stats.reserved += class as u64;
        }
        address
    }

    fn release_free(&mut self) {
        for (class, blocks) in std::mem::take(&mut self.free) {
            self.stats.reserved -= (class * blocks.len()) as u64;
            for address in blocks {
                // SAFETY: a free block of this class, from `system_allocate`
                // with the same layout, that nothing refers to.
                unsafe { dealloc(address as *mut u8, layout(class)) }
            }
        }
    }
}

/// The bytes of the block behind a request: the least of 1, 1.25, 1.5, 1.75
/// times a power of two that holds it. `None` beyond the address space.
fn size_class(bytes: usize) -> Option<usize> {
    let bytes = bytes.max(4 * ALIGN);
    let power = bytes.checked_next_power_of_two()?;
    let step = power / 8;
    let class = bytes.next_multiple_of(step);
    (class <= isize::MAX as usize - HUGE).then_some(class)
}

fn layout(class: usize) -> Layout {
    let align = if class >= HUGE { 2 << 20 } else { ALIGN };
    Layout::from_size_align(class, align).expect("classes fit a layout")
}

fn system_allocate(class: usize) -> Option<u64> {
    // SAFETY: a class is never 0.
    let address = unsafe { alloc(layout(class)) };
    (!address.is_null()).then_some(address as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pool() -> Pool {
        Pool::new(Device::cpu())
    }

    #[test]
    fn a_freed_block_is_handed_out_again() {
        let pool = pool();
        let first = pool.allocate(1000).unwrap();
        let address = first.handle;
        drop(first);
        assert_eq!(pool.allocate(900).unwrap().handle, address);
    }

    #[test]
    fn classes_hold_the_request_and_waste_at_most_a_fifth() {
        for bytes in (1..5000).chain([1 << 20, (1 << 20) + 1, usize::MAX / 4]) {
            let class = size_class(bytes).unwrap();
            assert!(class >= bytes);
            assert!(bytes < 256 || class - bytes <= class / 5, "{bytes} {class}");
        }
        assert_eq!(size_class(usize::MAX), None);
    }

    #[test]
    fn the_limit_refuses_and_leaves_the_pool_usable() {
        let pool = pool();
        pool.set_limit(5000);
        let held = pool.allocate(4000).unwrap();
        let error = pool.allocate(2000).unwrap_err();
        assert!(matches!(error, Error::OutOfMemory { requested: 2000, in_use: 4000, limit: 5000, .. }));
        drop(held);
        assert!(pool.allocate(2000).is_ok());
    }

    #[test]
    fn an_impossible_size_is_an_error() {
        assert!(pool().allocate(usize::MAX).is_err());
        assert!(pool().allocate(usize::MAX / 2 - 1).is_err());
    }

    #[derive(Clone, Debug)]
    enum Action {
        Allocate(usize),
        Free(usize),
        Empty,
    }

    fn action() -> impl Strategy<Value = Action> {
        prop_oneof![
            4 => (0usize..100_000).prop_map(Action::Allocate),
            3 => (0usize..100).prop_map(Action::Free),
            1 => Just(Action::Empty),
        ]
    }

    proptest! {
        /// Against a model that is a list of live buffers: live blocks never
        /// overlap, are aligned, and the counters say what the model says.
        #[test]
        fn the_pool_agrees_with_a_list_of_buffers(actions in prop::collection::vec(action(), 0..60)) {
            let pool = pool();
            let mut live: Vec<Buffer> = Vec::new();
            let mut peak = 0u64;
            for action in actions {
                match action {
                    Action::Allocate(bytes) => live.push(pool.allocate(bytes).unwrap()),
                    Action::Free(i) if !live.is_empty() => drop(live.swap_remove(i % live.len())),
                    Action::Free(_) => {}
                    Action::Empty => pool.empty_cache(),
                }
                let allocated: u64 = live.iter().map(|b| b.bytes as u64).sum();
                peak = peak.max(allocated);
                let stats = pool.stats();
                prop_assert_eq!((stats.allocated, stats.peak), (allocated, peak));
                prop_assert!(stats.reserved >= allocated);
                let mut spans: Vec<(u64, u64)> =
                    live.iter().map(|b| (b.handle, b.handle + b.bytes as u64)).collect();
                spans.sort_unstable();
                prop_assert!(spans.windows(2).all(|w| w[0].1 <= w[1].0));
                prop_assert!(spans.iter().all(|s| s.0 % ALIGN as u64 == 0));
            }
            drop(live);
            pool.empty_cache();
            prop_assert_eq!((pool.stats().allocated, pool.stats().reserved), (0, 0));
        }
    }
}
