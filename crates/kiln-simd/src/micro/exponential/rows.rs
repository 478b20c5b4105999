//! The loops, written once over any vector type.
//!
//! Everything here is `inline(always)`: an instruction set's module wraps it in functions that
//! enable the set's features ([`loops`]). `GROUP` is how many vectors an iteration computes.

use crate::micro::exponential::vector::{ExpStream, F32Vector, exp_groups, exp_vector};
use crate::micro::fold::{BLOCK, CompensatedSum, prefetch_lanes};
use crate::micro::memory::{prefetch_l2, whole_cache_lines};
use crate::micro::softmax::SoftmaxBlock;
use crate::micro::{MAX_OPERANDS, OperandPtrs};

/// `dst = e^a`.
///
/// # Safety
/// The contract of [`super::MicroFn`] and that of [`F32Vector`].
#[inline(always)]
pub(super) unsafe fn exp<R: F32Vector, const GROUP: usize>(
    dst: *mut u8,
    [a, ..]: OperandPtrs,
    n: usize,
    next: *const u8,
) {
    let mut row = ExpRow::<R, false> { to: dst.cast(), from: a.cast(), shift: None, next };
    // SAFETY: the caller's promise.
    unsafe { row.all::<GROUP>(n) }
}

/// The same with non-temporal stores.
///
/// # Safety
/// As [`exp`].
#[inline(always)]
pub(super) unsafe fn exp_non_temporal<R: F32Vector, const GROUP: usize>(
    dst: *mut u8,
    [a, ..]: OperandPtrs,
    n: usize,
    next: *const u8,
) {
    let (start, end) = whole_cache_lines(dst, n);
    let at = |i: usize| {
        let bytes = i * size_of::<f32>();
        (dst.wrapping_add(bytes), [a.wrapping_add(bytes); MAX_OPERANDS], next.wrapping_add(bytes))
    };
    // SAFETY: the caller's promise, for parts of the row; whole cache lines in the middle.
    unsafe {
        if start > 0 {
            exp::<R, GROUP>(dst, [a; MAX_OPERANDS], start, next);
        }
        let (to, [from, ..], next) = at(start);
        let mut cache_lines = ExpRow::<R, true> { to: to.cast(), from: from.cast(), shift: None, next };
        cache_lines.all::<GROUP>(end - start);
        if end < n {
            let (to, from, next) = at(end);
            exp::<R, GROUP>(to, from, n - end, next);
        }
    }
}

/// `dst = e^(a - b)`, `b` a broadcast.
///
/// # Safety
/// As [`exp`].
#[inline(always)]
pub(super) unsafe fn exp_sub<R: F32Vector, const GROUP: usize>(
    dst: *mut u8,
    [a, b, ..]: OperandPtrs,
    n: usize,
    next: *const u8,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let shift = Some(R::splat(b.cast::<f32>().read()));
        let mut row = ExpRow::<R, false> { to: dst.cast(), from: a.cast(), shift, next };
        row.all::<GROUP>(n);
    }
}

/// A row, less a scalar if there is one, whose exponentials are stored; with `NON_TEMPORAL` to whole
/// cache lines.
struct ExpRow<R, const NON_TEMPORAL: bool> {
    to: *mut f32,
    from: *const f32,
    shift: Option<R>,
    next: *const u8,
}

impl<R: F32Vector, const NON_TEMPORAL: bool> ExpRow<R, NON_TEMPORAL> {
    /// Computes and stores `n` elements.
    ///
    /// # Safety
    /// As [`exp`].
    #[inline(always)]
    unsafe fn all<const GROUP: usize>(&mut self, n: usize) {
        let (vectors, rest) = (n / R::WIDTH, n % R::WIDTH);
        // SAFETY: the caller's promise.
        unsafe {
            exp_groups::<R, GROUP, false>(self, vectors);
            if rest > 0 {
                let i = vectors * R::WIDTH;
                prefetch_l2(self.next.wrapping_add(i * size_of::<f32>()), 1);
                let x = self.shifted(R::load_first(self.from.add(i), rest));
                exp_vector::<R, false>(x).store_first(self.to.add(i), rest);
            }
        }
    }

    #[inline(always)]
    unsafe fn shifted(&self, x: R) -> R {
        match self.shift {
            // SAFETY: the caller has the instruction set.
            Some(shift) => unsafe { x.sub(shift) },
            None => x,
        }
    }
}

impl<R: F32Vector, const NON_TEMPORAL: bool> ExpStream<R> for ExpRow<R, NON_TEMPORAL> {
    #[inline(always)]
    unsafe fn load<const N: usize>(&self, i: usize) -> [R; N] {
        let i = i * R::WIDTH;
        prefetch_l2(self.next.wrapping_add(i * size_of::<f32>()), N * R::WIDTH * size_of::<f32>());
        // SAFETY: the caller vouches for so many elements.
        unsafe {
            let mut x = [R::splat(0.0); N];
            for (k, x) in x.iter_mut().enumerate() {
                *x = self.shifted(R::load(self.from.add(i + k * R::WIDTH)));
            }
            x
        }
    }

    #[inline(always)]
    unsafe fn consume<const N: usize>(&mut self, i: usize, e: [R; N]) {
        for (k, e) in e.into_iter().enumerate() {
            let to = self.to.wrapping_add((i + k) * R::WIDTH);
            // SAFETY: as above.
            unsafe { if NON_TEMPORAL { e.store_non_temporal(to) } else { e.store(to) } };
        }
    }
}

/// `dst = e^(a - b)`, `b` a broadcast, whose sum enters the sum state at `c`; with `BELOW`, `b` is
/// no less than any `a`.
///
/// # Safety
/// As [`exp`], with `c` a sum state that may be written.
#[inline(always)]
pub(super) unsafe fn exp_sum<R: F32Vector, const GROUP: usize, const BELOW: bool>(
    dst: *mut u8,
    [a, b, c, ..]: OperandPtrs,
    n: usize,
    next: *const u8,
) {
    let (dst, a) = (dst.cast::<f32>(), a.cast::<f32>());
    // SAFETY: the caller's promise.
    unsafe {
        let (shift, sum) =
            (R::splat(b.cast::<f32>().read()), &mut *c.cast_mut().cast::<CompensatedSum<f32>>());
        let mut start = 0;
        while start < n {
            let run = ExpSumRow {
                to: dst.add(start),
                from: a.add(start),
                shift,
                n: (n - start).min(BLOCK),
                next: next.wrapping_add(start * size_of::<f32>()),
                sums: [R::splat(0.0); GROUP],
            };
            sum.add(f64::from(run.sum::<BELOW>()));
            start += BLOCK;
        }
    }
}

/// A part of a row whose exponentials are stored, and summed in single precision.
struct ExpSumRow<R, const GROUP: usize> {
    to: *mut f32,
    from: *const f32,
    shift: R,
    n: usize,
    next: *const u8,
    sums: [R; GROUP],
}

impl<R: F32Vector, const GROUP: usize> ExpSumRow<R, GROUP> {
    /// Computes and stores the exponentials, and returns their sum.
    ///
    /// # Safety
    /// As [`exp_sum`].
    #[inline(always)]
    unsafe fn sum<const BELOW: bool>(mut self) -> f32 {
        let (vectors, rest) = (self.n / R::WIDTH, self.n % R::WIDTH);
        // SAFETY: the caller's promise.
        unsafe {
            exp_groups::<R, GROUP, BELOW>(&mut self, vectors);
            // A partial store waits for those before it.
            if rest > 0 {
                let i = vectors * R::WIDTH;
                let e = exp_vector::<R, BELOW>(R::load_first(self.from.add(i), rest).sub(self.shift));
                e.store_first(self.to.add(i), rest);
                self.sums[0] = self.sums[0].add(e.first(rest));
            }
            horizontal_sum(self.sums)
        }
    }
}

impl<R: F32Vector, const GROUP: usize> ExpStream<R> for ExpSumRow<R, GROUP> {
    #[inline(always)]
    unsafe fn load<const N: usize>(&self, i: usize) -> [R; N] {
        let i = i * R::WIDTH;
        prefetch_lanes(self.next.wrapping_add(i * size_of::<f32>()), N * R::WIDTH, self.n);
        // SAFETY: the caller vouches for so many elements.
        unsafe {
            let mut x = [self.shift; N];
            for (k, x) in x.iter_mut().enumerate() {
                *x = R::load(self.from.add(i + k * R::WIDTH)).sub(self.shift);
            }
            x
        }
    }

    #[inline(always)]
    unsafe fn consume<const N: usize>(&mut self, i: usize, e: [R; N]) {
        for (k, e) in e.into_iter().enumerate() {
            let i = (i + k) * R::WIDTH;
            // SAFETY: as above.
            unsafe {
                e.store(self.to.add(i));
                self.sums[k] = self.sums[k].add(e);
            }
        }
    }
}

/// The sum of all lanes, halving the width at each step.
#[inline(always)]
unsafe fn horizontal_sum<R: F32Vector, const GROUP: usize>(mut sums: [R; GROUP]) -> f32 {
    let mut lanes = [0.0; 16];
    let mut half = GROUP / 2;
    // SAFETY: no vector is wider.
    unsafe {
        while half > 0 {
            for k in 0..half {
                sums[k] = sums[k].add(sums[k + half]);
            }
            half /= 2;
        }
        sums[0].store(lanes.as_mut_ptr());
    }
    let mut width = R::WIDTH / 2;
    while width > 0 {
        for j in 0..width {
            lanes[j] += lanes[j + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// The online-softmax update of scores stored key by key.
///
/// # Safety
/// The contract of [`super::super::softmax::online_softmax_update`] and that of [`F32Vector`].
#[inline(always)]
pub(super) unsafe fn online_softmax_update<R: F32Vector, const GROUP: usize>(block: &SoftmaxBlock) {
    let SoftmaxBlock { scores, step, keys, queries, running_max, sum, rescale } = *block;
    let mut first = 0;
    // SAFETY: the caller's promise.
    unsafe {
        while first < queries {
            let scores = scores.add(first);
            let old_max = R::load(running_max.add(first));
            let mut new_max = old_max;
            for key in 0..keys {
                new_max = R::load(scores.add(key * step)).max(new_max);
            }
            let shift = new_max.zero_if_neg_inf();
            let factor = exp_vector::<R, true>(old_max.sub(shift));
            let mut scores = SoftmaxScores { first: scores, step, shift, sum: R::splat(0.0) };
            exp_groups::<R, GROUP, true>(&mut scores, keys);
            R::load(sum.add(first)).mul(factor).add(scores.sum).store(sum.add(first));
            new_max.store(running_max.add(first));
            factor.store(rescale.add(first));
            first += R::WIDTH;
        }
    }
}

/// Scores of a vector of queries for some keys, which their exponentials replace.
struct SoftmaxScores<R> {
    first: *mut f32,
    /// From a key's to the next's.
    step: usize,
    shift: R,
    sum: R,
}

impl<R: F32Vector> ExpStream<R> for SoftmaxScores<R> {
    #[inline(always)]
    unsafe fn load<const N: usize>(&self, key: usize) -> [R; N] {
        let mut x = [self.shift; N];
        for (k, x) in x.iter_mut().enumerate() {
            // SAFETY: the caller vouches for so many keys.
            *x = unsafe { R::load(self.first.add((key + k) * self.step)).sub(self.shift) };
        }
        x
    }

    #[inline(always)]
    unsafe fn consume<const N: usize>(&mut self, key: usize, e: [R; N]) {
        for (k, e) in e.into_iter().enumerate() {
            // SAFETY: as above.
            unsafe {
                e.store(self.first.add((key + k) * self.step));
                self.sum = self.sum.add(e);
            }
        }
    }
}

/// The loops with `$group` vectors an iteration, as functions with an instruction set's features.
macro_rules! loops {
    ($register:ty, $group:literal, $features:literal) => {
        use $crate::micro::batched_rows::RowBatch;
        use $crate::micro::exponential::{ExpLoops, rows};
        use $crate::micro::softmax::SoftmaxBlock;
        use $crate::micro::{MAX_OPERANDS, OperandPtrs};

        /// The loops; they need the instruction set.
        pub(super) static LOOPS: ExpLoops = ExpLoops {
            exp,
            exp_batched,
            exp_non_temporal,
            exp_sub,
            exp_sub_sum: exp_sum::<false>,
            exp_below_sum: exp_sum::<true>,
            online_softmax_update,
        };

        #[target_feature(enable = $features)]
        unsafe fn exp(dst: *mut u8, from: OperandPtrs, n: usize, next: *const u8) {
            // SAFETY: the caller's promise, as in all of these.
            unsafe { rows::exp::<$register, $group>(dst, from, n, next) }
        }

        #[target_feature(enable = $features)]
        unsafe fn exp_batched(dst: *mut u8, from: OperandPtrs, n: usize, batch: &RowBatch) {
            for row in 0..batch.rows {
                let from = [from[0].wrapping_add(row * batch.src_strides[0]); MAX_OPERANDS];
                // SAFETY: as above.
                unsafe {
                    rows::exp::<$register, $group>(dst.wrapping_add(row * batch.dst_stride), from, n, from[0])
                }
            }
        }

        #[target_feature(enable = $features)]
        unsafe fn exp_non_temporal(dst: *mut u8, from: OperandPtrs, n: usize, next: *const u8) {
            // SAFETY: as above.
            unsafe { rows::exp_non_temporal::<$register, $group>(dst, from, n, next) }
        }

        #[target_feature(enable = $features)]
        unsafe fn exp_sub(dst: *mut u8, from: OperandPtrs, n: usize, next: *const u8) {
            // SAFETY: as above.
            unsafe { rows::exp_sub::<$register, $group>(dst, from, n, next) }
        }

        #[target_feature(enable = $features)]
        unsafe fn exp_sum<const BELOW: bool>(dst: *mut u8, from: OperandPtrs, n: usize, next: *const u8) {
            // SAFETY: as above.
            unsafe { rows::exp_sum::<$register, $group, BELOW>(dst, from, n, next) }
        }

        #[target_feature(enable = $features)]
        unsafe fn online_softmax_update(block: &SoftmaxBlock) {
            // SAFETY: as above.
            unsafe { rows::online_softmax_update::<$register, $group>(block) }
        }
    };
}
pub(super) use loops;
