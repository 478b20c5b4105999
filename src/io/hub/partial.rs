//! A blob that is being downloaded.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use ring::digest::{Context, SHA256};

use crate::base::HubProblem;
use crate::base::file::folder_of;
use crate::base::system::process_id;

/// How often a lock that another process holds is tried.
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// Bytes of a read.
const CHUNK: usize = 1 << 17;

/// The beginning of a blob in a file beside it, which is the blob once it is complete. One process at a time has
/// it: two that append would mix what they get.
#[derive(Debug)]
pub struct PartialBlob {
    path: PathBuf,
    file: File,
    length: u64,
    /// Held as long as the file is written; `None` where there are no locks. The file is then nobody else's.
    lock: Option<File>,
}

impl Drop for PartialBlob {
    fn drop(&mut self) {
        if self.lock.is_none() {
            // Nobody will find its name again.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The error of a file of the cache.
pub fn failed(path: &Path) -> impl Fn(io::Error) -> HubProblem {
    |error| HubProblem::Cache { path: path.display().to_string(), message: error.to_string() }
}

impl PartialBlob {
    /// What was left of the blob at `blob`. Waits for another process that downloads it, and tells how far that
    /// is; `None` if it has all of it.
    ///
    /// # Errors
    /// Those of the file system; a process that gets nothing.
    pub fn open(
        blob: &Path,
        lock: &Path,
        patience: Duration,
        waiting: impl Fn(u64),
    ) -> Result<Option<PartialBlob>, HubProblem> {
        for path in [blob, lock] {
            fs::create_dir_all(folder_of(path)).map_err(failed(path))?;
        }
        let beside = |end: String| blob.with_added_extension(end);
        let shared = beside("incomplete".into());
        let lock = wait_for(lock, &shared, patience, waiting)?;
        if blob.exists() {
            return Ok(None);
        }
        let own = || beside(format!("{:016x}.incomplete", RandomState::new().hash_one(process_id())));
        let path = if lock.is_some() { shared } else { own() };
        let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let file = open.map_err(failed(&path))?;
        let length = file.metadata().map_err(failed(&path))?.len();
        Ok(Some(PartialBlob { path, file, length, lock }))
    }

    /// Bytes that are there.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Forgets all after the first `length` bytes.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn cut(&mut self, length: u64) -> Result<(), HubProblem> {
        let cut = self.file.set_len(length).and_then(|()| self.file.seek(SeekFrom::Start(length)));
        self.length = cut.map_err(failed(&self.path))?;
        Ok(())
    }

    /// Appends.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), HubProblem> {
        self.file.write_all(bytes).map_err(failed(&self.path))?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Makes it the blob.
    ///
    /// # Errors
    /// Those of the file system; a hash that is another, after which it is gone.
    pub fn finish(mut self, blob: &Path, sha256: Option<&str>) -> Result<(), HubProblem> {
        if let Some(expected) = sha256 {
            let found = self.sha256().map_err(failed(&self.path))?;
            if found != expected {
                let _ = fs::remove_file(&self.path);
                return Err(HubProblem::Corrupt { expected: expected.into(), found });
            }
        }
        self.file.sync_all().and_then(|()| fs::rename(&self.path, blob)).map_err(failed(&self.path))
    }

    fn sha256(&mut self) -> io::Result<String> {
        let (mut hash, mut chunk) = (Context::new(&SHA256), vec![0; CHUNK]);
        self.file.seek(SeekFrom::Start(0))?;
        loop {
            let count = self.file.read(&mut chunk)?;
            if count == 0 {
                return Ok(hash.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect());
            }
            hash.update(&chunk[..count]);
        }
    }
}

/// Takes a lock, for which it waits as long as the file behind it grows. `None` where there are no locks.
fn wait_for(
    path: &Path,
    growing: &Path,
    patience: Duration,
    waiting: impl Fn(u64),
) -> Result<Option<File>, HubProblem> {
    let file =
        OpenOptions::new().write(true).create(true).truncate(false).open(path).map_err(failed(path))?;
    let (mut length, mut since) = (None, Instant::now());
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::Error(_)) => return Ok(None),
            Err(TryLockError::WouldBlock) => {}
        }
        let found = fs::metadata(growing).ok().map(|found| found.len());
        if found != length {
            (length, since) = (found, Instant::now());
            found.into_iter().for_each(&waiting);
        } else if since.elapsed() >= patience {
            return Err(HubProblem::Busy { lock: path.display().to_string(), after: patience });
        }
        thread::sleep(LOCK_PAUSE);
    }
}
