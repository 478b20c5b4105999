//! The oracle: what a graph means, computed the slow and obvious way.
//!
//! One node at a time, in order, without fusion: integers exactly (wrapped to
//! their width), floats in `f64`. A float is rounded to its type only where
//! every device stores it: constants, parameters, casts to another type,
//! bitcasts, copies, the carries and results of loops, the operands and
//! results of custom kernels, and the graph's outputs. In between it keeps
//! `f64` precision, as a fused kernel may keep more than the type has.

mod bodies;
mod bounds;
mod bounds_alu;
mod elementwise;
mod index;
mod interpret;
mod movement;
mod reduce;
#[cfg(test)]
mod tests;
mod value;

use std::sync::Arc;

use crate::base::{Error, Result, Span};
use crate::ir::buffer::Leaf;
use crate::ir::claim::Deadlock;
use crate::ir::collect::collect;
use crate::ir::graph::Graph;
use crate::ir::node::Node;
use crate::ir::open::closed;
use crate::ir::ty::Type;

pub use bounds::Bounded;
pub use value::{Data, Value};

use value::OracleCell;

/// The values of a graph's outputs, rounded to their types.
///
/// # Errors
/// [`Error::IndexOutOfRange`] for a gather or scatter outside its axis,
/// [`Error::Kernel`] when a custom kernel fails, [`Error::Argument`] when
/// `params` do not fit the graph's parameters.
pub fn evaluate(graph: &Graph, params: &[Value]) -> Result<Vec<Value>> {
    let params: Vec<OracleCell> =
        params.iter().map(|param| OracleCell::certain(param.rounded(), false)).collect();
    let outputs = interpret::interpret(graph, &params, false)?;
    Ok(outputs.iter().map(|output| output.value.rounded()).collect())
}

/// Like [`evaluate`], with bounds on what a device may differ by: every
/// operation, in any order of summation, fused or not, computed in the type
/// that [`crate::base::DType::compute`] names and rounded where it likes.
///
/// # Errors
/// Those of [`evaluate`].
pub fn evaluate_bounded(graph: &Graph, params: &[Value]) -> Result<Vec<Bounded>> {
    let params: Vec<OracleCell> =
        params.iter().map(|param| OracleCell::certain(param.rounded(), true)).collect();
    let outputs = interpret::interpret(graph, &params, true)?;
    Ok(outputs.iter().map(Bounded::stored).collect())
}

/// The values of persistent nodes; `read` fetches the leaves they rest on.
///
/// # Errors
/// Those of [`evaluate`] and of `read`.
pub fn evaluate_nodes(
    nodes: &[Arc<Node>],
    read: &dyn Fn(&Leaf, &Type) -> Result<Value>,
) -> Result<Vec<Value>> {
    let (graph, params) = collected(nodes, read)?;
    evaluate(&graph, &params)
}

/// [`evaluate_bounded`] of persistent nodes.
///
/// # Errors
/// Those of [`evaluate`] and of `read`.
pub fn evaluate_nodes_bounded(
    nodes: &[Arc<Node>],
    read: &dyn Fn(&Leaf, &Type) -> Result<Value>,
) -> Result<Vec<Bounded>> {
    let (graph, params) = collected(nodes, read)?;
    evaluate_bounded(&graph, &params)
}

fn collected(
    nodes: &[Arc<Node>],
    read: &dyn Fn(&Leaf, &Type) -> Result<Value>,
) -> Result<(Graph, Vec<Value>)> {
    if let Some(node) = nodes.first() {
        closed(nodes, "oracle", node.span())?;
    }
    let unclaimed = || argument("nodes that are not being computed", "one whose own kernel asks for it");
    let collected = collect(nodes).map_err(|Deadlock| unclaimed())?;
    let mut params = Vec::with_capacity(collected.leaves().len());
    for leaf in collected.leaves() {
        let missing = || argument("a realized leaf", "one without a value");
        params.push(read(leaf.value().ok_or_else(missing)?, leaf.ty())?);
    }
    Ok((collected.into_graph(), params))
}

fn argument(expected: impl Into<String>, found: impl Into<String>) -> Error {
    let span = Span::caller();
    Error::Argument { call: "oracle", expected: expected.into(), found: found.into(), span }
}
