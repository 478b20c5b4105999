//! Metrics: sums over batches, and what they mean.

use std::collections::BTreeMap;

use crate::tensor::Tensor;
use crate::train::output::Output;

/// Which of two values of a metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The smaller one, as of a loss.
    Least,
    /// The larger one, as of an accuracy.
    Most,
}

impl Goal {
    /// Whether a value is better than another by more than `margin`. NaN never is.
    pub fn is_better(self, value: f64, than: f64, margin: f64) -> bool {
        match self {
            Goal::Least => value < than - margin,
            Goal::Most => value > than + margin,
        }
    }

    /// What every number is better than.
    pub(super) fn worst(self) -> f64 {
        match self {
            Goal::Least => f64::INFINITY,
            Goal::Most => f64::NEG_INFINITY,
        }
    }
}

/// A number that tells how good a model is, of sums over batches: so it is exact for batches of different
/// sizes, and for ranks that each see a part.
///
/// PyTorch: `torcheval`'s and `torchmetrics`'s `Metric`.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln::train::{Goal, Metric, Output};
///
/// /// The mean distance from the target.
/// struct MeanDistance;
/// impl Metric for MeanDistance {
///     fn name(&self) -> &str {
///         "distance"
///     }
///     fn sums(&self, output: &Output) -> Tensor {
///         let distance = (&output.predictions - &output.targets).abs();
///         let count = Tensor::full((), distance.numel() as f32, distance.device());
///         Tensor::stack(&[distance.sum(..), count], 0)
///     }
///     fn value(&self, sums: &[f64]) -> f64 {
///         sums[0] / sums[1]
///     }
///     fn goal(&self) -> Goal {
///         Goal::Least
///     }
/// }
///
/// let (said, right) = (Tensor::from([1.0f32, 4.0]), Tensor::from([2.0f32, 2.0]));
/// let sums = MeanDistance.sums(&Output::from((Tensor::zeros((), ()), said, right)));
/// assert_eq!(MeanDistance.value(&sums.to_dtype(DType::F64).to_vec()?), 1.5);
/// # Ok::<(), kiln::Error>(())
/// ```
pub trait Metric {
    /// The name in logs.
    fn name(&self) -> &str;
    /// What a batch adds to the sums, lazy: numbers in a shape that is the same for all batches.
    fn sums(&self, output: &Output) -> Tensor;
    /// The metric, of the sums over all batches and ranks in row-major order.
    fn value(&self, sums: &[f64]) -> f64;
    /// Which values are better.
    fn goal(&self) -> Goal {
        Goal::Most
    }
}

/// What an evaluation found.
///
/// # Examples
/// ```
/// use kiln::train::Scores;
/// let scores = Scores::default();
/// assert_eq!(scores.get("loss"), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scores {
    /// The mean loss as `loss`, and each metric by name, in order.
    pub values: Vec<(String, f64)>,
    /// The sums that metrics are of, with their shapes.
    pub sums: BTreeMap<String, (Vec<usize>, Vec<f64>)>,
}

impl Scores {
    /// The value of a metric, or of `loss`.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.values.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }
}
