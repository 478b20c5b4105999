//! Whether gradients are there, where an index found out of range late makes void what would have been one.
//!
//! A sum of gradients that a device finds void keeps what it was; one that would have begun has nothing to keep. So
//! the device computes with it whether it is there ([`GradPresence`]): what is not there counts as zeros where
//! gradients are added or read, and an optimizer makes no step from it. The sum itself is left as it is, which
//! costs nothing where all is well.

use std::cell::LazyCell;
use std::sync::Arc;

use crate::base::{Device, OpName, Span};
use crate::ir::history::{GradCell, GradPresence, GradSum};
use crate::ir::pending::Holder;
use crate::plan::fallback::{looks_up, tells_late};
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;

/// The sum of the gradients in a cell: zeros where the device finds that there is none.
pub(crate) fn sum_in(cell: &GradCell, span: Span) -> Option<Tensor> {
    let GradSum { node, presence } = cell.sum()?;
    let site = CallSite { name: OpName::GRADIENT, span };
    Some(present_or_zeros(site, presence.as_deref(), Tensor::from_node(node)))
}

/// A sum as it is in memory, or zeros.
pub(super) fn present_or_zeros(site: CallSite, presence: Option<&GradPresence>, sum: Tensor) -> Tensor {
    match presence.and_then(Holder::held).map(Tensor::from_node) {
        Some(present) => site.select(&present, &sum, 0.0, sum.dtype()),
        None => sum,
    }
}

/// For each cell, whether a gradient will be in its sum, where only the device will know: what begins the sum may use
/// an index that turns out to be out of range.
pub(super) fn presences(
    span: Span,
    cells: &[(Arc<GradCell>, Tensor)],
    held: &[Option<GradSum>],
) -> Vec<Option<Arc<GradPresence>>> {
    let nodes = || cells.iter().filter_map(|(_, new)| new.peek().cloned()).collect();
    let looks_up = LazyCell::new(|| looks_up(nodes()));
    let mut known: Vec<(Device, Option<Arc<GradPresence>>, Arc<GradPresence>)> = Vec::new();
    let mut presence = |new: &Tensor, held: &Option<GradSum>| {
        let (device, before) = (new.device(), held.as_ref().and_then(|held| held.presence.clone()));
        let is_sure = held.is_some() && before.is_none();
        if is_sure || !tells_late(device) || (before.is_none() && !*looks_up) {
            return None;
        }
        let address = |presence: &Option<Arc<GradPresence>>| presence.as_ref().map(Arc::as_ptr);
        let same = known.iter().find(|known| known.0 == device && address(&known.1) == address(&before));
        if let Some((_, _, presence)) = same {
            return Some(presence.clone());
        }
        let presence = Arc::new(GradPresence::after(before.as_deref(), device, span));
        known.push((device, before, presence.clone()));
        Some(presence)
    };
    cells.iter().zip(held).map(|((_, new), held)| presence(new, held)).collect()
}
