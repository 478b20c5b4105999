//! From a graph to a plan: scheduled and compiled.

use std::sync::Arc;

use crate::base::{Device, DeviceKind, Result};
use crate::ir::collect::{Collected, collect_body};
use crate::ir::op::LoopSpec;
use crate::ir::{Graph, Layout, Op};
use crate::kernel::Work;
use crate::plan::context::{Context, add};
use crate::runtime::{Capabilities, Program, null};
use crate::schedule::{Action, Environment, Schedule, Step, schedule};

/// A graph ready to run: steps with compiled programs and memory assigned.
#[derive(Debug)]
pub struct Plan {
    /// The steps and the memory.
    pub schedule: Schedule,
    /// What each step runs.
    pub(crate) runs: Vec<Run>,
}

/// What a step runs.
#[derive(Debug)]
pub(crate) enum Run {
    /// A program, and for each of its scalar arguments the plan's argument.
    Program(Arc<dyn Program>, Vec<usize>),
    /// A transfer.
    Transfer,
    /// A repetition of a plan of its own.
    Repeat(Arc<LoopSpec>, Box<Plan>),
}

/// Schedules and compiles a collected graph. Scalars marked `lifted` become
/// arguments, numbered in the order of all the graph's scalars.
///
/// # Errors
/// An absent device, or a kernel that does not compile.
pub(crate) fn build(
    context: &Context,
    collected: &Collected,
    lifted: &[bool],
    donated: &[bool],
) -> Result<Plan> {
    let mut graph = collected.graph.clone();
    lift(&mut graph, lifted);
    let layout = |leaf: &Arc<crate::ir::Node>| leaf.value().map(|value| relative(&value.layout));
    let layouts: Vec<Layout> = collected.leaves.iter().filter_map(layout).collect();
    let plan = compile(context, graph, &layouts, donated)?;
    add(&context.counts.plans_built, 1);
    Ok(plan)
}

/// A layout seen from its own element 0; where that is, the binding says.
fn relative(layout: &Layout) -> Layout {
    Layout { offset: 0, strides: layout.strides.clone() }
}

/// Replaces lifted scalars by arguments that carry their number.
fn lift(graph: &mut Graph, lifted: &[bool]) {
    let mut number = 0;
    for node in &mut graph.nodes {
        let (Op::Const(_, dtype, device) | Op::Arg(_, dtype, device)) = node.op else { continue };
        if lifted[number] {
            node.op = Op::Arg(crate::base::Scalar::Int(number as i64), dtype, device);
        }
        number += 1;
    }
}

fn compile(context: &Context, graph: Graph, layouts: &[Layout], donated: &[bool]) -> Result<Plan> {
    let capabilities = |device: Device| capabilities(context, device);
    let environment = Environment { layouts, donated, capabilities: &capabilities };
    let schedule = schedule(graph, &environment);
    let runs =
        schedule.steps.iter().map(|step| run_of(context, &schedule.graph, step)).collect::<Result<_>>()?;
    Ok(Plan { schedule, runs })
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

fn run_of(context: &Context, graph: &Graph, step: &Step) -> Result<Run> {
    match &step.action {
        Action::Transfer { .. } => Ok(Run::Transfer),
        Action::Repeat(spec) => {
            let body = collect_body(&spec.body.results);
            let plan = compile(context, body, &[], &[])?;
            Ok(Run::Repeat(spec.clone(), Box::new(plan)))
        }
        Action::Launch(work) => {
            let backend = context.backend(step.device)?;
            let text = work_text(work);
            let program = context.program(step.device, text, || backend.compile(work))?;
            Ok(Run::Program(program, arguments(graph, work)))
        }
    }
}

/// A text that determines the program: two works with one text share it.
fn work_text(work: &Work) -> String {
    match work {
        Work::Kernel(kernel) => crate::kernel::print::text(kernel),
        Work::Sort(sort) => format!("{sort:?}"),
        Work::Custom(custom, inputs, outputs) => {
            let identity = Arc::as_ptr(custom).cast::<()>();
            format!("{} {identity:?} {inputs:?} {outputs:?}", custom.name())
        }
    }
}

fn arguments(graph: &Graph, work: &Work) -> Vec<usize> {
    let Work::Kernel(kernel) = work else { return Vec::new() };
    let number = |op: &Op| {
        let Op::Arg(value, ..) = op else { panic!("{} is not an argument", op.name()) };
        value.as_i64() as usize
    };
    kernel.args.iter().map(|&id| number(&graph.node(id).op)).collect()
}
