//! Device mismatches in error messages: which operands are on which device, and where
//! they were made.

use std::sync::Arc;

use crate::base::Span;
use crate::ir::Node;

/// The first two operands on different devices, as `cuda:0 (made at a.rs:10)
/// and cpu (made at b.rs:4)`; `None` if all are on one.
pub(crate) fn describe<'a>(operands: impl IntoIterator<Item = &'a Arc<Node>>, span: Span) -> Option<String> {
    let mut operands = operands.into_iter();
    let first = operands.next()?;
    let other = operands.find(|node| node.ty().device != first.ty().device)?;
    let text = |node: &Arc<Node>| format!("{} (made at {})", node.ty().device, maker(node, span));
    Some(format!("{} and {}", text(first), text(other)))
}

/// The line that made an operand: below what the operation at `span` did to
/// it itself, such as broadcasting.
fn maker(node: &Arc<Node>, span: Span) -> Span {
    let mut node = node.clone();
    while node.span() == span {
        let below = node.operands().first().filter(|below| below.ty().device == node.ty().device).cloned();
        match below {
            Some(below) => node = below,
            None => break,
        }
    }
    node.span()
}
