//! Exponentials by AVX2: the polynomial of [`math::exp`], and its bits. Where all results are
//! normal numbers, which one comparison tells for several registers, an addition to the exponent
//! scales them, and nothing has to be clamped.

use std::arch::x86_64::*;

use crate::runtime::cpu::micro::exponential::rows::{Register, loops};
use crate::runtime::cpu::micro::isa::Avx;
use crate::runtime::cpu::micro::math::{self, EXP, LN2_HIGH, LN2_LOW, ROUND};

/// The least power of two by which no result becomes subnormal.
const LEAST: i32 = -125;

/// From there to the greatest by which none becomes infinite.
const POWERS: i32 = 127 - LEAST;

#[derive(Clone, Copy)]
struct F32x8(__m256);

loops!(F32x8, "avx2,fma,f16c");

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
impl Register for F32x8 {
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
    unsafe fn stream(self, to: *mut f32) {
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
    unsafe fn greater(self, other: Self) -> Self {
        unsafe { F32x8(_mm256_max_ps(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn or_zero(self) -> Self {
        unsafe {
            let nothing = _mm256_cmp_ps::<_CMP_EQ_OQ>(self.0, _mm256_set1_ps(f32::NEG_INFINITY));
            F32x8(_mm256_andnot_ps(nothing, self.0))
        }
    }
    #[inline(always)]
    unsafe fn exp<const N: usize, const BELOW: bool>(x: [Self; N]) -> [Self; N] {
        unsafe {
            let mut shifted = x;
            let mut most = _mm256_setzero_si256();
            for k in 0..N {
                let (scale, round) = (_mm256_set1_ps(std::f32::consts::LOG2_E), _mm256_set1_ps(ROUND));
                shifted[k] = F32x8(_mm256_fmadd_ps(x[k].0, scale, round));
                // What is rounded lies in the low bits. Without a sign: NaN, too, is beyond.
                let least = _mm256_set1_epi32(ROUND.to_bits() as i32 + LEAST);
                let power = _mm256_sub_epi32(_mm256_castps_si256(shifted[k].0), least);
                most = _mm256_max_epu32(most, power);
            }
            let powers = _mm256_set1_epi32(POWERS);
            let inside = _mm256_cmpeq_epi32(_mm256_max_epu32(most, powers), powers);
            let mut result = x;
            if _mm256_movemask_epi8(inside) != -1 {
                any(&mut result);
                return result;
            }
            for k in 0..N {
                result[k] = normal(x[k], shifted[k]);
            }
            result
        }
    }
}

/// e^x, where that is a normal number, from x by powers of two, rounded.
#[inline(always)]
unsafe fn normal(F32x8(x): F32x8, F32x8(shifted): F32x8) -> F32x8 {
    // SAFETY: as above.
    unsafe {
        let n = _mm256_sub_ps(shifted, _mm256_set1_ps(ROUND));
        let r = _mm256_fnmadd_ps(n, _mm256_set1_ps(LN2_HIGH), x);
        let r = _mm256_fnmadd_ps(n, _mm256_set1_ps(LN2_LOW), r);
        let mut p = _mm256_set1_ps(EXP[0]);
        for c in &EXP[1..] {
            p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(*c));
        }
        let y = _mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r);
        let e = _mm256_castps_si256(_mm256_add_ps(_mm256_set1_ps(1.0), y));
        let power = _mm256_slli_epi32::<23>(_mm256_castps_si256(shifted));
        F32x8(_mm256_castsi256_ps(_mm256_add_epi32(e, power)))
    }
}

/// e^x of any numbers, in their place.
#[cold]
#[inline(never)]
#[target_feature(enable = "avx2,fma,f16c")]
fn any(x: &mut [F32x8]) {
    for F32x8(x) in x {
        let mut lanes = [0f32; F32x8::WIDTH];
        // SAFETY: an array of as many elements.
        unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), *x) };
        for lane in &mut lanes {
            *lane = math::exp::<Avx>(*lane);
        }
        // SAFETY: as above.
        *x = unsafe { _mm256_loadu_ps(lanes.as_ptr()) };
    }
}
