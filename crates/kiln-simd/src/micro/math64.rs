//! Branch-free `f64` functions that vectorise, each within 3 ulp over the whole range, with and
//! without fused multiply-add; [`math`](super::math) says how arguments are reduced and polynomials
//! were found.

use crate::micro::isa::Isa;
use crate::micro::math::of_width;

of_width!(f64);

/// Added to a number below 2^51, it leaves the nearest integer in the low bits.
const ROUND: f64 = 6_755_399_441_055_744.0;
/// 2^52: a whole number below it, put into its low bits, is added to it.
const WHOLE: f64 = 4_503_599_627_370_496.0;
const LN2_HIGH: f64 = 0.693_147_180_369_123_8; // 32 bits: times any exponent it is exact
const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
/// Below this e^x is 0.
const EXP_ZERO: f64 = -745.14;

/// The integer that a sum with [`ROUND`] is, in two's complement.
#[inline(always)]
fn integer(shifted: f64) -> u64 {
    shifted.to_bits().wrapping_sub(ROUND.to_bits())
}

/// 2^n for -1022 <= n <= 1023.
#[inline(always)]
fn power_of_two(n: u64) -> f64 {
    f64::from_bits(n.wrapping_add(1023) << 52)
}

/// `y`·2^n for -2044 <= n <= 2046: two factors, so that the result may be subnormal or infinite.
#[inline(always)]
fn scale(y: f64, n: u64) -> f64 {
    // Half of it, by a shift that knows no sign.
    let half = (n.wrapping_add(4096) >> 1).wrapping_sub(2048);
    y * power_of_two(half) * power_of_two(n.wrapping_sub(half))
}

/// (e^r - 1, n) with x = n·ln 2 + r and |r| <= ln 2 / 2.
#[inline(always)]
fn exp_parts<I: Isa>(x: f64) -> (f64, u64) {
    let shifted = fma::<I>(x, std::f64::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = fma::<I>(n, -LN2_LOW, fma::<I>(n, -LN2_HIGH, x));
    // (e^r - 1 - r) / r² on ±0.347: 3.8e-18 of e^r.
    let p = horner::<I, 10>(
        r,
        [
            0.500_000_000_000_001_3,
            0.166_666_666_666_667_7,
            0.041_666_666_666_510_89,
            0.008_333_333_333_255_007,
            0.001_388_888_894_848_177_6,
            1.984_127_004_242_072_4e-4,
            2.480_148_820_162_742_8e-5,
            2.755_709_419_568_715e-6,
            2.763_196_576_859_09e-7,
            2.515_971_018_386_412_7e-8,
        ],
    );
    (fma::<I>(p, r * r, r), integer(shifted))
}

/// e^x.
#[inline(always)]
pub(super) fn exp<I: Isa>(x: f64) -> f64 {
    let (y, n) = exp_parts::<I>(clamp(x, -746.0, 710.0));
    // Not by way of subnormals, which are slow, and masks make of -inf often.
    scale(if x < EXP_ZERO { 0.0 } else { 1.0 + y }, n)
}

/// 2^x.
#[inline(always)]
pub(super) fn exp2<I: Isa>(x: f64) -> f64 {
    let x = clamp(x, -1080.0, 1025.0);
    let shifted = x + ROUND;
    let r = x - (shifted - ROUND);
    // (2^r - 1) / r on ±0.5: 4.2e-20 of 2^r.
    let q = horner::<I, 12>(
        r,
        [
            std::f64::consts::LN_2,
            0.240_226_506_959_100_72,
            0.055_504_108_664_821_7,
            0.009_618_129_107_628_479,
            0.001_333_355_814_638_946_2,
            1.540_353_039_337_427_4e-4,
            1.525_273_385_720_604_8e-5,
            1.321_548_680_422_609_9e-6,
            1.017_805_078_914_349_3e-7,
            7.054_899_586_437_665e-9,
            4.456_739_671_458_282e-10,
            2.572_529_963_835_307e-11,
        ],
    );
    scale(fma::<I>(q, r, 1.0), integer(shifted))
}

/// (e, f) with x = 2^e·(1 + f) and 1 + f in [√½, √2), for positive x that is no subnormal.
#[inline(always)]
fn binary_parts(x: f64) -> (f64, f64) {
    let bits = x.to_bits();
    let biased = bits.wrapping_sub(std::f64::consts::FRAC_1_SQRT_2.to_bits()).wrapping_add(1023 << 52) >> 52;
    let f = f64::from_bits(bits.wrapping_sub(biased.wrapping_sub(1023) << 52)) - 1.0;
    (f64::from_bits(biased | WHOLE.to_bits()) - (WHOLE + 1023.0), f)
}

/// (e, f, y) with x = 2^e·(1 + f), 1 + f in [√½, √2), ln(1 + f) = f + y. By s = f / (2 + f),
/// ln(1 + f) = 2 artanh s = f - f²/2 + s·(f²/2 + 2 artanh(s) / s - 2).
#[inline(always)]
fn log_parts<I: Isa>(x: f64) -> (f64, f64, f64) {
    let tiny = x < f64::MIN_POSITIVE;
    let (e, f) = binary_parts(if tiny { x * 18_014_398_509_481_984.0 } else { x });
    let s = f / (2.0 + f);
    let z = s * s;
    // (2 artanh(s) / s - 2) / s² in s² on 0..0.0295: 1.2e-18 of ln(1 + f).
    let p = horner::<I, 7>(
        z,
        [
            0.666_666_666_666_673_5,
            0.399_999_999_994_128_1,
            0.285_714_287_428_862_35,
            0.222_221_985_139_590_1,
            0.181_835_678_022_116_67,
            0.153_139_518_896_654_34,
            0.147_970_302_063_747_26,
        ],
    );
    let half = 0.5 * f * f;
    let y = fma::<I>(s, fma::<I>(p, z, half), -half);
    (e - if tiny { 54.0 } else { 0.0 }, f, y)
}

/// Hyperbolic tangent, as m / (m + 2) with m = e^2|x| - 1: 2^n (e^r - 1) and 2^n - 1 have one sign
/// or are far from cancelling.
#[inline(always)]
pub(super) fn tanh<I: Isa>(x: f64) -> f64 {
    let a = x.abs();
    let (y, n) = exp_parts::<I>(2.0 * if a > 20.0 { 20.0 } else { a });
    let power = power_of_two(n);
    let m = fma::<I>(y, power, power - 1.0);
    let sum = m + 2.0;
    let quotient = m / sum;
    // What the sum of small numbers loses, over the sum, is given back.
    let lost = if m > 0.5 { 0.0 } else { (m - (sum - 2.0)) * (0.5 - 0.5 * quotient) };
    (quotient - quotient * lost).copysign(x)
}

/// Error function: a polynomial below 1, above it 1 - erfc with erfc(a)·e^a² a polynomial in
/// (a - 2) / (a + 2) (the mapping is W. J. Cody's and others').
#[inline(always)]
pub(super) fn erf<I: Isa>(x: f64) -> f64 {
    // erf x / x - 1 in x² on 0..1: 7.4e-18 of erf x.
    let p = horner::<I, 12>(
        x * x,
        [
            0.128_379_167_095_512_56,
            -0.376_126_389_031_835_15,
            0.112_837_916_709_440_8,
            -0.026_866_170_643_093_955,
            0.005_223_977_605_970_515,
            -8.548_325_922_043_381e-4,
            1.205_529_335_468_984_2e-4,
            -1.492_470_795_052_700_8e-5,
            1.644_707_694_300_17e-6,
            -1.620_588_872_043_170_2e-7,
            1.370_911_481_392_419_8e-8,
            -7.775_938_227_610_289e-10,
        ],
    );
    let near = fma::<I>(p, x, x);
    let a = x.abs();
    let a = if a > 6.0 { 6.0 } else { a };
    // e^a² · erfc a on 1..6: 5.9e-19 of erf a.
    let q = horner::<I, 13>(
        (a - 2.0) / (a + 2.0),
        [
            0.255_395_676_310_505_75,
            -0.427_185_847_413_956_77,
            0.241_658_194_242_466_68,
            -0.078_978_581_016_464_81,
            0.003_732_892_398_581_449,
            0.006_997_461_790_990_746,
            -8.471_425_676_061_44e-4,
            -9.819_766_020_893_403e-4,
            4.353_511_574_626_338_6e-5,
            1.742_874_282_131_332_3e-4,
            2.763_251_561_746_081_3e-5,
            -2.658_108_807_698_264_3e-5,
            -1.261_642_821_893_884_5e-5,
        ],
    );
    let (y, n) = exp_parts::<I>(-a * a);
    let gauss = (1.0 + y) * power_of_two(n);
    let far = fma::<I>(-gauss, q, 1.0).copysign(x);
    if a < 1.0 { near } else { far }
}

/// Largest argument that [`sin`] and [`cos`] reduce accurately.
pub(super) const TRIG_LIMIT: f64 = 1.0e5;

/// (r, q) with x = q·π/2 + r and |r| <= π/4: the first and the second 36 bits of π/2 times q are
/// exact up to q = 2^17.
#[inline(always)]
fn quadrant<I: Isa>(x: f64) -> (f64, u64) {
    const HALF_PI: [f64; 3] =
        [1.570_796_326_792_333_3, 2.563_344_151_583_955_8e-12, 1.056_299_906_698_742_8e-23];
    let shifted = fma::<I>(x, std::f64::consts::FRAC_2_PI, ROUND);
    let n = shifted - ROUND;
    let r = fma::<I>(n, -HALF_PI[1], fma::<I>(n, -HALF_PI[0], x));
    (fma::<I>(n, -HALF_PI[2], r), shifted.to_bits())
}

/// sin(r + q·π/2).
#[inline(always)]
fn sine_in_quadrant<I: Isa>(r: f64, q: u64) -> f64 {
    let z = r * r;
    // (sin r / r - 1) / r² in r² on 0..(π/4)²: 3.6e-18 of sin r.
    let s = horner::<I, 6>(
        z,
        [
            -0.166_666_666_666_666_3,
            0.008_333_333_333_322_106,
            -1.984_126_982_957_983_2e-4,
            2.755_731_361_791_432_7e-6,
            -2.505_074_720_317_812e-8,
            1.589_619_680_870_906_8e-10,
        ],
    );
    // The sum loses the sign of -0.
    let sin = fma::<I>(s * z, r, r).copysign(r);
    // (cos r - 1 + r²/2) / r⁴ in r² on 0..(π/4)²: 5.6e-20 of cos r.
    let c = horner::<I, 6>(
        z,
        [
            0.041_666_666_666_666_595,
            -0.001_388_888_888_887_304,
            2.480_158_728_884_121_4e-5,
            -2.755_731_417_619_137_4e-7,
            2.087_570_040_988_657_3e-9,
            -1.135_851_364_718_397_2e-11,
        ],
    );
    let cos = fma::<I>(c * z, z, fma::<I>(z, -0.5, 1.0));
    let y = if q & 1 == 0 { sin } else { cos };
    f64::from_bits(y.to_bits() ^ ((q & 2) << 62))
}

/// Sine, for |x| <= [`TRIG_LIMIT`] or not finite.
#[inline(always)]
pub(super) fn sin<I: Isa>(x: f64) -> f64 {
    let (r, q) = quadrant::<I>(x);
    sine_in_quadrant::<I>(r, q)
}

/// Cosine, for |x| <= [`TRIG_LIMIT`] or not finite.
#[inline(always)]
pub(super) fn cos<I: Isa>(x: f64) -> f64 {
    let (r, q) = quadrant::<I>(x);
    sine_in_quadrant::<I>(r, q.wrapping_add(1))
}

/// log2 of the magnitude of a number that is an `f32`, to 4e-12 of it.
#[inline(always)]
pub(super) fn log2_short<I: Isa>(x: f64) -> f64 {
    let (e, f) = binary_parts(x);
    let s = f / (2.0 + f);
    // log2((1 + s) / (1 - s)) / s in s² on 0..0.0295: 4.1e-12 of it.
    let p = horner::<I, 5>(
        s * s,
        [
            2.885_390_081_790_202_7,
            0.961_796_673_200_179_9,
            0.577_083_611_570_839_6,
            0.411_671_134_609_337_24,
            0.340_759_361_879_313_16,
        ],
    );
    log_edges(x, fma::<I>(p, s, e))
}

/// 2^x for |x| < 1022, to 8.2e-11 of it.
#[inline(always)]
pub(super) fn exp2_short<I: Isa>(x: f64) -> f64 {
    let shifted = x + ROUND;
    let r = x - (shifted - ROUND);
    let q = horner::<I, 7>(
        r,
        [
            0.693_147_180_553_653,
            0.240_226_509_237_067_23,
            0.055_504_109_290_942_384,
            0.009_618_056_378_609_69,
            0.001_333_345_417_571_597_2,
            1.546_156_387_162_071_9e-4,
            1.531_018_542_759_487_3e-5,
        ],
    );
    fma::<I>(q, r, 1.0) * power_of_two(integer(shifted))
}
