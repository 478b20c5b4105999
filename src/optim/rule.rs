//! Update rules.

use std::fmt;

use crate::base::{OpError, Result};
use crate::optim::check::Refused;
use crate::optim::steps::StepNumber;
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;

/// How a parameter is updated by its gradient. The options of an optimizer
/// are its rule.
///
/// A rule works on each element by itself, so that it means the same on one
/// parameter as on many in one piece of memory.
pub trait Rule: fmt::Debug {
    /// The learning rate.
    fn lr(&self) -> f64;
    /// Replaces the learning rate.
    fn set_lr(&mut self, lr: f64);
    /// The share of the last direction, or of the mean of earlier gradients, that a step keeps;
    /// `None` for a rule without such.
    fn momentum(&self) -> Option<f64> {
        None
    }
    /// Replaces what [`Rule::momentum`] says, if there is such.
    fn set_momentum(&mut self, _momentum: f64) {}
    /// Whether the options make sense. Where they do not,
    /// [`Optimizer::step`](crate::optim::Optimizer::step) changes nothing and says so, with the line
    /// that gave them.
    ///
    /// # Errors
    /// The first option that makes none.
    fn check(&self) -> Result<(), Refused> {
        Ok(())
    }
    /// The state of each parameter: names, and the initial value of every
    /// element.
    fn state(&self) -> Vec<(&'static str, f64)>;
    /// Numbers of the step, counted from 1, that may differ from step to
    /// step; [`Rule::update`] gets them as tensors of rank 0.
    fn numbers(&self, step: &StepNumber) -> Vec<StepNumber>;
    /// The parameter after a step.
    fn update(&self, at: &UpdateInput) -> Update;
}

/// The input of an update.
#[derive(Debug)]
pub struct UpdateInput<'a> {
    /// The parameter.
    pub param: &'a Tensor,
    /// Its gradient, of the same type.
    pub grad: &'a Tensor,
    /// What [`Rule::state`] names.
    pub state: &'a [Tensor],
    /// What [`Rule::numbers`] gives.
    pub numbers: &'a [Tensor],
}

/// An updated parameter.
#[derive(Debug)]
pub struct Update {
    /// The parameter.
    pub param: Tensor,
    /// What [`Rule::state`] names.
    pub state: Vec<Tensor>,
}

impl Update {
    /// Fails unless a rule made what is of the parameter's type.
    pub(super) fn check(&self, site: CallSite, param: &Tensor) -> Result<()> {
        let expected = param.node()?.ty();
        for made in std::iter::once(&self.param).chain(&self.state) {
            let found = made.node()?.ty();
            if expected != found {
                let shapes = [expected.shape.clone(), found.shape.clone()];
                let expected = format!("a rule that makes {expected}");
                let error = OpError::new(site.name, site.span, expected, found.to_string());
                return Err(error.with_shapes(shapes).into());
            }
        }
        Ok(())
    }

    /// What was there before, where `skip` holds.
    pub(super) fn unless(self, site: CallSite, skip: &Tensor, param: &Tensor, state: &[Tensor]) -> Update {
        let select = |old: &Tensor, new: &Tensor| site.select(skip, old, new, param.dtype());
        let state = state.iter().zip(&self.state).map(|(old, new)| select(old, new)).collect();
        Update { param: select(param, &self.param), state }
    }
}

impl UpdateInput<'_> {
    /// The gradient of the loss plus `weight_decay / 2` times the squared
    /// parameters.
    pub(crate) fn decayed_grad(&self, weight_decay: f64) -> Tensor {
        if weight_decay == 0.0 { self.grad.clone() } else { self.grad + self.param * weight_decay }
    }
}

/// `share` of the way from `old` to `new`.
pub(crate) fn blend(old: &Tensor, new: &Tensor, share: f64) -> Tensor {
    old * (1.0 - share) + new * share
}

/// The learning rate of a rule is its field.
macro_rules! lr_is_a_field {
    () => {
        fn lr(&self) -> f64 {
            self.lr
        }
        fn set_lr(&mut self, lr: f64) {
            self.lr = lr;
        }
    };
}
pub(crate) use lr_is_a_field;

/// The momentum of a rule is a field, or part of one.
macro_rules! momentum_is {
    ($($field:tt)+) => {
        fn momentum(&self) -> Option<f64> {
            Some(self.$($field)+)
        }
        fn set_momentum(&mut self, momentum: f64) {
            self.$($field)+ = momentum;
        }
    };
}
pub(crate) use momentum_is;
