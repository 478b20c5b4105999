//! What a plan computes in chunks, one after the other in the same memory.

use std::collections::{BTreeMap, HashMap};

use crate::base::{Shape, Span};
use crate::ir::{Graph, NodeId};
use crate::plan::build::Plan;

/// A value that is computed part by part, to fit a budget ([`crate::with_budget`]):
/// used so, too, and never in memory as a whole; or put together, or added up, from
/// its parts.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InChunks {
    /// The operation.
    pub name: &'static str,
    /// The shape of the whole.
    pub shape: Shape,
    /// How many parts there are.
    pub chunks: usize,
    /// The user's line.
    pub at: Span,
}

/// Values of which steps store several parts.
pub(super) fn in_chunks(plan: &Plan, built: &Graph) -> Vec<InChunks> {
    let schedule = &plan.schedule;
    let mut parts: HashMap<(NodeId, usize), usize> = HashMap::new();
    let stored = schedule.steps.iter().flat_map(|step| &step.outputs);
    for part in stored.filter_map(|id| schedule.chunks.get(id)) {
        *parts.entry((part.given, part.value)).or_default() += 1;
    }
    let mut chunks: BTreeMap<NodeId, usize> = BTreeMap::new();
    for ((given, _), count) in parts {
        let most = chunks.entry(given).or_default();
        *most = count.max(*most);
    }
    let report = |(given, chunks): (NodeId, usize)| {
        let node = built.node(given);
        InChunks { name: node.op.name(), shape: node.ty.shape.clone(), chunks, at: node.span }
    };
    chunks.into_iter().filter(|(_, chunks)| *chunks > 1).map(report).collect()
}
