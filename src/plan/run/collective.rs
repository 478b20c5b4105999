//! Collectives: what this rank has, given to the others of its group, and what it gets for that.
//!
//! One starts when its operand is whole, and is waited for by the first step that reads its result. What
//! runs in between hides the time that the data are on their way.

use std::ops::Range;
use std::sync::mpsc::Receiver;

use crate::base::Result;
use crate::base::config::config;
use crate::ir::NodeId;
use crate::ir::collective::{Channel, CollectiveKind};
use crate::ir::device_collective::DeviceCollective;
use crate::plan::Plan;
use crate::plan::context::add;
use crate::plan::run::Execution;
use crate::plan::transfer::read_dense;
use crate::plan::wait::now;
use crate::runtime::trace::{self, Activity};
use crate::runtime::{RankCollective, Waiting};
use crate::schedule::{Location, Step, StepAction};

/// A collective that has started.
pub(super) struct InFlight {
    output: NodeId,
    result: Arriving,
}

/// What becomes of it.
enum Arriving {
    /// The result comes to the host.
    Bytes(Receiver<Result<Vec<u8>>>),
    /// The device has it when this comes.
    OnDevice(Receiver<Result<()>>),
}

/// The number of the step that waits for the collective of step `number`: the first that reads its result,
/// or that overwrites a parameter, after which nothing may fail; past the last step if there is none.
pub(crate) fn waiting_step(plan: &Plan, number: usize) -> usize {
    let steps = &plan.schedule.steps;
    let output = steps[number].outputs[0];
    let waits = |step: &Step| waits_for(plan, step, output);
    (number + 1..steps.len()).find(|&later| waits(&steps[later])).unwrap_or(steps.len())
}

fn waits_for(plan: &Plan, step: &Step, output: NodeId) -> bool {
    let graph = &plan.schedule.graph;
    let read = match step.action {
        // The other operand only says which of them comes first.
        StepAction::Collective(_) => &step.inputs[..1],
        StepAction::Launch(_) | StepAction::Transfer { .. } | StepAction::Repeat(_) => &step.inputs[..],
    };
    overwrites_parameter(plan, step)
        || read.iter().flat_map(|input| graph.pieces(input)).any(|&input| input == output)
}

fn overwrites_parameter(plan: &Plan, step: &Step) -> bool {
    let memory = &plan.schedule.memory;
    step.outputs.iter().any(|output| match memory.locations.get(output) {
        Some(&Location::Result(number, _)) => memory.results[number as usize].donated.is_some(),
        Some(Location::Param(_) | Location::Arena(_)) | None => false,
    })
}

impl Execution<'_> {
    /// Takes part in a collective. The data pass through the memory of the host, unless the group's go from
    /// device to device.
    ///
    /// It runs on the thread that realizes, or on one that does nothing else: one of a device's pool that
    /// waited here could keep the other ranks, if they are threads of this process, from ever coming.
    pub(super) fn collective(&self, number: usize, step: &Step, kind: CollectiveKind) -> Result<()> {
        let graph = &self.plan.schedule.graph;
        let (from, to) = (step.inputs[0], step.outputs[0]);
        let Some(channel) = (self.channel)(to) else { panic!("{kind} of no group in\n{graph:?}") };
        let span = (self.call)(to).map_or(graph.node(to).span, |call| call.span);
        let _span = trace::span(Activity::Collective).at(span);
        let ty = graph.ty(from);
        add(&self.context.counts.collectives, 1);
        let last = number + 1 == self.plan.schedule.steps.len();
        let at_once = last || waiting_step(self.plan, number) == number + 1 || config().check;
        if let Some(part) = self.part_of_device(&*channel, step, kind)? {
            let result = Arriving::OnDevice(channel.start_between_devices(kind, ty, span, part));
            self.in_flight.borrow_mut().push(InFlight { output: to, result });
            return if at_once { self.await_all() } else { Ok(()) };
        }
        let operand = now(read_dense(self.context, ty, &self.leaf(from), Waiting::Block))?;
        if at_once {
            self.await_all()?;
            return self.store_result(to, &channel.run(kind, ty, span, &operand)?);
        }
        let result = Arriving::Bytes(channel.start(kind, ty, span, operand));
        self.in_flight.borrow_mut().push(InFlight { output: to, result });
        Ok(())
    }

    /// The device's part of a collective whose data it exchanges with the other ranks' devices. All ranks decide
    /// alike: by the group, the kind and the type.
    fn part_of_device(
        &self,
        channel: &dyn Channel,
        step: &Step,
        kind: CollectiveKind,
    ) -> Result<Option<Box<dyn DeviceCollective>>> {
        let ty = self.plan.schedule.graph.ty(step.inputs[0]);
        if !channel.goes_between_devices(kind) || ty.bytes() == 0 {
            return Ok(None);
        }
        let backend = self.compiled.backend(ty.device);
        let result = self.leaf(step.outputs[0]);
        backend.collective(&RankCollective {
            kind,
            rank: channel.rank(),
            size: channel.size(),
            ty,
            // Dense, by the copies that scheduling inserts.
            operand: self.binding(step.inputs[0]),
            result: (&result.buffer, result.layout.offset as usize * ty.dtype.size()),
        })
    }

    /// Waits for the collectives that some steps, which are about to run, wait for.
    pub(super) fn await_for(&self, numbers: Range<usize>) -> Result<()> {
        let steps = &self.plan.schedule.steps[numbers];
        self.await_those(|output| steps.iter().any(|step| waits_for(self.plan, step, output)))
    }

    /// Waits for all collectives that have started.
    pub(super) fn await_all(&self) -> Result<()> {
        self.await_those(|_| true)
    }

    fn await_those(&self, is_needed: impl Fn(NodeId) -> bool) -> Result<()> {
        if self.in_flight.borrow().is_empty() {
            return Ok(());
        }
        let (needed, left) = self.in_flight.take().into_iter().partition(|one| is_needed(one.output));
        self.in_flight.replace(left);
        let needed: Vec<InFlight> = needed;
        needed.into_iter().try_for_each(|InFlight { output, result }| {
            let _span = trace::span(Activity::Collective);
            match result {
                Arriving::Bytes(result) => self.store_result(output, &received(&result)?),
                Arriving::OnDevice(done) => received(&done),
            }
        })
    }

    fn store_result(&self, output: NodeId, bytes: &[u8]) -> Result<()> {
        let device = self.plan.schedule.graph.ty(output).device;
        if bytes.is_empty() {
            Ok(())
        } else {
            self.compiled.backend(device).write(self.binding(output), bytes)
        }
    }
}

fn received<T>(result: &Receiver<Result<T>>) -> Result<T> {
    let Ok(result) = result.recv() else { panic!("the thread that meets other ranks has ended") };
    result
}
