//! What a plan computes a second time on purpose, to hold less memory.

use std::collections::HashMap;

use crate::base::{Shape, Span};
use crate::ir::rewrite::{DROPPED, Rule, rewrite};
use crate::ir::{NodeId, Op};
use crate::plan::build::Plan;

/// Values computed again for gradients, instead of being kept
/// ([`crate::checkpoint`]).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ComputedAgain {
    /// The operation.
    pub name: &'static str,
    /// The values' shape.
    pub shape: Shape,
    /// How many such values.
    pub times: usize,
    /// The user's line, which asked for the first run.
    pub at: Span,
}

/// With nothing waiting for anything, what is computed again is the same node
/// as what was computed first.
const AT_ONCE: Rule = Rule {
    name: "at once",
    exact: true,
    apply: |_, node| if let Op::After = node.op { Some(node.operands[0]) } else { None },
};

/// The values that steps store and that are there already, or were.
pub(super) fn computed_again(plan: &Plan, spans: &[Span]) -> Vec<ComputedAgain> {
    let graph = &plan.schedule.graph;
    if !graph.nodes.iter().any(|node| matches!(node.op, Op::After)) {
        return Vec::new();
    }
    let (_, same) = rewrite(graph, &[AT_ONCE]);
    let mut first: HashMap<NodeId, NodeId> = HashMap::new();
    for id in graph.ids().filter(|id| same[id.index()] != DROPPED) {
        first.entry(same[id.index()]).or_insert(id);
    }
    let mut found: Vec<ComputedAgain> = Vec::new();
    for &id in plan.schedule.steps.iter().flat_map(|step| &step.outputs) {
        let Some(&first) = first.get(&same[id.index()]).filter(|&&first| first != id) else { continue };
        let (name, shape, at) = (graph.node(id).op.name(), &graph.ty(id).shape, spans[first.index()]);
        match found.iter_mut().find(|one| (one.name, &one.shape, one.at) == (name, shape, at)) {
            Some(known) => known.times += 1,
            None => found.push(ComputedAgain { name, shape: shape.clone(), times: 1, at }),
        }
    }
    found
}
