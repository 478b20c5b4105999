//! Simplification: the algebra, as a table of named rules by domain.
//!
//! Rules go one way, never to something costlier, and put constants on the
//! right. They keep the meaning for every operand, NaN, infinities and the
//! sign of zero included; those that are not `exact` round differently.
//! A number that was lifted out of the graph ([`crate::ir::Op::Arg`]) is a
//! value like any other: no rule sees it.

mod arithmetic;
mod conversion;
mod logic;
mod movement;
mod reduction;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use smallvec::SmallVec;

use crate::base::Optimization;
use crate::ir::alu::AluOp;
use crate::ir::graph::{Graph, GraphNode, NodeId};
use crate::ir::op::Op;
use crate::ir::rewrite::{GraphBuilder, RewriteRule, rewrite};

/// The graph in normal form, and the map from old numbers to new ones
/// ([`crate::ir::rewrite::DROPPED`] for nodes without a counterpart).
pub fn simplify(graph: &Graph) -> (Graph, Vec<NodeId>) {
    rewrite(graph, if Optimization::Simplification.is_on() { rules() } else { &[] })
}

/// Every rule, in the order they are tried.
pub fn rules() -> &'static [RewriteRule] {
    static RULES: LazyLock<Vec<RewriteRule>> = LazyLock::new(|| {
        let domains = [conversion::RULES, arithmetic::RULES, logic::RULES, movement::RULES, reduction::RULES];
        domains.concat()
    });
    &RULES
}

/// The operands of a unary operation.
fn unary(node: &GraphNode, op: AluOp) -> Option<NodeId> {
    if matches!(node.op, Op::Alu(found) if found == op) { Some(node.operands[0]) } else { None }
}

/// The operands of a binary operation.
fn binary(node: &GraphNode, op: AluOp) -> Option<(NodeId, NodeId)> {
    if matches!(node.op, Op::Alu(found) if found == op) {
        Some((node.operands[0], node.operands[1]))
    } else {
        None
    }
}

/// The operands of a unary operation that has been added.
fn unary_at(b: &GraphBuilder, id: NodeId, op: AluOp) -> Option<NodeId> {
    unary(b.graph.node(id), op)
}

/// `id` in the place of `node`: extended to its shape if it has rank 0.
fn instead(b: &mut GraphBuilder, node: &GraphNode, id: NodeId) -> Option<NodeId> {
    Some(b.shaped(id, &node.ty.shape, node.span))
}

/// The operation that a node applies, with its operands.
fn alu_of(node: &GraphNode) -> Option<(AluOp, &SmallVec<[NodeId; 3]>)> {
    if let Op::Alu(op) = node.op { Some((op, &node.operands)) } else { None }
}
