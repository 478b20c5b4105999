//! From a trace back to a schedule: the graph and the steps, with recomputed values
//! as nodes and steps of their own.

use std::collections::{HashMap, HashSet};

use smallvec::SmallVec;

use crate::ir::{Graph, GraphNode, NodeId, Op};
use crate::schedule::fusion_class::read_operands;
use crate::schedule::rematerialize::trace::{Trace, TraceEntry};
use crate::schedule::{MemoryPlan, Refusal, ScheduledGraph, Step};

/// The schedule that a trace of `schedule` stands for; its memory is yet to be
/// planned.
pub(super) fn rebuild(schedule: &ScheduledGraph, trace: &Trace<'_>) -> ScheduledGraph {
    let mut new = Rebuilder {
        old: &schedule.graph,
        graph: Graph::default(),
        values: vec![None; trace.values.len()],
        first_computed: HashMap::new(),
        controls: HashMap::new(),
        same: HashMap::new(),
        again: HashMap::new(),
    };
    for id in new.old.ids().filter(|&id| matches!(new.old.node(id).op, Op::Param(..))) {
        let param = new.graph.push(new.old.node(id).clone());
        new.first_computed.insert(id, param);
    }
    let steps = trace.entries.iter().map(|line| new.step(&schedule.steps[line.step], line, trace)).collect();
    let outputs: Vec<NodeId> = schedule.graph.outputs.iter().map(|&output| new.first_node(output)).collect();
    new.graph.outputs = outputs;
    let Rebuilder { graph, first_computed, again, .. } = new;
    let now = |id: NodeId| first_computed.get(&id).copied();
    let refusal = |refusal: &Refusal| {
        let (producer, consumer) = (now(refusal.producer)?, now(refusal.consumer)?);
        Some(Refusal { producer, consumer, ..refusal.clone() })
    };
    let mut again: HashMap<NodeId, NodeId> =
        again.into_iter().filter_map(|(new, old)| Some((new, now(old)?))).collect();
    again.extend(schedule.recomputed.iter().filter_map(|(&new, &old)| Some((now(new)?, now(old)?))));
    ScheduledGraph {
        steps,
        memory: MemoryPlan::default(),
        transfers: schedule.transfers.iter().filter_map(|(&id, moved)| Some((now(id)?, *moved))).collect(),
        refusals: schedule.refusals.iter().filter_map(refusal).collect(),
        decomposed: schedule.decomposed.clone(),
        map: schedule.map.iter().map(|id| id.and_then(now)).collect(),
        inside: schedule.inside.iter().map(|id| id.and_then(now)).collect(),
        from_template: schedule.from_template,
        recomputed: again,
        chunks: schedule.chunks.iter().filter_map(|(&id, &given)| Some((now(id)?, given))).collect(),
        // A schedule that does not fit retains nothing.
        retained: Vec::new(),
        graph,
    }
}

/// The graph under construction.
struct Rebuilder<'a> {
    old: &'a Graph,
    graph: Graph,
    /// By value of the trace.
    values: Vec<Option<NodeId>>,
    /// By node of the old graph, the one computed first.
    first_computed: HashMap<NodeId, NodeId>,
    /// By node of the old graph that control dependencies name and no step has computed.
    controls: HashMap<NodeId, NodeId>,
    /// Value numbering: new nodes by the old node and the new operands.
    same: HashMap<(NodeId, SmallVec<[NodeId; 3]>), NodeId>,
    /// By new node that is recomputed, the old one.
    again: HashMap<NodeId, NodeId>,
}

impl Rebuilder<'_> {
    fn step(&mut self, step: &Step, line: &TraceEntry, trace: &Trace<'_>) -> Step {
        let mut here: HashMap<NodeId, NodeId> = HashMap::new();
        for (&input, &value) in step.inputs.iter().zip(&line.reads) {
            let now = self.values[value].unwrap_or_else(|| self.first_node(input));
            here.insert(input, now);
        }
        for id in below(self.old, step) {
            let own = line.again && step.members.contains(&id);
            let node = self.compute(id, &here, own);
            here.insert(id, node);
        }
        for &value in &line.writes {
            self.values[value] = here.get(&trace.values[value].node).copied();
        }
        let now = |id: &NodeId| here[id];
        Step {
            action: step.action.clone(),
            device: step.device,
            inputs: step.inputs.iter().map(now).collect(),
            outputs: step.outputs.iter().map(now).collect(),
            args: step.args.iter().map(now).collect(),
            members: step.members.iter().filter_map(|id| here.get(id).copied()).collect(),
        }
    }

    /// A node that a step computes. A recomputed one is a node of its own.
    fn compute(&mut self, id: NodeId, here: &HashMap<NodeId, NodeId>, own: bool) -> NodeId {
        let node = self.old.node(id);
        let reads = read_operands(node).len();
        let mut operands: SmallVec<[NodeId; 3]> = SmallVec::new();
        for (slot, &operand) in node.operands.iter().enumerate() {
            let known = here.get(&operand).or_else(|| self.first_computed.get(&operand)).copied();
            assert!(known.is_some() || slot >= reads, "{id:?} is computed before its operands");
            operands.push(known.unwrap_or_else(|| self.control(operand)));
        }
        let key = (id, operands.clone());
        if let (Some(&known), false) = (self.same.get(&key), own) {
            return known;
        }
        let new = self.graph.push(GraphNode { operands, ..node.clone() });
        if own {
            self.again.insert(new, id);
        } else {
            self.same.insert(key, new);
            self.first_computed.entry(id).or_insert(new);
        }
        new
    }

    /// The new node of a value, as it was computed first.
    fn first_node(&mut self, id: NodeId) -> NodeId {
        if let Some(&known) = self.first_computed.get(&id) {
            return known;
        }
        let node = self.old.node(id);
        assert!(matches!(node.op, Op::Pack(_)), "{id:?} is read before it is computed");
        let operands = node.operands.iter().map(|&part| self.first_node(part)).collect();
        let new = self.graph.push(GraphNode { operands, ..node.clone() });
        self.first_computed.insert(id, new);
        new
    }

    /// The target of a control dependency: a computed node, or one that no step
    /// computes, such as a view.
    fn control(&mut self, id: NodeId) -> NodeId {
        if let Some(&known) = self.first_computed.get(&id).or_else(|| self.controls.get(&id)) {
            return known;
        }
        let node = self.old.node(id);
        let operands = node.operands.iter().map(|&operand| self.control(operand)).collect();
        let new = self.graph.push(GraphNode { operands, ..node.clone() });
        self.controls.insert(id, new);
        new
    }
}

/// The nodes between a step's inputs and its outputs, those included,
/// ascending.
fn below(graph: &Graph, step: &Step) -> Vec<NodeId> {
    let inputs: HashSet<NodeId> = step.inputs.iter().copied().collect();
    let mut seen: HashSet<NodeId> = HashSet::new();
    let mut pending: Vec<NodeId> = step.outputs.iter().chain(&step.members).copied().collect();
    while let Some(id) = pending.pop() {
        let given = inputs.contains(&id) || matches!(graph.node(id).op, Op::Param(..));
        if !given && seen.insert(id) {
            pending.extend(read_operands(graph.node(id)));
        }
    }
    let mut below: Vec<NodeId> = seen.into_iter().collect();
    below.sort_unstable();
    below
}
