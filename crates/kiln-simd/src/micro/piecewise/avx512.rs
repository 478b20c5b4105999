//! 32 intervals, whose coefficients two registers hold: a degree of four is enough.

use std::arch::x86_64::*;

use crate::micro::OperandPtrs;
use crate::micro::math::ROUND;
use crate::micro::memory::prefetch_l2;
use crate::micro::piecewise::ONE;

/// Intervals, as many as an element's index has values.
const INTERVALS: usize = 32;

/// erf(x) / x around multiples of an eighth, by powers of the distance, the constants first:
/// 8e-9 of it, fitted at Chebyshev's nodes.
#[rustfmt::skip]
static ERF: [[f32; INTERVALS]; 5] = [
    [
        1.128_379_2, 1.122_529_6, 1.105_305_6, 1.077_645_1, 1.040_999_8, 0.997_185_4, 0.948_207_5, 0.896_085_8, 0.842_700_8, 0.789_678_45, 0.738_320_1, 0.689_578_24, 0.644_070_1, 0.602_119_2, 0.563_812_4, 0.529_061_4, 0.497_661_14, 0.469_339_28, 0.443_794_34, 0.420_722_96, 0.399_837_23, 0.380_874_16, 0.363_599_78, 0.347_809_43, 0.333_325_98, 0.319_996_83, 0.307_690_98, 0.296_295_76, 0.285_714_06, 0.275_861_98, 0.266_666_65, 0.258_064_5,
    ],
    [
        0.0, -0.093_154_855, -0.181_165_56, -0.259_445_88, -0.324_434_1, -0.373_897_17, -0.407_035_08, -0.424_389_3, -0.427_593_23, -0.419_026_2, -0.401_439_22, -0.377_613_48, -0.350_093_28, -0.321_013_6, -0.292_021_42, -0.264_275, -0.238_497_12, -0.215_058_13, -0.194_067_58, -0.175_459_58, -0.159_063_58, -0.144_657_63, -0.132_004_9, -0.120_876_245, -0.111_062_236, -0.102_378_26, -0.094_665_16, -0.087_787_55, -0.081_631_05, -0.076_099_25, -0.071_110_87, -0.066_597_2,
    ],
    [
        -0.376_126_17, -0.365_645_47, -0.335_351_08, -0.288_496_5, -0.229_913_88, -0.165_263_77, -0.100_217_52, -0.039_728_72, 0.012_485_651, 0.054_193_65, 0.084_630_14, 0.104_268_126, 0.114_465_17, 0.117_074_534, 0.114_094_384, 0.107_400_85, 0.098_581_59, 0.088_863_02, 0.079_109_96, 0.069_871_254, 0.061_447_155, 0.053_959_798, 0.047_415_51, 0.041_753_683, 0.036_881_49, 0.032_696_284, 0.029_098_554, 0.025_998_374, 0.023_317_756, 0.020_990_679, 0.018_962_016, 0.017_186_034,
    ],
    [
        0.0, 0.055_282_85, 0.104_546_49, 0.142_760_75, 0.166_655_94, 0.175_119_06, 0.169_156_98, 0.151_477_46, 0.125_822_37, 0.096_226_92, 0.066_366_56, 0.039_103_18, 0.016_274_663, -0.001_291_785_4, -0.013_604_987, -0.021_252_913, -0.025_136_018, -0.026_242_038, -0.025_487_66, -0.023_630_084, -0.021_236_716, -0.018_694_645, -0.016_241_705, -0.014_004_644, -0.012_035_102, -0.010_338_792, -0.008_896_659, -0.007_678_783_5, -0.006_652_641_6, -0.005_787_466, -0.005_056_139, -0.004_435_687_3,
    ],
    [
        0.112_680_64, 0.106_485_6, 0.088_928_655, 0.062_865_89, 0.032_359_287, 0.001_830_847_2, -0.024_787_342, -0.044_704_79, -0.056_598_675, -0.060_588_583, -0.057_927_772, -0.050_536_87, -0.040_518_016, -0.029_759_513, -0.019_691_056, -0.011_197_153_5, -0.004_657_44, -6.362_048_6e-5, 0.002_837_284_7, 0.004_411_375_6, 0.005_039_011, 0.005_054_284_4, 0.004_718_026_6, 0.004_214_626, 0.003_662_411_8, 0.003_129_395_7, 0.002_648_998_5, 0.002_233_076_8, 0.001_881_419_8, 0.001_587_995_2, 0.001_344_674_7, 0.001_143_222_7,
    ],
];

/// The error function, within 2.4 ulp.
///
/// # Safety
/// As [`MicroFn`](crate::micro::MicroFn), and the processor has AVX-512 F and DQ.
#[target_feature(enable = "avx512f,avx512dq")]
pub(super) unsafe fn erf(dst: *mut u8, [a, ..]: OperandPtrs, n: usize, next: *const u8) {
    let (to, from) = (dst.cast::<f32>(), a.cast::<f32>());
    let whole = n / 16 * 16;
    // SAFETY: the contract of `MicroFn`; masked-out elements are not accessed.
    unsafe {
        let table = ERF.each_ref().map(|row| (_mm512_loadu_ps(row.as_ptr()), _mm512_loadu_ps(&row[16])));
        for i in (0..whole).step_by(16) {
            prefetch_l2(next.wrapping_add(i * size_of::<f32>()), 1);
            _mm512_storeu_ps(to.add(i), erf_of(_mm512_loadu_ps(from.add(i)), &table));
        }
        if whole < n {
            let rest = ((1u32 << (n - whole)) - 1) as __mmask16;
            let x = _mm512_maskz_loadu_ps(rest, from.add(whole));
            _mm512_mask_storeu_ps(to.add(whole), rest, erf_of(x, &table));
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn erf_of(x: __m512, table: &[(__m512, __m512); 5]) -> __m512 {
    let sign = _mm512_set1_ps(-0.0);
    // Of two operands, minimum gives the second if one is NaN.
    let size = _mm512_min_ps(_mm512_set1_ps(ONE), _mm512_andnot_ps(sign, x));
    let (round, eight) = (_mm512_set1_ps(ROUND), _mm512_set1_ps(8.0));
    let rounded = _mm512_fmadd_ps(size, eight, round);
    // Only the low five bits count.
    let interval = _mm512_castps_si512(rounded);
    let r = _mm512_fnmadd_ps(_mm512_sub_ps(rounded, round), _mm512_set1_ps(0.125), size);
    let coefficient = |(low, high): (__m512, __m512)| _mm512_permutex2var_ps(low, interval, high);
    let mut y = coefficient(table[4]);
    for &pair in table[..4].iter().rev() {
        y = _mm512_fmadd_ps(y, r, coefficient(pair));
    }
    let y = _mm512_min_ps(_mm512_set1_ps(1.0), _mm512_mul_ps(size, y));
    _mm512_or_ps(y, _mm512_and_ps(sign, x))
}
