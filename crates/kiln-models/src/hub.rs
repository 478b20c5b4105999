//! Models of the Hugging Face hub.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// What an address of the hub begins with.
const SCHEME: &str = "hf://";

/// Where a model's files are: a path as it is; of an address on the Hugging Face hub a path in the cache, into
/// which they are downloaded if they are not there (feature `hub`). On a terminal a line shows how far that is.
///
/// `hf://org/name` is a folder as [`Checkpoint::open`](crate::Checkpoint::open) takes it,
/// `hf://org/name/file.gguf` a file of llama.cpp. `@revision` may follow, a branch, a tag or a commit; without,
/// it is `main`.
///
/// # Errors
/// An address that is none, or in a build without the feature; a file that the hub does not give. Tokenizers,
/// chat templates and such may be missing.
///
/// # Examples
/// ```
/// assert_eq!(kiln_models::locate("models/SmolLM2-135M")?.to_str(), Some("models/SmolLM2-135M"));
/// # Ok::<(), kiln_models::Error>(())
/// ```
/// ```no_run
/// use kiln_models::{LanguageModel, LoadModelOpts, locate};
/// let path = locate("hf://HuggingFaceTB/SmolLM2-135M-Instruct")?;
/// let model = LanguageModel::open(path, LoadModelOpts::default())?;
/// # Ok::<(), kiln_models::Error>(())
/// ```
#[track_caller]
pub fn locate(model: impl AsRef<Path>) -> Result<PathBuf> {
    let model = model.as_ref();
    match model.to_str().and_then(|text| text.strip_prefix(SCHEME)) {
        None => Ok(model.into()),
        Some(name) => downloaded(name),
    }
}

#[cfg(not(feature = "hub"))]
fn downloaded(name: &str) -> Result<PathBuf> {
    Err(refused(name, "a build with `--features hub`, which downloads models"))
}

#[cfg(feature = "hub")]
#[track_caller]
fn downloaded(name: &str) -> Result<PathBuf> {
    use kiln::io::{DownloadLine, HubOpts};
    let (model, revision) = name.rsplit_once('@').unwrap_or((name, "main"));
    download(model, revision, HubOpts::default().progress(DownloadLine::default()))
}

fn refused(name: &str, expected: &'static str) -> Error {
    Error::Address { address: format!("{SCHEME}{name}"), expected }
}

#[cfg(feature = "hub")]
pub(crate) use files::download;

#[cfg(feature = "hub")]
mod files {
    use std::path::{Path, PathBuf};

    use kiln::io::gguf::split_names;
    use kiln::io::{HubOpts, HubProblem, hub_download};

    use super::refused;
    use crate::checkpoint::{WEIGHTS, parts};
    use crate::error::Result;

    /// What a folder may have beside configuration and weights.
    const BESIDE: [&str; 8] = [
        "tokenizer.json",
        "tokenizer_config.json",
        "generation_config.json",
        "chat_template.jinja",
        "preprocessor_config.json",
        "modules.json",
        "1_Pooling/config.json",
        "sentence_bert_config.json",
    ];

    /// The folder of `org/name`, or the file of `org/name/file.gguf`, downloaded.
    #[track_caller]
    pub fn download(model: &str, revision: &str, opts: HubOpts) -> Result<PathBuf> {
        let parts: Vec<&str> = model.splitn(3, '/').collect();
        match parts[..] {
            [org, name] => snapshot(&format!("{org}/{name}"), revision, &opts),
            [org, name, file] if file.ends_with(".gguf") => {
                divided(&format!("{org}/{name}"), revision, file, &opts)
            }
            _ => Err(refused(model, "hf://org/name or hf://org/name/file.gguf, with @revision or without")),
        }
    }

    /// The first of the files of llama.cpp that a model is divided among, or the only one.
    #[track_caller]
    fn divided(model: &str, revision: &str, file: &str, opts: &HubOpts) -> Result<PathBuf> {
        let first = hub_download(model, revision, file, opts.clone())?;
        let commit = commit(&first, file).unwrap_or(revision);
        let opts = opts.clone().refresh(false);
        for part in split_names(file).iter().skip(1) {
            hub_download(model, commit, part, opts.clone())?;
        }
        Ok(first)
    }

    /// The commit that a file in the cache is of, whose folder it is in by this name.
    fn commit<'a>(path: &'a Path, file: &str) -> Option<&'a str> {
        path.ancestors().nth(file.split('/').count())?.file_name()?.to_str()
    }

    /// All files of a model, of one commit.
    #[track_caller]
    fn snapshot(model: &str, revision: &str, opts: &HubOpts) -> Result<PathBuf> {
        let config = hub_download(model, revision, "config.json", opts.clone())?;
        let folder = config.parent().unwrap_or(Path::new(""));
        let commit = commit(&config, "config.json").unwrap_or(revision);
        // The branch has been asked for.
        let opts = opts.clone().refresh(false);
        for file in BESIDE {
            optional(model, commit, file, &opts)?;
        }
        for file in WEIGHTS {
            let Some(found) = optional(model, commit, file, &opts)? else { continue };
            if file.ends_with(".index.json") {
                for part in parts(&found)? {
                    hub_download(model, commit, &part, opts.clone())?;
                }
            }
            return Ok(folder.into());
        }
        // What is not there is the error.
        hub_download(model, commit, "model.safetensors", opts)?;
        Ok(folder.into())
    }

    /// A file that not every model has.
    #[track_caller]
    fn optional(model: &str, commit: &str, file: &str, opts: &HubOpts) -> Result<Option<PathBuf>> {
        match hub_download(model, commit, file, opts.clone()) {
            Ok(path) => Ok(Some(path)),
            Err(kiln::Error::Hub(error))
                if matches!(error.problem, HubProblem::Missing { .. } | HubProblem::Offline { .. }) =>
            {
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}
