//! Reductions across the rows of a tile: one state per column, each component
//! an array of its own.

use std::marker::PhantomData;

use crate::base::DType;
use crate::runtime::cpu::micro::fold::{Accumulate, AllTrue, End, Identity, Largest, Real, Smallest};
use crate::runtime::cpu::micro::isa::{Isa, versioned};
use crate::runtime::cpu::micro::lane::{LaneType, Number};
use crate::runtime::cpu::micro::reduce::{ReduceKind, canonical};
use crate::runtime::cpu::micro::{view, view_mut};

/// Takes one row into the states: `fn(acc, x, n, k)`, for all `i < n`. The
/// row's number `k` is for `ArgMax` and `ArgMin` the index to record, for
/// `Moments` the number of rows the states already have.
///
/// # Safety
/// Every component (see [`Accumulator`]) and `x` are valid for `n` aligned
/// elements, and none overlaps another.
pub type AccumulateFn = unsafe fn(acc: [*mut u8; 3], x: *const u8, n: usize, k: i64);

/// Rows that enter states together: what the states cost is shared by as many.
const TOGETHER: usize = 8;

/// Takes rows into the states: `fn(acc, x, [rows, bytes], n, k)`, the rows so many bytes apart, `k`
/// being the first one's number.
///
/// # Safety
/// As [`AccumulateFn`], for each row.
pub type AccumulateRowsFn = unsafe fn(acc: [*mut u8; 3], x: *const u8, rows: [usize; 2], n: usize, k: i64);

/// The functions of a reduction across rows. The components of its states are
/// arrays of `n`:
///
/// - `Sum`, `Prod`, `Max`, `Min`: the value (T);
/// - `ArgMax`, `ArgMin`: the value (T), the index (i64, -1 before any row);
/// - `Moments`: the mean (T), the sum of squared deviations (T); the count is
///   the caller's number of rows;
/// - `LogSumExp`: the maximum m (T), the sum of exp(x - m) (T). The result is
///   m + ln of the sum.
///
/// `f32` accumulates in `f32`: the caller splits many rows into blocks of a
/// few hundred and merges those pairwise.
#[derive(Clone, Copy, Debug)]
pub struct Accumulator {
    /// Makes `n` states of no rows.
    pub init: unsafe fn(acc: [*mut u8; 3], n: usize),
    /// Takes in one row.
    pub step: AccumulateFn,
    /// Takes in rows one after the other, with the bits of one at a time.
    pub rows: AccumulateRowsFn,
    /// Takes in the states of the rows that follow:
    /// `fn(acc, next, n, counts)`, the counts of rows in each for `Moments`.
    pub merge: unsafe fn(acc: [*mut u8; 3], next: [*const u8; 3], n: usize, counts: [i64; 2]),
}

/// The functions that reduce rows of type `dtype` (in register form), or
/// `None` where the kind takes floats only. On `Bool` as [`super::reduce`].
pub fn accumulate(kind: ReduceKind, dtype: DType) -> Option<Accumulator> {
    let (kind, bool) = (canonical(kind, dtype), dtype == DType::Bool);
    match (kind, LaneType::of(dtype)) {
        (ReduceKind::Moments, LaneType::F32) => Some(of::<Moments, f32>()),
        (ReduceKind::Moments, LaneType::F64) => Some(of::<Moments, f64>()),
        (ReduceKind::LogSumExp, LaneType::F32) => Some(of::<LogSum, f32>()),
        (ReduceKind::LogSumExp, LaneType::F64) => Some(of::<LogSum, f64>()),
        (kind, LaneType::F32) => plain::<f32>(kind),
        (kind, LaneType::F64) => plain::<f64>(kind),
        (kind, LaneType::I32) => plain::<i32>(kind),
        (kind, LaneType::U32) => plain::<u32>(kind),
        (kind, LaneType::I64) => plain::<i64>(kind),
        (ReduceKind::Min, LaneType::U8) if bool => Some(of::<AllTrue, u8>()),
        (ReduceKind::ArgMin, LaneType::U8) if bool => Some(of::<Arg<AllTrue>, u8>()),
        (kind, LaneType::U8) => plain::<u8>(kind),
    }
}

versioned! {
    /// A loop with the signature [`AccumulateFn`].
    Step, step, base_step, fn(acc: [*mut u8; 3], x: *const u8, n: usize, k: i64)
}
versioned! {
    /// A loop with the signature [`AccumulateRowsFn`].
    Several, several, base_several,
    fn(acc: [*mut u8; 3], x: *const u8, rows: [usize; 2], n: usize, k: i64)
}
versioned! {
    /// A loop with the signature of [`Accumulator::merge`].
    Merge, merge, base_merge, fn(acc: [*mut u8; 3], next: [*const u8; 3], n: usize, counts: [i64; 2])
}
/// A reduction whose states are a pair of components.
pub(super) trait Column<T>: 'static {
    /// The second component; `()` if there is only one.
    type Second: Copy + 'static;
    /// The state of no rows.
    fn empty() -> (T, Self::Second);
    /// The state and one more element, the `k`-th.
    fn step<I: Isa>(state: (T, Self::Second), x: T, k: i64) -> (T, Self::Second);
    /// Two states of so many rows.
    fn merge<I: Isa>(a: (T, Self::Second), b: (T, Self::Second), counts: [i64; 2]) -> (T, Self::Second);
}

fn of<C: Column<T>, T: Copy + 'static>() -> Accumulator {
    unsafe fn init<C: Column<T>, T: Copy>(acc: [*mut u8; 3], n: usize) {
        // SAFETY: `Accumulator::init` is given room for `n` states.
        let (first, second): (&mut [T], &mut [C::Second]) =
            unsafe { (view_mut(acc[0], n), component(acc[1], n)) };
        first.fill(C::empty().0);
        second.fill(C::empty().1);
    }
    Accumulator {
        init: init::<C, T>,
        step: step::<Rows<C, T>>(),
        rows: several::<Rows<C, T>>(),
        merge: merge::<Rows<C, T>>(),
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

struct Rows<C, T>(PhantomData<(C, T)>);
impl<C: Column<T>, T: Copy> Step for Rows<C, T> {
    #[inline(always)]
    unsafe fn run<I: Isa>(acc: [*mut u8; 3], x: *const u8, n: usize, k: i64) {
        // SAFETY: the contract of `AccumulateFn`.
        unsafe { step_rows::<I, C, T>(view_mut(acc[0], n), component(acc[1], n), view(x, n), k) }
    }
}
impl<C: Column<T>, T: Copy> Several for Rows<C, T> {
    #[inline(always)]
    unsafe fn run<I: Isa>(acc: [*mut u8; 3], x: *const u8, [rows, bytes]: [usize; 2], n: usize, k: i64) {
        // SAFETY: the contract of `AccumulateRowsFn`.
        unsafe {
            let row = |r: usize| view::<T>(x.add(r * bytes), n);
            let whole = rows - rows % TOGETHER;
            for r in (0..whole).step_by(TOGETHER) {
                let (first, second) = (view_mut(acc[0], n), component(acc[1], n));
                let (a, b) = ([row(r), row(r + 1), row(r + 2), row(r + 3)], r + 4);
                let b = [row(b), row(b + 1), row(b + 2), row(b + 3)];
                step_together::<I, C, T>(first, second, a, b, k + r as i64);
            }
            for r in whole..rows {
                let (first, second) = (view_mut(acc[0], n), component(acc[1], n));
                step_rows::<I, C, T>(first, second, row(r), k + r as i64);
            }
        }
    }
}
impl<C: Column<T>, T: Copy> Merge for Rows<C, T> {
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
fn step_rows<I: Isa, C: Column<T>, T: Copy>(first: &mut [T], second: &mut [C::Second], x: &[T], k: i64) {
    // Not by iterators: one over `()` leaves up to 64 elements to a loop that takes them singly.
    let n = first.len();
    let (second, x) = (&mut second[..n], &x[..n]);
    for i in 0..n {
        (first[i], second[i]) = C::step::<I>((first[i], second[i]), x[i], k);
    }
}

/// Takes in [`TOGETHER`] rows.
#[inline(always)]
fn step_together<I: Isa, C: Column<T>, T: Copy>(
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
        // One by one: of a loop over the rows LLVM makes no vectors where a step is long.
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
fn merge_rows<I: Isa, C: Column<T>, T: Copy>(
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

fn plain<T: Accumulate>(kind: ReduceKind) -> Option<Accumulator> {
    match kind {
        ReduceKind::Sum => Some(of::<Sum, T>()),
        ReduceKind::Prod => Some(of::<Product, T>()),
        ReduceKind::Max => Some(of::<Largest, T>()),
        ReduceKind::Min => Some(of::<Smallest, T>()),
        ReduceKind::ArgMax => Some(of::<Arg<Largest>, T>()),
        ReduceKind::ArgMin => Some(of::<Arg<Smallest>, T>()),
        ReduceKind::Moments | ReduceKind::LogSumExp => None,
    }
}

macro_rules! single_component {
    ($($name:ident, $bound:path, $empty:expr, |$x:ident, $y:ident| $join:expr;)*) => {$(
        impl<T: $bound> Column<T> for $name {
            type Second = ();
            #[inline(always)]
            fn empty() -> (T, ()) { ($empty, ()) }
            #[inline(always)]
            fn step<I: Isa>(($x, ()): (T, ()), $y: T, _k: i64) -> (T, ()) { ($join, ()) }
            #[inline(always)]
            fn merge<I: Isa>(($x, ()): (T, ()), ($y, ()): (T, ()), _counts: [i64; 2]) -> (T, ()) {
                ($join, ())
            }
        }
    )*};
}
pub(super) struct Sum;
struct Product;
single_component! {
    Sum, Number, T::ZERO, |x, y| x.plus(y);
    Product, Number, T::ONE, |x, y| x.times(y);
    Largest, Number, T::LOWEST, |x, y| x.larger(y);
    Smallest, Number, T::HIGHEST, |x, y| x.smaller(y);
    AllTrue, Number, T::ONE, |x, y| x.smaller(y);
}

struct Arg<E>(PhantomData<E>);
impl<T: Number, E: End + Identity<T>> Column<T> for Arg<E> {
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

/// Welford's update, and Chan, Golub and LeVeque's merge.
struct Moments;
impl<T: Real> Column<T> for Moments {
    type Second = T;
    #[inline(always)]
    fn empty() -> (T, T) {
        (T::ZERO, T::ZERO)
    }
    #[inline(always)]
    fn step<I: Isa>((mean, squares): (T, T), x: T, k: i64) -> (T, T) {
        let share = T::from_f64(1.0 / (k as f64 + 1.0));
        let gap = x.minus(mean);
        let mean = gap.mul_add::<I>(share, mean);
        (mean, gap.mul_add::<I>(x.minus(mean), squares))
    }
    #[inline(always)]
    fn merge<I: Isa>(a: (T, T), b: (T, T), counts: [i64; 2]) -> (T, T) {
        let (left, right) = (counts[0] as f64, counts[1] as f64);
        let total = (left + right).max(1.0);
        let (share, weight) = (T::from_f64(right / total), T::from_f64(left * right / total));
        let gap = b.0.minus(a.0);
        (gap.mul_add::<I>(share, a.0), gap.times(gap).mul_add::<I>(weight, a.1.plus(b.1)))
    }
}

struct LogSum;
impl<T: Real> Column<T> for LogSum {
    type Second = T;
    #[inline(always)]
    fn empty() -> (T, T) {
        (T::LOWEST, T::ZERO)
    }
    #[inline(always)]
    fn step<I: Isa>(state: (T, T), x: T, _k: i64) -> (T, T) {
        // Where there was only -inf, the sum counts those; the next number's
        // weight wipes it out, and else the result is -inf all the same.
        join_log_sums::<I, T>(state, (x, T::ONE))
    }
    #[inline(always)]
    fn merge<I: Isa>(a: (T, T), b: (T, T), _counts: [i64; 2]) -> (T, T) {
        join_log_sums::<I, T>(a, b)
    }
}

/// One exponential suffices: the larger maximum keeps its sum.
#[inline(always)]
fn join_log_sums<I: Isa, T: Real>(a: (T, T), b: (T, T)) -> (T, T) {
    let max = a.0.larger(b.0);
    // Equal infinities differ by 0, not NaN.
    let gap = if a.0 == b.0 { T::ZERO } else { a.0.minus(b.0).abs().opposite() };
    let factor = gap.exp::<I>();
    let left = if a.0 < b.0 { factor } else { T::ONE };
    let right = if a.0 > b.0 { factor } else { T::ONE };
    let sum = a.1.mul_add::<I>(left, b.1.times(right));
    (max, sum)
}
