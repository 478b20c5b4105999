//! Fallbacks: state that keeps its value where an index is out of range.
//!
//! A device that learns of a bad index late has run the rest of the plan by then. So the plan asks itself whether all
//! indices are within their axes (`index_checks.rs`), and where one is not, a result with a fallback is what was
//! there before. That is one comparison for each index and one choice in the kernel that writes the state; nobody
//! waits. Where a scatter writes into the memory of the state itself, its updates change nothing instead, so that
//! what they do not touch is not copied.

use std::collections::HashSet;

use crate::base::{Device, Scalar};
use crate::ir::alu::AluOp;
use crate::ir::monoid::Monoid;
use crate::ir::rewrite::GraphBuilder;
use crate::ir::{Graph, NodeId, Op, ScatterMode};
use crate::schedule::index_checks::{all_in_range, representable};

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
    let mut builder = GraphBuilder::extending(graph);
    let mut known: Vec<(Device, Option<NodeId>)> = Vec::new();
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
                let all = late(ty.device).then(|| all_in_range(&mut builder, ty.device)).flatten();
                known.push((ty.device, all));
                all
            }
        };
        let Some(all) = all else { continue };
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
