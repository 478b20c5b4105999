//! The memory of a plan in blocks: what each holds, and from which step to which.

use std::fmt::{self, Display};
use std::sync::Arc;

use crate::base::{Device, Span};
use crate::ir::{NodeId, Op, Type};
use crate::plan::context::current;
use crate::plan::observe::{ObservedInput, ObservedRun};
use crate::plan::report::{PlanReport, bytes};
use crate::plan::run::UserCall;
use crate::schedule::memory::{ResultBuffer, Storage};
use crate::schedule::{Location, StepAction};

/// What a block of memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum BlockKind {
    /// Tensors for which gradients accumulate.
    Parameter,
    /// What an optimizer remembers, or puts into parameters; told apart only while a profiler is on.
    Optimizer,
    /// Gradients, of parameters or on the way to them.
    Gradient,
    /// What is computed on the way to a result.
    Activation,
    /// A result that was asked for.
    Result,
    /// Data that were there before.
    Input,
    /// What kernels need while they run.
    Scratch,
}

/// A block of a plan's memory.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MemoryBlock {
    /// Where.
    pub device: Device,
    /// What it is for.
    pub kind: BlockKind,
    /// The operation that made what is in it.
    pub name: String,
    /// The labels around that, as `epoch/forward`; while a profiler is on.
    pub label: Option<Arc<str>>,
    /// The user's line.
    pub at: Option<Span>,
    /// Its size.
    pub bytes: u64,
    /// The step of the plan that first writes it; 0 for inputs.
    pub first: usize,
    /// The last step that needs it; the plan's last one for inputs and results.
    pub last: usize,
    pub(crate) ty: Option<Type>,
    /// Where in the memory of the intermediates it begins.
    pub(crate) offset: Option<u64>,
    pub(crate) is_input: bool,
    /// Of a result: its number.
    pub(crate) result: Option<usize>,
    /// What lies side by side in it, if that is several tensors.
    pub(crate) parts: Vec<MemoryBlock>,
}

impl PlanReport {
    /// The memory that the plan needs, block by block: inputs, results, and every intermediate from the step
    /// that writes it to the last that reads it.
    ///
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::plan::report::BlockKind;
    ///
    /// # fn main() -> kiln::Result<()> {
    /// let x = Tensor::ones([64, 64], ());
    /// let y = x.realize()?.matmul(&x).matmul(&x);
    /// let blocks = y.plan()?.memory_blocks();
    /// let first = blocks.iter().find(|block| block.kind == BlockKind::Activation);
    /// assert!(first.is_some_and(|block| block.name == "matmul" && block.bytes == 4 * 64 * 64));
    /// # Ok(())
    /// # }
    /// ```
    pub fn memory_blocks(&self) -> Vec<MemoryBlock> {
        self.observed.as_ref().map(|run| blocks(run)).unwrap_or_default()
    }

    /// The blocks of a device that are in use at the step at which most of its memory is: the largest first.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// # fn main() -> kiln::Result<()> {
    /// let x = Tensor::ones([64, 64], ());
    /// let y = x.realize()?.matmul(&x).matmul(&x);
    /// let blocks = y.plan()?.blocks_at_peak(Device::cpu());
    /// let bytes: u64 = blocks.iter().map(|block| block.bytes).sum();
    /// assert_eq!(bytes, 3 * 4 * 64 * 64); // the input, the first product, the second
    /// # Ok(())
    /// # }
    /// ```
    pub fn blocks_at_peak(&self, device: Device) -> Vec<MemoryBlock> {
        let mut blocks = self.memory_blocks();
        blocks.retain(|block| block.device == device);
        let at = |step: usize| {
            let inside = blocks.iter().filter(move |block| (block.first..=block.last).contains(&step));
            (inside.map(|block| block.bytes).sum::<u64>(), std::cmp::Reverse(step))
        };
        let most = blocks.iter().map(|block| at(block.first)).max().map_or(0, |(_, step)| step.0);
        blocks.retain(|block| (block.first..=block.last).contains(&most));
        blocks.sort_by_key(|block| std::cmp::Reverse(block.bytes));
        blocks
    }
}

impl MemoryBlock {
    /// What lies side by side in it, as parameters that are updated together do; empty if that is one tensor.
    ///
    /// ```
    /// use kiln::nn::{Layer, Linear, ModuleExt, Sequential};
    /// use kiln::prelude::*;
    ///
    /// # fn main() -> kiln::Result<()> {
    /// let model = Sequential::new().push(Linear::new(3, 2, ()));
    /// assert_eq!(model.parameters().len(), 2); // as an optimizer asks: parameters have names from now on
    /// let loss = model.forward(&Tensor::ones([4, 3], ())).square().sum(..);
    /// loss.backward()?;
    /// let blocks = loss.plan()?.memory_blocks();
    /// let packed = blocks.iter().find(|block| !block.parts().is_empty());
    /// let packed = packed.expect("gradients are in one block");
    /// assert_eq!(packed.name, "gradients of 2 parameters, packed");
    /// let names: Vec<&str> = packed.parts().iter().map(|part| part.name.as_str()).collect();
    /// assert_eq!(names, ["gradient of 0.weight", "gradient of 0.bias"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn parts(&self) -> &[MemoryBlock] {
        &self.parts
    }
}

impl Display for BlockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            BlockKind::Parameter => "parameter",
            BlockKind::Optimizer => "optimizer",
            BlockKind::Gradient => "gradient",
            BlockKind::Activation => "activation",
            BlockKind::Result => "result",
            BlockKind::Input => "input",
            BlockKind::Scratch => "scratch",
        })
    }
}

impl Display for MemoryBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>10} {:<10} {}", bytes(self.bytes), self.kind, self.name)?;
        if let Some(ty) = &self.ty {
            write!(f, " {ty}")?;
        }
        if let Some(label) = &self.label {
            write!(f, " in {label}")?;
        }
        if let Some(at) = self.at { write!(f, " at {at}") } else { Ok(()) }
    }
}

/// The blocks of a plan: inputs, results in memory of their own, intermediates, what loops and kernels take.
pub(crate) fn blocks(run: &ObservedRun) -> Vec<MemoryBlock> {
    let mut found = inputs(run);
    let results = run.plan.schedule.memory.results.iter().enumerate();
    found.extend(results.filter(|(_, one)| one.donated.is_none()).map(|(at, one)| result(run, at, one)));
    found.extend(run.plan.schedule.memory.storages.iter().map(|storage| intermediate(run, storage)));
    found.extend(loops(run));
    for &(device, bytes) in run.plan.scratch(&current()).iter().filter(|scratch| scratch.1 > 0) {
        let block = MemoryBlock::new(device, BlockKind::Scratch, bytes, (0, last_step(run)));
        found.push(MemoryBlock { name: "scratch memory of kernels".into(), ..block });
    }
    found
}

impl MemoryBlock {
    fn new(device: Device, kind: BlockKind, bytes: u64, (first, last): (usize, usize)) -> MemoryBlock {
        MemoryBlock {
            device,
            kind,
            name: String::new(),
            label: None,
            at: None,
            bytes,
            first,
            last,
            ty: None,
            offset: None,
            is_input: false,
            result: None,
            parts: Vec::new(),
        }
    }

    /// With what is known of the call that made it.
    fn made_by(self, call: UserCall, ty: &Type, name: String) -> MemoryBlock {
        let (label, at, ty) = (call.name.region().path(), Some(call.span), Some(ty.clone()));
        MemoryBlock { name, label, at, ty, ..self }
    }

    /// With what is known of the value in it.
    fn holding(self, run: &ObservedRun, id: NodeId) -> MemoryBlock {
        let node = run.plan.schedule.graph.node(id);
        let name = match (run.call(id).name.text(), run.gradient_of(id)) {
            (_, Some(parameter)) => format!("gradient of {parameter}"),
            (Some(_), None) if run.is_gradient(id) => gradient_name(run, id),
            (Some(name), None) => name.into(),
            (None, None) => operation_name(&node.op).into(),
        };
        self.made_by(run.call(id), &node.ty, name)
    }
}

fn operation_name(op: &Op) -> &'static str {
    if let Op::Pack(_) = op { "packed" } else { op.name() }
}

/// What a value is called that is part of a gradient: several whole ones, or what an operation leaves.
fn gradient_name(run: &ObservedRun, id: NodeId) -> String {
    let graph = &run.plan.schedule.graph;
    let whole = graph.pieces(&id).iter().filter(|piece| run.gradient_of(**piece).is_some()).count();
    match (&graph.node(id).op, whole) {
        (Op::Pack(_), 1..) => format!("gradients of {whole} parameters, packed"),
        (op, _) => format!("gradient ({})", operation_name(op)),
    }
}

fn last_step(run: &ObservedRun) -> usize {
    run.plan.schedule.steps.len().saturating_sub(1)
}

/// The memory of the inputs, each block once, however many of them are in it.
fn inputs(run: &ObservedRun) -> Vec<MemoryBlock> {
    let own = run.inputs.iter().enumerate().filter(|(number, input)| input.first_with == *number);
    let block = |(number, input): (usize, &ObservedInput)| {
        let kind = input_kind(run, number);
        let block = MemoryBlock::new(input.ty.device, kind, input.bytes, (0, last_step(run)));
        let block = block.made_by(input.call, &input.ty, input_name(run, number, kind));
        MemoryBlock { is_input: true, parts: input_parts(run, number, kind), ..block }
    };
    own.map(block).collect()
}

/// The parameters that are in the memory of an input, if there are several.
fn input_parts(run: &ObservedRun, first: usize, kind: BlockKind) -> Vec<MemoryBlock> {
    let inside = run.inputs.iter().filter(|input| input.first_with == first && input.is_parameter);
    let part = |input: &ObservedInput| {
        let bytes = input.ty.bytes() as u64;
        let part = MemoryBlock::new(input.ty.device, kind, bytes, (0, last_step(run)));
        part.made_by(input.call, &input.ty, input.parameter_name.as_deref().unwrap_or("a parameter").into())
    };
    let parts: Vec<MemoryBlock> = inside.map(part).collect();
    if parts.len() > 1 { parts } else { Vec::new() }
}

/// What is packed in a value, if something is.
fn packed_parts(run: &ObservedRun, id: NodeId, kind: BlockKind, steps: (usize, usize)) -> Vec<MemoryBlock> {
    let graph = &run.plan.schedule.graph;
    let Op::Pack(_) = graph.node(id).op else { return Vec::new() };
    let part = |piece: &NodeId| {
        let ty = graph.ty(*piece);
        MemoryBlock::new(ty.device, kind, ty.bytes() as u64, steps).holding(run, *piece)
    };
    graph.pieces(&id).iter().map(part).collect()
}

/// What is in the memory of an input.
fn input_name(run: &ObservedRun, first: usize, kind: BlockKind) -> String {
    let inside = || run.inputs.iter().filter(|input| input.first_with == first);
    let parameters = inside().filter(|input| input.is_parameter).count();
    match (inside().count(), parameters) {
        (1, 1) => run.inputs[first].parameter_name.as_deref().unwrap_or("a parameter").into(),
        (_, 1..) => format!("{parameters} parameters, packed"),
        (_, 0) if kind == BlockKind::Optimizer => "state of the optimizer".into(),
        (1, 0) => run.inputs[first].call.name.text().unwrap_or("data").into(),
        (count, 0) => format!("{count} tensors in one block"),
    }
}

/// What the memory of an input is for: a parameter, or what takes it over.
fn input_kind(run: &ObservedRun, first: usize) -> BlockKind {
    let inside = |number: usize| run.inputs.get(number).is_some_and(|input| input.first_with == first);
    if run.inputs.iter().any(|input| input.first_with == first && input.is_parameter) {
        return BlockKind::Parameter;
    }
    let results = &run.plan.schedule.memory.results;
    let taken = results.iter().find(|result| result.donated.is_some_and(|number| inside(number as usize)));
    taken.map_or(BlockKind::Input, |result| value_kind(run, result.node, BlockKind::Input))
}

/// What a value is: an optimizer's, a gradient, or else `other`.
fn value_kind(run: &ObservedRun, id: NodeId, other: BlockKind) -> BlockKind {
    if run.is_optimizers(id) {
        BlockKind::Optimizer
    } else if run.is_gradient(id) {
        BlockKind::Gradient
    } else {
        other
    }
}

fn result(run: &ObservedRun, number: usize, result: &ResultBuffer) -> MemoryBlock {
    let schedule = &run.plan.schedule;
    let inside = |id: &NodeId| matches!(schedule.memory.locations.get(id), Some(Location::Result(at, _)) if *at as usize == number);
    let first = schedule.steps.iter().position(|step| step.outputs.iter().any(inside)).unwrap_or(0);
    // What is kept for gradients is no result that anybody asked for.
    let kept = schedule.retained.iter().any(|(_, id)| *id == result.node);
    let kind = value_kind(run, result.node, if kept { BlockKind::Activation } else { BlockKind::Result });
    let pieces = schedule.graph.pieces(&result.node);
    let named = std::iter::once(&result.node).chain(pieces).find(|id| run.call(**id).name.text().is_some());
    let block = MemoryBlock::new(result.device, kind, result.bytes as u64, (first, last_step(run)));
    let block = block.holding(run, *named.unwrap_or(&result.node));
    let parts = packed_parts(run, result.node, kind, (first, last_step(run)));
    MemoryBlock { result: Some(number), parts, ..block }
}

fn intermediate(run: &ObservedRun, storage: &Storage) -> MemoryBlock {
    let named = storage.nodes.iter().find(|id| run.call(**id).name.text().is_some()).copied();
    let value = named.or(storage.nodes.first().copied());
    let members = run.plan.schedule.steps.get(storage.first).map_or(&[][..], |step| &step.members);
    // What no call names belongs to what its kernel computes.
    let in_gradient = named.is_none() && members.iter().any(|&member| run.is_gradient(member));
    let kind = value.map_or(BlockKind::Activation, |id| value_kind(run, id, BlockKind::Activation));
    let kind = if kind == BlockKind::Activation && in_gradient { BlockKind::Gradient } else { kind };
    let (bytes, steps) = (storage.bytes as u64, (storage.first, storage.last));
    let block = MemoryBlock::new(storage.device, kind, bytes, steps);
    let block = match value {
        Some(id) => block.holding(run, id),
        None => block,
    };
    let packs = storage.nodes.iter().map(|&id| packed_parts(run, id, kind, steps));
    let parts = packs.max_by_key(Vec::len).unwrap_or_default();
    MemoryBlock { offset: Some(storage.offset as u64), parts, ..block }
}

/// What repetitions take while they run: the intermediates of their bodies, and the results of two trips.
fn loops(run: &ObservedRun) -> Vec<MemoryBlock> {
    let mut found = Vec::new();
    for (number, step) in run.plan.schedule.steps.iter().enumerate() {
        let (StepAction::Repeat(_), Some(body)) = (&step.action, run.bodies.get(&number)) else { continue };
        for (device, bytes) in inside(body) {
            let block = MemoryBlock::new(device, BlockKind::Activation, bytes, (number, number));
            let block = step.outputs.first().map(|&id| block.clone().holding(run, id)).unwrap_or(block);
            found.push(MemoryBlock { name: "inside the loop".into(), ..block });
        }
    }
    found
}

fn inside(body: &ObservedRun) -> Vec<(Device, u64)> {
    let memory = &body.plan.schedule.memory;
    let arenas = memory.arenas.iter().map(|&(device, bytes)| (device, bytes as u64));
    let own = memory.results.iter().filter(|result| result.donated.is_none());
    let results = own.map(|result| (result.device, (result.bytes as u64).saturating_mul(2)));
    let inner = body.bodies.values().flat_map(|inner| inside(inner));
    arenas.chain(results).chain(inner).collect()
}
