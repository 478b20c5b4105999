//! Exponentials by AVX-512: as exact as `math::exp`, for fewer operations, since one
//! instruction scales by a power of two whatever the range, and one picks from a table of 16.

use std::arch::x86_64::*;

use crate::micro::exponential::rows::loops;
use crate::micro::exponential::vector::F32Vector;
use crate::micro::math::{EXP_ZERO, LN2_HIGH, LN2_LOW, ROUND};

/// Elements of a register.
const WIDTH: usize = 16;

#[derive(Clone, Copy)]
struct F32x16(__m512);

loops!(F32x16, 4, "avx512f");

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

/// The same for x up to 89. Lanes whose result is zero are not scaled: one that underflows takes as long
/// as a hundred vectors that do not, and masks make of those half a matrix.
#[inline]
#[target_feature(enable = "avx512f")]
fn exp16_below(x: __m512) -> __m512 {
    let nonzero = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(x, _mm512_set1_ps(EXP_ZERO));
    let round = _mm512_set1_ps(ROUND_SIXTEENTHS);
    let shifted = _mm512_fmadd_ps(x, _mm512_set1_ps(std::f32::consts::LOG2_E), round);
    let n = _mm512_sub_ps(shifted, round);
    let r = _mm512_fmadd_ps(n, _mm512_set1_ps(-LN2_HIGH), x);
    let r = _mm512_fmadd_ps(n, _mm512_set1_ps(-LN2_LOW), r);
    // SAFETY: a table of as many.
    let roots = unsafe { _mm512_loadu_ps(ROOTS.as_ptr()) };
    // The low bits of the rounded number are the sixteenths.
    let root = _mm512_permutexvar_ps(_mm512_castps_si512(shifted), roots);
    // A closure here would not always be inlined.
    let (c0, c1) = (_mm512_set1_ps(SHORT[0]), _mm512_set1_ps(SHORT[1]));
    let p = _mm512_fmadd_ps(_mm512_fmadd_ps(c1, r, c0), r, _mm512_set1_ps(1.0));
    _mm512_maskz_scalef_ps(nonzero, _mm512_fmadd_ps(_mm512_mul_ps(root, r), p, root), n)
}

/// Set where a lane is among the first `count`.
#[inline(always)]
fn mask(count: usize) -> __mmask16 {
    ((1u32 << count) - 1) as __mmask16
}

// SAFETY (of every block below): the caller has AVX-512F and vouches for the elements;
// masked-out lanes are not accessed.
impl F32Vector for F32x16 {
    const WIDTH: usize = WIDTH;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        unsafe { F32x16(_mm512_set1_ps(x)) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        unsafe { F32x16(_mm512_loadu_ps(from)) }
    }
    #[inline(always)]
    unsafe fn load_first(from: *const f32, count: usize) -> Self {
        unsafe { F32x16(_mm512_maskz_loadu_ps(mask(count), from)) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe { _mm512_storeu_ps(to, self.0) }
    }
    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, count: usize) {
        unsafe { _mm512_mask_storeu_ps(to, mask(count), self.0) }
    }
    #[inline(always)]
    unsafe fn store_non_temporal(self, to: *mut f32) {
        unsafe { _mm512_stream_ps(to, self.0) }
    }
    #[inline(always)]
    unsafe fn first(self, count: usize) -> Self {
        unsafe { F32x16(_mm512_maskz_mov_ps(mask(count), self.0)) }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        unsafe { F32x16(_mm512_add_ps(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        unsafe { F32x16(_mm512_sub_ps(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        unsafe { F32x16(_mm512_mul_ps(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        unsafe { F32x16(_mm512_max_ps(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn zero_if_neg_inf(self) -> Self {
        unsafe {
            let nothing = _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(self.0, _mm512_set1_ps(f32::NEG_INFINITY));
            F32x16(_mm512_maskz_mov_ps(!nothing, self.0))
        }
    }
    #[inline(always)]
    unsafe fn in_range<const N: usize, const BELOW: bool>(_: &[Self; N]) -> bool {
        true
    }
    #[inline(always)]
    unsafe fn exp<const BELOW: bool>(self) -> Self {
        unsafe { F32x16(if BELOW { exp16_below(self.0) } else { exp16(self.0) }) }
    }
    #[inline(always)]
    unsafe fn exp_any(self) -> Self {
        unsafe { self.exp::<false>() }
    }
}
