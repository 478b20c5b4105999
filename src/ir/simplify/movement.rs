//! Movement: identities, compositions, and the movement of repeated numbers.

use crate::base::Shape;
use crate::ir::alu::AluOp;
use crate::ir::graph::{GraphNode, NodeId};
use crate::ir::op::{Axes, Op, PadAxis, SliceAxis};
use crate::ir::rewrite::{GraphBuilder, RewriteRule};
use crate::ir::ty::Type;

pub(super) const RULES: &[RewriteRule] = &[
    RewriteRule { name: "movement that changes nothing", exact: true, apply: identity },
    RewriteRule { name: "nothing from anything", exact: true, apply: empty },
    RewriteRule { name: "movement of a repeated number", exact: true, apply: move_uniform },
    RewriteRule { name: "reshape of reshape", exact: true, apply: reshape_reshape },
    RewriteRule { name: "permute of permute", exact: true, apply: permute_permute },
    RewriteRule { name: "expand of expand", exact: true, apply: expand_expand },
    RewriteRule { name: "flip of flip, flip of extent 1", exact: true, apply: flip_flip },
    RewriteRule { name: "slice of slice", exact: true, apply: slice_slice },
    RewriteRule { name: "pad that only crops", exact: true, apply: crop },
    RewriteRule { name: "slice of the inside of a pad", exact: true, apply: slice_pad },
    RewriteRule { name: "pad of pad", exact: true, apply: pad_pad },
    RewriteRule { name: "windows of one element", exact: true, apply: unit_window },
    RewriteRule { name: "the elements of windows apart", exact: true, apply: windows_apart },
];

fn identity(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let x = *node.operands.first()?;
    let same = b.graph.ty(x).shape == node.ty.shape;
    let nothing = match &node.op {
        Op::Reshape(_) | Op::Expand(_) => same,
        Op::Permute(order) => order.iter().enumerate().all(|(i, &axis)| i == usize::from(axis)),
        Op::Slice(axes) => same && axes.iter().zip(&node.ty.shape[..]).all(|(s, &n)| s.step == 1 || n <= 1),
        Op::Pad(axes) => axes.iter().all(|&p| p == PadAxis::default()),
        Op::Flip(axes) => axes.is_empty(),
        Op::Const(..) | Op::Arg(..) | Op::Iota(..) | Op::Leaf(_) | Op::Param(..) | Op::Alu(_) => false,
        Op::Cast(_) | Op::Bitcast(_) | Op::Window(_) | Op::Unwindow(..) | Op::Reduce(..) => false,
        Op::Scan(..) | Op::Contract(_) | Op::Gather(_) | Op::Scatter(..) | Op::Sort { .. } => false,
        Op::Copy(_) | Op::Collective(_) | Op::After | Op::Pack(_) | Op::Loop(..) => false,
        Op::Composite(..) | Op::Custom(..) => false,
    };
    nothing.then_some(x)
}

/// A value without elements needs nothing else. What other passes look for
/// (transfers, repetitions, operations of the user) stays.
fn empty(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let x = *node.operands.first()?;
    let computed = match &node.op {
        Op::Expand(_) => b.number(x).is_none(),
        Op::Reshape(_) | Op::Permute(_) | Op::Slice(_) | Op::Pad(_) | Op::Flip(_) | Op::Alu(_) => true,
        Op::Cast(_) | Op::Bitcast(_) | Op::Window(_) | Op::Unwindow(..) | Op::Reduce(..) => true,
        Op::Scan(..) | Op::Contract(_) | Op::Gather(_) | Op::Scatter(..) | Op::Sort { .. } => true,
        Op::Const(..) | Op::Arg(..) | Op::Iota(..) | Op::Leaf(_) | Op::Param(..) => false,
        Op::Copy(_) | Op::Collective(_) | Op::After | Op::Pack(_) | Op::Loop(..) => false,
        Op::Composite(..) | Op::Custom(..) => false,
    };
    (computed && node.ty.shape.numel() == 0).then(|| b.full(0i64, &node.ty, node.span))
}

/// Wherever the elements go, they are all one number.
fn move_uniform(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let x = *node.operands.first()?;
    let moved =
        matches!(node.op, Op::Reshape(_) | Op::Permute(_) | Op::Slice(_) | Op::Flip(_) | Op::Window(_))
            || matches!(node.op, Op::Pad(_)) && b.uniform(x) == Some(node.operands[1]);
    let scalar = if moved { b.uniform(x) } else { None }?;
    Some(b.shaped(scalar, &node.ty.shape, node.span))
}

fn reshape_reshape(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let (Op::Reshape(shape), x) = (&node.op, b.graph.node(*node.operands.first()?)) else { return None };
    let inner = if let Op::Reshape(_) = x.op { x.operands[0] } else { return None };
    Some(b.add(Op::Reshape(shape.clone()), &[inner], node.span))
}

fn permute_permute(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let Op::Permute(outer) = &node.op else { return None };
    let x = b.graph.node(node.operands[0]);
    let Op::Permute(inner) = &x.op else { return None };
    let order: Axes = outer.iter().map(|&axis| inner[usize::from(axis)]).collect();
    let source = x.operands[0];
    Some(b.add(Op::Permute(order), &[source], node.span))
}

fn expand_expand(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let Op::Expand(shape) = &node.op else { return None };
    let x = b.graph.node(node.operands[0]);
    let source = if let Op::Expand(_) = x.op { x.operands[0] } else { return None };
    Some(b.add(Op::Expand(shape.clone()), &[source], node.span))
}

fn flip_flip(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let Op::Flip(axes) = &node.op else { return None };
    let x = b.graph.node(node.operands[0]);
    let (inner, source) = if let Op::Flip(inner) = &x.op {
        (inner.clone(), x.operands[0])
    } else {
        (Axes::default(), node.operands[0])
    };
    let shape = &node.ty.shape;
    let once = |axis: &u8| axes.contains(axis) != inner.contains(axis) && shape[usize::from(*axis)] > 1;
    let flipped: Axes = (0..shape.rank() as u8).filter(once).collect();
    let changed = !inner.is_empty() || flipped.len() != axes.len();
    changed.then(|| b.add(Op::Flip(flipped), &[source], node.span))
}

fn slice_slice(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let Op::Slice(outer) = &node.op else { return None };
    let x = b.graph.node(node.operands[0]);
    let Op::Slice(inner) = &x.op else { return None };
    let compose = |(i, (o, n)): (usize, (&SliceAxis, &SliceAxis))| {
        range(n.start + o.start * n.step, node.ty.shape[i], o.step * n.step)
    };
    let axes: Box<[SliceAxis]> = outer.iter().zip(inner.iter()).enumerate().map(compose).collect();
    let source = x.operands[0];
    Some(b.add(Op::Slice(axes), &[source], node.span))
}

/// The slice of `count` elements from `start`. An empty one starts at 0,
/// since its start may lie beyond the axis.
fn range(start: usize, count: usize, step: usize) -> SliceAxis {
    match count {
        0 => SliceAxis { start: 0, stop: 0, step: 1 },
        1 => SliceAxis { start, stop: start + 1, step: 1 },
        _ => SliceAxis { start, stop: start + (count - 1) * step + 1, step },
    }
}

fn crop(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let Op::Pad(axes) = &node.op else { return None };
    let shape = &b.graph.ty(node.operands[0]).shape;
    let cropped = |(&extent, p): (&usize, &PadAxis)| {
        let start = usize::try_from(-p.lo).ok().filter(|&start| start <= extent)?;
        let stop = extent.checked_sub(usize::try_from(-p.hi).ok()?).filter(|&stop| stop >= start)?;
        (p.interior == 0).then_some(SliceAxis { start, stop, step: 1 })
    };
    let slices: Option<Box<[SliceAxis]>> = shape.iter().zip(axes.iter()).map(cropped).collect();
    Some(b.add(Op::Slice(slices?), &[node.operands[0]], node.span))
}

fn slice_pad(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let Op::Slice(slices) = &node.op else { return None };
    let padded = b.graph.node(node.operands[0]);
    let Op::Pad(pads) = &padded.op else { return None };
    let source = padded.operands[0];
    let from: &Shape = &b.graph.ty(source).shape;
    let inside = |axis: usize| {
        let (slice, pad) = (slices[axis], pads[axis]);
        let start = usize::try_from(slice.start as i64 - pad.lo).ok()?;
        let moved = range(start, node.ty.shape[axis], slice.step);
        (pad.interior == 0 && moved.stop <= from[axis]).then_some(moved)
    };
    let axes: Option<Box<[SliceAxis]>> = (0..from.rank()).map(inside).collect();
    Some(b.add(Op::Slice(axes?), &[source], node.span))
}

/// Two pads with one fill, neither cropping nor spreading, are one.
fn pad_pad(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let Op::Pad(outer) = &node.op else { return None };
    let x = b.graph.node(node.operands[0]);
    let Op::Pad(inner) = &x.op else { return None };
    let plain = |p: &PadAxis| p.lo >= 0 && p.hi >= 0 && p.interior == 0;
    if x.operands[1] != node.operands[1] || !outer.iter().chain(inner.iter()).all(plain) {
        return None;
    }
    let sum = |(o, n): (&PadAxis, &PadAxis)| PadAxis { lo: o.lo + n.lo, hi: o.hi + n.hi, interior: 0 };
    let axes: Box<[PadAxis]> = outer.iter().zip(inner.iter()).map(sum).collect();
    let operands = x.operands.clone();
    Some(b.add(Op::Pad(axes), &operands, node.span))
}

fn unit_window(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let Op::Window(window) = &node.op else { return None };
    let unit = window.size == 1 && window.stride == 1;
    unit.then(|| b.add(Op::reshape(&node.ty.shape), &[node.operands[0]], node.span))
}

/// Where windows do not overlap, what they give back has one place each. Floats are
/// added to zero there, which makes `+0` of `-0`.
fn windows_apart(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let (Op::Unwindow(window, extent), x) = (&node.op, *node.operands.first()?) else { return None };
    let (axis, stride, apart) = (usize::from(window.axis), window.stride, window.dilation == 1);
    let gap = stride.checked_sub(window.size).filter(|_| apart)?;
    let from = b.graph.ty(x).clone();
    let (rank, positions) = (from.shape.rank(), from.shape[axis]);
    let zero = b.full(0i64, &Type::new(&[][..], from.dtype, from.device), node.span);
    let x = if from.dtype.is_float() { b.alu(AluOp::Add, &[x, zero], node.span) } else { x };
    let pad = |b: &mut GraphBuilder, x: NodeId, axis: usize, hi: i64| {
        let mut axes = vec![PadAxis::default(); b.graph.ty(x).shape.rank()];
        axes[axis].hi = hi;
        b.add(Op::Pad(axes.into()), &[x, zero], node.span)
    };
    // The windows' elements follow their positions, each window with its gap.
    let order = (0..=axis).chain([rank - 1]).chain(axis + 1..rank - 1).map(|axis| axis as u8).collect();
    let beside = b.add(Op::Permute(order), &[x], node.span);
    let spaced = pad(b, beside, axis + 1, gap as i64);
    let mut merged = node.ty.shape.to_vec();
    merged[axis] = positions * stride;
    let line = b.add(Op::reshape(Shape::new(&merged)), &[spaced], node.span);
    Some(pad(b, line, axis, *extent as i64 - merged[axis] as i64))
}
