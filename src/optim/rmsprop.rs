//! RMSprop.

use crate::optim::check::{Refused, at_least_0};
use crate::optim::core::OptimizerCore;
use crate::optim::rule::{Rule, Update, UpdateInput, blend, lr_is_a_field, momentum_is};
use crate::optim::steps::StepNumber;
use crate::tensor::options::options;

/// Steps by the gradient over its root mean square (Hinton 2012).
pub type RmsProp = OptimizerCore<RmsPropOpts>;

options! {
    /// Options of [`RmsProp`].
    RmsPropOpts {
        /// Learning rate.
        lr: f64 = 1e-2;
        /// How much of the mean square of earlier gradients is kept.
        alpha: f64 = 0.99;
        /// Added to the denominator.
        eps: f64 = 1e-8;
        /// Adds this times the parameter to its gradient.
        weight_decay: f64 = 0.0;
        /// Share of the last direction that is kept.
        momentum: f64 = 0.0;
        /// Divides by the standard deviation instead (Graves 2013).
        centered: bool = false;
    }
}

impl Rule for RmsPropOpts {
    lr_is_a_field!();
    momentum_is!(momentum);

    fn check(&self) -> Result<(), Refused> {
        at_least_0([("a learning rate", self.lr), ("an eps", self.eps)])?;
        at_least_0([("a weight decay", self.weight_decay), ("a momentum", self.momentum)])?;
        if !(0.0..=1.0).contains(&self.alpha) {
            return Err(Refused::new("an alpha from 0 to 1", self.alpha.to_string()));
        }
        Ok(())
    }

    fn state(&self) -> Vec<(&'static str, f64)> {
        let mut names = vec![("square_avg", 0.0)];
        if self.centered {
            names.push(("grad_avg", 0.0));
        }
        if self.momentum != 0.0 {
            names.push(("momentum_buffer", 0.0));
        }
        names
    }

    fn numbers(&self, _step: &StepNumber) -> Vec<StepNumber> {
        vec![self.lr.into()]
    }

    fn update(&self, at: &UpdateInput) -> Update {
        let grad = at.decayed_grad(self.weight_decay);
        let mut state = vec![blend(&at.state[0], &(&grad * &grad), 1.0 - self.alpha)];
        let mut variance = state[0].clone();
        if self.centered {
            let mean = blend(&at.state[1], &grad, 1.0 - self.alpha);
            variance = variance - &mean * &mean;
            state.push(mean);
        }
        let mut direction = grad / (variance.sqrt() + self.eps);
        if self.momentum != 0.0 {
            direction = &at.state[state.len()] * self.momentum + direction;
            state.push(direction.clone());
        }
        Update { param: at.param - direction * &at.numbers[0], state }
    }
}
