//! Casts between floating types in a plan: what was written, and which kernels they are part of.

use crate::base::{DType, Device, Shape, Span};
use crate::ir::collect::{Collected, collect};
use crate::ir::{Body, NodeId, Op};
use crate::plan::build::Plan;
use crate::plan::report::{computed, names};
use crate::schedule::{Step, StepAction};

/// A cast, or several of one value to one type, which are made once.
#[derive(Clone, Debug)]
pub(crate) struct PlannedCast {
    /// What the user called; `grad` in gradients.
    pub name: &'static str,
    pub from: DType,
    pub to: DType,
    pub device: Device,
    pub shape: Shape,
    /// The user's line, the first one.
    pub at: Span,
    /// How often it was written.
    pub written: usize,
    /// The kernels that compute it.
    pub kernels: Vec<String>,
    /// How many of them store it.
    pub stored: usize,
}

/// The casts of a plan, in the order they were written: its own, those in the bodies of its composites, and
/// those in its loops, whose kernels are launched once a trip.
pub(super) fn casts(plan: &Plan, collected: &Collected) -> Vec<PlannedCast> {
    let mut found: Vec<(Target, PlannedCast)> = Vec::new();
    let built = collected.graph();
    for id in built.ids() {
        let planned = plan.schedule.map.get(id);
        add(&mut found, collected, id, || Target::Value(planned));
        if let Op::Composite(composite, _) = &built.node(id).op {
            let whole = planned.filter(|id| matches!(plan.schedule.graph.node(*id).op, Op::Composite(..)));
            add_body(&mut found, &composite.body, whole);
        }
    }
    if !found.is_empty() {
        find_kernels(plan, collected, &mut found);
    }
    let mut found: Vec<PlannedCast> = found.into_iter().map(|(_, cast)| cast).collect();
    found.extend(casts_in_loops(plan, collected));
    found
}

/// What tells the kernels that compute a cast.
#[derive(PartialEq)]
enum Target {
    /// They compute this value; `None` where nothing needs it any more.
    Value(Option<NodeId>),
    /// It is in the body of this composite, which a template runs.
    Whole(NodeId),
    /// It is in the body of a composite that was decomposed: they compute a cast of these types and extents
    /// that no call of the user's is.
    Alike(DType, DType, Shape),
}

/// Adds a node that is a cast between floating types, or counts it with an equal one.
fn add(
    found: &mut Vec<(Target, PlannedCast)>,
    collected: &Collected,
    id: NodeId,
    target: impl FnOnce() -> Target,
) {
    let (built, given) = (collected.graph(), &collected.nodes[id.index()]);
    let node = built.node(id);
    let Op::Cast(to) = node.op else { return };
    let from = built.ty(node.operands[0]).dtype;
    if !(from.is_float() && to.is_float()) {
        return;
    }
    let target = target();
    let (name, at) = (given.name().unwrap_or("to_dtype"), given.span());
    let same = |(known, cast): &&mut (Target, PlannedCast)| match known {
        Target::Value(None) => false,
        Target::Value(Some(_)) => *known == target,
        Target::Whole(_) | Target::Alike(..) => {
            *known == target && (cast.name, cast.at, cast.from, cast.to) == (name, at, from, to)
        }
    };
    if let Some((_, known)) = found.iter_mut().find(same) {
        known.written += 1;
        return;
    }
    let (device, shape) = (node.ty.device, node.ty.shape.clone());
    let cast = PlannedCast { name, from, to, device, shape, at, written: 1, kernels: Vec::new(), stored: 0 };
    found.push((target, cast));
}

/// Adds the casts of a composite's body, and of the composites in it.
fn add_body(found: &mut Vec<(Target, PlannedCast)>, body: &Body, whole: Option<NodeId>) {
    // Nobody computes the nodes of a body.
    let Ok(collected) = collect(&body.results) else { return };
    let graph = collected.graph();
    for id in graph.ids() {
        let node = graph.node(id);
        let alike = || {
            let from = graph.ty(node.operands[0]).dtype;
            Target::Alike(from, node.ty.dtype, node.ty.shape.clone())
        };
        add(found, &collected, id, || whole.map_or_else(alike, Target::Whole));
        if let Op::Composite(inner, _) = &node.op {
            add_body(found, &inner.body, whole);
        }
    }
}

fn find_kernels(plan: &Plan, collected: &Collected, casts: &mut [(Target, PlannedCast)]) {
    let (graph, names) = (&plan.schedule.graph, names::names(plan, collected));
    let own: Vec<NodeId> = casts.iter().filter_map(|(target, _)| target.value()).collect();
    let launched = |step: &&Step| matches!(step.action, StepAction::Launch(_));
    for step in plan.schedule.steps.iter().filter(launched) {
        let members = computed(graph, step);
        for (target, cast) in casts.iter_mut() {
            let is_it = |id: &&NodeId| match target {
                Target::Value(planned) => Some(**id) == *planned,
                Target::Whole(composite) => *id == composite,
                Target::Alike(from, to, shape) => {
                    let node = graph.node(**id);
                    matches!(node.op, Op::Cast(dtype) if dtype == *to)
                        && (graph.ty(node.operands[0]).dtype, &node.ty.shape) == (*from, shape)
                        && !own.contains(id)
                }
            };
            let Some(member) = members.iter().find(is_it) else { continue };
            cast.kernels.push(names::kernel_name(graph, step, &names));
            let is_cast = !matches!(target, Target::Whole(_));
            cast.stored += usize::from(is_cast && step.outputs.contains(member));
        }
    }
}

impl Target {
    fn value(&self) -> Option<NodeId> {
        match self {
            Target::Value(planned) => *planned,
            Target::Whole(_) | Target::Alike(..) => None,
        }
    }
}

/// The casts in the bodies of a plan's loops. The plan of a body is for the body as it was collected.
fn casts_in_loops(plan: &Plan, collected: &Collected) -> Vec<PlannedCast> {
    let origins = plan.schedule.origins();
    let mut found = Vec::new();
    let mut numbers: Vec<usize> = plan.bodies.keys().copied().collect();
    numbers.sort_unstable();
    for number in numbers {
        let outputs = plan.schedule.steps[number].outputs.iter();
        let Some(given) = outputs.filter_map(|output| origins.get(*output)).next() else { continue };
        let Some(Op::Loop(spec, _)) = collected.node(given).map(|node| node.op()) else { continue };
        let Ok(body) = collect(&spec.body.results) else { continue };
        found.extend(casts(&plan.bodies[&number], &body));
    }
    found
}
