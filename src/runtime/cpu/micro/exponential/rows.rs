//! The loops, written once over any vector register.
//!
//! Everything here is `inline(always)`: an instruction set's module wraps it in functions that
//! enable the set's features ([`loops`]). `GROUP` is how many registers they take at a time.

use crate::runtime::cpu::micro::exponential::register::{Numbers, Register, each, one};
use crate::runtime::cpu::micro::fold::{BLOCK, Sum, foresee_lanes};
use crate::runtime::cpu::micro::late::Late;
use crate::runtime::cpu::micro::memory::{prefetch_far, whole_lines};
use crate::runtime::cpu::micro::softmax::Weights;
use crate::runtime::cpu::micro::{OPERANDS, Operands};

/// `dst = e^a`.
///
/// # Safety
/// The contract of [`super::MicroFn`] and that of [`Register`].
#[inline(always)]
pub(super) unsafe fn exp<R: Register, const GROUP: usize>(
    dst: *mut u8,
    [a, ..]: Operands,
    n: usize,
    next: *const u8,
) {
    let mut line = Line::<R, false> { to: dst.cast(), from: a.cast(), shift: None, next };
    // SAFETY: the caller's promise.
    unsafe { line.all::<GROUP>(n) }
}

/// The same past the caches.
///
/// # Safety
/// As [`exp`].
#[inline(always)]
pub(super) unsafe fn exp_streamed<R: Register, const GROUP: usize>(
    dst: *mut u8,
    [a, ..]: Operands,
    n: usize,
    next: *const u8,
) {
    let (start, end) = whole_lines(dst, n);
    let at = |i: usize| {
        let bytes = i * size_of::<f32>();
        (dst.wrapping_add(bytes), [a.wrapping_add(bytes); OPERANDS], next.wrapping_add(bytes))
    };
    // SAFETY: the caller's promise, for parts of the line; in the middle lines of the cache.
    unsafe {
        if start > 0 {
            exp::<R, GROUP>(dst, [a; OPERANDS], start, next);
        }
        let (to, [from, ..], next) = at(start);
        let mut lines = Line::<R, true> { to: to.cast(), from: from.cast(), shift: None, next };
        lines.all::<GROUP>(end - start);
        if end < n {
            let (to, from, next) = at(end);
            exp::<R, GROUP>(to, from, n - end, next);
        }
    }
}

/// `dst = e^(a - b)`, `b` a scalar.
///
/// # Safety
/// As [`exp`].
#[inline(always)]
pub(super) unsafe fn exp_sub<R: Register, const GROUP: usize>(
    dst: *mut u8,
    [a, b, ..]: Operands,
    n: usize,
    next: *const u8,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let shift = Some(R::splat(b.cast::<f32>().read()));
        let mut line = Line::<R, false> { to: dst.cast(), from: a.cast(), shift, next };
        line.all::<GROUP>(n);
    }
}

/// Elements, less a number maybe, whose exponentials are stored; with `STREAM` past the caches, to
/// whole lines of them.
struct Line<R, const STREAM: bool> {
    to: *mut f32,
    from: *const f32,
    shift: Option<R>,
    next: *const u8,
}

impl<R: Register, const STREAM: bool> Line<R, STREAM> {
    /// Stores so many.
    ///
    /// # Safety
    /// As [`exp`].
    #[inline(always)]
    unsafe fn all<const GROUP: usize>(&mut self, n: usize) {
        let (registers, rest) = (n / R::WIDTH, n % R::WIDTH);
        // SAFETY: the caller's promise.
        unsafe {
            each::<R, GROUP, false>(self, registers);
            if rest > 0 {
                let i = registers * R::WIDTH;
                prefetch_far(self.next.wrapping_add(i * size_of::<f32>()), 1);
                let x = self.shifted(R::load_first(self.from.add(i), rest));
                one::<R, false>(x).store_first(self.to.add(i), rest);
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

impl<R: Register, const STREAM: bool> Numbers<R> for Line<R, STREAM> {
    #[inline(always)]
    unsafe fn load<const N: usize>(&self, i: usize) -> [R; N] {
        let i = i * R::WIDTH;
        prefetch_far(self.next.wrapping_add(i * size_of::<f32>()), N * R::WIDTH * size_of::<f32>());
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
    unsafe fn take<const N: usize>(&mut self, i: usize, e: [R; N]) {
        for (k, e) in e.into_iter().enumerate() {
            let to = self.to.wrapping_add((i + k) * R::WIDTH);
            // SAFETY: as above.
            unsafe { if STREAM { e.stream(to) } else { e.store(to) } };
        }
    }
}

/// `dst = e^(a - b)`, `b` a scalar, whose sum enters the sum state at `c`; with `BELOW`, `b` is
/// no less than any `a`. Stores a late product between, where there is one.
///
/// # Safety
/// As [`exp`], with `c` a sum state that may be written; and [`Late::store`]'s, if neither
/// writes what the other reads and the product [fills lines](Late::fills_lines).
#[inline(always)]
pub(super) unsafe fn exp_sum<R: Register, const GROUP: usize, const BELOW: bool>(
    dst: *mut u8,
    [a, b, c, ..]: Operands,
    n: usize,
    next: *const u8,
    late: Option<&Late>,
) {
    let (dst, a) = (dst.cast::<f32>(), a.cast::<f32>());
    // SAFETY: the caller's promise.
    unsafe {
        let (shift, sum) = (R::splat(b.cast::<f32>().read()), &mut *c.cast_mut().cast::<Sum<f32>>());
        let product = late.map(|late| Product { late: *late, factor: R::splat(late.factor) });
        let mut start = 0;
        while start < n {
            let run = Summed {
                to: dst.add(start),
                from: a.add(start),
                shift,
                start,
                n: (n - start).min(BLOCK),
                next: next.wrapping_add(start * size_of::<f32>()),
                product,
                sums: [R::splat(0.0); GROUP],
            };
            sum.add(f64::from(run.sum::<BELOW>()));
            start += BLOCK;
        }
        if let Some(product) = product {
            let mut i = n - n % R::WIDTH;
            while i < product.late.n {
                product.store(i);
                i += R::WIDTH;
            }
        }
    }
}

/// A product that other loops store.
#[derive(Clone, Copy)]
struct Product<R> {
    late: Late,
    factor: R,
}

impl<R: Register> Product<R> {
    /// Stores a register of it, unless it ends before.
    ///
    /// # Safety
    /// As [`Late::store`]; `i` is a multiple of a register's width.
    #[inline(always)]
    unsafe fn store(&self, i: usize) {
        // SAFETY: the caller's promise; lines of the cache are whole registers.
        unsafe {
            if i < self.late.n {
                R::load(self.late.from.add(i)).mul(self.factor).stream(self.late.to.add(i));
            }
        }
    }
}

/// Elements whose exponentials are stored and summed in the registers' precision.
struct Summed<R, const GROUP: usize> {
    to: *mut f32,
    from: *const f32,
    shift: R,
    /// Elements of the line before them.
    start: usize,
    n: usize,
    next: *const u8,
    product: Option<Product<R>>,
    sums: [R; GROUP],
}

impl<R: Register, const GROUP: usize> Summed<R, GROUP> {
    /// Their sum, once they are taken.
    ///
    /// # Safety
    /// As [`exp_sum`].
    #[inline(always)]
    unsafe fn sum<const BELOW: bool>(mut self) -> f32 {
        let (registers, rest) = (self.n / R::WIDTH, self.n % R::WIDTH);
        // SAFETY: the caller's promise.
        unsafe {
            each::<R, GROUP, BELOW>(&mut self, registers);
            // A store of a part waits for those before it.
            if rest > 0 {
                let i = registers * R::WIDTH;
                let e = one::<R, BELOW>(R::load_first(self.from.add(i), rest).sub(self.shift));
                e.store_first(self.to.add(i), rest);
                self.sums[0] = self.sums[0].add(e.first(rest));
            }
            across(self.sums)
        }
    }
}

impl<R: Register, const GROUP: usize> Numbers<R> for Summed<R, GROUP> {
    #[inline(always)]
    unsafe fn load<const N: usize>(&self, i: usize) -> [R; N] {
        let i = i * R::WIDTH;
        foresee_lanes(self.next.wrapping_add(i * size_of::<f32>()), N * R::WIDTH, self.n);
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
    unsafe fn take<const N: usize>(&mut self, i: usize, e: [R; N]) {
        for (k, e) in e.into_iter().enumerate() {
            let i = (i + k) * R::WIDTH;
            // SAFETY: as above.
            unsafe {
                e.store(self.to.add(i));
                self.sums[k] = self.sums[k].add(e);
                // Between the others' stores: one behind another would fill the queue.
                if let Some(product) = &self.product {
                    product.store(self.start + i);
                }
            }
        }
    }
}

/// The sum of all lanes, halves first.
#[inline(always)]
unsafe fn across<R: Register, const GROUP: usize>(mut sums: [R; GROUP]) -> f32 {
    let mut lanes = [0.0; 16];
    let mut half = GROUP / 2;
    // SAFETY: no register is wider.
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

/// The softmax of scores that lie key by key.
///
/// # Safety
/// The contract of [`super::super::softmax::weigh`] and that of [`Register`].
#[inline(always)]
pub(super) unsafe fn weigh<R: Register, const GROUP: usize>(weights: &Weights) {
    let Weights { scores, step, keys, queries, most, sum, left } = *weights;
    let mut first = 0;
    // SAFETY: the caller's promise.
    unsafe {
        while first < queries {
            let scores = scores.add(first);
            let before = R::load(most.add(first));
            let mut greatest = before;
            for key in 0..keys {
                greatest = R::load(scores.add(key * step)).greater(greatest);
            }
            let shift = greatest.or_zero();
            let factor = one::<R, true>(before.sub(shift));
            let mut scores = Scores { first: scores, step, shift, sum: R::splat(0.0) };
            each::<R, GROUP, true>(&mut scores, keys);
            R::load(sum.add(first)).mul(factor).add(scores.sum).store(sum.add(first));
            greatest.store(most.add(first));
            factor.store(left.add(first));
            first += R::WIDTH;
        }
    }
}

/// Scores of a register of queries for some keys, which their exponentials replace.
struct Scores<R> {
    first: *mut f32,
    /// From a key's to the next's.
    step: usize,
    shift: R,
    sum: R,
}

impl<R: Register> Numbers<R> for Scores<R> {
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
    unsafe fn take<const N: usize>(&mut self, key: usize, e: [R; N]) {
        for (k, e) in e.into_iter().enumerate() {
            // SAFETY: as above.
            unsafe {
                e.store(self.first.add((key + k) * self.step));
                self.sum = self.sum.add(e);
            }
        }
    }
}

/// The loops over so many registers at a time, as functions with an instruction set's features.
macro_rules! loops {
    ($register:ty, $group:literal, $features:literal) => {
        use $crate::runtime::cpu::micro::exponential::{Loops, Summing, rows};
        use $crate::runtime::cpu::micro::late::Late;
        use $crate::runtime::cpu::micro::lines::Apart;
        use $crate::runtime::cpu::micro::softmax::Weights;
        use $crate::runtime::cpu::micro::{OPERANDS, Operands};

        /// The loops; they need the instruction set.
        pub(super) static LOOPS: Loops = Loops {
            exp,
            exp_lines,
            exp_streamed,
            sub,
            sub_sum: Summing { alone: alone::<false>, late: late::<false> },
            below_sum: Summing { alone: alone::<true>, late: late::<true> },
            weigh,
        };

        #[target_feature(enable = $features)]
        unsafe fn exp(dst: *mut u8, from: Operands, n: usize, next: *const u8) {
            // SAFETY: the caller's promise, as in all of these.
            unsafe { rows::exp::<$register, $group>(dst, from, n, next) }
        }

        #[target_feature(enable = $features)]
        unsafe fn exp_lines(dst: *mut u8, from: Operands, n: usize, apart: &Apart) {
            for line in 0..apart.lines {
                let from = [from[0].wrapping_add(line * apart.from[0]); OPERANDS];
                // SAFETY: as above.
                unsafe { rows::exp::<$register, $group>(dst.wrapping_add(line * apart.to), from, n, from[0]) }
            }
        }

        #[target_feature(enable = $features)]
        unsafe fn exp_streamed(dst: *mut u8, from: Operands, n: usize, next: *const u8) {
            // SAFETY: as above.
            unsafe { rows::exp_streamed::<$register, $group>(dst, from, n, next) }
        }

        #[target_feature(enable = $features)]
        unsafe fn sub(dst: *mut u8, from: Operands, n: usize, next: *const u8) {
            // SAFETY: as above.
            unsafe { rows::exp_sub::<$register, $group>(dst, from, n, next) }
        }

        #[target_feature(enable = $features)]
        unsafe fn alone<const BELOW: bool>(dst: *mut u8, from: Operands, n: usize, next: *const u8) {
            // SAFETY: as above.
            unsafe { rows::exp_sum::<$register, $group, BELOW>(dst, from, n, next, None) }
        }

        #[target_feature(enable = $features)]
        unsafe fn late<const BELOW: bool>(
            dst: *mut u8,
            from: Operands,
            n: usize,
            next: *const u8,
            late: &Late,
        ) {
            // SAFETY: as above.
            unsafe { rows::exp_sum::<$register, $group, BELOW>(dst, from, n, next, Some(late)) }
        }

        #[target_feature(enable = $features)]
        unsafe fn weigh(weights: &Weights) {
            // SAFETY: as above.
            unsafe { rows::weigh::<$register, $group>(weights) }
        }
    };
}
pub(super) use loops;
