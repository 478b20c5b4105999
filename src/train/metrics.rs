//! The metrics that most trainings use.

use crate::base::DType;
use crate::tensor::Tensor;
use crate::train::metric::{Goal, Metric};
use crate::train::output::Output;

/// The share of predictions that are right. Predictions are scores of classes along the last axis, `[.., n]`,
/// and targets class numbers `[..]`.
///
/// PyTorch: `MulticlassAccuracy`.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln::train::{Accuracy, Metric, Output};
/// let scores = Tensor::from([[2.0f32, 1.0], [0.0, 3.0], [1.0, 0.5]]);
/// let output = Output::from((Tensor::zeros((), ()), scores, Tensor::from([0i64, 1, 1])));
/// let sums = Accuracy.sums(&output).to_dtype(DType::F64).to_vec::<f64>()?;
/// assert_eq!((sums.clone(), Accuracy.value(&sums)), (vec![2.0, 3.0], 2.0 / 3.0));
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Accuracy;

impl Metric for Accuracy {
    fn name(&self) -> &str {
        "accuracy"
    }
    fn sums(&self, output: &Output) -> Tensor {
        let right = output.predictions.argmax(-1).eq(&output.targets).to_dtype(DType::F32);
        Tensor::stack(&[right.sum(..), right.full_like(1.0).sum(..)], 0)
    }
    fn value(&self, sums: &[f64]) -> f64 {
        sums[0] / sums[1]
    }
}

/// How often class `i` was taken for class `j`: the sums, `[n, n]`, rows by target. Its value is the share on
/// the diagonal, which is the accuracy. Predictions and targets are as for [`Accuracy`].
///
/// PyTorch: `MulticlassConfusionMatrix`.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln::train::{ConfusionMatrix, Metric, Output};
/// let scores = Tensor::from([[2.0f32, 1.0], [0.0, 3.0], [1.0, 0.5]]);
/// let output = Output::from((Tensor::zeros((), ()), scores, Tensor::from([0i64, 1, 1])));
/// let matrix = ConfusionMatrix::new(2).sums(&output);
/// assert_eq!(matrix.to_vec::<f32>()?, [1.0, 0.0, 1.0, 1.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ConfusionMatrix {
    classes: usize,
}

impl ConfusionMatrix {
    /// Of so many classes.
    pub fn new(classes: usize) -> ConfusionMatrix {
        ConfusionMatrix { classes }
    }
}

impl Metric for ConfusionMatrix {
    fn name(&self) -> &str {
        "confusion"
    }
    fn sums(&self, output: &Output) -> Tensor {
        let one_hot = |classes: Tensor| classes.reshape([-1]).one_hot(self.classes).to_dtype(DType::F32);
        let (right, said) = (one_hot(output.targets.clone()), one_hot(output.predictions.argmax(-1)));
        right.t().matmul(&said)
    }
    fn value(&self, sums: &[f64]) -> f64 {
        let right: f64 = (0..self.classes).map(|class| sums[class * self.classes + class]).sum();
        right / sums.iter().sum::<f64>()
    }
}

/// The mean over classes of the harmonic mean of precision and recall (`macro`). A class that there is not,
/// neither predicted nor as a target, has no part in it. Predictions and targets are as for [`Accuracy`].
///
/// PyTorch: `MulticlassF1Score(average="macro")`.
///
/// # Examples
/// ```
/// use kiln::train::{F1, Metric};
/// // Class 0: precision 1/2, recall 1. Class 1: precision 1, recall 1/2.
/// assert_eq!(F1::new(2).value(&[1.0, 0.0, 1.0, 1.0]), 2.0 / 3.0);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct F1(ConfusionMatrix);

impl F1 {
    /// Of so many classes.
    pub fn new(classes: usize) -> F1 {
        F1(ConfusionMatrix::new(classes))
    }
}

impl Metric for F1 {
    fn name(&self) -> &str {
        "f1"
    }
    fn sums(&self, output: &Output) -> Tensor {
        self.0.sums(output)
    }
    fn value(&self, sums: &[f64]) -> f64 {
        let classes = self.0.classes;
        let of = |class: usize| {
            let both: f64 =
                (0..classes).map(|other| sums[class * classes + other] + sums[other * classes + class]).sum();
            (both > 0.0).then(|| 2.0 * sums[class * classes + class] / both)
        };
        let scores: Vec<f64> = (0..classes).filter_map(of).collect();
        scores.iter().sum::<f64>() / scores.len() as f64
    }
}

/// `exp` of the mean loss for each target: among how many tokens a language model is in doubt. The loss must
/// be the mean cross-entropy over the targets.
///
/// PyTorch: `Perplexity`.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln::train::{Metric, Output, Perplexity};
/// let (scores, right) = (Tensor::zeros([6, 4], ()), Tensor::zeros([6], DType::I64));
/// let loss = scores.cross_entropy(&right, Default::default());
/// let sums = Perplexity.sums(&Output::from((loss, scores, right))).to_dtype(DType::F64).to_vec::<f64>()?;
/// assert!((Perplexity.value(&sums) - 4.0).abs() < 1e-5);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Perplexity;

impl Metric for Perplexity {
    fn name(&self) -> &str {
        "perplexity"
    }
    fn sums(&self, output: &Output) -> Tensor {
        let count = output.targets.to_dtype(DType::F32).full_like(1.0).sum(..);
        Tensor::stack(&[output.loss.to_dtype(DType::F32) * &count, count], 0)
    }
    fn value(&self, sums: &[f64]) -> f64 {
        (sums[0] / sums[1]).exp()
    }
    fn goal(&self) -> Goal {
        Goal::Least
    }
}
