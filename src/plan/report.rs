//! What a plan will do, before it does it: kernels, transfers, memory.
//!
//! A report is made from the same cached plan that realizing uses, so a later
//! realize of the same graph finds it. Plans are shared between graphs of one
//! form; lines of the user's program are therefore taken from the graph
//! reported on, not from the one that the plan was first built for.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};

use crate::base::{Device, Direction, Result, Shape, Span};
use crate::ir::collect::Collected;
use crate::ir::collective::CollectiveKind;
use crate::ir::open::closed;
use crate::ir::pending::{Cells, StateScope};
use crate::ir::{Graph, Node, NodeId, Op};
use crate::kernel::Workload;
use crate::kernel::cost::work_cost;
use crate::plan::build::{Plan, work_text};
use crate::plan::compiled::program;
use crate::plan::context::current;
use crate::plan::fallback::fallbacks;
use crate::plan::observe::ObservedRun;
use crate::plan::realize::{Prepared, find_target, prepare};
use crate::plan::run::ChannelOf;
use crate::plan::run::collective::waiting_step;
use crate::schedule::fusion_class::{FusionClass, fusion_class, read_operands};
use crate::schedule::{ScheduledGraph, Step, StepAction, TransferReason};

mod blocks;
mod casts;
mod chunks;
mod fusion_blocker;
mod limits;
mod lock;
mod lock_diff;
mod memory;
mod names;
mod rematerialized;
mod repeats;
mod table;
mod text;

pub(crate) use blocks::blocks;
pub use blocks::{BlockKind, MemoryBlock};
pub(crate) use casts::PlannedCast;
pub use chunks::InChunks;
pub use fusion_blocker::FusionBlocker;
pub use limits::UnsupportedPart;
pub use lock::PlanLock;
pub use memory::MemoryReport;
pub(crate) use memory::needs;
pub(crate) use names::unpacking;
pub use rematerialized::Rematerialized;
pub(crate) use table::{bytes, count, grouped};

/// What computing some tensors would do. Prints as a table.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PlanReport {
    /// What is launched, in order; the kernels of a repetition once each.
    pub kernels: Vec<KernelReport>,
    /// What crosses between devices.
    pub transfers: Vec<TransferReport>,
    /// What the ranks of a group do together, in order.
    pub collectives: Vec<CollectiveReport>,
    /// Transfers that were written and do not happen: round trips, what the
    /// other device makes itself, what crosses already.
    pub dropped_transfers: Vec<DroppedTransfer>,
    /// Memory by device.
    pub memory: Vec<MemoryReport>,
    /// Values that several kernels compute, each for itself.
    pub recomputed: Vec<Recomputed>,
    /// Values computed again for gradients or to fit a budget, instead of being
    /// kept.
    pub rematerialized: Vec<Rematerialized>,
    /// Values computed part by part to fit a budget.
    pub in_chunks: Vec<InChunks>,
    pub(crate) casts: Vec<PlannedCast>,
    pub(crate) plan: Option<Arc<Plan>>,
    /// The plan with the user's calls.
    pub(crate) observed: Option<Arc<ObservedRun>>,
    /// The graph as it was built.
    built: Graph,
    /// By node of the plan's graph.
    pub(crate) spans: Vec<Span>,
    /// Where the user's nodes went, by address. The weak handles keep the
    /// addresses from being used again, and do not count as owners.
    origins: HashMap<usize, (Weak<Node>, Option<NodeId>)>,
}

/// One kernel of a plan.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KernelReport {
    /// The operations inside as the user called them, the last ones where there are many; `grad_` and
    /// primitives for gradients.
    pub name: String,
    /// Where it runs.
    pub device: Device,
    /// The shape of the largest value it stores.
    pub shape: Shape,
    /// Bytes a launch reads from memory.
    pub loaded: u64,
    /// Bytes a launch writes to memory.
    pub stored: u64,
    /// Scalar operations of a launch.
    pub flops: u64,
    /// How often it is launched: once, or once a trip of its repetition.
    pub launches: u64,
    /// Whether it computes nothing and only puts data into another place, layout or type.
    pub is_copy: bool,
    /// The user's line that asked for the value it stores.
    pub at: Span,
    /// All the user's lines it computes for, in the order they were run.
    pub lines: Vec<Span>,
    pub(crate) work: Arc<Workload>,
}

/// One transfer of a plan.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TransferReport {
    /// Bytes moved.
    pub bytes: u64,
    /// From where.
    pub from: Device,
    /// To where.
    pub to: Device,
    /// Which way.
    pub direction: Direction,
    /// Why these bytes, where others were written.
    pub reason: TransferReason,
    /// How often: once, or once a trip of its repetition.
    pub times: u64,
    /// The user's line that asked for it.
    pub at: Span,
}

/// One operation of a group of ranks.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CollectiveReport {
    /// The operation: `all_reduce(sum)`.
    pub name: String,
    /// The group's name.
    pub group: String,
    /// The number of ranks.
    pub ranks: usize,
    /// Bytes that this rank gives.
    pub bytes: u64,
    /// Where its data are.
    pub device: Device,
    /// Kernels of the plan that run before it starts.
    pub after: usize,
    /// Kernels that run while the data are on their way: between it and the first step that waits for it.
    pub overlapped: usize,
    /// The user's line that asked for it.
    pub at: Span,
    pub(crate) kind: CollectiveKind,
}

/// A transfer that was written and does not happen.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DroppedTransfer {
    /// Bytes it would have moved.
    pub bytes: u64,
    /// From where.
    pub from: Device,
    /// To where.
    pub to: Device,
    /// The user's line.
    pub at: Span,
}

/// A value that several kernels compute, each for itself.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Recomputed {
    /// The operation.
    pub name: &'static str,
    /// The value's shape.
    pub shape: Shape,
    /// How many kernels compute it.
    pub times: usize,
    /// The user's line.
    pub at: Span,
}

impl KernelReport {
    /// The program's text as its device runs it, compiled for this if need
    /// be; for a device that is not there, [`KernelReport::text`].
    ///
    /// # Errors
    /// A kernel that does not compile.
    pub fn source(&self) -> Result<String> {
        let context = current();
        if context.backend(self.device).is_err() {
            return Ok(self.text());
        }
        Ok(program(&context, self.device, &self.work)?.source())
    }
    /// What is compiled for the device.
    pub fn work(&self) -> &Workload {
        &self.work
    }
    /// The kernel before it is rendered for its device: axes, index
    /// expressions, scalar operations.
    pub fn text(&self) -> String {
        work_text(&self.work)
    }
}

impl PlanReport {
    /// How many kernels are launched.
    pub fn launches(&self) -> u64 {
        self.kernels.iter().map(|kernel| kernel.launches).sum()
    }
    /// Bytes that all launches read from memory.
    pub fn bytes_loaded(&self) -> u64 {
        self.total(|kernel| kernel.loaded)
    }
    /// Bytes that all launches write to memory.
    pub fn bytes_stored(&self) -> u64 {
        self.total(|kernel| kernel.stored)
    }
    /// Bytes that all launches read and write.
    pub fn bytes_moved(&self) -> u64 {
        self.bytes_loaded().saturating_add(self.bytes_stored())
    }
    /// Scalar operations of all launches.
    pub fn flops(&self) -> u64 {
        self.total(|kernel| kernel.flops)
    }
    /// What crosses between devices, with bytes, direction, reason and line.
    pub fn transfers(&self) -> &[TransferReport] {
        &self.transfers
    }
    /// Bytes that cross between devices.
    pub fn bytes_transferred(&self) -> u64 {
        let each = self.transfers.iter().map(|t| t.bytes.saturating_mul(t.times));
        each.fold(0, u64::saturating_add)
    }
    /// The most memory in use at once, in bytes over all devices: the inputs,
    /// the results, and what is needed in between.
    pub fn peak_bytes(&self) -> u64 {
        self.memory.iter().map(MemoryReport::peak).fold(0, u64::saturating_add)
    }

    fn total(&self, each: impl Fn(&KernelReport) -> u64) -> u64 {
        let totals = self.kernels.iter().map(|kernel| each(kernel).saturating_mul(kernel.launches));
        totals.fold(0, u64::saturating_add)
    }
}

/// What computing some nodes together would do. Nothing runs, nothing is
/// compiled; devices that are not there are planned for as well.
///
/// # Errors
/// [`crate::Error::OverBudget`]; a node that has a value only inside a body.
pub fn report(nodes: &[Arc<Node>], span: Span) -> Result<PlanReport> {
    closed(nodes, "plan", span)?;
    let Some(mut target) = find_target(nodes, span, StateScope::Shared)? else {
        return Ok(PlanReport::default());
    };
    let cells = Cells::look(target.nodes());
    target.fallbacks = fallbacks(&mut target.collected, &cells, Vec::new());
    let prepared = prepare(&current(), &target, &cells).map_err(|error| error.at(span))?;
    let Prepared { plan, .. } = prepared;
    Ok(of_plan(&plan, &target.collected))
}

/// The report of a plan for the graph it was looked up with.
pub(crate) fn of_plan(plan: &Arc<Plan>, collected: &Collected) -> PlanReport {
    let spans = spans(plan, collected);
    let origins = collected.nodes.iter().zip(plan.schedule.map.iter());
    let origins = origins.map(|(node, id)| (Arc::as_ptr(node) as usize, (Arc::downgrade(node), id)));
    let mut report = PlanReport {
        plan: Some(plan.clone()),
        observed: Some(ObservedRun::planned(plan, collected)),
        origins: origins.collect(),
        built: collected.graph().clone(),
        ..Default::default()
    };
    let channel = |id| plan.channel(collected, id);
    let origin = Origin { spans: &spans, names: &names::names(plan, collected), channel: &channel };
    add_steps(&mut report, plan, &origin, 1);
    report.dropped_transfers = dropped_transfers(plan, collected.graph());
    report.memory = needs(&current(), plan, collected);
    report.recomputed = recomputed(plan, &spans);
    report.casts = casts::casts(plan, collected);
    report.in_chunks = chunks::in_chunks(plan, collected.graph());
    report.rematerialized = rematerialized::rematerialized(plan, &spans);
    report.spans = spans;
    report
}

/// For each node of the plan's graph, the user's line.
fn spans(plan: &Plan, collected: &Collected) -> Vec<Span> {
    let lines = plan.lines(collected).into_iter().zip(&plan.schedule.graph.nodes);
    lines.map(|(line, node)| line.unwrap_or(node.span)).collect()
}

/// Kernels among some steps of a plan.
fn launches_between(plan: &Plan, numbers: std::ops::Range<usize>) -> usize {
    let ScheduledGraph { graph, memory, .. } = &plan.schedule;
    let launches =
        |step: &&Step| matches!(step.action, StepAction::Launch(_)) && !memory.is_there_already(graph, step);
    plan.schedule.steps[numbers].iter().filter(launches).count()
}

/// What the user wrote for each node of a plan's graph.
struct Origin<'a> {
    spans: &'a [Span],
    names: &'a [Option<&'static str>],
    channel: ChannelOf<'a>,
}

fn add_steps(report: &mut PlanReport, plan: &Plan, origin: &Origin<'_>, launches: u64) {
    let graph = &plan.schedule.graph;
    for (number, step) in plan.schedule.steps.iter().enumerate() {
        match &step.action {
            StepAction::Launch(_) if plan.schedule.memory.is_there_already(graph, step) => {}
            StepAction::Launch(work) => {
                report.kernels.push(kernel_report(graph, step, work, origin, launches));
            }
            StepAction::Transfer { from } => {
                let output = step.outputs[0];
                report.transfers.push(TransferReport {
                    bytes: graph.ty(output).bytes() as u64,
                    from: *from,
                    to: step.device,
                    direction: Direction::of(*from, step.device),
                    reason: plan
                        .schedule
                        .transfers
                        .get(&output)
                        .map_or(TransferReason::Requested, |moved| moved.reason),
                    times: launches,
                    at: origin.spans[output.index()],
                });
            }
            StepAction::Collective(kind) => {
                let (given, output) = (graph.ty(step.inputs[0]), step.outputs[0]);
                let channel = (origin.channel)(output);
                report.collectives.push(CollectiveReport {
                    name: kind.to_string(),
                    group: channel.as_ref().map_or_else(String::new, |channel| channel.name().into()),
                    ranks: channel.map_or(0, |channel| channel.size()),
                    bytes: given.bytes() as u64,
                    device: step.device,
                    after: report.kernels.len(),
                    overlapped: launches_between(plan, number + 1..waiting_step(plan, number)),
                    at: origin.spans[output.index()],
                    kind: *kind,
                });
            }
            StepAction::Repeat(spec) => {
                let body = &plan.bodies[&number];
                let lines: Vec<Span> = body.schedule.graph.nodes.iter().map(|node| node.span).collect();
                let origin = Origin { spans: &lines, names: &vec![None; lines.len()], channel: &|_| None };
                add_steps(report, body, &origin, launches.saturating_mul(spec.trips as u64));
            }
        }
    }
}

/// Transfers of the graph as it was built that no step of the plan makes.
fn dropped_transfers(plan: &Plan, built: &Graph) -> Vec<DroppedTransfer> {
    let made: HashSet<NodeId> = plan.schedule.transfers.values().map(|moved| moved.requested).collect();
    let transfer = |id: NodeId| {
        let node = built.node(id);
        let Op::Copy(to) = node.op else { return None };
        let from = built.ty(node.operands[0]).device;
        let gone = from != to && !made.contains(&id) && !to.is_meta() && !from.is_meta();
        gone.then(|| DroppedTransfer { bytes: node.ty.bytes() as u64, from, to, at: node.span })
    };
    built.ids().filter_map(transfer).collect()
}

/// The report of a kernel whose values have these lines and names.
pub(crate) fn kernel_of(
    graph: &Graph,
    step: &Step,
    work: &Arc<Workload>,
    spans: &[Span],
    names: &[Option<&'static str>],
) -> KernelReport {
    kernel_report(graph, step, work, &Origin { spans, names, channel: &|_| None }, 1)
}

fn kernel_report(
    graph: &Graph,
    step: &Step,
    work: &Arc<Workload>,
    origin: &Origin<'_>,
    launches: u64,
) -> KernelReport {
    let Origin { spans, names, .. } = origin;
    // The main store comes first.
    let main = step.outputs[0];
    let shape = graph.ty(main).shape.clone();
    let name = match step.kernel() {
        Some(_) => names::kernel_name(graph, step, names),
        None => step.name(graph).trim_end_matches(&shape.to_string()).to_string(),
    };
    let cost = work_cost(work);
    let mut lines: Vec<Span> = Vec::new();
    for member in &step.members {
        if !lines.contains(&spans[member.index()]) {
            lines.push(spans[member.index()]);
        }
    }
    KernelReport {
        name,
        device: step.device,
        shape,
        loaded: cost.loaded,
        stored: cost.stored,
        flops: cost.flops,
        launches,
        is_copy: cost.loaded > 0 && names::only_copies(graph, step),
        at: spans[main.index()],
        lines,
        work: work.clone(),
    }
}

/// Values that several steps compute. Numbers do not count.
fn recomputed(plan: &Plan, spans: &[Span]) -> Vec<Recomputed> {
    let graph = &plan.schedule.graph;
    let mut times = vec![0usize; graph.nodes.len()];
    for step in &plan.schedule.steps {
        computed(graph, step).into_iter().for_each(|id| times[id.index()] += 1);
    }
    let worth_naming = |id: &NodeId| {
        times[id.index()] > 1
            && graph.ty(*id).shape.numel() > 1
            && matches!(fusion_class(graph.node(*id), true), FusionClass::Pointwise | FusionClass::Structural)
    };
    let report = |id: NodeId| Recomputed {
        name: graph.node(id).op.name(),
        shape: graph.ty(id).shape.clone(),
        times: times[id.index()],
        at: spans[id.index()],
    };
    graph.ids().filter(worth_naming).map(report).collect()
}

/// Every node that a step computes: its outputs, and what is below them down
/// to its inputs; ascending.
pub(crate) fn computed(graph: &Graph, step: &Step) -> Vec<NodeId> {
    let inputs: HashSet<NodeId> = step.inputs.iter().copied().collect();
    let mut seen: HashSet<NodeId> = step.outputs.iter().copied().collect();
    let mut pending = step.outputs.clone();
    while let Some(id) = pending.pop() {
        for &operand in read_operands(graph.node(id)) {
            let from_outside = inputs.contains(&operand) || matches!(graph.node(operand).op, Op::Param(..));
            if !from_outside && seen.insert(operand) {
                pending.push(operand);
            }
        }
    }
    let mut computed: Vec<NodeId> = seen.into_iter().collect();
    computed.sort_unstable();
    computed
}
