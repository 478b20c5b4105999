//! Adagrad.

use crate::optim::check::{Refused, at_least_0};
use crate::optim::core::OptimizerCore;
use crate::optim::rule::{Rule, Update, UpdateInput, lr_is_a_field};
use crate::optim::steps::StepNumber;
use crate::tensor::options::options;

/// Steps by the gradient over the root of the sum of all its squares (Duchi et
/// al. 2011).
pub type Adagrad = OptimizerCore<AdagradOpts>;

options! {
    /// Options of [`Adagrad`].
    AdagradOpts {
        /// Learning rate.
        lr: f64 = 1e-2;
        /// After `n` steps the learning rate is divided by `1 + n lr_decay`.
        lr_decay: f64 = 0.0;
        /// Adds this times the parameter to its gradient.
        weight_decay: f64 = 0.0;
        /// What the sums of squares start as.
        initial_accumulator: f64 = 0.0;
        /// Added to the denominator.
        eps: f64 = 1e-10;
    }
}

impl Rule for AdagradOpts {
    lr_is_a_field!();

    fn check(&self) -> Result<(), Refused> {
        let decays = [("a decay of the learning rate", self.lr_decay), ("a weight decay", self.weight_decay)];
        at_least_0([("a learning rate", self.lr), ("an eps", self.eps)])?;
        at_least_0(decays)?;
        at_least_0([("a start of the sums of squares", self.initial_accumulator)])
    }

    fn state(&self) -> Vec<(&'static str, f64)> {
        vec![("sum", self.initial_accumulator)]
    }

    fn numbers(&self, step: &StepNumber) -> Vec<StepNumber> {
        vec![self.lr / ((step.clone() + -1.0) * self.lr_decay + 1.0)]
    }

    fn update(&self, at: &UpdateInput) -> Update {
        let grad = at.decayed_grad(self.weight_decay);
        let sum = &at.state[0] + &grad * &grad;
        let param = at.param - &at.numbers[0] * grad / (sum.sqrt() + self.eps);
        Update { param, state: vec![sum] }
    }
}
