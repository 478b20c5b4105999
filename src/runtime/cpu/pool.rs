//! A caching pool of host memory.
//!
//! Fresh pages cost ten times what a memory-bound kernel does, so blocks that
//! come back are kept by size class and handed out again, to a request of the
//! class or of one at most a sixteenth smaller. New blocks waste less than a
//! hundredth if they are large, so that plans can tell what will be held.
//! Blocks are neither split nor joined: what bounds fragmentation is that
//! before the system allocates more, cached blocks go back to it, the
//! longest unused first, until the pool is within a fifth of the most that was
//! ever in use.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::base::{Device, Error, Result, process};
use crate::ir::collect::AddressMap;
use crate::ir::{DeviceBuffer, Reclaim};
use crate::runtime::cpu::regions::{self, ALIGN};
use crate::runtime::cpu::thresholds::{
    HUGE_PAGE_MIN_BYTES, POOL_FINE_CLASS_BYTES, POOL_SLACK, POOL_SLACK_BYTES,
};
use crate::runtime::{Ledger, MemoryStats};

/// A pool of host memory; clones share it.
#[derive(Clone, Debug)]
pub struct HostPool(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    device: Device,
    state: Mutex<PoolState>,
}

#[derive(Debug)]
struct PoolState {
    /// Free blocks by the size of their class, the longest unused first. Lists stay when
    /// they are empty: all threads wait while one allocates a list.
    free: BTreeMap<usize, VecDeque<Free>>,
    /// The classes of blocks in use, by address.
    used: AddressMap<u64, usize>,
    /// Counts the blocks that came back.
    clock: u64,
    ledger: Ledger,
}

/// A block that nobody uses.
#[derive(Clone, Copy, Debug)]
struct Free {
    address: u64,
    since: u64,
}

impl HostPool {
    /// An empty pool whose buffers belong to `device`.
    pub fn new(device: Device) -> HostPool {
        let state = PoolState {
            free: BTreeMap::new(),
            used: AddressMap::default(),
            clock: 0,
            ledger: Ledger::new(device),
        };
        HostPool(Arc::new(Inner { device, state: Mutex::new(state) }))
    }

    /// An uninitialised block, aligned to [`ALIGN`]. Debug builds fill it
    /// with bytes of 0xFF: NaN as every floating-point type.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] over the limit, or when the system refuses even
    /// after the cache was given back to it.
    pub fn allocate(&self, bytes: usize) -> Result<DeviceBuffer> {
        process::whole(self.0.device)?;
        let class = size_class(bytes).ok_or_else(|| self.refused(bytes))?;
        let address = self.take(bytes, class)?;
        if cfg!(debug_assertions) {
            // SAFETY: the block has `class >= bytes` bytes and nobody else's eyes.
            unsafe { std::ptr::write_bytes(address as *mut u8, 0xff, bytes) }
        }
        Ok(DeviceBuffer::new(self.0.device, bytes, address, self.0.clone()))
    }

    /// What the pool holds.
    pub fn stats(&self) -> MemoryStats {
        self.0.lock().ledger.stats()
    }

    /// Shows the books to `look`.
    pub fn with_ledger(&self, look: &mut dyn FnMut(&mut Ledger)) {
        look(&mut self.0.lock().ledger);
    }

    /// Sets the most bytes that may be allocated at once.
    pub fn set_limit(&self, bytes: u64) {
        self.0.lock().ledger.set_limit(bytes);
    }

    /// Gives free blocks back to the system.
    pub fn empty_cache(&self) {
        self.0.lock().release_free();
    }

    /// A block of a class, from the cache or the system.
    fn take(&self, bytes: usize, class: usize) -> Result<u64> {
        let mut state = self.0.lock();
        if !state.ledger.admits(bytes as u64) {
            drop(state);
            return Err(self.refused(bytes));
        }
        let cached = state.cached(class);
        let Some((address, class)) = cached.or_else(|| Some((state.fresh(class, bytes)?, class))) else {
            drop(state);
            return Err(self.refused(bytes));
        };
        state.used.insert(address, class);
        state.ledger.allocated(address, bytes as u64);
        Ok(address)
    }

    fn refused(&self, bytes: usize) -> Error {
        let state = self.0.lock();
        let MemoryStats { allocated, limit, .. } = state.ledger.stats();
        Error::OutOfMemory {
            device: self.0.device,
            requested: bytes as u64,
            in_use: allocated,
            limit,
            largest: state.ledger.largest(Ledger::NAMED).into(),
            span: None,
        }
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, PoolState> {
        // The state changes only by steps that cannot panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reclaim for Inner {
    fn reclaim(&self, handle: u64, bytes: usize) {
        let mut state = self.lock();
        let class = state.used.remove(&handle).expect("a block comes back once, after it was taken");
        state.ledger.freed(handle, bytes as u64);
        state.clock += 1;
        let since = state.clock;
        state.free.entry(class).or_default().push_back(Free { address: handle, since });
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.lock().release_free();
    }
}

impl PoolState {
    /// A free block of the class, or of one that is little larger.
    fn cached(&mut self, class: usize) -> Option<(u64, usize)> {
        let near = self.free.range_mut(class..=class + class / 16);
        // The block used last is likeliest in cache.
        near.filter_map(|(&class, blocks)| Some((blocks.pop_back()?.address, class))).next()
    }

    /// A new block from the system, after giving back what the pool should no
    /// longer hold, and the rest of the cache if need be.
    fn fresh(&mut self, class: usize, bytes: usize) -> Option<u64> {
        self.trim(class as u64, bytes as u64);
        let mut address = regions::allocate(class);
        if address.is_none() {
            self.release_free();
            address = regions::allocate(class);
        }
        if address.is_some() {
            self.ledger.reserve(class as u64);
        }
        address
    }

    /// Gives back blocks until the pool with `more` bytes is within bounds, of
    /// which `bytes` will be in use.
    fn trim(&mut self, more: u64, bytes: u64) {
        let stats = self.ledger.stats();
        let most = stats.peak.max(stats.allocated + bytes);
        let bound =
            ((most as f64 * POOL_SLACK) as u64).max(most.saturating_add(POOL_SLACK_BYTES)).min(stats.limit);
        while self.ledger.stats().reserved.saturating_add(more) > bound {
            let oldest = self.free.iter().filter_map(|(&class, free)| Some((free.front()?.since, class)));
            let Some((_, class)) = oldest.min() else { return };
            let Some(blocks) = self.free.get_mut(&class) else { return };
            let free = blocks.pop_front();
            free.into_iter().for_each(|free| self.give_back(class, free));
        }
    }

    fn release_free(&mut self) {
        for (class, blocks) in std::mem::take(&mut self.free) {
            blocks.into_iter().for_each(|free| self.give_back(class, free));
        }
    }

    fn give_back(&mut self, class: usize, free: Free) {
        self.ledger.release(class as u64);
        // SAFETY: a free block of this class, that nothing refers to.
        unsafe { regions::free(free.address, class) }
    }
}

/// The bytes of the block behind a request: the least of 16, 17, .. 31 times
/// a power of two that holds it, of 128, 129, .. 255 times for a large one.
/// `None` beyond the address space.
fn size_class(bytes: usize) -> Option<usize> {
    let bytes = bytes.max(4 * ALIGN);
    let power = bytes.checked_next_power_of_two()?;
    let step = power / if bytes < POOL_FINE_CLASS_BYTES { 32 } else { 256 };
    let class = bytes.next_multiple_of(step);
    (class <= isize::MAX as usize - HUGE_PAGE_MIN_BYTES).then_some(class)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Shape;
    use crate::runtime::label::{self, Label};
    use proptest::prelude::*;

    fn pool() -> HostPool {
        HostPool::new(Device::cpu())
    }

    #[test]
    fn a_freed_block_is_handed_out_again() {
        let pool = pool();
        let first = pool.allocate(1000).unwrap();
        let address = first.handle;
        drop(first);
        assert_eq!(pool.allocate(1010).unwrap().handle, address);
        let large = pool.allocate(2 << 20).unwrap().handle;
        assert_eq!(pool.allocate((2 << 20) - 60_000).unwrap().handle, large, "not much larger");
        assert_ne!(pool.allocate(1 << 20).unwrap().handle, large, "twice as large");
    }

    /// Each block is its holder's alone, whichever thread had it before.
    #[test]
    fn threads_share_the_pool() {
        let pool = pool();
        let rounds = if cfg!(miri) { 6 } else { 300 };
        let fill = &|seed: usize| {
            let mut held: Vec<(u8, DeviceBuffer)> = Vec::new();
            for round in 0..rounds {
                let (bytes, mark) = (300 + 100 * ((seed + round) % 3), (8 * round + seed) as u8);
                let block = pool.allocate(bytes).expect("no limit");
                // SAFETY: the block has `bytes` bytes and is this thread's.
                unsafe { std::ptr::write_bytes(block.handle as *mut u8, mark, bytes) };
                held.push((mark, block));
                if held.len() > 2 {
                    let (mark, block) = held.swap_remove(round % 3);
                    let bytes = crate::runtime::host::bytes_of_pool(&block);
                    assert!(bytes.iter().all(|&byte| byte == mark), "another thread wrote here");
                }
            }
        };
        std::thread::scope(|scope| {
            (0..8).for_each(|seed| {
                scope.spawn(move || fill(seed));
            });
        });
        assert_eq!((pool.stats().allocated, pool.stats().allocations), (0, 8 * rounds as u64));
        pool.empty_cache();
        assert_eq!(pool.stats().reserved, 0);
    }

    #[test]
    fn classes_hold_the_request_and_waste_little() {
        for bytes in (1..5000).chain([1 << 20, (1 << 20) + 1, (3 << 20) + 5, usize::MAX / 4]) {
            let class = size_class(bytes).unwrap();
            assert!(class >= bytes);
            let part = if bytes < POOL_FINE_CLASS_BYTES { 17 } else { 129 };
            assert!(bytes < 256 || class - bytes <= class / part + 8, "{bytes} {class}");
        }
        assert_eq!(size_class(usize::MAX), None);
    }

    #[test]
    fn the_limit_refuses_and_leaves_the_pool_usable() {
        let pool = pool();
        pool.set_limit(5000);
        let held = pool.allocate(4000).unwrap();
        let error = pool.allocate(2000).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::OutOfMemory { requested: 2000, in_use: 4000, limit: 5000, .. }));
        assert!(text.contains("1000 bytes would fit: split it in 2, or free 1000"), "{text}");
        assert!(text.contains("4000 bytes: scratch"), "{text}");
        drop(held);
        assert!(pool.allocate(2000).is_ok());
    }

    #[test]
    fn an_impossible_size_is_an_error() {
        assert!(pool().allocate(usize::MAX).is_err());
        assert!(pool().allocate(usize::MAX / 2 - 1).is_err());
    }

    #[derive(Clone, Debug)]
    enum PoolAction {
        Allocate(usize),
        Free(usize),
        Empty,
    }

    fn action() -> impl Strategy<Value = PoolAction> {
        prop_oneof![
            4 => (0usize..100_000).prop_map(PoolAction::Allocate),
            1 => (1usize << 18..1 << 20).prop_map(PoolAction::Allocate),
            3 => (0usize..100).prop_map(PoolAction::Free),
            1 => Just(PoolAction::Empty),
        ]
    }

    #[test]
    fn a_long_run_of_changing_sizes_holds_little_more_than_was_ever_in_use() {
        let pool = pool();
        let mut live: Vec<DeviceBuffer> = Vec::new();
        let mut random = 1u64;
        for _ in 0..5_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let size = 1usize << (10 + (random >> 60));
            live.push(pool.allocate(size + (random >> 33) as usize % size).unwrap());
            if live.len() > 12 {
                live.swap_remove((random >> 40) as usize % 12);
            }
            let stats = pool.stats();
            assert!(
                stats.reserved as f64
                    <= (stats.peak as f64 * POOL_SLACK).max((stats.peak + POOL_SLACK_BYTES) as f64)
            );
        }
    }

    #[test]
    fn the_books_say_what_each_block_is_for() {
        let pool = pool();
        pool.with_ledger(&mut |ledger| ledger.record_history(true));
        let label = Label { name: "weights", shape: Shape::from([2, 5]), span: None };
        let block = label::allocating(label.clone(), || pool.allocate(40).unwrap());
        let scratch = pool.allocate(7).unwrap();
        drop(block);
        let (mut largest, mut events) = (Vec::new(), None);
        pool.with_ledger(&mut |ledger| (largest, events) = (ledger.largest(5), ledger.history()));
        assert_eq!(largest.iter().map(|t| (&t.name[..], t.bytes)).collect::<Vec<_>>(), [("scratch", 7)]);
        let events = events.unwrap();
        let seen: Vec<_> = events.iter().map(|e| (e.label.name, e.allocated, e.in_use)).collect();
        assert_eq!(seen, [("weights", true, 40), ("scratch", true, 47), ("weights", false, 7)]);
        drop(scratch);
        assert_eq!(pool.stats().allocations, 2);
    }

    proptest! {
        /// Against a model that is a list of live buffers: live blocks never
        /// overlap, are aligned, and the counters say what the model says.
        #[test]
        fn the_pool_agrees_with_a_list_of_buffers(actions in prop::collection::vec(action(), 0..60)) {
            let pool = pool();
            let mut live: Vec<DeviceBuffer> = Vec::new();
            let mut peak = 0u64;
            for action in actions {
                match action {
                    PoolAction::Allocate(bytes) => live.push(pool.allocate(bytes).unwrap()),
                    PoolAction::Free(i) if !live.is_empty() => drop(live.swap_remove(i % live.len())),
                    PoolAction::Free(_) => {}
                    PoolAction::Empty => pool.empty_cache(),
                }
                let allocated: u64 = live.iter().map(|b| b.bytes as u64).sum();
                peak = peak.max(allocated);
                let stats = pool.stats();
                prop_assert_eq!((stats.allocated, stats.peak), (allocated, peak));
                prop_assert!(stats.reserved >= allocated);
                let bound = (peak as f64 * POOL_SLACK).max((peak + POOL_SLACK_BYTES) as f64);
                prop_assert!(stats.reserved as f64 <= bound);
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
