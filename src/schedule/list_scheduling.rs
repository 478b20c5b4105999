//! List scheduling for low memory: a greedy choice among the steps that are ready.
//!
//! A ready step that frees at least as many bytes as it allocates runs at once.
//! The others run in the order of the graph's nodes, in which operands follow
//! each other as they are read, so that values computed together have similar
//! live ranges. So the gradient of a layer's parameters is computed as soon as
//! its operands are, not after the gradients of all other layers; and a value
//! with a control dependency ([`crate::ir::Op::After`]) is recomputed right before
//! its use. Collectives come as early as they can, and what reads their results late, so that other work runs
//! while the data are on their way. Small transfers to the host come last too.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use petgraph::graph::{DiGraph, NodeIndex};

use crate::base::Device;
use crate::ir::{Graph, NodeId, Op};
use crate::schedule::memory::{Params, becoming_results, fallible};
use crate::schedule::order::{Step, StepAction};

/// Transfers to the host of at most so many bytes come after all else that can
/// run, so that the host waits for them together, and for work under way.
const SMALL_TRANSFER: usize = 64 << 10;

/// What decides among ready steps: whom it makes wait, whether it may
/// overwrite a parameter later, its highest node, its number.
type Priority = Reverse<(Urgency, bool, Option<NodeId>, usize)>;

/// Whom a step makes wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Urgency {
    /// Other ranks, until it has begun.
    Collective,
    /// Nobody.
    Work,
    /// This rank: for other ranks, or for a device.
    Wait,
}

/// A schedule under construction.
pub(super) struct ListScheduler<'a> {
    graph: &'a Graph,
    steps: &'a [Step],
    dag: &'a DiGraph<(), ()>,
    first_with: &'a dyn Fn(u32) -> u32,
    /// By step: predecessors that have not run.
    waiting: Vec<usize>,
    done: Vec<bool>,
    /// By value in the arena: the steps that have yet to read it.
    readers: HashMap<NodeId, PendingReaders>,
    is_result: Vec<bool>,
    /// By parameter's memory: the steps that have yet to read it.
    param_readers: HashMap<u32, PendingReaders>,
    /// By step: memory of parameters that it could overwrite, and how many
    /// bytes, once nothing can fail and nobody else reads it any more.
    overwrites: Vec<Vec<(u32, u64)>>,
    /// Steps that can fail and have not run.
    fallible_left: usize,
    /// Ready steps, and those of them that free at least as much as they allocate.
    ready: BinaryHeap<Priority>,
    freeing: BinaryHeap<Priority>,
}

/// Steps that have yet to read a value. Their count and the sum of their numbers are
/// enough to name the last one.
#[derive(Debug, Default)]
struct PendingReaders {
    count: usize,
    sum: usize,
    /// The step added last, and the one removed last.
    added: Option<usize>,
    removed: Option<usize>,
}

impl PendingReaders {
    /// Adds a step, perhaps several times in a row.
    fn add(&mut self, step: usize) {
        if self.added.replace(step) != Some(step) {
            self.count += 1;
            self.sum += step;
        }
    }

    /// Takes a step out, perhaps several times in a row; whether it was there.
    fn remove(&mut self, step: usize) -> bool {
        let there = self.removed.replace(step) != Some(step);
        if there {
            self.count -= 1;
            self.sum -= step;
        }
        there
    }

    fn only(&self) -> Option<usize> {
        (self.count == 1).then_some(self.sum)
    }
}

impl<'a> ListScheduler<'a> {
    pub fn new(
        graph: &'a Graph,
        steps: &'a [Step],
        dag: &'a DiGraph<(), ()>,
        params: &Params<'a>,
    ) -> ListScheduler<'a> {
        let (is_result, becomes_result) = (graph.results(), becoming_results(graph));
        let mut readers: HashMap<NodeId, PendingReaders> = HashMap::new();
        let mut param_readers: HashMap<u32, PendingReaders> = HashMap::new();
        for (number, step) in steps.iter().enumerate() {
            for &input in step.inputs.iter().flat_map(|input| graph.pieces(input)) {
                let known = if let Op::Param(param, _) = graph.node(input).op {
                    param_readers.entry((params.first_with)(param)).or_default()
                } else if !is_result[input.index()] {
                    readers.entry(input).or_default()
                } else {
                    continue;
                };
                known.add(number);
            }
        }
        let before = |i| dag.neighbors_directed(i, petgraph::Incoming).count();
        let mut sequence = ListScheduler {
            graph,
            steps,
            dag,
            first_with: params.first_with,
            waiting: dag.node_indices().map(before).collect(),
            done: vec![false; steps.len()],
            readers,
            overwrites: steps
                .iter()
                .map(|step| donated_overwrites(graph, step, &becomes_result, params))
                .collect(),
            param_readers,
            is_result,
            fallible_left: steps.iter().filter(|step| fallible(step)).count(),
            ready: BinaryHeap::new(),
            freeing: BinaryHeap::new(),
        };
        let first: Vec<usize> = (0..steps.len()).filter(|&i| sequence.waiting[i] == 0).collect();
        first.into_iter().for_each(|step| sequence.make_ready(step));
        sequence
    }

    /// The numbers of the steps, in order.
    pub fn run(mut self) -> Vec<usize> {
        let mut order = Vec::with_capacity(self.steps.len());
        while let Some(Reverse((_, _, _, next))) = self.freeing.pop().or_else(|| self.ready.pop()) {
            if self.done[next] {
                continue;
            }
            self.done[next] = true;
            order.push(next);
            self.retire(next);
            for after in self.dag.neighbors(NodeIndex::new(next)) {
                self.waiting[after.index()] -= 1;
                if self.waiting[after.index()] == 0 {
                    self.make_ready(after.index());
                }
            }
        }
        order
    }

    /// All predecessors of a step have run.
    fn make_ready(&mut self, step: usize) {
        self.ready.push(self.priority(step));
        self.check_freeing(step);
    }

    fn check_freeing(&mut self, step: usize) {
        if self.waiting[step] == 0
            && !self.done[step]
            && match self.urgency(step) {
                Urgency::Collective => true,
                Urgency::Work => self.bytes_allocated(step) <= self.bytes_freed(step),
                Urgency::Wait => false,
            }
        {
            self.freeing.push(self.priority(step));
        }
    }

    fn priority(&self, step: usize) -> Priority {
        let overwrites = !self.overwrites[step].is_empty();
        Reverse((self.urgency(step), overwrites, self.steps[step].members.last().copied(), step))
    }

    fn urgency(&self, step: usize) -> Urgency {
        let Step { action, inputs, .. } = &self.steps[step];
        if let StepAction::Collective(_) = action {
            return Urgency::Collective;
        }
        let mut read = inputs.iter().flat_map(|input| self.graph.pieces(input));
        let from_ranks = read.any(|&input| matches!(self.graph.node(input).op, Op::Collective(_)));
        if from_ranks || self.is_small_download(step) { Urgency::Wait } else { Urgency::Work }
    }

    /// Whether a step is a small transfer to the host.
    fn is_small_download(&self, step: usize) -> bool {
        let Step { action, device, outputs, .. } = &self.steps[step];
        let fetches = matches!(action, StepAction::Transfer { .. }) && *device == Device::cpu();
        fetches && self.graph.ty(outputs[0]).bytes() <= SMALL_TRANSFER
    }

    /// Bytes that a step allocates. Results are allocated from the start, except those
    /// that could take over a parameter's memory later.
    fn bytes_allocated(&self, step: usize) -> u64 {
        let is_read = |id: NodeId| self.readers.get(&id).is_some_and(|readers| readers.count > 0);
        let fresh = |id: &&NodeId| !self.is_result[id.index()] && is_read(**id);
        let outputs = self.steps[step].outputs.iter().filter(fresh);
        let early = self.overwrites[step].iter().filter(|(param, _)| !self.is_free(*param, step));
        let early: u64 = early.map(|(_, bytes)| bytes).sum();
        outputs.map(|&id| self.graph.ty(id).bytes() as u64).sum::<u64>() + early
    }

    /// Whether a step may overwrite a parameter's memory now.
    fn is_free(&self, param: u32, step: usize) -> bool {
        self.fallible_left == 0
            && self.param_readers.get(&param).is_some_and(|readers| readers.only() == Some(step))
    }

    /// Bytes whose last reader a step is.
    fn bytes_freed(&self, step: usize) -> u64 {
        let inputs = self.steps[step].inputs.iter().flat_map(|input| self.graph.pieces(input));
        let mut inputs: Vec<NodeId> = inputs.copied().collect();
        inputs.sort_unstable();
        inputs.dedup();
        let only = |input: &NodeId| self.readers.get(input).and_then(PendingReaders::only);
        let last = inputs.iter().filter(|input| only(input) == Some(step));
        last.map(|&id| self.graph.ty(id).bytes() as u64).sum()
    }

    /// A step has run: each value that it read has one pending reader less.
    fn retire(&mut self, step: usize) {
        let mut last: Vec<usize> = Vec::new();
        for input in self.steps[step].inputs.iter().flat_map(|input| self.graph.pieces(input)) {
            let readers = if let Op::Param(param, _) = self.graph.node(*input).op {
                self.param_readers.get_mut(&(self.first_with)(param))
            } else {
                self.readers.get_mut(input)
            };
            let Some(readers) = readers else { continue };
            if readers.remove(step)
                && let Some(only) = readers.only()
            {
                last.push(only);
            }
        }
        if fallible(&self.steps[step]) {
            self.fallible_left -= 1;
            if self.fallible_left == 0 {
                last.extend((0..self.steps.len()).filter(|&i| !self.overwrites[i].is_empty()));
            }
        }
        last.into_iter().for_each(|step| self.check_freeing(step));
    }
}

/// Memory of donated parameters that the step reads and its results could take
/// over.
fn donated_overwrites(
    graph: &Graph,
    step: &Step,
    becomes_result: &[bool],
    params: &Params<'_>,
) -> Vec<(u32, u64)> {
    let mut given: Vec<(u32, usize)> = Vec::new();
    for &input in &step.inputs {
        if let Op::Param(number, _) = graph.node(input).op
            && (params.donated)(number)
        {
            given.push(((params.first_with)(number), graph.ty(input).bytes()));
        }
    }
    let mut taken = Vec::new();
    for output in step.outputs.iter().filter(|output| becomes_result[output.index()]) {
        let size = graph.ty(*output).bytes();
        if let Some(index) = given.iter().position(|&(_, known)| known == size) {
            taken.push((given.swap_remove(index).0, size as u64));
        }
    }
    taken
}
