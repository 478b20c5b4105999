//! `realize`: collect, find or build the plan, run it, record the values.

use std::sync::Arc;

use crate::base::{Error, Result, Span};
use crate::ir::collect::{Collected, collect};
use crate::ir::{Leaf, Node, NodeId, Type, pending};
use crate::plan::build::{Plan, build};
use crate::plan::context::{self, Context, Lookup, add};
use crate::plan::debug;
use crate::plan::donate::donated;
use crate::plan::key::key;
use crate::plan::run::run;
use crate::plan::view::view;

/// Computes the values of some nodes, together, in one plan; with them, what
/// the thread means to compute from the same work ([`pending`]). Nodes that
/// have values are left alone.
///
/// # Errors
/// A node on the meta device, an absent device, out of memory, an index out
/// of range, a kernel that fails. No node then has a value that it did not
/// have before.
pub fn realize(nodes: &[Arc<Node>], span: Span) -> Result<()> {
    let context = context::current();
    let wanted = to_compute(nodes);
    if wanted.is_empty() {
        return Ok(());
    }
    if let Some(meta) = wanted.iter().find(|node| node.ty().device.is_meta()) {
        return Err(Error::NoData { call: "realize", shape: meta.ty().shape.clone(), span });
    }
    let values = {
        let Prepared { plan, collected, scalars } = prepare(&context, &wanted);
        let leaves: Vec<Leaf> = collected.leaves.iter().filter_map(|leaf| leaf.value().cloned()).collect();
        run(&context, &plan, &leaves, &scalars, &|id| line(&plan, &collected, id))?
    };
    context.flush()?;
    for (node, value) in wanted.iter().zip(values) {
        node.set_value(value);
    }
    Ok(())
}

/// The user's line that asked for a value of the plan's graph.
fn line(plan: &Plan, collected: &Collected, id: NodeId) -> Option<Span> {
    let mut nodes = collected.graph.nodes.iter().zip(&plan.schedule.map);
    nodes.find(|(_, to)| **to == Some(id)).map(|(node, _)| node.span)
}

/// The nodes that have no value yet, and what else is to be computed with
/// them.
pub(crate) fn to_compute(nodes: &[Arc<Node>]) -> Vec<Arc<Node>> {
    let unsettled = |nodes: &[Arc<Node>]| -> Vec<Arc<Node>> {
        nodes.iter().filter(|node| !settle_view(node)).cloned().collect()
    };
    let mut wanted = unsettled(nodes);
    wanted.extend(unsettled(&pending::sharing(&wanted)));
    wanted
}

/// Whether a node has a value, perhaps since it turned out to be a view.
fn settle_view(node: &Arc<Node>) -> bool {
    if node.value().is_none()
        && let Some(value) = view(node)
    {
        node.set_value(value);
    }
    node.value().is_some()
}

/// The plan for some nodes, and what it applies to.
pub(crate) struct Prepared {
    pub plan: Arc<Plan>,
    pub collected: Collected,
    /// The bits of all the graph's scalars.
    pub scalars: Vec<u64>,
}

/// The plan for some nodes, from the cache or new. Nothing is compiled yet.
pub(crate) fn prepare(context: &Context, nodes: &[Arc<Node>]) -> Prepared {
    let collected = collect(nodes);
    let donated = donated(&collected);
    let (skeleton, values) = key(&collected, &donated);
    let scalars = values.scalars.iter().map(|scalar| scalar.bits).collect();
    let plan = match context.look_up(&skeleton, &values) {
        Lookup::Hit(plan) => {
            add(&context.counts.cache_hits, 1);
            plan
        }
        Lookup::Miss(lifted) => {
            let plan = Arc::new(build(context, &collected, &lifted, &donated));
            debug::built(&plan, &collected);
            context.keep(skeleton, values, lifted, plan)
        }
    };
    Prepared { plan, collected, scalars }
}

/// The elements of a leaf in row-major order, as bytes.
///
/// # Errors
/// The driver's failure.
pub(crate) fn read_dense(context: &Context, ty: &Type, leaf: &Leaf) -> Result<Vec<u8>> {
    let size = ty.dtype.size();
    let mut bytes = vec![0; ty.shape.numel() * size];
    if bytes.is_empty() {
        return Ok(bytes);
    }
    let backend = context.backend(leaf.buffer.device)?;
    add(&context.counts.host_waits, 1);
    add(&context.counts.bytes_transferred, bytes.len() as u64);
    if leaf.layout.is_contiguous(&ty.shape) {
        backend.download(&leaf.buffer, leaf.layout.offset as usize * size, &mut bytes)?;
        return Ok(bytes);
    }
    let mut whole = vec![0; leaf.buffer.bytes];
    backend.download(&leaf.buffer, 0, &mut whole)?;
    let strides = &leaf.layout.strides;
    let mut index = vec![0usize; ty.shape.rank()];
    for element in bytes.chunks_exact_mut(size) {
        let at = index.iter().zip(strides).fold(leaf.layout.offset, |at, (&i, &s)| at + i as i64 * s);
        let at = at as usize * size;
        element.copy_from_slice(&whole[at..at + size]);
        for axis in (0..index.len()).rev() {
            index[axis] += 1;
            if index[axis] < ty.shape[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
    Ok(bytes)
}
