//! Collectives in the graph: lazy like any operation, and run in the order in which a rank builds them.

use std::sync::Arc;

use crate::ir::Op;
use crate::ir::collective::{Channel, Collective, CollectiveKind};
use crate::tensor::Tensor;
use crate::tensor::compose::{CallSite, Checked, finish};

/// What the ranks of a group do together with this rank's `x`.
///
/// It waits for the collective that this rank built before: all ranks build the same ones in the same order, so they
/// run them in one order, whichever of their results are asked for first.
pub(crate) fn collective(
    site: CallSite,
    kind: CollectiveKind,
    channel: &Arc<dyn Channel>,
    x: &Tensor,
) -> Tensor {
    let built = || -> Checked<Tensor> {
        site.valid(&[x])?;
        let is_open = x.peek().is_some_and(|node| node.is_open());
        site.require(!is_open, &[x], || {
            let found = "a value of a body; let the body give it out as a result";
            ("a tensor outside of the bodies of loops and composites".into(), found.into())
        })?;
        let op = Collective { kind, size: channel.size(), channel: Some(channel.clone()) };
        let op = Op::Collective(Arc::new(op));
        let result = match channel.order().last() {
            Some(before) => site.apply(op, &[x, &Tensor::from_node(before).detached(site.span)]),
            None => site.apply(op, &[x]),
        };
        if let Some(node) = result.peek() {
            channel.order().follow(node);
        }
        Ok(result)
    };
    finish(built())
}
