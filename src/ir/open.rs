//! Open nodes: those that depend on a parameter of a body.
//!
//! A parameter stands for a number of values, one for each time its body runs.
//! So what depends on one can be computed inside that body and nowhere else: not
//! while the body is built, and not after, wherever it was taken.

use std::sync::Arc;

use crate::base::{Error, Result, Span};
use crate::ir::collect::NodeMap;
use crate::ir::node::Node;
use crate::ir::op::Op;

/// Whether nodes have values, now or once they are computed, which `call` at `span`
/// asks for.
///
/// # Errors
/// [`Error::InsideBody`] for the first that is open.
pub fn closed<'n>(
    nodes: impl IntoIterator<Item = &'n Arc<Node>>,
    call: &'static str,
    span: Span,
) -> Result<()> {
    match nodes.into_iter().find(|node| node.is_open()) {
        Some(open) => Err(Error::InsideBody { call, body: body_below(open), span }),
        None => Ok(()),
    }
}

/// The line that built the body of a parameter below an open node.
#[cold]
fn body_below(open: &Arc<Node>) -> Span {
    let mut seen: NodeMap<()> = NodeMap::default();
    let mut pending = vec![open.clone()];
    while let Some(node) = pending.pop() {
        if matches!(node.op(), Op::Param(..)) {
            return node.span();
        }
        if seen.insert(Arc::as_ptr(&node) as usize, ()).is_none() {
            pending.extend(node.operands().iter().filter(|operand| operand.is_open()).cloned());
        }
    }
    unreachable!("an open node has a parameter below it: {open:?}")
}
