//! How one parameter moves.

use std::fmt;

use crate::tensor::Tensor;

/// How a parameter moves against its gradient. The options of an optimizer
/// are its rule.
///
/// A rule works on each element by itself, so that it means the same on one
/// parameter as on many in one piece of memory.
pub trait Rule: fmt::Debug {
    /// The learning rate.
    fn lr(&self) -> f64;
    /// Replaces the learning rate.
    fn set_lr(&mut self, lr: f64);
    /// What is remembered of each parameter: names, and the number that every
    /// element starts as.
    fn state(&self) -> Vec<(&'static str, f64)>;
    /// Numbers of the step, counted from 1, that may differ from step to
    /// step; [`Rule::moved`] gets them as tensors of rank 0.
    fn numbers(&self, step: u64) -> Vec<f64>;
    /// The parameter after a step.
    fn moved(&self, at: &Moving) -> Moved;
}

/// A parameter about to move.
#[derive(Debug)]
pub struct Moving<'a> {
    /// The parameter.
    pub param: &'a Tensor,
    /// Its gradient, of the same type.
    pub grad: &'a Tensor,
    /// What [`Rule::state`] names.
    pub state: &'a [Tensor],
    /// What [`Rule::numbers`] gives.
    pub numbers: &'a [Tensor],
}

/// A parameter that has moved.
#[derive(Debug)]
pub struct Moved {
    /// The parameter.
    pub param: Tensor,
    /// What [`Rule::state`] names.
    pub state: Vec<Tensor>,
}

impl Moving<'_> {
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
