//! The states reductions carry, and how runs of elements enter them.
//!
//! Each run is folded in 64 partial lanes that are then combined in a fixed
//! order, so a result does not depend on where the run lies in memory, and
//! floats are summed nearly pairwise.

use crate::micro::isa::Isa;
use crate::micro::lane::Number;
use crate::micro::memory::{prefetch_l1, prefetch_l2};
use crate::micro::monoid::{Extreme, Monoid, Product};
use crate::micro::sums;
use crate::micro::{math, math64};
use crate::thresholds::L1_PREFETCH_ROW;

/// The state of a reduction over elements of type `T`.
pub(super) trait FoldState<T>: Copy + 'static {
    /// The state of no elements.
    const EMPTY: Self;
    /// Accumulates a run whose first element has index `base`.
    fn extend<I: Isa>(&mut self, x: &[T], base: i64);
    /// Merges the state of the elements that follow.
    fn merge(&mut self, next: &Self);
    /// Writes the components (`ReduceKind` lists them) to the non-null pointers.
    ///
    /// # Safety
    /// Each is null or valid for writing its component.
    unsafe fn finish(&self, out: [*mut u8; 3]);
}

/// # Safety
/// `out` is null or valid for writing a `T`.
#[inline(always)]
pub(super) unsafe fn write_component<T>(out: *mut u8, value: T) {
    if !out.is_null() {
        // SAFETY: the caller's promise.
        unsafe { out.cast::<T>().write(value) }
    }
}

/// Partial lanes of a run.
pub(super) const LANES: usize = 64;
/// Elements summed in the lanes' precision before they enter the state's: 16 a lane, as in NumPy's pairwise sums.
pub(super) const BLOCK: usize = 1024;

/// Prefetches `lanes` elements of the next row of `n`: to L1 if it fits, else to L2.
#[inline(always)]
pub(super) fn prefetch_lanes(next: *const u8, lanes: usize, n: usize) {
    let bytes = lanes * size_of::<f32>();
    if n <= L1_PREFETCH_ROW { prefetch_l1(next, bytes) } else { prefetch_l2(next, bytes) }
}

/// Folds `x` into 64 lanes by `step`, and those into one by `join`.
#[inline(always)]
pub(super) fn fold_lanes<T: Copy, A: Copy>(
    x: &[T],
    identity: A,
    step: impl Fn(A, T) -> A + Copy,
    join: impl Fn(A, A) -> A,
) -> A {
    let (lanes, _) = two_lanes(x, (identity, ()), |(a, ()), x| (step(a, x), ()));
    join_lanes(lanes, join)
}

/// The same of two slices of one length.
#[inline(always)]
pub(super) fn fold_pairs<T: Copy, A: Copy>(
    x: &[T],
    y: &[T],
    identity: A,
    step: impl Fn(A, T, T) -> A + Copy,
    join: impl Fn(A, A) -> A,
) -> A {
    let mut lanes = whole_pairs(x, y, identity, step);
    let rest = |x: &[T]| x.len() - x.len() % LANES;
    let (x, y) = (&x[rest(x)..], &y[rest(y)..]);
    for ((lane, &x), &y) in lanes.iter_mut().zip(x).zip(y) {
        *lane = step(*lane, x, y);
    }
    join_lanes(lanes, join)
}

/// Folds `x` into 64 lanes of two states each.
#[inline(always)]
pub(super) fn two_lanes<T: Copy, A: Copy, B: Copy>(
    x: &[T],
    identity: (A, B),
    step: impl Fn((A, B), T) -> (A, B) + Copy,
) -> ([A; LANES], [B; LANES]) {
    let (mut first, mut second) = whole_chunks(x, identity, step);
    for ((a, b), &x) in first.iter_mut().zip(&mut second).zip(x.chunks_exact(LANES).remainder()) {
        (*a, *b) = step((*a, *b), x);
    }
    (first, second)
}

// Whole chunks of lanes have separate functions, with inner loops of constant length only: where
// the remainder goes to the same arrays in one function, LLVM keeps those in memory.

#[inline(always)]
fn whole_chunks<T: Copy, A: Copy, B: Copy>(
    x: &[T],
    identity: (A, B),
    step: impl Fn((A, B), T) -> (A, B) + Copy,
) -> ([A; LANES], [B; LANES]) {
    let (mut first, mut second) = ([identity.0; LANES], [identity.1; LANES]);
    for chunk in x.chunks_exact(LANES) {
        for ((a, b), &x) in first.iter_mut().zip(&mut second).zip(chunk) {
            (*a, *b) = step((*a, *b), x);
        }
    }
    (first, second)
}

#[inline(always)]
fn whole_pairs<T: Copy, A: Copy>(
    x: &[T],
    y: &[T],
    identity: A,
    step: impl Fn(A, T, T) -> A + Copy,
) -> [A; LANES] {
    let mut lanes = [identity; LANES];
    for (x, y) in x.chunks_exact(LANES).zip(y.chunks_exact(LANES)) {
        for ((lane, &x), &y) in lanes.iter_mut().zip(x).zip(y) {
            *lane = step(*lane, x, y);
        }
    }
    lanes
}

/// Combines lane `j` with lane `j + width` for widths 32, 16, ... 1.
#[inline(always)]
pub(super) fn join_lanes<A: Copy>(mut lanes: [A; LANES], join: impl Fn(A, A) -> A) -> A {
    let mut width = LANES / 2;
    while width > 0 {
        for j in 0..width {
            lanes[j] = join(lanes[j], lanes[j + width]);
        }
        width /= 2;
    }
    lanes[0]
}

/// A lane type that sums and multiplies into a wider state.
pub(super) trait Accumulate: Number {
    /// What totals are kept in.
    type Wide: Number;
    /// Exact.
    fn widen(self) -> Self::Wide;
    /// Rounds.
    fn narrow(wide: Self::Wide) -> Self;
    /// The sum of a block.
    #[inline(always)]
    fn sum<I: Isa>(x: &[Self]) -> Self {
        fold_lanes(x, Self::ZERO, Self::plus, Self::plus)
    }
}
macro_rules! accumulate {
    ($($t:ty => $wide:ty $(, $sum:expr)?;)*) => {$(
        impl Accumulate for $t {
            type Wide = $wide;
            #[inline(always)]
            fn widen(self) -> $wide { self as $wide }
            #[inline(always)]
            fn narrow(wide: $wide) -> $t { wide as $t }
            $(#[inline(always)]
            fn sum<I: Isa>(x: &[$t]) -> $t { $sum(x) })?
        }
    )*};
}
accumulate!(u8 => u8; i32 => i32; u32 => u32; i64 => i64; f32 => f64, sums::sum::<I>; f64 => f64;);

/// A sum: blocks in the lanes' own precision, their total compensated by
/// Knuth's two-sum in the wide type, where integers have no error to compensate.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct CompensatedSum<T: Accumulate> {
    total: T::Wide,
    error: T::Wide,
}

impl<T: Accumulate> CompensatedSum<T> {
    #[inline(always)]
    pub(super) fn add(&mut self, x: T::Wide) {
        let total = self.total.plus(x);
        let shadow = total.minus(self.total);
        let lost = self.total.minus(total.minus(shadow)).plus(x.minus(shadow));
        if !lost.nan() {
            self.error = self.error.plus(lost);
        }
        self.total = total;
    }

    #[inline(always)]
    pub(super) fn total(&self) -> T::Wide {
        self.total.plus(self.error)
    }
}

impl<T: Accumulate> FoldState<T> for CompensatedSum<T> {
    const EMPTY: CompensatedSum<T> =
        CompensatedSum { total: <T::Wide as Number>::ZERO, error: <T::Wide as Number>::ZERO };
    #[inline(always)]
    fn extend<I: Isa>(&mut self, x: &[T], _base: i64) {
        for block in x.chunks(BLOCK) {
            self.add(T::sum::<I>(block).widen());
        }
    }
    #[inline(always)]
    fn merge(&mut self, next: &CompensatedSum<T>) {
        self.add(next.total);
        self.error = self.error.plus(next.error);
    }
    #[inline(always)]
    unsafe fn finish(&self, out: [*mut u8; 3]) {
        // SAFETY: the caller's promise.
        unsafe { write_component(out[0], T::narrow(self.total())) }
    }
}

/// A product, in the wide type throughout, so that partial products of `f32`
/// neither overflow nor vanish.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct WideProduct<T: Accumulate>(T::Wide);

impl<T: Accumulate> FoldState<T> for WideProduct<T> {
    const EMPTY: WideProduct<T> = WideProduct(Product::IDENTITY);
    #[inline(always)]
    fn extend<I: Isa>(&mut self, x: &[T], _base: i64) {
        let step = |product, x: T| Product::combine(product, x.widen());
        let product = fold_lanes(x, Product::IDENTITY, step, Product::combine);
        self.0 = Product::combine(self.0, product);
    }
    #[inline(always)]
    fn merge(&mut self, next: &WideProduct<T>) {
        self.0 = Product::combine(self.0, next.0);
    }
    #[inline(always)]
    unsafe fn finish(&self, out: [*mut u8; 3]) {
        // SAFETY: the caller's promise.
        unsafe { write_component(out[0], T::narrow(self.0)) }
    }
}

/// The largest or smallest element.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct ExtremeState<T, E>(T, std::marker::PhantomData<E>);

/// The best of a run.
#[inline(always)]
pub(super) fn best<T: Number, E: Extreme + Monoid<T>>(x: &[T]) -> T {
    if T::FLOAT {
        // One comparison for each instead of what NaN and the sign of zero
        // take, which matter where there is a NaN or the best is a zero.
        let (mut lanes, nans) = best_of_chunks::<T, E>(x);
        let rest = x.chunks_exact(LANES).remainder();
        for (best, &x) in lanes.iter_mut().zip(rest) {
            *best = pick_better::<T, E>(*best, x);
        }
        let value = join_lanes(lanes, pick_better::<T, E>);
        let nan = nans.iter().fold(0, |all, nan| all | nan) != 0 || rest.iter().any(|x| x.nan());
        if value != T::ZERO && !nan {
            return value;
        }
    }
    fold_lanes(x, E::IDENTITY, E::combine, E::combine)
}

/// The best of two that are no NaN.
#[inline(always)]
fn pick_better<T: Number, E: Extreme>(best: T, x: T) -> T {
    if E::strictly_better(x, best) { x } else { best }
}

/// The best of each lane of whole chunks, and of each two lanes whether there was a NaN: one
/// instruction compares those.
#[inline(always)]
fn best_of_chunks<T: Number, E: Extreme + Monoid<T>>(x: &[T]) -> ([T; LANES], [u32; LANES / 2]) {
    let (mut lanes, mut nans) = ([E::IDENTITY; LANES], [0u32; LANES / 2]);
    for chunk in x.chunks_exact(LANES) {
        let (low, high) = chunk.split_at(LANES / 2);
        for ((nan, &low), &high) in nans.iter_mut().zip(low).zip(high) {
            *nan |= u32::from(low.nan() | high.nan()).wrapping_neg();
        }
        for (best, &x) in lanes.iter_mut().zip(chunk) {
            *best = pick_better::<T, E>(*best, x);
        }
    }
    (lanes, nans)
}

impl<T: Number, E: Extreme + Monoid<T>> FoldState<T> for ExtremeState<T, E> {
    const EMPTY: Self = ExtremeState(E::IDENTITY, std::marker::PhantomData);
    #[inline(always)]
    fn extend<I: Isa>(&mut self, x: &[T], _base: i64) {
        self.0 = E::combine(self.0, best::<T, E>(x));
    }
    #[inline(always)]
    fn merge(&mut self, next: &Self) {
        self.0 = E::combine(self.0, next.0);
    }
    #[inline(always)]
    unsafe fn finish(&self, out: [*mut u8; 3]) {
        // SAFETY: the caller's promise.
        unsafe { write_component(out[0], self.0) }
    }
}

/// A floating lane type.
pub(super) trait Real: Accumulate<Wide = f64> {
    /// Rounds.
    fn from_f64(x: f64) -> Self;
    /// e^x.
    fn exp<I: Isa>(self) -> Self;
    /// `self·b + c`, fused where that is fast.
    fn mul_add<I: Isa>(self, b: Self, c: Self) -> Self;
    /// The sum of `(x - shift)²` over a block.
    #[inline(always)]
    fn squares<I: Isa>(x: &[Self], shift: Self) -> Self {
        let square = |sum: Self, x: Self| x.minus(shift).mul_add::<I>(x.minus(shift), sum);
        fold_lanes(x, Self::ZERO, square, Self::plus)
    }
    /// The sum of the products of two blocks.
    #[inline(always)]
    fn dot<I: Isa>(x: &[Self], y: &[Self]) -> Self {
        fold_pairs(x, y, Self::ZERO, |sum: Self, x: Self, y: Self| x.mul_add::<I>(y, sum), Self::plus)
    }
    /// Magnitude.
    fn abs(self) -> Self;
    /// Negation.
    fn opposite(self) -> Self;
}
macro_rules! real {
    ($($t:ty, $exp:expr, $fma:expr $(, $squares:expr, $dot:expr)?;)*) => {$(
        impl Real for $t {
            #[inline(always)]
            fn from_f64(x: f64) -> $t { x as $t }
            #[inline(always)]
            fn exp<I: Isa>(self) -> $t { $exp(self) }
            #[inline(always)]
            fn mul_add<I: Isa>(self, b: $t, c: $t) -> $t { $fma(self, b, c) }
            #[inline(always)]
            fn abs(self) -> $t { <$t>::abs(self) }
            #[inline(always)]
            fn opposite(self) -> $t { -self }
            $(#[inline(always)]
            fn squares<I: Isa>(x: &[$t], shift: $t) -> $t { $squares(x, shift) }
            #[inline(always)]
            fn dot<I: Isa>(x: &[$t], y: &[$t]) -> $t { $dot(x, y) })?
        }
    )*};
}
real! {
    f32, math::exp::<I>, math::fma::<I>, sums::squares::<I>, sums::dot::<I>;
    f64, math64::exp::<I>, math64::fma::<I>;
}
