//! Datasets.

use std::fmt;

use crate::base::{Device, OpError, Result, Span};
use crate::data::batch::{Batch, Sample};
use crate::tensor::Tensor;

/// Whatever went wrong in making a batch; `?` makes one of any error.
pub type LoadError = Box<dyn std::error::Error + Send + Sync>;

/// Samples by number, from which batches are made, on several threads at once.
pub trait Dataset: Send + Sync {
    /// What the samples of a batch become.
    type Batch: Batch + Send;

    /// Number of samples.
    fn len(&self) -> usize;

    /// Whether there are no samples.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The batch of the samples of these numbers. Random tensors drawn in here
    /// follow from the loader's seed, the epoch and the batch alone.
    ///
    /// # Errors
    /// Anything; the loader hands it on.
    fn batch(&self, numbers: &[usize]) -> Result<Self::Batch, LoadError>;
}

/// Samples that a function makes, one by one.
#[derive(Clone)]
pub struct Items<F> {
    len: usize,
    make: F,
}

impl<F> fmt::Debug for Items<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Items({})", self.len)
    }
}

impl<F> Items<F> {
    /// `len` samples; `make` makes the one of a number.
    pub fn new<S: Sample>(len: usize, make: F) -> Items<F>
    where
        F: Fn(usize) -> Result<S, LoadError> + Send + Sync,
    {
        Items { len, make }
    }
}

impl<S: Sample, F: Fn(usize) -> Result<S, LoadError> + Send + Sync> Dataset for Items<F> {
    type Batch = S::Batch;

    fn len(&self) -> usize {
        self.len
    }

    fn batch(&self, numbers: &[usize]) -> Result<S::Batch, LoadError> {
        let samples = numbers.iter().map(|&number| (self.make)(number)).collect::<Result<Vec<S>, _>>()?;
        Ok(S::stack(samples))
    }
}

/// Rows of tensors: sample `i` is position `i` of the first axis of each.
#[derive(Clone, Debug)]
pub struct Rows<B> {
    tensors: B,
    len: usize,
}

impl<B: Batch> Rows<B> {
    /// The rows of these tensors.
    ///
    /// # Errors
    /// The error recorded in a tensor, or tensors of different numbers of
    /// rows.
    #[track_caller]
    pub fn new(tensors: B) -> Result<Rows<B>> {
        let span = Span::caller();
        let mut shapes = Vec::new();
        let mut checked = Ok(());
        let _ = tensors.map(&mut |x| {
            if checked.is_ok() {
                checked = x.check().map(|_| ());
            }
            shapes.push(x.shape());
            x.clone()
        });
        checked?;
        let rows: Vec<Option<usize>> = shapes.iter().map(|shape| shape.first().copied()).collect();
        match rows[..] {
            [Some(len), ..] if rows.iter().all(|rows| *rows == Some(len)) => Ok(Rows { tensors, len }),
            _ => {
                let expected = "tensors with a first axis of one extent";
                let error = OpError::new("Rows::new", span, expected, format!("{} tensors", shapes.len()));
                Err(error.with_shapes(shapes).into())
            }
        }
    }
}

impl<B: Batch + Send + Sync> Dataset for Rows<B> {
    type Batch = B;

    fn len(&self) -> usize {
        self.len
    }

    fn batch(&self, numbers: &[usize]) -> Result<B, LoadError> {
        let numbers = numbers.iter().map(|&number| number as i64).collect::<Vec<_>>();
        let index = Tensor::from_slice(&numbers, [numbers.len()], Device::cpu());
        Ok(self.tensors.map(&mut |x| x.index_select(0, &index.to(x.device()))))
    }
}
