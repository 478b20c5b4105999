//! Files of models that the Hugging Face hub's own tools have downloaded: where they lie in their cache.

use std::env;
use std::path::{Path, PathBuf};

use crate::base::{Error, Result, Span};

/// The path of a file of a model in the cache of the Hugging Face hub, which `huggingface-cli download` and
/// `transformers` fill. Nothing is downloaded.
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
    let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = || {
        let home = || Some(variable("HOME").or_else(|| variable("USERPROFILE"))?.join(".cache"));
        let hub = |folder: PathBuf| folder.join("hub");
        let default = || Some(variable("XDG_CACHE_HOME").or_else(home)?.join("huggingface"));
        variable("HF_HUB_CACHE").or_else(|| variable("HF_HOME").or_else(default).map(hub))
    };
    let span = Span::caller();
    let missing = |expected| Error::Argument { call: "hub_file", expected, found: model.into(), span };
    let cache = cache().ok_or_else(|| missing("a home folder, or HF_HOME".into()))?;
    find(&cache, model, revision, file).map_err(missing)
}

/// The file in a cache; what would have to be there.
fn find(cache: &Path, model: &str, revision: &str, file: &str) -> Result<PathBuf, String> {
    let inside =
        |name: &str| !name.is_empty() && name.split(['/', '\\']).all(|part| !matches!(part, "" | "." | ".."));
    if !(inside(model) && inside(revision) && inside(file)) {
        return Err("a model, a revision and a file inside the cache".into());
    }
    let folder = cache.join(format!("models--{}", model.replace('/', "--")));
    // A branch or a tag is a file that has the commit.
    let named = std::fs::read_to_string(folder.join("refs").join(revision)).ok();
    let commit = named.as_deref().map(str::trim).filter(|commit| inside(commit)).unwrap_or(revision);
    let path = folder.join("snapshots").join(commit).join(file);
    if path.exists() { Ok(path) } else { Err(format!("a model whose file is at {}", path.display())) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_is_found_by_branch_or_commit_and_never_outside() {
        let cache = env::temp_dir().join(format!("kiln-hub-{}", std::process::id()));
        let folder = cache.join("models--org--net");
        fs::create_dir_all(folder.join("refs")).unwrap();
        fs::create_dir_all(folder.join("snapshots/abc/sub")).unwrap();
        fs::write(folder.join("refs/main"), "abc\n").unwrap();
        fs::write(folder.join("snapshots/abc/sub/m.gguf"), "").unwrap();
        let expected = folder.join("snapshots/abc/sub/m.gguf");
        for revision in ["main", "abc"] {
            assert_eq!(find(&cache, "org/net", revision, "sub/m.gguf"), Ok(expected.clone()));
        }
        let missing = find(&cache, "org/net", "main", "other").unwrap_err();
        assert!(missing.ends_with("abc/other"), "{missing}");
        for (model, revision, file) in
            [("..", "main", "a"), ("org/net", "../..", "a"), ("org/net", "main", "/a")]
        {
            assert!(find(&cache, model, revision, file).unwrap_err().contains("inside the cache"));
        }
        fs::remove_dir_all(cache).unwrap();
    }
}
