//! The files of one sharded save. Each save has names of its own, so that an
//! index never leads to a mix of two: the old index leads to the old files
//! until the new index takes its place, which is one rename.
//!
//! The number in the names is that of the temporary file that becomes the
//! index. While somebody holds that, the files of this number belong to a save
//! under way. When nobody does, and the index leads elsewhere, they are what a
//! killed or an older save left.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::base::file::{Folder, ReplaceTarget, folder_of};
use crate::base::temporary::{self, Temporary};
use crate::io::index::ShardIndex;

/// A sharded save under way. Dropped before it is finished, it takes its files
/// away.
pub struct Generation {
    /// What the names of all its files begin with.
    stem: String,
    /// The index's name, and where that leads.
    path: PathBuf,
    target: ReplaceTarget,
    index: Temporary,
    /// What the old index leads to, and the permissions of that.
    old: BTreeSet<String>,
    permissions: Option<Permissions>,
    shards: Shards,
}

/// Files that are removed when dropped.
#[derive(Default)]
struct Shards(Vec<PathBuf>);

impl Drop for Shards {
    fn drop(&mut self) {
        self.0.iter().for_each(|path| drop(fs::remove_file(path)));
    }
}

impl Generation {
    /// Begins a save whose index is `stem.safetensors.index.json` beside `path`.
    ///
    /// # Errors
    /// Those of the file system, and an index that is not a file.
    pub fn begin(path: &Path, stem: &str) -> io::Result<Generation> {
        let path = path.with_file_name(format!("{stem}.safetensors.index.json"));
        let target = ReplaceTarget::of(&path)?;
        let index = target.temporary()?;
        let old: BTreeSet<String> = files_of(&path).unwrap_or_default();
        let before = old.first().and_then(|name| fs::metadata(path.with_file_name(name)).ok());
        let permissions = before.map(|before| before.permissions());
        Ok(Generation { stem: stem.into(), path, target, index, old, permissions, shards: Shards::default() })
    }

    /// Where the index will be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes shard `number` of `count`, and gives its name.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write(&mut self, number: usize, count: usize, parts: &[Cow<'_, [u8]>]) -> io::Result<String> {
        let path = self.path.with_file_name(shard_name(&self.stem, self.index.number(), number, count));
        self.shards.0.push(path.clone());
        write_shard(&path, self.permissions.as_ref(), parts)
    }

    /// The number in the names of its files.
    pub fn number(&self) -> u64 {
        self.index.number()
    }

    /// Puts the index in place, and removes what nothing leads to any more.
    ///
    /// # Errors
    /// Those of the file system. All is then as before; except that the folder
    /// may not be brought to the disk after the index has taken its place.
    pub fn finish(mut self, index: &ShardIndex) -> io::Result<()> {
        let text = index.to_text();
        // Before an index leads to the shards, they are on the disk.
        Folder::open(folder_of(&self.path))?.sync()?;
        let folder = Folder::open(self.target.folder())?;
        self.index.write(&[text.as_bytes()])?;
        self.index.sync()?;
        self.target.take(self.index)?;
        self.shards.0.clear();
        folder.sync()?;
        // Until the new index is on the disk, the old one may come back.
        clean(&self.path, &self.stem, self.target.folder(), &self.old);
        temporary::sweep(self.target.folder());
        Ok(())
    }
}

/// The name of shard `number` of `count`, of the save of a number.
pub fn shard_name(stem: &str, save: u64, number: usize, count: usize) -> String {
    format!("{stem}-{save:016x}-{number:05}-of-{count:05}.safetensors")
}

/// Writes a shard, and gives its name.
///
/// # Errors
/// Those of the file system.
pub fn write_shard(
    path: &Path,
    permissions: Option<&Permissions>,
    parts: &[Cow<'_, [u8]>],
) -> io::Result<String> {
    let mut file = temporary::create_new(path, permissions)?;
    parts.iter().try_for_each(|part| file.write_all(part))?;
    temporary::restore(&file, permissions)?;
    file.sync_all()?;
    Ok(path.file_name().and_then(OsStr::to_str).unwrap_or_default().into())
}

/// The files that an index leads to.
fn files_of(index: &Path) -> Option<BTreeSet<String>> {
    Some(ShardIndex::read(index).ok()?.files.into_keys().collect())
}

/// Removes shards that neither the index nor a save under way has: those of
/// other saves of this library, and those of other libraries that the old
/// index led to.
fn clean(index: &Path, stem: &str, temporaries: &Path, old: &BTreeSet<String>) {
    let ended = |name: &String| match Owner::of(name, stem) {
        Some(Owner::Save(number)) => !temporary::is_held(temporaries, number),
        Some(Owner::Other) => old.contains(name),
        None => false,
    };
    let names = fs::read_dir(folder_of(index)).into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let ended: Vec<String> = names.filter(ended).collect();
    // Looked at after that: a save that has ended has put its index there.
    let Some(current) = files_of(index) else { return };
    for name in ended.iter().filter(|name| !current.contains(*name)) {
        let _ = fs::remove_file(index.with_file_name(name));
    }
}

/// Who wrote a shard, by its name.
#[derive(Debug, PartialEq)]
enum Owner {
    /// The save of this number.
    Save(u64),
    /// Another library: `model-00001-of-00002.safetensors`.
    Other,
}

impl Owner {
    /// `None` for a name that is not a shard's, or one of another stem.
    fn of(name: &str, stem: &str) -> Option<Owner> {
        let digits = |text: &str| text.len() >= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
        let name = name.strip_prefix(stem)?.strip_prefix('-')?.strip_suffix(".safetensors")?;
        let (name, count) = name.rsplit_once("-of-")?;
        let (save, number) = name.rsplit_once('-').unwrap_or(("", name));
        if !digits(count) || !digits(number) {
            return None;
        }
        if name == number {
            return Some(Owner::Other);
        }
        let number = u64::from_str_radix(save, 16).ok()?;
        (save == format!("{number:016x}")).then_some(Owner::Save(number))
    }
}

/// The stem of the name under which a state is saved.
pub fn stem_of(path: &Path) -> Option<&str> {
    path.file_stem().and_then(OsStr::to_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_of_a_shard_is_in_its_name() {
        let of = |name| Owner::of(name, "m");
        assert_eq!(of("m-00000000000000ff-00001-of-00002.safetensors"), Some(Owner::Save(255)));
        assert_eq!(of("m-00001-of-00002.safetensors"), Some(Owner::Other));
        for other in [
            "m.safetensors",
            "m-00001.safetensors",
            "n-00001-of-00002.safetensors",
            "mm-00001-of-00002.safetensors",
            "m-ema-00001-of-00002.safetensors",
            "m-ema-00000000000000ff-00001-of-00002.safetensors",
            "m-+0000000000000ff-00001-of-00002.safetensors",
            "m-ff-00001-of-00002.safetensors",
            "m--00001-of-00002.safetensors",
            "m-00001-of-00002.safetensors.bak",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
