//! Movement as lists of positions: where each element of the result comes from.

use smallvec::SmallVec;

use crate::base::Shape;
use crate::ir::op::{Axes, Packing, PadAxis, SliceAxis, WindowAxis};
use crate::ir::oracle::value::{Data, Value, take};
use crate::ir::ty::Type;

/// Element offsets in row-major order of a strided view.
pub(super) fn positions(shape: &[usize], offset: i64, strides: &[i64]) -> Vec<usize> {
    if shape.contains(&0) {
        return Vec::new();
    }
    let mut at = vec![offset];
    for (&extent, &stride) in shape.iter().zip(strides) {
        if extent > 1 {
            at = at.iter().flat_map(|&p| (0..extent as i64).map(move |i| p + i * stride)).collect();
        }
    }
    at.into_iter().map(|p| p as usize).collect()
}

/// Where the elements of reordered axes come from.
pub(super) fn permute(order: &Axes, from: &Shape, to: &Shape) -> Vec<usize> {
    let dense = from.strides();
    let strides: Vec<i64> = order.iter().map(|&axis| dense[usize::from(axis)]).collect();
    positions(to, 0, &strides)
}

/// Where the elements of an expansion come from.
pub(super) fn expand(from: &Shape, to: &Shape) -> Vec<usize> {
    let lead = to.rank() - from.rank();
    let dense = from.strides();
    let stride = |axis: usize| if axis < lead || from[axis - lead] == 1 { 0 } else { dense[axis - lead] };
    positions(to, 0, &(0..to.rank()).map(stride).collect::<Vec<_>>())
}

/// Where the elements of a slice come from.
pub(super) fn slice(axes: &[SliceAxis], from: &Shape, to: &Shape) -> Vec<usize> {
    let (dense, mut offset) = (from.strides(), 0);
    let mut strides = Vec::with_capacity(axes.len());
    for (&stride, axis) in dense.iter().zip(axes) {
        offset += stride * axis.start as i64;
        strides.push(stride * axis.step as i64);
    }
    positions(to, offset, &strides)
}

/// The stored operands in one piece, zeros between them.
pub(super) fn pack(packing: &Packing, operands: &[&Value]) -> Data {
    fn placed<T: Copy + Default>(packing: &Packing, parts: &[&[T]]) -> Vec<T> {
        let mut whole = vec![T::default(); packing.shape.numel()];
        for (&start, part) in packing.starts.iter().zip(parts) {
            whole[start..start + part.len()].copy_from_slice(part);
        }
        whole
    }
    let stored: Vec<Value> = operands.iter().map(|operand| operand.rounded()).collect();
    match stored.first().map(|value| &value.data) {
        Some(Data::Float(_)) => {
            Data::Float(placed(packing, &stored.iter().map(|v| v.data.floats()).collect::<Vec<_>>()))
        }
        Some(Data::Int(_)) | None => {
            Data::Int(placed(packing, &stored.iter().map(|v| v.data.ints()).collect::<Vec<_>>()))
        }
    }
}

/// Where the elements of reversed axes come from.
pub(super) fn flip(axes: &Axes, shape: &Shape) -> Vec<usize> {
    let (mut strides, mut offset) = (shape.strides(), 0);
    for &axis in axes {
        let axis = usize::from(axis);
        offset += strides[axis] * (shape[axis] as i64 - 1);
        strides[axis] = -strides[axis];
    }
    positions(shape, offset, &strides)
}

/// Where the elements of windows come from.
pub(super) fn window(window: &WindowAxis, from: &Shape, to: &Shape) -> Vec<usize> {
    positions(to, 0, &windowed(window, &from.strides()))
}

/// Strides of the windows of an operand with these strides.
pub(super) fn windowed(window: &WindowAxis, strides: &[i64]) -> SmallVec<[i64; 4]> {
    let mut windows: SmallVec<[i64; 4]> = SmallVec::from_slice(strides);
    let stride = strides[usize::from(window.axis)];
    windows[usize::from(window.axis)] = stride * window.stride as i64;
    windows.push(stride * window.dilation as i64);
    windows
}

/// The operand's elements amid the fill.
pub(super) fn pad(axes: &[PadAxis], ty: &Type, operand: &Value, fill: &Value) -> Data {
    let from = &operand.ty.shape;
    let dense = from.strides();
    let mut at: Vec<Option<usize>> = if ty.shape.contains(&0) { Vec::new() } else { vec![Some(0)] };
    for (axis, pad) in axes.iter().enumerate() {
        let steps: Vec<Option<usize>> =
            (0..ty.shape[axis]).map(|i| Some(source(pad, i, from[axis])? * dense[axis] as usize)).collect();
        at = at.iter().flat_map(|&p| steps.iter().map(move |&step| Some(p? + step?))).collect();
    }
    match (&operand.data, &fill.data) {
        (Data::Int(data), Data::Int(fill)) => Data::Int(filled(data, fill[0], &at)),
        (Data::Float(data), Data::Float(fill)) => Data::Float(filled(data, fill[0], &at)),
        (Data::Int(_), Data::Float(_)) | (Data::Float(_), Data::Int(_)) => {
            panic!("inference let pad mix types")
        }
    }
}

/// The index before padding of index `i` after it; `None` in the padding.
fn source(pad: &PadAxis, i: usize, extent: usize) -> Option<usize> {
    let inside = usize::try_from(i as i64 - pad.lo).ok()?;
    let step = pad.interior + 1;
    (inside.is_multiple_of(step) && inside / step < extent).then_some(inside / step)
}

fn filled<T: Copy>(data: &[T], fill: T, at: &[Option<usize>]) -> Vec<T> {
    at.iter().map(|p| p.map_or(fill, |p| data[p])).collect()
}

/// The elements of `operand` from the view of it with these strides.
pub(super) fn strided<T: Copy>(data: &[T], shape: &[usize], strides: &[i64]) -> Vec<T> {
    take(data, &positions(shape, 0, strides))
}
