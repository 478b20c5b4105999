//! The sampler: which samples make which batch, as a function of seed and epoch.

use std::ops::Range;

use crate::data::dataset::LoadError;
use crate::data::sampler::{Sampler, checked_numbers};
use crate::tensor::random::Generator;

/// Samples that are shuffled as a list at most: 512 MiB of numbers.
const LISTED: usize = 1 << 26;

/// The samples of an epoch's batches.
#[derive(Clone, Debug)]
pub struct EpochOrder {
    numbers: SampleOrder,
    /// Number of places.
    len: usize,
    batch_size: usize,
    /// Number of batches.
    pub batches: usize,
    /// What all that is random in the epoch follows from.
    seed: u64,
}

impl EpochOrder {
    /// The same of the samples that a sampler says.
    pub fn sampled(
        samples: usize,
        batch_size: usize,
        batches: usize,
        seed: u64,
        epoch: u64,
        sampler: &dyn Sampler,
    ) -> EpochOrder {
        let numbers = match checked_numbers(sampler, samples, epoch) {
            Ok(numbers) => SampleOrder::Listed(numbers),
            Err(error) => SampleOrder::Failed(error.to_string()),
        };
        let len = sampler.count(samples);
        EpochOrder { numbers, ..EpochOrder::new(len, batch_size, batches, seed, epoch, false) }
    }

    /// `batches` batches of `batch_size` of the samples `0..len`, the last
    /// perhaps of less.
    pub fn new(
        len: usize,
        batch_size: usize,
        batches: usize,
        seed: u64,
        epoch: u64,
        shuffled: bool,
    ) -> EpochOrder {
        let seed = Generator::resume(seed, epoch).split().seed();
        let numbers = match shuffled {
            false => SampleOrder::Counted,
            true if len <= LISTED => SampleOrder::Listed(shuffled_list(len, Generator::new(seed).split())),
            true => SampleOrder::Computed(Permutation::new(len, Generator::new(seed).split())),
        };
        EpochOrder { numbers, len, batch_size, batches, seed }
    }

    /// The samples of a batch.
    ///
    /// # Errors
    /// More of them than memory holds numbers; what a sampler said.
    pub fn samples(&self, batch: usize) -> Result<Vec<usize>, LoadError> {
        let start = batch.saturating_mul(self.batch_size).min(self.len);
        let places = start..start.saturating_add(self.batch_size).min(self.len);
        let mut samples = Vec::new();
        samples.try_reserve_exact(places.len())?;
        self.numbers.put(places, &mut samples)?;
        Ok(samples)
    }

    /// What a batch draws its random numbers from.
    pub fn generator(&self, batch: usize) -> Generator {
        // Draw 0 has ordered the samples.
        Generator::resume(self.seed, 1 + batch as u64).split()
    }
}

/// Which sample is at which place.
#[derive(Clone, Debug)]
enum SampleOrder {
    /// Each at its own.
    Counted,
    Listed(Vec<usize>),
    /// A sampler gave none.
    Failed(String),
    /// For more samples than a list should hold.
    Computed(Permutation),
}

impl SampleOrder {
    /// Appends the samples at some places.
    fn put(&self, places: Range<usize>, samples: &mut Vec<usize>) -> Result<(), LoadError> {
        match self {
            SampleOrder::Counted => samples.extend(places),
            SampleOrder::Listed(numbers) => samples.extend_from_slice(&numbers[places]),
            SampleOrder::Computed(permutation) => samples.extend(places.map(|place| permutation.at(place))),
            SampleOrder::Failed(message) => return Err(message.clone().into()),
        }
        Ok(())
    }
}

/// A random order of `0..len` without a list: a Feistel network of random functions on half the
/// bits, applied until the result is a number that there is (Black and Rogaway 2002).
#[derive(Clone, Debug)]
struct Permutation {
    len: usize,
    /// Bits of each half.
    half: u32,
    keys: [u64; 6],
}

impl Permutation {
    fn new(len: usize, mut generator: Generator) -> Permutation {
        let bits = usize::BITS - len.saturating_sub(1).leading_zeros();
        let keys = std::array::from_fn(|_| generator.split().seed());
        Permutation { len, half: bits.div_ceil(2).max(1), keys }
    }

    /// The number at a place, which is below the length.
    fn at(&self, place: usize) -> usize {
        let mut number = self.once(place);
        while number >= self.len {
            number = self.once(number);
        }
        number
    }

    fn once(&self, number: usize) -> usize {
        let mask = (1u64 << self.half) - 1;
        let (mut left, mut right) = (number as u64 >> self.half, number as u64 & mask);
        for &key in &self.keys {
            (left, right) = (right, left ^ (Generator::resume(key, right).split().seed() & mask));
        }
        (left << self.half | right) as usize
    }
}

/// Fisher and Yates's shuffle of `0..len`.
fn shuffled_list(len: usize, mut generator: Generator) -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..len).collect();
    for last in (1..numbers.len()).rev() {
        // 64 random bits as a fraction of one: a place's probability is off by
        // at most 2^-64.
        let bits = generator.split().seed();
        let place = (u128::from(bits) * (last as u128 + 1)) >> 64;
        numbers.swap(last, place as usize);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_of_three_is_about_equally_likely() {
        let mut counts = std::collections::HashMap::new();
        for epoch in 0..6000 {
            *counts.entry(EpochOrder::new(3, 3, 1, 5, epoch, true).samples(0).unwrap()).or_insert(0) += 1;
        }
        // The standard deviation of each count is 29.
        assert!(counts.len() == 6 && counts.values().all(|n| (850..1150).contains(n)), "{counts:?}");
    }

    #[test]
    fn an_order_without_a_list_has_every_number_once() {
        for len in [1, 2, 3, 7, 64, 1000, 4097] {
            let permutation = Permutation::new(len, Generator::new(len as u64));
            let mut found: Vec<usize> = (0..len).map(|place| permutation.at(place)).collect();
            assert!(len < 64 || found.windows(2).any(|pair| pair[1] != pair[0] + 1), "{len} in order");
            found.sort_unstable();
            assert!(found.into_iter().eq(0..len), "{len}");
        }
        let mut counts = std::collections::HashMap::new();
        for seed in 0..6000 {
            let permutation = Permutation::new(3, Generator::new(seed));
            *counts.entry([0, 1, 2].map(|place| permutation.at(place))).or_insert(0) += 1;
        }
        assert!(counts.len() == 6 && counts.values().all(|n| (850..1150).contains(n)), "{counts:?}");
    }

    #[test]
    fn nothing_is_listed_for_samples_in_order_or_beyond_number() {
        let last = |shuffled| {
            let order = EpochOrder::new(1 << 40, 2, 1 << 39, 5, 0, shuffled);
            order.samples((1 << 39) - 1).unwrap()
        };
        assert_eq!(last(false), [(1 << 40) - 2, (1 << 40) - 1]);
        assert!(last(true).iter().all(|&number| number < 1 << 40));
        let all = EpochOrder::new(usize::MAX, usize::MAX, 1, 5, 0, true);
        assert!(all.samples(0).is_err(), "more numbers than memory holds");
    }
}
