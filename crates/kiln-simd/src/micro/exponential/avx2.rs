//! Exponentials by AVX2: as exact as [`math::exp`](super::super::math::exp), for fewer operations,
//! since one instruction picks from a table of 8. Where all results are normal numbers, which one
//! comparison tells for several registers, an addition to the exponent scales them, and nothing has
//! to be clamped.

use std::arch::x86_64::*;

use crate::micro::exponential::rows::loops;
use crate::micro::exponential::vector::F32Vector;
use crate::micro::math::{EXP_ZERO, LN2_HIGH, LN2_LOW, ROUND};

/// Up to this magnitude the exponential is a normal number.
const NORMAL: f32 = 86.0;

/// 2^(j/8).
const ROOTS: [f32; 8] = [
    1.0,
    1.090_507_7,
    1.189_207_1,
    1.296_839_6,
    std::f32::consts::SQRT_2,
    1.542_210_8,
    1.681_792_9,
    1.834_008_1,
];

/// The bits of [`ROOTS`], less the j that [`normal`] adds to the exponent field.
const ROOTS_LESS: [u32; 8] = {
    let (mut less, mut j) = ([0; 8], 0);
    while j < 8 {
        less[j] = ROOTS[j].to_bits() - ((j as u32) << 20);
        j += 1;
    }
    less
};

/// Added to a number, it leaves whole eighths of it.
const ROUND_EIGHTHS: f32 = ROUND / 8.0;

/// (e^r - 1 - r) / r² on ±0.0433, the constant first: 2.6e-8 of e^r.
const SHORT: [f32; 2] = [0.500_064_55, 0.166_668_58];

#[derive(Clone, Copy)]
struct F32x8(__m256);

loops!(F32x8, 2, "avx2,fma,f16c");

/// Set where a lane is among the first `count`.
#[inline(always)]
unsafe fn mask(count: usize) -> __m256i {
    // SAFETY: the caller has AVX2, as in all of these.
    unsafe {
        let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        _mm256_cmpgt_epi32(_mm256_set1_epi32(count as i32), lanes)
    }
}

// SAFETY (of every block below): the caller has AVX2 and FMA and vouches for the elements;
// masked-out lanes are not accessed.
impl F32Vector for F32x8 {
    const WIDTH: usize = 8;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        unsafe { F32x8(_mm256_set1_ps(x)) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        unsafe { F32x8(_mm256_loadu_ps(from)) }
    }
    #[inline(always)]
    unsafe fn load_first(from: *const f32, count: usize) -> Self {
        unsafe { F32x8(_mm256_maskload_ps(from, mask(count))) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe { _mm256_storeu_ps(to, self.0) }
    }
    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, count: usize) {
        unsafe { _mm256_maskstore_ps(to, mask(count), self.0) }
    }
    #[inline(always)]
    unsafe fn store_non_temporal(self, to: *mut f32) {
        unsafe { _mm256_stream_ps(to, self.0) }
    }
    #[inline(always)]
    unsafe fn first(self, count: usize) -> Self {
        unsafe { F32x8(_mm256_and_ps(self.0, _mm256_castsi256_ps(mask(count)))) }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        unsafe { F32x8(_mm256_add_ps(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        unsafe { F32x8(_mm256_sub_ps(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        unsafe { F32x8(_mm256_mul_ps(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        unsafe { F32x8(_mm256_max_ps(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn zero_if_neg_inf(self) -> Self {
        unsafe {
            let nothing = _mm256_cmp_ps::<_CMP_EQ_OQ>(self.0, _mm256_set1_ps(f32::NEG_INFINITY));
            F32x8(_mm256_andnot_ps(nothing, self.0))
        }
    }
    #[inline(always)]
    unsafe fn in_range<const N: usize, const BELOW: bool>(x: &[Self; N]) -> bool {
        // A comparison with NaN gives the second operand, so that of two no infinity is lost.
        const { assert!(N <= 2) };
        let [first, last] = [x[0].0, x[N - 1].0];
        unsafe {
            let outside = if BELOW {
                _mm256_cmp_ps::<_CMP_NGE_UQ>(_mm256_min_ps(first, last), _mm256_set1_ps(-NORMAL))
            } else {
                let sign = _mm256_set1_ps(-0.0);
                let running_max = _mm256_max_ps(_mm256_andnot_ps(sign, first), _mm256_andnot_ps(sign, last));
                _mm256_cmp_ps::<_CMP_NLE_UQ>(running_max, _mm256_set1_ps(NORMAL))
            };
            _mm256_testz_ps(outside, outside) != 0
        }
    }
    #[inline(always)]
    unsafe fn exp<const BELOW: bool>(self) -> Self {
        unsafe { normal(self) }
    }
    #[inline(always)]
    unsafe fn exp_any(self) -> Self {
        unsafe { any(self) }
    }
}

/// x as n·ln 2 + r: n in eighths, which are the low bits of what comes first, and e^r - 1.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn parts(x: __m256) -> (__m256i, __m256) {
    let round = _mm256_set1_ps(ROUND_EIGHTHS);
    let shifted = _mm256_fmadd_ps(x, _mm256_set1_ps(std::f32::consts::LOG2_E), round);
    let n = _mm256_sub_ps(shifted, round);
    let r = _mm256_fnmadd_ps(n, _mm256_set1_ps(LN2_HIGH), x);
    let r = _mm256_fnmadd_ps(n, _mm256_set1_ps(LN2_LOW), r);
    let p = _mm256_fmadd_ps(_mm256_set1_ps(SHORT[1]), r, _mm256_set1_ps(SHORT[0]));
    (_mm256_castps_si256(shifted), _mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r))
}

/// e^x where that is a normal number, as 2^n times e^r (Tang, "Table-driven implementation of the
/// exponential function", 1989): the fraction of n picks its power from a register, and its whole
/// part goes to the exponent, with a fraction that the table lacks.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn normal(F32x8(x): F32x8) -> F32x8 {
    let (eighths, y) = parts(x);
    // SAFETY: a table of as many.
    let roots = unsafe { _mm256_loadu_si256(ROOTS_LESS.as_ptr().cast()) };
    let root = _mm256_permutevar8x32_epi32(roots, eighths);
    let power = _mm256_castsi256_ps(_mm256_add_epi32(root, _mm256_slli_epi32::<20>(eighths)));
    F32x8(_mm256_fmadd_ps(y, power, power))
}

/// e^x of any x; where that is normal, the same bits as [`normal`]'s.
#[cold]
#[inline(never)]
#[target_feature(enable = "avx2,fma,f16c")]
fn any(F32x8(x): F32x8) -> F32x8 {
    // Not by way of subnormals, which are slow, and masks make of -inf often.
    let zeros = _mm256_cmp_ps::<_CMP_LT_OQ>(x, _mm256_set1_ps(EXP_ZERO));
    // The second operand stays where it is NaN.
    let x = _mm256_min_ps(_mm256_set1_ps(89.0), _mm256_andnot_ps(zeros, x));
    let (eighths, y) = parts(x);
    // SAFETY: a table of as many.
    let root = _mm256_permutevar8x32_ps(unsafe { _mm256_loadu_ps(ROOTS.as_ptr()) }, eighths);
    // Two factors, so that the result may be subnormal or infinite.
    let round = _mm256_set1_epi32(ROUND_EIGHTHS.to_bits() as i32);
    let whole = _mm256_srai_epi32::<3>(_mm256_sub_epi32(eighths, round));
    let half = _mm256_srai_epi32::<1>(whole);
    let e = _mm256_mul_ps(_mm256_fmadd_ps(y, root, root), power_of_two(half));
    let e = _mm256_mul_ps(e, power_of_two(_mm256_sub_epi32(whole, half)));
    F32x8(_mm256_andnot_ps(zeros, e))
}

/// 2^n for -126 <= n <= 127.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn power_of_two(n: __m256i) -> __m256 {
    _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_add_epi32(n, _mm256_set1_epi32(127))))
}
