//! The memory of a plan in blocks: what each holds, and from which step to which.

use crate::base::Device;
use crate::ir::{NodeId, Op};
use crate::page::graph::{is_gradient, is_optimizers};
use crate::page::texts::Texts;
use crate::plan::context::current;
use crate::plan::observe::ObservedRun;
use crate::profile::json::{Object, list, optional};
use crate::schedule::Location;

/// What a block is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockKind {
    Parameter,
    Gradient,
    Optimizer,
    Activation,
    Result,
    Input,
    Scratch,
}

/// A block of memory.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub device: Device,
    pub kind: BlockKind,
    /// The value that is in it first, if one is.
    pub value: Option<NodeId>,
    /// What it is called, where no operation names it.
    pub name: String,
    pub bytes: u64,
    /// The first step that writes it and the last that uses it; inputs are there before, results after.
    pub steps: (usize, usize),
    /// Where in the memory of the intermediates it begins.
    pub offset: Option<u64>,
    /// The input whose memory it is.
    pub input: Option<usize>,
}

impl BlockKind {
    pub fn name(self) -> &'static str {
        match self {
            BlockKind::Parameter => "parameter",
            BlockKind::Gradient => "gradient",
            BlockKind::Optimizer => "optimizer",
            BlockKind::Activation => "activation",
            BlockKind::Result => "result",
            BlockKind::Input => "input",
            BlockKind::Scratch => "scratch",
        }
    }
}

/// The blocks of a run's plan: inputs, results in memory of their own, intermediates, scratch.
pub(super) fn blocks(run: &ObservedRun) -> Vec<Block> {
    let mut found = inputs(run);
    found.extend(results(run));
    found.extend(intermediates(run));
    found.extend(bodies(run));
    let last = last_step(run);
    for &(device, bytes) in run.plan.scratch(&current()).iter().filter(|scratch| scratch.1 > 0) {
        let name = "scratch memory of kernels".into();
        let (kind, value, offset, input) = (BlockKind::Scratch, None, None, None);
        found.push(Block { device, kind, value, name, bytes, steps: (0, last), offset, input });
    }
    found
}

fn last_step(run: &ObservedRun) -> usize {
    run.plan.schedule.steps.len().saturating_sub(1)
}

/// The memory of the inputs, however many of them are in one block.
fn inputs(run: &ObservedRun) -> Vec<Block> {
    let own = run.inputs.iter().enumerate().filter(|(number, input)| input.first_with == *number);
    let block = |(number, input): (usize, &crate::plan::observe::ObservedInput)| Block {
        device: input.ty.device,
        kind: input_kind(run, number),
        value: None,
        name: match input_kind(run, number) {
            BlockKind::Optimizer => "state of the optimizer".into(),
            _ => input_name(run, number),
        },
        bytes: input.bytes,
        steps: (0, last_step(run)),
        offset: None,
        input: Some(number),
    };
    own.map(block).collect()
}

/// What is in the memory of an input.
fn input_name(run: &ObservedRun, first: usize) -> String {
    let inside = || run.inputs.iter().filter(|input| input.first_with == first);
    let parameters = inside().filter(|input| input.is_parameter).count();
    match (inside().count(), parameters) {
        (1, 1) => "a parameter".into(),
        (_, 1..) => format!("{parameters} parameters, packed"),
        (1, 0) => run.inputs[first].call.name.text().unwrap_or("data").into(),
        (count, 0) => format!("{count} tensors in one block"),
    }
}

/// What the memory of an input is for: that of a parameter, or of what takes it over.
fn input_kind(run: &ObservedRun, first: usize) -> BlockKind {
    let inside = |number: usize| run.inputs.get(number).is_some_and(|input| input.first_with == first);
    if run.inputs.iter().any(|input| input.first_with == first && input.is_parameter) {
        return BlockKind::Parameter;
    }
    let results = &run.plan.schedule.memory.results;
    let taken = results.iter().find(|result| result.donated.is_some_and(|number| inside(number as usize)));
    match taken.map(|result| value_kind(run, result.node, BlockKind::Input)) {
        Some(kind) => kind,
        None => BlockKind::Input,
    }
}

/// What a value is, if it is neither a gradient nor an optimizer's: `other`.
fn value_kind(run: &ObservedRun, id: NodeId, other: BlockKind) -> BlockKind {
    if is_optimizers(run, id) {
        BlockKind::Optimizer
    } else if is_gradient(run, id) {
        BlockKind::Gradient
    } else {
        other
    }
}

fn results(run: &ObservedRun) -> Vec<Block> {
    let memory = &run.plan.schedule.memory;
    let own = memory.results.iter().enumerate().filter(|(_, result)| result.donated.is_none());
    let block = |(number, result): (usize, &crate::schedule::memory::ResultBuffer)| {
        let writes = |id: &NodeId| matches!(memory.locations.get(id), Some(Location::Result(at, _)) if *at as usize == number);
        let steps = &run.plan.schedule.steps;
        let first = steps.iter().position(|step| step.outputs.iter().any(writes)).unwrap_or(0);
        let kept = run.plan.schedule.retained.iter().any(|(_, id)| *id == result.node);
        // What is kept for gradients is no result that anybody asked for.
        let kind = if kept { BlockKind::Activation } else { BlockKind::Result };
        Block {
            device: result.device,
            kind: value_kind(run, result.node, kind),
            value: Some(named_value(run, result.node)),
            name: String::new(),
            bytes: result.bytes as u64,
            steps: (first, last_step(run)),
            offset: None,
            input: None,
        }
    };
    own.map(block).collect()
}

/// What names a value: itself, or the first of what it packs.
fn named_value(run: &ObservedRun, id: NodeId) -> NodeId {
    let graph = &run.plan.schedule.graph;
    if run.call(id).name.text().is_some() { id } else { *graph.pieces(&id).first().unwrap_or(&id) }
}

fn intermediates(run: &ObservedRun) -> Vec<Block> {
    let schedule = &run.plan.schedule;
    let block = |storage: &crate::schedule::memory::Storage| {
        let named = storage.nodes.iter().find(|id| run.call(**id).name.text().is_some());
        let value = named.or(storage.nodes.first()).copied();
        let made_by_gradient = || {
            let members = schedule.steps.get(storage.first).map_or(&[][..], |step| &step.members);
            named.is_none() && members.iter().any(|&member| is_gradient(run, member))
        };
        let kind = match value.map(|id| value_kind(run, id, BlockKind::Activation)) {
            Some(BlockKind::Activation) if made_by_gradient() => BlockKind::Gradient,
            kind => kind.unwrap_or(BlockKind::Activation),
        };
        Block {
            device: storage.device,
            kind,
            value,
            name: String::new(),
            bytes: storage.bytes as u64,
            steps: (storage.first, storage.last),
            offset: Some(storage.offset as u64),
            input: None,
        }
    };
    schedule.memory.storages.iter().map(block).collect()
}

/// What repetitions take while they run: the intermediates of their bodies, and the results of two trips.
fn bodies(run: &ObservedRun) -> Vec<Block> {
    let mut found = Vec::new();
    for (&step, body) in &run.bodies {
        let mut add = |device: Device, bytes: u64| {
            let name = String::from("inside the loop");
            let value = run.plan.schedule.steps[step].outputs.first().copied();
            let (kind, steps) = (BlockKind::Activation, (step, step));
            found.push(Block { device, kind, value, name, bytes, steps, offset: None, input: None });
        };
        for block in blocks_of_body(body) {
            add(block.0, block.1);
        }
    }
    found
}

fn blocks_of_body(body: &ObservedRun) -> Vec<(Device, u64)> {
    let memory = &body.plan.schedule.memory;
    let arenas = memory.arenas.iter().map(|&(device, bytes)| (device, bytes as u64));
    let own = memory.results.iter().filter(|result| result.donated.is_none());
    let results = own.map(|result| (result.device, (result.bytes as u64).saturating_mul(2)));
    let inner = body.bodies.values().flat_map(|inner| blocks_of_body(inner));
    arenas.chain(results).chain(inner).collect()
}

/// The blocks as JSON.
pub(super) fn json(run: &ObservedRun, texts: &mut Texts) -> String {
    list(blocks(run).iter().map(|block| block.json(run, texts).end()).collect::<Vec<_>>())
}

impl Block {
    pub fn json(&self, run: &ObservedRun, texts: &mut Texts) -> Object {
        let graph = &run.plan.schedule.graph;
        let call = self.value.map(|id| run.call(id)).or(self.input.map(|number| run.inputs[number].call));
        let ty = self.value.map(|id| graph.ty(id)).or(self.input.map(|number| &run.inputs[number].ty));
        let path = call.and_then(|call| call.name.region().path());
        Object::new()
            .text("device", &self.device.to_string())
            .text("kind", self.kind.name())
            .text("name", &self.title(run))
            .text("label", path.as_deref().unwrap_or_default())
            .value("line", optional(call.map(|call| texts.line(call.span))))
            .text("type", &ty.map(ToString::to_string).unwrap_or_default())
            .value("bytes", self.bytes)
            .value("first", self.steps.0)
            .value("last", self.steps.1)
            .value("offset", optional(self.offset))
    }

    /// The operation that made what is in it.
    fn title(&self, run: &ObservedRun) -> String {
        let Some(id) = self.value.filter(|_| self.name.is_empty()) else { return self.name.clone() };
        let operation = || match &run.plan.schedule.graph.node(id).op {
            Op::Pack(_) => "packed",
            op => op.name(),
        };
        match run.call(id).name.text() {
            Some(name) if !is_gradient(run, id) => name.into(),
            Some(_) => format!("gradient ({})", operation()),
            None => operation().into(),
        }
    }
}
