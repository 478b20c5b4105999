//! What the results of a realize fall back to where a device finds an index out of range.

use std::sync::Arc;

use crate::base::{Device, DeviceKind};
use crate::ir::collect::{AddressMap, Collected};
use crate::ir::pending::Cells;
use crate::ir::{Node, NodeId, Op, ScatterMode};
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
    let mut found: Vec<Fallback> = Vec::with_capacity(all.len());
    for (new, before) in &all {
        let Some(new) = numbers[&Arc::as_ptr(new)] else { continue };
        let Some(output) = collected.outputs.iter().position(|&output| output == new) else { continue };
        let number = numbers.entry(Arc::as_ptr(before)).or_default();
        if number.is_none() && before.value().is_some() {
            *number = Some(collected.add_leaf(before.clone()));
        }
        let Some(before) = *number else { continue };
        let fallback = Fallback { output: output as u32, before };
        if !found.iter().any(|known| known.output == fallback.output) {
            found.push(fallback);
        }
    }
    found
}

/// What overwrites a part of what was there costs what it writes, and choosing all of it would copy the rest: it
/// stays written.
fn can_fall_back((new, before): &Replacement) -> bool {
    tells_late(new.ty().device)
        && new.ty() == before.ty()
        && !matches!(new.op(), Op::Scatter(_, ScatterMode::Set))
}

/// Whether a device tells of an index out of range when the host next waits.
pub(crate) fn tells_late(device: Device) -> bool {
    match device.kind {
        DeviceKind::Wgpu | DeviceKind::Cuda => true,
        DeviceKind::Cpu | DeviceKind::Meta | DeviceKind::Null => false,
    }
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
