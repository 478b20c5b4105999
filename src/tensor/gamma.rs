//! The logarithm of the gamma function and its derivative.
//!
//! Integers and truth values become `F32` first. Far out both use Stirling's
//! series (Abramowitz and Stegun 6.1.41 and 6.3.18), after the recurrence has
//! brought small arguments there; left of 1/2 the reflection formulas.

use std::f64::consts::PI;

use crate::base::DType;
use crate::tensor::fit;
use crate::tensor::term::{Term, float_functions};

float_functions! {
    /// The logarithm of the absolute value of the gamma function.
    ///
    /// Infinite at 0 and the negative integers.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(5.0, ()).lgamma().item::<f32>()? - 3.1781).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    lgamma |x| x.lgamma();
    /// The derivative of [`lgamma`](Self::lgamma).
    ///
    /// Infinite at 0 with the sign opposite to its own, NaN at the negative integers.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(1.0, ()).digamma().item::<f32>()? + 0.5772).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    digamma |x| x.digamma();
}

/// `B(2k) / (2k (2k - 1))`: the series of `lgamma` in `1 / z^2`, times `1 / z`.
const STIRLING: [f64; 8] = [
    1.0 / 12.0,
    -1.0 / 360.0,
    1.0 / 1260.0,
    -1.0 / 1680.0,
    1.0 / 1188.0,
    -691.0 / 360_360.0,
    1.0 / 156.0,
    -3617.0 / 122_400.0,
];

/// `B(2k) / 2k`: the series of `digamma` in `1 / z^2`, times `1 / z^2`.
const STIRLING_DERIVATIVE: [f64; 8] = [
    1.0 / 12.0,
    -1.0 / 120.0,
    1.0 / 252.0,
    -1.0 / 240.0,
    1.0 / 132.0,
    -691.0 / 32760.0,
    1.0 / 12.0,
    -3617.0 / 8160.0,
];

/// `B(2k)`: the series of `trigamma` in `1 / z^2`, times `1 / z^3`.
const BERNOULLI: [f64; 8] = [
    1.0 / 6.0,
    -1.0 / 30.0,
    1.0 / 42.0,
    -1.0 / 30.0,
    5.0 / 66.0,
    -691.0 / 2730.0,
    7.0 / 6.0,
    -3617.0 / 510.0,
];

const EULER_GAMMA: f64 = 0.577_215_664_901_532_9;

/// An argument brought to at least 1/2 by reflection.
struct Reflected {
    /// Where it was below.
    left: Term,
    z: Term,
    /// Fraction of `|x|`, exact.
    fraction: Term,
}

impl Term {
    fn reflected(&self) -> Reflected {
        let left = self.lt(0.5);
        let magnitude = self.abs();
        let fraction = &magnitude - magnitude.floor();
        Reflected { z: self.choose(&left, 1.0 - self, self), left, fraction }
    }

    /// Terms of an asymptotic series that this precision needs from 8 on.
    fn series<'a>(&self, terms: &'a [f64; 8]) -> &'a [f64] {
        if self.dtype() == DType::F64 { terms } else { &terms[..4] }
    }

    fn lgamma(&self) -> Term {
        let Reflected { left, z, fraction } = self.reflected();
        let near = z.lt(2.5);
        let right = z.choose(&near, lgamma_near_2(&z.choose(&near, &z, 2.0)), lgamma_far(&z));
        let distance = fraction.choose(&fraction.gt(0.5), 1.0 - &fraction, &fraction);
        let sine = fraction.choose(&left, distance, 0.5) * PI;
        let reflection = PI.ln() - sine.sin().log() - &right;
        let value = self.choose(&left, reflection, right);
        // Next to 0 the sine's rounding would show.
        let magnitude = self.abs();
        let least = magnitude.lt(if self.dtype() == DType::F64 { 1e-9 } else { 1e-4 });
        let value = self.choose(&least, self * -EULER_GAMMA - magnitude.log(), value);
        let infinite = left.and(fraction.eq(0.0)).or(magnitude.eq(f64::INFINITY));
        self.choose(&infinite, f64::INFINITY, value).with_slope(self, |x, _| x.digamma())
    }

    /// `pi / tan(pi x)` for `x` up to 1/2 where the mask holds; near 0 one over
    /// `x`, which subnormal numbers need.
    fn pi_cotangent(&self, mask: &Term) -> Term {
        let x = self.choose(mask, self, 0.25);
        let tiny = x.abs().lt(if x.dtype() == DType::F64 { 1e-8 } else { 1e-4 });
        let angle = x.choose(&tiny, 0.25, &x) * PI;
        x.choose(&tiny, x.recip(), angle.cos() / angle.sin() * PI)
    }

    fn digamma(&self) -> Term {
        let Reflected { left, z, fraction } = self.reflected();
        let right = digamma_right(&z);
        let centred = fraction.choose(&fraction.gt(0.5), &fraction - 1.0, &fraction);
        let cotangent = centred.pi_cotangent(&left).negated_where(&self.sign_bit());
        let value = self.choose(&left, &right - cotangent, &right);
        let pole = self.lt(0.0).and(fraction.eq(0.0));
        self.choose(&pole, f64::NAN, value).with_slope(self, |x, _| x.trigamma())
    }

    /// The slope of `digamma`.
    fn trigamma(&self) -> Term {
        let Reflected { left, z, fraction } = self.reflected();
        let right = trigamma_right(&z);
        let distance = fraction.choose(&fraction.gt(0.5), 1.0 - &fraction, &fraction);
        let sine = (fraction.choose(&left, distance, 0.5) * PI).sin();
        let reflected = (PI / &sine) * (PI / &sine) - &right;
        self.choose(&left, reflected, right)
    }
}

/// `lgamma` from 1/2 to 5/2: a polynomial around 2, and below 3/2 the same
/// one step further on.
fn lgamma_near_2(z: &Term) -> Term {
    let low = z.lt(1.5);
    let u = z.choose(&low, z - 1.0, z - 2.0);
    &u * u.fit(&fit::LGAMMA_AT_2) - z.choose(&low, z, 1.0).log()
}

/// `lgamma` from 5/2 on, by `lgamma(z + 6)` below 8.
fn lgamma_far(z: &Term) -> Term {
    let shift = z.lt(8.0);
    let base = z.choose(&shift, z, 2.5);
    let product = (1..6).fold(base.clone(), |product, i| product * (&base + f64::from(i)));
    let z = z.choose(&shift, base + 6.0, z);
    let inverse = z.recip();
    let tail = &inverse * (&inverse * &inverse).polynomial(z.series(&STIRLING));
    // log(z) - 1 is taken first, so that infinity does not meet infinity.
    let half_log_tau = (2.0 * PI).ln() / 2.0;
    let stirling = (&z - 0.5) * (z.log() - 1.0) + (half_log_tau - 0.5) + tail;
    let steps = z.choose(&shift, product, 1.0).log();
    stirling - steps
}

/// `trigamma` from 1/2 on, by `trigamma(z + 8)` below 8 (Abramowitz and Stegun 6.4.12).
fn trigamma_right(z: &Term) -> Term {
    let shift = z.lt(8.0);
    let base = z.choose(&shift, z, 1.0);
    let square_of = |x: &Term| x.recip() * x.recip();
    let steps = (1..8).fold(square_of(&base), |sum, i| sum + square_of(&(&base + f64::from(i))));
    let z = z.choose(&shift, base + 8.0, z);
    let inverse = z.recip();
    let square = &inverse * &inverse;
    let series = (&square * &inverse) * square.polynomial(z.series(&BERNOULLI));
    let value = &inverse + &square * 0.5 + series;
    value + z.choose(&shift, steps, 0.0)
}

/// `digamma` from 1/2 on, by `digamma(z + 8)` below 8.
fn digamma_right(z: &Term) -> Term {
    let shift = z.lt(8.0);
    let base = z.choose(&shift, z, 1.0);
    let steps = (1..8).fold(base.recip(), |sum, i| sum + (&base + f64::from(i)).recip());
    let z = z.choose(&shift, base + 8.0, z);
    let inverse = z.recip();
    let square = &inverse * &inverse;
    let series = square.polynomial(z.series(&STIRLING_DERIVATIVE));
    let value = z.log() - &inverse * 0.5 - square * series;
    value - z.choose(&shift, steps, 0.0)
}
