//! Views: movement of data in memory that needs no kernel.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::base::Shape;
use crate::ir::{Layout, Leaf, Node, Op};

/// The value of a node that only moves a realized one, as a view of its
/// memory; `None` if elements would have to be copied.
pub fn view(node: &Arc<Node>) -> Option<Leaf> {
    let (below, moves) = moved_from(node);
    let value = below.value()?;
    let layout = layout_after(&moves, &below, &value.layout)?;
    Some(Leaf { buffer: value.buffer.clone(), layout })
}

/// The node of which a node is a contiguous range, in row-major order, and the range's
/// first element: perhaps itself. `None` if it is no such range.
pub fn contiguous_range(node: &Arc<Node>) -> Option<(Arc<Node>, usize)> {
    let (below, moves) = moved_from(node);
    let layout = layout_after(&moves, &below, &Layout::contiguous(&below.ty().shape))?;
    layout.is_contiguous(&node.ty().shape).then_some((below, layout.offset as usize))
}

/// The first node below that is not movement, or has a value; and the
/// movement, from the node down.
fn moved_from(node: &Arc<Node>) -> (Arc<Node>, Vec<Arc<Node>>) {
    let mut moves: Vec<Arc<Node>> = Vec::new();
    let mut below = node.clone();
    let movement = |op: &Op| {
        matches!(op, Op::Reshape(_) | Op::Permute(_) | Op::Expand(_) | Op::Slice(_) | Op::Window(_))
    };
    while below.value().is_none() && movement(below.op()) {
        // What another thread computes is looked at once it has a value.
        let operand = below.operands_now().and_then(|operands| operands.first().cloned());
        let Some(operand) = operand else { break };
        moves.push(std::mem::replace(&mut below, operand));
    }
    (below, moves)
}

fn layout_after(moves: &[Arc<Node>], below: &Node, start: &Layout) -> Option<Layout> {
    let (mut layout, mut shape) = (start.clone(), below.ty().shape.clone());
    for node in moves.iter().rev() {
        layout = layout_of_movement(node.op(), &shape, &layout)?;
        shape = node.ty().shape.clone();
    }
    Some(layout)
}

/// The layout after one movement; `None` if strides cannot express it.
fn layout_of_movement(op: &Op, shape: &Shape, layout: &Layout) -> Option<Layout> {
    let strides = &layout.strides;
    let at_same_start = |strides| Some(Layout { offset: layout.offset, strides });
    if let Op::Reshape(target) = op {
        reshaped(shape, layout, target)
    } else if let Op::Permute(order) = op {
        at_same_start(order.iter().map(|&axis| strides[usize::from(axis)]).collect())
    } else if let Op::Expand(target) = op {
        let lead = target.rank() - shape.rank();
        let repeated = |i: usize| i < lead || (shape[i - lead] == 1 && target[i] != 1);
        let stride = |i: usize| if repeated(i) { 0 } else { strides[i - lead] };
        at_same_start((0..target.rank()).map(stride).collect())
    } else if let Op::Slice(axes) = op {
        // An empty slice may start past the end; nothing is read there.
        let start = |(slice, stride): (&crate::ir::SliceAxis, &i64)| {
            if slice.start < slice.stop { slice.start as i64 * stride } else { 0 }
        };
        let offset = layout.offset + axes.iter().zip(strides).map(start).sum::<i64>();
        let strides = axes.iter().zip(strides).map(|(slice, stride)| slice.step as i64 * stride).collect();
        Some(Layout { offset, strides })
    } else if let Op::Window(window) = op {
        let mut strides = strides.clone();
        let axis = usize::from(window.axis);
        let step = strides[axis];
        strides[axis] = step * window.stride as i64;
        strides.push(step * window.dilation as i64);
        at_same_start(strides)
    } else {
        None
    }
}

/// Runs of axes with equal products correspond; a run keeps its memory if
/// its axes are contiguous among themselves.
fn reshaped(shape: &Shape, layout: &Layout, target: &Shape) -> Option<Layout> {
    if shape.numel() == 0 {
        return Some(Layout { offset: layout.offset, strides: target.strides() });
    }
    let from: Vec<(usize, i64)> =
        shape.iter().copied().zip(layout.strides.iter().copied()).filter(|axis| axis.0 != 1).collect();
    let mut strides: SmallVec<[i64; 4]> = SmallVec::from_elem(0, target.rank());
    let (mut i, mut j) = (0, 0);
    while i < from.len() {
        let (first, mut old, mut new) = (i, from[i].0, 1);
        i += 1;
        let start = j;
        while old != new {
            if new < old {
                new *= target[j];
                j += 1;
            } else {
                old *= from[i].0;
                i += 1;
            }
        }
        let dense = from[first..i].windows(2).all(|pair| pair[0].1 == pair[1].1 * pair[1].0 as i64);
        if !dense {
            return None;
        }
        let mut stride = from[i - 1].1;
        for axis in (start..j).rev() {
            strides[axis] = stride;
            stride *= target[axis] as i64;
        }
    }
    Some(Layout { offset: layout.offset, strides })
}
