//! Independent checkers of the clever passes. They know only what a valid
//! result is, not how it was found.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::base::Device;
use crate::ir::{Graph, NodeId, Op};
use crate::kernel::{Expr, Kernel, Store};
use crate::schedule::class::{Class, class};
use crate::schedule::memory::{ALIGN, Memory, Place};
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
        for input in step.inputs.iter().filter(|&&input| !available(&written, input)) {
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
    for output in graph.outputs.iter().filter(|&&output| !available(&written, output)) {
        wrong.push(format!("the result {output:?} is never written"));
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
        for &operand in graph.node(id).operands.iter().filter(|&operand| full(operand)) {
            if inputs.contains(&operand) || !seen.insert(operand) {
                continue;
            }
            let node = graph.node(operand);
            let same_device = node.operands.iter().all(|&below| graph.ty(below).device == node.ty.device);
            if matches!(class(node, same_device), Class::Input | Class::Scatter | Class::Opaque) {
                missing.push(operand);
            } else {
                pending.push(operand);
            }
        }
    }
    missing.into_iter()
}

/// Whether a step's inputs and outputs are its kernel's, in order. A scatter
/// also names the base that it updates.
fn binds(graph: &Graph, kernel: &Kernel, step: &Step) -> bool {
    let base = kernel.scatter.iter().map(|scatter| graph.node(scatter.node).operands[0]);
    let inputs = kernel.inputs.iter().map(|input| input.node).chain(base);
    let scattered = kernel.scatter.iter().map(|scatter| scatter.node);
    let outputs = kernel.stores.iter().map(|store| store.node).chain(scattered);
    inputs.eq(step.inputs.iter().copied()) && outputs.eq(step.outputs.iter().copied())
}

/// A piece of memory that no other overlaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    Arena(Device),
    Result(u32),
    Param(u32),
}

/// The bytes that a value occupies.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Region {
    block: Block,
    bytes: Range<usize>,
}

impl Region {
    fn overlaps(&self, other: &Region) -> bool {
        let (start, end) = (self.bytes.start.max(other.bytes.start), self.bytes.end.min(other.bytes.end));
        self.block == other.block && start < end
    }
}

/// Checks that no step overwrites a value that is needed later, by replaying
/// the steps on a map of bytes, and that every value fits where it is.
/// `donated(n)` says whether parameter `n` may be overwritten. Gives every
/// violation.
pub fn check_memory(
    graph: &Graph,
    steps: &[Step],
    memory: &Memory,
    donated: &dyn Fn(u32) -> bool,
) -> Vec<String> {
    let mut wrong = Vec::new();
    let last = last_reads(graph, steps);
    let params = graph.ids().filter(|&id| matches!(graph.node(id).op, Op::Param(..)));
    let mut alive: HashMap<NodeId, Region> =
        params.filter_map(|id| Some((id, region(graph, memory, id)?))).collect();
    for (now, step) in steps.iter().enumerate() {
        for input in step.inputs.iter().filter(|&input| !alive.contains_key(input)) {
            wrong.push(format!("step {now} reads {input:?}, whose memory was overwritten"));
        }
        for &output in &step.outputs {
            let Some(new) = region(graph, memory, output) else {
                wrong.push(format!("{output:?} has no memory"));
                continue;
            };
            wrong.extend(misplaced(graph, memory, output, &new, donated));
            for (&other, _) in alive.iter().filter(|(_, region)| region.overlaps(&new)) {
                if last[other.index()] > Some(now) {
                    wrong.push(format!("step {now} writes {output:?} over {other:?}, which is still needed"));
                } else if last[other.index()] == Some(now)
                    && step.inputs.contains(&other)
                    && !(alive[&other] == new && in_place(graph, step, other, output))
                {
                    wrong.push(format!("step {now} writes {output:?} over {other:?} while reading it"));
                }
            }
            alive.retain(|_, region| !region.overlaps(&new));
            alive.insert(output, new);
        }
    }
    wrong
}

/// The last step that reads each value, if any does; results are read at the end.
fn last_reads(graph: &Graph, steps: &[Step]) -> Vec<Option<usize>> {
    let mut last = vec![None; graph.nodes.len()];
    for (now, step) in steps.iter().enumerate() {
        step.inputs.iter().for_each(|input| last[input.index()] = Some(now));
    }
    graph.outputs.iter().for_each(|output| last[output.index()] = Some(steps.len()));
    last
}

/// Where a value lies; a donated parameter's memory is the parameter's.
fn region(graph: &Graph, memory: &Memory, id: NodeId) -> Option<Region> {
    let ty = graph.ty(id);
    let (block, start) = match *memory.places.get(&id)? {
        Place::Param(number) => (Block::Param(number), 0),
        Place::Arena(offset) => (Block::Arena(ty.device), offset),
        Place::Result(number) => match memory.results.get(number as usize)?.donated {
            Some(param) => (Block::Param(param), 0),
            None => (Block::Result(number), 0),
        },
    };
    Some(Region { block, bytes: start..start + ty.bytes() })
}

/// What is wrong with a value's place by itself.
fn misplaced(
    graph: &Graph,
    memory: &Memory,
    id: NodeId,
    region: &Region,
    donated: &dyn Fn(u32) -> bool,
) -> Vec<String> {
    let mut wrong = Vec::new();
    if !region.bytes.start.is_multiple_of(ALIGN) {
        wrong.push(format!("{id:?} starts at {}, not at a multiple of {ALIGN}", region.bytes.start));
    }
    let size = match region.block {
        Block::Arena(device) => {
            memory.arenas.iter().find(|arena| arena.0 == device).map_or(0, |arena| arena.1)
        }
        Block::Result(number) => memory.results[number as usize].bytes,
        Block::Param(number) => {
            if !donated(number) {
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
    if let Some(scatter) = &kernel.scatter {
        return graph.node(scatter.node).operands[0] == input;
    }
    let Some(store) = kernel.stores.iter().find(|store| store.node == output) else { return false };
    let copied = |store: &Store| matches!(kernel.exprs[store.value.index()].expr, Expr::Load(..));
    let sum = matches!(kernel.exprs[store.value.index()].expr, Expr::Accumulator);
    if kernel.stores.len() > 1 && (sum || kernel.stores.iter().any(|s| s.level > 0 || copied(s))) {
        return false;
    }
    let slots: Vec<usize> =
        (0..kernel.inputs.len()).filter(|&slot| kernel.inputs[slot].node == input).collect();
    let mut loads = kernel.exprs.iter().filter_map(|node| Some((node.expr.load()?, node.level)));
    loads.all(|((slot, access), level)| {
        !slots.contains(&(slot as usize))
            || access.dynamic.is_empty() && access.affine == store.address && level == store.level
    })
}
