//! The error function and its relatives. Gamma functions are in
//! [`crate::tensor::gamma`], Bessel functions in [`crate::tensor::bessel`].
//!
//! Integers and truth values become `F32` first. Polynomials are those of
//! `fit`; each function takes the shorter ones in single precision.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, PI, SQRT_2};

use crate::base::DType;
use crate::tensor::fit;
use crate::tensor::term::{Term, float_functions, float_rows};

float_rows! {
    /// The error function of each element.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(0.5, ()).erf().item::<f32>()? - 0.5205).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    erf Erf;
}

float_functions! {
    /// `1 - erf(x)`, without cancellation for large `x`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(0.5, ()).erfc().item::<f32>()? - 0.4795).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    erfc |x| x.erfc();
    /// `exp(x^2) erfc(x)`.
    ///
    /// PyTorch: `torch.special.erfcx`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(0.5, ()).erfcx().item::<f32>()? - 0.6157).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    erfcx |x| x.erfcx();
    /// Inverse of the error function: infinite at -1 and 1, NaN beyond.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(0.5, ()).erfinv().item::<f32>()? - 0.4769).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    erfinv |x| x.erfinv();
    /// The distribution function of the standard normal distribution.
    ///
    /// PyTorch: `torch.special.ndtr`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(1.0, ()).ndtr().item::<f32>()? - 0.8413).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ndtr |x| (x * -FRAC_1_SQRT_2).erfc() * 0.5;
    /// Logarithm of [`ndtr`](Self::ndtr), without underflow far to the left.
    ///
    /// PyTorch: `torch.special.log_ndtr`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(0.0, ()).log_ndtr().item::<f32>()? + 0.6931).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    log_ndtr |x| x.log_ndtr();
    /// The inverse of [`ndtr`](Self::ndtr): infinite at 0 and 1, NaN outside.
    ///
    /// PyTorch: `torch.special.ndtri`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(0.8413, ()).ndtri().item::<f32>()? - 0.9998).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ndtri |p| p.ndtri();
    /// `-x log(x)`, 0 at 0 and minus infinity below. PyTorch: `torch.special.entr`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(0.5, ()).entr().item::<f32>()? - 0.3466).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    entr |x| x.entr();
}

impl Term {
    /// `exp(x^2)` with `self` bounded by 30: the square of a multiple of 1/16
    /// is exact, and the rest is small enough for its rounding not to matter.
    fn exp_of_square(&self, negate: bool) -> Term {
        let near = (self * 16.0).trunc() * (1.0 / 16.0);
        let rest = (self - &near) * (self + &near);
        let square = &near * &near;
        if negate { (-square).exp() * (-rest).exp() } else { square.exp() * rest.exp() }
    }

    /// `erfcx` of values that are not negative.
    fn erfcx_positive(&self) -> Term {
        // Written so that infinity gives t = 1 and not NaN.
        let t = 1.0 - 6.0 / (self + 3.0);
        t.fit(&fit::ERFCX) / (self + self + 1.0)
    }

    /// One minus `erf` near 0; elsewhere `exp(-x^2) erfcx(|x|)`, reflected on
    /// the left.
    pub(crate) fn erfc(&self) -> Term {
        let magnitude = self.abs().min(30.0);
        let tail = magnitude.exp_of_square(true) * magnitude.erfcx_positive();
        let reflected = self.choose(&self.lt(0.0), 2.0 - &tail, &tail);
        self.choose(&self.abs().lt(0.5), 1.0 - self.erf(), reflected)
    }

    fn erfcx(&self) -> Term {
        let right = self.abs().erfcx_positive();
        let negative = self.lt(0.0);
        // The 0 keeps the untaken branch, and its gradient, finite.
        let left = self.choose(&negative, self, 0.0).abs().min(30.0).exp_of_square(false);
        let value = self.choose(&negative, &left + left.clone() - &right, &right);
        value.with_slope(self, erfcx_slope)
    }

    fn log_ndtr(&self) -> Term {
        let far = self.lt(-1.0);
        let left = self.choose(&far, self, -1.0);
        // Half first: the square of what is far out would overflow before its half.
        let tail = ((&left * -FRAC_1_SQRT_2).erfcx() * 0.5).log() - &left * (&left * 0.5);
        let right = (-((self * FRAC_1_SQRT_2).erfc() * 0.5)).log1p();
        self.choose(&far, tail, right)
            .with_slope(self, |x, _| (x * -FRAC_1_SQRT_2).erfcx().recip() * (2.0 / PI).sqrt())
    }

    fn erfinv(&self) -> Term {
        inverse(self, &(1.0 - self.abs())).with_slope(self, |_, y| (y * y).exp() * (PI.sqrt() / 2.0))
    }

    fn ndtri(&self) -> Term {
        // With x = 2p - 1, the distance 1 - |x| comes without rounding from p.
        let nearer = self.choose(&self.lt(0.5), self, 1.0 - self);
        let value = inverse(&(self + self - 1.0), &(&nearer + &nearer)) * SQRT_2;
        value.with_slope(self, |_, y| (y * y * 0.5).exp() * (2.0 * PI).sqrt())
    }

    fn entr(&self) -> Term {
        let none = self.le(0.0);
        let x = self.choose(&none, 1.0, self);
        let entropy = 0.0 - &x * x.log();
        self.choose(&self.lt(0.0), f64::NEG_INFINITY, entropy).with_slope(self, |x, _| -1.0 - &x.log())
    }
}

/// The slope of `erfcx`: `2 x erfcx(x) - 2 / sqrt(pi)`. Far out these cancel, and what is left is an asymptotic
/// series in `z = 1 / (2 x^2)`.
fn erfcx_slope(x: &Term, y: &Term) -> Term {
    let far = x.gt(10.0);
    let near = x.choose(&far, 0.0, x);
    let z = x.choose(&far, x, 10.0).recip();
    let z = &z * &z * 0.5;
    let series = (1..12).rev().fold(x.number(1.0), |rest, n| 1.0 - &z * rest * f64::from(2 * n + 1));
    let slope = x.choose(&far, -(z * series), (&near + &near) * y * (0.5 * PI.sqrt()) - 1.0);
    slope * FRAC_2_SQRT_PI
}

/// `erfinv(x)`, given `rest = 1 - |x|` too, which carries the precision near
/// the ends.
fn inverse(x: &Term, rest: &Term) -> Term {
    let w = -(rest * (2.0 - rest)).log();
    let (low, high) = (w.lt(5.0), w.gt(16.0));
    // A root of 0 would have an infinite gradient.
    let root = w.choose(&low, 5.0, &w).sqrt();
    let middle = (&root - 3.0).polynomial(fit::ERFINV_BELOW_16);
    let outer = (root.recip() - 0.14).polynomial(fit::ERFINV_ABOVE_16) * &root;
    let inner = (&w - 2.5).polynomial(fit::ERFINV_BELOW_5);
    let ratio = w.choose(&low, inner, w.choose(&high, outer, middle));
    let first = x * w.choose(&w.eq(f64::INFINITY), f64::INFINITY, ratio);
    if x.dtype() == DType::F64 { refined(x, rest, &first) } else { first }
}

/// One step of Halley's method on `erf(y) = x`, or on `erfc(|y|) = rest` in the
/// tails, from a value that is right to 1e-8.
fn refined(x: &Term, rest: &Term, y: &Term) -> Term {
    let magnitude = y.abs();
    let tail = rest.lt(0.5);
    let gauss = (y * y + y.choose(&tail, rest, 1.0).log()).exp();
    let beyond = (gauss - magnitude.erfcx_positive()).negated_where(&y.lt(0.0));
    let near = (y.erf() - x) * (y * y).exp();
    let step = y.choose(&tail, beyond, near) * (PI.sqrt() / 2.0);
    let better = y - &step / (1.0 + y * &step);
    // Infinite ends, and NaN, stay as they are.
    y.choose(&magnitude.lt(f64::INFINITY), better, y)
}
