//! From groups to steps in an order that respects their dependencies.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use petgraph::algo::{DfsSpace, has_path_connecting};
use petgraph::graph::{DiGraph, NodeIndex};
use smallvec::SmallVec;

use crate::base::Device;
use crate::ir::collective::CollectiveKind;
use crate::ir::op::LoopSpec;
use crate::ir::{Graph, NodeId, NodeIds, Op};
use crate::kernel::{Kernel, KernelInterner, LoweredKernel, Sort, Workload};
use crate::schedule::chosen_results::chosen_results;
use crate::schedule::control_dependency::control_dependencies;
use crate::schedule::fuse::FusionGroup;
use crate::schedule::list_scheduling::ListScheduler;
use crate::schedule::memory::Params;

/// What a step does.
#[derive(Clone, Debug)]
pub enum StepAction {
    /// Launches a program on its device.
    Launch(Arc<Workload>),
    /// Moves a value to another device.
    Transfer {
        /// Where it comes from.
        from: Device,
    },
    /// Takes part in what the ranks of a group do together.
    Collective(CollectiveKind),
    /// Repeats a graph of its own.
    Repeat(Arc<LoopSpec>),
}

/// One thing that a plan does.
#[derive(Clone, Debug)]
pub struct Step {
    /// What.
    pub action: StepAction,
    /// Where.
    pub device: Device,
    /// The values read, in the order of the kernel's inputs or the node's operands;
    /// a scatter's base comes last.
    pub inputs: NodeIds,
    /// The values written, in the order of the kernel's stores or of the
    /// node's results.
    pub outputs: NodeIds,
    /// The scalar arguments ([`Op::Arg`]), in the kernel's order.
    pub args: NodeIds,
    /// Every node computed, ascending.
    pub members: NodeIds,
}

impl Step {
    /// The kernel, if the step launches a generated one.
    pub fn kernel(&self) -> Option<&Kernel> {
        match &self.action {
            StepAction::Launch(work) => work.kernel(),
            StepAction::Transfer { .. } | StepAction::Collective(_) | StepAction::Repeat(_) => None,
        }
    }

    /// The step's name, for people.
    pub fn name(&self, graph: &Graph) -> String {
        let shape = || self.outputs.first().map(|&id| graph.ty(id).shape.to_string()).unwrap_or_default();
        match &self.action {
            StepAction::Launch(work) => match &**work {
                Workload::Kernel(kernel) => kernel.name.to_string(),
                Workload::Sort(_) => format!("sort{}", shape()),
                Workload::Custom(custom, ..) => format!("{}{}", custom.name(), shape()),
                Workload::Joint(joint) => joint.name(),
            },
            StepAction::Transfer { from } => format!("copy {from} -> {}{}", self.device, shape()),
            StepAction::Collective(kind) => format!("{kind}{}", shape()),
            StepAction::Repeat(spec) => format!("loop x{}", spec.trips),
        }
    }
}

/// The steps of a graph, each after what it needs.
pub fn order(graph: &Graph, groups: Vec<FusionGroup>, params: &Params<'_>) -> Vec<Step> {
    let mut works = Works::default();
    let groups = merge_results(graph, groups).into_iter();
    let steps: Vec<Step> = groups.map(|group| step_of(graph, group, &mut works)).collect();
    let dag = dependencies(graph, &steps);
    let sequence = ListScheduler::new(graph, &steps, &dag, params).run();
    assert!(sequence.len() == steps.len(), "steps depend on each other in a circle: {steps:#?}");
    let mut steps: Vec<Option<Step>> = steps.into_iter().map(Some).collect();
    let mut ordered = Vec::with_capacity(steps.len());
    ordered.extend(sequence.into_iter().filter_map(|i| steps[i].take()));
    ordered
}

/// Which step must run before which.
fn dependencies(graph: &Graph, steps: &[Step]) -> DiGraph<(), ()> {
    let mut dag = DiGraph::with_capacity(steps.len(), steps.len());
    let mut producer: HashMap<NodeId, usize> = HashMap::new();
    for (number, step) in steps.iter().enumerate() {
        dag.add_node(());
        producer.extend(step.outputs.iter().map(|&output| (output, number)));
    }
    for (number, step) in steps.iter().enumerate() {
        let read = step.inputs.iter().flat_map(|input| graph.pieces(input));
        let mut before: SmallVec<[usize; 8]> =
            read.filter_map(|input| producer.get(input).copied()).collect();
        before.sort_unstable();
        before.dedup();
        for before in before {
            dag.add_edge(NodeIndex::new(before), NodeIndex::new(number), ());
        }
    }
    // A control dependency only saves memory: one that would close a cycle is dropped.
    let mut space = DfsSpace::new(&dag);
    for (number, dependencies) in control_dependencies(graph, steps).into_iter().enumerate() {
        for before in dependencies {
            let (before, after) = (NodeIndex::new(before), NodeIndex::new(number));
            if !has_path_connecting(&dag, after, before, Some(&mut space)) {
                dag.update_edge(before, after, ());
            }
        }
    }
    dag
}

/// Groups that are results of one repetition or one user kernel become one.
fn merge_results(graph: &Graph, groups: Vec<FusionGroup>) -> Vec<FusionGroup> {
    let mut merged: Vec<FusionGroup> = Vec::new();
    let mut known: HashMap<(usize, &[NodeId]), usize> = HashMap::new();
    for group in groups {
        let node = graph.node(group.roots[0]);
        let Some((identity, _)) = results(&node.op) else {
            merged.push(group);
            continue;
        };
        match known.get(&(identity, &node.operands[..])) {
            Some(&first) => {
                merged[first].members.extend(&group.members);
                merged[first].roots.extend(&group.roots);
            }
            None => {
                known.insert((identity, &node.operands[..]), merged.len());
                merged.push(group);
            }
        }
    }
    merged
}

/// The works of steps, equal ones once, and of those that differ what is equal.
#[derive(Debug, Default)]
pub(super) struct Works {
    known: HashSet<Arc<Workload>>,
    parts: KernelInterner,
}

impl Works {
    /// Launches a work.
    fn launch(&mut self, mut work: Workload) -> StepAction {
        let known = self.known.get(&work).cloned();
        StepAction::Launch(known.unwrap_or_else(|| {
            if let Workload::Kernel(kernel) = &mut work {
                self.parts.intern(kernel);
            }
            let new = Arc::new(work);
            self.known.insert(new.clone());
            new
        }))
    }
}

/// A group as a step.
pub(super) fn step_of(graph: &Graph, group: FusionGroup, works: &mut Works) -> Step {
    let node = graph.node(group.roots[0]);
    let mut members = NodeIds::from_vec(group.members);
    members.sort_unstable();
    members.shrink_to_fit();
    let mut outputs = NodeIds::from_vec(group.roots);
    outputs.sort_unstable();
    let mut inputs = NodeIds::from_slice(&node.operands);
    let mut args = NodeIds::new();
    let action = match (group.call, &node.op) {
        (Some(call), _) => {
            let kernel;
            LoweredKernel { kernel, inputs, outputs, args } = call;
            if kernel.scatter().is_some() {
                // The base is not bound as an input, but must be there first.
                inputs.push(graph.node(outputs[0]).operands[0]);
            }
            works.launch(Workload::Kernel(kernel))
        }
        (None, &Op::Sort { axis, descending, count }) => {
            let ty = graph.ty(node.operands[0]);
            let axis = usize::from(axis);
            let sort = Sort { shape: ty.shape.clone(), dtype: ty.dtype, axis, descending, count };
            works.launch(Workload::Sort(sort))
        }
        (None, Op::Copy(_)) => {
            let from = graph.ty(node.operands[0]).device;
            StepAction::Transfer { from }
        }
        (None, Op::Collective(collective)) => StepAction::Collective(collective.kind),
        (None, Op::Loop(spec, _)) => StepAction::Repeat(spec.clone()),
        (None, Op::Custom(custom, _)) => {
            let types = |ids: &[NodeId]| ids.iter().map(|&id| graph.ty(id).clone()).collect::<Vec<_>>();
            let operands = types(&node.operands);
            let numbers = outputs.iter().map(|&id| result_number(graph, id)).collect();
            let custom = chosen_results(custom, &operands.iter().collect::<Vec<_>>(), numbers);
            works.launch(Workload::Custom(custom, operands, types(&outputs)))
        }
        (None, op) => panic!("{} is neither a kernel nor a step of its own", op.name()),
    };
    Step { action, device: node.ty.device, inputs, outputs, args, members }
}

/// Which result of its node a value is, of nodes with several; 0 of others.
pub fn result_number(graph: &Graph, id: NodeId) -> usize {
    results(&graph.node(id).op).map_or(0, |(_, out)| out as usize)
}

/// For a node that is one result of several: what computes them all, and
/// which result it is.
fn results(op: &Op) -> Option<(usize, u32)> {
    if let Op::Loop(spec, out) = op {
        Some((Arc::as_ptr(spec) as usize, *out))
    } else if let Op::Custom(custom, out) = op {
        Some((Arc::as_ptr(custom).cast::<()>() as usize, *out))
    } else {
        None
    }
}
