//! Bits, truth values, comparisons and selection.

use crate::base::{DType, Scalar};
use crate::ir::alu::AluOp;
use crate::ir::graph::{GraphNode, NodeId};
use crate::ir::rewrite::{GraphBuilder, RewriteRule};
use crate::ir::simplify::{alu_of, binary, instead, unary, unary_at};

pub(super) const RULES: &[RewriteRule] = &[
    RewriteRule { name: "!!x = x", exact: true, apply: double_not },
    RewriteRule { name: "x & x = x | x = x, x ^ x = 0", exact: true, apply: bits_of_same },
    RewriteRule { name: "x & 0 = 0, x & ~0 = x", exact: true, apply: and_number },
    RewriteRule { name: "x | 0 = x, x | ~0 = ~0", exact: true, apply: or_number },
    RewriteRule { name: "x ^ 0 = x, x ^ ~0 = ~x", exact: true, apply: xor_number },
    RewriteRule { name: "x << 0 = x >> 0 = x", exact: true, apply: shift_by_zero },
    RewriteRule { name: "x < x is false, x == x is true (not for floats)", exact: true, apply: compare_same },
    RewriteRule { name: "x == true = x, x == false = !x", exact: true, apply: compare_truth },
    RewriteRule { name: "where(true, x, y) = x, where(c, x, x) = x", exact: true, apply: decided },
    RewriteRule { name: "where(!c, x, y) = where(c, y, x)", exact: true, apply: where_not },
    RewriteRule { name: "where(c, true, false) = c", exact: true, apply: where_truth },
    RewriteRule {
        name: "where(c, 1, 0) < 2 is true, where(c, 1, 0) == 1 is c",
        exact: true,
        apply: compare_choice,
    },
];

/// All bits of an element set.
fn all_ones(value: Scalar, dtype: DType) -> bool {
    let ones = if dtype == DType::Bool { Scalar::Bool(true) } else { Scalar::Int(-1).cast(dtype) };
    value.cast(dtype).same(ones)
}

fn double_not(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    unary_at(b, unary(node, AluOp::Not)?, AluOp::Not)
}

fn bits_of_same(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    if let Some((x, y)) = binary(node, AluOp::Xor) {
        return (x == y).then(|| b.full(0i64, &node.ty, node.span));
    }
    let (x, y) = binary(node, AluOp::And).or_else(|| binary(node, AluOp::Or))?;
    (x == y).then_some(x)
}

fn and_number(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let (x, c) = binary(node, AluOp::And)?;
    let c = b.number(c)?;
    if !c.as_bool() {
        Some(b.full(0i64, &node.ty, node.span))
    } else if all_ones(c, node.ty.dtype) {
        instead(b, node, x)
    } else {
        None
    }
}

fn or_number(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let (x, c) = binary(node, AluOp::Or)?;
    let c = b.number(c)?;
    if !c.as_bool() {
        instead(b, node, x)
    } else if all_ones(c, node.ty.dtype) {
        Some(b.full(c, &node.ty, node.span))
    } else {
        None
    }
}

fn xor_number(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let (x, c) = binary(node, AluOp::Xor)?;
    let c = b.number(c)?;
    if !c.as_bool() {
        instead(b, node, x)
    } else if all_ones(c, node.ty.dtype) {
        Some(b.alu(AluOp::Not, &[x], node.span))
    } else {
        None
    }
}

fn shift_by_zero(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let (x, c) = binary(node, AluOp::Shl).or_else(|| binary(node, AluOp::Shr))?;
    if b.number(c)?.as_i64() == 0 { instead(b, node, x) } else { None }
}

fn compare_same(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    if let Some((x, y)) = binary(node, AluOp::Lt) {
        return (x == y).then(|| b.full(false, &node.ty, node.span));
    }
    let (x, y) = binary(node, AluOp::Eq)?;
    let certain = x == y && !b.graph.ty(x).dtype.is_float();
    certain.then(|| b.full(true, &node.ty, node.span))
}

fn compare_truth(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let (x, c) = binary(node, AluOp::Eq)?;
    let truth = b.number(c)?;
    if b.graph.ty(x).dtype != DType::Bool {
        return None;
    }
    if truth.as_bool() { instead(b, node, x) } else { Some(b.alu(AluOp::Not, &[x], node.span)) }
}

/// Condition, value where true, value where false.
fn selection(node: &GraphNode) -> Option<(NodeId, NodeId, NodeId)> {
    binary(node, AluOp::Where)?;
    Some((node.operands[0], node.operands[1], node.operands[2]))
}

fn decided(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let (c, x, y) = selection(node)?;
    if x == y {
        return instead(b, node, x);
    }
    let condition = b.uniform(c).and_then(|c| b.number(c))?;
    instead(b, node, if condition.as_bool() { x } else { y })
}

fn where_not(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let (c, x, y) = selection(node)?;
    let c = unary_at(b, c, AluOp::Not)?;
    Some(b.alu(AluOp::Where, &[c, y, x], node.span))
}

fn where_truth(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let (c, x, y) = selection(node)?;
    let (x, y) = (b.number(x)?, b.number(y)?);
    if node.ty.dtype != DType::Bool || x.as_bool() == y.as_bool() {
        return None;
    }
    if x.as_bool() { instead(b, node, c) } else { Some(b.alu(AluOp::Not, &[c], node.span)) }
}

/// A comparison of one of two numbers with a third, as where a mask was made of numbers.
fn compare_choice(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let (op, operands) = alu_of(node)?;
    if op != AluOp::Lt && op != AluOp::Eq {
        return None;
    }
    let (x, y) = (operands[0], operands[1]);
    let choice = if b.number(y).is_some() { x } else { y };
    let (c, yes, no) = selection(b.graph.node(choice))?;
    let dtype = b.graph.ty(choice).dtype;
    // The comparison's outcome where the choice is this number.
    let outcome = |number: NodeId| -> Option<bool> {
        let value = |id: NodeId| b.number(if id == choice { number } else { id });
        Some(op.eval(dtype, &[value(x)?, value(y)?]).as_bool())
    };
    match (outcome(yes)?, outcome(no)?) {
        (true, false) => instead(b, node, c),
        (false, true) => Some(b.alu(AluOp::Not, &[c], node.span)),
        (same, _) => Some(b.full(same, &node.ty, node.span)),
    }
}
