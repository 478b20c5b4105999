//! The loops, written once over any vector register.
//!
//! Everything here is `inline(always)`: an instruction set's module wraps it in functions that
//! enable the set's features ([`loops`]).

use crate::runtime::cpu::micro::fold::{BLOCK, Sum, foresee_lanes};
use crate::runtime::cpu::micro::late::Late;
use crate::runtime::cpu::micro::memory::prefetch_far;
use crate::runtime::cpu::micro::softmax::Weights;

/// Registers at a time.
const GROUP: usize = 4;

/// A vector register of `f32`.
///
/// # Safety
/// Every method needs the instruction set that the type stands for; pointers are valid for the
/// elements that are accessed, and need no alignment unless that is said.
pub(super) trait Register: Copy {
    /// Elements of it, at most 16.
    const WIDTH: usize;
    /// One number in every lane.
    unsafe fn splat(x: f32) -> Self;
    /// `WIDTH` elements.
    unsafe fn load(from: *const f32) -> Self;
    /// `count <= WIDTH` elements, no others read, then zeros.
    unsafe fn load_first(from: *const f32, count: usize) -> Self;
    /// Writes all lanes.
    unsafe fn store(self, to: *mut f32);
    /// Writes the first `count <= WIDTH` lanes.
    unsafe fn store_first(self, to: *mut f32, count: usize);
    /// Writes all lanes past the caches, to an address that is a multiple of a register's bytes.
    unsafe fn stream(self, to: *mut f32);
    /// The first `count <= WIDTH` lanes, then zeros.
    unsafe fn first(self, count: usize) -> Self;
    /// The sum in each lane.
    unsafe fn add(self, other: Self) -> Self;
    /// The difference.
    unsafe fn sub(self, other: Self) -> Self;
    /// The product.
    unsafe fn mul(self, other: Self) -> Self;
    /// The greater; `other` where one is NaN.
    unsafe fn greater(self, other: Self) -> Self;
    /// Zero in the place of minus infinity.
    unsafe fn or_zero(self) -> Self;
    /// e^x; with `BELOW`, no lane is greater than 0.
    unsafe fn exp<const N: usize, const BELOW: bool>(x: [Self; N]) -> [Self; N];
}

/// `dst = e^a`.
///
/// # Safety
/// The contract of [`super::MicroFn`] and that of [`Register`].
#[inline(always)]
pub(super) unsafe fn exp<R: Register>(dst: *mut u8, [a, ..]: [*const u8; 3], n: usize, next: *const u8) {
    // SAFETY: the caller's promise.
    unsafe { differences::<R>(dst.cast(), a.cast(), None, n, next) }
}

/// `dst = e^(a - b)`, `b` a scalar.
///
/// # Safety
/// As [`exp`].
#[inline(always)]
pub(super) unsafe fn exp_sub<R: Register>(
    dst: *mut u8,
    [a, b, _]: [*const u8; 3],
    n: usize,
    next: *const u8,
) {
    // SAFETY: the caller's promise.
    unsafe { differences::<R>(dst.cast(), a.cast(), Some(R::splat(b.cast::<f32>().read())), n, next) }
}

/// # Safety
/// As [`exp`], for `n` elements at both.
#[inline(always)]
unsafe fn differences<R: Register>(
    dst: *mut f32,
    a: *const f32,
    shift: Option<R>,
    n: usize,
    next: *const u8,
) {
    let step = GROUP * R::WIDTH;
    let whole = n - n % step;
    // SAFETY: the caller's promise.
    unsafe {
        let mut i = 0;
        while i < whole {
            prefetch_far(next.wrapping_add(i * size_of::<f32>()), step * size_of::<f32>());
            let mut x = load_group::<R>(a.add(i));
            if let Some(shift) = shift {
                x = sub_group(x, shift);
            }
            store_group(R::exp::<GROUP, false>(x), dst.add(i));
            i += step;
        }
        while i < n {
            let count = R::WIDTH.min(n - i);
            prefetch_far(next.wrapping_add(i * size_of::<f32>()), 1);
            let mut x = R::load_first(a.add(i), count);
            if let Some(shift) = shift {
                x = x.sub(shift);
            }
            let [e] = R::exp::<1, false>([x]);
            e.store_first(dst.add(i), count);
            i += count;
        }
    }
}

#[inline(always)]
unsafe fn load_group<R: Register>(from: *const f32) -> [R; GROUP] {
    // SAFETY: the caller vouches for so many elements.
    unsafe {
        [
            R::load(from),
            R::load(from.add(R::WIDTH)),
            R::load(from.add(2 * R::WIDTH)),
            R::load(from.add(3 * R::WIDTH)),
        ]
    }
}

#[inline(always)]
unsafe fn sub_group<R: Register>([a, b, c, d]: [R; GROUP], shift: R) -> [R; GROUP] {
    // SAFETY: the caller has the instruction set.
    unsafe { [a.sub(shift), b.sub(shift), c.sub(shift), d.sub(shift)] }
}

#[inline(always)]
unsafe fn store_group<R: Register>(x: [R; GROUP], to: *mut f32) {
    // SAFETY: the caller vouches for so many elements.
    unsafe {
        for (k, x) in x.into_iter().enumerate() {
            x.store(to.add(k * R::WIDTH));
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
pub(super) unsafe fn exp_sum<R: Register, const BELOW: bool>(
    dst: *mut u8,
    [a, b, c]: [*const u8; 3],
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
            let run = Run {
                to: dst.add(start),
                from: a.add(start),
                start,
                n: (n - start).min(BLOCK),
                next: next.wrapping_add(start * size_of::<f32>()),
            };
            sum.add(f64::from(run.exp_sum::<R, BELOW>(shift, product)));
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

/// Elements that are summed in the registers' precision.
struct Run {
    to: *mut f32,
    from: *const f32,
    /// Elements of the line before them.
    start: usize,
    n: usize,
    next: *const u8,
}

impl Run {
    /// # Safety
    /// As [`exp_sum`].
    #[inline(always)]
    unsafe fn exp_sum<R: Register, const BELOW: bool>(&self, shift: R, product: Option<Product<R>>) -> f32 {
        let Run { to, from, start, n, next } = *self;
        let step = GROUP * R::WIDTH;
        let whole = n - n % step;
        // SAFETY: the caller's promise.
        unsafe {
            let mut sums = [R::splat(0.0); GROUP];
            let mut i = 0;
            while i < whole {
                foresee_lanes(next.wrapping_add(i * size_of::<f32>()), step, n);
                let e = R::exp::<GROUP, BELOW>(sub_group(load_group(from.add(i)), shift));
                for k in 0..GROUP {
                    e[k].store(to.add(i + k * R::WIDTH));
                    sums[k] = sums[k].add(e[k]);
                    // Between the others' stores: one behind another would fill the queue.
                    if let Some(product) = &product {
                        product.store(start + i + k * R::WIDTH);
                    }
                }
                i += step;
            }
            for sum in &mut sums {
                let count = R::WIDTH.min(n - i);
                if count == 0 {
                    break;
                }
                // A store of a part waits for those before it.
                if count == R::WIDTH {
                    let [e] = R::exp::<1, BELOW>([R::load(from.add(i)).sub(shift)]);
                    e.store(to.add(i));
                    *sum = sum.add(e);
                    if let Some(product) = &product {
                        product.store(start + i);
                    }
                } else {
                    let [e] = R::exp::<1, BELOW>([R::load_first(from.add(i), count).sub(shift)]);
                    e.store_first(to.add(i), count);
                    *sum = sum.add(e.first(count));
                }
                i += count;
            }
            across(sums)
        }
    }
}

/// The sum of all lanes, halves first.
#[inline(always)]
unsafe fn across<R: Register>([a, b, c, d]: [R; GROUP]) -> f32 {
    let mut lanes = [0.0; 16];
    // SAFETY: no register is wider.
    unsafe { a.add(c).add(b.add(d)).store(lanes.as_mut_ptr()) };
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
pub(super) unsafe fn weigh<R: Register>(weights: &Weights) {
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
            let [factor] = R::exp::<1, true>([before.sub(shift)]);
            let sums = powers(scores, step, keys, shift);
            R::load(sum.add(first)).mul(factor).add(sums).store(sum.add(first));
            greatest.store(most.add(first));
            factor.store(left.add(first));
            first += R::WIDTH;
        }
    }
}

/// Exponentials of what the keys' scores for a register of queries are less than the greatest, in
/// their place, and their sums.
///
/// # Safety
/// As [`weigh`].
#[inline(always)]
unsafe fn powers<R: Register>(scores: *mut f32, step: usize, keys: usize, shift: R) -> R {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = R::splat(0.0);
        let mut key = 0;
        while key + GROUP <= keys {
            let at = [0, 1, 2, 3].map(|k| scores.wrapping_add((key + k) * step));
            let x = [R::load(at[0]), R::load(at[1]), R::load(at[2]), R::load(at[3])];
            let e = R::exp::<GROUP, true>(sub_group(x, shift));
            for k in 0..GROUP {
                e[k].store(at[k]);
                sums = sums.add(e[k]);
            }
            key += GROUP;
        }
        while key < keys {
            let at = scores.add(key * step);
            let [e] = R::exp::<1, true>([R::load(at).sub(shift)]);
            e.store(at);
            sums = sums.add(e);
            key += 1;
        }
        sums
    }
}

/// The loops over a register, as functions with an instruction set's features.
macro_rules! loops {
    ($register:ty, $features:literal) => {
        use $crate::runtime::cpu::micro::exponential::{Loops, Summing, rows};
        use $crate::runtime::cpu::micro::late::Late;
        use $crate::runtime::cpu::micro::softmax::Weights;

        /// The loops; they need the instruction set.
        pub(super) static LOOPS: Loops = Loops {
            exp,
            sub,
            sub_sum: Summing { alone: alone::<false>, late: late::<false> },
            below_sum: Summing { alone: alone::<true>, late: late::<true> },
            weigh,
        };

        #[target_feature(enable = $features)]
        unsafe fn exp(dst: *mut u8, from: [*const u8; 3], n: usize, next: *const u8) {
            // SAFETY: the caller's promise, as in all of these.
            unsafe { rows::exp::<$register>(dst, from, n, next) }
        }

        #[target_feature(enable = $features)]
        unsafe fn sub(dst: *mut u8, from: [*const u8; 3], n: usize, next: *const u8) {
            // SAFETY: as above.
            unsafe { rows::exp_sub::<$register>(dst, from, n, next) }
        }

        #[target_feature(enable = $features)]
        unsafe fn alone<const BELOW: bool>(dst: *mut u8, from: [*const u8; 3], n: usize, next: *const u8) {
            // SAFETY: as above.
            unsafe { rows::exp_sum::<$register, BELOW>(dst, from, n, next, None) }
        }

        #[target_feature(enable = $features)]
        unsafe fn late<const BELOW: bool>(
            dst: *mut u8,
            from: [*const u8; 3],
            n: usize,
            next: *const u8,
            late: &Late,
        ) {
            // SAFETY: as above.
            unsafe { rows::exp_sum::<$register, BELOW>(dst, from, n, next, Some(late)) }
        }

        #[target_feature(enable = $features)]
        unsafe fn weigh(weights: &Weights) {
            // SAFETY: as above.
            unsafe { rows::weigh::<$register>(weights) }
        }
    };
}
pub(super) use loops;
