//! How parameters start.

use crate::base::Shape;
use crate::tensor::{Place, Tensor};

/// Uniform within `1 / sqrt(fan_in)`: what PyTorch's linear layers and
/// convolutions start as (its `kaiming_uniform_` with `a = sqrt(5)`).
#[track_caller]
pub fn fan_in_uniform(shape: impl Into<Shape>, fan_in: usize, place: impl Into<Place>) -> Tensor {
    let bound = if fan_in == 0 { 0.0 } else { 1.0 / (fan_in as f64).sqrt() };
    Tensor::uniform(-bound, bound, shape, place)
}

/// Uniform within `sqrt(6 / (fan_in + fan_out))` (Glorot and Bengio 2010), for
/// a matrix `[fan_out, fan_in]`.
#[track_caller]
pub fn xavier_uniform(fan_out: usize, fan_in: usize, place: impl Into<Place>) -> Tensor {
    let bound = (6.0 / (fan_in + fan_out).max(1) as f64).sqrt();
    Tensor::uniform(-bound, bound, [fan_out, fan_in], place)
}
