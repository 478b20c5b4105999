//! Plan reuse across sizes: a graph that differs from a scheduled one in sizes only
//! takes over its fusion groups and step order. Every kernel is lowered anew;
//! fusion and ordering do not run.

use crate::ir::{Graph, Layout, NodeId};
use crate::kernel::{LoweredKernel, Request, Role, lower};
use crate::schedule::fuse::FusionGroup;
use crate::schedule::order::{Works, step_of};
use crate::schedule::{ScheduledGraph, Step};

/// A schedule whose decisions are reused.
#[derive(Clone, Copy)]
pub struct PlanTemplate<'a> {
    /// The schedule.
    pub schedule: &'a ScheduledGraph,
    /// Whether two graphs differ in sizes only, none of which is 0 or 1 in
    /// one of them.
    pub alike: &'a dyn Fn(&Graph, &Graph) -> bool,
}

/// The template's steps on a graph; `None` if the graphs are not alike, or some
/// kernel would not read and write what the template's does.
pub(super) fn reuse(graph: &Graph, layouts: &[Layout], template: &PlanTemplate<'_>) -> Option<Vec<Step>> {
    let alike = (template.alike)(&template.schedule.graph, graph);
    let steps = alike.then_some(&template.schedule.steps)?;
    let mut works = Works::default();
    steps.iter().map(|step| reused_step(graph, layouts, step, &mut works)).collect()
}

fn reused_step(graph: &Graph, layouts: &[Layout], step: &Step, works: &mut Works) -> Option<Step> {
    let call = match step.kernel() {
        Some(_) => Some(lowered(graph, layouts, step)?),
        None => None,
    };
    let new = step_of(graph, FusionGroup::decided(step.members.to_vec(), step.outputs.to_vec(), call), works);
    let same = new.inputs == step.inputs && new.outputs == step.outputs && new.args == step.args;
    same.then_some(new)
}

fn lowered(graph: &Graph, layouts: &[Layout], step: &Step) -> Option<LoweredKernel> {
    let role = |id: NodeId| if step.inputs.contains(&id) { Role::Buffer } else { Role::Inside };
    let mut roots = step.outputs.clone();
    roots.sort_unstable();
    lower(&Request { graph, roots: &roots, role: &role, layouts }).ok()
}
