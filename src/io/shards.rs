//! States in one file or several. Of several, an index says which file holds
//! what: `model.safetensors.index.json`, as other libraries name it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::base::file::{Durability, replace};
use crate::base::{Error, Result, Span, StateProblem};
use crate::io::door::{failed, problem, wrong};
use crate::io::file;
use crate::io::generation::{Generation, stem_of};
use crate::io::index::ShardIndex;
use crate::io::item::StateItem;
use crate::io::range_reader::RangeReader;
use crate::io::remote::Remote;
use crate::io::state_dict::StateDict;

/// How often an index is read again that changes while its files are read.
const READINGS: usize = 16;

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
    /// crash leaves half a file. A file that is there keeps its permissions,
    /// and a symbolic link leads to the new file.
    ///
    /// # Errors
    /// What computing the tensors says, or the file system; a folder, a device
    /// or a pipe of this name. An older file is then as it was.
    #[track_caller]
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let (path, span) = (path.as_ref(), Span::caller());
        let (items, _) = self.items(path, span)?;
        let parts = file::parts(path, &items, self.metadata(), span)?;
        let parts: Vec<&[u8]> = parts.iter().map(Cow::as_ref).collect();
        replace(path, &parts, Durability::Synced).map_err(|error| failed(path, error, span))
    }

    /// Writes several files, each of at most `most` bytes of data unless one
    /// tensor is larger, and then their index: for
    /// `folder/model.safetensors` the index
    /// `folder/model.safetensors.index.json`, which [`StateDict::open`] takes,
    /// and beside it files that only it knows, such as
    /// `model-52fdfc072182654f-00001-of-00002.safetensors`. What opens is all
    /// of the old state until the index is in place, and all of the new one
    /// then. The files of the old state are removed after that, as is what
    /// saves that were killed have left.
    ///
    /// # Errors
    /// As [`StateDict::save`]; the old state is then as it was.
    #[track_caller]
    pub fn save_sharded(&self, path: impl AsRef<Path>, most: usize) -> Result<()> {
        let (path, span) = (path.as_ref(), Span::caller());
        let Some(stem) = stem_of(path) else {
            return Err(failed(path, "expected the name of a file", span));
        };
        let (items, bytes) = self.items(path, span)?;
        let shards = split(&items, most);
        let mut generation = Generation::begin(path, stem).map_err(|error| failed(path, error, span))?;
        let mut index = ShardIndex { bytes, files: BTreeMap::new() };
        for (number, shard) in shards.iter().enumerate() {
            let parts = file::parts(path, shard, self.metadata(), span)?;
            let file = generation.write(number + 1, shards.len(), &parts);
            let file = file.map_err(|error| failed(path, error, span))?;
            index.files.insert(file, shard.iter().map(|item| item.name.into()).collect());
        }
        let path = generation.path().to_path_buf();
        generation.finish(&index).map_err(|error| failed(&path, error, span))
    }

    /// What is to be saved, computed, and the bytes of all of it.
    ///
    /// # Errors
    /// What computing the tensors says, a tensor without data, and more bytes
    /// than a file can have.
    pub(super) fn items(&self, path: &Path, span: Span) -> Result<(Vec<StateItem<'_>>, usize)> {
        let nodes = self.iter().map(|(_, tensor)| tensor.node().cloned()).collect::<Result<Vec<_>>>()?;
        if let Some(node) = nodes.iter().find(|node| node.ty().device.is_meta()) {
            return Err(Error::NoData { call: "save", shape: node.ty().shape.clone(), span });
        }
        crate::plan::realize(&nodes, span)?;
        let items = StateItem::all(self);
        let bytes = items.iter().try_fold(0usize, |sum, item| sum.checked_add(item.bytes()));
        let bytes = bytes.filter(|&bytes| bytes <= isize::MAX as usize);
        let bytes = bytes.ok_or_else(|| failed(path, "expected at most 2^63 - 1 bytes", span))?;
        Ok((items, bytes))
    }

    /// The tensors of a file of the safetensors format, or of an index
    /// (`.json`) and its files, mapped into host memory: data are read when
    /// they are used. Tensors of types that kiln does not compute with are in
    /// [`StateDict::raw_tensors`].
    ///
    /// # Errors
    /// [`Error::State`] with everything that is wrong with the files.
    #[track_caller]
    pub fn open(path: impl AsRef<Path>) -> Result<StateDict> {
        let (path, span) = (path.as_ref(), Span::caller());
        let Reading { state, problems, .. } = read(path, span)?;
        if problems.is_empty() { Ok(state) } else { Err(wrong(path, problems, span)) }
    }
}

impl StateDict {
    /// [`StateDict::open`] of a file that is read by ranges, such as one by address: a future that has read all of
    /// it. Indices of several files are not followed.
    ///
    /// # Errors
    /// [`Error::State`] with the reader's name and everything that is wrong with the file.
    ///
    /// # Examples
    /// ```
    /// use kiln::StateDict;
    /// let header = br#"{"step":{"dtype":"I64","shape":[],"data_offsets":[0,8]}}"#;
    /// let mut file = [&56u64.to_le_bytes()[..], header, &7u64.to_le_bytes()].concat();
    /// let state = pollster::block_on(StateDict::open_async(&file[..]))?;
    /// assert_eq!(state.get("step").unwrap().item::<i64>()?, 7);
    ///
    /// file.pop();
    /// let error = pollster::block_on(StateDict::open_async(&file[..])).unwrap_err().to_string();
    /// assert!(error.contains("bytes in memory: the header describes 8 bytes of data, and 7 are there"));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn open_async(reader: impl RangeReader) -> impl Future<Output = Result<StateDict>> {
        let span = Span::caller();
        async move {
            let (path, Reading { state, problems, .. }) = fetch(reader, span).await?;
            if problems.is_empty() { Ok(state) } else { Err(wrong(&path, problems, span)) }
        }
    }
}

/// Consecutive groups of at most `most` bytes.
fn split<'a>(items: &[StateItem<'a>], most: usize) -> Vec<Vec<StateItem<'a>>> {
    let mut shards = vec![Vec::new()];
    let mut size = 0usize;
    for item in items {
        let bytes = item.bytes();
        if size + bytes > most && shards.last().is_some_and(|shard| !shard.is_empty()) {
            shards.push(Vec::new());
            size = 0;
        }
        size += bytes;
        if let Some(shard) = shards.last_mut() {
            shard.push(*item);
        }
    }
    shards
}

/// Reads what can be read of a file, or of an index and its files.
///
/// # Errors
/// What makes all names unknown.
pub(crate) fn read(path: &Path, span: Span) -> Result<Reading> {
    let unknown = |problem: Box<StateProblem>| wrong(path, vec![*problem], span);
    if path.extension() != Some(OsStr::new("json")) {
        let content = file::read(path, span).map_err(unknown)?;
        return Ok(Reading { state: content.state, problems: content.problems, unread: BTreeSet::new() });
    }
    let mut index = ShardIndex::read(path).map_err(unknown)?;
    let mut reading = read_shards(path, &index, span);
    for _ in 1..READINGS {
        // A save may have put another index there, and removed the files of this one.
        let now = if reading.problems.is_empty() { None } else { ShardIndex::read(path).ok() };
        match now.filter(|now| *now != index) {
            None => break,
            Some(now) => index = now,
        }
        reading = read_shards(path, &index, span);
    }
    Ok(reading)
}

/// Reads what can be read of a file by ranges; gives its name too.
///
/// # Errors
/// What makes all names unknown, and those of the reader.
pub(crate) async fn fetch(reader: impl RangeReader, span: Span) -> Result<(PathBuf, Reading)> {
    let name = PathBuf::from(reader.name());
    let unknown = |problem: Box<StateProblem>| wrong(&name, vec![*problem], span);
    let mut remote = Remote::open(reader).await.map_err(unknown)?;
    let content = file::fetch(&mut remote, span).await.map_err(unknown)?;
    let reading = Reading { state: content.state, problems: content.problems, unread: BTreeSet::new() };
    Ok((name, reading))
}

fn read_shards(path: &Path, index: &ShardIndex, span: Span) -> Reading {
    let mut reading = Reading { state: StateDict::new(), problems: Vec::new(), unread: BTreeSet::new() };
    for (name, expected) in &index.files {
        let shard = path.with_file_name(name);
        match file::read(&shard, span) {
            Ok(content) => add(&mut reading, &shard, content, expected),
            Err(problem) => {
                reading.problems.push(*problem);
                reading.unread.extend(expected.iter().cloned());
            }
        }
    }
    reading
}

/// Adds what a file holds, which should be what the index expects of it.
fn add(reading: &mut Reading, shard: &Path, content: file::FileContent, expected: &BTreeSet<String>) {
    reading.problems.extend(content.problems);
    let there: BTreeSet<&str> = StateItem::all(&content.state).iter().map(|item| item.name).collect();
    for &name in there.iter().filter(|name| !expected.contains(**name)) {
        reading.problems.push(problem(shard, format!("{name} is in it, and not by the index")));
    }
    for name in expected.iter().filter(|name| !there.contains(name.as_str())) {
        reading.problems.push(problem(shard, format!("{name} is not in it, but by the index")));
        reading.unread.insert(name.clone());
    }
    let state = &mut reading.state;
    let tensors = content.state.iter().filter(|(name, _)| expected.contains(*name));
    let raw = content.state.raw_tensors().filter(|(name, _)| expected.contains(*name));
    let added = tensors.map(|(name, tensor)| state.insert(name, tensor)).collect::<Vec<_>>();
    let added = added.into_iter().chain(raw.map(|(name, raw)| state.insert_raw(name, raw)));
    let refused = added.filter_map(Result::err).map(|error| problem(shard, error));
    reading.problems.extend(refused);
    for (key, text) in content.state.metadata() {
        reading.state.metadata_mut().entry(key.clone()).or_insert_with(|| text.clone());
    }
}
