//! Dropout.

use crate::module;
use crate::nn::module::Layer;
use crate::nn::param::Training;
use crate::tensor::Tensor;

/// In training, zeroes elements with a probability and scales the others up.
#[derive(Debug)]
pub struct Dropout {
    probability: f64,
    training: Training,
}
module!(Dropout { training; skip probability });

impl Dropout {
    /// `probability` of an element to be zeroed, from 0 to 1.
    pub fn new(probability: f64) -> Dropout {
        Dropout { probability, training: Training::default() }
    }
}

impl Layer for Dropout {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        if self.training.is_on() { x.dropout(self.probability) } else { x.clone() }
    }
}
