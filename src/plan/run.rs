//! Execution of a plan.

pub(crate) mod collective;
mod repeat;

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use crate::base::config::config;
use crate::base::{Device, OpName, Result, Shape, Span};
use crate::ir::collective::Channel;
use crate::ir::oracle::Value;
use crate::ir::{DeviceBuffer, Layout, Leaf, NodeId, Op, Type};
use crate::kernel::cost::work_cost;
use crate::plan::build::Plan;
use crate::plan::check::Check;
use crate::plan::compiled::{CompiledPlan, CompiledStep, program};
use crate::plan::context::{Context, add};
use crate::plan::debug;
use crate::plan::observe::ObservedRun;
use crate::plan::run::collective::InFlight;
use crate::plan::transfer::{CHUNK, fetch, read_dense, transfer};
use crate::plan::wait::now;
use crate::runtime::label::{self, Label};
use crate::runtime::trace::{self, LaunchClock, OpenLaunch};
use crate::runtime::{Binding, Bindings, IndexSite, IndexStatus, Launch, Program, Waiting};
use crate::schedule::{Location, Step, StepAction};

/// What the user called, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UserCall {
    pub name: OpName,
    pub span: Span,
}

/// The user's call behind a node of the plan's graph, if there is one.
pub(crate) type CallOf<'a> = &'a dyn Fn(NodeId) -> Option<UserCall>;

/// The group of a collective of the plan's graph, of which the plan knows none.
pub(crate) type ChannelOf<'a> = &'a dyn Fn(NodeId) -> Option<Arc<dyn Channel>>;

/// What a graph knows and a cached plan does not, which knows only what it was built for.
#[derive(Clone, Copy)]
pub(crate) struct Calls<'a> {
    pub call: CallOf<'a>,
    pub channel: ChannelOf<'a>,
}

/// Runs a plan. `leaves` are its parameters, `scalars` all its arguments' bits; `calls` gives the user's
/// calls and groups; `observed` is for whoever records the run.
/// Gives the values of the graph's outputs, in order, and the retained ones. Where a step needs what a device
/// has not done yet, `waiting` says what becomes of the thread.
///
/// # Errors
/// Out of memory, an index out of range, a driver's failure; parameters that
/// are not donated are as before.
pub(crate) async fn run(
    context: &Context,
    plan: &Plan,
    leaves: &[Leaf],
    scalars: &[u64],
    calls: Calls<'_>,
    observed: Option<Arc<ObservedRun>>,
    waiting: Waiting,
) -> Result<Vec<Leaf>> {
    // Before anything is allocated or overwritten, for it can fail.
    let compiled = plan.compiled(context)?;
    let mut execution = Execution::new(context, plan, compiled, leaves, scalars, calls)?;
    (execution.observed, execution.waiting) = (observed, waiting);
    let done = execution.steps().await;
    add(&context.counts.kernels_launched, execution.launched.get());
    add(&context.counts.bytes_moved, execution.moved.get());
    done?;
    let retained = plan.schedule.retained.iter().map(|(_, id)| id);
    let outputs = plan.schedule.graph.outputs.iter().chain(retained);
    Ok(outputs.map(|&output| execution.leaf(output)).collect())
}

struct Execution<'a> {
    context: &'a Context,
    plan: &'a Plan,
    compiled: &'a CompiledPlan,
    leaves: &'a [Leaf],
    scalars: &'a [u64],
    call: CallOf<'a>,
    channel: ChannelOf<'a>,
    /// The collectives that have started and are not waited for.
    in_flight: RefCell<Vec<InFlight>>,
    results: Vec<Arc<DeviceBuffer>>,
    /// By device; there are few.
    arenas: Vec<(Device, Arena)>,
    waiting: Waiting,
    /// Kernels launched, and bytes that they load and store: counted here, since all
    /// threads share the context's counts.
    launched: Cell<u64>,
    moved: Cell<u64>,
    /// Where launches are recorded: the run.
    observed: Option<Arc<ObservedRun>>,
}

/// The buffers of a device's arena, with where each starts.
struct Arena(Vec<(usize, Arc<DeviceBuffer>)>);

impl Arena {
    /// The buffer in which a position lies, and how far within.
    fn at(&self, position: usize) -> (&Arc<DeviceBuffer>, usize) {
        let (start, buffer) = &self.0[self.0.partition_point(|(start, _)| *start <= position) - 1];
        (buffer, position - start)
    }
}

/// What one launch works on.
struct BoundArguments<'a> {
    inputs: Vec<Binding<'a>>,
    outputs: Vec<Binding<'a>>,
    scalars: Vec<u64>,
    status: IndexStatus,
}

impl BoundArguments<'_> {
    fn bindings(&self) -> Bindings<'_> {
        Bindings {
            inputs: &self.inputs,
            outputs: &self.outputs,
            scalars: &self.scalars,
            status: &self.status,
        }
    }
}

impl<'a> Execution<'a> {
    fn new(
        context: &'a Context,
        plan: &'a Plan,
        compiled: &'a CompiledPlan,
        leaves: &'a [Leaf],
        scalars: &'a [u64],
        Calls { call, channel }: Calls<'a>,
    ) -> Result<Execution<'a>> {
        let memory = &plan.schedule.memory;
        let allocate = |label: Label, device, bytes, filled| {
            let backend = compiled.backend(device);
            let make = || if filled { backend.allocate_to_fill(bytes) } else { backend.allocate(bytes) };
            label::allocating(label, make).map(Arc::new)
        };
        let arriving = arriving(plan);
        let graph = &plan.schedule.graph;
        let mut results = Vec::with_capacity(memory.results.len());
        for result in &memory.results {
            results.push(match result.donated {
                Some(param) => leaves[param as usize].buffer.clone(),
                None => {
                    let node = graph.node(result.node);
                    let span = call(result.node).map_or(node.span, |call| call.span);
                    let label =
                        Label { name: node.op.name(), shape: node.ty.shape.clone(), span: Some(span) };
                    allocate(label, result.device, result.bytes, arriving.contains(&result.node))?
                }
            });
        }
        let mut arenas = Vec::with_capacity(memory.arenas.len());
        for &(device, bytes) in &memory.arenas {
            let span = graph.outputs.first().and_then(|&output| call(output)).map(|call| call.span);
            let buffer = |(start, end): (usize, usize)| {
                let label = Label { name: "intermediates", shape: Shape::from(end - start), span };
                Ok((start, allocate(label, device, end - start, false)?))
            };
            let buffers = memory.buffers((device, bytes)).into_iter().map(buffer);
            arenas.push((device, Arena(buffers.collect::<Result<_>>()?)));
        }
        let (launched, moved) = (Cell::new(0), Cell::new(0));
        let observed = None;
        Ok(Execution {
            context,
            plan,
            compiled,
            leaves,
            scalars,
            call,
            channel,
            in_flight: RefCell::default(),
            results,
            arenas,
            waiting: Waiting::Block,
            launched,
            moved,
            observed,
        })
    }

    async fn steps(&self) -> Result<()> {
        let runs = &self.compiled.runs;
        let mut number = 0;
        while number < runs.len() {
            let fetched = self.fetched_together(number);
            let launched = self.launched_together(number);
            let together = fetched.max(launched).max(1);
            self.await_for(number..number + together)?;
            if fetched > 1 {
                self.fetch(number..number + fetched).await?;
            } else if launched > 1 {
                self.launch_all(number..number + launched)?;
            } else {
                self.step(number, &runs[number]).await?;
            }
            number += together;
        }
        self.await_all()
    }

    /// The value of a node as a leaf.
    fn leaf(&self, id: NodeId) -> Leaf {
        let graph = &self.plan.schedule.graph;
        let ty = graph.ty(id);
        let at = |buffer: &Arc<DeviceBuffer>, start: usize| {
            let layout = Layout { offset: (start / ty.dtype.size()) as i64, ..Layout::contiguous(&ty.shape) };
            Leaf { buffer: buffer.clone(), layout }
        };
        match self.location(id) {
            Location::Param(number) => self.leaves[number as usize].clone(),
            Location::Result(number, start) => at(&self.results[number as usize], start),
            Location::Arena(start) => {
                let (buffer, start) = self.arena(graph.ty(id).device).at(start);
                at(buffer, start)
            }
        }
    }

    fn arena(&self, device: Device) -> &Arena {
        match self.arenas.iter().find(|(of, _)| *of == device) {
            Some((_, arena)) => arena,
            None => panic!("no arena on {device}"),
        }
    }

    fn location(&self, id: NodeId) -> Location {
        match self.plan.schedule.memory.locations.get(&id) {
            Some(&location) => location,
            None => panic!("{id:?} has no memory in\n{:?}", self.plan.schedule.graph),
        }
    }

    fn binding(&self, id: NodeId) -> Binding<'_> {
        let graph = &self.plan.schedule.graph;
        match self.location(id) {
            Location::Param(number) => {
                let leaf = &self.leaves[number as usize];
                let ty = graph.ty(id);
                let offset = leaf.layout.lowest(&ty.shape) as usize * ty.dtype.size();
                Binding { buffer: &leaf.buffer, offset }
            }
            Location::Result(number, offset) => Binding { buffer: &self.results[number as usize], offset },
            Location::Arena(start) => {
                let (buffer, offset) = self.arena(graph.ty(id).device).at(start);
                Binding { buffer, offset }
            }
        }
    }

    async fn step(&self, number: usize, run: &CompiledStep) -> Result<()> {
        let step = &self.plan.schedule.steps[number];
        if config().check {
            return Box::pin(self.checked(number, step, run)).await;
        }
        self.run(number, step, run).await
    }

    async fn run(&self, number: usize, step: &Step, run: &CompiledStep) -> Result<()> {
        match run {
            CompiledStep::Program { program, bytes, indexes, .. } => {
                self.launch(number, program, *bytes, *indexes)
            }
            CompiledStep::Joint { .. } | CompiledStep::Joined => self.launch_alone(number, step),
            CompiledStep::Nothing => Ok(()),
            CompiledStep::Transfer => self.transfer(step).await,
            CompiledStep::Collective(kind) => self.collective(number, step, *kind),
            CompiledStep::Repeat(spec) => Box::pin(self.repeat(step, spec, &self.plan.bodies[&number])).await,
        }
    }

    /// Runs a step and holds what it computes against the interpreter.
    async fn checked(&self, number: usize, step: &Step, run: &CompiledStep) -> Result<()> {
        let graph = &self.plan.schedule.graph;
        let read = |id: NodeId| {
            let ty = graph.ty(id);
            let dense = now(read_dense(self.context, ty, &self.leaf(id), Waiting::Block));
            Ok(Value::from_bytes(ty.clone(), &dense?))
        };
        let check = Check::begin(graph, step, self.scalars, &read)?;
        self.run(number, step, run).await?;
        check.map_or(Ok(()), |check| check.end(graph, step, self.call, &read))
    }

    /// Launches a step that is otherwise launched with others.
    fn launch_alone(&self, number: usize, step: &Step) -> Result<()> {
        let StepAction::Launch(work) = &step.action else { return Ok(()) };
        let (program, cost) = (program(self.context, step.device, work)?, work_cost(work));
        self.launch(number, &program, cost.loaded.saturating_add(cost.stored), None)
    }

    fn launch(
        &self,
        number: usize,
        program: &Arc<dyn Program>,
        bytes: u64,
        indexes: Option<NodeId>,
    ) -> Result<()> {
        let step = &self.plan.schedule.steps[number];
        let Some(bound) = self.bound(std::slice::from_ref(step), indexes) else { return Ok(()) };
        let clock = debug::clock();
        match &self.observed {
            None => program.launch(&bound.bindings())?,
            Some(run) => self.launch_observed(run, number, || program.launch(&bound.bindings()))?,
        }
        if let Some(start) = clock {
            self.compiled.backend(step.device).sync()?;
            debug::launched(start, &step.name(&self.plan.schedule.graph), bytes);
        }
        self.count_launches(1, bytes);
        self.check_indices(step, &bound.status)
    }

    /// Launches a step and records when.
    fn launch_observed(
        &self,
        run: &Arc<ObservedRun>,
        number: usize,
        launch: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let device = self.plan.schedule.steps[number].device;
        let backend = self.compiled.backend(device);
        let open = |on_host| trace::launch(run.clone(), number, device, on_host);
        let wait = || backend.flush().and_then(|()| backend.sync());
        match backend.launch_clock() {
            LaunchClock::Host => ended(open(true), launch()),
            LaunchClock::Device => ended(open(false), launch()),
            LaunchClock::Waiting => {
                wait()?;
                let open = open(true);
                ended(open, launch().and_then(|()| wait()))
            }
        }
    }

    fn count_launches(&self, launches: usize, bytes: u64) {
        self.launched.update(|count| count + launches as u64);
        self.moved.update(|moved| moved + bytes);
    }

    /// What the program of some steps works on; `None` if there is nothing to do.
    fn bound(&self, steps: &[Step], indexes: Option<NodeId>) -> Option<BoundArguments<'_>> {
        let graph = &self.plan.schedule.graph;
        let outputs = || steps.iter().flat_map(|step| &step.outputs);
        if outputs().all(|&output| graph.ty(output).shape.numel() == 0) {
            return None;
        }
        // A scatter's base is its output's memory, not an input.
        let count = |step: &Step| step.kernel().map_or(step.inputs.len(), |kernel| kernel.inputs.len());
        let inputs = steps.iter().flat_map(|step| &step.inputs[..count(step)]);
        Some(BoundArguments {
            inputs: inputs.map(|&id| self.binding(id)).collect(),
            outputs: outputs().map(|&id| self.binding(id)).collect(),
            scalars: steps.iter().flat_map(|step| &step.args).map(|&id| self.scalar(id)).collect(),
            status: IndexStatus::at(indexes.map(|id| self.site(id))),
        })
    }

    /// The bits of an argument, which carries its number.
    fn scalar(&self, id: NodeId) -> u64 {
        let op = &self.plan.schedule.graph.node(id).op;
        let Op::Arg(number, ..) = op else { panic!("{} is not an argument", op.name()) };
        self.scalars[number.as_i64() as usize]
    }

    /// How many steps from this one on are programs that their device takes
    /// together.
    fn launched_together(&self, number: usize) -> usize {
        // Whoever times, records or checks kernels launches them one by one.
        if debug::clock().is_some() || self.observed.is_some() || config().check {
            return 0;
        }
        let (steps, runs) = (&self.plan.schedule.steps[number..], &self.compiled.runs[number..]);
        let device = steps[0].device;
        let backend = self.compiled.backend(device);
        let replays = |(step, run): &(&Step, &CompiledStep)| match run {
            CompiledStep::Program { program, .. } | CompiledStep::Joint { program, .. } => {
                step.device == device && backend.replays(program.as_ref())
            }
            CompiledStep::Joined | CompiledStep::Nothing => true,
            CompiledStep::Transfer | CompiledStep::Collective(_) | CompiledStep::Repeat(_) => false,
        };
        let replayed = steps.iter().zip(runs).take_while(replays).count();
        if let CompiledStep::Joint { count, .. } = runs[0] { replayed.max(count) } else { replayed }
    }

    /// Launches the programs of several steps.
    fn launch_all(&self, numbers: Range<usize>) -> Result<()> {
        let (steps, runs) = (&self.plan.schedule.steps[numbers.clone()], &self.compiled.runs[numbers]);
        let mut first_replay = None;
        let mut bounds = Vec::with_capacity(steps.len());
        for (number, run) in runs.iter().enumerate() {
            let (program, bytes, indexes, count, replay) = match run {
                CompiledStep::Program { program, bytes, indexes, replay } => {
                    (program, bytes, *indexes, 1, replay)
                }
                CompiledStep::Joint { program, bytes, count, replay } => {
                    (program, bytes, None, *count, replay)
                }
                CompiledStep::Joined
                | CompiledStep::Nothing
                | CompiledStep::Transfer
                | CompiledStep::Collective(_)
                | CompiledStep::Repeat(_) => continue,
            };
            first_replay.get_or_insert(replay);
            if let Some(bound) = self.bound(&steps[number..number + count], indexes) {
                bounds.push((&steps[number], program, bytes, bound));
            }
        }
        let Some(replay) = first_replay else { return Ok(()) };
        let launches: Vec<Launch<'_>> = bounds
            .iter()
            .map(|(_, program, _, bound)| Launch { program: program.as_ref(), bindings: bound.bindings() })
            .collect();
        let saved = self.compiled.backend(steps[0].device).launch_all(&launches, replay)?;
        add(&self.context.counts.graphs_launched, u64::from(saved > 0));
        add(&self.context.counts.launches_saved, saved);
        self.count_launches(launches.len(), bounds.iter().map(|(_, _, bytes, _)| *bytes).sum());
        bounds.iter().try_for_each(|(step, _, _, bound)| self.check_indices(step, &bound.status))
    }

    /// An operation that uses indices, for whoever finds one out of range.
    fn site(&self, id: NodeId) -> IndexSite {
        let node = self.plan.schedule.graph.node(id);
        let unknown = UserCall { name: OpName::default(), span: node.span };
        let UserCall { name, span } = (self.call)(id).unwrap_or(unknown);
        IndexSite { primitive: node.op.name(), called: name, span }
    }

    fn check_indices(&self, step: &Step, status: &IndexStatus) -> Result<()> {
        let Some((index, extent)) = status.take() else { return Ok(()) };
        Err(status.site().unwrap_or_else(|| self.site(step.outputs[0])).error(index, extent))
    }

    async fn transfer(&self, step: &Step) -> Result<()> {
        let (from, to) = (step.inputs[0], step.outputs[0]);
        let ty = self.plan.schedule.graph.ty(from);
        let line = || (self.call)(to).map_or(self.plan.schedule.graph.node(to).span, |call| call.span);
        let _span = trace::transfer(ty.device, step.device, ty.bytes(), line);
        transfer(self.context, ty, &self.leaf(from), self.binding(to), step.device, self.waiting).await
    }

    /// How many steps from this one on bring dense values from one device to
    /// the host, few enough bytes to be read at once.
    fn fetched_together(&self, number: usize) -> usize {
        let steps = &self.plan.schedule.steps[number..];
        let StepAction::Transfer { from: first } = steps[0].action else { return 0 };
        if config().check {
            return 0;
        }
        let mut bytes = 0;
        let fits = |step: &&Step| {
            let StepAction::Transfer { from } = step.action else { return false };
            let ty = self.plan.schedule.graph.ty(step.inputs[0]);
            bytes += ty.bytes();
            let crosses = from == first && from != Device::cpu() && step.device == Device::cpu();
            crosses && bytes <= CHUNK && self.leaf(step.inputs[0]).layout.is_contiguous(&ty.shape)
        };
        steps.iter().take_while(fits).count()
    }

    async fn fetch(&self, numbers: Range<usize>) -> Result<()> {
        let graph = &self.plan.schedule.graph;
        let steps = &self.plan.schedule.steps[numbers];
        let values: Vec<(&Type, Leaf)> =
            steps.iter().map(|step| (graph.ty(step.inputs[0]), self.leaf(step.inputs[0]))).collect();
        let to: Vec<Binding<'_>> = steps.iter().map(|step| self.binding(step.outputs[0])).collect();
        let (Some(first), Some((from, _))) = (steps.first(), values.first()) else { return Ok(()) };
        let output = first.outputs[0];
        let line = || (self.call)(output).map_or(graph.node(output).span, |call| call.span);
        let bytes = values.iter().map(|(ty, _)| ty.bytes()).sum();
        let _span = trace::transfer(from.device, Device::cpu(), bytes, line);
        fetch(self.context, &values, &to, self.waiting).await
    }
}

/// What a launch gave, once its record has ended.
fn ended(launch: OpenLaunch, given: Result<()>) -> Result<()> {
    drop(launch);
    given
}

/// The values that come from the host, whole.
fn arriving(plan: &Plan) -> HashSet<NodeId> {
    let host = |step: &&Step| matches!(step.action, StepAction::Transfer { from } if from == Device::cpu());
    plan.schedule.steps.iter().filter(host).map(|step| step.outputs[0]).collect()
}
