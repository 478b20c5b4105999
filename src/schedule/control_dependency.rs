//! Control dependencies: steps that must run after others without reading their values
//! ([`Op::After`]).

use std::collections::{HashMap, HashSet};

use crate::ir::{Graph, NodeId, Op};
use crate::schedule::order::Step;

/// For each step, the steps that must run before it though it reads none of
/// their values.
pub(super) fn control_dependencies(graph: &Graph, steps: &[Step]) -> Vec<Vec<usize>> {
    if !graph.nodes.iter().any(|node| matches!(node.op, Op::After)) {
        return vec![Vec::new(); steps.len()];
    }
    let mut computed_by: HashMap<NodeId, usize> = HashMap::new();
    for (number, step) in steps.iter().enumerate() {
        computed_by.extend(step.members.iter().map(|&member| (member, number)));
    }
    (0..steps.len()).map(|number| control_dependencies_of(graph, steps, number, &computed_by)).collect()
}

/// Walks from what a step computes down to what other steps compute. A step reached
/// through the second operand of an [`Op::After`] is a control dependency.
fn control_dependencies_of(
    graph: &Graph,
    steps: &[Step],
    number: usize,
    computed_by: &HashMap<NodeId, usize>,
) -> Vec<usize> {
    let mut found = Vec::new();
    let mut seen: HashSet<(NodeId, bool)> = HashSet::new();
    let mut pending: Vec<(NodeId, bool)> =
        steps[number].members.iter().map(|&member| (member, false)).collect();
    while let Some((id, controls)) = pending.pop() {
        let node = graph.node(id);
        for (slot, &operand) in node.operands.iter().enumerate() {
            let controls = controls || slot == 1 && matches!(node.op, Op::After);
            match computed_by.get(&operand) {
                Some(&step) if controls && step != number && !found.contains(&step) => found.push(step),
                Some(_) => {}
                None if seen.insert((operand, controls)) => pending.push((operand, controls)),
                None => {}
            }
        }
    }
    found
}
