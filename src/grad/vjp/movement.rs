//! Movement: its adjoint is movement.

use crate::base::Shape;
use crate::grad::vjp::VjpContext;
use crate::ir::{Axes, PadAxis, SliceAxis};
use crate::tensor::Tensor;

pub(super) fn permute(p: &VjpContext, order: &Axes) -> Tensor {
    let mut inverse = vec![0; order.len()];
    order.iter().enumerate().for_each(|(to, &from)| inverse[usize::from(from)] = to);
    p.site.permute(p.g, &inverse)
}

/// Repetition sums.
pub(super) fn expand(p: &VjpContext) -> Tensor {
    let (from, to) = (p.x[0].shape(), p.g.shape());
    let new = to.rank() - from.rank();
    let repeated = |&axis: &usize| axis < new || from[axis - new] != to[axis];
    let axes: Vec<usize> = (0..to.rank()).filter(repeated).collect();
    p.site.reshape(&p.site.sum(p.g, &axes), &from)
}

/// Operand 0 gets back what it put in; the fill gets the sum of the rest.
pub(super) fn pad(p: &VjpContext, axes: &[PadAxis], i: usize) -> Tensor {
    let shape = p.x[0].shape();
    // Undo the padding at the ends, then take every element that is not between.
    let ends = axes.iter().map(|axis| PadAxis { lo: -axis.lo, hi: -axis.hi, interior: 0 }).collect();
    let mut own = p.site.pad(p.g, ends, 0.0);
    for (number, axis) in axes.iter().enumerate().filter(|(_, axis)| axis.interior > 0) {
        let stop = own.shape()[number];
        own = p.site.slice(&own, number, 0, stop, axis.interior + 1);
    }
    if i == 0 {
        debug_assert_eq!(own.shape(), shape);
        return own;
    }
    let all = |x: &Tensor| p.site.sum(x, &(0..x.rank()).collect::<Vec<_>>());
    p.site.sub(all(p.g), all(&own))
}

/// An operand's own elements.
pub(super) fn unpack(p: &VjpContext, start: usize, i: usize) -> Tensor {
    let whole = p.site.reshape(p.g, &Shape::from(p.g.numel()));
    let own = p.site.slice(&whole, 0, start, start + p.x[i].numel(), 1);
    p.site.reshape(&own, &p.x[i].shape())
}

/// Zeros where nothing was taken.
pub(super) fn slice(p: &VjpContext, axes: &[SliceAxis]) -> Tensor {
    let (from, to) = (p.x[0].shape(), p.g.shape());
    let back = |(axis, slice): (usize, &SliceAxis)| {
        let covered = if to[axis] == 0 { 0 } else { (to[axis] - 1) * slice.step + 1 };
        let lo = if to[axis] == 0 { 0 } else { slice.start };
        PadAxis { lo: lo as i64, hi: (from[axis] - lo - covered) as i64, interior: slice.step - 1 }
    };
    p.site.pad(p.g, axes.iter().enumerate().map(back).collect(), 0.0)
}
