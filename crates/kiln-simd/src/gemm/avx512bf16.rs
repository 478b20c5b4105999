//! Pairs of bfloat16 in registers of 512 bits.
//!
//! `vdpbf16ps` takes subnormal factors for zeros, of either sign, and makes zeros of subnormal
//! sums; it rounds to nearest even whatever the mode, and raises no exceptions.

use std::arch::x86_64::*;
use std::mem::transmute;

use super::avx512::{kernel, transpose_16x16};
use super::simd::{self, Axpy, Dot, RegisterTile, RowCopy, SimdVector};
use super::{Bf16x2, MicroKernel};

#[derive(Clone, Copy)]
struct Bf16x2Vector(__m512);

// SAFETY (of every block below): the caller has AVX-512 F and BF16 and vouches for the
// elements; masked-out lanes are not accessed.
impl SimdVector for Bf16x2Vector {
    type Element = Bf16x2;
    const COUNT: usize = 16;
    const FREE_MASKS: bool = true;

    #[inline(always)]
    unsafe fn zero() -> Self {
        unsafe { Bf16x2Vector(_mm512_setzero_ps()) }
    }
    #[inline(always)]
    unsafe fn splat(from: *const Bf16x2) -> Self {
        unsafe { Bf16x2Vector(_mm512_castsi512_ps(_mm512_set1_epi32(from.cast::<i32>().read_unaligned()))) }
    }
    #[inline(always)]
    unsafe fn load(from: *const Bf16x2) -> Self {
        unsafe { Bf16x2Vector(_mm512_loadu_ps(from.cast())) }
    }
    #[inline(always)]
    unsafe fn load_first(from: *const Bf16x2, count: usize) -> Self {
        unsafe { Bf16x2Vector(_mm512_maskz_loadu_ps(((1u32 << count) - 1) as __mmask16, from.cast())) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut Bf16x2) {
        unsafe { _mm512_storeu_ps(to.cast(), self.0) }
    }
    #[inline(always)]
    unsafe fn store_first(self, to: *mut Bf16x2, count: usize) {
        unsafe { _mm512_mask_storeu_ps(to.cast(), ((1u32 << count) - 1) as __mmask16, self.0) }
    }
    #[inline(always)]
    unsafe fn multiply_add(self, x: Self, y: Self) -> Self {
        unsafe {
            let (a, b) = (transmute::<__m512, __m512bh>(self.0), transmute::<__m512, __m512bh>(x.0));
            Bf16x2Vector(_mm512_dpbf16_ps(y.0, a, b))
        }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        unsafe { Bf16x2Vector(_mm512_add_ps(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn sum(self) -> Bf16x2 {
        unsafe { transmute::<f32, Bf16x2>(_mm512_reduce_add_ps(self.0)) }
    }
    #[inline(always)]
    unsafe fn prefetch(at: *const Bf16x2) {
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }
}

#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn tile<L: SimdVector, const R: usize, const V: usize>(tile: &RegisterTile<L::Element>) {
    // SAFETY: the caller keeps `simd::tile`'s contract.
    unsafe { simd::tile::<L, R, V>(tile) }
}

#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn dot<L: SimdVector>(dot: &Dot<L::Element>) {
    // SAFETY: the caller keeps `simd::dot`'s contract.
    unsafe { simd::dot::<L>(dot) }
}

#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn axpy<L: SimdVector>(axpy: &Axpy<L::Element>) {
    // SAFETY: the caller keeps `simd::axpy`'s contract.
    unsafe { simd::axpy::<L>(axpy) }
}

#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn copy<L: SimdVector>(copying: &RowCopy<L::Element>) {
    // SAFETY: the caller keeps `simd::copy`'s contract.
    unsafe { simd::copy::<L>(copying) }
}

/// The kernel for pairs, where the processor has AVX-512 BF16.
pub(super) fn bf16x2() -> Option<MicroKernel<Bf16x2>> {
    let has = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bf16");
    has.then_some(kernel!("avx512bf16", Bf16x2Vector, transpose_16x16))
}
