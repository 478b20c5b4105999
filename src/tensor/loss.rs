//! Losses of single elements: regression and distributions.

use std::f64::consts::PI;
use std::fmt;
use std::str::FromStr;

use crate::base::{DType, Error};
use crate::ir::AluOp;
use crate::tensor::Tensor;
use crate::tensor::compose::{CallSite, Checked, finish};
use crate::tensor::options::options;
use crate::tensor::rule::with_rule;

/// What becomes of the losses of single elements.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// let (x, y) = (Tensor::from([1.0f32, 4.0]), Tensor::zeros([2], ()));
/// assert_eq!(x.l1_loss(&y, Reduction::None).to_vec::<f32>()?, [1.0, 4.0]);
/// assert_eq!(x.l1_loss(&y, Reduction::Sum).to_vec::<f32>()?, [5.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reduction {
    /// They are the result.
    None,
    /// Their mean.
    #[default]
    Mean,
    /// Their sum.
    Sum,
    /// Their sum over the extent of the first axis: the mean of the
    /// Kullback-Leibler divergence.
    BatchMean,
}

impl FromStr for Reduction {
    type Err = Error;
    /// Parses PyTorch's names: `none`, `mean`, `sum`, `batchmean`.
    fn from_str(s: &str) -> Result<Reduction, Error> {
        Ok(match s {
            "none" => Reduction::None,
            "mean" => Reduction::Mean,
            "sum" => Reduction::Sum,
            "batchmean" => Reduction::BatchMean,
            _ => {
                let expected = "none, mean, sum or batchmean".into();
                return Err(Error::Parse { what: "reduction", expected, found: s.into() });
            }
        })
    }
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Reduction::None => "none",
            Reduction::Mean => "mean",
            Reduction::Sum => "sum",
            Reduction::BatchMean => "batchmean",
        })
    }
}

options! {
    /// Options of [`Tensor::smooth_l1_loss`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::SmoothL1LossOpts;
    /// let (x, y) = (Tensor::from([4.0f32]), Tensor::zeros([1], ()));
    /// assert_eq!(x.smooth_l1_loss(&y, SmoothL1LossOpts::default().beta(2.0)).to_vec::<f32>()?, [3.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    SmoothL1LossOpts {
        /// Where the square turns into a line (1); at 0 it is the absolute error.
        beta: f64 = 1.0;
        /// What becomes of the losses (mean).
        reduction: Reduction = Reduction::Mean;
    }
}

options! {
    /// Options of [`Tensor::huber_loss`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::HuberLossOpts;
    /// let (x, y) = (Tensor::from([4.0f32]), Tensor::zeros([1], ()));
    /// assert_eq!(x.huber_loss(&y, HuberLossOpts::default().delta(2.0)).to_vec::<f32>()?, [6.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    HuberLossOpts {
        /// Where the square turns into a line (1).
        delta: f64 = 1.0;
        /// What becomes of the losses (mean).
        reduction: Reduction = Reduction::Mean;
    }
}

options! {
    /// Options of [`Tensor::kl_div`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::KlDivOpts;
    /// let x = Tensor::from([[0.5f32, 0.5]]).log();
    /// assert_eq!(x.kl_div(&x, KlDivOpts::default().log_target(true)).to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    KlDivOpts {
        /// The target, too, holds logarithms (false).
        log_target: bool = false;
        /// What becomes of the losses (mean).
        reduction: Reduction = Reduction::Mean;
    }
}

options! {
    /// Options of [`Tensor::poisson_nll_loss`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::PoissonNllLossOpts;
    /// let (rate, count) = (Tensor::from([1.0f32]), Tensor::from([3.0f32]));
    /// let y = rate.poisson_nll_loss(&count, PoissonNllLossOpts::default().log_input(false));
    /// assert!((y.item::<f32>()? - 1.0).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    PoissonNllLossOpts {
        /// The input holds logarithms of the rates (true).
        log_input: bool = true;
        /// Add Stirling's approximation of the term that depends on the target alone.
        full: bool = false;
        /// Added to rates before their logarithm (1e-8).
        eps: f64 = 1e-8;
        /// What becomes of the losses (mean).
        reduction: Reduction = Reduction::Mean;
    }
}

options! {
    /// Options of [`Tensor::gaussian_nll_loss`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::GaussianNllLossOpts;
    /// let (x, var) = (Tensor::from([1.0f32]), Tensor::ones([1], ()));
    /// let y = x.gaussian_nll_loss(&x, &var, GaussianNllLossOpts::default().full(true));
    /// assert!((y.item::<f32>()? - 0.9189).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    GaussianNllLossOpts {
        /// Add the constant half the logarithm of 2 pi.
        full: bool = false;
        /// The least variance (1e-6).
        eps: f64 = 1e-6;
        /// What becomes of the losses (mean).
        reduction: Reduction = Reduction::Mean;
    }
}

impl Tensor {
    /// The squared error; shapes broadcast.
    ///
    /// `Reduction::Mean` and `Sum` give rank 0, `None` the shape of the operands.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let (x, y) = (Tensor::from([1.0f32, 4.0]), Tensor::zeros([2], ()));
    /// assert_eq!(x.mse_loss(&y, Reduction::Mean).to_vec::<f32>()?, [8.5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn mse_loss(&self, target: &Tensor, reduction: Reduction) -> Tensor {
        let site = CallSite::here("mse_loss");
        let this: &Tensor = &site.autocast(self);
        let target: &Tensor = &site.autocast(target);
        let error = site.sub(widen(site, this), widen(site, target));
        reduce(site, &site.square(&error), reduction, common(this, &[target]))
    }

    /// The absolute error; shapes broadcast. Reduced as [`Tensor::mse_loss`] is.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let (x, y) = (Tensor::from([1.0f32, -4.0]), Tensor::zeros([2], ()));
    /// assert_eq!(x.l1_loss(&y, Reduction::Mean).to_vec::<f32>()?, [2.5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn l1_loss(&self, target: &Tensor, reduction: Reduction) -> Tensor {
        let site = CallSite::here("l1_loss");
        let this: &Tensor = &site.autocast(self);
        let target: &Tensor = &site.autocast(target);
        let error = site.sub(widen(site, this), widen(site, target));
        reduce(site, &site.unary(AluOp::Abs, &error), reduction, common(this, &[target]))
    }

    /// The squared error near 0, the absolute error from `beta` on (Girshick 2015).
    ///
    /// Half the squared error over `beta` where the error is below `beta`, else the absolute error
    /// less half of `beta`. Invalid for a negative `beta`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let (x, y) = (Tensor::from([0.5f32, 4.0]), Tensor::zeros([2], ()));
    /// assert_eq!(x.smooth_l1_loss(&y, Default::default()).to_vec::<f32>()?, [1.8125]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn smooth_l1_loss(&self, target: &Tensor, opts: SmoothL1LossOpts) -> Tensor {
        let site = CallSite::here("smooth_l1_loss");
        let this: &Tensor = &site.autocast(self);
        let target: &Tensor = &site.autocast(target);
        finish(smooth_l1_loss(site, this, target, &opts))
    }

    /// The squared error near 0, a line from `delta` on (Huber 1964).
    ///
    /// Half the squared error where the error is at most `delta`, else `delta` times the absolute
    /// error less half of `delta`. Invalid unless `delta` is positive.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let (x, y) = (Tensor::from([0.5f32, 4.0]), Tensor::zeros([2], ()));
    /// assert_eq!(x.huber_loss(&y, Default::default()).to_vec::<f32>()?, [1.8125]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn huber_loss(&self, target: &Tensor, opts: HuberLossOpts) -> Tensor {
        let site = CallSite::here("huber_loss");
        let this: &Tensor = &site.autocast(self);
        let target: &Tensor = &site.autocast(target);
        finish(huber_loss(site, this, target, &opts))
    }

    /// The Kullback-Leibler divergence `target * (log target - self)`, `self` holding logarithms.
    ///
    /// At a target of 0 it is 0. `Reduction::BatchMean` gives the mathematical value, the mean over
    /// the first axis.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[0.5f32, 0.5]]).log();
    /// let y = x.kl_div(&Tensor::from([[0.5f32, 0.5]]), Default::default());
    /// assert_eq!(y.to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn kl_div(&self, target: &Tensor, opts: KlDivOpts) -> Tensor {
        let site = CallSite::here("kl_div");
        let this: &Tensor = &site.autocast(self);
        let target: &Tensor = &site.autocast(target);
        let (input, wide) = (widen(site, this), widen(site, target));
        let loss = if opts.log_target {
            site.mul(site.unary(AluOp::Exp, &wide), site.sub(&wide, input))
        } else {
            site.sub(xlogx(site, &wide), site.mul(&wide, input))
        };
        reduce(site, &loss, opts.reduction, common(this, &[target]))
    }

    /// The negative log likelihood of the target under Poisson distributions.
    ///
    /// `self` holds their rates or, by default, the logarithms of these.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let (log_rate, count) = (Tensor::from([0.0f32]), Tensor::from([3.0f32]));
    /// assert_eq!(log_rate.poisson_nll_loss(&count, Default::default()).to_vec::<f32>()?, [1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn poisson_nll_loss(&self, target: &Tensor, opts: PoissonNllLossOpts) -> Tensor {
        let site = CallSite::here("poisson_nll_loss");
        let this: &Tensor = &site.autocast(self);
        let target: &Tensor = &site.autocast(target);
        let (input, target) = (widen(site, this), widen(site, target));
        let loss = if opts.log_input {
            site.sub(site.unary(AluOp::Exp, &input), site.mul(&target, &input))
        } else {
            let log = site.unary(AluOp::Log, &site.add(&input, opts.eps));
            site.sub(&input, site.mul(&target, log))
        };
        let loss = if opts.full { site.add(loss, stirling(site, &target)) } else { loss };
        reduce(site, &loss, opts.reduction, this.dtype().to_float())
    }

    /// The negative log likelihood of the target under normal distributions.
    ///
    /// `self` holds their means; `var` has the input's shape, or 1 as its last extent, or lacks the
    /// last axis.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let (x, y, var) = (Tensor::from([1.0f32]), Tensor::from([3.0f32]), Tensor::ones([1], ()));
    /// assert_eq!(x.gaussian_nll_loss(&y, &var, Default::default()).to_vec::<f32>()?, [2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn gaussian_nll_loss(&self, target: &Tensor, var: &Tensor, opts: GaussianNllLossOpts) -> Tensor {
        let site = CallSite::here("gaussian_nll_loss");
        let this: &Tensor = &site.autocast(self);
        let target: &Tensor = &site.autocast(target);
        let var: &Tensor = &site.autocast(var);
        finish(gaussian_nll_loss(site, this, target, var, &opts))
    }
}

/// In the type arithmetic is carried out in; integers as `F32`.
pub(crate) fn widen(site: CallSite, x: &Tensor) -> Tensor {
    site.cast(x, x.dtype().to_float().compute())
}

/// The type of a loss of these tensors.
pub(crate) fn common(first: &Tensor, others: &[&Tensor]) -> DType {
    others.iter().fold(first.dtype(), |dtype, other| dtype.promote(other.dtype())).to_float()
}

/// The losses of single elements reduced, and rounded to `dtype`.
pub(crate) fn reduce(site: CallSite, loss: &Tensor, reduction: Reduction, dtype: DType) -> Tensor {
    if loss.ty().is_none() {
        return loss.clone();
    }
    let all: Vec<usize> = (0..loss.rank()).collect();
    let reduced = match reduction {
        Reduction::None => loss.clone(),
        Reduction::Sum => site.sum(loss, &all),
        Reduction::Mean => site.div(site.sum(loss, &all), loss.numel() as f64),
        Reduction::BatchMean => {
            let batch = loss.shape().first().copied().unwrap_or(1);
            site.div(site.sum(loss, &all), batch as f64)
        }
    };
    site.cast(&reduced, dtype)
}

/// `x log x`, 0 at 0.
fn xlogx(site: CallSite, x: &Tensor) -> Tensor {
    let product = site.mul(x, site.unary(AluOp::Log, x));
    site.select(&site.eq(x, 0.0), 0.0, product, x.dtype())
}

/// Stirling's approximation of the logarithm of the factorial, for more than 1.
fn stirling(site: CallSite, n: &Tensor) -> Tensor {
    let main = site.sub(site.mul(n, site.unary(AluOp::Log, n)), n);
    let root = site.mul(site.unary(AluOp::Log, &site.mul(n, 2.0 * PI)), 0.5);
    site.select(&site.lt(1.0, n), site.add(main, root), 0.0, n.dtype())
}

fn smooth_l1_loss(site: CallSite, x: &Tensor, target: &Tensor, opts: &SmoothL1LossOpts) -> Checked<Tensor> {
    let beta = opts.beta;
    site.require(beta >= 0.0, &[x, target], || ("a beta of at least 0".into(), beta.to_string()))?;
    let difference = site.sub(widen(site, x), widen(site, target));
    let error = site.unary(AluOp::Abs, &difference);
    let loss = if beta == 0.0 {
        error
    } else {
        let square = site.div(site.mul(site.square(&error), 0.5), beta);
        let loss = site.select(&site.lt(&error, beta), square, site.sub(&error, 0.5 * beta), error.dtype());
        with_slope(site, loss, &difference, beta, 1.0 / beta)
    };
    Ok(reduce(site, &loss, opts.reduction, common(x, &[target])))
}

fn huber_loss(site: CallSite, x: &Tensor, target: &Tensor, opts: &HuberLossOpts) -> Checked<Tensor> {
    let delta = opts.delta;
    site.require(delta > 0.0, &[x, target], || ("a delta above 0".into(), delta.to_string()))?;
    let difference = site.sub(widen(site, x), widen(site, target));
    let error = site.unary(AluOp::Abs, &difference);
    let square = site.mul(site.square(&error), 0.5);
    let line = site.mul(site.sub(&error, 0.5 * delta), delta);
    // The two agree where the error is delta.
    let loss = site.select(&site.lt(&error, delta), square, line, error.dtype());
    let loss = with_slope(site, loss, &difference, delta, 1.0);
    Ok(reduce(site, &loss, opts.reduction, common(x, &[target])))
}

/// `loss` with the gradient of the error within a bound, times `factor`: finite where the
/// branch that was not taken is not.
fn with_slope(site: CallSite, loss: Tensor, error: &Tensor, bound: f64, factor: f64) -> Tensor {
    with_rule(loss, &[error], move |inputs, _, g| {
        let error = &inputs[0];
        let inside = site.mul(error, factor);
        let above = site.select(&site.lt(bound, error), bound * factor, inside, error.dtype());
        let slope = site.select(&site.lt(error, -bound), -bound * factor, above, error.dtype());
        vec![Some(site.mul(g, slope))]
    })
}

fn gaussian_nll_loss(
    site: CallSite,
    x: &Tensor,
    target: &Tensor,
    var: &Tensor,
    opts: &GaussianNllLossOpts,
) -> Checked<Tensor> {
    site.valid(&[x, target, var])?;
    let (shape, given) = (x.shape(), var.shape());
    let lead = &shape[..shape.rank().saturating_sub(1)];
    let spread = if given == shape {
        var.clone()
    } else if given[..] == *lead {
        site.unsqueeze(var, given.rank())
    } else {
        let broadcasts =
            given.rank() == shape.rank() && given[..lead.len()] == *lead && given.last() == Some(&1);
        site.require(broadcasts, &[x, var], || {
            (format!("variances of shape {shape}, {lead:?}, or {lead:?} and 1"), given.to_string())
        })?;
        var.clone()
    };
    let given = widen(site, &spread);
    // As in PyTorch, gradients know nothing of the bound.
    let var = with_rule(site.max(&given, opts.eps), &[&given], |_, _, g| vec![Some(g.clone())]);
    let square = site.square(&site.sub(widen(site, x), widen(site, target)));
    let both = site.add(site.unary(AluOp::Log, &var), site.div(square, &var));
    let loss = site.mul(both, 0.5);
    let loss = if opts.full { site.add(loss, 0.5 * (2.0 * PI).ln()) } else { loss };
    Ok(reduce(site, &loss, opts.reduction, common(x, &[target, &spread])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::testing::{assert_close, error_text, f32s};

    #[test]
    fn losses_of_elements_by_their_definitions() {
        let (x, t) = (f32s(&[3], &[0.5, 2.0, -1.0]), f32s(&[3], &[1.0, 0.0, 1.0]));
        assert_close(&x.mse_loss(&t, Reduction::None), &[3], &[0.25, 4.0, 4.0]);
        assert_close(&x.mse_loss(&t, Reduction::Mean), &[], &[2.75]);
        assert_close(&x.l1_loss(&t, Reduction::Sum), &[], &[4.5]);
        let none = SmoothL1LossOpts::default().reduction(Reduction::None);
        assert_close(&x.smooth_l1_loss(&t, none.clone().beta(0.5)), &[3], &[0.25, 1.75, 1.75]);
        assert_close(&x.smooth_l1_loss(&t, none.beta(0.0)), &[3], &[0.5, 2.0, 2.0]);
        let huber = HuberLossOpts::default().reduction(Reduction::None).delta(0.5);
        assert_close(&x.huber_loss(&t, huber), &[3], &[0.125, 0.875, 0.875]);
    }

    #[test]
    fn likelihoods_and_divergences() {
        let (x, t) = (f32s(&[2, 1], &[0.5, 2.0]), f32s(&[2, 1], &[0.0, 3.0]));
        let sum = KlDivOpts::default().reduction(Reduction::BatchMean);
        assert_close(&x.kl_div(&t, sum.clone()), &[], &[(3.0 * 3f64.ln() - 6.0) / 2.0]);
        let logs = -0.5 + 3f64.exp() * 1.0;
        assert_close(&x.kl_div(&t, sum.log_target(true)), &[], &[logs / 2.0]);
        let poisson = PoissonNllLossOpts::default().reduction(Reduction::None).full(true);
        let tail = 3.0 * 3f64.ln() - 3.0 + 0.5 * (6.0 * PI).ln();
        let expected = [0.5f64.exp(), 2f64.exp() - 6.0 + tail];
        assert_close(&x.poisson_nll_loss(&t, poisson), &[2, 1], &expected);
        let var = f32s(&[2], &[4.0, 1.0]);
        let gauss = GaussianNllLossOpts::default().reduction(Reduction::None);
        assert_close(&x.gaussian_nll_loss(&t, &var, gauss), &[2, 1], &[0.5 * (4f64.ln() + 0.0625), 0.5]);
    }

    #[test]
    fn errors_are_told() {
        let (x, t) = (f32s(&[2], &[0.0; 2]), f32s(&[3], &[0.0; 3]));
        assert!(error_text(&x.l1_loss(&t, Reduction::Mean)).starts_with("l1_loss"));
        assert!(error_text(&x.huber_loss(&x, HuberLossOpts::default().delta(0.0))).contains("above 0"));
        assert!(
            error_text(&x.gaussian_nll_loss(&x, &t, GaussianNllLossOpts::default())).contains("variances")
        );
        assert!("abc".parse::<Reduction>().is_err());
    }
}
