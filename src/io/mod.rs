//! States with names, in memory and in files.
//!
//! A [`StateDict`] holds named tensors: the state of a module, an optimizer,
//! a generator, or all of them under prefixes. It is saved as a file of the
//! safetensors format, or several with an index, and opened again without
//! reading more than the names: the data are mapped into memory. Tensors of
//! types that kiln does not compute with are [`RawTensor`]s.
//!
//! A file of another program has other names, shapes and types than the module it is for. [`LoadOpts`] say
//! how they differ: names that change, tensors that are transposed, split, joined or shared, types that are
//! converted. What was loaded is told by a [`LoadReport`].
//!
//! Files of other formats open as a [`StateDict`] too, each by a feature of its own: `StateDict::open_npz`
//! and `Tensor::open_npy` (`npy`), `StateDict::open_gguf` (`gguf`), `StateDict::open_torch` (`torch`). A
//! module takes it by [`ModuleExt::load_state_dict_with`](crate::nn::ModuleExt::load_state_dict_with).
//!
//! Files of models of the Hugging Face hub are found in its cache by [`hub_file`]; `hub_download` gets those
//! that are not there (`hub`).
//!
//! A file that lies elsewhere is read by ranges, asynchronously: [`RangeReader`].
//!
//! Curves of a training for TensorBoard are written by `tensorboard::SummaryWriter` (`tensorboard`).
//!
//! ```
//! use kiln::nn::{Linear, ModuleExt};
//! use kiln::optim::{Adam, AdamOpts, Optimizer};
//! use kiln::prelude::*;
//! use kiln::StateDict;
//! # fn main() -> kiln::Result<()> {
//! let model = Linear::new(4, 2, ());
//! let mut optimizer = Adam::new(model.parameters(), AdamOpts::default());
//! let mut state = StateDict::new();
//! state.extend("model", model.state_dict()?)?;
//! state.extend("optimizer", optimizer.state_dict()?)?;
//! state.extend("generator", kiln::generator().state_dict()?)?;
//! // state.save("training.safetensors")?, and StateDict::open gives it back:
//! model.load_state_dict(&state.part("model"), Device::cpu())?;
//! optimizer.load_state_dict(&state.part("optimizer"))?;
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "mapped")]
mod door;
#[cfg(feature = "safetensors")]
mod file;
mod format;
#[cfg(feature = "safetensors")]
mod generation;
mod generator;
#[cfg(feature = "gguf")]
pub mod gguf;
#[cfg(feature = "safetensors")]
mod header;
mod hub;
#[cfg(feature = "safetensors")]
mod index;
mod item;
#[cfg(feature = "safetensors")]
mod json;
mod load;
#[cfg(feature = "mapped")]
mod magic;
#[cfg(feature = "mapped")]
mod mapped;
#[cfg(feature = "npy")]
mod npy;
#[cfg(any(feature = "npy", feature = "torch"))]
mod placed;
#[cfg(any(feature = "safetensors", feature = "gguf"))]
mod range_reader;
mod raw;
#[cfg(any(feature = "safetensors", feature = "gguf"))]
mod remote;
#[cfg(feature = "safetensors")]
mod shard_set;
#[cfg(feature = "safetensors")]
mod shards;
mod state_dict;
#[cfg(feature = "tensorboard")]
pub mod tensorboard;
#[cfg(feature = "torch")]
mod torch;
#[cfg(any(feature = "npy", feature = "torch"))]
mod zip;

pub use crate::base::{HubError, HubProblem};
pub use hub::hub_file;
#[cfg(feature = "hub")]
pub use hub::{Download, DownloadLine, DownloadProgress, HubOpts, HubToken, hub_download};
pub use load::{Conversion, LoadOpts, LoadReport};
pub(crate) use load::{Loaded, Pattern, Source, load};
#[cfg(any(feature = "safetensors", feature = "gguf"))]
pub use range_reader::RangeReader;
pub use raw::RawTensor;
#[cfg(feature = "safetensors")]
pub(crate) use shard_set::{SEPARATOR, ShardSet};
#[cfg(feature = "safetensors")]
pub(crate) use shards::{Reading, fetch, read};
pub(crate) use state_dict::ExpectedTensor;
pub use state_dict::StateDict;
