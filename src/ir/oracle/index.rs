//! Gather, scatter and sort.

use std::cmp::Ordering;

use crate::base::{DType, Error, Result, Shape, Span};
use crate::ir::op::ScatterMode;
use crate::ir::oracle::movement::positions;
use crate::ir::oracle::value::{Data, Value, wrap};
use crate::ir::ty::Type;

/// Elements along an axis at the positions the index gives.
pub(super) fn gather(axis: u8, span: Span, operand: &Value, index: &Value) -> Result<Data> {
    Ok(operand.data.take(&targets("gather", axis, span, &operand.ty.shape, index)?))
}

/// Where in a tensor of `shape` each element of the index points.
fn targets(op: &'static str, axis: u8, span: Span, shape: &Shape, index: &Value) -> Result<Vec<usize>> {
    let axis = usize::from(axis);
    let (dense, extent) = (shape.strides(), shape[axis]);
    let mut strides = dense.clone();
    strides[axis] = 0;
    let mut at = positions(&index.ty.shape, 0, &strides);
    for (at, &index) in at.iter_mut().zip(index.data.ints()) {
        if index < 0 || index >= extent as i64 {
            return Err(Error::IndexOutOfRange { op, index, extent, span });
        }
        *at += (index * dense[axis]) as usize;
    }
    Ok(at)
}

/// The first operand with the third's elements combined in, in row-major order.
pub(super) fn scatter(axis: u8, mode: ScatterMode, span: Span, operands: &[&Value]) -> Result<Data> {
    let (base, index, updates) = (operands[0], operands[1], operands[2]);
    let to = targets("scatter", axis, span, &base.ty.shape, index)?;
    Ok(match (&base.data, &updates.data) {
        (Data::Int(base_data), Data::Int(updates)) => {
            let mut result = base_data.clone();
            for (&to, &update) in to.iter().zip(updates) {
                result[to] = combine_int(mode, result[to], update, base.ty.dtype);
            }
            Data::Int(result)
        }
        (Data::Float(base_data), Data::Float(updates)) => {
            let mut result = base_data.clone();
            for (&to, &update) in to.iter().zip(updates) {
                result[to] = mode.op().map_or(update, |op| op.eval_float(&[result[to], update]));
            }
            Data::Float(result)
        }
        (Data::Int(_), Data::Float(_)) | (Data::Float(_), Data::Int(_)) => {
            panic!("inference let scatter mix types")
        }
    })
}

fn combine_int(mode: ScatterMode, there: i64, update: i64, dtype: DType) -> i64 {
    mode.op().map_or(update, |op| wrap(op.eval_int(&[there, update]), dtype))
}

/// The first positions of the stable sorting permutation along an axis; NaN is
/// largest.
pub(super) fn sort(axis: u8, descending: bool, ty: &Type, operand: &Value) -> Data {
    let (shape, axis) = (&operand.ty.shape, usize::from(axis));
    let (extent, stride) = (shape[axis], shape.strides()[axis] as usize);
    let count = ty.shape[axis];
    let mut result = vec![0; ty.shape.numel()];
    let mut outer = shape.clone();
    outer.0[axis] = 1;
    let rows =
        |of: &Shape| if ty.shape.numel() == 0 { Vec::new() } else { positions(&outer, 0, &of.strides()) };
    for (row, to) in rows(shape).into_iter().zip(rows(&ty.shape)) {
        let at = |i: i64| row + i as usize * stride;
        let mut order: Vec<i64> = (0..extent as i64).collect();
        order.sort_by(|&i, &j| {
            let ascending = compare(&operand.data, at(i), at(j));
            if descending { ascending.reverse() } else { ascending }
        });
        order[..count].iter().enumerate().for_each(|(i, &from)| result[to + i * stride] = from);
    }
    Data::Int(result)
}

fn compare(data: &Data, i: usize, j: usize) -> Ordering {
    match data {
        Data::Int(data) => data[i].cmp(&data[j]),
        Data::Float(data) => {
            let (x, y) = (data[i], data[j]);
            x.partial_cmp(&y).unwrap_or_else(|| x.is_nan().cmp(&y.is_nan()))
        }
    }
}
