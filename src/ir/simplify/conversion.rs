//! Casts and bitcasts.

use crate::base::DType;
use crate::ir::graph::{GraphNode, NodeId};
use crate::ir::op::Op;
use crate::ir::rewrite::{GraphBuilder, RewriteRule};

pub(super) const RULES: &[RewriteRule] = &[
    RewriteRule { name: "cast to its own type", exact: true, apply: identity },
    RewriteRule { name: "cast of a number", exact: true, apply: fold },
    RewriteRule { name: "cast of a repeated number", exact: true, apply: cast_once },
    RewriteRule { name: "cast of a cast that loses nothing", exact: true, apply: chain },
    RewriteRule { name: "bitcast of a bitcast", exact: true, apply: bitcast_chain },
    RewriteRule { name: "bitcast to its own type", exact: true, apply: bitcast_identity },
];

fn cast(node: &GraphNode) -> Option<(NodeId, DType)> {
    if let Op::Cast(dtype) = node.op { Some((node.operands[0], dtype)) } else { None }
}

fn bitcast(node: &GraphNode) -> Option<(NodeId, DType)> {
    if let Op::Bitcast(dtype) = node.op { Some((node.operands[0], dtype)) } else { None }
}

fn identity(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let (x, to) = cast(node)?;
    (b.graph.ty(x).dtype == to).then_some(x)
}

fn fold(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let (x, _) = cast(node)?;
    let value = b.number(x)?;
    Some(b.full(value, &node.ty, node.span))
}

fn cast_once(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let (x, to) = cast(node)?;
    let scalar = b.uniform(x).filter(|&scalar| scalar != x)?;
    let once = b.add(Op::Cast(to), &[scalar], node.span);
    Some(b.shaped(once, &node.ty.shape, node.span))
}

fn chain(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let (inner, to) = cast(node)?;
    let (x, through) = cast(b.graph.node(inner))?;
    let from = b.graph.ty(x).dtype;
    // A float that was computed has more precision than its type. An integer that does not fit wraps,
    // but not by way of a float.
    let wraps = from.is_int() && to.is_int() && !holds(to, from);
    let kept = holds(through, from) && b.is_stored(x) && !(wraps && through.is_float());
    let cut = from.is_int() && through.is_int() && to.is_int() && to.size() <= through.size();
    (kept || cut).then(|| b.add(Op::Cast(to), &[x], node.span))
}

/// Whether `wide` has every value of `narrow`.
fn holds(wide: DType, narrow: DType) -> bool {
    use DType::{BF16, Bool, F16, F32, F64, I32, I64, U8, U32};
    match narrow {
        Bool => true,
        U8 => wide != Bool,
        I32 => matches!(wide, I32 | I64 | F64),
        U32 => matches!(wide, U32 | I64 | F64),
        I64 => wide == I64,
        F16 => matches!(wide, F16 | F32 | F64),
        BF16 => matches!(wide, BF16 | F32 | F64),
        F32 => matches!(wide, F32 | F64),
        F64 => wide == F64,
    }
}

fn bitcast_chain(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let (inner, to) = bitcast(node)?;
    let (x, _) = bitcast(b.graph.node(inner))?;
    Some(b.add(Op::Bitcast(to), &[x], node.span))
}

fn bitcast_identity(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let (x, to) = bitcast(node)?;
    (b.graph.ty(x).dtype == to && b.is_stored(x)).then_some(x)
}
