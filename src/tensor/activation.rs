//! Activations. Integers become `F32` first where the function is floating;
//! 16-bit floats compute in `F32` and are rounded once.

use crate::base::DType;
use crate::ir::Monoid;
use crate::tensor::compose::{Checked, Site, finish};
use crate::tensor::term::{Term, float_formula, formula};
use crate::tensor::{Operand, Tensor};

macro_rules! activations {
    ($($(#[doc = $doc:literal])+ $name:ident |$x:ident| $body:expr;)*) => {
        impl Tensor {$(
            $(#[doc = $doc])+
            #[track_caller]
            pub fn $name(&self) -> Tensor {
                let site = Site::here(stringify!($name));
                float_formula(site, [self.into_operand()], |[$x]| $body)
            }
        )*}
    };
}

activations! {
    /// Hyperbolic tangent.
    tanh |x| x.tanh();
    /// The logistic function, `1 / (1 + exp(-x))`.
    sigmoid |x| x.sigmoid();
    /// `x sigmoid(x)`, also called swish.
    silu |x| &x * x.sigmoid();
    /// Gaussian error linear unit: `x` times the normal distribution function
    /// (Hendrycks and Gimpel 2016).
    gelu |x| &x * 0.5 * ((&x * std::f64::consts::FRAC_1_SQRT_2).erf() + 1.0);
    /// [`Tensor::gelu`] with the distribution function approximated by `tanh`.
    gelu_tanh |x| {
        let inner = (&x + &x * &x * &x * 0.044715) * (2.0 / std::f64::consts::PI).sqrt();
        &x * 0.5 * (inner.tanh() + 1.0)
    };
    /// `x tanh(softplus(x))`.
    mish |x| &x * x.softplus().tanh();
    /// `x relu6(x + 3) / 6`.
    hardswish |x| &x * ((&x + 3.0).max(0.0).min(6.0) / 6.0);
    /// `relu6(x + 3) / 6`.
    hardsigmoid |x| (&x + 3.0).max(0.0).min(6.0) / 6.0;
    /// `x / (1 + |x|)`.
    softsign |x| &x / (x.abs() + 1.0);
    /// `x - tanh(x)`.
    tanhshrink |x| &x - x.tanh();
    /// `log(sigmoid(x))`, without overflow.
    logsigmoid |x| -(-x).softplus();
    /// Scaled exponential linear unit (Klambauer et al. 2017).
    selu |x| {
        const ALPHA: f64 = 1.673_263_242_354_377_2;
        const SCALE: f64 = 1.050_700_987_355_480_5;
        x.choose(&x.gt(0.0), &x * SCALE, x.min(0.0).expm1_plain() * (ALPHA * SCALE))
    };
}

impl Term {
    /// `1 / (1 + exp(-x))`.
    pub(crate) fn sigmoid(&self) -> Term {
        ((-self).exp() + 1.0).recip()
    }

    /// `log(1 + exp(x))` as `max(x, 0) + log(1 + exp(-|x|))`.
    pub(crate) fn softplus(&self) -> Term {
        let tail = (-self.abs()).exp();
        self.max(0.0) + tail.log1p_unit()
    }

    /// `log(1 + t)` for `t` in `[0, 1]`: `2 atanh(t / (2 + t))` as its series
    /// in `s^2`, which converges fast since `s <= 1/3`.
    fn log1p_unit(&self) -> Term {
        let s = self / (self + 2.0);
        let terms = if self.dtype() == DType::F64 { 18 } else { 9 };
        let coefficients: Vec<f64> = (0..terms).map(|k| 2.0 / f64::from(2 * k + 1)).collect();
        &s * (&s * &s).polynomial(&coefficients)
    }

    /// `exp(x) - 1` as `tanh(x / 2) (exp(x) + 1)`, which cancels nowhere.
    fn expm1_plain(&self) -> Term {
        (self * 0.5).tanh() * (self.exp() + 1.0)
    }
}

impl Tensor {
    /// The larger of the element and 0; any number type.
    #[track_caller]
    pub fn relu(&self) -> Tensor {
        formula(Site::here("relu"), [self.into_operand()], |[x]| x.max(0.0))
    }

    /// The element brought into `[0, 6]`; any number type.
    #[track_caller]
    pub fn relu6(&self) -> Tensor {
        formula(Site::here("relu6"), [self.into_operand()], |[x]| x.max(0.0).min(6.0))
    }

    /// The element where it is above 0, else `slope` times it.
    #[track_caller]
    pub fn leaky_relu(&self, slope: f64) -> Tensor {
        float_formula(Site::here("leaky_relu"), [self.into_operand()], |[x]| {
            x.choose(&x.gt(0.0), &x, &x * slope)
        })
    }

    /// [`Tensor::leaky_relu`] with a learned slope: one, or one for each
    /// position of axis 1.
    ///
    /// An error for a tensor of rank 0 beside several slopes, or when their
    /// number is not that axis's extent.
    #[track_caller]
    pub fn prelu(&self, weight: &Tensor) -> Tensor {
        let site = Site::here("prelu");
        let (rank, slopes) = (self.rank(), weight.numel());
        let channels = if rank < 2 { 1 } else { self.shape()[1] };
        if weight.rank() > 1 || (slopes != 1 && slopes != channels) || (rank == 0 && weight.rank() > 0) {
            let found = format!("{} for {}", weight.shape(), self.shape());
            return site.mistake(
                "a weight of one element, or one for each of axis 1",
                found,
                &[self, weight],
            );
        }
        let mut dims = vec![1; rank];
        if slopes != 1 {
            dims[1] = slopes;
        }
        let slope = site.reshape(weight, &dims);
        float_formula(site, [self.into_operand(), slope.into_operand()], |[x, slope]| {
            x.choose(&x.gt(0.0), &x, &x * slope)
        })
    }

    /// The element where it is above 0, else `alpha (exp(x) - 1)`.
    #[track_caller]
    pub fn elu(&self, alpha: f64) -> Tensor {
        float_formula(Site::here("elu"), [self.into_operand()], |[x]| {
            x.choose(&x.gt(0.0), &x, x.min(0.0).expm1_plain() * alpha)
        })
    }

    /// [`Tensor::elu`], continuously differentiable for every `alpha`.
    #[track_caller]
    pub fn celu(&self, alpha: f64) -> Tensor {
        let site = Site::here("celu");
        if alpha == 0.0 {
            return site.mistake("an alpha other than 0", "0", &[self]);
        }
        float_formula(site, [self.into_operand()], |[x]| {
            x.choose(&x.gt(0.0), &x, (x.min(0.0) / alpha).expm1_plain() * alpha)
        })
    }

    /// The element brought into `[low, high]`.
    #[track_caller]
    pub fn hardtanh(&self, low: f64, high: f64) -> Tensor {
        let site = Site::here("hardtanh");
        if low > high {
            let found = format!("{low} and {high}");
            return site.mistake("a lower bound not above the upper one", found, &[self]);
        }
        formula(site, [self.into_operand()], |[x]| x.max(low).min(high))
    }

    /// `log(1 + exp(beta x)) / beta`; above `threshold`, `x` itself.
    #[track_caller]
    pub fn softplus(&self, beta: f64, threshold: f64) -> Tensor {
        float_formula(Site::here("softplus"), [self.into_operand()], |[x]| {
            let scaled = &x * beta;
            x.choose(&scaled.gt(threshold), &x, scaled.softplus() / beta)
        })
    }

    /// 0 where the magnitude is at most `lambda`, else the element.
    #[track_caller]
    pub fn hardshrink(&self, lambda: f64) -> Tensor {
        float_formula(Site::here("hardshrink"), [self.into_operand()], |[x]| {
            x.choose(&x.abs().le(lambda), 0.0, &x)
        })
    }

    /// The element moved towards 0 by `lambda`, and 0 where it is nearer.
    #[track_caller]
    pub fn softshrink(&self, lambda: f64) -> Tensor {
        let site = Site::here("softshrink");
        if lambda < 0.0 || lambda.is_nan() {
            return site.mistake("a lambda of at least 0", lambda.to_string(), &[self]);
        }
        float_formula(site, [self.into_operand()], |[x]| {
            let below = x.choose(&x.lt(-lambda), &x + lambda, &x * 0.0);
            x.choose(&x.gt(lambda), &x - lambda, below)
        })
    }

    /// The element where it is above `threshold`, else `value`.
    #[track_caller]
    pub fn threshold(&self, threshold: f64, value: f64) -> Tensor {
        formula(Site::here("threshold"), [self.into_operand()], |[x]| x.choose(&x.le(threshold), value, &x))
    }

    /// The first half along an axis times the sigmoid of the second.
    ///
    /// An error when the axis's extent is odd.
    #[track_caller]
    pub fn glu(&self, axis: i64) -> Tensor {
        finish(glu(Site::here("glu"), self, axis))
    }

    /// `exp(x)` over its sum along an axis, without overflow.
    #[track_caller]
    pub fn softmax(&self, axis: i64) -> Tensor {
        softmax(Site::here("softmax"), self, axis)
    }

    /// [`Tensor::softmax`] of the negated elements.
    #[track_caller]
    pub fn softmin(&self, axis: i64) -> Tensor {
        let site = Site::here("softmin");
        softmax(site, &float_formula(site, [self.into_operand()], |[x]| -x), axis)
    }

    /// The logarithm of [`Tensor::softmax`], without underflow.
    #[track_caller]
    pub fn log_softmax(&self, axis: i64) -> Tensor {
        let site = Site::here("log_softmax");
        along(site, self, axis, |x, axis| {
            let shifted = site.sub(x, &site.reduce_keepdim(Monoid::Max, x, &[axis]));
            let total = site.reduce_keepdim(
                Monoid::Sum,
                &Term::new(site, shifted.clone()).exp().into_tensor(),
                &[axis],
            );
            site.sub(&shifted, &Term::new(site, total).log().into_tensor())
        })
    }
}

fn glu(site: Site, x: &Tensor, axis: i64) -> Checked<Tensor> {
    let axis = site.axis(x, axis)?;
    let extent = x.shape()[axis];
    site.require(extent % 2 == 0, &[x], || ("an axis of even extent".into(), extent.to_string()))?;
    let half = extent / 2;
    let halves = [site.slice(x, axis, 0, half, 1), site.slice(x, axis, half, extent, 1)];
    Ok(float_formula(site, halves.map(Operand::into_operand), |[a, b]| a * b.sigmoid()))
}

fn softmax(site: Site, x: &Tensor, axis: i64) -> Tensor {
    along(site, x, axis, |x, axis| {
        let shifted = site.sub(x, &site.reduce_keepdim(Monoid::Max, x, &[axis]));
        let exp = Term::new(site, shifted).exp().into_tensor();
        site.div(&exp, &site.reduce_keepdim(Monoid::Sum, &exp, &[axis]))
    })
}

/// A function of one axis, computed in `F32` for 16-bit floats and integers;
/// a rank-0 tensor counts as one element along axis 0 or -1.
fn along(site: Site, x: &Tensor, axis: i64, body: impl FnOnce(&Tensor, usize) -> Tensor) -> Tensor {
    let prepared = || -> Checked<(Tensor, usize)> {
        let wide = x.clone().cast_as(site.name, x.dtype().to_float().compute(), site.span);
        let wide = if x.rank() == 0 { site.reshape(&wide, &[1]) } else { wide };
        let axis = site.axis(&wide, axis)?;
        Ok((wide, axis))
    };
    finish(prepared().map(|(wide, axis)| {
        let result = body(&wide, axis);
        let result = if x.rank() == 0 { site.reshape(&result, &[]) } else { result };
        result.cast_as(site.name, x.dtype().to_float(), site.span)
    }))
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
