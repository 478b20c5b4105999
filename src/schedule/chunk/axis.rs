//! Axis independence of operations: which slice of the operands a slice
//! of the result needs.

use smallvec::{SmallVec, smallvec};

use crate::base::Shape;
use crate::ir::op::{Axes, ContractDims, SliceAxis};
use crate::ir::{Graph, GraphNode, Monoid, NodeId, Op, PadAxis, ScatterMode};

/// For each operand, the axis along which a part of it does; `None` where all
/// of it is needed.
pub(super) type OperandAxes = SmallVec<[Option<usize>; 3]>;

/// What a part of a node's value along an axis needs; `None` if the rest of the
/// value is computed with it.
pub(super) fn operand_axes(graph: &Graph, id: NodeId, axis: usize) -> Option<OperandAxes> {
    let node = graph.node(id);
    let shape = |operand: usize| &graph.ty(node.operands[operand]).shape;
    let same = || Some(smallvec![Some(axis)]);
    match &node.op {
        Op::Alu(_) => {
            let ranked = |o: &NodeId| (graph.ty(*o).shape.rank() > 0).then_some(axis);
            Some(node.operands.iter().map(ranked).collect())
        }
        Op::Cast(_) | Op::Bitcast(_) => same(),
        // On its own device: a value in memory of its own.
        Op::Copy(device) if graph.ty(node.operands[0]).device == *device => same(),
        Op::Reshape(to) => Some(smallvec![Some(reshaped(shape(0), to, axis)?)]),
        Op::Permute(order) => Some(smallvec![Some(usize::from(order[axis]))]),
        Op::Expand(to) => {
            let from = axis.checked_sub(to.rank() - shape(0).rank());
            Some(smallvec![from.filter(|&from| shape(0)[from] == to[axis])])
        }
        Op::Pad(axes) => (axes[axis] == PadAxis::default()).then(|| smallvec![Some(axis), None]),
        Op::Slice(axes) => whole(axes[axis], shape(0)[axis]).then(same).flatten(),
        Op::Flip(axes) => (!axes.contains(&(axis as u8))).then(same).flatten(),
        Op::Window(window) => {
            (axis != usize::from(window.axis) && axis < shape(0).rank()).then(same).flatten()
        }
        Op::Unwindow(window, _) => (axis != usize::from(window.axis)).then(same).flatten(),
        Op::Reduce(_, axes) => Some(smallvec![Some(kept(axes, shape(0).rank(), axis))]),
        Op::Scan(_, along) | Op::Sort { axis: along, .. } => {
            (axis != usize::from(*along)).then(same).flatten()
        }
        Op::Contract(dims) => Some(contracted(dims, shape(0).rank(), shape(1).rank(), axis)),
        Op::Gather(along) if axis == usize::from(*along) => Some(smallvec![None, Some(axis)]),
        Op::Gather(_) => Some(smallvec![Some(axis); 2]),
        Op::Scatter(along, _) => (axis != usize::from(*along)).then(|| smallvec![Some(axis); 3]),
        Op::After => Some(smallvec![Some(axis), None]),
        Op::Const(..) | Op::Arg(..) | Op::Iota(..) | Op::Leaf(_) | Op::Param(..) => None,
        Op::Copy(_) | Op::Collective(_) | Op::Pack(_) => None,
        Op::Loop(..) | Op::Composite(..) | Op::Custom(..) => None,
    }
}

/// What is needed of the operands of a node whose value is the sum of what
/// comes of their parts, if it is such a node and sums over this axis of an
/// operand. A scatter adds the parts of its updates to its base.
pub(super) fn summed_axes(graph: &Graph, id: NodeId, operand: usize, axis: usize) -> Option<OperandAxes> {
    let node = graph.node(id);
    match &node.op {
        Op::Reduce(Monoid::Sum, axes) => axes.contains(&(axis as u8)).then(|| smallvec![Some(axis)]),
        Op::Contract(dims) => {
            let own = |&&(a, b): &&(u8, u8)| usize::from(if operand == 0 { a } else { b }) == axis;
            let &(a, b) = dims.contract.iter().find(own)?;
            Some(smallvec![Some(usize::from(a)), Some(usize::from(b))])
        }
        Op::Scatter(along, ScatterMode::Add) => {
            (operand > 0 && axis == usize::from(*along)).then(|| smallvec![None, Some(axis), Some(axis)])
        }
        Op::Reduce(..) | Op::Scatter(..) => None,
        Op::Const(..) | Op::Arg(..) | Op::Iota(..) | Op::Leaf(_) | Op::Param(..) => None,
        Op::Alu(_) | Op::Cast(_) | Op::Bitcast(_) | Op::Copy(_) => None,
        Op::Reshape(_) | Op::Permute(_) | Op::Expand(_) | Op::Pad(_) | Op::Slice(_) | Op::Flip(_) => None,
        Op::Window(_) | Op::Unwindow(..) | Op::Scan(..) | Op::Sort { .. } | Op::Gather(_) => None,
        Op::After | Op::Collective(_) | Op::Pack(_) | Op::Loop(..) => None,
        Op::Composite(..) | Op::Custom(..) => None,
    }
}

/// The operation that computes a part of so many elements along an axis.
pub(super) fn resized(node: &GraphNode, axis: usize, extent: usize) -> Op {
    let with = |shape: &Shape| {
        let mut shape = shape.clone();
        shape.0[axis] = extent;
        shape
    };
    match &node.op {
        Op::Reshape(to) => Op::reshape(with(to)),
        Op::Expand(to) => Op::expand(with(to)),
        Op::Slice(axes) => {
            let mut axes = axes.clone();
            axes[axis] = SliceAxis { start: 0, stop: extent, step: 1 };
            Op::Slice(axes)
        }
        op => op.clone(),
    }
}

fn whole(slice: SliceAxis, extent: usize) -> bool {
    slice == SliceAxis { start: 0, stop: extent, step: 1 }
}

/// The operand's axis that starts where the result's does, in row-major
/// order: runs of elements that are parts of one are parts of the other.
fn reshaped(from: &Shape, to: &Shape, axis: usize) -> Option<usize> {
    let before = |shape: &Shape, axis: usize| shape[..axis].iter().product::<usize>();
    let starts = |&other: &usize| from[other] > 1 && before(from, other) == before(to, axis);
    (0..from.rank()).find(starts)
}

/// The axis of a reduction's operand that an axis of its result is.
fn kept(axes: &Axes, rank: usize, axis: usize) -> usize {
    let mut kept = (0..rank).filter(|&i| !axes.contains(&(i as u8)));
    kept.nth(axis).unwrap_or_else(|| panic!("no axis {axis} is left"))
}

fn contracted(dims: &ContractDims, rank_a: usize, rank_b: usize, axis: usize) -> OperandAxes {
    if let Some(&(a, b)) = dims.batch.get(axis) {
        return smallvec![Some(usize::from(a)), Some(usize::from(b))];
    }
    let pairs = || dims.batch.iter().chain(&dims.contract);
    let free_a: Vec<usize> = (0..rank_a).filter(|&i| pairs().all(|p| usize::from(p.0) != i)).collect();
    let mut free_b = (0..rank_b).filter(|&i| pairs().all(|p| usize::from(p.1) != i));
    let axis = axis - dims.batch.len();
    match free_a.get(axis) {
        Some(&a) => smallvec![Some(a), None],
        None => smallvec![None, free_b.nth(axis - free_a.len())],
    }
}
