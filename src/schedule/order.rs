//! From groups to steps in an order that respects their dependencies.

use std::collections::HashMap;
use std::sync::Arc;

use petgraph::algo::{DfsSpace, has_path_connecting};
use petgraph::graph::{DiGraph, NodeIndex};

use crate::base::Device;
use crate::ir::op::LoopSpec;
use crate::ir::{Graph, NodeId, Op};
use crate::kernel::{Kernel, Sort, Work};
use crate::schedule::fuse::Group;
use crate::schedule::memory::Params;
use crate::schedule::sequence::Sequence;
use crate::schedule::wait::waits;

/// What a step does.
#[derive(Clone, Debug)]
pub enum Action {
    /// Launches a program on its device.
    Launch(Arc<Work>),
    /// Moves a value to another device.
    Transfer {
        /// Where it comes from.
        from: Device,
    },
    /// Repeats a graph of its own.
    Repeat(Arc<LoopSpec>),
}

/// One thing that a plan does.
#[derive(Clone, Debug)]
pub struct Step {
    /// What.
    pub action: Action,
    /// Where.
    pub device: Device,
    /// The values read, in the order of the kernel's inputs or the node's operands.
    pub inputs: Vec<NodeId>,
    /// The values written, in the order of the kernel's stores or of the
    /// node's results.
    pub outputs: Vec<NodeId>,
    /// For nodes with several results: which result each output is.
    pub results: Vec<u32>,
    /// Every node computed, ascending.
    pub members: Vec<NodeId>,
}

impl Step {
    /// The kernel, if the step launches a generated one.
    pub fn kernel(&self) -> Option<&Kernel> {
        match &self.action {
            Action::Launch(work) => work.kernel(),
            Action::Transfer { .. } | Action::Repeat(_) => None,
        }
    }

    /// The step's name, for people.
    pub fn name(&self, graph: &Graph) -> String {
        let shape = || self.outputs.first().map(|&id| graph.ty(id).shape.to_string()).unwrap_or_default();
        match &self.action {
            Action::Launch(work) => match &**work {
                Work::Kernel(kernel) => kernel.name.clone(),
                Work::Sort(_) => format!("sort{}", shape()),
                Work::Custom(custom, ..) => format!("{}{}", custom.name(), shape()),
            },
            Action::Transfer { from } => format!("copy {from} -> {}{}", self.device, shape()),
            Action::Repeat(spec) => format!("loop x{}", spec.trips),
        }
    }
}

/// The steps of a graph, each after what it needs.
pub fn order(graph: &Graph, groups: Vec<Group>, params: &Params<'_>) -> Vec<Step> {
    let steps: Vec<Step> =
        merge_results(graph, groups).into_iter().map(|group| step_of(graph, group)).collect();
    let dag = dependencies(graph, &steps);
    let sequence = Sequence::new(graph, &steps, &dag, params).run();
    assert!(sequence.len() == steps.len(), "steps depend on each other in a circle: {steps:#?}");
    let mut steps: Vec<Option<Step>> = steps.into_iter().map(Some).collect();
    sequence.into_iter().filter_map(|i| steps[i].take()).collect()
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
        for before in read.filter_map(|input| producer.get(input).copied()) {
            dag.update_edge(NodeIndex::new(before), NodeIndex::new(number), ());
        }
    }
    // Waiting saves memory, no more: what would wait for itself does not wait.
    let mut space = DfsSpace::new(&dag);
    for (number, waits) in waits(graph, steps).into_iter().enumerate() {
        for before in waits {
            let (before, after) = (NodeIndex::new(before), NodeIndex::new(number));
            if !has_path_connecting(&dag, after, before, Some(&mut space)) {
                dag.update_edge(before, after, ());
            }
        }
    }
    dag
}

/// Groups that are results of one repetition or one user kernel become one.
fn merge_results(graph: &Graph, groups: Vec<Group>) -> Vec<Group> {
    let mut merged: Vec<Group> = Vec::new();
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

/// A group as a step.
pub(super) fn step_of(graph: &Graph, group: Group) -> Step {
    let leader = group.roots[0];
    let node = graph.node(leader);
    let mut members = group.members;
    members.sort_unstable();
    let mut roots = group.roots;
    roots.sort_unstable();
    let operands = || node.operands.to_vec();
    let (action, inputs, outputs) = match (group.kernel, &node.op) {
        (Some(kernel), _) => {
            let mut inputs: Vec<NodeId> = kernel.inputs.iter().map(|input| input.node).collect();
            let mut outputs: Vec<NodeId> = kernel.stores.iter().map(|store| store.node).collect();
            if let Some(scatter) = &kernel.scatter {
                // The base is not bound as an input, but must be there first.
                inputs.push(graph.node(scatter.node).operands[0]);
                outputs.push(scatter.node);
            }
            (Action::Launch(Work::Kernel(kernel).into()), inputs, outputs)
        }
        (None, Op::Sort { axis, descending }) => {
            let ty = graph.ty(node.operands[0]);
            let axis = usize::from(*axis);
            let sort = Sort { shape: ty.shape.clone(), dtype: ty.dtype, axis, descending: *descending };
            (Action::Launch(Work::Sort(sort).into()), operands(), roots)
        }
        (None, Op::Copy(_)) => {
            let from = graph.ty(node.operands[0]).device;
            (Action::Transfer { from }, operands(), roots)
        }
        (None, Op::Loop(spec, _)) => (Action::Repeat(spec.clone()), operands(), roots),
        (None, Op::Custom(custom, _)) => {
            let types = |ids: &[NodeId]| ids.iter().map(|&id| graph.ty(id).clone()).collect();
            let work = Work::Custom(custom.clone(), types(&node.operands), types(&roots));
            (Action::Launch(work.into()), operands(), roots)
        }
        (None, op) => panic!("{} is neither a kernel nor a step of its own", op.name()),
    };
    let results = outputs.iter().map(|&id| results(&graph.node(id).op).map_or(0, |(_, out)| out)).collect();
    Step { action, device: node.ty.device, inputs, outputs, results, members }
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
