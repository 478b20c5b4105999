//! Activations retained for gradients, when a loss is realized before its backward pass.
//!
//! Intermediates that steps store anyway get memory of their own, so that the kernels that computed them need
//! not run again. No kernel changes.

use std::borrow::Cow;

use crate::ir::rewrite::Renumbering;
use crate::ir::{Graph, NodeId, Op};
use crate::schedule::order::Step;

/// The candidates, nodes of the given graph, whose values steps store, with the nodes
/// that are stored.
pub fn retained(
    graph: &Graph,
    steps: &[Step],
    map: &Renumbering,
    candidates: &[NodeId],
) -> Vec<(NodeId, NodeId)> {
    if candidates.is_empty() {
        return Vec::new();
    }
    let mut stored = vec![false; graph.nodes.len()];
    steps.iter().flat_map(|step| &step.outputs).for_each(|output| stored[output.index()] = true);
    let users = graph.users();
    // Memory that something else is written into, or that is a part of something else, is not the value's own.
    let own = |id: NodeId| {
        let shares =
            |user: &NodeId| matches!(graph.node(*user).op, Op::Scatter(..) | Op::Pack(_) | Op::After);
        !matches!(graph.node(id).op, Op::Pack(_)) && !users[id.index()].iter().any(shares)
    };
    let found = candidates.iter().filter_map(|&given| Some((given, map.get(given)?)));
    found.filter(|&(_, id)| stored[id.index()] && !graph.outputs.contains(&id) && own(id)).collect()
}

/// The graph, with what is retained among its outputs.
pub fn with_outputs<'a>(graph: &'a Graph, retained: &[(NodeId, NodeId)]) -> Cow<'a, Graph> {
    if retained.is_empty() {
        return Cow::Borrowed(graph);
    }
    let mut graph = graph.clone();
    graph.outputs.extend(retained.iter().map(|&(_, id)| id));
    Cow::Owned(graph)
}
