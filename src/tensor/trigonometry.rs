//! Circular and hyperbolic functions, and their inverses, in radians.
//!
//! Integers and truth values become `F32` first.

use std::f64::consts::{FRAC_PI_2, PI};

use crate::tensor::compose::CallSite;
use crate::tensor::fit;
use crate::tensor::term::{Term, float_formula, float_functions, float_rows};
use crate::tensor::{Operand, Tensor};

float_rows! {
    /// The sine of each element, in radians.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(0.5, ()).sin().item::<f32>()? - 0.4794).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    sin Sin;
    /// The cosine of each element, in radians.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(0.5, ()).cos().item::<f32>()? - 0.8776).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    cos Cos;
    /// The hyperbolic tangent of each element.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(0.5, ()).tanh().item::<f32>()? - 0.4621).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    tanh Tanh;
}

float_functions! {
    /// The tangent of each element, in radians.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(0.5, ()).tan().item::<f32>()? - 0.5463).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    tan |x| (x.sin() / x.cos()).with_slope(&x, |_, y| y * y + 1.0);
    /// The inverse sine, in `[-pi/2, pi/2]`; NaN outside `[-1, 1]`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(0.5, ()).asin().item::<f32>()? - 0.5236).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    asin |x| x.asin();
    /// The inverse cosine, in `[0, pi]`; NaN outside `[-1, 1]`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(0.5, ()).acos().item::<f32>()? - 1.0472).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    acos |x| x.acos();
    /// The inverse tangent, in `[-pi/2, pi/2]`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(1.0, ()).atan().item::<f32>()? - 0.7854).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    atan |x| x.atan();
    /// The hyperbolic sine of each element.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(1.0, ()).sinh().item::<f32>()? - 1.1752).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    sinh |x| x.sinh();
    /// The hyperbolic cosine of each element.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(1.0, ()).cosh().item::<f32>()? - 1.5431).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    cosh |x| x.cosh();
    /// The inverse hyperbolic sine of each element.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(1.0, ()).asinh().item::<f32>()? - 0.8814).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    asinh |x| x.asinh();
    /// The inverse hyperbolic cosine; NaN below 1.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(2.0, ()).acosh().item::<f32>()? - 1.3170).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    acosh |x| x.acosh();
    /// The inverse hyperbolic tangent; infinite at -1 and 1, NaN beyond.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(0.5, ()).atanh().item::<f32>()? - 0.5493).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    atanh |x| x.atanh();
    /// `sin(pi x) / (pi x)`, and 1 at 0.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([0.0f32]).sinc().to_vec::<f32>()?, [1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    sinc |x| x.sinc();
    /// Degrees converted to radians.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(180.0, ()).deg2rad().item::<f32>()? - 3.1416).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    deg2rad |x| x * (PI / 180.0);
    /// Radians converted to degrees.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(1.0, ()).rad2deg().item::<f32>()? - 57.29578).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    rad2deg |x| x * (180.0 / PI);
}

impl Tensor {
    /// The angle of the point (`x`, this), in `[-pi, pi]`, right in all four quadrants.
    ///
    /// Shapes broadcast. Zeros of either sign and infinities count, as in IEEE 754.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let y = Tensor::from([1.0f32]);
    /// assert!((y.atan2(&Tensor::from([-1.0f32])).item::<f32>()? - 2.3562).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn atan2(&self, x: &Tensor) -> Tensor {
        let operands = [self.into_operand(), x.into_operand()];
        float_formula(CallSite::here("atan2"), operands, |[y, x]| atan2(&y, &x))
    }
}

/// The slope of `sin(x) / x` in powers of `x^2`, times `x`: `(-1)^n 2 n / (2 n + 1)!` from n = 1 on.
const SINC_SLOPE: [f64; 9] = [
    -1.0 / 3.0,
    1.0 / 30.0,
    -1.0 / 840.0,
    1.0 / 45_360.0,
    -1.0 / 3_991_680.0,
    1.0 / 518_918_400.0,
    -1.0 / 93_405_312_000.0,
    1.0 / 22_230_464_256_000.0,
    -1.0 / 6_758_061_133_824_000.0,
];

impl Term {
    /// `exp(x)/2 + exp(-x)/2`, by `exp(x/2)` so that it overflows no earlier.
    fn sinh(&self) -> Term {
        (self.tanh() * self.cosh()).with_slope(self, |x, _| x.cosh())
    }

    fn cosh(&self) -> Term {
        let up = (self * 0.5).exp();
        let down = up.recip();
        ((&up * 0.5) * &up + (&down * 0.5) * &down).with_slope(self, |x, _| x.sinh())
    }

    /// `asin(x) / x` below 1/2, and at `sqrt((1 - |x|) / 2)` from there, which
    /// gives half the distance of `asin` from `pi / 2`.
    fn asin_parts(&self) -> (Term, Term, Term) {
        let small = self.abs().lt(0.5);
        let half = (1.0 - self.abs()) * 0.5;
        let ratio = self.choose(&small, self * self, &half).fit(&fit::ASIN);
        (small, half.sqrt() * &ratio * 2.0, ratio)
    }

    fn asin(&self) -> Term {
        let (small, below, ratio) = self.asin_parts();
        let large = FRAC_PI_2 - below;
        self.choose(&small, self * ratio, large.negated_where(&self.lt(0.0)))
    }

    fn acos(&self) -> Term {
        let (small, below, ratio) = self.asin_parts();
        let large = self.choose(&self.lt(0.0), PI - &below, &below);
        self.choose(&small, FRAC_PI_2 - self * ratio, large)
    }

    /// `atan(t) / t`, for `|t|` up to 1.
    fn atan_ratio(&self) -> Term {
        (self * self).fit(&fit::ATAN)
    }

    fn atan(&self) -> Term {
        let steep = self.abs().gt(1.0);
        // The 1 keeps the gradient of the untaken branch finite.
        let flipped = self.choose(&steep, self, 1.0).recip();
        let t = self.choose(&steep, flipped, self);
        let angle = &t * t.atan_ratio();
        let right = self.choose(&self.lt(0.0), -FRAC_PI_2, FRAC_PI_2);
        self.choose(&steep, right - &angle, &angle)
    }

    /// `log(|x| + sqrt(x^2 + 1))` with the sign of `x`; a polynomial near 0.
    fn asinh(&self) -> Term {
        let magnitude = self.abs();
        let small = magnitude.lt(0.5);
        let near = self * (self * self).fit(&fit::ASINH);
        let a = self.choose(&small, 1.0, magnitude);
        let inverse = a.recip();
        // The factor a comes out of the sum: its square would overflow.
        let far = a.log() + ((&inverse * &inverse + 1.0).sqrt() + 1.0).log();
        let value = self.choose(&small, near, far.negated_where(&self.lt(0.0)));
        value.with_slope(self, |x, _| {
            // 1 / sqrt(x^2 + 1), where a large |x| comes out of the root.
            let large = x.abs().gt(1.0);
            let part = x.choose(&large, x.choose(&large, x, 1.0).recip(), x);
            let root = (&part * &part + 1.0).sqrt().recip();
            x.choose(&large, part.abs() * &root, &root)
        })
    }

    /// `log(x + sqrt(x^2 - 1))`, by `x - 1` near 1 and without overflow far out.
    fn acosh(&self) -> Term {
        let near = self.lt(2.0);
        let t = self.choose(&near, self, 1.5) - 1.0;
        // Two roots, so that a negative x ends in NaN.
        let root = t.sqrt() * (&t + 2.0).sqrt();
        let a = self.choose(&near, 2.0, self);
        let inverse = a.recip();
        let far = a.log() + ((1.0 - &inverse * &inverse).sqrt() + 1.0).log();
        self.choose(&near, (t + root).log1p(), far)
            .with_slope(self, |x, _| ((x - 1.0).sqrt() * (x + 1.0).sqrt()).recip())
    }

    /// Half the logarithm of `(1 + x) / (1 - x)`; a polynomial near 0.
    fn atanh(&self) -> Term {
        let a = self.abs();
        let small = a.lt(1.0 / 3.0);
        let near = self * (self * self).fit(&fit::ATANH);
        let far = ((&a + 1.0) / (1.0 - &a)).log() * 0.5;
        self.choose(&small, near, far.negated_where(&self.lt(0.0)))
            .with_slope(self, |x, _| ((1.0 - x) * (x + 1.0)).recip())
    }

    fn sinc(&self) -> Term {
        let zero = self.eq(0.0);
        let angle = self.choose(&zero, 1.0, self) * PI;
        self.choose(&zero, 1.0, angle.sin() / angle).with_slope(self, |x, _| x.sinc_slope())
    }

    /// `(cos(pi x) - sinc(x)) / x`; near 0, where the two cancel, by its series.
    fn sinc_slope(&self) -> Term {
        let near = self.abs().lt(0.4);
        let angle = self.choose(&near, 1.0, self) * PI;
        let far = (angle.cos() - angle.sin() / &angle) / &angle;
        let angle = self.choose(&near, self, 0.0) * PI;
        let series = &angle * (&angle * &angle).polynomial(&SINC_SLOPE);
        self.choose(&near, series, far) * PI
    }

    /// Negated where the mask holds.
    pub(crate) fn negated_where(&self, mask: &Term) -> Term {
        self.choose(mask, -self, self)
    }
}

/// The quotient of smaller by larger magnitude goes through [`Term::atan`]'s
/// polynomial; the quadrant is added after.
fn atan2(y: &Term, x: &Term) -> Term {
    let steep = x.abs().lt(y.abs());
    let (small, large) = (y.choose(&steep, x, y), y.choose(&steep, y, x));
    // Two infinities have the ratio of their signs; 0 over 0 is 0.
    let unbounded = small.abs().eq(f64::INFINITY);
    let unit = |t: &Term| t.choose(&t.lt(0.0), -1.0, 1.0);
    let numerator = y.choose(&unbounded, unit(&small), &small);
    let denominator = y.choose(&unbounded, unit(&large), &large);
    let t = numerator / y.choose(&large.eq(0.0), 1.0, denominator);
    let angle = &t * t.atan_ratio();
    let level = y.choose(&x.sign_bit(), PI, 0.0);
    let base = y.choose(&steep, FRAC_PI_2, level).negated_where(&y.sign_bit());
    let value = y.choose(&steep, &base - &angle, &base + &angle);
    // Comparisons alone would give an angle beside NaN.
    let value = y.choose(&y.is_nan().or(x.is_nan()), f64::NAN, value);
    value.with_cotangents([y, x], |[y, x], _, g| {
        let large = y.abs().max(x.abs());
        // At the origin and at infinities the slopes are 0.
        let flat = large.eq(0.0).or(large.eq(f64::INFINITY));
        let large = large.choose(&flat, 1.0, &large);
        let part = |t: &Term| t.choose(&flat, 0.0, t / &large);
        let (b, a) = (part(&y), part(&x));
        let length = (&a * &a + &b * &b) * large;
        let length = length.choose(&flat, 1.0, &length);
        [g * &a / &length, -(g * b) / length]
    })
}

#[cfg(test)]
mod tests {
    use crate::tensor::testing::{f32s, values};

    #[test]
    fn angles_are_right_in_all_quadrants_and_at_the_limits() {
        let ends = [0.0, -0.0, 1.0, -1.0, 3.0, -1e30, f64::INFINITY, f64::NEG_INFINITY];
        for y in ends {
            for x in ends {
                let found = values(&f32s(&[1], &[y]).atan2(&f32s(&[1], &[x])))[0];
                let expected = y.atan2(x);
                let close = (found - expected).abs() < 1e-6
                    && found.is_sign_negative() == expected.is_sign_negative();
                assert!(close, "atan2({y}, {x}) is {found}, not {expected}");
            }
        }
        assert!(values(&f32s(&[1], &[f64::NAN]).atan2(&f32s(&[1], &[1.0])))[0].is_nan());
    }
}
