//! A plan's steps as programs.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::base::config::config;
use crate::base::progress::{self, Task};
use crate::base::{Device, Result};
use crate::ir::NodeId;
use crate::ir::collective::CollectiveKind;
use crate::ir::op::LoopSpec;
use crate::kernel::Workload;
use crate::kernel::cost::work_cost;
use crate::plan::build::{Plan, capabilities};
use crate::plan::context::Context;
use crate::plan::debug;
use crate::plan::joint::{JointSteps, joint_steps};
use crate::runtime::trace::{self, Activity};
use crate::runtime::{Backend, Program, Replay};
use crate::schedule::{ScheduledGraph, Step, StepAction};

/// A plan's steps as programs, and the devices that run them: threads that run plans
/// then meet in no map of devices.
#[derive(Debug)]
pub(crate) struct CompiledPlan {
    /// What each step runs.
    pub runs: Vec<CompiledStep>,
    backends: Vec<(Device, Arc<dyn Backend>)>,
}

impl CompiledPlan {
    /// A device of the plan.
    pub fn backend(&self, device: Device) -> &dyn Backend {
        match self.backends.iter().find(|known| known.0 == device) {
            Some((_, backend)) => backend.as_ref(),
            None => panic!("no step and no memory of the plan is on {device}"),
        }
    }

    /// Starts what is enqueued on the plan's devices.
    ///
    /// # Errors
    /// The first driver's failure.
    pub fn flush(&self) -> Result<()> {
        self.backends.iter().try_for_each(|(_, backend)| backend.flush())
    }
}

/// What a step runs.
#[derive(Debug)]
pub(crate) enum CompiledStep {
    /// A program.
    Program {
        /// What is launched.
        program: Arc<dyn Program>,
        /// Bytes that a launch loads and stores.
        bytes: u64,
        /// The operation that uses indices, if one does.
        indexes: Option<NodeId>,
        /// Of the launches that start here and are given to the device together.
        replay: Replay,
    },
    /// A program of this step and those after it, so many together.
    Joint {
        /// How many.
        count: usize,
        /// What is launched.
        program: Arc<dyn Program>,
        /// Bytes that a launch loads and stores.
        bytes: u64,
        /// As of a program of one step.
        replay: Replay,
    },
    /// Nothing by itself: an earlier step's program computes it.
    Joined,
    /// Nothing: what it copies is there already.
    Nothing,
    /// A transfer.
    Transfer,
    /// Something that the ranks of a group do together.
    Collective(CollectiveKind),
    /// A repetition; its plan is among [`Plan::bodies`].
    Repeat(Arc<LoopSpec>),
}

impl Plan {
    /// What each step runs, compiled now if this is the first time.
    ///
    /// # Errors
    /// An absent device, or a kernel that does not compile.
    pub(crate) fn compiled(&self, context: &Context) -> Result<&CompiledPlan> {
        if let Some(compiled) = self.compiled.get() {
            return Ok(compiled);
        }
        let _span = trace::span(Activity::Compile);
        let steps = &self.schedule.steps;
        let joint = self.joint(context);
        compile_in_parallel(context, &self.schedule, &joint);
        let mut joint = joint.into_iter().peekable();
        let mut runs = Vec::with_capacity(steps.len());
        while runs.len() < steps.len() {
            match joint.next_if(|joint| joint.first == runs.len()) {
                Some(joint) => runs.extend(joint_runs(context, steps[joint.first].device, &joint)?),
                None => runs.push(run_of(context, &self.schedule, &steps[runs.len()])?),
            }
            progress::report(Task::Compile, runs.len(), steps.len());
        }
        let mut backends: Vec<(Device, Arc<dyn Backend>)> = Vec::new();
        for device in self.devices() {
            if !backends.iter().any(|known| known.0 == device) {
                backends.push((device, context.backend(device)?));
            }
        }
        for body in self.bodies.values() {
            for (device, backend) in &body.compiled(context)?.backends {
                if !backends.iter().any(|known| known.0 == *device) {
                    backends.push((*device, backend.clone()));
                }
            }
        }
        // Of two threads that compile one plan, the first sets it.
        Ok(self.compiled.get_or_init(|| CompiledPlan { runs, backends }))
    }

    /// The steps that are launched together. Whoever times or checks kernels launches them one by one.
    pub(super) fn joint(&self, context: &Context) -> Vec<JointSteps> {
        if config().check || debug::clock().is_some() {
            return Vec::new();
        }
        joint_steps(&self.schedule, &|device| capabilities(context, device).joint_rows)
    }
}

fn run_of(context: &Context, schedule: &ScheduledGraph, step: &Step) -> Result<CompiledStep> {
    let graph = &schedule.graph;
    match &step.action {
        StepAction::Launch(_) if schedule.memory.is_there_already(graph, step) => Ok(CompiledStep::Nothing),
        StepAction::Transfer { .. } => Ok(CompiledStep::Transfer),
        StepAction::Collective(kind) => Ok(CompiledStep::Collective(*kind)),
        StepAction::Repeat(spec) => Ok(CompiledStep::Repeat(spec.clone())),
        StepAction::Launch(work) => {
            let program = program(context, step.device, work)?;
            let cost = work_cost(work);
            let bytes = cost.loaded.saturating_add(cost.stored);
            let indexes = step.members.iter().find(|id| graph.node(**id).op.uses_indices()).copied();
            Ok(CompiledStep::Program { program, bytes, indexes, replay: Replay::default() })
        }
    }
}

/// What steps run that one program computes.
fn joint_runs(context: &Context, device: Device, joint: &JointSteps) -> Result<Vec<CompiledStep>> {
    let (count, program, cost) =
        (joint.count, program(context, device, &joint.work)?, work_cost(&joint.work));
    let bytes = cost.loaded.saturating_add(cost.stored);
    let mut runs = vec![CompiledStep::Joint { count, program, bytes, replay: Replay::default() }];
    runs.resize_with(count, || CompiledStep::Joined);
    Ok(runs)
}

/// Compiles the work of devices whose compilers serve several threads. An error is dropped
/// here, since the compiler reports it again when the work's turn comes.
fn compile_in_parallel(context: &Context, schedule: &ScheduledGraph, joint: &[JointSteps]) {
    let suits = |device| context.backend(device).is_ok_and(|backend| backend.compiles_in_parallel());
    let is_joint = |number: usize| joint.iter().any(|j| (j.first..j.first + j.count).contains(&number));
    let alone = |(number, step): &(usize, &Step)| {
        !is_joint(*number) && !schedule.memory.is_there_already(&schedule.graph, step)
    };
    let single = schedule.steps.iter().enumerate().filter(alone).filter_map(|(_, step)| match &step.action {
        StepAction::Launch(work) => Some((step.device, work)),
        StepAction::Transfer { .. } | StepAction::Collective(_) | StepAction::Repeat(_) => None,
    });
    let launches = joint.iter().map(|joint| (schedule.steps[joint.first].device, &joint.work)).chain(single);
    let works = launches.filter(|&(device, _)| suits(device)).collect::<HashSet<_>>();
    let works: Vec<(Device, &Arc<Workload>)> = works.into_iter().collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(works.len());
    if threads < 2 {
        return;
    }
    let next = AtomicUsize::new(0);
    let compile = || {
        while let Some((device, work)) = works.get(next.fetch_add(1, Ordering::Relaxed)) {
            _ = program(context, *device, work);
        }
    };
    std::thread::scope(|scope| {
        (1..threads).for_each(|_| _ = scope.spawn(compile));
        compile();
    });
}

/// The compiled work, from the cache if an equal one is there.
///
/// # Errors
/// An absent device, or work that does not compile.
pub(crate) fn program(context: &Context, device: Device, work: &Arc<Workload>) -> Result<Arc<dyn Program>> {
    let backend = context.backend(device)?;
    context.program(device, work, || backend.compile(work))
}
