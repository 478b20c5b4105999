//! Reductions and scans.

use crate::base::Scalar;
use crate::base::shape::product;
use crate::ir::alu::AluOp;
use crate::ir::graph::{GraphNode, NodeId};
use crate::ir::monoid::Monoid;
use crate::ir::op::{Axes, Op};
use crate::ir::rewrite::{GraphBuilder, RewriteRule};

pub(super) const RULES: &[RewriteRule] = &[
    RewriteRule { name: "reduce of one element each", exact: true, apply: singletons },
    RewriteRule { name: "extreme of a repeated number", exact: true, apply: extreme_of_uniform },
    RewriteRule { name: "sum of a repeated number", exact: false, apply: sum_of_uniform },
    RewriteRule { name: "reduce of reduce", exact: true, apply: reduce_reduce },
];

fn reduction(node: &GraphNode) -> Option<(Monoid, &Axes, NodeId)> {
    if let Op::Reduce(monoid, axes) = &node.op { Some((*monoid, axes, node.operands[0])) } else { None }
}

/// How many elements each result combines.
fn count(b: &GraphBuilder, axes: &Axes, x: NodeId) -> usize {
    let shape = &b.graph.ty(x).shape;
    product(axes.iter().map(|&axis| shape[usize::from(axis)]))
}

/// Over axes of extent 1 only. Floats combine with the identity, which for
/// sums makes `+0` of `-0`.
fn singletons(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let (monoid, axes, x) = reduction(node)?;
    if count(b, axes, x) != 1 {
        return None;
    }
    let adds_zero = match monoid {
        Monoid::Sum => node.ty.dtype.is_float(),
        Monoid::LogSumExp => true,
        Monoid::Prod | Monoid::Max | Monoid::Min => false,
        Monoid::ArgMax | Monoid::ArgMin => return Some(b.full(0i64, &node.ty, node.span)),
        // Of NaN or infinity, the deviation is up to the device.
        Monoid::M2 => return None,
    };
    let reshaped = b.add(Op::reshape(&node.ty.shape), &[x], node.span);
    if !adds_zero {
        return Some(reshaped);
    }
    let zero = b.add(Op::Const(Scalar::Float(0.0), node.ty.dtype, node.ty.device), &[], node.span);
    Some(b.alu(AluOp::Add, &[reshaped, zero], node.span))
}

fn extreme_of_uniform(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let (monoid, axes, x) = reduction(node)?;
    let scalar = b.uniform(x).filter(|_| count(b, axes, x) > 0)?;
    match monoid {
        Monoid::Max | Monoid::Min => Some(b.shaped(scalar, &node.ty.shape, node.span)),
        Monoid::ArgMax | Monoid::ArgMin => Some(b.full(0i64, &node.ty, node.span)),
        Monoid::Sum | Monoid::Prod | Monoid::M2 | Monoid::LogSumExp => None,
    }
}

/// A 16-bit float only if the product is exact, as in folding.
fn sum_of_uniform(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let (Monoid::Sum, axes, x) = reduction(node)? else { return None };
    let value = b.uniform(x).and_then(|scalar| b.number(scalar))?;
    let dtype = node.ty.dtype;
    let count = count(b, axes, x);
    let total = match value {
        // Zero terms of infinity are no NaN, and terms of -0 add up to +0.
        Scalar::Float(value) => Scalar::Float(if count == 0 { 0.0 } else { value * count as f64 + 0.0 }),
        Scalar::Int(_) | Scalar::Bool(_) => Scalar::Int(value.as_i64().wrapping_mul(count as i64)),
    };
    let inexact = dtype.compute() != dtype && !total.cast(dtype).same(total);
    (!inexact).then(|| b.full(total, &node.ty, node.span))
}

/// Where the order of combination does not show.
fn reduce_reduce(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let (monoid, outer, x) = reduction(node)?;
    let (same, inner, source) = reduction(b.graph.node(x))?;
    let unordered = match monoid {
        Monoid::Max | Monoid::Min => true,
        Monoid::Sum | Monoid::Prod => !node.ty.dtype.is_float(),
        Monoid::ArgMax | Monoid::ArgMin | Monoid::M2 | Monoid::LogSumExp => false,
    };
    if same != monoid || !unordered {
        return None;
    }
    let rank = b.graph.ty(source).shape.rank() as u8;
    let kept: Axes = (0..rank).filter(|axis| !inner.contains(axis)).collect();
    let mut axes: Axes = inner.iter().copied().chain(outer.iter().map(|&i| kept[usize::from(i)])).collect();
    axes.sort();
    Some(b.add(Op::Reduce(monoid, axes), &[source], node.span))
}
