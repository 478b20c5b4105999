//! Exponentials by AVX2: the polynomial of [`math::exp`], and its bits. Where all results are
//! normal numbers, which one comparison tells for several registers, an addition to the exponent
//! scales them, and nothing has to be clamped.

use std::arch::asm;
use std::arch::x86_64::*;

use crate::runtime::cpu::micro::exponential::rows::{Register, loops};
use crate::runtime::cpu::micro::isa::Avx;
use crate::runtime::cpu::micro::math::{self, EXP, EXP_ZERO, LN2_HIGH, LN2_LOW, ROUND};

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
                // A copy: what others can point at stays in memory.
                let mut all = x;
                beyond(&mut all);
                return all;
            }
            normal(&mut x);
            x
        }
    }
}

/// e^x in their place, where those are normal numbers.
///
/// Each operation is done for all of them before the next: those of one register wait for each
/// other, and with the next register's behind them exponentials take a third longer.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn normal<const N: usize>(x: &mut [F32x8; N]) {
    let (scale, round) = (_mm256_set1_ps(std::f32::consts::LOG2_E), _mm256_set1_ps(ROUND));
    let mut shifted = *x;
    for k in 0..N {
        shifted[k].0 = _mm256_fmadd_ps(x[k].0, scale, round);
    }
    together(&mut shifted);
    let mut n = shifted;
    for k in 0..N {
        n[k].0 = _mm256_sub_ps(shifted[k].0, round);
    }
    for part in [LN2_HIGH, LN2_LOW] {
        for k in 0..N {
            x[k].0 = _mm256_fnmadd_ps(n[k].0, _mm256_set1_ps(part), x[k].0);
        }
        together(x);
    }
    let mut p = [F32x8(_mm256_set1_ps(EXP[0])); N];
    for c in &EXP[1..] {
        for k in 0..N {
            p[k].0 = _mm256_fmadd_ps(p[k].0, x[k].0, _mm256_set1_ps(*c));
        }
        together(&mut p);
    }
    for k in 0..N {
        p[k].0 = _mm256_fmadd_ps(p[k].0, _mm256_mul_ps(x[k].0, x[k].0), x[k].0);
    }
    together(&mut p);
    for k in 0..N {
        let e = _mm256_castps_si256(_mm256_add_ps(_mm256_set1_ps(1.0), p[k].0));
        // What x was rounded to lies in the low bits.
        let power = _mm256_slli_epi32::<23>(_mm256_castps_si256(shifted[k].0));
        x[k].0 = _mm256_castsi256_ps(_mm256_add_epi32(e, power));
    }
}

/// Nothing that comes before it of four registers comes after it, nor the other way round: the
/// compiler would do the operations of one register after those of another.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn together(x: &mut [F32x8]) {
    if let [F32x8(a), F32x8(b), F32x8(c), F32x8(d)] = x {
        // SAFETY: no instruction at all.
        unsafe {
            asm!(
                "/* {0} {1} {2} {3} */",
                inout(ymm_reg) * a,
                inout(ymm_reg) * b,
                inout(ymm_reg) * c,
                inout(ymm_reg) * d,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
    }
}

/// e^x in their place, where some are beyond [`NORMAL`].
#[cold]
#[inline(never)]
#[target_feature(enable = "avx2,fma,f16c")]
fn beyond(x: &mut [F32x8]) {
    let zero = _mm256_set1_ps(EXP_ZERO);
    for x in x {
        // What is hidden from a softmax is minus infinity, so zeros come by the thousand.
        let zeros = _mm256_cmp_ps::<_CMP_LT_OQ>(x.0, zero);
        let magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0), x.0);
        let others = _mm256_andnot_ps(zeros, magnitude);
        let inside = _mm256_cmp_ps::<_CMP_LE_OQ>(others, _mm256_set1_ps(NORMAL));
        if _mm256_movemask_ps(inside) == 0xff {
            let mut e = [F32x8(_mm256_andnot_ps(zeros, x.0))];
            normal(&mut e);
            *x = F32x8(_mm256_andnot_ps(zeros, e[0].0));
        } else {
            *x = any(*x);
        }
    }
}

/// e^x of any numbers.
#[inline]
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
