//! The states of reductions with several components: the position of an extreme, the
//! moments, and the logarithm of a sum of exponentials.

use std::marker::PhantomData;

use crate::micro::fold::{
    BLOCK, CompensatedSum, FoldState, LANES, Real, best, fold_lanes, join_lanes, two_lanes, write_component,
};
use crate::micro::isa::Isa;
use crate::micro::lane::Number;
use crate::micro::math64;
use crate::micro::monoid::{Extreme, Largest, Monoid};
use crate::micro::scan::ScanState;

/// An extreme and its index: the first among equals, and the first NaN.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct ArgExtremeState<T, E> {
    value: T,
    /// Negative while there are no elements.
    index: i64,
    end: PhantomData<E>,
}

impl<T: Number, E: Extreme + Monoid<T>> FoldState<T> for ArgExtremeState<T, E> {
    const EMPTY: Self = ArgExtremeState { value: E::IDENTITY, index: -1, end: PhantomData };
    #[inline(always)]
    fn extend<I: Isa>(&mut self, x: &[T], base: i64) {
        let best = best::<T, E>(x);
        if !x.is_empty() && (self.index < 0 || E::beats(best, self.value)) {
            let at = first_equal(x, best);
            (self.value, self.index) = (x[at], base + at as i64);
        }
    }
    #[inline(always)]
    fn merge(&mut self, next: &Self) {
        if next.index >= 0 && (self.index < 0 || E::beats(next.value, self.value)) {
            *self = *next;
        }
    }
    #[inline(always)]
    unsafe fn finish(&self, out: [*mut u8; 3]) {
        // SAFETY: the caller's promise.
        unsafe {
            write_component(out[0], self.value);
            write_component(out[1], self.index);
        }
    }
}

/// The first index of `value` (of a NaN, if it is one), which `x` contains.
#[inline(always)]
fn first_equal<T: Number>(x: &[T], value: T) -> usize {
    let hit = |x: T| (x == value) | (x.nan() & value.nan());
    // Blocks without an early exit inside vectorise.
    let block = x.chunks(LANES).position(|block| block.iter().fold(false, |any, &x| any | hit(x)));
    let start = block.unwrap_or(0) * LANES;
    start + x[start..].iter().position(|&x| hit(x)).unwrap_or(0)
}

/// Count, mean and sum of squared deviations from it. Within a block in two
/// passes, the second correcting the rounded mean of the first; blocks merge
/// by the formula of Chan, Golub and LeVeque.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct MomentsState<T> {
    count: f64,
    mean: f64,
    squares: f64,
    lane: PhantomData<T>,
}

/// The moments of two parts from those of each, as (count, mean, squares).
#[inline(always)]
pub(super) fn merge_moments(a: (f64, f64, f64), b: (f64, f64, f64)) -> (f64, f64, f64) {
    if a.0 == 0.0 {
        return b;
    }
    if b.0 == 0.0 {
        return a;
    }
    let (count, gap) = (a.0 + b.0, b.1 - a.1);
    let share = b.0 / count;
    (count, a.1 + gap * share, a.2 + b.2 + gap * gap * a.0 * share)
}

impl<T: Real> FoldState<T> for MomentsState<T> {
    const EMPTY: Self = MomentsState { count: 0.0, mean: 0.0, squares: 0.0, lane: PhantomData };
    #[inline(always)]
    fn extend<I: Isa>(&mut self, x: &[T], _base: i64) {
        for block in x.chunks(BLOCK) {
            let n = block.len() as f64;
            let mean = T::from_f64(T::sum::<I>(block).widen() / n);
            let (first, second) = two_lanes(block, (T::ZERO, T::ZERO), |(first, second), x| {
                let d = x.minus(mean);
                (first.plus(d), d.mul_add::<I>(d, second))
            });
            let first = join_lanes(first, T::plus).widen();
            let squares = join_lanes(second, T::plus).widen() - first * first / n;
            let next = MomentsState { count: n, mean: mean.widen() + first / n, squares, lane: PhantomData };
            self.merge(&next);
        }
    }
    #[inline(always)]
    fn merge(&mut self, next: &Self) {
        let a = (self.count, self.mean, self.squares);
        (self.count, self.mean, self.squares) = merge_moments(a, (next.count, next.mean, next.squares));
    }
    #[inline(always)]
    unsafe fn finish(&self, out: [*mut u8; 3]) {
        // SAFETY: the caller's promise.
        unsafe {
            write_component(out[0], T::from_f64(self.mean));
            write_component(out[1], T::from_f64(self.squares));
            write_component(out[2], T::from_f64(self.count));
        }
    }
}

/// The maximum m and the sum of exp(x - m), both in `f64`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct LogSumExpState<T> {
    max: f64,
    sum: f64,
    lane: PhantomData<T>,
}

/// exp(from - to), with 1 for equal infinities.
#[inline(always)]
fn weight(from: f64, to: f64) -> f64 {
    if from == to { 1.0 } else { (from - to).exp() }
}

impl<T: Real> LogSumExpState<T> {
    /// Adds `sum` times exp(`max`).
    #[inline(always)]
    fn add(&mut self, max: f64, sum: f64) {
        let common = self.max.larger(max);
        self.sum = self.sum * weight(self.max, common) + sum * weight(max, common);
        self.max = common;
    }

    #[inline(always)]
    fn result(&self) -> T {
        T::from_f64(self.max + self.sum.ln())
    }
}

impl<T: Real> LogSumExpState<T> {
    /// Scans elements one by one.
    #[inline(always)]
    fn scan_any(&mut self, x: &[T], to: &mut [T]) {
        for (to, &x) in to.iter_mut().zip(x) {
            if x != T::LOWEST {
                self.add(x.widen(), 1.0);
            }
            *to = self.result();
        }
    }

    /// Scans up to [`LANES`] elements that are at most the maximum, a finite one: nothing is rescaled, and
    /// exponentials and logarithms are computed in vectors.
    #[inline(always)]
    fn scan_below<I: Isa>(&mut self, x: &[T], to: &mut [T]) {
        let mut sums = [0.0; LANES];
        for (sum, &x) in sums.iter_mut().zip(x) {
            *sum = x.widen() - self.max;
        }
        for sum in &mut sums {
            *sum = math64::exp::<I>(*sum);
        }
        let mut total = self.sum;
        for sum in &mut sums[..x.len()] {
            total += *sum;
            *sum = total;
        }
        self.sum = total;
        for sum in &mut sums {
            *sum = math64::log::<I>(*sum);
        }
        for (to, log) in to.iter_mut().zip(sums) {
            *to = T::from_f64(self.max + log);
        }
    }
}

/// A sum of exp(x - shift) over a run, in 64 lanes.
#[inline(always)]
pub(super) fn sum_of_exp<I: Isa, T: Real>(x: &[T], shift: T) -> T {
    fold_lanes(x, T::ZERO, |sum, x| sum.plus(x.minus(shift).exp::<I>()), T::plus)
}

impl<T: Real> FoldState<T> for LogSumExpState<T> {
    const EMPTY: Self = LogSumExpState { max: f64::NEG_INFINITY, sum: 0.0, lane: PhantomData };
    #[inline(always)]
    fn extend<I: Isa>(&mut self, x: &[T], _base: i64) {
        let max = best::<T, Largest>(x);
        if max == T::LOWEST {
            return;
        }
        let mut sum = <CompensatedSum<T> as FoldState<T>>::EMPTY;
        if max == T::HIGHEST || max.nan() {
            sum.add(1.0);
        } else {
            for block in x.chunks(BLOCK) {
                sum.add(sum_of_exp::<I, T>(block, max).widen());
            }
        }
        self.add(max.widen(), sum.total());
    }
    #[inline(always)]
    fn merge(&mut self, next: &Self) {
        self.add(next.max, next.sum);
    }
    #[inline(always)]
    unsafe fn finish(&self, out: [*mut u8; 3]) {
        // SAFETY: the caller's promise.
        unsafe {
            write_component(out[0], T::from_f64(self.max));
            write_component(out[1], T::from_f64(self.sum));
            write_component(out[2], self.result());
        }
    }
}

impl<T: Real> ScanState<T> for LogSumExpState<T> {
    const EMPTY: Self = LogSumExpState { max: f64::NEG_INFINITY, sum: 0.0, lane: PhantomData };
    #[inline(always)]
    fn scan<I: Isa>(&mut self, x: &[T], to: &mut [T]) {
        for (x, to) in x.chunks(LANES).zip(to.chunks_mut(LANES)) {
            // A NaN is at most nothing.
            if self.max.is_finite() && best::<T, Largest>(x).widen() <= self.max {
                self.scan_below::<I>(x, to);
            } else {
                self.scan_any(x, to);
            }
        }
    }
}
