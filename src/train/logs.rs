//! Logs in files.

use std::fs::{File, OpenOptions};
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};

use crate::base::{Error, Result, Span};
#[cfg(feature = "tensorboard")]
use crate::io::tensorboard::SummaryWriter;
use crate::profile::json::{Object, optional};
#[cfg(feature = "tensorboard")]
use crate::train::record::Summary;
use crate::train::record::{Logger, Record};

/// A file to which lines are added.
#[derive(Debug)]
struct Lines {
    path: PathBuf,
    file: File,
    span: Span,
}

impl Lines {
    fn open(path: &Path, span: Span) -> Result<Lines> {
        let failed = |error: std::io::Error| failed(path, &error, span);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        let file = OpenOptions::new().create(true).append(true).open(path).map_err(failed)?;
        Ok(Lines { path: path.to_path_buf(), file, span })
    }

    fn is_empty(&mut self) -> Result<bool> {
        let end = self.file.seek(std::io::SeekFrom::End(0));
        end.map(|end| end == 0).map_err(|error| failed(&self.path, &error, self.span))
    }

    /// Adds text in one write, so that a program that is killed leaves whole lines.
    fn add(&mut self, text: &str) -> Result<()> {
        self.file.write_all(text.as_bytes()).map_err(|error| failed(&self.path, &error, self.span))
    }
}

fn failed(path: &Path, error: &std::io::Error, span: Span) -> Error {
    Error::File { path: path.display().to_string(), message: error.to_string(), span }
}

/// Records as comma-separated values, a number a row: `seconds,epoch,step,phase,name,value`. Rows are added to
/// a file that is there, as when a training is resumed.
///
/// # Examples
/// ```
/// use kiln::train::{CsvLog, Logger, Phase, Record, Scores};
/// let path = std::env::temp_dir().join(format!("kiln-log-{}.csv", std::process::id()));
/// let scores = Scores { values: vec![("loss".into(), 0.25)], ..Scores::default() };
/// CsvLog::open(&path)?.record(&Record { phase: Phase::Train, epoch: 0, step: 50, seconds: 1.5, scores })?;
/// let text = std::fs::read_to_string(&path).expect("a log");
/// assert_eq!(text, "seconds,epoch,step,phase,name,value\n1.500,0,50,train,loss,0.25\n");
/// # std::fs::remove_file(path).ok();
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Debug)]
pub struct CsvLog(Lines);

impl CsvLog {
    /// In a file, which is made if need be, and its folder too.
    ///
    /// # Errors
    /// [`Error::File`].
    #[track_caller]
    pub fn open(path: impl AsRef<Path>) -> Result<CsvLog> {
        let mut lines = Lines::open(path.as_ref(), Span::caller())?;
        if lines.is_empty()? {
            lines.add("seconds,epoch,step,phase,name,value\n")?;
        }
        Ok(CsvLog(lines))
    }
}

impl Logger for CsvLog {
    fn record(&mut self, record: &Record) -> Result<()> {
        let Record { phase, epoch, step, seconds, scores } = record;
        let row = |(name, value): &(String, f64)| {
            format!("{seconds:.3},{epoch},{step},{},{},{value}\n", phase.name(), field(name))
        };
        self.0.add(&scores.values.iter().map(row).collect::<String>())
    }
}

/// A text as a field.
fn field(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.into()
    }
}

/// Records as JSON, one a line: `seconds`, `epoch`, `step`, `phase`, and `values` by name; a value that is not
/// finite is `null`. Lines are added to a file that is there.
///
/// # Examples
/// ```
/// use kiln::train::{JsonLog, Logger, Phase, Record, Scores};
/// let path = std::env::temp_dir().join(format!("kiln-log-{}.jsonl", std::process::id()));
/// let scores = Scores { values: vec![("loss".into(), 0.25), ("lr".into(), f64::NAN)], ..Scores::default() };
/// JsonLog::open(&path)?.record(&Record { phase: Phase::Train, epoch: 0, step: 50, seconds: 1.5, scores })?;
/// let text = std::fs::read_to_string(&path).expect("a log");
/// let line = r#"{"seconds": 1.5, "epoch": 0, "step": 50, "phase": "train", "values": {"loss": 0.25, "lr": null}}"#;
/// assert_eq!(text, format!("{line}\n"));
/// # std::fs::remove_file(path).ok();
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Debug)]
pub struct JsonLog(Lines);

impl JsonLog {
    /// In a file, which is made if need be, and its folder too.
    ///
    /// # Errors
    /// [`Error::File`].
    #[track_caller]
    pub fn open(path: impl AsRef<Path>) -> Result<JsonLog> {
        Lines::open(path.as_ref(), Span::caller()).map(JsonLog)
    }
}

impl Logger for JsonLog {
    fn record(&mut self, record: &Record) -> Result<()> {
        let value = |values: Object, (name, value): &(String, f64)| {
            values.named(name, optional(value.is_finite().then_some(value)))
        };
        let line = Object::new()
            .value("seconds", record.seconds)
            .value("epoch", record.epoch)
            .value("step", record.step)
            .text("phase", record.phase.name())
            .object("values", record.scores.values.iter().fold(Object::new(), value));
        self.0.add(&(line.end() + "\n"))
    }
}

/// Each value is a curve: `loss/train`, `accuracy/validation`.
#[cfg(feature = "tensorboard")]
impl Logger for SummaryWriter {
    fn record(&mut self, record: &Record) -> Result<()> {
        let mut add = |(name, value): &(String, f64)| {
            self.add_scalar(&format!("{name}/{}", record.phase.name()), *value, record.step as i64)
        };
        record.scores.values.iter().try_for_each(&mut add)
    }
    fn finish(&mut self, _summary: &Summary) -> Result<()> {
        self.flush()
    }
}
