//! Activation functions.
//!
//! All keep the type of a floating operand (16-bit floats compute in `F32`);
//! where the formula needs a fraction, integers become `F32` first. Softmax
//! is in [`crate::tensor::softmax`], dropout in [`crate::tensor::random`].

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use crate::base::{DType, Scalar};
use crate::tensor::compose::{CallSite, Checked, finish};
use crate::tensor::rule::with_rule;
use crate::tensor::term::{Term, float_formula, float_functions, formula, formula_as};
use crate::tensor::{Operand, Tensor};

float_functions! {
    /// `1 / (1 + exp(-x))` of each element.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(0.0, ()).sigmoid().item::<f32>()? - 0.5).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    sigmoid |x| x.sigmoid();
    /// `x sigmoid(x)` of each element, also called swish (Elfwing et al. 2017).
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(1.0, ()).silu().item::<f32>()? - 0.7311).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    silu |x| x.silu();
    /// `x P(X <= x)` for a standard normal `X`, by the error function (Hendrycks and Gimpel 2016).
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(1.0, ()).gelu().item::<f32>()? - 0.8413).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    gelu |x| (&x * 0.5) * ((&x * FRAC_1_SQRT_2).erf() + 1.0);
    /// [`gelu`](Self::gelu) approximated by a hyperbolic tangent (Hendrycks and Gimpel 2016).
    ///
    /// PyTorch: `nn.functional.gelu` with `approximate="tanh"`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(1.0, ()).gelu_tanh().item::<f32>()? - 0.8412).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    gelu_tanh |x| x.gelu_tanh();
    /// `x tanh(softplus(x))` of each element (Misra 2019).
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(1.0, ()).mish().item::<f32>()? - 0.8651).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    mish |x| x.mish();
    /// `x relu6(x + 3) / 6` of each element (Howard et al. 2019).
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(1.0, ()).hardswish().item::<f32>()? - 0.6667).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    hardswish |x| (&x * x.hardsigmoid()).with_slope(&x, |x, _| {
        let inside = x.choose(&x.lt(-3.0), 0.0, x * (1.0 / 3.0) + 0.5);
        x.choose(&x.gt(3.0), 1.0, inside)
    });
    /// `relu6(x + 3) / 6` of each element.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(0.0, ()).hardsigmoid().item::<f32>()? - 0.5).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    hardsigmoid |x| x.hardsigmoid();
    /// `x / (1 + |x|)` of each element.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([-1.0f32, 0.0, 3.0]);
    /// assert_eq!(x.softsign().to_vec::<f32>()?, [-0.5, 0.0, 0.75]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    softsign |x| &x / (x.abs() + 1.0);
    /// `x - tanh(x)` of each element.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(1.0, ()).tanhshrink().item::<f32>()? - 0.2384).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    tanhshrink |x| &x - x.tanh();
    /// `log(sigmoid(x))` of each element, without underflow.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(0.0, ()).logsigmoid().item::<f32>()? + 0.6931).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    logsigmoid |x| -(-x).softplus(20.0);
    /// Scaled exponential linear unit (Klambauer et al. 2017).
    ///
    /// Its constants keep mean 0 and variance 1.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(1.0, ()).selu().item::<f32>()? - 1.0507).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    selu |x| x.elu(SELU_ALPHA, 1.0) * SELU_SCALE;
}

const SELU_ALPHA: f64 = 1.673_263_242_354_377_2;
const SELU_SCALE: f64 = 1.050_700_987_355_480_5;

impl Tensor {
    /// Each element, but not below 0. Integers stay integers.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([-1.0f32, 0.0, 2.0]);
    /// assert_eq!(x.relu().to_vec::<f32>()?, [0.0, 0.0, 2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn relu(&self) -> Tensor {
        let site = CallSite::here("relu");
        let positive = number_formula(site, self, |x| {
            let zero = x.number(0);
            x.max(zero)
        });
        with_rule(positive, &[self], move |_, y, g| {
            let none = site.scalar(0.0, g.dtype(), g.device());
            vec![Some(site.select(&site.eq(y, 0.0), none, g, g.dtype()))]
        })
    }

    /// Each element brought into `[0, 6]`. Integers stay integers.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([-1.0f32, 3.0, 9.0]);
    /// assert_eq!(x.relu6().to_vec::<f32>()?, [0.0, 3.0, 6.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn relu6(&self) -> Tensor {
        number_formula(CallSite::here("relu6"), self, |x| x.between(Scalar::Int(0), Scalar::Int(6)))
    }

    /// Each element brought into `[min, max]`. Integers stay integers.
    ///
    /// Invalid when the bounds cross. PyTorch's defaults: -1 and 1.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([-3.0f32, 0.5, 3.0]);
    /// assert_eq!(x.hardtanh(-1.0, 1.0).to_vec::<f32>()?, [-1.0, 0.5, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn hardtanh(&self, min: impl Into<Scalar>, max: impl Into<Scalar>) -> Tensor {
        let (site, min, max) = (CallSite::here("hardtanh"), min.into(), max.into());
        if min.as_f64() > max.as_f64() {
            return site.invalid("a minimum not above the maximum", format!("{min} and {max}"), &[self]);
        }
        number_formula(site, self, |x| x.between(min, max))
    }

    /// Each element where positive, else `slope` times it. PyTorch's default: 0.01.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([-2.0f32, 3.0]);
    /// assert_eq!(x.leaky_relu(0.5).to_vec::<f32>()?, [-1.0, 3.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn leaky_relu(&self, slope: f64) -> Tensor {
        float_formula(CallSite::here("leaky_relu"), [self.into_operand()], |[x]| {
            x.choose(&x.gt(0.0), &x, &x * slope)
        })
    }

    /// Each element where positive, else times its channel's weight (He et al. 2015).
    ///
    /// `weight` has one element, or one for each position of axis 1 (axis 0 of a vector); anything
    /// else is invalid, as is a tensor of rank 0 with several weights.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[-2.0f32, -4.0]]);
    /// assert_eq!(x.prelu(&Tensor::from([0.5f32, 0.25])).to_vec::<f32>()?, [-1.0, -1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn prelu(&self, weight: &Tensor) -> Tensor {
        let site = CallSite::here("prelu");
        let this: &Tensor = &site.autocast(self);
        let weight: &Tensor = &site.autocast(weight);
        finish(channel_weights(site, this, weight).map(|weight| {
            let operands = [this.into_operand(), weight.into_operand()];
            formula(site, operands, |[x, w]| {
                let positive = x.gt(0.0);
                // Where the element is positive, 0 keeps an infinite weight out of its gradient.
                x.choose(&positive, &x, x.choose(&positive, 0.0, &x) * w)
            })
        }))
    }

    /// Exponential linear unit (Clevert et al. 2015).
    ///
    /// The element where positive, else `alpha (exp(x) - 1)`. PyTorch's default: 1.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(-1.0, ()).elu(1.0).item::<f32>()? + 0.6321).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn elu(&self, alpha: f64) -> Tensor {
        float_formula(CallSite::here("elu"), [self.into_operand()], |[x]| x.elu(alpha, 1.0))
    }

    /// Continuously differentiable exponential linear unit (Barron 2017).
    ///
    /// The element where positive, else `alpha (exp(x / alpha) - 1)`. Invalid for alpha 0.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(-2.0, ()).celu(2.0).item::<f32>()? + 1.2642).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn celu(&self, alpha: f64) -> Tensor {
        let site = CallSite::here("celu");
        if alpha == 0.0 {
            return site.invalid("an alpha that is not 0", "0", &[self]);
        }
        float_formula(site, [self.into_operand()], |[x]| x.elu(alpha, 1.0 / alpha))
    }

    /// `log(1 + exp(beta x)) / beta`, and `x` where `beta x` is above `threshold`.
    ///
    /// PyTorch's defaults: 1 and 20.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(0.0, ()).softplus(1.0, 20.0).item::<f32>()? - 0.6931).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn softplus(&self, beta: f64, threshold: f64) -> Tensor {
        float_formula(CallSite::here("softplus"), [self.into_operand()], |[x]| {
            let scaled = &x * beta;
            x.choose(&scaled.gt(threshold), &x, scaled.softplus(threshold) / beta)
        })
    }

    /// Each element where it is outside `[-lambda, lambda]`, else 0. PyTorch's default: 0.5.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([-2.0f32, 0.25, 1.0]);
    /// assert_eq!(x.hardshrink(0.5).to_vec::<f32>()?, [-2.0, 0.0, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn hardshrink(&self, lambda: f64) -> Tensor {
        float_formula(CallSite::here("hardshrink"), [self.into_operand()], |[x]| {
            x.choose(&x.abs().le(lambda), 0.0, &x)
        })
    }

    /// Each element moved towards 0 by `lambda`, at most as far as 0. PyTorch's default: 0.5.
    ///
    /// Invalid for a negative lambda.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([-2.0f32, 0.25, 1.0]);
    /// assert_eq!(x.softshrink(0.5).to_vec::<f32>()?, [-1.5, 0.0, 0.5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn softshrink(&self, lambda: f64) -> Tensor {
        let site = CallSite::here("softshrink");
        // Written so that NaN is refused too.
        if !(lambda >= 0.0) {
            return site.invalid("a lambda of at least 0", lambda.to_string(), &[self]);
        }
        float_formula(site, [self.into_operand()], |[x]| {
            &x - x.clamp(Some(&x.number(-lambda)), Some(&x.number(lambda)))
        })
    }

    /// Each element where it is above `threshold`, else `value`. Integers stay integers.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([-1.0f32, 0.5, 2.0]);
    /// assert_eq!(x.threshold(1.0, 9.0).to_vec::<f32>()?, [9.0, 9.0, 2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn threshold(&self, threshold: impl Into<Scalar>, value: impl Into<Scalar>) -> Tensor {
        let (threshold, value) = (threshold.into(), value.into());
        number_formula(CallSite::here("threshold"), self, |x| {
            x.choose(&x.le(x.number(threshold)), x.number(value), &x)
        })
    }

    /// Gated linear unit (Dauphin et al. 2016).
    ///
    /// The first half of an axis times the sigmoid of the second: `[.., 2 n]` along -1 gives
    /// `[.., n]`. Invalid when the axis is out of range or its extent is odd.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([6.0f32, 0.0]);
    /// assert_eq!(x.glu(-1).to_vec::<f32>()?, [3.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn glu(&self, axis: i64) -> Tensor {
        finish(glu(CallSite::here("glu"), self, axis))
    }
}

impl Term {
    /// `1 / (1 + exp(-x))`; devices know the pattern.
    pub(crate) fn sigmoid(&self) -> Term {
        (1.0 + (-self).exp()).recip().with_slope(self, |_, y| y * (1.0 - y))
    }

    fn silu(&self) -> Term {
        (self * self.sigmoid()).with_slope(self, |x, _| {
            let sigmoid = x.sigmoid();
            &sigmoid + (x * &sigmoid) * (-x).sigmoid()
        })
    }

    fn gelu_tanh(&self) -> Term {
        let gate = |x: &Term| ((x + x * x * x * 0.044_715) * (2.0 / PI).sqrt()).tanh();
        ((self * 0.5) * (gate(self) + 1.0)).with_slope(self, move |x, _| {
            // The gate is flat long before its cube overflows.
            let x = x.max(-30.0).min(30.0);
            let (t, inner) = (gate(&x), (&x * &x * (3.0 * 0.044_715) + 1.0) * (2.0 / PI).sqrt());
            ((&t + 1.0) + &x * (1.0 - &t * &t) * inner) * 0.5
        })
    }

    /// With `e = exp(x)`, `tanh(log(1 + e))` is `e (e + 2) / (e (e + 2) + 2)`.
    fn mish(&self) -> Term {
        let e = self.min(20.0).exp();
        let n = &e * (&e + 2.0);
        self * (&n / (&n + 2.0))
    }

    fn hardsigmoid(&self) -> Term {
        (self + 3.0).between(Scalar::Int(0), Scalar::Int(6)) * (1.0 / 6.0)
    }

    /// Between two numbers; at a bound the gradient is the bound's, 0.
    fn between(&self, min: Scalar, max: Scalar) -> Term {
        self.clamp(Some(&self.number(min)), Some(&self.number(max)))
    }

    fn elu(&self, alpha: f64, slope: f64) -> Term {
        let positive = self.gt(0.0);
        // Where the element is positive, 0 keeps the exponential finite.
        let below = self.choose(&positive, 0.0, self);
        let below = if slope == 1.0 { below } else { below * slope };
        let curve = below.expm1();
        let curve = if alpha == 1.0 { curve } else { curve * alpha };
        self.choose(&positive, self, curve).with_slope(self, move |x, _| {
            let positive = x.gt(0.0);
            let below = (x.choose(&positive, 0.0, x) * slope).exp() * (alpha * slope);
            x.choose(&positive, 1.0, below)
        })
    }

    /// `log(1 + exp(x))` up to the threshold, where `x` takes over.
    pub(crate) fn softplus(&self, threshold: f64) -> Term {
        let above = self.gt(threshold);
        self.choose(&above, self, self.choose(&above, 0.0, self).exp().log1p())
    }
}

/// A formula on numbers, of integers too; truth values are refused.
fn number_formula(site: CallSite, x: &Tensor, body: impl FnOnce(Term) -> Term) -> Tensor {
    if x.dtype() == DType::Bool {
        return site.invalid("a number type", "bool", &[x]);
    }
    formula_as(site, x.dtype(), [x.into_operand()], |[x]| body(x))
}

/// The weights reshaped to stand along the channels' axis.
fn channel_weights(site: CallSite, x: &Tensor, weight: &Tensor) -> Checked<Tensor> {
    site.valid(&[x, weight])?;
    if weight.numel() == 1 {
        return Ok(site.reshape(weight, &[]));
    }
    let axis = usize::from(x.rank() > 1);
    let channels = x.shape().get(axis).copied();
    let fits = weight.rank() == 1 && channels == Some(weight.numel());
    site.require(fits, &[x, weight], || {
        let channels = channels.map_or("one weight for rank 0".to_string(), |n| format!("1 or {n} weights"));
        (channels, format!("shape {}", weight.shape()))
    })?;
    let mut dims = vec![1; x.rank()];
    dims[axis] = weight.numel();
    Ok(site.reshape(weight, &dims))
}

fn glu(site: CallSite, x: &Tensor, axis: i64) -> Checked<Tensor> {
    let axis = site.axis(x, axis)?;
    let extent = x.shape()[axis];
    site.require(extent.is_multiple_of(2), &[x], || {
        (format!("an even extent along axis {axis}"), extent.to_string())
    })?;
    let half = |start| site.slice(x, axis, start, start + extent / 2, 1).into_operand();
    Ok(float_formula(site, [half(0), half(extent / 2)], |[a, b]| a * b.sigmoid()))
}

#[cfg(test)]
mod tests {
    use crate::tensor::testing::{assert_close, f32s};

    #[test]
    fn activations_at_known_points() {
        let x = f32s(&[4], &[-20.0, -1.0, 0.0, 2.0]);
        assert_close(&x.sigmoid(), &[4], &[2.061_153_6e-9, 0.268_941_42, 0.5, 0.880_797_08]);
        assert_close(&x.softplus(1.0, 20.0), &[4], &[2.061_153_6e-9, 0.313_261_69, 0.693_147_18, 2.126_928]);
        assert_close(&x.relu6(), &[4], &[0.0, 0.0, 0.0, 2.0]);
        assert_close(&x.elu(1.0), &[4], &[-1.0, -0.632_120_56, 0.0, 2.0]);
    }

    #[test]
    fn softmax_of_large_numbers_does_not_overflow() {
        let x = f32s(&[1, 2], &[1000.0, 1000.0]);
        assert_close(&x.softmax(-1), &[1, 2], &[0.5, 0.5]);
        assert_close(&x.log_softmax(-1), &[1, 2], &[-0.693_147_18, -0.693_147_18]);
        assert!(x.softmax(2).check().is_err());
    }
}
