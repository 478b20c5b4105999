//! Positions along axes, as tensors, and masks made of them.

use crate::base::{DType, Device, Scalar, Shape};
use crate::ir::{AluOp, Op, PadAxis};
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;

/// The type of positions below `extent`: the narrowest that every device
/// computes fast in.
pub(crate) fn position_dtype(extent: usize) -> DType {
    if i32::try_from(extent).is_ok() { DType::I32 } else { DType::I64 }
}

/// `0, 1, 2, ...` along `axis` of a tensor of `rank` axes, the others of
/// extent 1; leading ones are left out.
pub(crate) fn positions(
    site: CallSite,
    extent: usize,
    (axis, rank): (usize, usize),
    dtype: DType,
    device: Device,
) -> Tensor {
    let iota = site.apply(Op::Iota(extent, dtype, device), &[]);
    along(site, &iota, axis, rank)
}

/// A row along `axis` of a tensor of `rank` axes, leading axes left out.
pub(crate) fn along(site: CallSite, row: &Tensor, axis: usize, rank: usize) -> Tensor {
    let mut shape = row.shape();
    shape.0.resize(rank - axis, 1);
    site.reshape(row, &shape)
}

/// Positions along `axis` everywhere in `shape`, as `dtype`.
pub(crate) fn positions_in(
    site: CallSite,
    shape: &Shape,
    axis: usize,
    dtype: DType,
    device: Device,
) -> Tensor {
    let row = positions(site, shape[axis], (axis, shape.rank()), dtype, device);
    site.expand(&row, shape)
}

/// Where in `shape` the position along `axis` compares so with `bound`.
pub(crate) fn mask(
    site: CallSite,
    shape: &Shape,
    axis: usize,
    op: AluOp,
    bound: usize,
    device: Device,
) -> Tensor {
    let dtype = position_dtype(shape[axis].max(bound));
    let iota = site.apply(Op::Iota(shape[axis], dtype, device), &[]);
    let bound = site.scalar(bound, dtype, device);
    let row = along(site, &site.alu(op, &[&iota, &bound]), axis, shape.rank());
    site.expand(&row, shape)
}

/// Where in `shape` the position along `axis` is before `bound`, one of its positions that
/// extents say. So it is written as one and no constant: plans for many lengths would take
/// each of those as an argument of its own, and masks that are one would no longer be.
pub(crate) fn before(site: CallSite, shape: &Shape, axis: usize, bound: usize, device: Device) -> Tensor {
    let iota = site.apply(Op::Iota(shape[axis], position_dtype(shape[axis]), device), &[]);
    let bound = site.reshape(&site.slice(&iota, 0, bound, bound + 1, 1), &Shape::default());
    let row = along(site, &site.alu(AluOp::Lt, &[&iota, &bound]), axis, shape.rank());
    site.expand(&row, shape)
}

/// True where padding puts an element of a tensor of shape `inner`, false in
/// the padding.
pub(crate) fn inside(site: CallSite, inner: &Shape, pads: &[PadAxis], device: Device) -> Tensor {
    let yes = site.scalar(Scalar::Bool(true), DType::Bool, device);
    site.pad(&site.expand(&yes, inner), pads.to_vec(), false)
}

/// Where in the matrices of `shape` (axes `row` and `column`) the column is
/// before the row plus `offset`, or on that diagonal.
pub(crate) fn diagonal_mask(
    site: CallSite,
    shape: &Shape,
    (row, column): (usize, usize),
    op: AluOp,
    offset: i64,
    device: Device,
) -> Tensor {
    // Farther out, the answer is the same everywhere.
    let bound = |axis: usize| i64::try_from(shape[axis]).unwrap_or(i64::MAX);
    let offset = offset.clamp(-bound(row), bound(column));
    let largest = shape[row].saturating_add(shape[column]);
    let dtype = position_dtype(largest);
    let rows = site.apply(Op::Iota(shape[row], dtype, device), &[]);
    let offset = site.scalar(offset, dtype, device);
    let rows = along(site, &site.alu(AluOp::Add, &[&rows, &offset]), row, shape.rank());
    let columns = positions(site, shape[column], (column, shape.rank()), dtype, device);
    // Compared on the two axes alone; the rest only repeats the answer.
    let lead = row.min(column);
    let mut plane: Shape = shape[lead..].into();
    for axis in lead..shape.rank() {
        if axis != row && axis != column {
            plane.0[axis - lead] = 1;
        }
    }
    let below = site.alu(op, &[&site.expand(&columns, &plane), &site.expand(&rows, &plane)]);
    site.expand(&below, shape)
}
