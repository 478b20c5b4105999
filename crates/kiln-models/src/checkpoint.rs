//! The files of a published model.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kiln::StateDict;
use kiln::io::gguf::Gguf;
use serde_json::Value;

use crate::config::Config;
use crate::error::{Error, Result};

/// A model's weights and configuration: a folder as `transformers` saves them, or a file of llama.cpp.
///
/// Weights stay in the file, mapped into memory, until a model takes them.
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    config: Config,
    weights: Weights,
}

#[derive(Debug)]
enum Weights {
    Plain(StateDict),
    Gguf(Box<Gguf>),
}

/// Files of weights, or lists of such files, of which a folder has one.
pub(crate) const WEIGHTS: [&str; 6] = [
    "model.safetensors.index.json",
    "model.safetensors",
    "diffusion_pytorch_model.safetensors.index.json",
    "diffusion_pytorch_model.safetensors",
    "pytorch_model.bin.index.json",
    "pytorch_model.bin",
];

/// The tensors of a file, or of those that it lists.
#[track_caller]
fn weights(file: &Path) -> Result<StateDict> {
    let ends = |end: &str| file.to_str().is_some_and(|name| name.ends_with(end));
    if ends(".bin.index.json") {
        let folder = file.parent().unwrap_or(Path::new(""));
        let mut state = StateDict::new();
        for part in parts(file)? {
            let part = StateDict::open_torch(folder.join(part))?;
            part.iter().try_for_each(|(name, tensor)| state.insert(name, tensor))?;
        }
        return Ok(state);
    }
    let torch = [".bin", ".pt", ".pth"].into_iter().any(ends);
    Ok(if torch { StateDict::open_torch(file)? } else { StateDict::open(file)? })
}

/// The files that an index names.
pub(crate) fn parts(index: &Path) -> Result<BTreeSet<String>> {
    let text = std::fs::read_to_string(index).map_err(|source| Error::File { path: index.into(), source })?;
    let index: Value =
        serde_json::from_str(&text).map_err(|source| Error::Json { path: index.into(), source })?;
    let names = index["weight_map"].as_object().into_iter().flat_map(|map| map.values());
    Ok(names.filter_map(Value::as_str).map(String::from).collect())
}

impl Checkpoint {
    /// Opens a folder with `config.json` and `model.safetensors`, that of diffusers, or PyTorch's
    /// `pytorch_model.bin`, or the parts of one, such a file with the configuration beside it, or a `.gguf`. What `config.json` does not say is taken
    /// from `generation_config.json`, if there is one.
    ///
    /// # Errors
    /// Files that are not there or cannot be read.
    #[track_caller]
    pub fn open(path: impl AsRef<Path>) -> Result<Checkpoint> {
        let path = path.as_ref();
        if path.extension().is_some_and(|extension| extension == "gguf") {
            return Checkpoint::from_gguf(path, Gguf::open(path)?);
        }
        let known = std::fs::metadata(path);
        known.map_err(|source| Error::File { path: path.into(), source })?;
        let (folder, file) = if path.is_dir() {
            let found = WEIGHTS.iter().map(|name| path.join(name)).find(|file| file.exists());
            (path, found.unwrap_or_else(|| path.join("model.safetensors")))
        } else {
            (path.parent().unwrap_or(Path::new("")), path.to_path_buf())
        };
        let mut config = Config::open(folder.join("config.json"))?;
        let generation = folder.join("generation_config.json");
        if generation.exists() {
            config.fill(Config::open(generation)?);
        }
        Ok(Checkpoint { path: folder.into(), config, weights: Weights::Plain(weights(&file)?) })
    }

    /// Opens a model of the Hugging Face hub, downloaded if it is not in the cache: `org/name`, or a file of
    /// llama.cpp, `org/name/file.gguf`, in a revision, mostly `main` (feature `hub`).
    ///
    /// Of safetensors, all files are of one commit. [`locate`](crate::locate) gives the path alone.
    ///
    /// # Errors
    /// Those of [`hub_download`](kiln::io::hub_download), except that tokenizers, templates and such may be
    /// missing; those of [`Checkpoint::open`].
    ///
    /// # Examples
    /// ```no_run
    /// use kiln::io::{DownloadLine, HubOpts};
    /// use kiln_models::{Bert, Checkpoint, LoadModelOpts};
    /// let opts = HubOpts::default().progress(DownloadLine::default());
    /// let checkpoint = Checkpoint::from_hub("sentence-transformers/all-MiniLM-L6-v2", "main", opts)?;
    /// let model = Bert::load(&checkpoint, LoadModelOpts::default())?;
    /// # Ok::<(), kiln_models::Error>(())
    /// ```
    #[cfg(feature = "hub")]
    #[track_caller]
    pub fn from_hub(model: &str, revision: &str, opts: kiln::io::HubOpts) -> Result<Checkpoint> {
        Checkpoint::open(crate::hub::download(model, revision, opts)?)
    }

    /// A file of llama.cpp that was read from elsewhere, by a name for errors.
    ///
    /// # Errors
    /// Metadata of a model that is not known, or without what it needs.
    ///
    /// # Examples
    /// ```
    /// use kiln::io::gguf::Gguf;
    /// use kiln_models::Checkpoint;
    /// let mut file = Gguf::new(); // or Gguf::open_async(..).await?
    /// file.set("general.architecture", "llama".into());
    /// let checkpoint = Checkpoint::from_gguf("model.gguf", file)?;
    /// assert_eq!(checkpoint.config().text("model_type")?, "llama");
    /// # Ok::<(), kiln_models::Error>(())
    /// ```
    pub fn from_gguf(name: impl AsRef<Path>, gguf: Gguf) -> Result<Checkpoint> {
        let path = name.as_ref().to_path_buf();
        let config = Config::from_gguf(&path.display().to_string(), &gguf)?;
        Ok(Checkpoint { path, config, weights: Weights::Gguf(Box::new(gguf)) })
    }

    /// Its configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }
    /// The folder, or the file of llama.cpp.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// Its weights, by the file's names.
    pub fn state(&self) -> &StateDict {
        match &self.weights {
            Weights::Plain(state) => state,
            Weights::Gguf(gguf) => gguf.state(),
        }
    }
    /// The file of llama.cpp, if it is one.
    pub fn gguf(&self) -> Option<&Gguf> {
        match &self.weights {
            Weights::Plain(_) => None,
            Weights::Gguf(gguf) => Some(gguf),
        }
    }
}
