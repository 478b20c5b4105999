//! Collectives: what this rank has, given to the others of its group, and what it gets for that.
//!
//! One starts when its operand is whole, and is waited for by the first step that reads its result. What
//! runs in between hides the time that the data are on their way.

use std::ops::Range;
use std::sync::mpsc::Receiver;

use crate::base::Result;
use crate::base::config::config;
use crate::ir::NodeId;
use crate::ir::collective::CollectiveKind;
use crate::plan::Plan;
use crate::plan::context::add;
use crate::plan::run::Execution;
use crate::plan::transfer::read_dense;
use crate::plan::wait::now;
use crate::runtime::Waiting;
use crate::runtime::trace::{self, Activity};
use crate::schedule::{Location, Step, StepAction};

/// A collective that has started.
pub(super) struct InFlight {
    output: NodeId,
    /// What becomes of it.
    result: Receiver<Result<Vec<u8>>>,
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
    /// Takes part in a collective. The data pass through the memory of the host.
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
        let operand = now(read_dense(self.context, ty, &self.leaf(from), Waiting::Block))?;
        add(&self.context.counts.collectives, 1);
        let last = number + 1 == self.plan.schedule.steps.len();
        if last || waiting_step(self.plan, number) == number + 1 || config().check {
            self.await_all()?;
            return self.store_result(to, &channel.run(kind, ty, span, &operand)?);
        }
        let result = channel.start(kind, ty, span, operand);
        self.in_flight.borrow_mut().push(InFlight { output: to, result });
        Ok(())
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
            let Ok(result) = result.recv() else { panic!("the thread that meets other ranks has ended") };
            self.store_result(output, &result?)
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
