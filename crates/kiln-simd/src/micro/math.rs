//! Branch-free `f32` functions that vectorise, each within 2.5 ulp over the
//! whole range, with and without fused multiply-add.
//!
//! The polynomials are minimax fits (Remez exchange, weighted for relative
//! error of the final function); the comments give what they approximate,
//! the interval and the error before rounding. Arguments are reduced by
//! adding 1.5·2^23 (or 1.5·2^52), which rounds to an integer and leaves it in
//! the low bits, so no float is ever converted to an integer out of range.

use crate::micro::isa::Isa;
use crate::micro::math64;

/// What numbers of either width have in common, of a module with the parts of logarithms and of ln 2.
macro_rules! of_width {
    ($t:ident) => {
        /// `a·b + c`, in one rounding where the instruction set can.
        #[inline(always)]
        pub(super) fn fma<I: Isa>(a: $t, b: $t, c: $t) -> $t {
            if I::FMA { a.mul_add(b, c) } else { a * b + c }
        }

        /// The polynomial with these coefficients, the constant first (Horner).
        #[inline(always)]
        fn horner<I: Isa, const N: usize>(x: $t, coefficients: [$t; N]) -> $t {
            let mut y = coefficients[N - 1];
            let mut k = N - 1;
            while k > 0 {
                k -= 1;
                y = fma::<I>(y, x, coefficients[k]);
            }
            y
        }

        #[inline(always)]
        fn clamp(x: $t, low: $t, high: $t) -> $t {
            let x = if x > high { high } else { x };
            if x < low { low } else { x }
        }

        /// `y`, but the logarithm's value where `x` is not positive and finite.
        #[inline(always)]
        fn log_edges(x: $t, y: $t) -> $t {
            let y = if x < $t::INFINITY { y } else { x };
            let edge = if x == 0.0 { $t::NEG_INFINITY } else { $t::NAN };
            if x > 0.0 { y } else { edge }
        }

        /// ln x.
        #[inline(always)]
        pub(super) fn log<I: Isa>(x: $t) -> $t {
            let (e, f, y) = log_parts::<I>(x);
            let low = fma::<I>(e, LN2_LOW, y) + f;
            log_edges(x, fma::<I>(e, LN2_HIGH, low))
        }

        /// log2 x.
        #[inline(always)]
        pub(super) fn log2<I: Isa>(x: $t) -> $t {
            const LOG2_E_LESS_1: $t = (std::f64::consts::LOG2_E - 1.0) as $t;
            let (e, f, y) = log_parts::<I>(x);
            let small = fma::<I>(f, LOG2_E_LESS_1, y * LOG2_E_LESS_1) + y;
            log_edges(x, e + (f + small))
        }
    };
}
pub(super) use of_width;
of_width!(f32);

pub(super) const ROUND: f32 = 12_582_912.0;
pub(super) const LN2_HIGH: f32 = 0.693_359_4; // 9 bits: times any exponent it is exact
pub(super) const LN2_LOW: f32 = -2.121_944_4e-4;

/// (e^r - 1 - r) / r² on ±0.3467, the highest power first: 1.4e-8 of e^r - 1.
const EXP: [f32; 5] = [0.001_389_822_7, 0.008_366_046, 0.041_666_854, 0.166_665_48, 0.5];
/// Below this e^x is 0.
pub(super) const EXP_ZERO: f32 = -103.98;

/// 2^n for -126 <= n <= 127.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

/// `y`·2^n for -252 <= n <= 254: two factors, so that the result may be
/// subnormal or infinite.
#[inline(always)]
fn scale(y: f32, n: i32) -> f32 {
    let half = n >> 1;
    y * power_of_two(half) * power_of_two(n.wrapping_sub(half))
}

/// (e^r - 1, n) with x = n·ln 2 + r and |r| <= ln 2 / 2.
#[inline(always)]
fn exp_parts<I: Isa>(x: f32) -> (f32, i32) {
    let shifted = fma::<I>(x, std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = fma::<I>(n, -LN2_LOW, fma::<I>(n, -LN2_HIGH, x));
    let [c4, c3, c2, c1, c0] = EXP;
    let p = horner::<I, 5>(r, [c0, c1, c2, c3, c4]);
    let y = fma::<I>(p, r * r, r);
    (y, (shifted.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32))
}

/// e^x.
#[inline(always)]
pub(super) fn exp<I: Isa>(x: f32) -> f32 {
    let (y, n) = exp_parts::<I>(clamp(x, -104.0, 89.0));
    // Not by way of subnormals, which are slow, and masks make of -inf often.
    scale(if x < EXP_ZERO { 0.0 } else { 1.0 + y }, n)
}

/// e^x for -87 <= x <= 88, where neither end of the range of `f32` is met.
#[inline(always)]
fn exp_inner<I: Isa>(x: f32) -> f32 {
    let (y, n) = exp_parts::<I>(x);
    (1.0 + y) * power_of_two(n)
}

/// 2^x.
#[inline(always)]
pub(super) fn exp2<I: Isa>(x: f32) -> f32 {
    let x = clamp(x, -151.0, 129.0);
    let shifted = x + ROUND;
    let r = x - (shifted - ROUND);
    // (2^r - 1) / r on ±0.5: 2.0e-9 of 2^r.
    let q = horner::<I, 6>(
        r,
        [std::f32::consts::LN_2, 0.240_226_48, 0.055_503_324, 0.009_618_438, 0.001_339_890_1, 1.535_334e-4],
    );
    scale(fma::<I>(q, r, 1.0), (shifted.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32))
}

/// (e, f, y) with x = 2^e·(1 + f), 1 + f in [√½, √2), ln(1 + f) = f + y.
#[inline(always)]
fn log_parts<I: Isa>(x: f32) -> (f32, f32, f32) {
    let tiny = x < f32::MIN_POSITIVE;
    let bits = (if tiny { x * 33_554_432.0 } else { x }).to_bits() as i32;
    let exponent = bits.wrapping_sub(std::f32::consts::FRAC_1_SQRT_2.to_bits() as i32) >> 23;
    let f = f32::from_bits(bits.wrapping_sub(exponent << 23) as u32) - 1.0;
    let e = exponent as f32 - if tiny { 25.0 } else { 0.0 };
    // (ln(1 + f) - f + f²/2) / f³: 7.5e-10 of ln(1 + f).
    let p = horner::<I, 9>(
        f,
        [
            0.333_333_13,
            -0.250_000_1,
            0.200_021_19,
            -0.166_679_96,
            0.142_195_52,
            -0.124_055_885,
            0.118_881_606,
            -0.116_756_54,
            0.067_466_47,
        ],
    );
    let z = f * f;
    (e, f, fma::<I>(p * f, z, -0.5 * z))
}

/// Hyperbolic tangent, as m / (m + 2) with m = e^2|x| - 1: 2^n (e^r - 1) and
/// 2^n - 1 have one sign or are far from cancelling.
#[inline(always)]
pub(super) fn tanh<I: Isa>(x: f32) -> f32 {
    let a = x.abs();
    let (y, n) = exp_parts::<I>(2.0 * if a > 10.0 { 10.0 } else { a });
    let power = power_of_two(n);
    let m = fma::<I>(y, power, power - 1.0);
    let sum = m + 2.0;
    let quotient = m / sum;
    if I::FMA {
        return quotient.copysign(x);
    }
    // Unfused, m is too far off to leave room for what a small sum loses: that over
    // the sum is given back.
    let lost = if m > 0.5 { 0.0 } else { (m - (sum - 2.0)) * (0.5 - 0.5 * quotient) };
    (quotient - quotient * lost).copysign(x)
}

/// Error function: a polynomial below 0.92, above it 1 - erfc with the
/// logarithm of erfc a polynomial (the split is N. Juffa's).
#[inline(always)]
pub(super) fn erf<I: Isa>(x: f32) -> f32 {
    let a = x.abs();
    // erf x / x - 1 in x² on 0..0.925²: 1.6e-8 of erf x.
    let p = horner::<I, 6>(
        x * x,
        [0.128_379_15, -0.376_124_9, 0.112_817_66, -0.026_764_754, 0.004_990_412_4, -5.976_588_6e-4],
    );
    let near = fma::<I>(p, x, x);
    let a = if a > 3.95 { 3.95 } else { a };
    // ln erfc x on 0.92..3.95: 1.5e-9 of erf x.
    let q = horner::<I, 7>(
        a,
        [
            -1.956_756_8e-4,
            -1.127_675_7,
            -0.637_182_24,
            -0.103_931_59,
            0.022_226_919,
            -0.003_043_217,
            1.959_371_7e-4,
        ],
    );
    let far = (1.0 - exp_inner::<I>(q)).copysign(x);
    if a < 0.92 { near } else { far }
}

/// Largest argument that [`sin`] and [`cos`] reduce accurately.
pub(super) const fn near<I: Isa>() -> f32 {
    // 2^13 quarters of a turn, if products are exact.
    if I::FMA { 12_800.0 } else { TRIG_LIMIT }
}

/// Largest argument that [`sin_wide`] and [`cos_wide`] reduce accurately.
pub(super) const TRIG_LIMIT: f32 = 1.0e6;

/// (r, q) with x = q·π/2 + r and |r| <= π/4.
#[inline(always)]
fn quadrant<I: Isa>(x: f32) -> (f32, i32) {
    if !I::FMA {
        return quadrant_wide::<I>(x);
    }
    // All below what they stand for, so that -0 stays what it is.
    const HALF_PI: [f32; 3] = [1.570_796_3, 7.549_789_4e-8, 5.390_302_5e-15];
    let shifted = fma::<I>(x, std::f32::consts::FRAC_2_PI, ROUND);
    let n = shifted - ROUND;
    // The first rounds nothing: x and the product are multiples of 2^-24 or more, and their
    // difference is below 1.
    let r = fma::<I>(n, -HALF_PI[1], fma::<I>(n, -HALF_PI[0], x));
    (fma::<I>(n, -HALF_PI[2], r), shifted.to_bits() as i32)
}

/// The same in `f64`: the first 33 bits of π/2 times q are exact up to q = 2^20.
#[inline(always)]
fn quadrant_wide<I: Isa>(x: f32) -> (f32, i32) {
    const ROUND64: f64 = 6_755_399_441_055_744.0;
    const HALF_PI_HIGH: f64 = 1.570_796_326_734_125_6;
    const HALF_PI_LOW: f64 = 6.077_100_506_506_192e-11;
    let x = f64::from(x);
    let shifted = math64::fma::<I>(x, std::f64::consts::FRAC_2_PI, ROUND64);
    let n = shifted - ROUND64;
    let r = math64::fma::<I>(n, -HALF_PI_LOW, math64::fma::<I>(n, -HALF_PI_HIGH, x));
    (r as f32, shifted.to_bits() as i32)
}

/// sin(r + q·π/2).
#[inline(always)]
fn sine_in_quadrant<I: Isa>((r, q): (f32, i32)) -> f32 {
    let z = r * r;
    // (sin r / r - 1) / r² in r² on 0..(π/4)²: 3.6e-9 of sin r.
    let s = horner::<I, 3>(z, [-0.166_666_55, 0.008_332_176, -1.951_697_8e-4]);
    // The sum loses the sign of -0.
    let sin = fma::<I>(s * z, r, r).copysign(r);
    // (cos r - 1 + r²/2) / r⁴ in r² on 0..(π/4)²: 1.2e-10 of cos r.
    let c = horner::<I, 3>(z, [0.041_666_646, -0.001_388_731_3, 2.443_278_6e-5]);
    let cos = fma::<I>(c * z, z, fma::<I>(z, -0.5, 1.0));
    let y = if q & 1 == 0 { sin } else { cos };
    f32::from_bits(y.to_bits() ^ ((q as u32 & 2) << 30))
}

/// The quadrant after.
#[inline(always)]
fn next((r, q): (f32, i32)) -> (f32, i32) {
    (r, q.wrapping_add(1))
}

/// Sine, for |x| up to [`near`].
#[inline(always)]
pub(super) fn sin<I: Isa>(x: f32) -> f32 {
    sine_in_quadrant::<I>(quadrant::<I>(x))
}

/// Cosine, for |x| up to [`near`].
#[inline(always)]
pub(super) fn cos<I: Isa>(x: f32) -> f32 {
    sine_in_quadrant::<I>(next(quadrant::<I>(x)))
}

/// Sine, for |x| up to [`TRIG_LIMIT`].
#[inline(always)]
pub(super) fn sin_wide<I: Isa>(x: f32) -> f32 {
    sine_in_quadrant::<I>(quadrant_wide::<I>(x))
}

/// Cosine, for |x| up to [`TRIG_LIMIT`].
#[inline(always)]
pub(super) fn cos_wide<I: Isa>(x: f32) -> f32 {
    sine_in_quadrant::<I>(next(quadrant_wide::<I>(x)))
}

/// The operand without its fraction. Without a rounding instruction, through
/// `i32` where the operand is small enough to have a fraction.
#[inline(always)]
pub(super) fn trunc<I: Isa>(x: f32) -> f32 {
    if I::ROUND {
        return x.trunc();
    }
    let small = x.abs() < 8_388_608.0;
    let safe = if small { x } else { 0.0 };
    // SAFETY: `safe` is finite and below 2^23 in magnitude.
    let whole = unsafe { safe.to_int_unchecked::<i32>() } as f32;
    if small { whole.copysign(x) } else { x }
}

/// The nearest integer, halves to the even one.
#[inline(always)]
pub(super) fn round<I: Isa>(x: f32) -> f32 {
    if I::ROUND {
        return x.round_ties_even();
    }
    // From 2^23 on all numbers are whole; a sum that is no less is rounded to whole ones.
    let size = x.abs();
    let whole = (size + 8_388_608.0) - 8_388_608.0;
    if size < 8_388_608.0 { whole.copysign(x) } else { x }
}

/// The largest integer not above the operand.
#[inline(always)]
pub(super) fn floor<I: Isa>(x: f32) -> f32 {
    if I::ROUND {
        return x.floor();
    }
    let whole = trunc::<I>(x);
    if whole > x { whole - 1.0 } else { whole }
}

/// `x` to the power of `y`, as 2^(y·log2 |x|) in `f64`, with the sign and the exceptions of C's `pow`.
#[inline(always)]
pub(super) fn pow<I: Isa>(x: f32, y: f32) -> f32 {
    let (size, exponent) = (f64::from(x).abs(), f64::from(y));
    let t = exponent * math64::log2_short::<I>(size);
    let t = if t > 300.0 { 300.0 } else { t };
    let power = math64::exp2_short::<I>(if t < -300.0 { -300.0 } else { t }) as f32;
    let half = y * 0.5;
    let whole = trunc::<I>(y) == y;
    let odd = whole & (trunc::<I>(half) != half);
    let power = if odd { power.copysign(x) } else { power };
    let power = if (x < 0.0) & !whole & (x > f32::NEG_INFINITY) { f32::NAN } else { power };
    let one = (y == 0.0) | (x == 1.0) | ((x == -1.0) & (y.abs() == f32::INFINITY));
    if one { 1.0 } else { power }
}
