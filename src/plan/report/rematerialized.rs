//! Rematerialized values: what a plan recomputes to use less memory, for gradients of
//! checkpoints and to fit a budget.

use std::collections::HashMap;

use crate::base::{Shape, Span};
use crate::ir::rewrite::{DROPPED, RewriteRule, rewrite};
use crate::ir::{Graph, NodeId, Op};
use crate::plan::build::Plan;

/// Values computed again instead of being kept, for gradients
/// ([`crate::checkpoint`]) or to fit a budget ([`crate::with_budget`]).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Rematerialized {
    /// The operation.
    pub name: &'static str,
    /// The values' shape.
    pub shape: Shape,
    /// How many such values.
    pub times: usize,
    /// The user's line, which asked for the first run.
    pub at: Span,
}

/// Without control dependencies, a rematerialized value is the same node as the one
/// computed first.
const WITHOUT_GATES: RewriteRule = RewriteRule {
    name: "without gates",
    exact: true,
    apply: |_, node| if let Op::After = node.op { Some(node.operands[0]) } else { None },
};

/// The values that steps store and that are there already, or were.
pub(super) fn rematerialized(plan: &Plan, spans: &[Span]) -> Vec<Rematerialized> {
    let graph = &plan.schedule.graph;
    let gated = gated(graph);
    let mut found: Vec<Rematerialized> = Vec::new();
    // What every chunk computes the same is not kept from one to the next.
    let whole = |id: &&NodeId| !plan.schedule.chunks.contains_key(id);
    for &id in plan.schedule.steps.iter().flat_map(|step| &step.outputs).filter(whole) {
        let first = plan.schedule.recomputed.get(&id).or_else(|| gated.get(&id));
        let Some(&first) = first else { continue };
        let (name, shape, at) = (graph.node(id).op.name(), &graph.ty(id).shape, spans[first.index()]);
        match found.iter_mut().find(|one| (one.name, &one.shape, one.at) == (name, shape, at)) {
            Some(known) => known.times += 1,
            None => found.push(Rematerialized { name, shape: shape.clone(), times: 1, at }),
        }
    }
    found
}

/// Of each value behind a gate, the same value without it.
fn gated(graph: &Graph) -> HashMap<NodeId, NodeId> {
    if !graph.nodes.iter().any(|node| matches!(node.op, Op::After)) {
        return HashMap::new();
    }
    let (_, same) = rewrite(graph, &[WITHOUT_GATES]);
    let mut first: HashMap<NodeId, NodeId> = HashMap::new();
    let kept = || graph.ids().filter(|id| same[id.index()] != DROPPED);
    for id in kept() {
        first.entry(same[id.index()]).or_insert(id);
    }
    kept().map(|id| (id, first[&same[id.index()]])).filter(|(id, first)| id != first).collect()
}
