//! Donation: which leaves a realize may overwrite.
//!
//! A leaf's memory is free to reuse when nothing but the nodes that this
//! realize settles refers to it: afterwards nobody could read it. Several leaves
//! may be views of one buffer; then one that is all of it may be overwritten
//! once the others have been read.
//!
//! Other threads may let go of nodes meanwhile, and take hold of what is below those that they hold. So this is
//! found out under a claim on the outputs ([`crate::ir::claim`]), which keeps others from what only they lead to,
//! and users are looked at before what they use: who held a user, and holds its operand now, is seen at
//! one of them.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use crate::base::Optimization;
use crate::ir::collect::{AddressMap, Collected, NodeMap};
use crate::ir::pending::Cells;
use crate::ir::{DeviceBuffer, Node, NodeId};

/// Ownership of the leaves' memory, by leaf.
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

/// References that cells hold to their fall-back values, and release once the realize succeeds.
#[derive(Default)]
struct FallbackReferences {
    nodes: NodeMap<usize>,
    /// Of memory, through nodes that nobody else holds.
    buffers: AddressMap<*const DeviceBuffer, usize>,
}

impl FallbackReferences {
    fn of(cells: &Cells) -> FallbackReferences {
        let mut found = FallbackReferences::default();
        for (node, times) in cells.before() {
            *found.nodes.entry(Arc::as_ptr(node) as usize).or_default() += times;
            if Arc::strong_count(node) == times
                && let Some(value) = node.value()
            {
                *found.buffers.entry(Arc::as_ptr(&value.buffer)).or_default() += 1;
            }
        }
        found
    }
    fn of_node(&self, node: &Arc<Node>) -> usize {
        self.nodes.get(&(Arc::as_ptr(node) as usize)).copied().unwrap_or(0)
    }
    fn of_buffer(&self, buffer: &Arc<DeviceBuffer>) -> usize {
        self.buffers.get(&Arc::as_ptr(buffer)).copied().unwrap_or(0)
    }
}

/// Finds the leaves that a realize may overwrite. The outputs become values and then
/// release their operands. `cells` hold some of the outputs.
pub fn leaf_memory(collected: &Collected, cells: &Cells) -> LeafMemory {
    let fall_backs = FallbackReferences::of(cells);
    let released = released_leaves(collected, &fall_backs);
    fence(Ordering::Acquire);
    let buffer = |leaf: &Arc<Node>| leaf.value().map(|value| Arc::as_ptr(&value.buffer));
    // By buffer: its first leaf, its views among the leaves, those released.
    let mut views: AddressMap<*const DeviceBuffer, (u32, usize, usize)> = AddressMap::default();
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
        Optimization::Donation.is_on()
            && value.layout.offset == 0
            && value.layout.is_contiguous(shape)
            && value.buffer.bytes == leaf.ty().bytes()
            // A device may still be copying from it.
            && !value.buffer.is_pinned()
            && Arc::strong_count(&value.buffer) == all + fall_backs.of_buffer(&value.buffer)
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
fn released_leaves(collected: &Collected, fall_backs: &FallbackReferences) -> Vec<bool> {
    let nodes = &collected.nodes;
    let edges = collected.edges();
    // One reference is the collection's own.
    let kept = |index: usize| {
        let own = edges[index] as usize + 1 + fall_backs.of_node(&nodes[index]);
        let kept = Arc::strong_count(&nodes[index]) > own;
        // What is below is looked at afterwards.
        fence(Ordering::Acquire);
        kept
    };
    if collected.leaf_ids().iter().all(|leaf| kept(leaf.index())) {
        return vec![false; collected.leaf_ids().len()];
    }
    let mut is_output = vec![false; nodes.len()];
    collected.outputs.iter().for_each(|output| is_output[output.index()] = true);
    // Users have higher numbers, so going down settles it.
    let mut kept_by_user = vec![false; nodes.len()];
    for index in (0..nodes.len()).rev() {
        let keeps = if is_output[index] {
            nodes[index].remembers()
        } else {
            kept_by_user[index] || kept(index) || nodes[index].is_root()
        };
        if keeps {
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
