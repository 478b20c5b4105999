//! Exponentials by AVX-512: the bits of [`math::exp`], for fewer operations, since one
//! instruction scales by a power of two whatever the range.

use std::arch::x86_64::*;

use crate::runtime::cpu::micro::fold::{BLOCK, LANES, Sum, join_lanes};
use crate::runtime::cpu::micro::math::{EXP, EXP_ZERO, LN2_HIGH, LN2_LOW, ROUND};
use crate::runtime::cpu::micro::memory::prefetch_far;
use crate::runtime::cpu::micro::softmax::{QUERIES, Weights};

/// Elements of a register.
const WIDTH: usize = 16;

/// e^x.
#[inline]
#[target_feature(enable = "avx512f")]
fn exp16(x: __m512) -> __m512 {
    // Of these, the second operand stays where it is NaN.
    let x = _mm512_max_ps(_mm512_set1_ps(-104.0), _mm512_min_ps(_mm512_set1_ps(89.0), x));
    let shifted = _mm512_fmadd_ps(x, _mm512_set1_ps(std::f32::consts::LOG2_E), _mm512_set1_ps(ROUND));
    let n = _mm512_sub_ps(shifted, _mm512_set1_ps(ROUND));
    let r = _mm512_fmadd_ps(n, _mm512_set1_ps(-LN2_HIGH), x);
    let r = _mm512_fmadd_ps(n, _mm512_set1_ps(-LN2_LOW), r);
    let [last, others @ ..] = EXP;
    let p = others.iter().fold(_mm512_set1_ps(last), |p, &c| _mm512_fmadd_ps(p, r, _mm512_set1_ps(c)));
    let y = _mm512_add_ps(_mm512_set1_ps(1.0), _mm512_fmadd_ps(p, _mm512_mul_ps(r, r), r));
    let zero = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(x, _mm512_set1_ps(EXP_ZERO));
    _mm512_maskz_scalef_ps(!zero, y, n)
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

/// `dst = e^(a - b)`, `b` a scalar, whose sum enters the sum state at `c`.
///
/// # Safety
/// As [`exp_sub`], with `c` a sum state that may be written.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn exp_sub_sum(dst: *mut u8, [a, b, c]: [*const u8; 3], n: usize, next: *const u8) {
    let (dst, a) = (dst.cast::<f32>(), a.cast::<f32>());
    // SAFETY: the caller's promise.
    unsafe {
        let (shift, sum) = (_mm512_set1_ps(b.cast::<f32>().read()), &mut *c.cast_mut().cast::<Sum<f32>>());
        for start in (0..n).step_by(BLOCK) {
            let (n, next) = ((n - start).min(BLOCK), next.wrapping_add(start * size_of::<f32>()));
            sum.add(f64::from(block(dst.add(start), a.add(start), shift, n, next)));
        }
    }
}

/// # Safety
/// `n` elements at both.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn block(dst: *mut f32, x: *const f32, shift: __m512, n: usize, next: *const u8) -> f32 {
    let mut lanes = [_mm512_setzero_ps(); LANES / WIDTH];
    let whole = n - n % LANES;
    // SAFETY: the caller's promise; lanes beyond `n` are masked.
    unsafe {
        for i in (0..whole).step_by(LANES) {
            for (k, lane) in lanes.iter_mut().enumerate() {
                let at = i + k * WIDTH;
                prefetch_far(next.wrapping_add(at * size_of::<f32>()), 1);
                let e = exp16(_mm512_sub_ps(_mm512_loadu_ps(x.add(at)), shift));
                _mm512_storeu_ps(dst.add(at), e);
                *lane = _mm512_add_ps(*lane, e);
            }
        }
        for (i, lane) in (whole..n).step_by(WIDTH).zip(&mut lanes) {
            let mask = first(n - i);
            let e = exp16(_mm512_sub_ps(_mm512_maskz_loadu_ps(mask, x.add(i)), shift));
            _mm512_mask_storeu_ps(dst.add(i), mask, e);
            *lane = _mm512_mask_add_ps(*lane, mask, *lane, e);
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
            let factor = exp16(_mm512_sub_ps(before, shift));
            let mut sums = _mm512_setzero_ps();
            for key in 0..keys {
                let e = exp16(_mm512_sub_ps(_mm512_loadu_ps(at(key)), shift));
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
