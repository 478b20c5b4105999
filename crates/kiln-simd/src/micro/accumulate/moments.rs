//! Moments across rows: Welford's update of the elements less the first of their column, and Chan,
//! Golub and LeVeque's merge. A mean far from zero would be rounded to more than the deviations;
//! less an element, it is as small as they are.

use std::marker::PhantomData;

use crate::micro::accumulate::{
    Accumulator, MergeLoop, ROW_UNROLL, RowsLoop, StepLoop, merge_loop, rows_loop, step_loop,
};
use crate::micro::fold::Real;
use crate::micro::isa::Isa;
use crate::micro::{view, view_mut};

/// The functions that find moments of columns.
pub(super) fn of<T: Real>() -> Accumulator {
    unsafe fn init<T: Real>(acc: [*mut u8; 3], n: usize) {
        for component in acc {
            // SAFETY: `Accumulator::init` is given space for `n` states.
            unsafe { view_mut::<T>(component, n) }.fill(T::ZERO);
        }
    }
    Accumulator {
        init: init::<T>,
        step: step_loop::<ColumnMoments<T>>(),
        rows: rows_loop::<ColumnMoments<T>>(),
        merge: merge_loop::<ColumnMoments<T>>(),
    }
}

struct ColumnMoments<T>(PhantomData<T>);

/// The states of columns.
struct States<'s, T> {
    mean: &'s mut [T],
    squares: &'s mut [T],
    first: &'s mut [T],
}

/// # Safety
/// The contract of `AccumulateFn`.
#[inline(always)]
unsafe fn states<'s, T>(acc: [*mut u8; 3], n: usize) -> States<'s, T> {
    // SAFETY: the caller's promise.
    unsafe { States { mean: view_mut(acc[0], n), squares: view_mut(acc[1], n), first: view_mut(acc[2], n) } }
}

/// The mean and squares with one more element, less the first, that makes its `share` of all.
#[inline(always)]
fn step<I: Isa, T: Real>((mean, squares): (T, T), x: T, share: T) -> (T, T) {
    let gap = x.minus(mean);
    let mean = gap.mul_add::<I>(share, mean);
    (mean, gap.mul_add::<I>(x.minus(mean), squares))
}

/// What the `k`-th element is of all so far.
#[inline(always)]
fn share<T: Real>(k: i64) -> T {
    T::from_f64(1.0 / (k as f64 + 1.0))
}

#[inline(always)]
fn step_row<I: Isa, T: Real>(states: States<'_, T>, x: &[T], k: i64) {
    let n = states.mean.len();
    if k == 0 {
        states.first.copy_from_slice(&x[..n]);
    }
    let (squares, first, x) = (&mut states.squares[..n], &states.first[..n], &x[..n]);
    for i in 0..n {
        let state = (states.mean[i], squares[i]);
        (states.mean[i], squares[i]) = step::<I, T>(state, x[i].minus(first[i]), share(k));
    }
}

/// Takes in [`ROW_UNROLL`] rows.
#[inline(always)]
fn step_unrolled<I: Isa, T: Real>(states: States<'_, T>, x: [&[T]; ROW_UNROLL], k: i64) {
    let n = states.mean.len();
    if k == 0 {
        states.first.copy_from_slice(&x[0][..n]);
    }
    let (squares, first) = (&mut states.squares[..n], &states.first[..n]);
    let [a, b, c, d, e, f, g, h] = x.map(|x| &x[..n]);
    let shares: [T; ROW_UNROLL] = std::array::from_fn(|r| share(k + r as i64));
    for i in 0..n {
        // Unrolled by hand, as in `accumulate.rs`.
        let from = first[i];
        let four = step::<I, T>((states.mean[i], squares[i]), a[i].minus(from), shares[0]);
        let four = step::<I, T>(four, b[i].minus(from), shares[1]);
        let four = step::<I, T>(four, c[i].minus(from), shares[2]);
        let four = step::<I, T>(four, d[i].minus(from), shares[3]);
        let eight = step::<I, T>(four, e[i].minus(from), shares[4]);
        let eight = step::<I, T>(eight, f[i].minus(from), shares[5]);
        let eight = step::<I, T>(eight, g[i].minus(from), shares[6]);
        (states.mean[i], squares[i]) = step::<I, T>(eight, h[i].minus(from), shares[7]);
    }
}

impl<T: Real> StepLoop for ColumnMoments<T> {
    #[inline(always)]
    unsafe fn run<I: Isa>(acc: [*mut u8; 3], x: *const u8, n: usize, k: i64) {
        // SAFETY: the contract of `AccumulateFn`.
        unsafe { step_row::<I, T>(states(acc, n), view(x, n), k) }
    }
}

impl<T: Real> RowsLoop for ColumnMoments<T> {
    #[inline(always)]
    unsafe fn run<I: Isa>(acc: [*mut u8; 3], x: *const u8, [rows, bytes]: [usize; 2], n: usize, k: i64) {
        // SAFETY: the contract of `AccumulateRowsFn`.
        unsafe {
            let row = |r: usize| view::<T>(x.add(r * bytes), n);
            let whole = rows - rows % ROW_UNROLL;
            for r in (0..whole).step_by(ROW_UNROLL) {
                let eight = std::array::from_fn(|i| row(r + i));
                step_unrolled::<I, T>(states(acc, n), eight, k + r as i64);
            }
            for r in whole..rows {
                step_row::<I, T>(states(acc, n), row(r), k + r as i64);
            }
        }
    }
}

impl<T: Real> MergeLoop for ColumnMoments<T> {
    #[inline(always)]
    unsafe fn run<I: Isa>(acc: [*mut u8; 3], next: [*const u8; 3], n: usize, counts: [i64; 2]) {
        // SAFETY: the contract of `Accumulator::merge`.
        let (into, [mean, squares, first]) =
            unsafe { (states::<T>(acc, n), next.map(|component| view::<T>(component, n))) };
        if counts[0] == 0 {
            into.mean.copy_from_slice(mean);
            into.squares.copy_from_slice(squares);
            return into.first.copy_from_slice(first);
        }
        let (left, right) = (counts[0] as f64, counts[1] as f64);
        let (share, weight) =
            (T::from_f64(right / (left + right)), T::from_f64(left * right / (left + right)));
        for i in 0..n {
            let gap = first[i].minus(into.first[i]).plus(mean[i].minus(into.mean[i]));
            into.mean[i] = gap.mul_add::<I>(share, into.mean[i]);
            into.squares[i] = gap.times(gap).mul_add::<I>(weight, into.squares[i].plus(squares[i]));
        }
    }
}
