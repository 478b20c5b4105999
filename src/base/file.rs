//! Atomic replacement of files.

use std::fs::{self, File, FileType, Permissions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::base::temporary::{self, Temporary};

/// How sure a replaced file is to survive a crash of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The system writes it when it pleases: for what can be made anew.
    Cache,
    /// On the disk before the old file is gone.
    Synced,
}

/// Writes `parts`, one after the other, to a temporary file beside `path`,
/// which then takes that name: whoever reads it sees the old file or the new
/// one. [`ReplaceTarget`] says what happens to links and permissions.
///
/// # Errors
/// Those of the file system, and a name that is not a file's. The old file is
/// then as it was, and the temporary one is gone; except that the folder may
/// not be brought to the disk after the new file has taken its place.
pub fn replace(path: &Path, parts: &[&[u8]], durability: Durability) -> io::Result<()> {
    let target = ReplaceTarget::of(path)?;
    let mut file = target.temporary()?;
    file.write(parts)?;
    match durability {
        Durability::Cache => target.take(file),
        Durability::Synced => {
            let folder = Folder::open(target.folder())?;
            file.sync()?;
            target.take(file)?;
            temporary::sweep(target.folder());
            folder.sync()
        }
    }
}

/// Where a file will be.
#[derive(Debug)]
pub struct ReplaceTarget {
    path: PathBuf,
    /// Those of the file that is there.
    permissions: Option<Permissions>,
}

impl ReplaceTarget {
    /// Where a file of this name would be: for a symbolic link, what it leads
    /// to, so that the link stays. The new file has the old one's permissions.
    ///
    /// # Errors
    /// Something else than a file of this name, or those of the file system.
    pub fn of(path: &Path) -> io::Result<ReplaceTarget> {
        match fs::metadata(path) {
            Ok(found) if found.is_file() => {
                Ok(ReplaceTarget { path: fs::canonicalize(path)?, permissions: Some(found.permissions()) })
            }
            Ok(found) => Err(not_a_file(found.file_type())),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Ok(ReplaceTarget { path: end_of_links(path)?, permissions: None })
            }
            Err(error) => Err(error),
        }
    }

    /// The folder it is in.
    pub fn folder(&self) -> &Path {
        folder_of(&self.path)
    }

    /// A temporary file in the same folder.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn temporary(&self) -> io::Result<Temporary> {
        Temporary::create(self.folder(), self.permissions.as_ref())
    }

    /// Puts a temporary file there.
    ///
    /// # Errors
    /// Those of the file system. The old file is then as it was.
    pub fn take(&self, file: Temporary) -> io::Result<()> {
        file.rename(&self.path, self.permissions.as_ref())
    }
}

/// A folder, for bringing it to the disk: a name is there once its folder is.
#[derive(Debug)]
pub struct Folder(Option<File>);

impl Folder {
    /// Opens a folder. Only Unix can.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn open(path: &Path) -> io::Result<Folder> {
        if cfg!(unix) { File::open(path).map(Some).map(Folder) } else { Ok(Folder(None)) }
    }

    /// Brings the names in it to the disk, where the file system knows how.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn sync(&self) -> io::Result<()> {
        match self.0.as_ref().map_or(Ok(()), File::sync_all) {
            Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => Ok(()),
            done => done,
        }
    }
}

/// The folder that a file of this name is in.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Follows symbolic links to a name that is not there.
fn end_of_links(path: &Path) -> io::Result<PathBuf> {
    /// As many as Linux follows.
    const LINKS: usize = 40;
    let mut path = path.to_path_buf();
    for _ in 0..LINKS {
        match fs::read_link(&path) {
            Ok(next) => path = folder_of(&path).join(next),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

/// Fails unless a name leads to a file: reading a pipe waits for who writes
/// to it, and a device has no end.
///
/// # Errors
/// Something else than a file, or those of the file system.
pub fn expect_file(path: &Path) -> io::Result<()> {
    let found = fs::metadata(path)?;
    if found.is_file() { Ok(()) } else { Err(not_a_file(found.file_type())) }
}

fn not_a_file(found: FileType) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, format!("expected a regular file, found {}", kind(found)))
}

fn kind(found: FileType) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if found.is_fifo() {
            return "a pipe";
        } else if found.is_socket() {
            return "a socket";
        } else if found.is_char_device() || found.is_block_device() {
            return "a device";
        }
    }
    if found.is_dir() { "a folder" } else { "something else" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_nothing() {
        let folder = std::env::temp_dir().join(format!("kiln-file-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("taken")).unwrap();
        let refused = replace(&folder.join("taken"), &[b"new"], Durability::Synced).unwrap_err();
        assert_eq!(refused.to_string(), "expected a regular file, found a folder");
        let target = ReplaceTarget::of(&folder.join("file")).unwrap();
        // The name is taken by a folder after it was looked at.
        fs::create_dir_all(folder.join("file/inner")).unwrap();
        assert!(target.take(target.temporary().unwrap()).is_err());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
        fs::remove_dir_all(&folder).unwrap();
    }
}
