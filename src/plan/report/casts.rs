//! Casts between floating types in a plan: what was written, and which kernels they are part of.

use crate::base::{DType, Device, Shape, Span};
use crate::ir::collect::Collected;
use crate::ir::{NodeId, Op};
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

/// The casts of a plan, in the order they were written.
pub(super) fn casts(plan: &Plan, collected: &Collected) -> Vec<PlannedCast> {
    let built = collected.graph();
    let mut found: Vec<(Option<NodeId>, PlannedCast)> = Vec::new();
    for id in built.ids() {
        let node = built.node(id);
        let Op::Cast(to) = node.op else { continue };
        let from = built.ty(node.operands[0]).dtype;
        if !(from.is_float() && to.is_float()) {
            continue;
        }
        let planned = plan.schedule.map.get(id);
        if let Some((_, known)) = found.iter_mut().find(|known| planned.is_some() && known.0 == planned) {
            known.written += 1;
            continue;
        }
        let given = &collected.nodes[id.index()];
        let cast = PlannedCast {
            name: given.name().unwrap_or("to_dtype"),
            from,
            to,
            device: node.ty.device,
            shape: node.ty.shape.clone(),
            at: given.span(),
            written: 1,
            kernels: Vec::new(),
            stored: 0,
        };
        found.push((planned, cast));
    }
    if !found.is_empty() {
        find_kernels(plan, collected, &mut found);
    }
    found.into_iter().map(|(_, cast)| cast).collect()
}

fn find_kernels(plan: &Plan, collected: &Collected, casts: &mut [(Option<NodeId>, PlannedCast)]) {
    let (graph, names) = (&plan.schedule.graph, names::names(plan, collected));
    let launched = |step: &&Step| matches!(step.action, StepAction::Launch(_));
    for step in plan.schedule.steps.iter().filter(launched) {
        let members = computed(graph, step);
        for (planned, cast) in casts.iter_mut() {
            let Some(planned) = planned.filter(|id| members.binary_search(id).is_ok()) else { continue };
            cast.kernels.push(names::kernel_name(graph, step, &names));
            cast.stored += usize::from(step.outputs.contains(&planned));
        }
    }
}
