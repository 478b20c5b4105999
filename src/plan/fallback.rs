//! What the results of a realize fall back to where a device finds an index out of range.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::{Device, DeviceKind, Scalar, Span};
use crate::ir::collect::{Collected, NodeMap};
use crate::ir::pending::Cells;
use crate::ir::{Layout, Leaf, Node, NodeId, Op, Packing, Type};
use crate::plan::view::contiguous_range;
use crate::schedule::fallback::Fallback;

/// A new value of some state, and the value before: `None` for a sum that begins.
pub(crate) type Replacement = (Arc<Node>, Option<Arc<Node>>);

/// A part of an output: its first element, and what it replaces.
struct Part {
    start: usize,
    replacement: Replacement,
}

/// The fallbacks of a collection's outputs, which replace state: what an optimizer says, and what cells hold, wholly
/// or in parts. What was there before becomes a leaf, if it is none yet.
pub(crate) fn fallbacks(
    collected: &mut Collected,
    cells: &Cells,
    replacements: Vec<Replacement>,
) -> Vec<Fallback> {
    let of_cells = cells.replacements().map(|(new, before)| (new.clone(), before.cloned()));
    let all: Vec<Replacement> = replacements.into_iter().chain(of_cells).filter(can_fall_back).collect();
    if all.is_empty() || !collected.nodes.iter().any(|node| node.value().is_none() && uses_indices(node)) {
        return Vec::new();
    }
    let outputs = collected.outputs.iter().enumerate();
    let outputs: NodeMap<usize> =
        outputs.map(|(output, id)| (address(&collected.nodes[id.index()]), output)).collect();
    // Cells come in any order, on which the plan must not depend.
    let mut replaced: BTreeMap<usize, Vec<Part>> = BTreeMap::new();
    for replacement in all {
        let Some((whole, start)) = placed(&outputs, &replacement.0) else { continue };
        replaced.entry(whole).or_default().push(Part { start, replacement });
    }
    let mut before = Before::of(collected);
    let fallback = |(output, parts): (usize, Vec<Part>)| {
        Some(Fallback { output: output as u32, before: before.of_parts(output, parts)? })
    };
    replaced.into_iter().filter_map(fallback).collect()
}

fn can_fall_back((new, before): &Replacement) -> bool {
    tells_late(new.ty().device) && before.as_ref().is_none_or(|before| new.ty() == before.ty())
}

/// The output that a node is, or is a range of, and the first element there.
fn placed(outputs: &NodeMap<usize>, node: &Arc<Node>) -> Option<(usize, usize)> {
    if let Some(&output) = outputs.get(&address(node)) {
        return Some((output, 0));
    }
    let (whole, start) = contiguous_range(node)?;
    Some((*outputs.get(&address(&whole))?, start))
}

/// What was there before, as nodes of a collection.
struct Before<'a> {
    collected: &'a mut Collected,
    numbers: NodeMap<NodeId>,
}

impl Before<'_> {
    fn of(collected: &mut Collected) -> Before<'_> {
        let nodes = collected.nodes.iter().zip((0..).map(NodeId));
        let numbers = nodes.map(|(node, id)| (address(node), id)).collect();
        Before { collected, numbers }
    }

    /// What an output replaces; `None` if that cannot be told.
    fn of_parts(&mut self, output: usize, mut parts: Vec<Part>) -> Option<NodeId> {
        let ty = self.collected.nodes[self.collected.outputs[output].index()].ty().clone();
        if let Some(whole) = parts.iter().find(|part| *part.replacement.0.ty() == ty) {
            return self.number(&whole.replacement);
        }
        if parts.iter().all(|part| part.replacement.1.is_none()) {
            return Some(self.zeros(&ty));
        }
        parts.sort_by_key(|part| part.start);
        parts.dedup_by_key(|part| part.start);
        if let Some(value) = in_memory(&ty, &parts) {
            return Some(self.leaf(ty, value));
        }
        let operands: Vec<NodeId> =
            parts.iter().map(|part| self.number(&part.replacement)).collect::<Option<_>>()?;
        let starts = parts.iter().map(|part| part.start).collect();
        let packing = Packing { starts, shape: ty.shape.clone() };
        Some(self.add(Op::Pack(Box::new(packing)), ty, &operands))
    }

    fn number(&mut self, (new, before): &Replacement) -> Option<NodeId> {
        let Some(before) = before else { return Some(self.zeros(new.ty())) };
        if let Some(&number) = self.numbers.get(&address(before)) {
            return Some(number);
        }
        before.value()?;
        let number = self.collected.add(before.clone(), &[]);
        self.numbers.insert(address(before), number);
        Some(number)
    }

    /// The leaf with a value, all of a block of memory.
    fn leaf(&mut self, ty: Type, value: Leaf) -> NodeId {
        let is_it = |leaf: &Arc<Node>| {
            *leaf.ty() == ty && leaf.value().is_some_and(|known| Arc::ptr_eq(&known.buffer, &value.buffer))
        };
        let found = self.collected.leaves().position(is_it);
        match found {
            Some(leaf) => self.collected.leaf_ids()[leaf],
            None => self.collected.add(Node::leaf(ty, value, Span::caller()), &[]),
        }
    }

    fn zeros(&mut self, ty: &Type) -> NodeId {
        let zero = Op::Const(Scalar::Int(0).cast(ty.dtype), ty.dtype, ty.device);
        let zero = self.add(zero, Type::scalar(ty.dtype, ty.device), &[]);
        if ty.shape.rank() == 0 { zero } else { self.add(Op::expand(&ty.shape), ty.clone(), &[zero]) }
    }

    fn add(&mut self, op: Op, ty: Type, operands: &[NodeId]) -> NodeId {
        let nodes = operands.iter().map(|id| self.collected.nodes[id.index()].clone()).collect();
        self.collected.add(Node::new(op, ty, nodes, Span::caller()), operands)
    }
}

/// The memory that holds what parts of an output replace, as they lie in it.
fn in_memory(ty: &Type, parts: &[Part]) -> Option<Leaf> {
    let buffer = &parts.first()?.replacement.1.as_ref()?.value()?.buffer;
    let lies_there = |part: &Part| {
        let before = part.replacement.1.as_ref();
        before.and_then(|before| Some((before.ty(), before.value()?))).is_some_and(|(ty, value)| {
            let dense = value.layout.is_contiguous(&ty.shape) && value.layout.offset == part.start as i64;
            dense && Arc::ptr_eq(&value.buffer, buffer)
        })
    };
    let fits = ty.bytes() == buffer.bytes && parts.iter().all(lies_there);
    fits.then(|| Leaf { buffer: buffer.clone(), layout: Layout::contiguous(&ty.shape) })
}

fn address(node: &Arc<Node>) -> usize {
    Arc::as_ptr(node) as usize
}

/// Whether a device tells of an index out of range when the host next waits.
pub(crate) fn tells_late(device: Device) -> bool {
    match device.kind {
        DeviceKind::Wgpu | DeviceKind::Cuda => true,
        DeviceKind::Cpu | DeviceKind::Meta | DeviceKind::Null => false,
    }
}

/// Whether an index may turn out to be out of range when some nodes are computed.
pub(crate) fn looks_up(nodes: Vec<Arc<Node>>) -> bool {
    let (mut to_do, mut seen) = (nodes, NodeMap::default());
    while let Some(node) = to_do.pop() {
        if node.value().is_some() || seen.insert(address(&node), ()).is_some() {
            continue;
        }
        if uses_indices(&node) {
            return true;
        }
        // What another thread computes is none of this one's work.
        let Some(operands) = node.operands_now().map(|operands| operands.clone()) else { continue };
        to_do.extend(operands);
    }
    false
}

/// Whether an operation is one that uses an index, or its body has one.
fn uses_indices(node: &Node) -> bool {
    let is_one = node.op().uses_indices();
    is_one || node.op().body().is_some_and(|body| looks_up(body.results.clone()))
}
