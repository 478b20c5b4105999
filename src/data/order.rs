//! Which samples make which batch: a function of seed and epoch.

use crate::tensor::random::Generator;

/// The samples of an epoch's batches.
#[derive(Clone, Debug)]
pub struct Order {
    numbers: Vec<usize>,
    batch_size: usize,
    /// Number of batches.
    pub batches: usize,
    /// What all that is random in the epoch follows from.
    seed: u64,
}

impl Order {
    /// `batches` batches of `batch_size` of the samples `0..len`, the last
    /// perhaps of less.
    pub fn new(
        len: usize,
        batch_size: usize,
        batches: usize,
        seed: u64,
        epoch: u64,
        shuffled: bool,
    ) -> Order {
        let seed = Generator::resume(seed, epoch).split().seed();
        let mut numbers: Vec<usize> = (0..len).collect();
        if shuffled {
            shuffle(&mut numbers, Generator::new(seed).split());
        }
        Order { numbers, batch_size, batches, seed }
    }

    /// The samples of a batch.
    pub fn samples(&self, batch: usize) -> &[usize] {
        let start = batch * self.batch_size;
        &self.numbers[start..self.numbers.len().min(start + self.batch_size)]
    }

    /// What a batch draws its random numbers from.
    pub fn generator(&self, batch: usize) -> Generator {
        // Draw 0 has ordered the samples.
        Generator::resume(self.seed, 1 + batch as u64).split()
    }
}

/// Fisher and Yates's shuffle.
fn shuffle(numbers: &mut [usize], mut generator: Generator) {
    for last in (1..numbers.len()).rev() {
        // 64 random bits as a fraction of one: a place's probability is off by
        // at most 2^-64.
        let bits = generator.split().seed();
        let place = (u128::from(bits) * (last as u128 + 1)) >> 64;
        numbers.swap(last, place as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_of_three_is_about_equally_likely() {
        let mut counts = std::collections::HashMap::new();
        for epoch in 0..6000 {
            *counts.entry(Order::new(3, 3, 1, 5, epoch, true).samples(0).to_vec()).or_insert(0) += 1;
        }
        // The standard deviation of each count is 29.
        assert!(counts.len() == 6 && counts.values().all(|n| (850..1150).contains(n)), "{counts:?}");
    }
}
