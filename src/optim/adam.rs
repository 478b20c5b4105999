//! Adam and AdamW.

use crate::optim::check::{self, Refused, at_least_0};
use crate::optim::core::OptimizerCore;
use crate::optim::rule::{Rule, Update, UpdateInput, blend, lr_is_a_field, momentum_is};
use crate::optim::steps::StepNumber;
use crate::tensor::Tensor;
use crate::tensor::options::options;

/// Steps by the ratio of the gradient's mean and root mean square (Kingma and
/// Ba 2015).
pub type Adam = OptimizerCore<AdamOpts>;

/// [`Adam`] whose weight decay is apart from the gradient (Loshchilov and
/// Hutter 2019).
pub type AdamW = OptimizerCore<AdamWOpts>;

options! {
    /// Options of [`Adam`].
    AdamOpts {
        /// Learning rate.
        lr: f64 = 1e-3;
        /// How much of the mean, and of the mean square, of earlier gradients
        /// is kept at each step.
        betas: (f64, f64) = (0.9, 0.999);
        /// Added to the denominator.
        eps: f64 = 1e-8;
        /// Adds this times the parameter to its gradient.
        weight_decay: f64 = 0.0;
        /// Uses the largest mean square so far (Reddi et al. 2018).
        amsgrad: bool = false;
    }
}

options! {
    /// Options of [`AdamW`].
    AdamWOpts {
        /// Learning rate.
        lr: f64 = 1e-3;
        /// How much of the mean, and of the mean square, of earlier gradients
        /// is kept at each step.
        betas: (f64, f64) = (0.9, 0.999);
        /// Added to the denominator.
        eps: f64 = 1e-8;
        /// Share of the parameter, times the learning rate, that each step
        /// takes away.
        weight_decay: f64 = 1e-2;
        /// Uses the largest mean square so far (Reddi et al. 2018).
        amsgrad: bool = false;
    }
}

impl Rule for AdamOpts {
    lr_is_a_field!();
    momentum_is!(betas.0);

    fn check(&self) -> Result<(), Refused> {
        check(self.lr, self.betas, self.eps, self.weight_decay)
    }

    fn state(&self) -> Vec<(&'static str, f64)> {
        state(self.amsgrad)
    }

    fn numbers(&self, step: &StepNumber) -> Vec<StepNumber> {
        let (size, root) = corrections(self.lr, self.betas, step);
        vec![size, root]
    }

    fn update(&self, at: &UpdateInput) -> Update {
        let grad = at.decayed_grad(self.weight_decay);
        let moments = moments(&grad, at.state, self.betas);
        let param = at.param - direction(&moments, &at.numbers[1], self.eps) * &at.numbers[0];
        Update { param, state: moments }
    }
}

impl Rule for AdamWOpts {
    lr_is_a_field!();
    momentum_is!(betas.0);

    fn check(&self) -> Result<(), Refused> {
        check(self.lr, self.betas, self.eps, self.weight_decay)
    }

    fn state(&self) -> Vec<(&'static str, f64)> {
        state(self.amsgrad)
    }

    fn numbers(&self, step: &StepNumber) -> Vec<StepNumber> {
        let (size, root) = corrections(self.lr, self.betas, step);
        vec![size, root, (1.0 - self.lr * self.weight_decay).into()]
    }

    fn update(&self, at: &UpdateInput) -> Update {
        let moments = moments(at.grad, at.state, self.betas);
        let kept = at.param * &at.numbers[2];
        let param = kept - direction(&moments, &at.numbers[1], self.eps) * &at.numbers[0];
        Update { param, state: moments }
    }
}

fn check(lr: f64, betas: (f64, f64), eps: f64, weight_decay: f64) -> Result<(), Refused> {
    at_least_0([("a learning rate", lr), ("an eps", eps), ("a weight decay", weight_decay)])?;
    check::betas(betas)
}

fn state(amsgrad: bool) -> Vec<(&'static str, f64)> {
    let mut names = vec![("exp_avg", 0.0), ("exp_avg_sq", 0.0)];
    if amsgrad {
        names.push(("max_exp_avg_sq", 0.0));
    }
    names
}

/// The length of a step, and the root by which the mean square is too small:
/// the means start at 0.
fn corrections(lr: f64, betas: (f64, f64), step: &StepNumber) -> (StepNumber, StepNumber) {
    // 1 - beta^step, where 32 bits would lose the difference.
    let missing = |beta: f64| (step.clone() * beta.ln()).exp_m1() * -1.0;
    (lr / missing(betas.0), missing(betas.1).sqrt())
}

/// The mean, the mean square, and its largest value if that is kept.
fn moments(grad: &Tensor, state: &[Tensor], betas: (f64, f64)) -> Vec<Tensor> {
    let mean = blend(&state[0], grad, 1.0 - betas.0);
    let square = blend(&state[1], &(grad * grad), 1.0 - betas.1);
    let most = state.get(2).map(|most| most.maximum(&square));
    [Some(mean), Some(square), most].into_iter().flatten().collect()
}

/// The mean over the root of the mean square, or of the largest so far.
fn direction(moments: &[Tensor], root: &Tensor, eps: f64) -> Tensor {
    let square = moments.get(2).unwrap_or(&moments[1]);
    &moments[0] / (square.sqrt() / root + eps)
}
