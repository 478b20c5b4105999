//! A sharded save whose files are written by several processes: one begins and finishes it, each writes a file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::base::{Result, Span};
use crate::io::door::failed;
use crate::io::file;
use crate::io::generation::{Generation, shard_name, stem_of, write_shard};
use crate::io::index::ShardIndex;
use crate::io::state_dict::StateDict;

/// A save under way, in the process that began it.
pub(crate) struct ShardSet(Generation);

/// A file of a save, which is removed unless an index leads to it.
pub(crate) struct WrittenShard {
    path: PathBuf,
    index: PathBuf,
    text: String,
}

/// Between what a [`WrittenShard`] says: no name of a file has it.
pub(crate) const SEPARATOR: char = '\0';

impl ShardSet {
    /// Begins a save.
    pub fn begin(path: &Path, span: Span) -> Result<ShardSet> {
        let begun = Generation::begin(path, stem(path, span)?);
        begun.map(ShardSet).map_err(|error| failed(path, error, span))
    }

    /// What the names of its files hold.
    pub fn number(&self) -> u64 {
        self.0.number()
    }

    /// Writes a file of the save of a number, the how many-th of how many.
    pub fn write(
        path: &Path,
        save: u64,
        (number, count): (usize, usize),
        state: &StateDict,
        span: Span,
    ) -> Result<WrittenShard> {
        let (items, bytes) = state.items(path, span)?;
        let parts = file::parts(path, &items, state.metadata(), span)?;
        let stem = stem(path, span)?;
        let shard = path.with_file_name(shard_name(stem, save, number, count));
        let index = path.with_file_name(format!("{stem}.safetensors.index.json"));
        let mut written = WrittenShard { path: shard.clone(), index, text: String::new() };
        let name = write_shard(&shard, None, &parts).map_err(|error| failed(path, error, span))?;
        let said =
            [name, bytes.to_string()].into_iter().chain(items.iter().map(|item| item.name.to_string()));
        written.text = said.collect::<Vec<String>>().join(&SEPARATOR.to_string());
        Ok(written)
    }

    /// Puts an index in place that leads to all files, as their writers describe them.
    pub fn finish(self, written: &[String], span: Span) -> Result<()> {
        let mut index = ShardIndex { bytes: 0, files: BTreeMap::new() };
        for text in written {
            let mut said = text.split(SEPARATOR);
            let (file, bytes) = (said.next().unwrap_or_default(), said.next().unwrap_or_default());
            index.bytes += bytes.parse::<usize>().unwrap_or_default();
            // A file without tensors is in no index.
            let names: BTreeSet<String> = said.map(String::from).collect();
            if !names.is_empty() {
                index.files.insert(file.into(), names);
            }
        }
        let path = self.0.path().to_path_buf();
        self.0.finish(&index).map_err(|error| failed(&path, error, span))
    }
}

impl WrittenShard {
    /// The file's name, its bytes, and the names in it.
    pub fn text(&self) -> String {
        self.text.clone()
    }
}

impl Drop for WrittenShard {
    fn drop(&mut self) {
        let name = self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !ShardIndex::read(&self.index).is_ok_and(|index| index.files.contains_key(name)) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn stem(path: &Path, span: Span) -> Result<&str> {
    stem_of(path).ok_or_else(|| failed(path, "expected the name of a file", span))
}
