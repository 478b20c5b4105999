//! Samplers: which samples an epoch goes through, and in which order.

use std::fmt;

use crate::base::{OpError, Result, Span};
use crate::data::dataset::LoadError;
use crate::tensor::random::Generator;

/// Which samples of a dataset an epoch goes through, in which order, for
/// [`LoaderOpts::sampler`](crate::data::LoaderOpts::sampler).
///
/// PyTorch: `torch.utils.data.Sampler`, with the epoch as an argument instead of `set_epoch`.
///
/// # Examples
/// ```
/// use kiln::data::{DataLoader, Items, LoadError, LoaderOpts, Sampler};
///
/// /// Every second sample.
/// #[derive(Debug)]
/// struct Even;
/// impl Sampler for Even {
///     fn count(&self, samples: usize) -> usize {
///         samples.div_ceil(2)
///     }
///     fn numbers(&self, samples: usize, _epoch: u64) -> Result<Vec<usize>, LoadError> {
///         Ok((0..samples).step_by(2).collect())
///     }
/// }
///
/// let squares = Items::new(5, |i| Ok((i * i) as f32));
/// let loader = DataLoader::new(squares, LoaderOpts::default().batch_size(3).sampler(Even))?;
/// let batch = loader.epoch(0).next().expect("a batch")?;
/// assert_eq!(batch.to_vec::<f32>()?, [0.0, 4.0, 16.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
pub trait Sampler: fmt::Debug + Send + Sync {
    /// How many samples an epoch of a dataset of `samples` has.
    fn count(&self, samples: usize) -> usize;

    /// The samples of an epoch, in order: [`Sampler::count`] numbers below `samples`. The same epoch gives
    /// the same numbers.
    ///
    /// # Errors
    /// Anything; each of the epoch's batches is then this error.
    fn numbers(&self, samples: usize, epoch: u64) -> Result<Vec<usize>, LoadError>;
}

/// The numbers of an epoch, as many as said and below the dataset's length.
pub fn checked_numbers(sampler: &dyn Sampler, samples: usize, epoch: u64) -> Result<Vec<usize>, LoadError> {
    let numbers = sampler.numbers(samples, epoch)?;
    let count = sampler.count(samples);
    if numbers.len() != count {
        return Err(format!("{sampler:?} gave {} samples where it says {count}", numbers.len()).into());
    }
    match numbers.iter().find(|&&number| number >= samples) {
        Some(number) => Err(format!("{sampler:?} gave sample {number} of a dataset of {samples}").into()),
        None => Ok(numbers),
    }
}

/// What an epoch draws from.
fn drawn(seed: u64, epoch: u64) -> Generator {
    Generator::resume(seed, epoch).split()
}

/// A number in `[0, 1)`.
fn unit(generator: &mut Generator) -> f64 {
    (generator.split().seed() >> 11) as f64 / (1u64 << 53) as f64
}

/// Some samples of a dataset, in another order in every epoch: a fold, or what is left of classes.
///
/// PyTorch: `SubsetRandomSampler`.
///
/// # Examples
/// ```
/// use kiln::data::{Sampler, SubsetSampler};
/// let held_out = SubsetSampler::new([2, 3, 5, 7]).seed(1);
/// let mut numbers = held_out.numbers(10, 0).expect("numbers below 10");
/// numbers.sort();
/// assert_eq!(numbers, [2, 3, 5, 7]);
/// assert_eq!(SubsetSampler::new([4, 1]).shuffle(false).numbers(10, 0).expect("numbers"), [4, 1]);
/// ```
#[derive(Clone)]
pub struct SubsetSampler {
    numbers: Vec<usize>,
    shuffle: bool,
    seed: u64,
}

impl SubsetSampler {
    /// These samples.
    pub fn new(numbers: impl Into<Vec<usize>>) -> SubsetSampler {
        SubsetSampler { numbers: numbers.into(), shuffle: true, seed: 0 }
    }
    /// Whether each epoch has another order (it has), or all have the one given.
    #[must_use]
    pub fn shuffle(mut self, shuffle: bool) -> SubsetSampler {
        self.shuffle = shuffle;
        self
    }
    /// What the orders follow from, with the epoch.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> SubsetSampler {
        self.seed = seed;
        self
    }
}

impl fmt::Debug for SubsetSampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SubsetSampler({} samples)", self.numbers.len())
    }
}

impl Sampler for SubsetSampler {
    fn count(&self, _samples: usize) -> usize {
        self.numbers.len()
    }
    fn numbers(&self, _samples: usize, epoch: u64) -> Result<Vec<usize>, LoadError> {
        let mut numbers = self.numbers.clone();
        if self.shuffle {
            let mut generator = drawn(self.seed, epoch);
            for last in (1..numbers.len()).rev() {
                let place = (unit(&mut generator) * (last as f64 + 1.0)) as usize;
                numbers.swap(last, place.min(last));
            }
        }
        Ok(numbers)
    }
}

/// Samples drawn by weight: rare classes as often as common ones.
///
/// PyTorch: `WeightedRandomSampler`. Without replacement the draws are those of the largest
/// `ln(u) / weight` of uniform `u` (Efraimidis and Spirakis 2006).
///
/// # Examples
/// ```
/// use kiln::data::{Sampler, WeightedSampler};
/// let sampler = WeightedSampler::new([0.0, 1.0, 3.0], 1000)?;
/// let numbers = sampler.numbers(3, 0).expect("a weight for each sample");
/// let count = |number| numbers.iter().filter(|&&drawn| drawn == number).count();
/// assert_eq!(count(0), 0);
/// assert!((650..850).contains(&count(2)));
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone)]
pub struct WeightedSampler {
    weights: Vec<f64>,
    draws: usize,
    replacement: bool,
    seed: u64,
    span: Span,
}

impl WeightedSampler {
    /// So many draws an epoch, with replacement, of samples of these weights, which need not add up to 1.
    ///
    /// # Errors
    /// Weights that are negative or not finite, or none above 0.
    #[track_caller]
    pub fn new(weights: impl Into<Vec<f64>>, draws: usize) -> Result<WeightedSampler> {
        let (weights, span) = (weights.into(), Span::caller());
        let refused = |found: String| {
            let expected = "finite weights of at least 0, and one above";
            Err(OpError::new("WeightedSampler::new", span, expected, found).into())
        };
        if let Some(at) = weights.iter().position(|weight| !weight.is_finite() || *weight < 0.0) {
            return refused(format!("{} at {at}", weights[at]));
        }
        if draws > 0 && !weights.iter().any(|weight| *weight > 0.0) {
            return refused(format!("{} of 0", weights.len()));
        }
        Ok(WeightedSampler { weights, draws, replacement: true, seed: 0, span })
    }

    /// Each sample once at most.
    ///
    /// # Errors
    /// Fewer samples of weight than draws.
    pub fn without_replacement(mut self) -> Result<WeightedSampler> {
        let most = self.weights.iter().filter(|weight| **weight > 0.0).count();
        if self.draws > most {
            let expected = format!("at most {most} draws, one of each sample of weight");
            let found = self.draws.to_string();
            return Err(OpError::new("without_replacement", self.span, expected, found).into());
        }
        self.replacement = false;
        Ok(self)
    }

    /// What the draws follow from, with the epoch.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> WeightedSampler {
        self.seed = seed;
        self
    }

    fn with_replacement(&self, generator: &mut Generator) -> Vec<usize> {
        let mut sum = 0.0;
        let ends: Vec<f64> = self
            .weights
            .iter()
            .map(|weight| {
                sum += weight;
                sum
            })
            .collect();
        // Rounding may leave the largest draw at the end of the last.
        let last = self.weights.iter().rposition(|weight| *weight > 0.0).unwrap_or(0);
        let mut draw = || {
            let at = unit(generator) * sum;
            ends.partition_point(|end| *end <= at).min(last)
        };
        (0..self.draws).map(|_| draw()).collect()
    }

    fn each_once(&self, generator: &mut Generator) -> Vec<usize> {
        let mut keyed: Vec<(f64, usize)> = Vec::new();
        for (number, weight) in self.weights.iter().enumerate() {
            let key = (1.0 - unit(generator)).ln() / weight;
            if *weight > 0.0 {
                keyed.push((key, number));
            }
        }
        keyed.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        keyed.into_iter().take(self.draws).map(|(_, number)| number).collect()
    }
}

impl fmt::Debug for WeightedSampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WeightedSampler({} draws of {} samples)", self.draws, self.weights.len())
    }
}

impl Sampler for WeightedSampler {
    fn count(&self, _samples: usize) -> usize {
        self.draws
    }
    fn numbers(&self, samples: usize, epoch: u64) -> Result<Vec<usize>, LoadError> {
        if self.weights.len() != samples {
            return Err(format!("{} weights for a dataset of {samples}", self.weights.len()).into());
        }
        let mut generator = drawn(self.seed, epoch);
        Ok(match self.replacement {
            true => self.with_replacement(&mut generator),
            false => self.each_once(&mut generator),
        })
    }
}
