//! Initialization of parameters.

use crate::base::shape::volume;
use crate::base::{Result, Shape, Span};
use crate::nn::param::Param;
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
    let bound = xavier_bound(fan_out, fan_in);
    Tensor::uniform(-bound, bound, [fan_out, fan_in], place)
}

/// The bound of [`xavier_uniform`].
pub(crate) fn xavier_bound(fan_out: usize, fan_in: usize) -> f64 {
    (6.0 / fan_in.saturating_add(fan_out).max(1) as f64).sqrt()
}

/// Starts parameters whose shape was not known before: `weight` of `shape` and
/// its bias, uniform by the extents that one output sums, where the parameters
/// are.
///
/// # Errors
/// The error recorded in them.
pub(crate) fn start_late(weight: &Param, bias: Option<&Param>, shape: &[usize], span: Span) -> Result<()> {
    let fan_in = volume(&shape[1..]);
    let place = Place { device: Some(weight.device()), dtype: Some(weight.dtype()) };
    weight.replace(&fan_in_uniform(shape, fan_in, place), span)?;
    bias.map_or(Ok(()), |bias| bias.replace(&fan_in_uniform(bias.shape(), fan_in, place), span))
}
