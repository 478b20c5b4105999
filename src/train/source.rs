//! Where a training's batches come from.

use crate::base::Result;
use crate::data::{Batch, DataLoader, Dataset};

/// How the ranks of a group share a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Equally many batches for each, so that all take the same steps: some samples come twice.
    Equal,
    /// Each sample for one rank, for sums that are exact.
    Exact,
}

/// Batches by epoch: a [`DataLoader`], or anything else that can begin an epoch in its middle.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln::train::BatchSource;
///
/// /// Ten batches of random numbers.
/// struct Noise;
/// impl BatchSource<Tensor> for Noise {
///     fn batches(&self) -> usize {
///         10
///     }
///     fn epoch_from(&self, epoch: u64, batch: usize) -> Box<dyn Iterator<Item = kiln::Result<Tensor>> + '_> {
///         let seed = move |batch| kiln::Generator::resume(epoch, batch as u64).split();
///         Box::new((batch..10).map(move |batch| Ok(seed(batch).randn([4], ()))))
///     }
/// }
/// assert_eq!(Noise.epoch_from(0, 7).count(), 3);
/// ```
pub trait BatchSource<B> {
    /// How many batches an epoch has.
    fn batches(&self) -> usize;
    /// The batches of an epoch but the first `batch`.
    fn epoch_from(&self, epoch: u64, batch: usize) -> Box<dyn Iterator<Item = Result<B>> + '_>;
    /// The part of a rank of so many; `None` where the source is this rank's already.
    ///
    /// # Errors
    /// What keeps it from being shared.
    fn share(
        &self,
        _ranks: usize,
        _rank: usize,
        _sharing: Sharing,
    ) -> Result<Option<Box<dyn BatchSource<B> + '_>>> {
        Ok(None)
    }
}

impl<D: Dataset + 'static> BatchSource<D::Batch> for DataLoader<D>
where
    D::Batch: Batch,
{
    fn batches(&self) -> usize {
        self.len()
    }
    fn epoch_from(&self, epoch: u64, batch: usize) -> Box<dyn Iterator<Item = Result<D::Batch>> + '_> {
        Box::new(self.epoch_from(epoch, batch))
    }
    fn share(
        &self,
        ranks: usize,
        rank: usize,
        sharing: Sharing,
    ) -> Result<Option<Box<dyn BatchSource<D::Batch> + '_>>> {
        let part = self.part(ranks, rank, sharing == Sharing::Equal)?;
        Ok(part.map(|part| Box::new(part) as Box<dyn BatchSource<D::Batch>>))
    }
}
