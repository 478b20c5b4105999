//! Temporary files, renamed when they are complete.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::base::system::process_id;

/// What surrounds the number in the name of a temporary file.
const AROUND: (&str, &str) = (".kiln-", ".tmp");

/// How many names are tried. They are random, so the second is already spare.
const TRIES: usize = 16;

/// A file under a random name of its own. Its process holds a lock on it, and
/// removes it unless it is renamed: one that nobody locks is the remains of a
/// process that was killed.
#[derive(Debug)]
pub struct Temporary {
    number: u64,
    path: PathBuf,
    file: File,
    renamed: bool,
}

impl Temporary {
    /// An empty file in a folder, which from its beginning is open to nobody
    /// to whom `permissions` do not open it.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn create(folder: &Path, permissions: Option<&Permissions>) -> io::Result<Temporary> {
        for _ in 0..TRIES {
            let number = RandomState::new().hash_one(process_id());
            let path = path_of(folder, number);
            match create_new(&path, permissions).map(|file| lock(&path, file)) {
                Ok(Some(file)) => return Ok(Temporary { number, path, file, renamed: false }),
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "no name for a temporary file is free"))
    }

    /// The number in its name, which no other file has or had.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Appends `parts`, one after the other.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        parts.iter().try_for_each(|part| self.file.write_all(part))
    }

    /// Brings the content to the disk.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    /// Gives the file its name, in the place of one that may have it.
    ///
    /// # Errors
    /// Those of the file system. The temporary file is then gone.
    pub fn rename(mut self, path: &Path, permissions: Option<&Permissions>) -> io::Result<()> {
        restore(&self.file, permissions)?;
        fs::rename(&self.path, path)?;
        self.renamed = true;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.renamed {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn path_of(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{}{number:016x}{}", AROUND.0, AROUND.1))
}

fn is_temporary(name: &OsStr) -> bool {
    let inner = name.to_str().and_then(|name| name.strip_prefix(AROUND.0)?.strip_suffix(AROUND.1));
    inner.is_some_and(|digits| digits.len() == 16 && u64::from_str_radix(digits, 16).is_ok())
}

/// A new file for writing, open to nobody to whom `permissions` do not open
/// it.
///
/// # Errors
/// Those of the file system, and a name that is taken.
pub fn create_new(path: &Path, permissions: Option<&Permissions>) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if let Some(permissions) = permissions {
        use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
        options.mode(permissions.mode() & 0o777);
    }
    #[cfg(not(unix))]
    let _ = permissions;
    options.open(path)
}

/// Gives a new file exactly these permissions.
///
/// # Errors
/// Those of the file system.
pub fn restore(file: &File, permissions: Option<&Permissions>) -> io::Result<()> {
    match permissions {
        Some(permissions) if file.metadata()?.permissions() != *permissions => {
            file.set_permissions(permissions.clone())
        }
        Some(_) | None => Ok(()),
    }
}

/// Locks a new file. `None` if somebody took it for abandoned before. Where
/// there are no locks, no file is ever taken for abandoned.
fn lock(path: &Path, file: File) -> Option<File> {
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => None,
        Ok(()) | Err(TryLockError::Error(_)) => path.exists().then_some(file),
    }
}

/// The file, locked, if it is certain that nobody else holds it.
fn abandoned(path: &Path) -> Option<File> {
    let file = File::open(path).ok()?;
    file.try_lock().is_ok().then_some(file)
}

/// Whether the temporary file of this number is there, and its process may be
/// alive.
pub fn is_held(folder: &Path, number: u64) -> bool {
    let path = path_of(folder, number);
    path.exists() && abandoned(&path).is_none()
}

/// Removes the temporary files that killed processes left in a folder, as far
/// as the system lets it.
pub fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if !is_file || !is_temporary(&entry.file_name()) {
            continue;
        }
        let path = entry.path();
        // Its name is never used again: what is removed is what was locked.
        if let Some(_locked) = abandoned(&path) {
            let _ = fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("kiln-temporary-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn a_file_in_use_is_not_swept_and_one_that_nobody_holds_is() {
        let folder = folder("sweep");
        let held = Temporary::create(&folder, None).unwrap();
        let left = path_of(&folder, 7);
        for path in [&left, &folder.join("model.tmp"), &folder.join(".kiln-7.tmp")] {
            fs::write(path, "half").unwrap();
        }
        assert!(is_held(&folder, held.number()) && !is_held(&folder, 7) && !is_held(&folder, 8));
        sweep(&folder);
        assert!(held.path.exists() && !left.exists());
        assert!(folder.join("model.tmp").exists() && folder.join(".kiln-7.tmp").exists());
        let path = held.path.clone();
        drop(held);
        assert!(!path.exists());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn threads_that_create_and_sweep_lose_no_file() {
        let folder = folder("race");
        let work = |thread: usize| {
            for round in 0..200 {
                let path = folder.join(format!("{thread}-{round}"));
                let mut file = Temporary::create(&folder, None).unwrap();
                file.write(&[b"whole"]).unwrap();
                sweep(&folder);
                file.rename(&path, None).unwrap();
                assert_eq!(fs::read(&path).unwrap(), b"whole");
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|thread| drop(scope.spawn(move || work(thread)))));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 800);
        fs::remove_dir_all(&folder).unwrap();
    }
}
