//! A schedule reduced to memory use: which step writes and reads which values of one
//! device's arena. Cheap to change, so that many changes can be tried.

use std::collections::{BTreeSet, HashMap};

use crate::base::Device;
use crate::ir::{NodeId, Op};
use crate::kernel::Workload;
use crate::kernel::cost::work_cost;
use crate::schedule::memory::{ALIGN, fallible};
use crate::schedule::{Location, ScheduledGraph, Step, StepAction};

/// Scalar operations worth one byte of memory traffic.
const FLOPS_PER_BYTE: u64 = 8;

/// A value that a step writes, or a parameter.
#[derive(Clone, Copy, Debug)]
pub(super) struct TracedValue {
    /// The node of the schedule's graph.
    pub node: NodeId,
    /// Bytes in this device's arena; 0 for values elsewhere.
    pub bytes: u64,
    /// Bytes that it takes there when it is recomputed.
    size: u64,
}

/// One run of a step.
#[derive(Clone, Debug)]
pub(super) struct TraceEntry {
    /// The step's number in the schedule.
    pub step: usize,
    /// The values of its inputs, in their order.
    pub reads: Vec<usize>,
    /// The values of its outputs, in their order.
    pub writes: Vec<usize>,
    /// Whether the step has run before.
    pub again: bool,
}

/// What does not change while entries are added.
#[derive(Debug)]
pub(super) struct StepFacts {
    /// By step: what running it again costs, in bytes of traffic; `None` where
    /// that is not possible.
    again: Vec<Option<u64>>,
    /// By step: which output, by position, could be written over which input.
    over: Vec<Vec<(usize, usize)>>,
}

/// A schedule seen from one device's arena.
#[derive(Clone, Debug)]
pub(super) struct Trace<'a> {
    facts: &'a StepFacts,
    pub values: Vec<TracedValue>,
    pub entries: Vec<TraceEntry>,
}

/// When values are written and used, by value.
pub(super) struct LiveRanges {
    /// The line that writes it; `None` for parameters.
    pub first: Vec<Option<usize>>,
    /// The last line that reads it; the one that writes it if none does.
    pub last: Vec<usize>,
}

impl StepFacts {
    pub fn new(schedule: &ScheduledGraph) -> StepFacts {
        let packed = in_packs(schedule);
        let again = schedule.steps.iter().map(|step| recompute_cost(step, &packed)).collect();
        StepFacts { again, over: overwritten(schedule) }
    }
}

impl<'a> Trace<'a> {
    /// The schedule as it is, seen from a device's arena.
    pub fn new(schedule: &ScheduledGraph, facts: &'a StepFacts, device: Device) -> Trace<'a> {
        let packed = in_packs(schedule);
        let value = |id: NodeId| {
            let ty = schedule.graph.ty(id);
            let here = ty.device == device && !packed[id.index()];
            let size = if here { ty.bytes().next_multiple_of(ALIGN) as u64 } else { 0 };
            let in_arena = matches!(schedule.memory.locations.get(&id), Some(Location::Arena(_)));
            TracedValue { node: id, bytes: if in_arena { size } else { 0 }, size }
        };
        let mut trace = Trace { facts, values: Vec::new(), entries: Vec::new() };
        let mut numbers: HashMap<NodeId, usize> = HashMap::new();
        for (step, Step { inputs, outputs, .. }) in schedule.steps.iter().enumerate() {
            let mut number = |&id: &NodeId| {
                *numbers.entry(id).or_insert_with(|| {
                    trace.values.push(value(id));
                    trace.values.len() - 1
                })
            };
            let reads = inputs.iter().map(&mut number).collect();
            let writes = outputs.iter().map(&mut number).collect();
            trace.entries.push(TraceEntry { step, reads, writes, again: false });
        }
        trace
    }

    pub fn live_ranges(&self) -> LiveRanges {
        let count = self.values.len();
        let mut live_ranges = LiveRanges { first: vec![None; count], last: vec![0; count] };
        for (now, line) in self.entries.iter().enumerate() {
            line.reads.iter().for_each(|&value| live_ranges.last[value] = now);
            for &value in &line.writes {
                live_ranges.first[value].get_or_insert(now);
                live_ranges.last[value] = now;
            }
        }
        live_ranges
    }

    /// Bytes of the arena in use while each line runs, if it had no gaps.
    pub fn profile(&self, live_ranges: &LiveRanges) -> Vec<u64> {
        let mut change = vec![0i64; self.entries.len() + 1];
        for (value, first) in live_ranges.first.iter().enumerate() {
            if let Some(first) = *first {
                change[first] += self.values[value].bytes as i64;
                change[live_ranges.last[value] + 1] -= self.values[value].bytes as i64;
            }
        }
        let mut held = 0;
        let mut profile: Vec<u64> = Vec::with_capacity(self.entries.len());
        for (now, line) in self.entries.iter().enumerate() {
            held += change[now];
            profile.push((held - self.saved_in_place(now, line, live_ranges)).max(0) as u64);
        }
        profile
    }

    /// Bytes that a line needs only once, since it writes over what it is the
    /// last to read.
    fn saved_in_place(&self, now: usize, line: &TraceEntry, live_ranges: &LiveRanges) -> i64 {
        let over = self.facts.over[line.step].iter();
        let dying = over.filter(|(_, read)| {
            let read = line.reads[*read];
            live_ranges.last[read] == now && live_ranges.first[read].is_some()
        });
        dying.map(|&(write, read)| self.bytes(line.writes[write]).min(self.bytes(line.reads[read]))).sum()
    }

    fn bytes(&self, value: usize) -> i64 {
        self.values[value].bytes as i64
    }

    /// The cost of the recomputed entries, in bytes of traffic.
    pub fn cost(&self) -> u64 {
        let again = self.entries.iter().filter(|line| line.again);
        again.filter_map(|line| self.facts.again[line.step]).fold(0, u64::saturating_add)
    }

    /// Whether a value can be recomputed.
    pub fn is_repeatable(&self, value: usize, live_ranges: &LiveRanges) -> bool {
        live_ranges.first[value].is_some_and(|line| self.facts.again[self.entries[line].step].is_some())
    }

    /// The trace in which a value is recomputed right before an entry, for that
    /// entry and those after it; with it, up to `depth` steps back, the
    /// values it is made from that are no longer there. What is left of those
    /// is kept for longer.
    pub fn recompute(
        &self,
        value: usize,
        before: usize,
        depth: usize,
        live_ranges: &LiveRanges,
    ) -> Trace<'a> {
        let mut chosen: BTreeSet<usize> = BTreeSet::new();
        let mut pending = vec![(value, depth)];
        while let Some((value, depth)) = pending.pop() {
            let Some(line) = live_ranges.first[value] else { continue };
            chosen.insert(line);
            let gone = |read: &&usize| {
                self.values[**read].bytes > 0
                    && live_ranges.last[**read] < before
                    && self.is_repeatable(**read, live_ranges)
            };
            if depth > 0 {
                pending.extend(self.entries[line].reads.iter().filter(gone).map(|&read| (read, depth - 1)));
            }
        }
        let mut trace =
            Trace { entries: Vec::with_capacity(self.entries.len() + chosen.len()), ..self.clone() };
        trace.entries.extend_from_slice(&self.entries[..before]);
        let mut renamed: HashMap<usize, usize> = HashMap::new();
        for &line in &chosen {
            let TraceEntry { step, reads, writes, .. } = &self.entries[line];
            let reads = reads.iter().map(|read| *renamed.get(read).unwrap_or(read)).collect();
            let first = trace.values.len();
            for (&write, number) in writes.iter().zip(first..) {
                let value = self.values[write];
                trace.values.push(TracedValue { bytes: value.size, ..value });
                // A result is there all the time.
                if value.bytes > 0 {
                    renamed.insert(write, number);
                }
            }
            let writes = (first..trace.values.len()).collect();
            trace.entries.push(TraceEntry { step: *step, reads, writes, again: true });
        }
        for line in &self.entries[before..] {
            let reads = line.reads.iter().map(|read| *renamed.get(read).unwrap_or(read)).collect();
            trace.entries.push(TraceEntry { reads, ..line.clone() });
        }
        trace
    }
}

/// The cost of running a step once more, if it can be: a program that changes
/// nothing but its own outputs, and can fail only as it would have before.
fn recompute_cost(step: &Step, packed: &[bool]) -> Option<u64> {
    let StepAction::Launch(work) = &step.action else { return None };
    let pure = match &**work {
        Workload::Kernel(kernel) => kernel.scatter().is_none() && !fallible(step),
        Workload::Sort(_) => true,
        // Plans join launches after this.
        Workload::Custom(..) | Workload::Joint(_) => false,
    };
    let cost = work_cost(work);
    let own = !step.outputs.iter().any(|output| packed[output.index()]);
    (pure && own).then(|| (cost.loaded + cost.stored).saturating_add(cost.flops / FLOPS_PER_BYTE))
}

/// Of each node, whether it is a pack or part of one.
fn in_packs(schedule: &ScheduledGraph) -> Vec<bool> {
    let graph = &schedule.graph;
    let mut packed = vec![false; graph.nodes.len()];
    for id in graph.ids().filter(|&id| matches!(graph.node(id).op, Op::Pack(_))) {
        packed[id.index()] = true;
        graph.pieces(&id).iter().for_each(|piece| packed[piece.index()] = true);
    }
    packed
}

/// By step, which outputs share a storage with which inputs.
fn overwritten(schedule: &ScheduledGraph) -> Vec<Vec<(usize, usize)>> {
    let mut storage: HashMap<NodeId, usize> = HashMap::new();
    for (number, found) in schedule.memory.storages.iter().enumerate() {
        storage.extend(found.nodes.iter().map(|&node| (node, number)));
    }
    let pairs = |step: &Step| {
        let outputs = step.outputs.iter().enumerate();
        let over = |(write, output): (usize, &NodeId)| {
            let own = storage.get(output)?;
            let read = step.inputs.iter().position(|input| storage.get(input) == Some(own))?;
            Some((write, read))
        };
        outputs.filter_map(over).collect()
    };
    schedule.steps.iter().map(pairs).collect()
}
