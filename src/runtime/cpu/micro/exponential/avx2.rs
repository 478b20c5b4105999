//! Exponentials by AVX2: the polynomial of [`math::exp`], and its bits. Where all results are
//! normal numbers, which one comparison tells for several registers, an addition to the exponent
//! scales them, and nothing has to be clamped.

use std::arch::x86_64::*;

use crate::runtime::cpu::micro::exponential::rows::{Register, loops};
use crate::runtime::cpu::micro::isa::Avx;
use crate::runtime::cpu::micro::math::{self, EXP, LN2_HIGH, LN2_LOW, ROUND};

/// Up to this magnitude the exponential is a normal number, and so are the factors of it.
const NORMAL: f32 = 86.0;

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
    unsafe fn exp<const N: usize, const BELOW: bool>(mut x: [Self; N]) -> [Self; N] {
        unsafe {
            let mut most = _mm256_setzero_si256();
            for x in x {
                // Magnitudes of numbers have the order of their bits, and NaN is beyond.
                let magnitude = _mm256_andnot_si256(_mm256_set1_epi32(i32::MIN), _mm256_castps_si256(x.0));
                most = _mm256_max_epu32(most, magnitude);
            }
            let outside = _mm256_cmpgt_epi32(most, _mm256_set1_epi32(NORMAL.to_bits() as i32));
            if _mm256_testz_si256(outside, outside) == 0 {
                for x in &mut x {
                    *x = any(*x);
                }
                return x;
            }
            for x in &mut x {
                *x = normal(*x);
            }
            x
        }
    }
}

/// e^x, where that is a normal number.
#[inline(always)]
unsafe fn normal(F32x8(x): F32x8) -> F32x8 {
    // SAFETY: as above.
    unsafe {
        let round = _mm256_set1_ps(ROUND);
        let shifted = _mm256_fmadd_ps(x, _mm256_set1_ps(std::f32::consts::LOG2_E), round);
        let n = _mm256_sub_ps(shifted, round);
        let r = _mm256_fnmadd_ps(n, _mm256_set1_ps(LN2_HIGH), x);
        let r = _mm256_fnmadd_ps(n, _mm256_set1_ps(LN2_LOW), r);
        let mut p = _mm256_set1_ps(EXP[0]);
        for c in &EXP[1..] {
            p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(*c));
        }
        let y = _mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r);
        let e = _mm256_castps_si256(_mm256_add_ps(_mm256_set1_ps(1.0), y));
        // What x was rounded to lies in the low bits.
        let power = _mm256_slli_epi32::<23>(_mm256_castps_si256(shifted));
        F32x8(_mm256_castsi256_ps(_mm256_add_epi32(e, power)))
    }
}

/// e^x of any numbers.
#[cold]
#[inline(never)]
#[target_feature(enable = "avx2,fma,f16c")]
fn any(F32x8(x): F32x8) -> F32x8 {
    let mut lanes = [0f32; F32x8::WIDTH];
    // SAFETY: an array of as many elements, twice.
    unsafe {
        _mm256_storeu_ps(lanes.as_mut_ptr(), x);
        for lane in &mut lanes {
            *lane = math::exp::<Avx>(*lane);
        }
        F32x8(_mm256_loadu_ps(lanes.as_ptr()))
    }
}
