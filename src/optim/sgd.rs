//! Stochastic gradient descent.

use crate::optim::check::{Refused, at_least_0};
use crate::optim::core::OptimizerCore;
use crate::optim::rule::{Rule, Update, UpdateInput, lr_is_a_field, momentum_is};
use crate::optim::steps::StepNumber;
use crate::tensor::options::options;

/// Gradient descent, optionally with momentum (Sutskever et al. 2013).
pub type Sgd = OptimizerCore<SgdOpts>;

options! {
    /// Options of [`Sgd`].
    SgdOpts {
        /// Learning rate.
        lr: f64 = 1e-3;
        /// Share of the last direction that is kept.
        momentum: f64 = 0.0;
        /// Share of the gradient, from the second step on, that does not
        /// enter the direction.
        dampening: f64 = 0.0;
        /// Adds this times the parameter to its gradient.
        weight_decay: f64 = 0.0;
        /// Nesterov's momentum: looks one step ahead along the direction.
        nesterov: bool = false;
    }
}

impl Rule for SgdOpts {
    lr_is_a_field!();
    momentum_is!(momentum);

    fn check(&self) -> Result<(), Refused> {
        let decay = ("a weight decay", self.weight_decay);
        at_least_0([("a learning rate", self.lr), ("a momentum", self.momentum), decay])?;
        if !self.dampening.is_finite() {
            return Err(Refused::new("a finite dampening", self.dampening.to_string()));
        }
        if self.nesterov && (self.momentum == 0.0 || self.dampening != 0.0) {
            let found = format!("momentum {} and dampening {}", self.momentum, self.dampening);
            return Err(Refused::new("a momentum and no dampening with nesterov", found));
        }
        Ok(())
    }

    fn state(&self) -> Vec<(&'static str, f64)> {
        if self.momentum == 0.0 { Vec::new() } else { vec![("momentum_buffer", 0.0)] }
    }

    fn numbers(&self, step: &StepNumber) -> Vec<StepNumber> {
        // All of the first gradient.
        let undamped = match self.dampening {
            0.0 => StepNumber::from(1.0),
            dampening => (step.clone() + -1.0).min(1.0) * -dampening + 1.0,
        };
        vec![self.lr.into(), undamped]
    }

    fn update(&self, at: &UpdateInput) -> Update {
        let (lr, undamped) = (&at.numbers[0], &at.numbers[1]);
        let grad = at.decayed_grad(self.weight_decay);
        let [direction] = at.state else {
            return Update { param: at.param - lr * grad, state: Vec::new() };
        };
        let direction = direction * self.momentum + undamped * &grad;
        let step = if self.nesterov { grad + &direction * self.momentum } else { direction.clone() };
        Update { param: at.param - lr * step, state: vec![direction] }
    }
}
