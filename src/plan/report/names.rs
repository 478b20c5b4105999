//! Names of kernels in plans: the operations that the user called.

use std::collections::HashMap;
use std::sync::Arc;

use crate::base::{OpName, Span};
use crate::ir::collect::Collected;
use crate::ir::{BuiltIn, Graph, GraphNode, Node, NodeId, Op};
use crate::plan::build::Plan;
use crate::schedule::Step;
use crate::schedule::fusion_class::{FusionClass, fusion_class};

/// Operations in a name, at most: the last ones.
const MAX_PARTS: usize = 4;

/// For each node of a plan's graph, what the user called it.
pub(super) fn names(plan: &Plan, collected: &Collected) -> Vec<Option<&'static str>> {
    let (given, unpacking) = (plan.schedule.origins(), unpacking(collected));
    let given = given.iter().map(|id| id.and_then(|id| collected.node(id)));
    let name = |(given, node): (Option<&Arc<Node>>, &GraphNode)| match given {
        Some(given) => given.name(),
        None => unpacking.get(&node.span).and_then(|whole| whole.name()),
    };
    given.zip(&plan.schedule.graph.nodes).map(name).collect()
}

/// By line, the calls that unpack numbers: what is left of their bodies has no other origin.
pub(crate) fn unpacking(collected: &Collected) -> HashMap<Span, &Node> {
    let unpacks = |node: &&Arc<Node>| matches!(node.op(), Op::Composite(composite, _) if composite.built_in == Some(BuiltIn::Dequantize));
    collected.nodes.iter().filter(unpacks).map(|node| (node.span(), &**node)).collect()
}

/// The operations that a step computes for the user, in order. Gradients, and what no call made, go
/// by their primitives.
pub(super) fn kernel_name(graph: &Graph, step: &Step, names: &[Option<&'static str>]) -> String {
    let name = |id: NodeId| match names[id.index()] {
        Some(name) if name != OpName::GRADIENT => name,
        Some(_) | None => graph.node(id).op.name(),
    };
    let mut parts: Vec<&str> = Vec::new();
    for &id in step.members.iter().filter(|id| does_work(graph.node(**id))) {
        // Where it is last, it counts.
        parts.retain(|part| *part != name(id));
        parts.push(name(id));
    }
    if parts.is_empty() {
        parts.push(step.members.last().map_or("copy", |&id| name(id)));
    }
    let gradient = step.members.iter().any(|id| names[id.index()] == Some(OpName::GRADIENT));
    let kept = &parts[parts.len().saturating_sub(MAX_PARTS)..];
    let prefix = if gradient { "grad_" } else { "" };
    format!("{prefix}{}", kept.join("_"))
}

/// Whether a step is a kernel that only moves data.
pub(super) fn only_copies(graph: &Graph, step: &Step) -> bool {
    step.kernel().is_some() && !step.members.iter().any(|&id| does_work(graph.node(id)))
}

/// Whether a node is more than positions and constants.
fn does_work(node: &GraphNode) -> bool {
    match fusion_class(node, true) {
        FusionClass::Input | FusionClass::Source | FusionClass::Movement | FusionClass::Pack => false,
        FusionClass::Pointwise => !matches!(node.op, Op::Cast(_)),
        FusionClass::Structural | FusionClass::Scatter | FusionClass::Opaque => true,
    }
}
