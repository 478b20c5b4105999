//! What a profiler keeps of a run: the plan, and what the user called each of its values.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError};

use crate::base::region::{OPTIMIZER, SEPARATOR};
use crate::base::{OpName, Region, Span};
use crate::ir::collect::{Collected, collect};
use crate::ir::{Node, NodeId, Op, Type};
use crate::plan::build::Plan;
use crate::plan::report::{KernelReport, kernel_of, unpacking};
use crate::plan::run::UserCall;
use crate::plan::view::contiguous_range;
use crate::runtime::trace;
use crate::schedule::{Location, StepAction};

/// The calls behind a plan's values, in the graph that the plan was looked up with. Runs of the same
/// calls share one.
#[derive(Debug)]
pub struct ObservedRun {
    pub(crate) plan: Arc<Plan>,
    /// By node of the plan's graph.
    calls: Vec<UserCall>,
    /// Which values are whole gradients, and what a model calls the parameters that they are of.
    gradients: HashMap<NodeId, Arc<str>>,
    /// The plan's parameters, in order.
    pub(crate) inputs: Vec<ObservedInput>,
    /// The bodies of the repetitions among the steps, by step.
    pub(crate) bodies: HashMap<usize, Arc<ObservedRun>>,
}

/// A parameter of an observed plan: data that is there before it runs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ObservedInput {
    /// The operation that made it, if it is known.
    pub call: UserCall,
    pub ty: Type,
    /// Whether gradients accumulate for it.
    pub is_parameter: bool,
    /// What a model calls it, if it is such.
    pub parameter_name: Option<Arc<str>>,
    /// Bytes of the memory that it is in.
    pub bytes: u64,
    /// The first input in the same memory; perhaps itself.
    pub first_with: usize,
}

impl ObservedInput {
    /// What it is called: by the model, or else by the user's call that made it.
    pub fn name(&self) -> Option<&str> {
        self.parameter_name.as_deref().or(self.call.name.text())
    }
}

/// An operation inside a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObservedOperation {
    /// What the user called; for gradients and what no call made, the primitive.
    pub name: &'static str,
    /// The user's line.
    pub at: Span,
    /// The user's region.
    pub region: Region,
}

/// A kernel of an observed run.
#[derive(Clone, Debug)]
pub struct ObservedKernel {
    /// What was predicted of it.
    pub report: KernelReport,
    /// The operations inside, in order, each once.
    pub operations: Vec<ObservedOperation>,
    /// The region of the value it stores, else of the last operation in one.
    pub region: Region,
    /// Bytes of memory that the plan took for what it stores.
    pub allocated: u64,
}

impl ObservedRun {
    /// A run of a plan, if anybody records.
    pub(crate) fn of(plan: &Arc<Plan>, collected: &Collected) -> Option<Arc<ObservedRun>> {
        trace::is_on().then(|| {
            let start = trace::now();
            let run = ObservedRun::interned(plan, collected);
            trace::observed(trace::now() - start);
            run
        })
    }

    #[cold]
    fn interned(plan: &Arc<Plan>, collected: &Collected) -> Arc<ObservedRun> {
        let (calls, inputs, gradients) =
            (calls(plan, collected), inputs(collected), gradients(plan, collected));
        let mut last = plan.observed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = last
            .upgrade()
            .filter(|known| known.calls == calls && known.inputs == inputs && known.gradients == gradients)
        {
            return known;
        }
        let bodies = bodies(plan, collected);
        let run = Arc::new(ObservedRun { plan: plan.clone(), calls, gradients, inputs, bodies });
        *last = Arc::downgrade(&run);
        run
    }

    /// A plan as the graph that it was looked up with has it, whether or not it runs.
    pub(crate) fn planned(plan: &Arc<Plan>, collected: &Collected) -> Arc<ObservedRun> {
        ObservedRun::interned(plan, collected)
    }

    /// The kernel that a step launches; `None` for other steps.
    pub fn kernel(&self, step: usize) -> Option<ObservedKernel> {
        let step = self.plan.schedule.steps.get(step)?;
        let StepAction::Launch(work) = &step.action else { return None };
        let graph = &self.plan.schedule.graph;
        let spans: Vec<Span> = self.calls.iter().map(|call| call.span).collect();
        let names: Vec<Option<&'static str>> = self.calls.iter().map(|call| call.name.text()).collect();
        let report = kernel_of(graph, step, work, &spans, &names);
        let operation = |id: &NodeId| ObservedOperation {
            name: names[id.index()]
                .filter(|name| *name != OpName::GRADIENT)
                .unwrap_or(graph.node(*id).op.name()),
            at: spans[id.index()],
            region: self.region(*id),
        };
        let mut seen = HashSet::new();
        let operations = step.members.iter().map(operation).filter(|one| seen.insert(one.clone())).collect();
        let written = step.outputs.iter().filter(|&&output| self.is_new(output));
        let regions = step.outputs.iter().chain(step.members.iter().rev()).map(|&id| self.region(id));
        Some(ObservedKernel {
            report,
            operations,
            region: regions.into_iter().find(|region| *region != Region::default()).unwrap_or_default(),
            allocated: written.map(|&output| graph.ty(output).bytes() as u64).sum(),
        })
    }

    /// What the user called for a value.
    pub(crate) fn call(&self, id: NodeId) -> UserCall {
        self.calls[id.index()]
    }

    /// Whether a value is part of a gradient.
    pub(crate) fn is_gradient(&self, id: NodeId) -> bool {
        self.call(id).name.text() == Some(OpName::GRADIENT)
    }

    /// What a model calls the parameter that a value is the whole gradient of.
    pub(crate) fn gradient_of(&self, id: NodeId) -> Option<&str> {
        self.gradients.get(&id).map(|name| &**name)
    }

    /// Whether an optimizer's step built a value; known while a profiler is on.
    pub(crate) fn is_optimizers(&self, id: NodeId) -> bool {
        let path = self.region(id).path();
        path.is_some_and(|path| path.rsplit(SEPARATOR).next() == Some(OPTIMIZER))
    }

    fn region(&self, id: NodeId) -> Region {
        self.call(id).name.region()
    }

    /// Whether a value has memory that the plan took for it.
    fn is_new(&self, id: NodeId) -> bool {
        let memory = &self.plan.schedule.memory;
        match memory.locations.get(&id) {
            Some(Location::Result(number, _)) => memory.results[*number as usize].donated.is_none(),
            Some(Location::Arena(_)) => true,
            Some(Location::Param(_)) | None => false,
        }
    }
}

/// For each node of a plan's graph, the user's call that it comes from.
fn calls(plan: &Plan, collected: &Collected) -> Vec<UserCall> {
    let (graph, unpacking) = (&plan.schedule.graph, unpacking(collected));
    let call = |(id, origin): (usize, Option<NodeId>)| {
        let span = graph.nodes[id].span;
        let node = origin.and_then(|origin| collected.node(origin)).map(|node| &**node);
        match node.or_else(|| unpacking.get(&span).copied()) {
            Some(node) => UserCall { name: node.op_name(), span: node.span() },
            None => UserCall { name: OpName::default(), span },
        }
    };
    plan.schedule.origins().iter().enumerate().map(call).collect()
}

/// The values of a plan that are the gradients of named parameters, those included that are packed in one.
fn gradients(plan: &Plan, collected: &Collected) -> HashMap<NodeId, Arc<str>> {
    let named = |node: &Arc<Node>| {
        let gradient = node.grad_cell()?.get()?;
        let (whole, start) = contiguous_range(&gradient).unwrap_or((gradient, 0));
        Some(((Arc::as_ptr(&whole), start), node.parameter_name()?))
    };
    let known: HashMap<(*const Node, usize), Arc<str>> = collected.nodes.iter().filter_map(named).collect();
    let mut found = HashMap::new();
    if known.is_empty() {
        return found;
    }
    let graph = &plan.schedule.graph;
    for (id, origin) in (0..).map(NodeId).zip(plan.schedule.origins().iter()) {
        let Some(whole) = origin.and_then(|origin| collected.node(origin)).map(Arc::as_ptr) else { continue };
        let starts = if let Op::Pack(packing) = &graph.node(id).op { &packing.starts[..] } else { &[0] };
        for (piece, start) in graph.pieces(&id).iter().zip(starts) {
            found.extend(known.get(&(whole, *start)).map(|name| (*piece, name.clone())));
        }
    }
    found
}

/// The leaves with data, then those without, which only some devices have.
fn inputs(collected: &Collected) -> Vec<ObservedInput> {
    let is_dataless = |node: &&Arc<Node>| node.value().is_none() && matches!(node.op(), Op::Leaf(_));
    let nodes = collected.leaves().chain(collected.nodes.iter().filter(is_dataless));
    let mut first: HashMap<usize, usize> = HashMap::new();
    let input = |(number, node): (usize, &Arc<Node>)| {
        let buffer = node.value().map(|value| &value.buffer);
        let memory = buffer.map_or(Arc::as_ptr(node) as usize, |buffer| Arc::as_ptr(buffer) as usize);
        ObservedInput {
            call: UserCall { name: node.op_name(), span: node.span() },
            ty: node.ty().clone(),
            is_parameter: node.is_parameter(),
            parameter_name: node.parameter_name(),
            bytes: buffer.map_or(node.ty().bytes(), |buffer| buffer.bytes) as u64,
            first_with: *first.entry(memory).or_insert(number),
        }
    };
    nodes.enumerate().map(input).collect()
}

/// The bodies of a plan's repetitions, as the graph that it was looked up with has them.
fn bodies(plan: &Plan, collected: &Collected) -> HashMap<usize, Arc<ObservedRun>> {
    if plan.bodies.is_empty() {
        return HashMap::new();
    }
    let origins = plan.schedule.origins();
    let body = |(&step, body): (&usize, &Arc<Plan>)| {
        let outputs = &plan.schedule.steps[step].outputs;
        let given = outputs.iter().find_map(|output| origins.get(*output))?;
        let Op::Loop(spec, _) = collected.node(given)?.op() else { return None };
        Some((step, ObservedRun::interned(body, &collect(&spec.body.results).ok()?)))
    };
    plan.bodies.iter().filter_map(body).collect()
}
