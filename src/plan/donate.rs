//! Donation: which leaves a realize may overwrite.
//!
//! A leaf's memory is free to reuse when nothing but the nodes that this
//! realize settles refers to it: afterwards nobody could read it. Several leaves
//! may be views of one buffer; then one that is all of it may be overwritten
//! once the others have been read.

use std::sync::Arc;

use crate::ir::collect::{AddressMap, Collected};
use crate::ir::{Buffer, Node, NodeId};

/// What is known of the leaves' memory, by leaf.
#[derive(Clone, Debug, Default)]
pub struct LeafMemory {
    /// Whether it may be overwritten.
    pub donated: Vec<bool>,
    /// The first leaf in the same buffer; perhaps itself.
    pub shared: Vec<u32>,
}

impl LeafMemory {
    /// Whether the n-th leaf may be overwritten.
    pub fn is_donated(&self) -> impl Fn(u32) -> bool {
        move |leaf| self.donated.get(leaf as usize).copied().unwrap_or(false)
    }
    /// The first leaf in the n-th one's buffer.
    pub fn first_with(&self) -> impl Fn(u32) -> u32 {
        move |leaf| self.shared.get(leaf as usize).copied().unwrap_or(leaf)
    }
}

/// Looks at who holds the leaves of a realize that makes values of all outputs,
/// which then let go of their operands.
pub fn leaf_memory(collected: &Collected) -> LeafMemory {
    let released = released_leaves(collected);
    let buffer = |leaf: &Arc<Node>| leaf.value().map(|value| Arc::as_ptr(&value.buffer));
    // By buffer: its first leaf, its views among the leaves, those released.
    let mut views: AddressMap<*const Buffer, (u32, usize, usize)> = AddressMap::default();
    for ((number, leaf), &released) in (0..).zip(collected.leaves()).zip(&released) {
        let Some(buffer) = buffer(leaf) else { continue };
        let known = views.entry(buffer).or_insert((number, 0, 0));
        known.1 += 1;
        known.2 += usize::from(released);
    }
    let donated = |leaf: &Arc<Node>| {
        let Some(value) = leaf.value() else { return false };
        let shape = &leaf.ty().shape;
        let (_, all, free) = views[&Arc::as_ptr(&value.buffer)];
        value.layout.offset == 0
            && value.layout.is_contiguous(shape)
            && value.buffer.bytes == leaf.ty().bytes()
            // A device may still be copying from it.
            && !value.buffer.is_pinned()
            && Arc::strong_count(&value.buffer) == all
            && all == free
    };
    let first = |leaf: &Arc<Node>| buffer(leaf).map_or(0, |buffer| views[&buffer].0);
    LeafMemory {
        donated: collected.leaves().map(donated).collect(),
        shared: collected.leaves().map(first).collect(),
    }
}

/// By leaf: whether nobody can read it once the outputs have values.
///
/// A node is released if it becomes a value, or if only released nodes refer to it.
fn released_leaves(collected: &Collected) -> Vec<bool> {
    let nodes = &collected.nodes;
    let mut edges = vec![0u32; nodes.len()];
    collected.all_operands().iter().for_each(|operand| edges[operand.index()] += 1);
    // One reference is the collection's own.
    let kept = |index: usize| Arc::strong_count(&nodes[index]) > edges[index] as usize + 1;
    if collected.leaf_ids().iter().all(|leaf| kept(leaf.index())) {
        return vec![false; collected.leaf_ids().len()];
    }
    let mut is_output = vec![false; nodes.len()];
    collected.outputs.iter().for_each(|output| is_output[output.index()] = true);
    // Users have higher numbers, so going down settles it.
    let mut kept_by_user = vec![false; nodes.len()];
    for index in (0..nodes.len()).rev() {
        if !is_output[index] && (kept_by_user[index] || kept(index)) {
            let operands = collected.operands(NodeId(index as u32));
            operands.iter().for_each(|operand| kept_by_user[operand.index()] = true);
        }
    }
    let released = |leaf: &NodeId| {
        let index = leaf.index();
        !is_output[index] && !kept_by_user[index] && !kept(index)
    };
    collected.leaf_ids().iter().map(released).collect()
}
