//! Models divided among several GGUF files.

use std::path::Path;

use crate::base::{Result, Span};
use crate::io::door::failed;
use crate::io::gguf::file::Gguf;
use crate::io::gguf::value::GgufValue;

/// What entries of a part begin with, which mean nothing of the whole.
const ENTRIES: &str = "split.";

/// The names of all files that a model is divided among, by that of the first, as llama.cpp names them. A file
/// that is named otherwise is alone.
///
/// # Examples
/// ```
/// use kiln::io::gguf::split_names;
/// assert_eq!(split_names("m-00001-of-00002.gguf"), ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"]);
/// assert_eq!(split_names("model.gguf"), ["model.gguf"]);
/// ```
pub fn split_names(first: &str) -> Vec<String> {
    let number = |digits: &str| digits.parse::<u32>().ok().filter(|_| digits.len() == 5);
    let divided = || {
        let (before, count) = first.strip_suffix(".gguf")?.rsplit_once("-of-")?;
        let (stem, place) = before.rsplit_once('-')?;
        let count = number(count).filter(|_| number(place) == Some(1))?;
        Some((1..=count).map(|place| format!("{stem}-{place:05}-of-{count:05}.gguf")).collect())
    };
    divided().unwrap_or_else(|| vec![first.into()])
}

/// How many files a file's model is divided among, if there are several, and which of them it is, from 0.
pub(super) fn part(file: &Gguf) -> Option<(u64, u64)> {
    let entry = |key: &str| file.get(&format!("{ENTRIES}{key}")).and_then(GgufValue::as_u64);
    entry("count").filter(|&count| count > 1).map(|count| (count, entry("no").unwrap_or(0)))
}

/// What is wrong with a part where a whole model is expected.
pub(super) fn expected_whole((count, place): (u64, u64)) -> String {
    format!("expected a whole model, found number {} of {count} files", place + 1)
}

/// A file's model with what is in the other files that it is divided among, beside it.
///
/// # Errors
/// Those of opening them; a file that is not the first, or another part than its name says; a tensor that is in
/// two of them.
pub(super) fn joined(
    mut first: Gguf,
    path: &Path,
    span: Span,
    open: impl Fn(&Path) -> Result<Gguf>,
) -> Result<Gguf> {
    let Some((count, place)) = part(&first) else { return Ok(first) };
    let names = path.file_name().and_then(|name| name.to_str()).map(split_names).unwrap_or_default();
    if place != 0 || names.len() as u64 != count {
        let expected = format!("expected the first of {count} files, named as m-00001-of-{count:05}.gguf");
        return Err(failed(path, format!("{expected}, found number {}", place + 1), span));
    }
    for (place, name) in (0..count).zip(&names).skip(1) {
        let path = path.with_file_name(name);
        let next = open(&path)?;
        if part(&next) != Some((count, place)) {
            let expected = format!("expected number {} of {count} files of a model", place + 1);
            return Err(failed(&path, expected, span));
        }
        first.absorb(next).map_err(|error| failed(&path, error, span))?;
    }
    first.forget(ENTRIES);
    Ok(first)
}
