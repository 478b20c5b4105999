//! The part of an epoch that one of several processes goes through.

use crate::base::{OpError, Result, Span};
use crate::data::dataset::LoadError;
use crate::data::mersenne_twister::MersenneTwister;
use crate::data::sampler::Sampler;

/// The samples of one rank: every `ranks`th of an order that all ranks agree on, so that together they go
/// through the dataset once.
///
/// All ranks have equally many samples: of an order that does not divide, its first samples are appended to
/// it, or its last left out ([`drop_last`](Self::drop_last)). Orders are PyTorch's, number for number.
///
/// PyTorch: `torch.utils.data.distributed.DistributedSampler`, with the epoch as an argument instead of
/// `set_epoch`.
///
/// # Examples
/// ```
/// use kiln::data::{DistributedSampler, Sampler};
/// let of_rank = |rank| DistributedSampler::new(2, rank).map(|sampler| sampler.shuffle(false));
/// assert_eq!(of_rank(0)?.numbers(5, 0).expect("numbers"), [0, 2, 4]);
/// assert_eq!(of_rank(1)?.numbers(5, 0).expect("numbers"), [1, 3, 0]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct DistributedSampler {
    ranks: usize,
    rank: usize,
    shuffle: bool,
    drop_last: bool,
    seed: u64,
}

impl DistributedSampler {
    /// The part of `rank` of so many ranks.
    ///
    /// # Errors
    /// No ranks, or a rank that is none of them.
    #[track_caller]
    pub fn new(ranks: usize, rank: usize) -> Result<DistributedSampler> {
        if rank >= ranks {
            let found = format!("rank {rank} of {ranks}");
            let expected = "a rank below the number of ranks";
            return Err(OpError::new("DistributedSampler::new", Span::caller(), expected, found).into());
        }
        Ok(DistributedSampler { ranks, rank, shuffle: true, drop_last: false, seed: 0 })
    }
    /// Whether each epoch has another order (it has), or all that of the dataset.
    #[must_use]
    pub fn shuffle(mut self, shuffle: bool) -> DistributedSampler {
        self.shuffle = shuffle;
        self
    }
    /// Whether to leave out the samples that do not divide among the ranks; else some are repeated.
    #[must_use]
    pub fn drop_last(mut self, drop_last: bool) -> DistributedSampler {
        self.drop_last = drop_last;
        self
    }
    /// What orders follow from, with the epoch: the same on all ranks.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> DistributedSampler {
        self.seed = seed;
        self
    }
}

impl Sampler for DistributedSampler {
    fn count(&self, samples: usize) -> usize {
        if self.drop_last { samples / self.ranks } else { samples.div_ceil(self.ranks) }
    }

    fn numbers(&self, samples: usize, epoch: u64) -> Result<Vec<usize>, LoadError> {
        // PyTorch's generator takes the lowest 32 bits.
        let order = || MersenneTwister::new(self.seed.wrapping_add(epoch) as u32).permutation(samples);
        let order: Vec<usize> = if self.shuffle { order() } else { (0..samples).collect() };
        // The order again where it ends; only there `samples` may be 0.
        let at = |place: usize| order[(self.rank + place * self.ranks) % samples];
        Ok((0..self.count(samples)).map(at).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_go_through_the_dataset_together() {
        for (samples, drop_last) in [(23, false), (23, true), (24, true), (2, false), (0, false)] {
            let mut all: Vec<usize> = (0..4)
                .flat_map(|rank| {
                    let sampler = DistributedSampler::new(4, rank).unwrap().drop_last(drop_last);
                    let numbers = sampler.numbers(samples, 3).unwrap();
                    assert_eq!(numbers.len(), sampler.count(samples));
                    numbers
                })
                .collect();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), if drop_last { samples / 4 * 4 } else { samples });
        }
    }
}
