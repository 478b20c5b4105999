//! A file of events: TFRecords, whose parts have checksums.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::base::{Error, Result, Span};
use crate::io::tensorboard::event::{self, Value};

/// What is added reaches the disk after this time at the latest, if more is added.
const FLUSH_AFTER: Duration = Duration::from_secs(10);

/// A file that grows. Dropping it writes what was added, and cannot tell a failure.
#[derive(Debug)]
pub(super) struct EventFile {
    path: PathBuf,
    out: BufWriter<File>,
    flushed: Instant,
}

impl EventFile {
    /// A new file in a folder.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn create(folder: &Path, span: Span) -> Result<EventFile> {
        let path = folder.join(name());
        let file = fs::create_dir_all(folder).and_then(|()| File::create_new(&path));
        let file = file.map_err(|error| file_error(&path, error.to_string(), span))?;
        let mut file = EventFile { path, out: BufWriter::new(file), flushed: Instant::now() };
        let first = write_record(&mut file.out, &event::version());
        file.checked(first, span)?;
        file.flush(span)?;
        Ok(file)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds one value.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn add(&mut self, tag: &str, value: &Value, step: i64, span: Span) -> Result<()> {
        let written = write_record(&mut self.out, &event::summary(tag, value, step));
        self.checked(written, span)?;
        if self.flushed.elapsed() >= FLUSH_AFTER { self.flush(span) } else { Ok(()) }
    }

    /// Writes what was added.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn flush(&mut self, span: Span) -> Result<()> {
        self.flushed = Instant::now();
        let written = self.out.flush();
        self.checked(written, span)
    }

    fn checked(&self, written: io::Result<()>, span: Span) -> Result<()> {
        written.map_err(|error| self.error(error.to_string(), span))
    }

    pub fn error(&self, message: String, span: Span) -> Error {
        file_error(&self.path, message, span)
    }
}

fn file_error(path: &Path, message: String, span: Span) -> Error {
    Error::File { path: path.display().to_string(), message, span }
}

/// `events.out.tfevents.SECONDS.HOST.PROCESS.NUMBER`: TensorBoard reads a folder's files in this order.
fn name() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("events.out.tfevents.{seconds:010}.{}.{}.{number}", host(), std::process::id())
}

/// The machine's name, as far as it can be told without a system call.
fn host() -> String {
    let files = ["/proc/sys/kernel/hostname", "/etc/hostname"];
    let from_file = files.iter().find_map(|path| fs::read_to_string(path).ok());
    let from_environment = || ["HOSTNAME", "COMPUTERNAME"].iter().find_map(|name| std::env::var(name).ok());
    let name = from_file.or_else(from_environment).unwrap_or_default();
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name: String = name.trim().chars().map(allowed).collect();
    if name.is_empty() { "localhost".into() } else { name }
}

/// Length, its checksum, data, their checksum.
fn write_record(out: &mut impl Write, data: &[u8]) -> io::Result<()> {
    let length = (data.len() as u64).to_le_bytes();
    out.write_all(&length)?;
    out.write_all(&masked_crc(&length).to_le_bytes())?;
    out.write_all(data)?;
    out.write_all(&masked_crc(data).to_le_bytes())
}

/// A CRC-32C that stays sound where data contain checksums themselves, as TensorFlow's record writer has it.
fn masked_crc(data: &[u8]) -> u32 {
    crc32c::crc32c(data).rotate_right(15).wrapping_add(0xa282_ead8)
}
