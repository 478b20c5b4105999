//! Files that are replaced whole or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// How sure a replaced file is to survive a crash of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The system writes it when it pleases: for what can be made anew.
    Cache,
    /// On the disk before the old file is gone.
    Synced,
}

/// Writes `parts`, one after the other, to a temporary file in the folder of
/// `path`, which then takes that name: whoever reads it sees the old file or
/// the new one.
///
/// # Errors
/// Those of the file system. The old file is then as it was, and the temporary
/// one is gone.
pub fn replace(path: &Path, parts: &[&[u8]], durability: Durability) -> io::Result<()> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let name = format!(".{}-{}.tmp", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    let folder = folder_of(path);
    let temporary = folder.join(name);
    let done = write(&temporary, parts, durability).and_then(|()| fs::rename(&temporary, path));
    if done.is_err() {
        let _ = fs::remove_file(&temporary);
    } else if durability == Durability::Synced {
        sync_folder(folder)?;
    }
    done
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn write(path: &Path, parts: &[&[u8]], durability: Durability) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    parts.iter().try_for_each(|part| file.write_all(part))?;
    if durability == Durability::Synced { file.sync_all() } else { Ok(()) }
}

/// A name is on the disk once its folder is; only Unix can say so.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}
