//! The rules of this repository: its documents, its layers, its examples.

mod documented;
mod documents;
mod layers;
mod readme;

use std::fs;
use std::path::{Path, PathBuf};

/// Adds the Rust files in a folder, those of folders inside too.
fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}
