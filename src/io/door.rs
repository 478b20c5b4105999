//! Opening of files that hold states, and what can be wrong with them.

use std::path::Path;

use crate::base::{Error, Result, Span, StateProblem};
use crate::io::magic;
use crate::io::mapped::Mapped;

/// An error of a file.
#[cfg(any(feature = "safetensors", feature = "npy", feature = "gguf"))]
pub fn failed(path: &Path, message: impl ToString, span: Span) -> Error {
    Error::File { path: path.display().to_string(), message: message.to_string(), span }
}

/// What is wrong with a file that was to be read.
pub fn problem(path: &Path, message: impl ToString) -> StateProblem {
    StateProblem::File { path: path.display().to_string(), message: message.to_string() }
}

/// The error of a file that cannot be read.
pub fn wrong(path: &Path, problems: Vec<StateProblem>, span: Span) -> Error {
    Error::State { from: path.display().to_string(), problems: problems.into(), span }
}

/// That a file is of another kind than `expected`, if that can be seen.
pub fn wrong_kind(path: &Path, expected: &'static str, file: &[u8]) -> Option<StateProblem> {
    let path = path.display().to_string();
    let kind = magic::kind(file).filter(|kind| kind.name != expected)?;
    Some(StateProblem::Format { path, expected, found: kind.name, door: kind.door })
}

/// Fails on a machine on which numbers do not lie as in files.
///
/// # Errors
/// That it is one.
pub fn check_byte_order() -> Result<(), String> {
    let wrong = || Err("the format is little-endian, and this machine is not".into());
    if cfg!(target_endian = "big") { wrong() } else { Ok(()) }
}

/// Maps a file.
///
/// # Errors
/// Those of the file system, and a machine on which numbers do not lie as in files.
pub fn open(path: &Path) -> Result<Mapped, Box<StateProblem>> {
    let unknown = |error: String| Box::new(problem(path, error));
    check_byte_order().map_err(unknown)?;
    Mapped::open(path).map_err(|error| unknown(error.to_string()))
}

/// Reads a file of a kind.
///
/// # Errors
/// [`Error::State`] with what is wrong with it; that it is of another kind, if it is.
#[cfg(any(feature = "gguf", feature = "npy", feature = "torch"))]
pub fn read_file<T>(
    path: &Path,
    kind: &'static str,
    span: Span,
    read: impl FnOnce(&Mapped) -> Result<T, String>,
) -> Result<T> {
    let fails = |problem: StateProblem| wrong(path, vec![problem], span);
    let map = open(path).map_err(|problem| fails(*problem))?;
    let other = |error| wrong_kind(path, kind, map.bytes()).unwrap_or_else(|| problem(path, error));
    read(&map).map_err(|error| fails(other(error)))
}
