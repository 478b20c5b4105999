//! Compiled kernels on disk, so that another process need not compile them.
//!
//! A file holds the text of its key and the code, with their lengths and a
//! checksum: one that another key, a crash or a bad disk left is made anew. It
//! is written under a name of its own and then renamed, so that nobody reads
//! half of it. A disk that cannot be written costs time, never a result.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Once;

use crate::base::file::{Durability, replace};
use crate::base::temporary::sweep;

const MAGIC: &[u8; 8] = b"kilnbin1";

/// The code that belongs to `key`, from the folder or else from `make`. The
/// key must name everything that the code depends on.
///
/// # Errors
/// Those of `make`.
pub fn cached<E>(folder: &Path, key: &str, make: impl FnOnce() -> Result<Vec<u8>, E>) -> Result<Vec<u8>, E> {
    let path = path(folder, key);
    if let Some(code) = fs::read(&path).ok().and_then(|file| unpack(&file, key)) {
        return Ok(code);
    }
    let code = make()?;
    // Kept if it can be.
    let _ = write(folder, &path, &pack(key, &code));
    Ok(code)
}

fn path(folder: &Path, key: &str) -> PathBuf {
    folder.join(format!("{:016x}.bin", checksum(&[key.as_bytes()])))
}

fn checksum(parts: &[&[u8]]) -> u64 {
    let mut hasher = DefaultHasher::new();
    parts.iter().for_each(|part| part.hash(&mut hasher));
    hasher.finish()
}

fn pack(key: &str, code: &[u8]) -> Vec<u8> {
    let mut file = MAGIC.to_vec();
    file.extend((key.len() as u64).to_le_bytes());
    file.extend((code.len() as u64).to_le_bytes());
    file.extend(checksum(&[key.as_bytes(), code]).to_le_bytes());
    file.extend(key.as_bytes());
    file.extend(code);
    file
}

/// The code of a file, if it is whole and of this key.
fn unpack(file: &[u8], key: &str) -> Option<Vec<u8>> {
    let rest = file.strip_prefix(MAGIC)?;
    let (numbers, rest) = rest.split_at_checked(24)?;
    let number = |i: usize| Some(u64::from_le_bytes(numbers.get(8 * i..8 * i + 8)?.try_into().ok()?));
    let (own, code) = rest.split_at_checked(usize::try_from(number(0)?).ok()?)?;
    let whole =
        own == key.as_bytes() && number(1)? == code.len() as u64 && number(2)? == checksum(&[own, code]);
    whole.then(|| code.to_vec())
}

fn write(folder: &Path, path: &Path, file: &[u8]) -> std::io::Result<()> {
    static SWEPT: Once = Once::new();
    fs::create_dir_all(folder)?;
    SWEPT.call_once(|| sweep(folder));
    replace(path, &[file], Durability::Cache)
}

/// What a folder holds: keys, and the code of each.
#[cfg(test)]
pub fn entries(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let entry = |file: Vec<u8>| {
        let length = u64::from_le_bytes(file.get(8..16)?.try_into().ok()?) as usize;
        let key = String::from_utf8(file.get(32..32 + length)?.to_vec()).ok()?;
        Some((key.clone(), unpack(&file, &key)?))
    };
    files.filter_map(|file| entry(fs::read(file.path()).ok()?)).collect()
}

/// Puts code under a key, whatever was there.
#[cfg(test)]
pub fn put(folder: &Path, key: &str, code: &[u8]) {
    write(folder, &path(folder, key), &pack(key, code)).expect("a folder of a test's");
}

/// A test's folder, removed when it is dropped.
#[cfg(test)]
pub struct TempFolder(pub PathBuf);

#[cfg(test)]
impl TempFolder {
    /// A name for a folder of this process, which is not there yet.
    pub fn new(name: &str) -> TempFolder {
        let path = std::env::temp_dir().join(format!("kiln-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        TempFolder(path)
    }
}

#[cfg(test)]
impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(folder: &Path, key: &str, code: &[u8]) -> bool {
        let mut made = false;
        let found = cached(folder, key, || {
            made = true;
            Ok::<_, ()>(code.to_vec())
        });
        assert_eq!(found.unwrap(), code);
        made
    }

    #[test]
    fn code_is_made_once_for_each_key() {
        let folder = TempFolder::new("once");
        assert!(made(&folder.0, "a", b"one"));
        assert!(!made(&folder.0, "a", b"one"));
        assert!(made(&folder.0, "b", b"two"));
        assert!(!made(&folder.0, "b", b"two") && !made(&folder.0, "a", b"one"));
        let names = fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(names.into_iter().all(|name| name.to_string_lossy().ends_with(".bin")));
    }

    #[test]
    fn a_damaged_file_is_made_anew() {
        let folder = TempFolder::new("damaged");
        assert!(made(&folder.0, "a", b"some code"));
        let path = fs::read_dir(&folder.0).unwrap().next().unwrap().unwrap().path();
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            for bad in [&flipped[..], &whole[..at]] {
                fs::write(&path, bad).unwrap();
                assert!(made(&folder.0, "a", b"some code"), "a file damaged at byte {at} was used");
            }
        }
        assert!(!made(&folder.0, "a", b"some code"));
    }

    #[test]
    fn a_folder_that_cannot_be_written_costs_no_result() {
        let folder = TempFolder::new("file");
        fs::write(&folder.0, b"a file, no folder").unwrap();
        assert!(made(&folder.0, "a", b"one") && made(&folder.0, "a", b"one"));
        fs::remove_file(&folder.0).unwrap();
    }
}
