//! What the results of a realize fall back to where a device finds an index out of range.

use std::sync::Arc;

use crate::base::{Device, DeviceKind, Kind};
use crate::ir::collect::{AddressMap, Collected, NodeMap};
use crate::ir::pending::Cells;
use crate::ir::{Node, NodeId, Op};
use crate::schedule::fallback::Fallback;

/// A new value of some state, and the value before.
pub(crate) type Replacement = (Arc<Node>, Arc<Node>);

/// The fallbacks of a collection's outputs, which replace state: what an optimizer says, and what cells hold. What
/// was there before becomes a leaf, if it is none yet.
pub(crate) fn fallbacks(
    collected: &mut Collected,
    cells: &Cells,
    replacements: Vec<Replacement>,
) -> Vec<Fallback> {
    let of_cells = cells.replacements().map(|(new, before)| (new.clone(), before.clone()));
    let all: Vec<Replacement> = replacements.into_iter().chain(of_cells).filter(can_fall_back).collect();
    if all.is_empty() {
        return Vec::new();
    }
    let mut numbers = numbers(collected, &all);
    let output = |(new, before): Replacement| {
        let new = numbers[&Arc::as_ptr(&new)]?;
        Some((collected.outputs.iter().position(|&output| output == new)?, before))
    };
    let mut found: Vec<(usize, Arc<Node>)> = all.into_iter().filter_map(output).collect();
    // Cells come in any order, on which the plan must not depend.
    found.sort_by_key(|(output, _)| *output);
    found.dedup_by_key(|(output, _)| *output);
    let fallback = |(output, before): (usize, Arc<Node>)| {
        let number = numbers.entry(Arc::as_ptr(&before)).or_default();
        if number.is_none() && before.value().is_some() {
            *number = Some(collected.add_leaf(before));
        }
        Some(Fallback { output: output as u32, before: (*number)? })
    };
    found.into_iter().filter_map(fallback).collect()
}

fn can_fall_back((new, before): &Replacement) -> bool {
    tells_late(new.ty().device) && new.ty() == before.ty()
}

/// Whether a device tells of an index out of range when the host next waits.
pub(crate) fn tells_late(device: Device) -> bool {
    match device.kind {
        DeviceKind::Wgpu | DeviceKind::Cuda => true,
        DeviceKind::Cpu | DeviceKind::Meta | DeviceKind::Null => false,
    }
}

/// Whether an index may turn out to be out of range when some nodes are computed. Within a body only whole numbers
/// from outside are looked for.
pub(crate) fn looks_up(nodes: Vec<Arc<Node>>) -> bool {
    let (mut to_do, mut seen) = (nodes, NodeMap::default());
    while let Some(node) = to_do.pop() {
        if node.value().is_some() || seen.insert(Arc::as_ptr(&node) as usize, ()).is_some() {
            continue;
        }
        // What another thread computes is none of this one's work.
        let Some(operands) = node.operands_now().map(|operands| operands.clone()) else { continue };
        let whole = |operand: &Arc<Node>| operand.ty().dtype.kind() == Kind::Int;
        let in_body = || node.op().body().is_some() && operands.iter().any(whole);
        if matches!(node.op(), Op::Gather(_) | Op::Scatter(..)) || in_body() {
            return true;
        }
        to_do.extend(operands);
    }
    false
}

/// The numbers that nodes have in a collection.
fn numbers(collected: &Collected, all: &[Replacement]) -> AddressMap<*const Node, Option<NodeId>> {
    let nodes = all.iter().flat_map(|(new, before)| [new, before]);
    let mut numbers: AddressMap<*const Node, Option<NodeId>> =
        nodes.map(|node| (Arc::as_ptr(node), None)).collect();
    for (id, node) in (0..).map(NodeId).zip(&collected.nodes) {
        if let Some(number) = numbers.get_mut(&Arc::as_ptr(node)) {
            *number = Some(id);
        }
    }
    numbers
}
