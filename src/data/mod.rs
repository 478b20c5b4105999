//! Data for training: batches, made by worker threads ahead of their use.
//!
//! A [`Dataset`] makes the batch of some of its samples; [`Items`] makes one of
//! a function that makes samples, [`Rows`] of tensors in memory. A
//! [`DataLoader`] goes through one in order, shuffled, or as a [`Sampler`] says.
//!
//! ```
//! use kiln::data::{Batch, DataLoader, Items, LoaderOpts};
//! use kiln::prelude::*;
//! # fn main() -> kiln::Result<()> {
//! let squares = Items::new(10, |i| Ok((i as f32, (i * i) as f32)));
//! let opts = LoaderOpts::default().batch_size(4).shuffle(true).workers(2);
//! let loader = DataLoader::new(squares, opts)?;
//! for epoch in 0..2 {
//!     for batch in loader.epoch(epoch) {
//!         let (x, y) = batch?.to(Device::cpu());
//!         assert_eq!((&x * &x).to_vec::<f32>()?, y.to_vec::<f32>()?);
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod batch;
mod dataset;
mod distributed_sampler;
mod loader;
mod mersenne_twister;
mod order;
mod sampler;
pub(crate) mod scopes;
mod worker;

pub use batch::{Batch, Sample};
pub use dataset::{Dataset, Items, LoadError, Rows};
pub use distributed_sampler::DistributedSampler;
pub use loader::{Batches, DataLoader, LoaderOpts};
pub use sampler::{Sampler, SubsetSampler, WeightedSampler};
