//! A pool's ledger: live allocations, their labels, and a history of events.

use std::collections::VecDeque;
use std::time::Duration;

use crate::base::Device;
use crate::base::error::LiveTensor;
use crate::base::system::Instant;
use crate::ir::collect::AddressMap;
use crate::runtime::MemoryStats;
use crate::runtime::label::{self, Label};
use crate::runtime::trace::{self, MemoryRecord};

/// Events kept while history is recorded; older ones are forgotten.
const MAX_EVENTS: usize = 1 << 20;

/// A block in use.
#[derive(Clone, Debug)]
pub struct LiveBlock {
    /// Bytes requested.
    pub bytes: u64,
    /// What it holds.
    pub label: Label,
}

/// What happened to a block.
#[derive(Clone, Debug)]
pub struct Event {
    /// Since recording began.
    pub at: Duration,
    /// The pool's name of the block, used again after it is freed.
    pub block: u64,
    /// Bytes requested.
    pub bytes: u64,
    /// Whether it was handed out, or came back.
    pub allocated: bool,
    /// Bytes in use afterwards.
    pub in_use: u64,
    /// What it holds.
    pub label: Label,
}

/// The books of a pool.
#[derive(Clone, Debug)]
pub struct Ledger {
    device: Device,
    stats: MemoryStats,
    live: AddressMap<u64, LiveBlock>,
    history: Option<(Instant, VecDeque<Event>)>,
}

impl Ledger {
    /// How many tensors an error names.
    pub const NAMED: usize = 5;

    /// Nothing handed out, no limit.
    pub fn new(device: Device) -> Ledger {
        let stats = MemoryStats { limit: u64::MAX, ..MemoryStats::default() };
        Ledger { device, stats, live: AddressMap::default(), history: None }
    }

    /// The sums.
    pub fn stats(&self) -> MemoryStats {
        self.stats
    }

    /// Whether so many more bytes are within the limit.
    pub fn admits(&self, bytes: u64) -> bool {
        self.stats.allocated.saturating_add(bytes) <= self.stats.limit
    }

    /// Sets the most bytes that may be handed out at once.
    pub fn set_limit(&mut self, bytes: u64) {
        self.stats.limit = bytes;
    }

    /// Forgets the peak: it is what is handed out now.
    pub fn reset_peak(&mut self) {
        self.stats.peak = self.stats.allocated;
    }

    /// Notes that the system gave the pool bytes.
    pub fn reserve(&mut self, bytes: u64) {
        self.stats.reserved += bytes;
    }

    /// Notes that the pool gave the system bytes back.
    pub fn release(&mut self, bytes: u64) {
        self.stats.reserved -= bytes;
    }

    /// Notes a block handed out, for what this thread says it allocates.
    pub fn allocated(&mut self, block: u64, bytes: u64) {
        let label = label::current();
        self.stats.allocated += bytes;
        self.stats.allocations += 1;
        self.stats.peak = self.stats.peak.max(self.stats.allocated);
        self.record(block, bytes, true, &label);
        self.live.insert(block, LiveBlock { bytes, label });
    }

    /// Notes a block that came back.
    pub fn freed(&mut self, block: u64, bytes: u64) {
        self.stats.allocated -= bytes;
        if let Some(known) = self.live.remove(&block) {
            self.record(block, bytes, false, &known.label);
        }
    }

    /// The largest blocks in use, largest first.
    pub fn largest(&self, count: usize) -> Vec<LiveTensor> {
        let mut blocks: Vec<(&u64, &LiveBlock)> =
            self.live.iter().filter(|(_, block)| block.bytes > 0).collect();
        blocks.sort_by_key(|(number, block)| (std::cmp::Reverse(block.bytes), **number));
        blocks.truncate(count);
        let tensor = |block: &LiveBlock| LiveTensor {
            name: block.label.name.into(),
            shape: block.label.shape.clone(),
            bytes: block.bytes,
            at: block.label.span,
        };
        blocks.into_iter().map(|(_, block)| tensor(block)).collect()
    }

    /// Starts recording what happens, with the blocks in use as its first
    /// events; or stops and forgets.
    pub fn record_history(&mut self, on: bool) {
        self.history = on.then(|| (Instant::now(), VecDeque::new()));
        let mut live: Vec<(u64, LiveBlock)> =
            self.live.iter().map(|(n, block)| (*n, block.clone())).collect();
        live.sort_by_key(|(number, _)| *number);
        let Some((_, events)) = &mut self.history else { return };
        let mut in_use = 0;
        for (block, LiveBlock { bytes, label }) in live {
            in_use += bytes;
            events.push_back(Event { at: Duration::ZERO, block, bytes, allocated: true, in_use, label });
        }
    }

    /// What happened since recording began; `None` if nothing is recorded.
    pub fn history(&self) -> Option<Vec<Event>> {
        self.history.as_ref().map(|(_, events)| events.iter().cloned().collect())
    }

    fn record(&mut self, block: u64, bytes: u64, allocated: bool, label: &Label) {
        let (device, in_use) = (self.device, self.stats.allocated);
        trace::memory(|| {
            let (at, label) = (trace::now(), label.clone());
            MemoryRecord { at, device, block, bytes, allocated, in_use, label }
        });
        let Some((start, events)) = &mut self.history else { return };
        if events.len() >= MAX_EVENTS {
            events.pop_front();
        }
        let at = start.elapsed();
        events.push_back(Event { at, block, bytes, allocated, in_use, label: label.clone() });
    }
}
