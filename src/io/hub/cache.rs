//! The cache of the Hugging Face hub, as its own tools lay it out.
//!
//! ```text
//! models--org--name/refs/main                  the commit that the branch is at
//! models--org--name/snapshots/COMMIT/FILE      a link to a blob
//! models--org--name/blobs/ETAG                 a file's content
//! models--org--name/.no_exist/COMMIT/FILE      empty: the hub has no such file
//! .locks/models--org--name/ETAG.lock           locked by who downloads the blob
//! ```

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
#[cfg(feature = "hub")]
use std::{io, iter};

#[cfg(feature = "hub")]
use crate::base::file::{Durability, folder_of, replace};
use crate::io::hub::name::{HubName, stays_inside};

/// What is missing where there is no [`folder`].
pub const NO_FOLDER: &str = "a home folder, or HF_HOME";

/// A variable of the environment, unless it is empty.
fn variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The folder of all that the hub's tools keep.
pub fn home() -> Option<PathBuf> {
    let user = || Some(variable("HOME").or_else(|| variable("USERPROFILE"))?.join(".cache"));
    let default = || Some(variable("XDG_CACHE_HOME").or_else(user)?.join("huggingface"));
    variable("HF_HOME").or_else(default)
}

/// The folder of the cache.
pub fn folder() -> Option<PathBuf> {
    variable("HF_HUB_CACHE").or_else(|| Some(home()?.join("hub")))
}

/// What the cache has of a model.
#[derive(Debug)]
pub struct ModelCache {
    folder: PathBuf,
    #[cfg(feature = "hub")]
    locks: PathBuf,
}

impl ModelCache {
    /// That of the named model in the cache at `root`.
    pub fn of(root: &Path, name: HubName) -> ModelCache {
        let name = format!("models--{}", name.model.replace('/', "--"));
        ModelCache {
            folder: root.join(&name),
            #[cfg(feature = "hub")]
            locks: root.join(".locks").join(name),
        }
    }

    /// The commit of a revision: of a branch or a tag, the one in its file.
    fn commit(&self, revision: &str) -> String {
        let named = fs::read_to_string(self.folder.join("refs").join(revision)).ok();
        let commit = named.as_deref().map(str::trim).filter(|commit| stays_inside(commit));
        commit.unwrap_or(revision).into()
    }

    /// Where a file of a commit is, or would be.
    pub fn snapshot(&self, commit: &str, file: &str) -> PathBuf {
        self.folder.join("snapshots").join(commit).join(file)
    }

    /// Where a file is, or would be.
    pub fn path(&self, name: HubName) -> PathBuf {
        self.snapshot(&self.commit(name.revision), name.file)
    }
}

#[cfg(feature = "hub")]
impl ModelCache {
    /// Where the content of this hash is.
    pub fn blob(&self, etag: &str) -> PathBuf {
        self.folder.join("blobs").join(etag)
    }

    /// What is locked by who downloads that content.
    pub fn lock(&self, etag: &str) -> PathBuf {
        self.locks.join(format!("{etag}.lock"))
    }

    /// What says that the hub has no such file.
    fn absence(&self, commit: &str, file: &str) -> PathBuf {
        self.folder.join(".no_exist").join(commit).join(file)
    }

    /// Whether the hub has said that there is no such file.
    pub fn is_absent(&self, name: HubName) -> bool {
        self.absence(&self.commit(name.revision), name.file).exists()
    }

    /// Remembers that the hub has no such file.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn set_absent(&self, commit: &str, file: &str) -> io::Result<()> {
        write(&self.absence(commit, file), b"")
    }

    /// Remembers which commit a revision is.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn set_commit(&self, revision: &str, commit: &str) -> io::Result<()> {
        if self.commit(revision) == commit {
            return Ok(());
        }
        write(&self.folder.join("refs").join(revision), commit.as_bytes())
    }

    /// Shows a blob as a file of a commit. Where there are no links, the blob becomes the file.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn link(&self, etag: &str, commit: &str, file: &str) -> io::Result<PathBuf> {
        let path = self.snapshot(commit, file);
        if path.exists() {
            return Ok(path);
        }
        fs::create_dir_all(folder_of(&path))?;
        if path.is_symlink() {
            // It leads to a blob that is gone.
            fs::remove_file(&path)?;
        }
        // Up from the file's folder: as many as its name has, the commit's and `snapshots`.
        let up = iter::repeat_n("..", Path::new(file).components().count() + 1);
        let target = up.collect::<PathBuf>().join("blobs").join(etag);
        if symlink(&target, &path).is_err() && !path.exists() {
            fs::rename(self.blob(etag), &path)?;
        }
        Ok(path)
    }
}

#[cfg(feature = "hub")]
fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    fs::create_dir_all(folder_of(path))?;
    replace(path, &[content], Durability::Cache)
}

#[cfg(feature = "hub")]
fn symlink(target: &Path, path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::symlink(target, path);
    #[cfg(windows)]
    return std::os::windows::fs::symlink_file(target, path);
    #[cfg(not(any(unix, windows)))]
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_by_branch_or_commit_and_never_outside() {
        let root = env::temp_dir().join(format!("kiln-hub-{}", std::process::id()));
        let folder = root.join("models--org--net");
        fs::create_dir_all(folder.join("refs")).unwrap();
        fs::write(folder.join("refs/main"), "abc\n").unwrap();
        fs::write(folder.join("refs/stray"), "../../abc").unwrap();
        for (revision, commit) in [("main", "abc"), ("abc", "abc"), ("stray", "stray")] {
            let name = HubName::new("org/net", revision, "sub/m.gguf").unwrap();
            let expected = folder.join(format!("snapshots/{commit}/sub/m.gguf"));
            assert_eq!(ModelCache::of(&root, name).path(name), expected);
        }
        for (model, revision, file) in [
            ("..", "main", "a"),
            ("org/net", "../..", "a"),
            ("org/net", "main", "/a"),
            ("org/net", "main", ""),
        ] {
            assert!(HubName::new(model, revision, file).is_none());
        }
        fs::remove_dir_all(root).unwrap();
    }
}
