//! Donation: which leaves a realize may overwrite.
//!
//! A leaf's memory is free to reuse when nothing but the nodes that this
//! realize settles refers to it: afterwards nobody could read it.

use std::collections::HashMap;
use std::sync::Arc;

use crate::ir::collect::Collected;

/// For each leaf, whether its memory may be overwritten. `outputs` are the
/// nodes that will have values afterwards, and so let go of their operands;
/// `held[i]` is the number of handles to the i-th node that the caller of
/// realize itself holds.
pub fn donated(collected: &Collected) -> Vec<bool> {
    let graph = &collected.graph;
    let mut edges = vec![0usize; graph.nodes.len()];
    graph.nodes.iter().flat_map(|node| &node.operands).for_each(|operand| edges[operand.index()] += 1);
    // A node is released if it becomes a value, or if only released nodes
    // refer to it. Users have higher numbers, so going down settles it.
    let mut kept_by_user = vec![false; graph.nodes.len()];
    let mut released = vec![false; graph.nodes.len()];
    for id in graph.ids().rev() {
        let index = id.index();
        let is_output = graph.outputs.contains(&id);
        // One reference is `collected.nodes`; leaves have another in `collected.leaves`.
        let is_leaf = collected.nodes[index].value().is_some();
        let own = 1 + usize::from(is_leaf);
        let elsewhere = Arc::strong_count(&collected.nodes[index]) > edges[index] + own;
        released[index] = is_output || (!elsewhere && !kept_by_user[index]);
        if is_leaf {
            released[index] = !is_output && !elsewhere && !kept_by_user[index];
        }
        if !released[index] {
            graph.node(id).operands.iter().for_each(|operand| kept_by_user[operand.index()] = true);
        }
    }
    let mut views: HashMap<*const crate::ir::Buffer, usize> = HashMap::new();
    let buffers = || collected.leaves.iter().filter_map(|leaf| leaf.value());
    buffers().for_each(|value| *views.entry(Arc::as_ptr(&value.buffer)).or_default() += 1);
    let alone = |value: &crate::ir::Leaf| {
        Arc::strong_count(&value.buffer) == 1 && views[&Arc::as_ptr(&value.buffer)] == 1
    };
    let numbers = graph.ids().filter(|id| collected.nodes[id.index()].value().is_some());
    let mut donated = vec![false; collected.leaves.len()];
    for (leaf, id) in numbers.enumerate() {
        let value = collected.leaves[leaf].value();
        let whole = value.is_some_and(|v| {
            v.layout.offset == 0
                && v.layout.is_contiguous(&collected.leaves[leaf].ty().shape)
                && v.buffer.bytes == collected.leaves[leaf].ty().bytes()
        });
        donated[leaf] = whole && released[id.index()] && value.is_some_and(&alone);
    }
    donated
}
