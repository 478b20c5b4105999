//! Steps that their device launches as one: products of one row that need not wait for each other, as those of
//! queries, keys and values.

use std::ops::Range;
use std::sync::Arc;

use crate::base::Device;
use crate::ir::{Graph, NodeId, Op};
use crate::kernel::{Affine, AxisId, JointAlias, JointSlot, JointWork, Kernel, Workload};
use crate::schedule::memory::read_where_written;
use crate::schedule::{Location, MemoryPlan, ScheduledGraph, Step, StepAction};

/// Steps that follow each other and are one launch.
#[derive(Debug)]
pub(super) struct JointSteps {
    pub first: usize,
    pub count: usize,
    pub work: Arc<Workload>,
}

/// The steps that are one launch on devices of which `joins` says that they launch rows together.
pub(super) fn joint_steps(schedule: &ScheduledGraph, joins: &dyn Fn(Device) -> bool) -> Vec<JointSteps> {
    let mut found = Vec::new();
    let mut first = 0;
    while first < schedule.steps.len() {
        let (count, order) = joint_from(schedule, joins, first);
        if count > 1 {
            found.push(JointSteps { first, count, work: joint_work(schedule, first..first + count, order) });
        }
        first += count;
    }
    found
}

/// How many steps from one on are one launch, and in which order: any number that are independent, or two elementwise.
fn joint_from(schedule: &ScheduledGraph, joins: &dyn Fn(Device) -> bool, first: usize) -> (usize, StepOrder) {
    let is_row = |number: usize| {
        let step = schedule.steps.get(number)?;
        (joins(step.device) && is_row_product(schedule, step)).then_some(step)
    };
    let Some(device) = is_row(first).map(|step| step.device) else { return (1, StepOrder::Independent) };
    let mut count = 1;
    while let Some(step) = is_row(first + count).filter(|step| step.device == device) {
        match next_order(schedule, &schedule.steps[first..first + count], step) {
            Some(StepOrder::Independent) => count += 1,
            Some(StepOrder::Elementwise) if count == 1 => return (2, StepOrder::Elementwise),
            Some(StepOrder::Elementwise) | None => break,
        }
    }
    (count, StepOrder::Independent)
}

/// Whether a step launches a product of one row, whose indices are all in range.
fn is_row_product(schedule: &ScheduledGraph, step: &Step) -> bool {
    let graph = &schedule.graph;
    step.kernel().is_some_and(|kernel| columns(kernel).is_some())
        && step.outputs.iter().all(|&output| graph.ty(output).shape.numel() > 0)
        && !schedule.memory.is_there_already(graph, step)
        && !step.members.iter().any(|&id| graph.node(id).op.uses_indices())
}

/// Steps as one work.
fn joint_work(schedule: &ScheduledGraph, steps: Range<usize>, order: StepOrder) -> Arc<Workload> {
    let steps = &schedule.steps[steps];
    let works = steps.iter().filter_map(|step| match &step.action {
        StepAction::Launch(work) => Some(work.clone()),
        StepAction::Transfer { .. } | StepAction::Collective(_) | StepAction::Repeat(_) => None,
    });
    let aliases = match (order, steps) {
        (StepOrder::Elementwise, [earlier, later]) => aliases(schedule, earlier, later),
        (_, _) => Vec::new(),
    };
    Arc::new(Workload::Joint(JointWork::new(works.collect(), aliases)))
}

/// What a step has in the memory of an earlier one's outputs, by numbers among those of both.
fn aliases(schedule: &ScheduledGraph, earlier: &Step, later: &Step) -> Vec<JointAlias> {
    let (graph, memory) = (&schedule.graph, &schedule.memory);
    let output = |id: &NodeId| {
        earlier.outputs.iter().position(|other| place(graph, memory, *id) == place(graph, memory, *other))
    };
    let (inputs, outputs) = (earlier.inputs.len(), earlier.outputs.len());
    let read = (inputs..).map(JointSlot::Input).zip(&later.inputs);
    let written = (outputs..).map(JointSlot::Output).zip(&later.outputs);
    let aliases = read.chain(written).filter_map(|(slot, id)| Some(JointAlias { slot, output: output(id)? }));
    aliases.collect()
}

/// Where a value is, and its bytes.
fn place(graph: &Graph, memory: &MemoryPlan, id: NodeId) -> (Option<Location>, usize) {
    (memory.locations.get(&id).copied(), graph.ty(id).bytes())
}

/// What a step waits for, of an earlier one that is launched with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StepOrder {
    /// Nothing.
    Independent,
    /// Each element that it computes, for the same element of the earlier one's.
    Elementwise,
}

/// What a step waits for of earlier ones; `None` if it cannot be launched with them.
fn next_order(schedule: &ScheduledGraph, earlier: &[Step], step: &Step) -> Option<StepOrder> {
    earlier.iter().try_fold(StepOrder::Independent, |all, other| match order(schedule, other, step)? {
        StepOrder::Independent => Some(all),
        StepOrder::Elementwise => Some(StepOrder::Elementwise),
    })
}

/// The order of two steps; `None` if the later one must wait for all of the earlier one.
fn order(schedule: &ScheduledGraph, earlier: &Step, later: &Step) -> Option<StepOrder> {
    let (graph, memory) = (&schedule.graph, &schedule.memory);
    let overlap = |these: &[NodeId], those: &[NodeId]| {
        these.iter().any(|&one| those.iter().any(|&other| overlaps(graph, memory, one, other)))
    };
    let packs = |ids: &[NodeId]| ids.iter().any(|&id| matches!(graph.node(id).op, Op::Pack(_)));
    if packs(&earlier.inputs) || packs(&later.inputs) || overlap(&later.outputs, &earlier.inputs) {
        return None;
    }
    let output = |input: &NodeId| earlier.outputs.iter().position(|output| output == input);
    let reads = (0..).zip(&later.inputs).filter_map(|(number, input)| Some((number, output(input)?)));
    let reads: Vec<(u32, usize)> = reads.collect();
    if reads.is_empty() {
        return (!overlap(&later.outputs, &earlier.outputs)).then_some(StepOrder::Independent);
    }
    let place = |id: NodeId| place(graph, memory, id);
    let apart_or_in_place = later.outputs.iter().all(|&own| {
        earlier.outputs.iter().all(|&other| place(own) == place(other) || !overlap(&[own], &[other]))
    });
    let (from, to) = (earlier.kernel()?, later.kernel()?);
    let elementwise = reads.into_iter().all(|read| reads_elementwise(from, to, read));
    (apart_or_in_place && elementwise).then_some(StepOrder::Elementwise)
}

/// Whether two values may share memory.
fn overlaps(graph: &Graph, memory: &MemoryPlan, one: NodeId, other: NodeId) -> bool {
    let bytes = |id: NodeId| graph.ty(id).bytes();
    let meet = |start: usize, other_start: usize| {
        start < other_start + bytes(other) && other_start < start + bytes(one)
    };
    let is_donated = |number: u32| memory.results[number as usize].donated.is_some();
    match (memory.locations.get(&one), memory.locations.get(&other)) {
        (Some(Location::Arena(start)), Some(Location::Arena(other))) => meet(*start, *other),
        (Some(Location::Result(number, start)), Some(Location::Result(other, other_start))) => {
            number == other && meet(*start, *other_start)
        }
        (Some(Location::Param(_)), Some(Location::Result(number, _)))
        | (Some(Location::Result(number, _)), Some(Location::Param(_))) => is_donated(*number),
        (Some(Location::Param(_)), Some(Location::Param(_))) => true,
        (Some(Location::Arena(_)), Some(Location::Param(_) | Location::Result(..)))
        | (Some(Location::Param(_) | Location::Result(..)), Some(Location::Arena(_))) => false,
        (None, _) | (_, None) => true,
    }
}

/// Whether a product of one row reads an input, a result of another, at nothing but the element that it computes.
fn reads_elementwise(earlier: &Kernel, later: &Kernel, (input, output): (u32, usize)) -> bool {
    let ([to], Some(from)) = (&later.stores[..], earlier.stores.get(output)) else { return false };
    let (Some(columns), Some(own)) = (columns(earlier), columns(later)) else { return false };
    let along = |kernel: &Kernel, address: &Affine, axes: &[AxisId]| -> Vec<(usize, i64)> {
        axes.iter().map(|&axis| (kernel.axes[axis.index()].extent, address.coefficient(axis))).collect()
    };
    from.address.offset == to.address.offset
        && along(earlier, &from.address, columns) == along(later, &to.address, own)
        && read_where_written(later, input, to)
}

/// The axes of the columns of a product of one row.
fn columns(kernel: &Kernel) -> Option<&[AxisId]> {
    let product = kernel.contraction()?;
    if kernel.points_of(&product.batch) != 1 {
        return None;
    }
    match (kernel.points_of(&product.m), kernel.points_of(&product.n)) {
        (1, _) => Some(&product.n),
        (_, 1) => Some(&product.m),
        _ => None,
    }
}
