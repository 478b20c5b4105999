//! What a model says about a batch.

use crate::base::{OpError, Span};
use crate::tensor::Tensor;

/// What a training's forward pass gives for a batch: the loss, and what metrics compare. Lazy, as tensors are.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln::train::Output;
/// let (logits, labels) = (Tensor::from([[2.0f32, 0.0]]), Tensor::from([0i64]));
/// let loss = logits.cross_entropy(&labels, Default::default());
/// // The loss alone, or with predictions and targets for metrics.
/// let alone = Output::from(loss.clone());
/// let whole = Output::from((loss, logits, labels));
/// assert_eq!(whole.predictions.shape()[..], [1, 2]);
/// assert!(alone.predictions.check().is_err());
/// ```
#[derive(Clone, Debug)]
pub struct Output {
    /// A number: the mean over the batch.
    pub loss: Tensor,
    /// What the model says; invalid where only the loss was given.
    pub predictions: Tensor,
    /// What is right; invalid where only the loss was given.
    pub targets: Tensor,
}

impl From<Tensor> for Output {
    #[track_caller]
    fn from(loss: Tensor) -> Output {
        let expected = "a loss with predictions and targets, for a metric";
        let missing = Tensor::invalid(OpError::new("Output", Span::caller(), expected, "the loss alone"));
        Output { loss, predictions: missing.clone(), targets: missing }
    }
}

impl From<(Tensor, Tensor, Tensor)> for Output {
    fn from((loss, predictions, targets): (Tensor, Tensor, Tensor)) -> Output {
        Output { loss, predictions, targets }
    }
}
