//! States in one file or several. Of several, an index says which file holds
//! what: `model.safetensors.index.json` beside
//! `model-00001-of-00002.safetensors`, as other libraries name them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Component, Path};

use serde_json::{Value, json};

use crate::base::file::{Durability, replace};
use crate::base::{Error, Result, Span, StateProblem};
use crate::io::file::{self, failed};
use crate::io::state_dict::StateDict;
use crate::tensor::Tensor;

/// What could be read of a state.
pub(crate) struct Reading {
    pub state: StateDict,
    pub problems: Vec<StateProblem>,
    /// Names that are in files of which nothing could be read.
    pub unread: BTreeSet<String>,
}

impl StateDict {
    /// Writes a file of the safetensors format. It is written under another
    /// name in the same folder, brought to the disk and renamed, so that no
    /// crash leaves half a file.
    ///
    /// # Errors
    /// What computing the tensors says, or the file system. An older file of
    /// this name is then as it was.
    #[track_caller]
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let span = Span::caller();
        let tensors: Vec<(&str, &Tensor)> = self.iter().collect();
        self.compute(span)?;
        file::write(path.as_ref(), &tensors, span)
    }

    /// Writes several files, each of at most `most` bytes of data unless one
    /// tensor is larger, and then their index: for
    /// `folder/model.safetensors` the files
    /// `folder/model-00001-of-00002.safetensors` and so on, and
    /// `folder/model.safetensors.index.json`, which [`StateDict::open`] takes.
    ///
    /// # Errors
    /// As [`StateDict::save`]; each file by itself is then the old one or the
    /// new one.
    #[track_caller]
    pub fn save_sharded(&self, path: impl AsRef<Path>, most: usize) -> Result<()> {
        let (path, span) = (path.as_ref(), Span::caller());
        let Some(stem) = path.file_stem().and_then(OsStr::to_str) else {
            return Err(failed(path, "expected the name of a file"));
        };
        self.compute(span)?;
        let shards = self.split(most);
        let mut places = BTreeMap::new();
        for (number, shard) in shards.iter().enumerate() {
            let name = format!("{stem}-{:05}-of-{:05}.safetensors", number + 1, shards.len());
            file::write(&path.with_file_name(&name), shard, span)?;
            places.extend(shard.iter().map(|(tensor, _)| (*tensor, name.clone())));
        }
        let total: usize = self.iter().map(|(_, tensor)| bytes_of(tensor)).sum();
        let index = json!({ "metadata": { "total_size": total }, "weight_map": places });
        let path = path.with_file_name(format!("{stem}.safetensors.index.json"));
        let text = format!("{index:#}\n");
        replace(&path, &[text.as_bytes()], Durability::Synced).map_err(|error| failed(&path, error))
    }

    /// The tensors in consecutive groups of at most `most` bytes.
    fn split(&self, most: usize) -> Vec<Vec<(&str, &Tensor)>> {
        let mut shards = vec![Vec::new()];
        let mut size = 0;
        for (name, tensor) in self.iter() {
            let bytes = bytes_of(tensor);
            if size + bytes > most && shards.last().is_some_and(|shard| !shard.is_empty()) {
                shards.push(Vec::new());
                size = 0;
            }
            size += bytes;
            if let Some(shard) = shards.last_mut() {
                shard.push((name, tensor));
            }
        }
        shards
    }

    fn compute(&self, span: Span) -> Result<()> {
        let nodes = self.iter().map(|(_, tensor)| tensor.node().cloned()).collect::<Result<Vec<_>>>()?;
        crate::plan::realize(&nodes, span)
    }

    /// The tensors of a file of the safetensors format, or of an index
    /// (`.json`) and its files, mapped into host memory: data are read when
    /// they are used.
    ///
    /// # Errors
    /// [`Error::State`] with everything that is wrong with the files.
    #[track_caller]
    pub fn open(path: impl AsRef<Path>) -> Result<StateDict> {
        let path = path.as_ref();
        let Reading { state, problems, .. } = read(path, Span::caller())?;
        if problems.is_empty() { Ok(state) } else { Err(wrong(path, problems)) }
    }
}

fn bytes_of(tensor: &Tensor) -> usize {
    tensor.numel() * tensor.dtype().size()
}

fn wrong(path: &Path, problems: Vec<StateProblem>) -> Error {
    Error::State { from: path.display().to_string(), problems: problems.into() }
}

fn problem(path: &Path, message: String) -> StateProblem {
    StateProblem::File { path: path.display().to_string(), message }
}

/// Reads what can be read of a file, or of an index and its files.
///
/// # Errors
/// What makes all names unknown.
pub(crate) fn read(path: &Path, span: Span) -> Result<Reading> {
    let unknown = |message| wrong(path, vec![problem(path, message)]);
    if path.extension() == Some(OsStr::new("json")) {
        let index = index(path).map_err(unknown)?;
        return Ok(read_shards(path, &index, span));
    }
    let content = file::read(path, span).map_err(unknown)?;
    Ok(Reading { state: content.state, problems: content.problems, unread: BTreeSet::new() })
}

/// The names in each file, by file.
fn index(path: &Path) -> Result<BTreeMap<String, BTreeSet<String>>, String> {
    let text = std::fs::read(path).map_err(|error| error.to_string())?;
    let index: Value = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    let places = index["weight_map"].as_object().ok_or("expected an object under \"weight_map\"")?;
    let mut files: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, file) in places {
        let file =
            file.as_str().ok_or_else(|| format!("{name}: expected the name of a file, found {file}"))?;
        let inside = Path::new(file).components().all(|part| matches!(part, Component::Normal(_)));
        if !inside {
            return Err(format!("{name}: expected a file beside the index, found {file:?}"));
        }
        files.entry(file.into()).or_default().insert(name.clone());
    }
    Ok(files)
}

fn read_shards(path: &Path, index: &BTreeMap<String, BTreeSet<String>>, span: Span) -> Reading {
    let mut reading = Reading { state: StateDict::new(), problems: Vec::new(), unread: BTreeSet::new() };
    for (name, expected) in index {
        let shard = path.with_file_name(name);
        match file::read(&shard, span) {
            Ok(content) => add(&mut reading, &shard, content, expected),
            Err(message) => {
                reading.problems.push(problem(&shard, message));
                reading.unread.extend(expected.iter().cloned());
            }
        }
    }
    reading
}

/// Adds what a file holds, which should be what the index expects of it.
fn add(reading: &mut Reading, shard: &Path, content: file::Content, expected: &BTreeSet<String>) {
    reading.problems.extend(content.problems);
    for (name, tensor) in content.state.iter() {
        if !expected.contains(name) {
            reading.problems.push(problem(shard, format!("{name} is in it, and not by the index")));
        } else if let Err(error) = reading.state.insert(name, tensor) {
            reading.problems.push(problem(shard, error.to_string()));
        }
    }
    for name in expected.iter().filter(|name| content.state.get(name).is_none()) {
        reading.problems.push(problem(shard, format!("{name} is not in it, but by the index")));
        reading.unread.insert(name.clone());
    }
}
