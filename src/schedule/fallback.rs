//! Fallbacks: state that keeps its value where an index is out of range.
//!
//! A device that learns of a bad index late has run the rest of the plan by then. So the plan asks
//! itself: each index is compared with its axis, and where one is beyond it, a result with a
//! fallback is what was there before. That is one comparison for each index and one choice in the
//! kernel that writes the state; nobody waits. Where a scatter writes into the memory of the state itself, its
//! updates change nothing instead, so that what they do not touch is not copied.

use std::collections::HashSet;

use crate::base::{DType, Device, Scalar, Span};
use crate::ir::alu::AluOp;
use crate::ir::collect::collect_body;
use crate::ir::monoid::Monoid;
use crate::ir::rewrite::GraphBuilder;
use crate::ir::{Graph, GraphNode, NodeId, Op, ScatterMode};

/// A result and what it falls back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// Which of the graph's outputs.
    pub output: u32,
    /// What it is if an index is out of range, of the same type.
    pub before: NodeId,
}

/// The graph in which outputs fall back. What they fall back to are its last outputs, in the
/// order of `outputs`, and are outputs no longer in the result. Nodes keep their numbers.
pub fn insert_fallbacks(mut graph: Graph, outputs: &[u32], late: &dyn Fn(Device) -> bool) -> Graph {
    let before = graph.outputs.split_off(graph.outputs.len() - outputs.len());
    let checked = checked_indices(&graph, late);
    if checked.is_empty() {
        return graph;
    }
    let mut builder = GraphBuilder::extending(graph);
    let mut known: Vec<(Device, NodeId)> = Vec::new();
    for (&output, before) in outputs.iter().zip(before) {
        let new = builder.graph.outputs[output as usize];
        let (ty, span) = (builder.graph.ty(new).clone(), builder.graph.node(new).span);
        let into = into_itself(&builder.graph, new, before);
        if into.as_ref().is_some_and(|into| into.mode == ScatterMode::Set && into.is_made) {
            continue;
        }
        let all = match known.iter().find(|known| known.0 == ty.device) {
            Some(&(_, all)) => all,
            None => {
                let on_device = checked.iter().filter(|index| index.device == ty.device);
                let Some(all) = all_in_range(&mut builder, on_device) else { continue };
                known.push((ty.device, all));
                all
            }
        };
        let guarded = into.and_then(|into| match into.mode.monoid() {
            Some(monoid) => Some(neutral_unless(&mut builder, all, &into, monoid)),
            None => nowhere_unless(&mut builder, all, &into),
        });
        builder.graph.outputs[output as usize] = guarded.unwrap_or_else(|| {
            let all = builder.shaped(all, &ty.shape, span);
            builder.alu(AluOp::Where, &[all, new, before], span)
        });
    }
    builder.graph
}

/// A scatter into the memory of what was there before.
struct IntoItself {
    axis: u8,
    mode: ScatterMode,
    /// What was there, the indices, the updates.
    operands: [NodeId; 3],
    /// Whether the host alone says where to: a cache's next positions, of which it knows how many there are.
    is_made: bool,
}

fn into_itself(graph: &Graph, new: NodeId, before: NodeId) -> Option<IntoItself> {
    let node = graph.node(new);
    let (Op::Scatter(axis, mode), &[base, index, update]) = (&node.op, &node.operands[..]) else {
        return None;
    };
    let is_made = is_made(graph, index);
    (base == before).then_some(IntoItself {
        axis: *axis,
        mode: *mode,
        operands: [base, index, update],
        is_made,
    })
}

/// Whether constants, ramps and arguments alone say what a node is.
fn is_made(graph: &Graph, id: NodeId) -> bool {
    let (mut to_do, mut seen) = (vec![id], HashSet::new());
    while let Some(id) = to_do.pop() {
        if !seen.insert(id) {
            continue;
        }
        let node = graph.node(id);
        if node.operands.is_empty() && !matches!(node.op, Op::Const(..) | Op::Iota(..) | Op::Arg(..)) {
            return false;
        }
        to_do.extend(&node.operands);
    }
    true
}

/// The scatter whose updates change nothing unless `all` holds, of those that are combined with what is there.
fn neutral_unless(builder: &mut GraphBuilder, all: NodeId, into: &IntoItself, monoid: Monoid) -> NodeId {
    let [base, index, update] = into.operands;
    let (ty, span) = (builder.graph.ty(update).clone(), builder.graph.node(update).span);
    let neutral = builder.full(monoid.neutral(ty.dtype), &ty, span);
    let all = builder.shaped(all, &ty.shape, span);
    let update = builder.alu(AluOp::Where, &[all, update, neutral], span);
    builder.add(Op::Scatter(into.axis, into.mode), &[base, index, update], span)
}

/// The scatter whose indices are all out of range unless `all` holds: such write nowhere. They are a bad one of
/// its own, which is then reported, or else the first beyond the axis; `None` where their type has no such.
fn nowhere_unless(builder: &mut GraphBuilder, all: NodeId, into: &IntoItself) -> Option<NodeId> {
    let [base, index, update] = into.operands;
    let extent = builder.graph.ty(base).shape[usize::from(into.axis)];
    let (ty, span) = (builder.graph.ty(index).clone(), builder.graph.node(index).span);
    let end = representable(extent, ty.dtype)?;
    let axes: Box<[u8]> = (0..ty.shape.rank()).map(|axis| axis as u8).collect();
    let [least, most] = [Monoid::Min, Monoid::Max]
        .map(|monoid| builder.add(Op::Reduce(monoid, axes.clone()), &[index], span));
    let rank_0 = builder.graph.ty(least).clone();
    let (zero, end) = (builder.full(Scalar::Int(0), &rank_0, span), builder.full(end, &rank_0, span));
    let (negative, fine) =
        (builder.alu(AluOp::Lt, &[least, zero], span), builder.alu(AluOp::Lt, &[most, end], span));
    let beyond = builder.alu(AluOp::Where, &[fine, end, most], span);
    let bad = builder.alu(AluOp::Where, &[negative, least, beyond], span);
    let (all, bad) = (builder.shaped(all, &ty.shape, span), builder.shaped(bad, &ty.shape, span));
    let index = builder.alu(AluOp::Where, &[all, index, bad], span);
    Some(builder.add(Op::Scatter(into.axis, into.mode), &[base, index, update], span))
}

/// An index that a kernel checks.
#[derive(Debug, PartialEq, Eq)]
struct CheckedIndex {
    index: NodeId,
    extent: usize,
    device: Device,
}

/// The indices of which every element is used: others may be bad and nobody is told.
fn checked_indices(graph: &Graph, late: &dyn Fn(Device) -> bool) -> Vec<CheckedIndex> {
    let mut found: Vec<CheckedIndex> = Vec::new();
    indices_within(graph, &|index| Some(index), &mut |checked| {
        // Positions made of a ramp are right, or a constant mistake.
        let made = matches!(graph.node(checked.index).op, Op::Iota(..) | Op::Const(..));
        if late(checked.device) && !made && !found.contains(&checked) {
            found.push(checked);
        }
    });
    found
}

/// Finds the indices of a graph and of the bodies in it. `outside` says which node of the outermost graph one is;
/// what a body computes itself, or carries from one iteration to the next, is none.
fn indices_within(
    graph: &Graph,
    outside: &dyn Fn(NodeId) -> Option<NodeId>,
    found: &mut dyn FnMut(CheckedIndex),
) {
    let used = used_whole(graph);
    for id in graph.ids().filter(|id| used[id.index()]) {
        let node = graph.node(id);
        if let Op::Gather(axis) | Op::Scatter(axis, _) = node.op {
            let extent = graph.ty(node.operands[0]).shape[usize::from(axis)];
            if let Some(index) = outside(unmoved(graph, node.operands[1])) {
                found(CheckedIndex { index, extent, device: node.ty.device });
            }
        } else if let Some(body) = node.op.body() {
            let body = collect_body(&body.results);
            let given = |id: NodeId| {
                let Op::Param(number, _) = body.node(id).op else { return None };
                outside(unmoved(graph, given(node, number as usize)?))
            };
            indices_within(&body, &given, found);
        }
    }
}

/// The operand that a parameter of a node's body is, or is a slice of, each time.
fn given(node: &GraphNode, param: usize) -> Option<NodeId> {
    let Op::Loop(spec, _) = &node.op else { return Some(node.operands[param]) };
    // The iteration number comes first.
    let operand = param.checked_sub(1).filter(|operand| *operand >= spec.carries)?;
    Some(node.operands[operand])
}

/// What an index repeats or rearranges.
fn unmoved(graph: &Graph, mut id: NodeId) -> NodeId {
    while let Op::Reshape(_) | Op::Permute(_) | Op::Expand(_) | Op::Flip(_) = graph.node(id).op {
        id = graph.node(id).operands[0];
    }
    id
}

/// By node: whether an output needs all of its elements.
fn used_whole(graph: &Graph) -> Vec<bool> {
    let mut used = vec![false; graph.nodes.len()];
    graph.outputs.iter().for_each(|output| used[output.index()] = true);
    for id in graph.ids().rev().filter(|id| graph.ty(*id).shape.numel() > 0) {
        let node = graph.node(id);
        for (slot, operand) in node.operands.iter().enumerate() {
            used[operand.index()] |= used[id.index()] && reads_all(&node.op, slot);
        }
    }
    used
}

fn reads_all(op: &Op, slot: usize) -> bool {
    match op {
        Op::Slice(_) | Op::Window(_) => false,
        Op::Gather(_) => slot == 1,
        Op::Pad(axes) => axes.iter().all(|axis| axis.lo >= 0 && axis.hi >= 0),
        Op::Const(..) | Op::Arg(..) | Op::Iota(..) | Op::Leaf(_) | Op::Param(..) => true,
        Op::Alu(_) | Op::Cast(_) | Op::Bitcast(_) | Op::Reshape(_) | Op::Permute(_) => true,
        Op::Expand(_) | Op::Flip(_) | Op::Unwindow(..) | Op::Reduce(..) | Op::Scan(..) => true,
        Op::Contract(_) | Op::Scatter(..) | Op::Sort { .. } | Op::Copy(_) | Op::Collective(_) => true,
        Op::After | Op::Pack(_) | Op::Loop(..) | Op::Composite(..) | Op::Custom(..) => true,
    }
}

/// One truth value: whether all of the indices are within their axes. `None` if there is none.
fn all_in_range<'a>(
    builder: &mut GraphBuilder,
    indices: impl Iterator<Item = &'a CheckedIndex>,
) -> Option<NodeId> {
    let mut all = None;
    for &CheckedIndex { index, extent, .. } in indices {
        let span = builder.graph.node(index).span;
        let fine = in_range(builder, index, extent, span);
        let axes = (0..builder.graph.ty(fine).shape.rank()).map(|axis| axis as u8).collect();
        let fine = builder.add(Op::Reduce(Monoid::Min, axes), &[fine], span);
        all = Some(all.map_or(fine, |all| builder.alu(AluOp::And, &[all, fine], span)));
    }
    all
}

/// Of each element of an index, whether it is one of an axis.
fn in_range(builder: &mut GraphBuilder, index: NodeId, extent: usize, span: Span) -> NodeId {
    let ty = builder.graph.ty(index).clone();
    let zero = builder.full(Scalar::Int(0), &ty, span);
    let negative = builder.alu(AluOp::Lt, &[index, zero], span);
    let from_start = builder.alu(AluOp::Not, &[negative], span);
    // Where the type ends before the axis does, nothing is beyond it.
    let Some(end) = representable(extent, ty.dtype) else { return from_start };
    let end = builder.full(end, &ty, span);
    let before_end = builder.alu(AluOp::Lt, &[index, end], span);
    builder.alu(AluOp::And, &[from_start, before_end], span)
}

/// An axis' extent as a number of a type, if it has it.
fn representable(extent: usize, dtype: DType) -> Option<Scalar> {
    let end = Scalar::Int(extent as i64);
    (end.cast(dtype).as_i64() == extent as i64).then_some(end)
}
