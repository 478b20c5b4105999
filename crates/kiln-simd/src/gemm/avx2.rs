//! Registers of 256 bits with fused multiply-add.

use std::arch::x86_64::*;

use super::simd::{self, Axpy, Dot, RegisterTile, RowCopy, SimdVector};
use super::{AbsoluteDifference, MicroKernel, SquaredDifference};

/// Eight set lanes and eight clear ones: a mask of n lanes starts at 8 - n.
static MASK_32: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

/// The same of 64-bit lanes.
static MASK_64: [i64; 8] = [-1, -1, -1, -1, 0, 0, 0, 0];

#[inline(always)]
unsafe fn mask_32(count: usize) -> __m256i {
    // SAFETY: count <= 8 leaves eight lanes in the table.
    unsafe { _mm256_loadu_si256(MASK_32.as_ptr().add(8 - count).cast()) }
}

#[inline(always)]
unsafe fn mask_64(count: usize) -> __m256i {
    // SAFETY: count <= 4 leaves four lanes in the table.
    unsafe { _mm256_loadu_si256(MASK_64.as_ptr().add(4 - count).cast()) }
}

/// The sum of all lanes.
#[inline(always)]
unsafe fn sum_ps(x: __m256) -> f32 {
    // SAFETY: the caller has AVX2.
    unsafe {
        let fours = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
        let twos = _mm_add_ps(fours, _mm_movehl_ps(fours, fours));
        _mm_cvtss_f32(_mm_add_ss(twos, _mm_shuffle_ps::<1>(twos, twos)))
    }
}

/// The same of doubles.
#[inline(always)]
unsafe fn sum_pd(x: __m256d) -> f64 {
    // SAFETY: the caller has AVX2.
    unsafe {
        let twos = _mm_add_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd::<1>(x));
        _mm_cvtsd_f64(_mm_add_sd(twos, _mm_unpackhi_pd(twos, twos)))
    }
}

/// The same of integers.
#[inline(always)]
unsafe fn sum_epi32(x: __m256i) -> i32 {
    // SAFETY: the caller has AVX2.
    unsafe {
        let fours = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256::<1>(x));
        let twos = _mm_add_epi32(fours, _mm_shuffle_epi32::<0b01_00_11_10>(fours));
        _mm_cvtsi128_si32(_mm_add_epi32(twos, _mm_shuffle_epi32::<1>(twos)))
    }
}

/// The register type of an element: how many there are, what intrinsics call them, the mask of
/// some, and what adds a product to a sum.
macro_rules! simd_vector {
    ($name:ident($register:ty), $element:ty as $bits:ty, $count:literal, $mask:ident, $zero:ident, $splat:ident,
     $load:ident, $load_mask:ident, $store:ident, $store_mask:ident, $add:ident, $sum:ident,
     |$a:ident, $x:ident, $y:ident| $multiply_add:expr) => {
        #[derive(Clone, Copy)]
        struct $name($register);

        // SAFETY (of every block below): the caller has AVX2 and FMA and
        // vouches for the elements; masked-out lanes are not accessed.
        impl SimdVector for $name {
            type Element = $element;
            const COUNT: usize = $count;
            const FREE_MASKS: bool = false;

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
                unsafe { $name($load_mask(from.cast(), $mask(count))) }
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $element) {
                unsafe { $store(to.cast(), self.0) }
            }
            #[inline(always)]
            unsafe fn store_first(self, to: *mut $element, count: usize) {
                unsafe { $store_mask(to.cast(), $mask(count), self.0) }
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
            $name(__m256),
            $element as f32,
            8,
            mask_32,
            _mm256_setzero_ps,
            _mm256_set1_ps,
            _mm256_loadu_ps,
            _mm256_maskload_ps,
            _mm256_storeu_ps,
            _mm256_maskstore_ps,
            _mm256_add_ps,
            sum_ps,
            |$a, $x, $y| $multiply_add
        );
    };
}

/// [`simd_vector`] of 32-bit integers.
macro_rules! simd_vector_i32 {
    ($name:ident, $element:ty) => {
        simd_vector!(
            $name(__m256i),
            $element as i32,
            8,
            mask_32,
            _mm256_setzero_si256,
            _mm256_set1_epi32,
            _mm256_loadu_si256,
            _mm256_maskload_epi32,
            _mm256_storeu_si256,
            _mm256_maskstore_epi32,
            _mm256_add_epi32,
            sum_epi32,
            |a, x, y| _mm256_add_epi32(_mm256_mullo_epi32(a, x), y)
        );
    };
}

simd_vector_f32!(F32x8, f32, |a, x, y| _mm256_fmadd_ps(a, x, y));
simd_vector_f32!(Squares, SquaredDifference, |a, x, y| {
    let difference = _mm256_sub_ps(a, x);
    _mm256_fmadd_ps(difference, difference, y)
});
simd_vector_f32!(Magnitudes, AbsoluteDifference, |a, x, y| {
    _mm256_add_ps(_mm256_andnot_ps(_mm256_set1_ps(-0.0), _mm256_sub_ps(a, x)), y)
});
simd_vector!(
    F64x4(__m256d),
    f64 as f64,
    4,
    mask_64,
    _mm256_setzero_pd,
    _mm256_set1_pd,
    _mm256_loadu_pd,
    _mm256_maskload_pd,
    _mm256_storeu_pd,
    _mm256_maskstore_pd,
    _mm256_add_pd,
    sum_pd,
    |a, x, y| _mm256_fmadd_pd(a, x, y)
);
simd_vector_i32!(I32x8, i32);
simd_vector_i32!(U32x8, u32);

#[target_feature(enable = "avx2,fma")]
unsafe fn tile<L: SimdVector, const R: usize, const V: usize>(tile: &RegisterTile<L::Element>) {
    // SAFETY: the caller keeps `simd::tile`'s contract.
    unsafe { simd::tile::<L, R, V>(tile) }
}

#[target_feature(enable = "avx2,fma")]
unsafe fn dot<L: SimdVector>(dot: &Dot<L::Element>) {
    // SAFETY: the caller keeps `simd::dot`'s contract.
    unsafe { simd::dot::<L>(dot) }
}

#[target_feature(enable = "avx2,fma")]
unsafe fn axpy<L: SimdVector>(axpy: &Axpy<L::Element>) {
    // SAFETY: the caller keeps `simd::axpy`'s contract.
    unsafe { simd::axpy::<L>(axpy) }
}

#[target_feature(enable = "avx2,fma")]
unsafe fn copy<L: SimdVector>(copying: &RowCopy<L::Element>) {
    // SAFETY: the caller keeps `simd::copy`'s contract.
    unsafe { simd::copy::<L>(copying) }
}

/// Tiles of 6 rows by 2 registers: 12 sums of the 16 registers.
macro_rules! kernel {
    ($lanes:ty, $transpose:expr) => {
        (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")).then_some(MicroKernel {
            name: "avx2",
            rows: 6,
            columns: 2 * <$lanes>::COUNT,
            lanes: <$lanes>::COUNT,
            contiguous_k: false,
            tiles: &[
                &[tile::<$lanes, 1, 1>, tile::<$lanes, 1, 2>],
                &[tile::<$lanes, 2, 1>, tile::<$lanes, 2, 2>],
                &[tile::<$lanes, 3, 1>, tile::<$lanes, 3, 2>],
                &[tile::<$lanes, 4, 1>, tile::<$lanes, 4, 2>],
                &[tile::<$lanes, 5, 1>, tile::<$lanes, 5, 2>],
                &[tile::<$lanes, 6, 1>, tile::<$lanes, 6, 2>],
            ],
            dot: dot::<$lanes>,
            axpy: axpy::<$lanes>,
            copy: copy::<$lanes>,
            transpose: $transpose,
        })
    };
}

/// The kernel for `f32`, where the processor has AVX2 and FMA.
pub(super) fn f32() -> Option<MicroKernel<f32>> {
    kernel!(F32x8, transpose_8x8)
}

/// The kernel for squared differences, where the processor has AVX2 and FMA.
pub(super) fn squared_differences() -> Option<MicroKernel<SquaredDifference>> {
    kernel!(Squares, transpose_8x8)
}

/// The kernel for absolute differences, where the processor has AVX2 and FMA.
pub(super) fn absolute_differences() -> Option<MicroKernel<AbsoluteDifference>> {
    kernel!(Magnitudes, transpose_8x8)
}

/// The kernel for `i32`, where the processor has AVX2 and FMA.
pub(super) fn i32() -> Option<MicroKernel<i32>> {
    kernel!(I32x8, transpose_8x8)
}

/// The kernel for `u32`, where the processor has AVX2 and FMA.
pub(super) fn u32() -> Option<MicroKernel<u32>> {
    kernel!(U32x8, transpose_8x8)
}

/// The kernel for `f64`, where the processor has AVX2 and FMA.
pub(super) fn f64() -> Option<MicroKernel<f64>> {
    kernel!(F64x4, transpose_4x4)
}

/// Transposes 8 by 8 elements of 32 bits: pairs, then 64 bits within each half, then the
/// halves.
#[target_feature(enable = "avx2,fma")]
unsafe fn transpose_8x8<T>(from: *const T, row: isize, to: *mut T, to_row: isize) {
    const { assert!(size_of::<T>() == size_of::<f32>()) };
    let (from, to) = (from.cast::<f32>(), to.cast::<f32>());
    // SAFETY: the caller vouches for both blocks.
    unsafe {
        let mut x = [_mm256_setzero_ps(); 8];
        for i in 0..4 {
            let a = _mm256_loadu_ps(from.offset(2 * i as isize * row));
            let b = _mm256_loadu_ps(from.offset((2 * i + 1) as isize * row));
            x[2 * i] = _mm256_unpacklo_ps(a, b);
            x[2 * i + 1] = _mm256_unpackhi_ps(a, b);
        }
        // Columns j and 4 + j of rows 0..4, then of rows 4..8.
        let quads = |a: __m256, b: __m256| [_mm256_shuffle_ps::<0x44>(a, b), _mm256_shuffle_ps::<0xee>(a, b)];
        let (top, top_odd) = (quads(x[0], x[2]), quads(x[1], x[3]));
        let (low, low_odd) = (quads(x[4], x[6]), quads(x[5], x[7]));
        let top = [top[0], top[1], top_odd[0], top_odd[1]];
        let low = [low[0], low[1], low_odd[0], low_odd[1]];
        for j in 0..4 {
            let first = _mm256_permute2f128_ps::<0x20>(top[j], low[j]);
            let second = _mm256_permute2f128_ps::<0x31>(top[j], low[j]);
            _mm256_storeu_ps(to.offset(j as isize * to_row), first);
            _mm256_storeu_ps(to.offset((4 + j) as isize * to_row), second);
        }
    }
}

/// Transposes 4 by 4 elements: pairs, then halves.
#[target_feature(enable = "avx2,fma")]
unsafe fn transpose_4x4(from: *const f64, row: isize, to: *mut f64, to_row: isize) {
    // SAFETY: the caller vouches for both blocks.
    unsafe {
        let mut x = [_mm256_setzero_pd(); 4];
        for i in 0..2 {
            let a = _mm256_loadu_pd(from.offset(2 * i as isize * row));
            let b = _mm256_loadu_pd(from.offset((2 * i + 1) as isize * row));
            x[2 * i] = _mm256_unpacklo_pd(a, b);
            x[2 * i + 1] = _mm256_unpackhi_pd(a, b);
        }
        for j in 0..2 {
            let first = _mm256_permute2f128_pd::<0x20>(x[j], x[2 + j]);
            let second = _mm256_permute2f128_pd::<0x31>(x[j], x[2 + j]);
            _mm256_storeu_pd(to.offset(j as isize * to_row), first);
            _mm256_storeu_pd(to.offset((2 + j) as isize * to_row), second);
        }
    }
}
