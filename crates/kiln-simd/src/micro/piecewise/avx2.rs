//! 8 intervals, whose coefficients one register holds.

use std::arch::x86_64::*;

use crate::micro::OperandPtrs;
use crate::micro::math::ROUND;
use crate::micro::memory::prefetch_l2;
use crate::micro::piecewise::ONE;

/// Elements of a register, and intervals.
const WIDTH: usize = 8;

/// From the middle of an interval to that of the next.
const STEP: f32 = 0.524_985_85;

/// erf(x) / x around multiples of [`STEP`], by powers of the distance, the constants first: 8e-10
/// of it, fitted at Chebyshev's nodes.
#[rustfmt::skip]
static ERF: [[f32; WIDTH]; 8] = [
    [1.128_379_2, 1.032_752_5, 0.821_379_8, 0.618_476_7, 0.474_784_1, 0.380_884_38, 0.317_466_2, 0.272_116_12],
    [0.0, -0.335_609_02, -0.425_431, -0.332_725_8, -0.219_560_77, -0.144_665_26, -0.100_768_06, -0.074_046_78],
    [-0.376_125_96, -0.217_290_16, 0.030_493_91, 0.116_812_564, 0.090_836_68, 0.053_963_743, 0.031_935_33, 0.020_147_787],
    [0.0, 0.169_821_41, 0.114_280_5, 0.005_009_431, -0.026_228_461, -0.018_694_531, -0.010_028_025, -0.005_478_906_4],
    [0.112_807_49, 0.026_119_44, -0.059_173_726, -0.034_056_75, -0.000_818_133_7, 0.005_059_821, 0.003_028_376, 0.001_484_733_1],
    [0.0, -0.049_905_222, -0.007_485_681_7, 0.017_307_833, 0.006_459_227_8, -0.000_319_800_66, -0.000_798_721_74, -0.000_396_076_82],
    [-0.026_156_83, 0.001_680_865_8, 0.015_904_943, -0.000_317_189_38, -0.003_729_527_6, -0.000_760_325_23, 0.000_117_697_185, 0.000_099_807_025],
    [0.0, 0.010_096_677, -0.002_849_221, -0.003_330_485_4, 0.000_730_697_1, 0.000_539_009_5, 0.000_041_767_646, -0.000_020_145_773],
];

/// The error function.
///
/// # Safety
/// As [`MicroFn`](crate::micro::MicroFn), and the processor has AVX2 and FMA.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn erf(dst: *mut u8, [a, ..]: OperandPtrs, n: usize, next: *const u8) {
    let (to, from) = (dst.cast::<f32>(), a.cast::<f32>());
    let whole = n / WIDTH * WIDTH;
    // SAFETY: the contract of `MicroFn`; the rest goes by way of an array.
    unsafe {
        for i in (0..whole).step_by(WIDTH) {
            prefetch_l2(next.wrapping_add(i * size_of::<f32>()), 1);
            _mm256_storeu_ps(to.add(i), erf_of(_mm256_loadu_ps(from.add(i))));
        }
        if whole < n {
            let mut rest = [0.0; WIDTH];
            rest.as_mut_ptr().copy_from_nonoverlapping(from.add(whole), n - whole);
            _mm256_storeu_ps(rest.as_mut_ptr(), erf_of(_mm256_loadu_ps(rest.as_ptr())));
            to.add(whole).copy_from_nonoverlapping(rest.as_ptr(), n - whole);
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn erf_of(x: __m256) -> __m256 {
    let sign = _mm256_set1_ps(-0.0);
    // Of two operands, minimum gives the second if one is NaN.
    let size = _mm256_min_ps(_mm256_set1_ps(ONE), _mm256_andnot_ps(sign, x));
    let round = _mm256_set1_ps(ROUND);
    let rounded = _mm256_fmadd_ps(size, _mm256_set1_ps(1.0 / STEP), round);
    let r = _mm256_fnmadd_ps(_mm256_sub_ps(rounded, round), _mm256_set1_ps(STEP), size);
    // Only the low three bits count.
    let interval = _mm256_castps_si256(rounded);
    let mut c = [size; 8];
    for (c, row) in c.iter_mut().zip(&ERF) {
        // SAFETY: a row of as many.
        *c = _mm256_permutevar8x32_ps(unsafe { _mm256_loadu_ps(row.as_ptr()) }, interval);
    }
    // By halves, for fewer operations wait for each other than by Horner's rule; but for the
    // constant, which is rounded to only once.
    let (r2, mut pairs) = (_mm256_mul_ps(r, r), [r; 3]);
    for k in 0..3 {
        pairs[k] = _mm256_fmadd_ps(c[2 * k + 2], r, c[2 * k + 1]);
    }
    let low = _mm256_fmadd_ps(pairs[1], r2, pairs[0]);
    let high = _mm256_fmadd_ps(c[7], r2, pairs[2]);
    let slope = _mm256_fmadd_ps(high, _mm256_mul_ps(r2, r2), low);
    let y = _mm256_mul_ps(size, _mm256_fmadd_ps(slope, r, c[0]));
    _mm256_or_ps(_mm256_min_ps(_mm256_set1_ps(1.0), y), _mm256_and_ps(sign, x))
}
