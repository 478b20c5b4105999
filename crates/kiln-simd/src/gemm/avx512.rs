//! Registers of 512 bits, with masks for what does not fill one.

use std::arch::x86_64::*;

use super::simd::{self, Axpy, Dot, RegisterTile, RowCopy, SimdVector};
use super::{AbsoluteDifference, MicroKernel, SquaredDifference};
use crate::micro::transposed_16x16;

/// The register type of an element: how many there are, their mask, what intrinsics call them,
/// and what adds a product to a sum.
macro_rules! simd_vector {
    ($name:ident($register:ty), $element:ty as $bits:ty, $count:literal, $mask:ty, $zero:ident, $splat:ident,
     $load:ident, $load_mask:ident, $store:ident, $store_mask:ident, $add:ident, $sum:ident,
     |$a:ident, $x:ident, $y:ident| $multiply_add:expr) => {
        #[derive(Clone, Copy)]
        struct $name($register);

        // SAFETY (of every block below): the caller has AVX-512F and vouches
        // for the elements; masked-out lanes are not accessed.
        impl SimdVector for $name {
            type Element = $element;
            const COUNT: usize = $count;
            const FREE_MASKS: bool = true;

            #[inline(always)]
            unsafe fn zero() -> Self {
                unsafe { $name($zero()) }
            }
            #[inline(always)]
            unsafe fn splat(from: *const $element) -> Self {
                unsafe { $name($splat(*from.cast::<$bits>())) }
            }
            #[inline(always)]
            unsafe fn load(from: *const $element) -> Self {
                unsafe { $name($load(from.cast())) }
            }
            #[inline(always)]
            unsafe fn load_first(from: *const $element, count: usize) -> Self {
                unsafe { $name($load_mask(((1u32 << count) - 1) as $mask, from.cast())) }
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $element) {
                unsafe { $store(to.cast(), self.0) }
            }
            #[inline(always)]
            unsafe fn store_first(self, to: *mut $element, count: usize) {
                unsafe { $store_mask(to.cast(), ((1u32 << count) - 1) as $mask, self.0) }
            }
            #[inline(always)]
            unsafe fn multiply_add(self, x: Self, y: Self) -> Self {
                let ($a, $x, $y) = (self.0, x.0, y.0);
                unsafe { $name($multiply_add) }
            }
            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                unsafe { $name($add(self.0, other.0)) }
            }
            #[inline(always)]
            unsafe fn sum(self) -> $element {
                // The element has the bits of the sum's type.
                unsafe { std::mem::transmute_copy::<$bits, $element>(&$sum(self.0)) }
            }
            #[inline(always)]
            unsafe fn prefetch(at: *const $element) {
                unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
            }
        }
    };
}

/// [`simd_vector`] of 32-bit floats.
macro_rules! simd_vector_f32 {
    ($name:ident, $element:ty, |$a:ident, $x:ident, $y:ident| $multiply_add:expr) => {
        simd_vector!(
            $name(__m512),
            $element as f32,
            16,
            __mmask16,
            _mm512_setzero_ps,
            _mm512_set1_ps,
            _mm512_loadu_ps,
            _mm512_maskz_loadu_ps,
            _mm512_storeu_ps,
            _mm512_mask_storeu_ps,
            _mm512_add_ps,
            _mm512_reduce_add_ps,
            |$a, $x, $y| $multiply_add
        );
    };
}

/// [`simd_vector`] of 32-bit integers.
macro_rules! simd_vector_i32 {
    ($name:ident, $element:ty) => {
        simd_vector!(
            $name(__m512i),
            $element as i32,
            16,
            __mmask16,
            _mm512_setzero_si512,
            _mm512_set1_epi32,
            _mm512_loadu_epi32,
            _mm512_maskz_loadu_epi32,
            _mm512_storeu_epi32,
            _mm512_mask_storeu_epi32,
            _mm512_add_epi32,
            _mm512_reduce_add_epi32,
            |a, x, y| _mm512_add_epi32(_mm512_mullo_epi32(a, x), y)
        );
    };
}

simd_vector_f32!(F32x16, f32, |a, x, y| _mm512_fmadd_ps(a, x, y));
simd_vector_f32!(Squares, SquaredDifference, |a, x, y| {
    let difference = _mm512_sub_ps(a, x);
    _mm512_fmadd_ps(difference, difference, y)
});
simd_vector_f32!(Magnitudes, AbsoluteDifference, |a, x, y| {
    _mm512_add_ps(_mm512_abs_ps(_mm512_sub_ps(a, x)), y)
});
simd_vector!(
    F64x8(__m512d),
    f64 as f64,
    8,
    __mmask8,
    _mm512_setzero_pd,
    _mm512_set1_pd,
    _mm512_loadu_pd,
    _mm512_maskz_loadu_pd,
    _mm512_storeu_pd,
    _mm512_mask_storeu_pd,
    _mm512_add_pd,
    _mm512_reduce_add_pd,
    |a, x, y| _mm512_fmadd_pd(a, x, y)
);
simd_vector_i32!(I32x16, i32);
simd_vector_i32!(U32x16, u32);

#[target_feature(enable = "avx512f")]
unsafe fn tile<L: SimdVector, const R: usize, const V: usize>(tile: &RegisterTile<L::Element>) {
    // SAFETY: the caller keeps `simd::tile`'s contract.
    unsafe { simd::tile::<L, R, V>(tile) }
}

#[target_feature(enable = "avx512f")]
unsafe fn dot<L: SimdVector>(dot: &Dot<L::Element>) {
    // SAFETY: the caller keeps `simd::dot`'s contract.
    unsafe { simd::dot::<L>(dot) }
}

#[target_feature(enable = "avx512f")]
unsafe fn axpy<L: SimdVector>(axpy: &Axpy<L::Element>) {
    // SAFETY: the caller keeps `simd::axpy`'s contract.
    unsafe { simd::axpy::<L>(axpy) }
}

#[target_feature(enable = "avx512f")]
unsafe fn copy<L: SimdVector>(copying: &RowCopy<L::Element>) {
    // SAFETY: the caller keeps `simd::copy`'s contract.
    unsafe { simd::copy::<L>(copying) }
}

/// A kernel of the functions where this is named. Tiles of 8 rows by 3 registers: 24 sums,
/// which hide the latency of the multiply-adds, and 11 loads for 24 of them.
macro_rules! kernel {
    ($name:literal, $lanes:ty, $transpose:expr) => {
        MicroKernel {
            name: $name,
            rows: 8,
            columns: 3 * <$lanes>::COUNT,
            lanes: <$lanes>::COUNT,
            contiguous_k: false,
            tiles: &[
                &[tile::<$lanes, 1, 1>, tile::<$lanes, 1, 2>, tile::<$lanes, 1, 3>],
                &[tile::<$lanes, 2, 1>, tile::<$lanes, 2, 2>, tile::<$lanes, 2, 3>],
                &[tile::<$lanes, 3, 1>, tile::<$lanes, 3, 2>, tile::<$lanes, 3, 3>],
                &[tile::<$lanes, 4, 1>, tile::<$lanes, 4, 2>, tile::<$lanes, 4, 3>],
                &[tile::<$lanes, 5, 1>, tile::<$lanes, 5, 2>, tile::<$lanes, 5, 3>],
                &[tile::<$lanes, 6, 1>, tile::<$lanes, 6, 2>, tile::<$lanes, 6, 3>],
                &[tile::<$lanes, 7, 1>, tile::<$lanes, 7, 2>, tile::<$lanes, 7, 3>],
                &[tile::<$lanes, 8, 1>, tile::<$lanes, 8, 2>, tile::<$lanes, 8, 3>],
            ],
            dot: dot::<$lanes>,
            axpy: axpy::<$lanes>,
            copy: copy::<$lanes>,
            transpose: $transpose,
        }
    };
}
pub(super) use kernel;

/// [`kernel`], where the processor has AVX-512F.
macro_rules! available {
    ($lanes:ty, $transpose:expr) => {
        is_x86_feature_detected!("avx512f").then_some(kernel!("avx512", $lanes, $transpose))
    };
}

/// The kernel for `f32`, where the processor has AVX-512F.
pub(super) fn f32() -> Option<MicroKernel<f32>> {
    available!(F32x16, transpose_16x16)
}

/// The kernel for squared differences, where the processor has AVX-512F.
pub(super) fn squared_differences() -> Option<MicroKernel<SquaredDifference>> {
    available!(Squares, transpose_16x16)
}

/// The kernel for absolute differences, where the processor has AVX-512F.
pub(super) fn absolute_differences() -> Option<MicroKernel<AbsoluteDifference>> {
    available!(Magnitudes, transpose_16x16)
}

/// The kernel for `i32`, where the processor has AVX-512F.
pub(super) fn i32() -> Option<MicroKernel<i32>> {
    available!(I32x16, transpose_16x16)
}

/// The kernel for `u32`, where the processor has AVX-512F.
pub(super) fn u32() -> Option<MicroKernel<u32>> {
    available!(U32x16, transpose_16x16)
}

/// The kernel for `f64`, where the processor has AVX-512F.
pub(super) fn f64() -> Option<MicroKernel<f64>> {
    available!(F64x8, transpose_8x8)
}

/// Transposes 16 by 16 elements of 32 bits.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn transpose_16x16<T>(from: *const T, row: isize, to: *mut T, to_row: isize) {
    const { assert!(size_of::<T>() == size_of::<f32>()) };
    let (from, to) = (from.cast::<f32>(), to.cast::<f32>());
    // SAFETY: the caller vouches for both blocks.
    unsafe {
        // Intrinsics are not inlined into what calls closures, as `from_fn` does.
        let mut rows = [_mm512_setzero_ps(); 16];
        for (i, x) in rows.iter_mut().enumerate() {
            *x = _mm512_loadu_ps(from.offset(i as isize * row));
        }
        for (i, column) in transposed_16x16(rows).into_iter().enumerate() {
            _mm512_storeu_ps(to.offset(i as isize * to_row), column);
        }
    }
}

/// Transposes 8 by 8 elements: pairs, then the 128-bit quarters across
/// registers.
#[target_feature(enable = "avx512f")]
unsafe fn transpose_8x8(from: *const f64, row: isize, to: *mut f64, to_row: isize) {
    // SAFETY: the caller vouches for both blocks.
    unsafe {
        let mut x = [_mm512_setzero_pd(); 8];
        for i in 0..4 {
            let a = _mm512_loadu_pd(from.offset(2 * i as isize * row));
            let b = _mm512_loadu_pd(from.offset((2 * i + 1) as isize * row));
            x[2 * i] = _mm512_unpacklo_pd(a, b);
            x[2 * i + 1] = _mm512_unpackhi_pd(a, b);
        }
        // x[2g + j] holds columns j, 2 + j, 4 + j, 6 + j of rows 2g and 2g + 1.
        for j in 0..2 {
            let even = _mm512_shuffle_f64x2::<0x88>(x[j], x[2 + j]);
            let odd = _mm512_shuffle_f64x2::<0xdd>(x[j], x[2 + j]);
            let even_high = _mm512_shuffle_f64x2::<0x88>(x[4 + j], x[6 + j]);
            let odd_high = _mm512_shuffle_f64x2::<0xdd>(x[4 + j], x[6 + j]);
            let out = [
                _mm512_shuffle_f64x2::<0x88>(even, even_high),
                _mm512_shuffle_f64x2::<0x88>(odd, odd_high),
                _mm512_shuffle_f64x2::<0xdd>(even, even_high),
                _mm512_shuffle_f64x2::<0xdd>(odd, odd_high),
            ];
            for (quarter, out) in out.into_iter().enumerate() {
                _mm512_storeu_pd(to.offset((2 * quarter + j) as isize * to_row), out);
            }
        }
    }
}
