//! Reductions, scans, contractions and window sums, folded in row-major order.

use crate::base::{DType, Dims, Shape};
use crate::ir::monoid::{Monoid, MonoidState};
use crate::ir::op::{Axes, ContractDims, WindowAxis};
use crate::ir::oracle::movement::{positions, strided, windowed};
use crate::ir::oracle::value::{Data, Value, wrap};
use crate::ir::ty::Type;

/// The given axes combined and removed.
pub(super) fn reduce(monoid: Monoid, axes: &Axes, ty: &Type, operand: &Value) -> Data {
    let (to, number) = groups(axes, &operand.ty.shape);
    let mut states = vec![monoid.identity(operand.ty.dtype); ty.shape.numel()];
    for (i, &to) in to.iter().enumerate() {
        states[to] = monoid.combine(states[to], lift(monoid, operand, i, number[i]));
    }
    finish(monoid, &states, ty.dtype)
}

/// For each element, which result it goes into, and its number among those
/// that do.
pub(super) fn groups(axes: &Axes, from: &Shape) -> (Vec<usize>, Vec<usize>) {
    let reduced = |axis: usize| axes.contains(&(axis as u8));
    let to = positions(from, 0, &strides_of(from, |axis| !reduced(axis)));
    (to, positions(from, 0, &strides_of(from, reduced)))
}

/// Row-major strides over the axes kept, 0 on the others.
fn strides_of(shape: &[usize], keep: impl Fn(usize) -> bool) -> Vec<i64> {
    let mut strides = vec![0; shape.len()];
    let mut size = 1;
    for axis in (0..shape.len()).rev().filter(|&axis| keep(axis)) {
        strides[axis] = size;
        size *= shape[axis] as i64;
    }
    strides
}

fn lift(monoid: Monoid, operand: &Value, i: usize, number: usize) -> MonoidState {
    match &operand.data {
        Data::Int(data) => monoid.lift_int(data[i], number),
        Data::Float(data) => monoid.lift_float(data[i], number),
    }
}

fn finish(monoid: Monoid, states: &[MonoidState], dtype: DType) -> Data {
    if dtype.is_float() {
        return Data::Float(states.iter().map(|&s| monoid.finish_float(s)).collect());
    }
    // Positions of floats are kept in float states.
    let result = |&state: &MonoidState| match state {
        MonoidState::Int(..) => wrap(monoid.finish_int(state), dtype),
        MonoidState::Float(..) => monoid.finish_float(state) as i64,
    };
    Data::Int(states.iter().map(result).collect())
}

/// Running combination along an axis.
pub(super) fn scan(monoid: Monoid, axis: u8, operand: &Value) -> Data {
    let (shape, axis) = (&operand.ty.shape, usize::from(axis));
    let rows = positions(shape, 0, &strides_of(shape, |a| a != axis));
    let mut running = vec![monoid.identity(operand.ty.dtype); rows.iter().max().map_or(0, |&row| row + 1)];
    let mut states = Vec::with_capacity(rows.len());
    for (i, &row) in rows.iter().enumerate() {
        running[row] = monoid.combine(running[row], lift(monoid, operand, i, 0));
        states.push(running[row]);
    }
    finish(monoid, &states, operand.ty.dtype)
}

/// Windows added back onto the axis they were cut from.
pub(super) fn unwindow(window: &WindowAxis, ty: &Type, operand: &Value) -> Data {
    let to = positions(&operand.ty.shape, 0, &windowed(window, &ty.shape.strides()));
    match &operand.data {
        Data::Int(data) => {
            let mut sums = vec![0i64; ty.shape.numel()];
            to.iter().zip(data).for_each(|(&to, &x)| sums[to] = wrap(sums[to].wrapping_add(x), ty.dtype));
            Data::Int(sums)
        }
        Data::Float(data) => {
            let mut sums = vec![0f64; ty.shape.numel()];
            to.iter().zip(data).for_each(|(&to, &x)| sums[to] += x);
            Data::Float(sums)
        }
    }
}

/// Products summed over the contracted pairs of axes.
pub(super) fn contract(dims: &ContractDims, ty: &Type, a: &Value, b: &Value) -> Data {
    let size = |axes: &[usize], v: &Value| axes.iter().map(|&i| v.ty.shape[i]).product::<usize>();
    let batch = axes_of(dims, 0, |d| &d.batch);
    let inner = axes_of(dims, 0, |d| &d.contract);
    let sizes = (size(&batch, a), size(&inner, a));
    // [batch, m, k] and [batch, k, n], so that the inner loop is contiguous.
    let (a_order, m) = packed_order(dims, 0, a, true);
    let (b_order, n) = packed_order(dims, 1, b, false);
    match (&a.data, &b.data) {
        (Data::Int(x), Data::Int(y)) => {
            let (x, y) = (permuted(x, a, &a_order), permuted(y, b, &b_order));
            let fused = |sum: i64, x: i64, y: i64| sum.wrapping_add(x.wrapping_mul(y));
            Data::Int(multiply(&x, &y, sizes, m, n, fused).iter().map(|&x| wrap(x, ty.dtype)).collect())
        }
        (Data::Float(x), Data::Float(y)) => {
            let (x, y) = (permuted(x, a, &a_order), permuted(y, b, &b_order));
            Data::Float(multiply(&x, &y, sizes, m, n, |sum, x, y| sum + x * y))
        }
        (Data::Int(_), Data::Float(_)) | (Data::Float(_), Data::Int(_)) => {
            panic!("inference let contract mix types")
        }
    }
}

fn axes_of(dims: &ContractDims, side: usize, pairs: impl Fn(&ContractDims) -> &[(u8, u8)]) -> Vec<usize> {
    pairs(dims).iter().map(|&(i, j)| usize::from([i, j][side])).collect()
}

/// The order of axes that puts the batch first, then the free axes before
/// the contracted ones or after, and the number of free elements.
fn packed_order(dims: &ContractDims, side: usize, v: &Value, free_first: bool) -> (Vec<usize>, usize) {
    let batch = axes_of(dims, side, |d| &d.batch);
    let inner = axes_of(dims, side, |d| &d.contract);
    let free: Vec<usize> =
        (0..v.ty.shape.rank()).filter(|i| !batch.contains(i) && !inner.contains(i)).collect();
    let count = free.iter().map(|&i| v.ty.shape[i]).product();
    let tail = if free_first { [free, inner] } else { [inner, free] };
    (batch.into_iter().chain(tail.into_iter().flatten()).collect(), count)
}

fn permuted<T: Copy>(data: &[T], v: &Value, order: &[usize]) -> Vec<T> {
    let dense = v.ty.shape.strides();
    let shape: Dims = order.iter().map(|&i| v.ty.shape[i]).collect();
    let strides: Vec<i64> = order.iter().map(|&i| dense[i]).collect();
    strided(data, &shape, &strides)
}

fn multiply<T: Copy + Default>(
    a: &[T],
    b: &[T],
    (batch, k): (usize, usize),
    m: usize,
    n: usize,
    fused: impl Fn(T, T, T) -> T,
) -> Vec<T> {
    let mut out = vec![T::default(); batch * m * n];
    for row in 0..if n == 0 { 0 } else { batch * m } {
        let sums = &mut out[row * n..(row + 1) * n];
        for p in 0..k {
            let x = a[row * k + p];
            let values = &b[(row / m * k + p) * n..][..n];
            sums.iter_mut().zip(values).for_each(|(sum, &y)| *sum = fused(*sum, x, y));
        }
    }
    out
}
