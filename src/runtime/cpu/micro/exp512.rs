//! Exponentials by AVX-512: as exact as [`math::exp`], for fewer operations, since one
//! instruction scales by a power of two whatever the range, and one picks from a table of 16.

use std::arch::x86_64::*;

use crate::runtime::cpu::micro::fold::{BLOCK, LANES, Sum, foresee_lanes, join_lanes};
use crate::runtime::cpu::micro::late::Late;
use crate::runtime::cpu::micro::math::{LN2_HIGH, LN2_LOW, ROUND};
use crate::runtime::cpu::micro::memory::prefetch_far;
use crate::runtime::cpu::micro::softmax::{QUERIES, Weights};

/// Elements of a register.
const WIDTH: usize = 16;

/// 2^(j/16).
const ROOTS: [f32; WIDTH] = [
    1.0,
    1.044_273_8,
    1.090_507_7,
    1.138_788_6,
    1.189_207_1,
    1.241_857_8,
    1.296_839_6,
    1.354_255_6,
    std::f32::consts::SQRT_2,
    1.476_826_2,
    1.542_210_8,
    1.610_490_3,
    1.681_792_9,
    1.756_252_2,
    1.834_008_1,
    1.915_206_6,
];

/// Added to a number, it leaves whole sixteenths of it.
const ROUND_SIXTEENTHS: f32 = ROUND / 16.0;

/// (e^r - 1 - r) / r² on ±0.0217, the constant first: 4.6e-9 of e^r.
const SHORT: [f32; 2] = [0.500_009_8, 0.166_666_67];

/// e^x as 2^n times e^r with n in sixteenths (Tang, "Table-driven implementation of the
/// exponential function", 1989): the fraction of n picks its power from a register, its whole
/// part scales.
#[inline]
#[target_feature(enable = "avx512f")]
fn exp16(x: __m512) -> __m512 {
    // Of these, the second operand stays where it is NaN.
    exp16_below(_mm512_min_ps(_mm512_set1_ps(89.0), x))
}

/// The same of what is no greater than 89.
#[inline]
#[target_feature(enable = "avx512f")]
fn exp16_below(x: __m512) -> __m512 {
    let x = _mm512_max_ps(_mm512_set1_ps(-104.0), x);
    let round = _mm512_set1_ps(ROUND_SIXTEENTHS);
    let shifted = _mm512_fmadd_ps(x, _mm512_set1_ps(std::f32::consts::LOG2_E), round);
    let n = _mm512_sub_ps(shifted, round);
    let r = _mm512_fmadd_ps(n, _mm512_set1_ps(-LN2_HIGH), x);
    let r = _mm512_fmadd_ps(n, _mm512_set1_ps(-LN2_LOW), r);
    // SAFETY: a table of as many.
    let roots = unsafe { _mm512_loadu_ps(ROOTS.as_ptr()) };
    // The low bits of the rounded number are the sixteenths.
    let root = _mm512_permutexvar_ps(_mm512_castps_si512(shifted), roots);
    let [c0, c1] = SHORT.map(|c| _mm512_set1_ps(c));
    let p = _mm512_fmadd_ps(_mm512_fmadd_ps(c1, r, c0), r, _mm512_set1_ps(1.0));
    _mm512_scalef_ps(_mm512_fmadd_ps(_mm512_mul_ps(root, r), p, root), n)
}

/// The first `n` lanes, or all.
fn first(n: usize) -> __mmask16 {
    if n < WIDTH { (1 << n) - 1 } else { !0 }
}

/// `dst = e^a`.
///
/// # Safety
/// The contract of [`super::MicroFn`], on a machine with AVX-512.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn exp(dst: *mut u8, [a, ..]: [*const u8; 3], n: usize, next: *const u8) {
    let (dst, a) = (dst.cast::<f32>(), a.cast::<f32>());
    for i in (0..n).step_by(WIDTH) {
        let mask = first(n - i);
        prefetch_far(next.wrapping_add(i * size_of::<f32>()), 1);
        // SAFETY: the caller's promise; lanes beyond `n` are masked.
        unsafe { _mm512_mask_storeu_ps(dst.add(i), mask, exp16(_mm512_maskz_loadu_ps(mask, a.add(i)))) }
    }
}

/// `dst = e^(a - b)`, `b` a scalar.
///
/// # Safety
/// The contract of [`super::MicroFn`], on a machine with AVX-512.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn exp_sub(dst: *mut u8, [a, b, _]: [*const u8; 3], n: usize, _next: *const u8) {
    let (dst, a) = (dst.cast::<f32>(), a.cast::<f32>());
    // SAFETY: the caller's promise; lanes beyond `n` are masked.
    unsafe {
        let shift = _mm512_set1_ps(b.cast::<f32>().read());
        for i in (0..n).step_by(WIDTH) {
            let mask = first(n - i);
            let x = _mm512_sub_ps(_mm512_maskz_loadu_ps(mask, a.add(i)), shift);
            _mm512_mask_storeu_ps(dst.add(i), mask, exp16(x));
        }
    }
}

/// `dst = e^(a - b)`, `b` a scalar, whose sum enters the sum state at `c`; with `BELOW`, `b` is
/// no less than any `a`.
///
/// # Safety
/// As [`exp_sub`], with `c` a sum state that may be written.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn exp_sub_sum<const BELOW: bool>(
    dst: *mut u8,
    from: [*const u8; 3],
    n: usize,
    next: *const u8,
) {
    // SAFETY: the caller's promise.
    unsafe { exp_sum::<BELOW>(dst, from, n, next, |_| ()) }
}

/// The same, and the store of a late product.
///
/// # Safety
/// As [`exp_sub_sum`] and [`Late::store`]; neither writes what the other reads.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn exp_sub_sum_late<const BELOW: bool>(
    dst: *mut u8,
    from: [*const u8; 3],
    n: usize,
    next: *const u8,
    late: &Late,
) {
    let Late { to, from: line, factor, n: count, .. } = *late;
    let factor = _mm512_set1_ps(factor);
    // SAFETY: the caller's promise; what is stored fills lines of the cache.
    unsafe {
        let store = |i: usize| {
            _mm512_stream_ps(to.add(i), _mm512_mul_ps(_mm512_loadu_ps(line.add(i)), factor));
        };
        exp_sum::<BELOW>(dst, from, n, next, |i| {
            if i < count {
                store(i);
            }
        });
        (n - n % WIDTH..count).step_by(WIDTH).for_each(store);
    }
}

/// What [`exp_sub_sum`] does, calling `between` with the number of the first element of each
/// register that elements fill.
///
/// # Safety
/// As [`exp_sub_sum`].
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn exp_sum<const BELOW: bool>(
    dst: *mut u8,
    [a, b, c]: [*const u8; 3],
    n: usize,
    next: *const u8,
    mut between: impl FnMut(usize),
) {
    let (dst, a) = (dst.cast::<f32>(), a.cast::<f32>());
    // SAFETY: the caller's promise.
    unsafe {
        let (shift, sum) = (_mm512_set1_ps(b.cast::<f32>().read()), &mut *c.cast_mut().cast::<Sum<f32>>());
        for start in (0..n).step_by(BLOCK) {
            let (n, next) = ((n - start).min(BLOCK), next.wrapping_add(start * size_of::<f32>()));
            let between = |at: usize| between(start + at);
            sum.add(f64::from(block::<BELOW>(dst.add(start), a.add(start), shift, n, next, between)));
        }
    }
}

/// # Safety
/// `n` elements at both.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn block<const BELOW: bool>(
    dst: *mut f32,
    x: *const f32,
    shift: __m512,
    n: usize,
    next: *const u8,
    mut between: impl FnMut(usize),
) -> f32 {
    let mut lanes = [_mm512_setzero_ps(); LANES / WIDTH];
    let whole = n - n % LANES;
    let exp = |x: __m512| {
        let x = _mm512_sub_ps(x, shift);
        if BELOW { exp16_below(x) } else { exp16(x) }
    };
    // SAFETY: the caller's promise; lanes beyond `n` are masked.
    unsafe {
        for i in (0..whole).step_by(LANES) {
            foresee_lanes(next.wrapping_add(i * size_of::<f32>()), n);
            for (k, lane) in lanes.iter_mut().enumerate() {
                let at = i + k * WIDTH;
                let e = exp(_mm512_loadu_ps(x.add(at)));
                _mm512_storeu_ps(dst.add(at), e);
                *lane = _mm512_add_ps(*lane, e);
                between(at);
            }
        }
        for (i, lane) in (whole..n).step_by(WIDTH).zip(&mut lanes) {
            // A store by a mask waits for those before it.
            if n - i >= WIDTH {
                let e = exp(_mm512_loadu_ps(x.add(i)));
                _mm512_storeu_ps(dst.add(i), e);
                *lane = _mm512_add_ps(*lane, e);
                between(i);
            } else {
                let mask = first(n - i);
                let e = exp(_mm512_maskz_loadu_ps(mask, x.add(i)));
                _mm512_mask_storeu_ps(dst.add(i), mask, e);
                *lane = _mm512_mask_add_ps(*lane, mask, *lane, e);
            }
        }
        let mut sums = [0.0; LANES];
        for (sums, lane) in sums.chunks_exact_mut(WIDTH).zip(lanes) {
            _mm512_storeu_ps(sums.as_mut_ptr(), lane);
        }
        join_lanes(sums, |p, q| p + q)
    }
}

/// The softmax of scores that lie key by key.
///
/// # Safety
/// The contract of [`super::softmax::weigh`], on a machine with AVX-512.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn weigh(weights: &Weights) {
    const { assert!(QUERIES == WIDTH) };
    let Weights { scores, step, keys, queries, most, sum, left } = *weights;
    for first in (0..queries).step_by(WIDTH) {
        let at = |key: usize| scores.wrapping_add(key * step + first);
        // SAFETY: the caller's promise.
        unsafe {
            let before = _mm512_loadu_ps(most.add(first));
            let mut greatest = before;
            for key in 0..keys {
                // Of these, the second operand stays where one is NaN.
                greatest = _mm512_max_ps(_mm512_loadu_ps(at(key)), greatest);
            }
            let nothing = _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(greatest, _mm512_set1_ps(f32::NEG_INFINITY));
            let shift = _mm512_maskz_mov_ps(!nothing, greatest);
            let factor = exp16_below(_mm512_sub_ps(before, shift));
            let mut sums = _mm512_setzero_ps();
            for key in 0..keys {
                let e = exp16_below(_mm512_sub_ps(_mm512_loadu_ps(at(key)), shift));
                _mm512_storeu_ps(at(key), e);
                sums = _mm512_add_ps(sums, e);
            }
            let total = _mm512_mul_ps(_mm512_loadu_ps(sum.add(first)), factor);
            _mm512_storeu_ps(sum.add(first), _mm512_add_ps(total, sums));
            _mm512_storeu_ps(most.add(first), greatest);
            _mm512_storeu_ps(left.add(first), factor);
        }
    }
}
