//! Lion.

use crate::optim::check::{self, Refused, at_least_0};
use crate::optim::core::OptimizerCore;
use crate::optim::rule::{Rule, Update, UpdateInput, blend, lr_is_a_field, momentum_is};
use crate::optim::steps::StepNumber;
use crate::tensor::options::options;

/// Steps of one length along the sign of a mean of the gradients (Chen et al.
/// 2023).
pub type Lion = OptimizerCore<LionOpts>;

options! {
    /// Options of [`Lion`].
    LionOpts {
        /// Learning rate.
        lr: f64 = 1e-4;
        /// How much of the mean counts against the gradient for the direction,
        /// and for what is remembered.
        betas: (f64, f64) = (0.9, 0.99);
        /// Share of the parameter, times the learning rate, that each step
        /// takes away.
        weight_decay: f64 = 0.0;
    }
}

impl Rule for LionOpts {
    lr_is_a_field!();
    momentum_is!(betas.0);

    fn check(&self) -> Result<(), Refused> {
        at_least_0([("a learning rate", self.lr), ("a weight decay", self.weight_decay)])?;
        check::betas(self.betas)
    }

    fn state(&self) -> Vec<(&'static str, f64)> {
        vec![("exp_avg", 0.0)]
    }

    fn numbers(&self, _step: &StepNumber) -> Vec<StepNumber> {
        vec![self.lr.into(), (1.0 - self.lr * self.weight_decay).into()]
    }

    fn update(&self, at: &UpdateInput) -> Update {
        let direction = blend(&at.state[0], at.grad, 1.0 - self.betas.0).sign();
        let param = at.param * &at.numbers[1] - direction * &at.numbers[0];
        Update { param, state: vec![blend(&at.state[0], at.grad, 1.0 - self.betas.1)] }
    }
}
