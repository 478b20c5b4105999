//! Independent checkers of fusion, ordering and memory planning. They know only what a valid
//! result is, not how it was found.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::base::Device;
use crate::ir::{Graph, NodeId, Op};
use crate::kernel::{Expr, Kernel, KernelStore};
use crate::runtime::InPlace;
use crate::schedule::fusion_class::{FusionClass, fusion_class, read_operands};
use crate::schedule::memory::{ALIGN, Location, MemoryPlan, Params};
use crate::schedule::order::Step;

#[cfg(test)]
mod tests;

/// Checks that steps compute every result, write each value once, read
/// nothing before it is written, and bind what their kernels expect. Gives
/// every violation.
pub fn check_steps(graph: &Graph, steps: &[Step]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut written: HashSet<NodeId> = HashSet::new();
    let available = |written: &HashSet<NodeId>, id: NodeId| {
        matches!(graph.node(id).op, Op::Param(..)) || written.contains(&id)
    };
    for (now, step) in steps.iter().enumerate() {
        let read = step.inputs.iter().flat_map(|input| graph.pieces(input));
        for input in read.filter(|&&input| !available(&written, input)) {
            wrong.push(format!("step {now} reads {input:?} before it is written"));
        }
        for &output in &step.outputs {
            if !written.insert(output) {
                wrong.push(format!("step {now} writes {output:?} again"));
            }
            if !step.members.contains(&output) {
                wrong.push(format!("step {now} writes {output:?}, which it does not compute"));
            }
        }
        wrong.extend(
            reads_below(graph, step).map(|id| format!("step {now} needs {id:?}, which it does not read")),
        );
        if step.kernel().is_some_and(|kernel| !binds(graph, kernel, step)) {
            wrong.push(format!("step {now} binds other values than its kernel reads and stores"));
        }
    }
    let results = graph.outputs.iter().flat_map(|output| graph.pieces(output));
    for output in results.filter(|&&output| !available(&written, output)) {
        wrong.push(format!("the result {output:?} is never written"));
    }
    wrong.extend(violated_control_dependencies(graph, steps));
    wrong
}

/// Steps that run before their control dependencies ([`Op::After`]): what lies above a
/// gate, down to values that other steps compute, may be computed once the
/// step of the gate's second operand is through.
fn violated_control_dependencies(graph: &Graph, steps: &[Step]) -> Vec<String> {
    let mut step_of: Vec<Option<usize>> = vec![None; graph.nodes.len()];
    for (now, step) in steps.iter().enumerate() {
        step.members.iter().for_each(|member| step_of[member.index()] = Some(now));
    }
    // By node: the step that has to be through for it to be there, and for
    // computing it to begin.
    let mut there = vec![0; graph.nodes.len()];
    let mut from = vec![0; graph.nodes.len()];
    let mut wrong = Vec::new();
    for id in graph.ids() {
        let node = graph.node(id);
        let own = step_of[id.index()];
        for (place, operand) in node.operands.iter().map(|operand| operand.index()).enumerate() {
            let begun = if step_of[operand].is_none() || step_of[operand] == own { from[operand] } else { 0 };
            let gate = if place == 1 && matches!(node.op, Op::After) { there[operand] } else { 0 };
            from[id.index()] = from[id.index()].max(begun).max(gate);
            there[id.index()] = there[id.index()].max(there[operand]);
        }
        if let Some(own) = own {
            there[id.index()] = own;
            if from[id.index()] > own {
                wrong.push(format!("step {own} computes {id:?} before step {}", from[id.index()]));
            }
        }
    }
    wrong
}

/// Parameters, and values that only a step of their own computes, that a
/// step's outputs depend on by paths through none of its inputs: walking the
/// graph from its outputs must end at its inputs. Of an empty value nothing
/// is read.
fn reads_below(graph: &Graph, step: &Step) -> impl Iterator<Item = NodeId> {
    let inputs: HashSet<NodeId> = step.inputs.iter().copied().collect();
    let full = |id: &NodeId| graph.ty(*id).shape.numel() > 0;
    let mut missing = Vec::new();
    let mut seen: HashSet<NodeId> = step.outputs.iter().copied().collect();
    let mut pending: Vec<NodeId> = step.outputs.iter().copied().filter(full).collect();
    while let Some(id) = pending.pop() {
        for &operand in read_operands(graph.node(id)).iter().filter(|&operand| full(operand)) {
            if inputs.contains(&operand) || !seen.insert(operand) {
                continue;
            }
            let node = graph.node(operand);
            let same_device = node.operands.iter().all(|&below| graph.ty(below).device == node.ty.device);
            if matches!(
                fusion_class(node, same_device),
                FusionClass::Input | FusionClass::Scatter | FusionClass::Opaque | FusionClass::Pack
            ) {
                missing.push(operand);
            } else {
                pending.push(operand);
            }
        }
    }
    missing.into_iter()
}

/// Whether a step's inputs, outputs and arguments are such as its kernel expects, in
/// order. A scatter also names the base that it updates.
fn binds(graph: &Graph, kernel: &Kernel, step: &Step) -> bool {
    let given = |id: &NodeId| (graph.ty(*id).dtype, graph.ty(*id).shape.numel());
    let buffer = kernel.scatter().into_iter().map(|scatter| (scatter.dtype, scatter.numel));
    let inputs = kernel.inputs.iter().map(|input| (input.dtype, input.numel)).chain(buffer.clone());
    let outputs = kernel.stores.iter().map(|store| (store.dtype, store.numel)).chain(buffer);
    let is_argument = |id: &NodeId| matches!(graph.node(*id).op, Op::Arg(..));
    inputs.eq(step.inputs.iter().map(given))
        && outputs.eq(step.outputs.iter().map(given))
        && kernel.args == step.args.len()
        && step.args.iter().all(is_argument)
}

/// A piece of memory that no other overlaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemoryBlock {
    Arena(Device),
    Result(u32),
    Param(u32),
}

/// The bytes that a value occupies.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MemoryRange {
    block: MemoryBlock,
    bytes: Range<usize>,
}

impl MemoryRange {
    fn overlaps(&self, other: &MemoryRange) -> bool {
        let (start, end) = (self.bytes.start.max(other.bytes.start), self.bytes.end.min(other.bytes.end));
        self.block == other.block && start < end
    }
}

/// Checks that no step overwrites a value that is needed later, by replaying
/// the steps on a map of bytes, and that every value fits where it is.
/// Gives every violation.
pub fn check_memory(
    graph: &Graph,
    steps: &[Step],
    memory: &MemoryPlan,
    params: &Params<'_>,
    policy: &dyn Fn(Device) -> InPlace,
) -> Vec<String> {
    let mut wrong = misplaced_in_packs(graph, memory, params);
    let separate = steps.iter().enumerate().filter(|(_, step)| policy(step.device) == InPlace::Never);
    wrong.extend(separate.flat_map(|(now, step)| shared_buffers(graph, memory, params, now, step)));
    let last = last_reads(graph, steps);
    let given = graph.ids().filter(|&id| matches!(graph.node(id).op, Op::Param(..)));
    let mut alive: HashMap<NodeId, MemoryRange> =
        given.filter_map(|id| Some((id, region(graph, memory, params, id)?))).collect();
    for (now, step) in steps.iter().enumerate() {
        let read = step.inputs.iter().flat_map(|input| graph.pieces(input));
        for input in read.filter(|&input| !alive.contains_key(input)) {
            wrong.push(format!("step {now} reads {input:?}, whose memory was overwritten"));
        }
        for &output in &step.outputs {
            let Some(new) = region(graph, memory, params, output) else {
                wrong.push(format!("{output:?} has no memory"));
                continue;
            };
            wrong.extend(misplaced(graph, memory, output, &new, params));
            // A pack is read, and may be overwritten, as a whole.
            let over = |input: &NodeId| {
                region(graph, memory, params, *input).as_ref() == Some(&new)
                    && in_place(graph, step, *input, output)
            };
            for (&other, _) in alive.iter().filter(|(_, region)| region.overlaps(&new)) {
                let mut read = step.inputs.iter().filter(|input| graph.pieces(input).contains(&other));
                if last[other.index()] > Some(now) {
                    wrong.push(format!("step {now} writes {output:?} over {other:?}, which is still needed"));
                } else if last[other.index()] == Some(now) && !read.all(over) {
                    wrong.push(format!("step {now} writes {output:?} over {other:?} while reading it"));
                }
            }
            alive.retain(|_, region| !region.overlaps(&new));
            alive.insert(output, new);
        }
    }
    wrong
}

/// What a kernel reads in a buffer that it writes, where it may not. Parts of packs are copied when it is launched, and
/// what a scatter writes into is not read.
fn shared_buffers(
    graph: &Graph,
    memory: &MemoryPlan,
    params: &Params<'_>,
    now: usize,
    step: &Step,
) -> Vec<String> {
    let Some(kernel) = step.kernel() else { return Vec::new() };
    let buffer = |id: NodeId| {
        let region = region(graph, memory, params, id)?;
        let within =
            |cut: &&(Device, usize)| region.block == MemoryBlock::Arena(cut.0) && cut.1 <= region.bytes.start;
        Some((region.block, memory.cuts.iter().filter(within).count()))
    };
    let alone = |id: &&NodeId| !in_pack(graph, **id) && !matches!(graph.node(**id).op, Op::Pack(_));
    let outputs: Vec<NodeId> = step.outputs.iter().filter(alone).copied().collect();
    let base = |input: &NodeId| {
        kernel.scatter().is_some() && outputs.iter().any(|output| graph.node(*output).operands[0] == *input)
    };
    let mut wrong = Vec::new();
    for &input in step.inputs.iter().filter(alone).filter(|input| !base(input)) {
        let shared = outputs.iter().find(|output| buffer(**output) == buffer(input));
        wrong.extend(shared.map(|output| {
            format!("step {now} reads {input:?} in the buffer of {output:?}, which it writes")
        }));
    }
    wrong
}

/// The last step that reads each value, if any does; results are read at the end.
fn last_reads(graph: &Graph, steps: &[Step]) -> Vec<Option<usize>> {
    let mut last = vec![None; graph.nodes.len()];
    for (now, step) in steps.iter().enumerate() {
        let read = step.inputs.iter().flat_map(|input| graph.pieces(input));
        read.for_each(|input| last[input.index()] = Some(now));
    }
    let results = graph.outputs.iter().flat_map(|output| graph.pieces(output));
    results.for_each(|output| last[output.index()] = Some(steps.len()));
    last
}

/// The memory of a value; a donated parameter's memory is the parameter's.
fn region(graph: &Graph, memory: &MemoryPlan, params: &Params<'_>, id: NodeId) -> Option<MemoryRange> {
    let ty = graph.ty(id);
    let (block, start) = match *memory.locations.get(&id)? {
        // Where a view is in memory that others share is not known here.
        Location::Param(number) => (MemoryBlock::Param((params.first_with)(number)), 0),
        Location::Arena(offset) => (MemoryBlock::Arena(ty.device), offset),
        Location::Result(number, start) => match memory.results.get(number as usize)?.donated {
            Some(param) => (MemoryBlock::Param((params.first_with)(param)), start),
            None => (MemoryBlock::Result(number), start),
        },
    };
    Some(MemoryRange { block, bytes: start..start + ty.bytes() })
}

/// Packs whose values are not at their offsets.
fn misplaced_in_packs(graph: &Graph, memory: &MemoryPlan, params: &Params<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    for pack in graph.ids() {
        let node = graph.node(pack);
        let Op::Pack(packing) = &node.op else { continue };
        let whole = region(graph, memory, params, pack);
        for (&part, start) in node.operands.iter().zip(&packing.starts) {
            let start = whole.as_ref().map(|whole| whole.bytes.start + start * node.ty.dtype.size());
            let found = region(graph, memory, params, part);
            // Nobody reads a value without a location.
            if found.is_none() || whole.is_none() {
                continue;
            }
            let same = found.as_ref().map(|region| region.block) == whole.as_ref().map(|whole| whole.block);
            if !same || found.map(|region| region.bytes.start) != start {
                wrong.push(format!("{part:?} is not at its offset in {pack:?}"));
            }
        }
    }
    wrong
}

/// Whether a value is part of a pack, or the base of a scatter that is.
fn in_pack(graph: &Graph, id: NodeId) -> bool {
    let mut readers = graph.nodes.iter().enumerate().filter(|(_, node)| node.operands.contains(&id));
    readers.any(|(number, node)| {
        let scatters = || matches!(node.op, Op::Scatter(..)) && in_pack(graph, NodeId(number as u32));
        matches!(node.op, Op::Pack(_)) || scatters()
    })
}

/// What is wrong with a value's location by itself.
fn misplaced(
    graph: &Graph,
    memory: &MemoryPlan,
    id: NodeId,
    region: &MemoryRange,
    params: &Params<'_>,
) -> Vec<String> {
    let mut wrong = Vec::new();
    if !region.bytes.start.is_multiple_of(ALIGN) && !in_pack(graph, id) {
        wrong.push(format!("{id:?} starts at {}, not at a multiple of {ALIGN}", region.bytes.start));
    }
    let size = match region.block {
        MemoryBlock::Arena(device) => {
            memory.arenas.iter().find(|arena| arena.0 == device).map_or(0, |arena| arena.1)
        }
        MemoryBlock::Result(number) => memory.results[number as usize].bytes,
        MemoryBlock::Param(_) => {
            let given = |location: &Location| {
                if let Location::Result(n, _) = location { Some(*n as usize) } else { None }
            };
            let number = memory.locations.get(&id).and_then(given).and_then(|n| memory.results[n].donated);
            let number = number.unwrap_or_else(|| panic!("{id:?} is over a parameter that nobody gave"));
            if !(params.donated)(number) {
                wrong.push(format!("{id:?} is written over parameter {number}, which is not donated"));
            }
            let is = |op: &Op| matches!(op, Op::Param(n, _) if *n == number);
            graph.nodes.iter().find(|node| is(&node.op)).map_or(0, |node| node.ty.bytes())
        }
    };
    if region.bytes.end > size {
        wrong.push(format!("{id:?} ends at {} of {size} bytes", region.bytes.end));
    }
    wrong
}

/// Whether a step may write `output` where it reads `input`: it scatters into
/// it, or reads each element of the input only to replace it; if it has other
/// outputs, it writes all of them when everything is computed.
fn in_place(graph: &Graph, step: &Step, input: NodeId, output: NodeId) -> bool {
    let Some(kernel) = step.kernel() else { return false };
    if kernel.scatter().is_some() {
        return graph.node(output).operands[0] == input;
    }
    let mut stores = kernel.stores.iter().zip(&step.outputs);
    let Some((store, _)) = stores.find(|(_, stored)| **stored == output) else { return false };
    let copied = |store: &KernelStore| matches!(kernel.exprs[store.value.index()].expr, Expr::Load(..));
    let sum = matches!(kernel.exprs[store.value.index()].expr, Expr::Accumulator);
    if kernel.stores.len() > 1 && (sum || kernel.stores.iter().any(|s| s.level > 0 || copied(s))) {
        return false;
    }
    let slots: Vec<usize> = (0..step.inputs.len()).filter(|&slot| step.inputs[slot] == input).collect();
    let mut loads = kernel.exprs.iter().filter_map(|node| Some((node.expr.load()?, node.level)));
    loads.all(|((slot, access), level)| {
        !slots.contains(&(slot as usize))
            || access.dynamic.is_empty() && access.affine == store.address && level == store.level
    })
}
