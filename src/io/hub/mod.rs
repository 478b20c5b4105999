//! Files of models of the Hugging Face hub, in the cache of its own tools.

mod cache;
#[cfg(feature = "hub")]
mod client;
#[cfg(feature = "hub")]
mod download;
mod name;
#[cfg(feature = "hub")]
mod opts;
#[cfg(feature = "hub")]
mod partial;
#[cfg(feature = "hub")]
mod progress;
#[cfg(feature = "hub")]
mod progress_line;

use std::path::PathBuf;

use crate::base::{Error, Result, Span};
#[cfg(feature = "hub")]
pub use download::hub_download;
#[cfg(feature = "hub")]
pub use opts::{HubOpts, HubToken};
#[cfg(feature = "hub")]
pub use progress::{Download, DownloadProgress};
#[cfg(feature = "hub")]
pub use progress_line::DownloadLine;

use cache::ModelCache;
use name::HubName;

/// The path of a file of a model in the cache of the Hugging Face hub, which `hf download` and
/// `transformers` fill. Nothing is downloaded; `hub_download` does (feature `hub`).
///
/// `model` is a name such as `HuggingFaceTB/SmolLM2-135M`, `revision` a branch, a tag or a commit, mostly
/// `main`. The cache is the folder that `HF_HUB_CACHE` names, or `hub` in that of `HF_HOME`, or
/// `~/.cache/huggingface/hub` (`XDG_CACHE_HOME` in the place of `~/.cache`).
///
/// # Errors
/// A file that is not there, with the path where it would be; a name that leads elsewhere.
///
/// # Examples
/// ```no_run
/// let path = kiln::io::hub_file("HuggingFaceTB/SmolLM2-135M", "main", "model.safetensors")?;
/// let state = kiln::StateDict::open(path)?;
/// # Ok::<(), kiln::Error>(())
/// ```
#[track_caller]
pub fn hub_file(model: &str, revision: &str, file: &str) -> Result<PathBuf> {
    let span = Span::caller();
    let missing = |expected| Error::Argument { call: "hub_file", expected, found: model.into(), span };
    let root = cache::folder().ok_or_else(|| missing(cache::NO_FOLDER.into()))?;
    let name = HubName::new(model, revision, file).ok_or_else(|| missing(name::EXPECTED.into()))?;
    let path = ModelCache::of(&root, name).path(name);
    if path.exists() {
        Ok(path)
    } else {
        Err(missing(format!("a model whose file is at {}", path.display())))
    }
}
