//! Reductions across the rows of a tile: one state per column, each component
//! an array of its own.

mod moments;

use std::marker::PhantomData;

use crate::DType;
use crate::micro::fold::{Accumulate, Real};
use crate::micro::isa::{Isa, versioned};
use crate::micro::lane::{LaneType, Number};
use crate::micro::monoid::{AllTrue, Extreme, Largest, Monoid, Product, Smallest, Sum};
use crate::micro::reduce::{ReduceKind, canonical};
use crate::micro::{view, view_mut};

/// Accumulates one row into the states: `fn(acc, x, n, k)`, for all `i < n`. The
/// row's index `k` is for `ArgMax` and `ArgMin` the index to record, for
/// `Moments` the number of rows that the states already hold.
///
/// # Safety
/// Every component (see [`Accumulator`]) and `x` are valid for `n` aligned
/// elements, and none overlaps another.
pub type AccumulateFn = unsafe fn(acc: [*mut u8; 3], x: *const u8, n: usize, k: i64);

/// Rows accumulated per pass over the states, which divides the loads and stores of the states.
const ROW_UNROLL: usize = 8;

/// Accumulates rows into the states: `fn(acc, x, [rows, stride], n, k)`, the stride in bytes, `k`
/// the index of the first row.
///
/// # Safety
/// As [`AccumulateFn`], for each row.
pub type AccumulateRowsFn = unsafe fn(acc: [*mut u8; 3], x: *const u8, rows: [usize; 2], n: usize, k: i64);

/// The functions of a reduction across rows. The components of its states are
/// arrays of `n`:
///
/// - `Sum`, `Prod`, `Max`, `Min`: the value (T);
/// - `ArgMax`, `ArgMin`: the value (T), the index (i64, -1 before any row);
/// - `Moments`: the mean less the first element (T), the sum of squared deviations (T), the first
///   element (T); the count is the caller's number of rows;
/// - `LogSumExp`: the maximum m (T), the sum of exp(x - m) (T). The result is
///   m + ln of the sum.
///
/// `f32` accumulates in `f32`: the caller splits many rows into blocks of a
/// few hundred and merges those pairwise.
#[derive(Clone, Copy, Debug)]
pub struct Accumulator {
    /// Makes `n` states of no rows.
    pub init: unsafe fn(acc: [*mut u8; 3], n: usize),
    /// Accumulates one row.
    pub step: AccumulateFn,
    /// Accumulates several rows, bit-identical to one at a time.
    pub rows: AccumulateRowsFn,
    /// Merges the states of the rows that follow:
    /// `fn(acc, next, n, counts)`, the counts of rows in each for `Moments`.
    pub merge: unsafe fn(acc: [*mut u8; 3], next: [*const u8; 3], n: usize, counts: [i64; 2]),
}

/// The functions that reduce rows of type `dtype` (in register form), or
/// `None` where the kind takes floats only. On `Bool` as in `reduce.rs`.
pub fn accumulate(kind: ReduceKind, dtype: DType) -> Option<Accumulator> {
    let (kind, bool) = (canonical(kind, dtype), dtype == DType::Bool);
    match (kind, LaneType::of(dtype)) {
        (ReduceKind::Moments, LaneType::F32) => Some(moments::of::<f32>()),
        (ReduceKind::Moments, LaneType::F64) => Some(moments::of::<f64>()),
        (ReduceKind::LogSumExp, LaneType::F32) => Some(of::<ColumnLogSumExp, f32>()),
        (ReduceKind::LogSumExp, LaneType::F64) => Some(of::<ColumnLogSumExp, f64>()),
        (kind, LaneType::F32) => of_kind::<f32>(kind),
        (kind, LaneType::F64) => of_kind::<f64>(kind),
        (kind, LaneType::I32) => of_kind::<i32>(kind),
        (kind, LaneType::U32) => of_kind::<u32>(kind),
        (kind, LaneType::I64) => of_kind::<i64>(kind),
        (ReduceKind::Min, LaneType::U8) if bool => Some(of::<OneComponent<AllTrue>, u8>()),
        (ReduceKind::ArgMin, LaneType::U8) if bool => Some(of::<ColumnArgExtreme<AllTrue>, u8>()),
        (kind, LaneType::U8) => of_kind::<u8>(kind),
    }
}

versioned! {
    /// A loop with the signature [`AccumulateFn`].
    StepLoop, step_loop, base_step_loop, fn(acc: [*mut u8; 3], x: *const u8, n: usize, k: i64)
}
versioned! {
    /// A loop with the signature [`AccumulateRowsFn`].
    RowsLoop, rows_loop, base_rows_loop,
    fn(acc: [*mut u8; 3], x: *const u8, rows: [usize; 2], n: usize, k: i64)
}
versioned! {
    /// A loop with the signature of [`Accumulator::merge`].
    MergeLoop, merge_loop, base_merge_loop,
    fn(acc: [*mut u8; 3], next: [*const u8; 3], n: usize, counts: [i64; 2])
}
/// A reduction whose states are a pair of components.
trait ColumnFold<T>: 'static {
    /// The second component; `()` if there is only one.
    type Second: Copy + 'static;
    /// The state of no rows.
    fn empty() -> (T, Self::Second);
    /// The state and one more element, the `k`-th.
    fn step<I: Isa>(state: (T, Self::Second), x: T, k: i64) -> (T, Self::Second);
    /// Merges two states, of `counts` rows.
    fn merge<I: Isa>(a: (T, Self::Second), b: (T, Self::Second), counts: [i64; 2]) -> (T, Self::Second);
}

fn of<C: ColumnFold<T>, T: Copy + 'static>() -> Accumulator {
    unsafe fn init<C: ColumnFold<T>, T: Copy>(acc: [*mut u8; 3], n: usize) {
        // SAFETY: `Accumulator::init` is given space for `n` states.
        let (first, second): (&mut [T], &mut [C::Second]) =
            unsafe { (view_mut(acc[0], n), component(acc[1], n)) };
        first.fill(C::empty().0);
        second.fill(C::empty().1);
    }
    Accumulator {
        init: init::<C, T>,
        step: step_loop::<RowAccumulator<C, T>>(),
        rows: rows_loop::<RowAccumulator<C, T>>(),
        merge: merge_loop::<RowAccumulator<C, T>>(),
    }
}

/// The array of a component, which for `()` has no memory.
///
/// # Safety
/// As [`view_mut`], unless `S` is `()`.
#[inline(always)]
unsafe fn component<'a, S>(data: *mut u8, n: usize) -> &'a mut [S] {
    let data = if size_of::<S>() == 0 { std::ptr::NonNull::<S>::dangling().as_ptr().cast() } else { data };
    // SAFETY: the caller's promise; no memory is needed for `()`.
    unsafe { view_mut(data, n) }
}

struct RowAccumulator<C, T>(PhantomData<(C, T)>);
impl<C: ColumnFold<T>, T: Copy> StepLoop for RowAccumulator<C, T> {
    #[inline(always)]
    unsafe fn run<I: Isa>(acc: [*mut u8; 3], x: *const u8, n: usize, k: i64) {
        // SAFETY: the contract of `AccumulateFn`.
        unsafe { step_rows::<I, C, T>(view_mut(acc[0], n), component(acc[1], n), view(x, n), k) }
    }
}
impl<C: ColumnFold<T>, T: Copy> RowsLoop for RowAccumulator<C, T> {
    #[inline(always)]
    unsafe fn run<I: Isa>(acc: [*mut u8; 3], x: *const u8, [rows, bytes]: [usize; 2], n: usize, k: i64) {
        // SAFETY: the contract of `AccumulateRowsFn`.
        unsafe {
            let row = |r: usize| view::<T>(x.add(r * bytes), n);
            let whole = rows - rows % ROW_UNROLL;
            for r in (0..whole).step_by(ROW_UNROLL) {
                let (first, second) = (view_mut(acc[0], n), component(acc[1], n));
                let (a, b) = ([row(r), row(r + 1), row(r + 2), row(r + 3)], r + 4);
                let b = [row(b), row(b + 1), row(b + 2), row(b + 3)];
                step_unrolled::<I, C, T>(first, second, a, b, k + r as i64);
            }
            for r in whole..rows {
                let (first, second) = (view_mut(acc[0], n), component(acc[1], n));
                step_rows::<I, C, T>(first, second, row(r), k + r as i64);
            }
        }
    }
}
impl<C: ColumnFold<T>, T: Copy> MergeLoop for RowAccumulator<C, T> {
    #[inline(always)]
    unsafe fn run<I: Isa>(acc: [*mut u8; 3], next: [*const u8; 3], n: usize, counts: [i64; 2]) {
        // SAFETY: the contract of `Accumulator::merge`.
        unsafe {
            let (first, second) = (view_mut(acc[0], n), component(acc[1], n));
            let next_second: &[C::Second] = component(next[1].cast_mut(), n);
            merge_rows::<I, C, T>(first, second, view(next[0], n), next_second, counts);
        }
    }
}

#[inline(always)]
fn step_rows<I: Isa, C: ColumnFold<T>, T: Copy>(first: &mut [T], second: &mut [C::Second], x: &[T], k: i64) {
    // Not by iterators: one over `()` leaves up to 64 elements to a scalar loop.
    let n = first.len();
    let (second, x) = (&mut second[..n], &x[..n]);
    for i in 0..n {
        (first[i], second[i]) = C::step::<I>((first[i], second[i]), x[i], k);
    }
}

/// Accumulates [`ROW_UNROLL`] rows.
#[inline(always)]
fn step_unrolled<I: Isa, C: ColumnFold<T>, T: Copy>(
    first: &mut [T],
    second: &mut [C::Second],
    [a, b, c, d]: [&[T]; 4],
    [e, f, g, h]: [&[T]; 4],
    k: i64,
) {
    let n = first.len();
    let second = &mut second[..n];
    let (a, b, c, d) = (&a[..n], &b[..n], &c[..n], &d[..n]);
    let (e, f, g, h) = (&e[..n], &f[..n], &g[..n], &h[..n]);
    for i in 0..n {
        // Unrolled by hand: LLVM does not vectorise a loop over the rows where a step is long.
        let four = C::step::<I>((first[i], second[i]), a[i], k);
        let four = C::step::<I>(four, b[i], k + 1);
        let four = C::step::<I>(four, c[i], k + 2);
        let four = C::step::<I>(four, d[i], k + 3);
        let eight = C::step::<I>(four, e[i], k + 4);
        let eight = C::step::<I>(eight, f[i], k + 5);
        let eight = C::step::<I>(eight, g[i], k + 6);
        (first[i], second[i]) = C::step::<I>(eight, h[i], k + 7);
    }
}

#[inline(always)]
fn merge_rows<I: Isa, C: ColumnFold<T>, T: Copy>(
    first: &mut [T],
    second: &mut [C::Second],
    next_first: &[T],
    next_second: &[C::Second],
    counts: [i64; 2],
) {
    let n = first.len();
    let (second, next) = (&mut second[..n], (&next_first[..n], &next_second[..n]));
    for i in 0..n {
        let (one, other) = ((first[i], second[i]), (next.0[i], next.1[i]));
        (first[i], second[i]) = C::merge::<I>(one, other, counts);
    }
}

fn of_kind<T: Accumulate>(kind: ReduceKind) -> Option<Accumulator> {
    match kind {
        ReduceKind::Sum => Some(of::<OneComponent<Sum>, T>()),
        ReduceKind::Prod => Some(of::<OneComponent<Product>, T>()),
        ReduceKind::Max => Some(of::<OneComponent<Largest>, T>()),
        ReduceKind::Min => Some(of::<OneComponent<Smallest>, T>()),
        ReduceKind::ArgMax => Some(of::<ColumnArgExtreme<Largest>, T>()),
        ReduceKind::ArgMin => Some(of::<ColumnArgExtreme<Smallest>, T>()),
        ReduceKind::Moments | ReduceKind::LogSumExp => None,
    }
}

/// A reduction whose state is an element.
struct OneComponent<M>(PhantomData<M>);
impl<T: Copy + 'static, M: Monoid<T>> ColumnFold<T> for OneComponent<M> {
    type Second = ();
    #[inline(always)]
    fn empty() -> (T, ()) {
        (M::IDENTITY, ())
    }
    #[inline(always)]
    fn step<I: Isa>((state, ()): (T, ()), x: T, _k: i64) -> (T, ()) {
        (M::combine(state, x), ())
    }
    #[inline(always)]
    fn merge<I: Isa>((a, ()): (T, ()), (b, ()): (T, ()), _counts: [i64; 2]) -> (T, ()) {
        (M::combine(a, b), ())
    }
}

struct ColumnArgExtreme<E>(PhantomData<E>);
impl<T: Number, E: Extreme + Monoid<T>> ColumnFold<T> for ColumnArgExtreme<E> {
    type Second = i64;
    #[inline(always)]
    fn empty() -> (T, i64) {
        (E::IDENTITY, -1)
    }
    #[inline(always)]
    fn step<I: Isa>(state: (T, i64), x: T, k: i64) -> (T, i64) {
        let take = E::beats(x, state.0) | (state.1 < 0);
        (if take { x } else { state.0 }, if take { k } else { state.1 })
    }
    #[inline(always)]
    fn merge<I: Isa>(a: (T, i64), b: (T, i64), _counts: [i64; 2]) -> (T, i64) {
        let take = (E::beats(b.0, a.0) | (a.1 < 0)) & (b.1 >= 0);
        (if take { b.0 } else { a.0 }, if take { b.1 } else { a.1 })
    }
}

struct ColumnLogSumExp;
impl<T: Real> ColumnFold<T> for ColumnLogSumExp {
    type Second = T;
    #[inline(always)]
    fn empty() -> (T, T) {
        (T::LOWEST, T::ZERO)
    }
    #[inline(always)]
    fn step<I: Isa>(state: (T, T), x: T, _k: i64) -> (T, T) {
        // Where there was only -inf, the sum counts those; the next finite element's
        // weight clears it, and otherwise the result is -inf all the same.
        merge_log_sums::<I, T>(state, (x, T::ONE))
    }
    #[inline(always)]
    fn merge<I: Isa>(a: (T, T), b: (T, T), _counts: [i64; 2]) -> (T, T) {
        merge_log_sums::<I, T>(a, b)
    }
}

/// One exponential suffices: the larger maximum keeps its sum.
#[inline(always)]
fn merge_log_sums<I: Isa, T: Real>(a: (T, T), b: (T, T)) -> (T, T) {
    let max = a.0.larger(b.0);
    // Equal infinities differ by 0, not NaN.
    let gap = if a.0 == b.0 { T::ZERO } else { a.0.minus(b.0).abs().opposite() };
    let factor = gap.exp::<I>();
    let left = if a.0 < b.0 { factor } else { T::ONE };
    let right = if a.0 > b.0 { factor } else { T::ONE };
    let sum = a.1.mul_add::<I>(left, b.1.times(right));
    (max, sum)
}
