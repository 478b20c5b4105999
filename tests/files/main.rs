//! What files may be: whatever a file holds, opening it is a state or an
//! error that names the caller's line; whatever has the name of a file that is
//! saved, nothing but that file changes.
#![cfg(feature = "safetensors")]

mod damaged;
#[cfg(feature = "gguf")]
mod gguf;
#[cfg(feature = "hub")]
mod hub;
#[cfg(feature = "hub")]
#[path = "../support/hub_server.rs"]
mod hub_server;
mod load;
#[cfg(all(feature = "gguf", feature = "npy", feature = "torch"))]
mod mutated;
#[cfg(feature = "npy")]
mod npy;
#[cfg(all(feature = "gguf", feature = "npy", feature = "torch"))]
mod ranges;
mod raw;
mod replaced;
mod sharded;
#[cfg(feature = "torch")]
mod torch;
mod wrong_kind;

use std::fs;
use std::panic::Location;
use std::path::{Path, PathBuf};

use kiln::StateProblem;
use kiln::prelude::*;
use kiln::{Error, StateDict};

/// A folder that goes when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("kiln-files-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
    /// Writes a file.
    fn put(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        fs::write(self.file(name), content).unwrap();
        self.file(name)
    }
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A file of a header and as many bytes.
fn with_header(header: &str, data: usize) -> Vec<u8> {
    let bytes: Vec<u8> = (0..data).map(|i| i as u8).collect();
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &bytes].concat()
}

/// The entry of a tensor whose data begin the file.
fn entry(name: &str, dtype: &str, shape: &str, bytes: usize) -> String {
    format!(r#""{name}": {{"dtype": "{dtype}", "shape": {shape}, "data_offsets": [0, {bytes}]}}"#)
}

/// A state of two tensors, all of whose elements are `value`.
fn state(value: i64) -> StateDict {
    let mut state = StateDict::new();
    for name in ["a", "b"] {
        state.insert(name, &Tensor::full([3], value, ())).unwrap();
    }
    state
}

/// The value of all elements of a state.
#[track_caller]
fn value(state: &StateDict) -> i64 {
    let values: Vec<i64> = state.iter().flat_map(|(_, tensor)| tensor.to_vec::<i64>().unwrap()).collect();
    assert!(values.len() == 6 && values.iter().all(|value| *value == values[0]), "{values:?}");
    values[0]
}

/// Asserts that opening a file fails, names the caller's line, and says this
/// as the first of what is wrong with it.
#[track_caller]
fn refused(path: &Path, expected: &str) -> StateProblem {
    let caller = Location::caller();
    let error = StateDict::open(path).unwrap_err();
    let Error::State { from, problems, span } = &error else { panic!("{error}") };
    assert_eq!((span.file(), span.line()), (caller.file(), caller.line()), "{error}");
    assert_eq!(*from, path.display().to_string());
    assert!(problems[0].to_string().contains(expected), "{expected:?} is not in: {error}");
    problems[0].clone()
}
