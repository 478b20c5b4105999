//! Independent checkers of the clever passes. They know only what a valid
//! result is, not how it was found.

use std::collections::{HashMap, HashSet};

use crate::ir::{Graph, NodeId, Op};
use crate::schedule::memory::{Memory, Place};
use crate::schedule::order::Step;

/// Checks that steps compute every result, write each value once, and read
/// nothing before it is written. Gives every violation.
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
        }
        wrong.extend(
            reads_below(graph, step).map(|id| format!("step {now} needs {id:?}, which it does not read")),
        );
    }
    for output in graph.outputs.iter().filter(|&&output| !available(&written, output)) {
        wrong.push(format!("the result {output:?} is never written"));
    }
    wrong
}

/// Values that a step's outputs depend on by paths through neither its
/// inputs nor sources: walking the graph from its outputs must end at its inputs.
fn reads_below(graph: &Graph, step: &Step) -> impl Iterator<Item = NodeId> {
    let inputs: HashSet<NodeId> = step.inputs.iter().copied().collect();
    let mut missing = Vec::new();
    let mut seen: HashSet<NodeId> = step.outputs.iter().copied().collect();
    let mut pending: Vec<NodeId> = step.outputs.clone();
    while let Some(id) = pending.pop() {
        for &operand in &graph.node(id).operands {
            if inputs.contains(&operand) || !seen.insert(operand) {
                continue;
            }
            if matches!(graph.node(operand).op, Op::Param(..)) && graph.ty(operand).shape.numel() > 0 {
                missing.push(operand);
            }
            pending.push(operand);
        }
    }
    // An empty intermediate makes its operands irrelevant.
    missing.retain(|_| !graph.nodes.iter().any(|node| node.ty.shape.numel() == 0));
    missing.into_iter()
}

/// Checks that no two values alive at once share memory, by replaying the
/// steps on a map of bytes. Gives every violation.
pub fn check_memory(graph: &Graph, steps: &[Step], memory: &Memory) -> Vec<String> {
    let mut wrong = Vec::new();
    // Per device: the bytes each living value was last written to.
    let mut alive: HashMap<NodeId, (usize, usize)> = HashMap::new();
    let last = |id: NodeId| steps.iter().rposition(|step| step.inputs.contains(&id));
    for (now, step) in steps.iter().enumerate() {
        for input in &step.inputs {
            let in_arena = matches!(memory.places.get(input), Some(Place::Arena(_)));
            if in_arena && !alive.contains_key(input) {
                wrong.push(format!("step {now} reads {input:?}, whose memory was overwritten"));
            }
        }
        for &output in &step.outputs {
            let Some(place) = memory.places.get(&output) else {
                wrong.push(format!("{output:?} has no memory"));
                continue;
            };
            let Place::Arena(offset) = *place else { continue };
            let range = (offset, offset + graph.ty(output).bytes());
            let device = graph.ty(output).device;
            let arena = memory.arenas.iter().find(|arena| arena.0 == device).map_or(0, |arena| arena.1);
            if range.1 > arena {
                wrong.push(format!("{output:?} ends at {} in an arena of {arena} bytes", range.1));
            }
            alive.retain(|&other, &mut (start, end)| {
                let apart = end <= range.0 || range.1 <= start || graph.ty(other).device != device;
                let needed = last(other).is_some_and(|last| last > now);
                if !apart && needed {
                    wrong.push(format!("step {now} writes {output:?} over {other:?}, which is still needed"));
                }
                apart
            });
            alive.insert(output, range);
        }
    }
    wrong
}
