//! From a graph to a plan: scheduled, and compiled once it runs.

use std::cell::LazyCell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use crate::base::progress::{self, Task};
use crate::base::{Device, DeviceKind, Shape, Span};
use crate::ir::collect::{Collected, collect_body};
use crate::ir::collective::Channel;
use crate::ir::op::LoopSpec;
use crate::ir::{Graph, Layout, NodeId, Op};
use crate::kernel::Workload;
use crate::plan::cache::Lookup;
use crate::plan::compiled::CompiledPlan;
use crate::plan::context::{Context, add};
use crate::plan::donate::LeafMemory;
use crate::plan::key::{alike, body_key};
use crate::plan::observe::ObservedRun;
use crate::plan::run::UserCall;
use crate::runtime::{Capabilities, null};
use crate::schedule::fallback::Fallback;
use crate::schedule::memory::Params;
use crate::schedule::{
    Environment, PlanTemplate, ScheduledGraph, Step, StepAction, chunk, rematerialize, schedule,
};

/// A graph ready to run: steps with memory assigned, and programs once it runs.
#[derive(Debug)]
pub struct Plan {
    /// The steps and the memory.
    pub schedule: ScheduledGraph,
    /// The plans of the repetitions among the steps, by step.
    pub(crate) bodies: HashMap<usize, Arc<Plan>>,
    /// Made by the first run, so that planning alone compiles nothing and
    /// needs no device.
    pub(super) compiled: OnceLock<CompiledPlan>,
    /// Plans that do the same within less memory ([`crate::plan::budget`]), by
    /// the bytes that their steps may take; the newest last.
    pub(crate) fitted: Mutex<Vec<(MemoryTargets, Arc<Plan>)>>,
    scratch: OnceLock<Vec<(Device, u64)>>,
    /// The origins of the nodes that a run may have to name, ascending: plans are kept, so no more than those.
    named: OnceLock<Vec<(NodeId, NodeId)>>,
    /// The last run that was observed.
    pub(crate) observed: Mutex<Weak<ObservedRun>>,
}

/// Bytes that results and intermediates may take, by device.
pub(crate) type MemoryTargets = Vec<(Device, u64)>;

impl Plan {
    /// Plans within less memory that are kept.
    pub(crate) const MAX_FITTED: usize = 8;

    fn new(schedule: ScheduledGraph, bodies: HashMap<usize, Arc<Plan>>) -> Plan {
        Plan {
            schedule,
            bodies,
            compiled: OnceLock::new(),
            fitted: Mutex::default(),
            scratch: OnceLock::new(),
            named: OnceLock::new(),
            observed: Mutex::default(),
        }
    }

    /// For each value of the plan's graph, the user's line that it comes from, in the graph
    /// that the plan was looked up with.
    pub(crate) fn lines(&self, collected: &Collected) -> Vec<Option<Span>> {
        let span = |origin: Option<NodeId>| Some(collected.node(origin?)?.span());
        self.schedule.origins().iter().map(span).collect()
    }

    /// The user's call that a value comes from which has memory of its own, arrives from another device or
    /// rank, or is found by indices, in the graph that the plan was looked up with.
    pub(crate) fn call(&self, collected: &Collected, id: NodeId) -> Option<UserCall> {
        let named = self.named.get_or_init(|| self.named());
        let at = named.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        let node = collected.node(named[at].1)?;
        Some(UserCall { name: node.op_name(), span: node.span() })
    }

    /// The group of a collective, in the graph that the plan was looked up with.
    pub(crate) fn channel(&self, collected: &Collected, id: NodeId) -> Option<Arc<dyn Channel>> {
        let named = self.named.get_or_init(|| self.named());
        let at = named.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        let op = collected.node(named[at].1)?.op();
        if let Op::Collective(collective) = op { collective.channel.clone() } else { None }
    }

    fn named(&self) -> Vec<(NodeId, NodeId)> {
        let ScheduledGraph { graph, steps, memory, .. } = &self.schedule;
        let results = memory.results.iter().map(|result| result.node);
        let arrives =
            |step: &&Step| matches!(step.action, StepAction::Transfer { .. } | StepAction::Collective(_));
        let arriving = steps.iter().filter(arrives).map(|step| step.outputs[0]);
        let found = (0..).map(NodeId).zip(&graph.nodes).filter(|(_, node)| node.op.uses_indices());
        let ids = graph.outputs.iter().copied().chain(results).chain(arriving).chain(found.map(|(id, _)| id));
        let origins = self.schedule.origins();
        // What a pass has added for a line of the user's goes by what else is there for it.
        let span = |id: NodeId| graph.node(id).span;
        let with_origins = graph.ids().rev().filter_map(|id| Some((span(id), origins.get(id)?)));
        let lines = LazyCell::new(|| with_origins.collect::<HashMap<Span, NodeId>>());
        let origin = |id: NodeId| origins.get(id).or_else(|| lines.get(&span(id)).copied());
        let mut named: Vec<_> = ids.filter_map(|id| Some((id, origin(id)?))).collect();
        named.sort_unstable();
        named.dedup();
        named.shrink_to_fit();
        named
    }

    /// The most scratch memory that any launch needs on each device, in bytes.
    pub(crate) fn scratch(&self, context: &Context) -> &[(Device, u64)] {
        self.scratch.get_or_init(|| {
            let mut most: Vec<(Device, u64)> = Vec::new();
            let mut add = |device: Device, bytes: u64| match most.iter_mut().find(|known| known.0 == device) {
                Some(known) => known.1 = known.1.max(bytes),
                None => most.push((device, bytes)),
            };
            for step in &self.schedule.steps {
                if let (StepAction::Launch(work), Ok(backend)) = (&step.action, context.backend(step.device))
                {
                    add(step.device, backend.scratch(work) as u64);
                }
            }
            for joint in self.joint(context) {
                let device = self.schedule.steps[joint.first].device;
                if let Ok(backend) = context.backend(device) {
                    add(device, backend.scratch(&joint.work) as u64);
                }
            }
            for body in self.bodies.values() {
                body.scratch(context).iter().for_each(|&(device, bytes)| add(device, bytes));
            }
            most
        })
    }

    /// Where the steps run and their memory is, some devices more than once.
    pub(super) fn devices(&self) -> impl Iterator<Item = Device> + '_ {
        let ScheduledGraph { steps, memory, .. } = &self.schedule;
        let results = memory.results.iter().map(|result| result.device);
        let arenas = memory.arenas.iter().map(|arena| arena.0);
        steps.iter().map(|step| step.device).chain(results).chain(arenas)
    }
}

/// The plans of a plan's repetitions.
pub(crate) fn bodies_of(plan: &Plan) -> impl Iterator<Item = &Plan> {
    plan.bodies.values().map(|body| &**body)
}

/// What a plan is asked for.
pub(crate) struct WantedPlan<'a> {
    pub collected: &'a Collected,
    pub memory: &'a LeafMemory,
    /// The nodes that gradients may need later.
    pub retain_candidates: &'a [NodeId],
    pub fallbacks: &'a [Fallback],
}

/// Schedules a collected graph; a template, a plan for other sizes, is reused if one is
/// given. Scalars marked `lifted` become arguments, numbered in the order of all the
/// graph's scalars.
pub(crate) fn build(
    context: &Context,
    wanted: &WantedPlan<'_>,
    lifted: &[bool],
    template: Option<&Plan>,
) -> Plan {
    let mut graph = wanted.collected.graph().clone();
    graph.outputs.extend(wanted.fallbacks.iter().map(|fallback| fallback.before));
    lift(&mut graph, lifted);
    name_dataless(&mut graph, wanted.collected.leaves().len());
    let operations = graph.nodes.len();
    progress::report(Task::Plan, 0, operations);
    let plan = prepare(context, graph, wanted, template);
    progress::report(Task::Plan, operations, operations);
    let counter =
        if plan.schedule.from_template { &context.counts.plans_resized } else { &context.counts.plans_built };
    add(counter, 1);
    plan
}

/// The layouts of the leaves.
fn layouts(collected: &Collected) -> Vec<Layout> {
    let layout =
        |leaf: &Arc<crate::ir::Node>| leaf.value().map(|value| relative(&value.layout, &leaf.ty().shape));
    collected.leaves().filter_map(layout).collect()
}

/// A layout seen from its lowest element; where that is, the binding says.
fn relative(layout: &Layout, shape: &Shape) -> Layout {
    Layout { offset: layout.offset - layout.lowest(shape), strides: layout.strides.clone() }
}

/// Replaces lifted scalars by arguments that carry their number, and collectives by those of any group: plans are
/// kept.
fn lift(graph: &mut Graph, lifted: &[bool]) {
    let mut number = 0;
    for node in &mut graph.nodes {
        if let Op::Collective(collective) = &node.op {
            *node = node.with_op(Op::Collective(collective.of_any_group()));
        }
        let (Op::Const(_, dtype, device) | Op::Arg(_, dtype, device)) = node.op else { continue };
        if lifted[number] {
            *node = node.with_op(Op::Arg(crate::base::Scalar::Int(number as i64), dtype, device));
        }
        number += 1;
    }
}

/// Leaves without data, which only the meta device has, become parameters
/// after those with data.
fn name_dataless(graph: &mut Graph, leaves: usize) {
    let mut number = leaves as u32;
    for node in &mut graph.nodes {
        if let Op::Leaf(ty) = &node.op {
            *node = node.with_op(Op::Param(number, ty.clone()));
            number += 1;
        }
    }
}

fn prepare(context: &Context, graph: Graph, wanted: &WantedPlan<'_>, template: Option<&Plan>) -> Plan {
    let template = template.map(|plan| PlanTemplate { schedule: &plan.schedule, alike: &alike });
    let outputs: Vec<u32> = wanted.fallbacks.iter().map(|fallback| fallback.output).collect();
    let environment = Environment {
        layouts: &layouts(wanted.collected),
        donated: &wanted.memory.donated,
        shared: &wanted.memory.shared,
        capabilities: &|device: Device| capabilities(context, device),
        template,
        retain_candidates: wanted.retain_candidates,
        fallbacks: &outputs,
    };
    with_bodies(context, schedule(graph, &environment))
}

/// A plan that does the same, changed until its steps take no more than the
/// targets say, or as little as was found.
pub(crate) fn refit(context: &Context, plan: &Plan, memory: &LeafMemory, targets: &[(Device, u64)]) -> Plan {
    add(&context.counts.plans_built, 1);
    let (donated, first_with) = (memory.is_donated(), memory.first_with());
    let params = Params { donated: &donated, first_with: &first_with };
    let in_place = |device: Device| capabilities(context, device).in_place;
    let mut schedule = plan.schedule.clone();
    let mut from: Vec<usize> = (0..schedule.steps.len()).collect();
    for &(device, bytes) in targets {
        let fitted = rematerialize::fit(&schedule, &params, &in_place, device, bytes);
        from = fitted.from.iter().map(|&step| from[step]).collect();
        schedule = fitted.schedule;
    }
    let bodies =
        from.iter().enumerate().filter_map(|(now, step)| Some((now, plan.bodies.get(step)?.clone())));
    Plan::new(schedule, bodies.collect())
}

/// A plan that does the same, with regions in chunks until its steps take no
/// more than the targets say, or as little as was found. `None` if nothing can be
/// cut with any use.
pub(crate) fn rechunk(
    context: &Context,
    plan: &Plan,
    collected: &Collected,
    memory: &LeafMemory,
    targets: &[(Device, u64)],
) -> Option<Plan> {
    let (donated, first_with) = (memory.is_donated(), memory.first_with());
    let params = Params { donated: &donated, first_with: &first_with };
    let capabilities = |device: Device| capabilities(context, device);
    let environment = Environment {
        layouts: &layouts(collected),
        donated: &memory.donated,
        shared: &memory.shared,
        capabilities: &capabilities,
        template: None,
        retain_candidates: &[],
        fallbacks: &[],
    };
    let mut schedule = None;
    for &(device, bytes) in targets {
        let now = schedule.as_ref().unwrap_or(&plan.schedule);
        schedule = chunk::fit(now, &environment, &params, device, bytes).or(schedule);
    }
    schedule.map(|schedule| {
        add(&context.counts.plans_built, 1);
        with_bodies(context, schedule)
    })
}

/// The plan of a schedule, with those of its repetitions.
fn with_bodies(context: &Context, schedule: ScheduledGraph) -> Plan {
    let mut bodies = HashMap::new();
    for (number, step) in schedule.steps.iter().enumerate() {
        if let StepAction::Repeat(spec) = &step.action {
            bodies.insert(number, body_plan(context, spec));
        }
    }
    Plan::new(schedule, bodies)
}

/// The plan of a repetition's body, from the cache or new. How often it runs
/// is no part of it, so that plans for several lengths share it.
fn body_plan(context: &Context, spec: &LoopSpec) -> Arc<Plan> {
    let body = collect_body(&spec.body.results);
    let (skeleton, values) = body_key(&body);
    match context.look_up(&skeleton, &values) {
        Lookup::Hit(plan) => plan,
        Lookup::Miss { lifted, template } => {
            let (collected, memory) = (&Collected::default(), &LeafMemory::default());
            let wanted = WantedPlan { collected, memory, retain_candidates: &[], fallbacks: &[] };
            let plan = prepare(context, body, &wanted, template.as_deref());
            context.keep(skeleton, values, lifted, Arc::new(plan))
        }
    }
}

/// What a device can do; an absent one, and meta, plan as the null device.
pub(crate) fn capabilities(context: &Context, device: Device) -> Capabilities {
    match device.kind {
        DeviceKind::Meta => null::CAPABILITIES,
        DeviceKind::Cpu | DeviceKind::Wgpu | DeviceKind::Cuda | DeviceKind::Null => {
            context.backend(device).map_or(null::CAPABILITIES, |backend| backend.capabilities().clone())
        }
    }
}

/// A work as text, for people.
pub(crate) fn work_text(work: &Workload) -> String {
    match work {
        Workload::Kernel(kernel) => crate::kernel::print::text(kernel),
        Workload::Sort(sort) => sort.to_string(),
        Workload::Custom(custom, inputs, outputs) => {
            let identity = Arc::as_ptr(custom).cast::<()>();
            format!("{} {identity:?} {inputs:?} {outputs:?}", custom.name())
        }
        Workload::Joint(joint) => joint.works().iter().map(|work| work_text(work)).collect(),
    }
}
