//! Sums over a run of `f32`, bit-identical to [`fold_lanes`], in 256-bit vectors where the machine has
//! them: LLVM compiles the final combination of lanes to scalar additions, which take longer than a
//! row of 64 elements.

use crate::micro::fold::{fold_lanes, fold_pairs};
use crate::micro::isa::Isa;
use crate::micro::math;

/// The sum of the elements.
#[inline(always)]
pub(super) fn sum<I: Isa>(x: &[f32]) -> f32 {
    #[cfg(target_arch = "x86_64")]
    if I::AVX2 {
        // SAFETY: the instruction set.
        return unsafe { avx2::sum(x) };
    }
    fold_lanes(x, 0.0, |sum, x| sum + x, |p, q| p + q)
}

/// The sum of `(x - shift)²`.
#[inline(always)]
pub(super) fn squares<I: Isa>(x: &[f32], shift: f32) -> f32 {
    #[cfg(target_arch = "x86_64")]
    if I::AVX2 {
        // SAFETY: the instruction set.
        return unsafe { avx2::squares(x, shift) };
    }
    fold_lanes(x, 0.0, |sum, x| math::fma::<I>(x - shift, x - shift, sum), |p, q| p + q)
}

/// The sum of the products of two runs of one length.
#[inline(always)]
pub(super) fn dot<I: Isa>(x: &[f32], y: &[f32]) -> f32 {
    #[cfg(target_arch = "x86_64")]
    if I::AVX2 {
        // SAFETY: the instruction set.
        return unsafe { avx2::dot(x, y) };
    }
    fold_pairs(x, y, 0.0, |sum, x, y| math::fma::<I>(x, y, sum), |p, q| p + q)
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::*;

    use crate::micro::fold::LANES;

    const EIGHT: usize = 8;
    const REGISTERS: usize = LANES / EIGHT;

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn sum(x: &[f32]) -> f32 {
        // SAFETY: of a run of `x.len()`.
        let term = |sum, at, present| unsafe { _mm256_add_ps(sum, elements(x, at, present)) };
        terms(x.len(), term)
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn squares(x: &[f32], shift: f32) -> f32 {
        let shift = _mm256_set1_ps(shift);
        let term = |sum, at, present: Option<__m256i>| {
            // SAFETY: of a run of `x.len()`.
            let difference = unsafe { _mm256_sub_ps(elements(x, at, present), shift) };
            let difference =
                present.map_or(difference, |mask| _mm256_and_ps(difference, _mm256_castsi256_ps(mask)));
            _mm256_fmadd_ps(difference, difference, sum)
        };
        terms(x.len(), term)
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn dot(x: &[f32], y: &[f32]) -> f32 {
        let term = |sum, at, present| {
            // SAFETY: of a run of the shorter one's length.
            unsafe { _mm256_fmadd_ps(elements(x, at, present), elements(y, at, present), sum) }
        };
        terms(x.len().min(y.len()), term)
    }

    /// Eight elements; those that are not `present` are zero and not read.
    ///
    /// # Safety
    /// The others are inside the slice.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn elements(x: &[f32], at: usize, present: Option<__m256i>) -> __m256 {
        // SAFETY: the caller's promise.
        unsafe {
            let from = x.as_ptr().add(at);
            present.map_or_else(|| _mm256_loadu_ps(from), |mask| _mm256_maskload_ps(from, mask))
        }
    }

    /// The sum of `n` elements' terms, of which `term` adds those of eight elements from one on.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn terms(n: usize, term: impl Fn(__m256, usize, Option<__m256i>) -> __m256) -> f32 {
        let mut lanes = [_mm256_setzero_ps(); REGISTERS];
        let whole = n - n % LANES;
        for at in (0..whole).step_by(LANES) {
            for (i, sum) in lanes.iter_mut().enumerate() {
                *sum = term(*sum, at + i * EIGHT, None);
            }
        }
        if whole < n {
            let numbers = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            for (i, sum) in lanes.iter_mut().enumerate() {
                let at = whole + i * EIGHT;
                if at + EIGHT <= n {
                    *sum = term(*sum, at, None);
                } else if at < n {
                    let left = _mm256_set1_epi32((n - at) as i32);
                    *sum = term(*sum, at, Some(_mm256_cmpgt_epi32(left, numbers)));
                }
            }
        }
        join(lanes)
    }

    /// Combines lane `j` with lane `j + width` for widths 32, 16, ... 1.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn join([a, b, c, d, e, f, g, h]: [__m256; REGISTERS]) -> f32 {
        let [a, b] = [_mm256_add_ps(a, e), _mm256_add_ps(b, f)];
        let [c, d] = [_mm256_add_ps(c, g), _mm256_add_ps(d, h)];
        let eight = _mm256_add_ps(_mm256_add_ps(a, c), _mm256_add_ps(b, d));
        let four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
        let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::micro::isa::{Level, level};

    #[test]
    fn registers_give_the_bits_of_lanes() {
        if level() < Level::Avx2 {
            return;
        }
        let value = |i: usize| ((i * 7919 + 13) % 1009) as f32 * 0.37 - 180.0;
        let plus = |p: f32, q: f32| p + q;
        for n in (0..200).chain([256, 1000, 4096]) {
            // What follows a run is no part of it.
            let of = |first| (first..first + n).map(value).chain([f32::NAN; 8]).collect::<Vec<f32>>();
            let (x, y) = (of(0), of(5));
            let (x, y) = (&x[..n], &y[..n]);
            let square = |sum, x: f32| (x - 0.3f32).mul_add(x - 0.3, sum);
            // SAFETY: the instruction set.
            let found = unsafe { [avx2::sum(x), avx2::squares(x, 0.3), avx2::dot(x, y)] };
            let wanted = [
                fold_lanes(x, 0.0, plus, plus),
                fold_lanes(x, 0.0, square, plus),
                fold_pairs(x, y, 0.0, |sum, x: f32, y| x.mul_add(y, sum), plus),
            ];
            assert_eq!(found.map(f32::to_bits), wanted.map(f32::to_bits), "{n} elements");
        }
    }
}
