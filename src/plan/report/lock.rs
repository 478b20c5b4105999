//! A plan as a small text to keep beside tests, so that a change of fusion, memory or
//! transfers is seen in review.

use std::fmt::{self, Display};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::str::FromStr;

use crate::base::config::config;
use crate::base::file::{Durability, replace};
use crate::base::{Error, Result, Span};
use crate::plan::report::lock_diff::changes;
use crate::plan::report::repeats::{Repeat, repeats};
use crate::plan::report::table::grouped;
use crate::plan::report::{KernelReport, PlanReport};
use crate::schedule::TransferReason;

/// The first line of a file: what it is, and the number of its format.
const HEAD: &str = "kiln plan, format 1";

/// The names of figures in bytes.
const IN_BYTES: [&str; 3] = ["bytes", "memory", "peak memory"];

/// What a plan does, in text that is the same on every machine: the kernels in order by the operations that
/// the user called, with bytes and FLOPs, peak memory, copies and transfers. It has no addresses, times or
/// lines of the program, so only a change of the plan changes it.
///
/// Plans depend on the device's kind and features. On the CPU, rows that are few and long are split by the
/// number of threads (`KILN_THREADS`); plans for the null and meta devices depend on nothing.
///
/// [`assert_plan_locked!`](crate::assert_plan_locked) compares with a file. The files of JavaScript's and
/// Rust's snapshot tests are the model; PyTorch has no counterpart.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// let x = Tensor::empty([64, 64], Device::meta());
/// let (one, two) = (x.matmul(&x).relu().plan()?.lock(), x.matmul(&x).matmul(&x).plan()?.lock());
/// assert!(one.to_string().contains("matmul_relu[64, 64] on meta: reads 16,384 B, writes 16,384 B"));
/// assert!(one.changes_since(&one).is_none());
/// assert!(two.changes_since(&one).is_some_and(|text| text.contains("kernels: 1 -> 2 (+100 %)")));
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanLock {
    /// Figures of the whole, by name.
    pub(super) figures: Vec<Figure>,
    /// Kernels and transfers, one a row.
    pub(super) rows: Vec<String>,
}

/// A figure of a plan: a count, or bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Figure {
    pub name: String,
    pub value: u64,
}

impl Figure {
    fn new(name: impl Into<String>, value: u64) -> Figure {
        Figure { name: name.into(), value }
    }
    /// Whether it counts bytes.
    pub fn in_bytes(&self) -> bool {
        IN_BYTES.iter().any(|start| self.name.starts_with(start))
    }
}

impl PlanReport {
    /// The plan as text to keep; see [`PlanLock`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let lock = Tensor::empty([8], Device::meta()).exp().plan()?.lock();
    /// assert!(lock.to_string().contains("peak memory: 64 B"));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn lock(&self) -> PlanLock {
        PlanLock { figures: figures(self), rows: rows(self) }
    }
}

impl PlanLock {
    /// Reads what [`PlanLock::write`] wrote.
    ///
    /// # Errors
    /// [`Error::File`]: no such file, with how to make it, or one that is no plan.
    #[track_caller]
    pub fn read(path: impl AsRef<Path>) -> Result<PlanLock> {
        let (path, span) = (path.as_ref(), Span::caller());
        let failed = |message| Error::File { path: path.display().to_string(), message, span };
        let text = fs::read_to_string(path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => failed("there is no such plan yet; KILN_LOCK=write makes it".into()),
            _ => failed(error.to_string()),
        })?;
        text.parse().map_err(|error: Error| failed(error.to_string()))
    }

    /// Writes the text to a file, which is replaced whole, and makes its folder.
    ///
    /// # Errors
    /// [`Error::File`].
    ///
    /// # Examples
    /// ```
    /// use kiln::plan::report::PlanLock;
    /// use kiln::prelude::*;
    /// let path = std::env::temp_dir().join(format!("kiln-{}.plan", std::process::id()));
    /// let lock = Tensor::empty([8], Device::meta()).exp().plan()?.lock();
    /// lock.write(&path)?;
    /// assert_eq!(PlanLock::read(&path)?, lock);
    /// # std::fs::remove_file(path).unwrap();
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn write(&self, path: impl AsRef<Path>) -> Result<()> {
        let (path, span) = (path.as_ref(), Span::caller());
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let made = folder.map_or(Ok(()), fs::create_dir_all);
        let written = made.and_then(|()| replace(path, &[self.to_string().as_bytes()], Durability::Cache));
        written.map_err(|error| Error::File {
            path: path.display().to_string(),
            message: error.to_string(),
            span,
        })
    }

    /// What changed since a plan: figures that differ, and a line diff of kernels and transfers; `None` if
    /// nothing did.
    pub fn changes_since(&self, before: &PlanLock) -> Option<String> {
        (self != before).then(|| changes(before, self))
    }

    /// [`PlanLock::changes_since`] the plan in a file. With `KILN_LOCK=write` in the environment the file is
    /// written instead, and nothing has changed.
    ///
    /// # Errors
    /// As [`PlanLock::read`] and [`PlanLock::write`].
    #[track_caller]
    pub fn changes_since_file(&self, path: impl AsRef<Path>) -> Result<Option<String>> {
        if config().write_locks {
            return self.write(path).map(|()| None);
        }
        Ok(self.changes_since(&PlanLock::read(path)?))
    }
}

impl Display for PlanLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEAD}\n")?;
        for figure in &self.figures {
            let unit = if figure.in_bytes() { " B" } else { "" };
            writeln!(f, "{}: {}{unit}", figure.name, grouped(figure.value))?;
        }
        writeln!(f)?;
        for Repeat { start, period, times } in repeats(&self.rows) {
            if times > 1 {
                writeln!(f, "{times} times:")?;
            }
            let margin = if times > 1 { "  " } else { "" };
            self.rows[start..start + period].iter().try_for_each(|row| writeln!(f, "{margin}{row}"))?;
        }
        Ok(())
    }
}

impl FromStr for PlanLock {
    type Err = Error;
    /// Parses what [`Display`] prints.
    fn from_str(text: &str) -> Result<PlanLock> {
        let wrong = |expected: &str, found: &str| Error::Parse {
            what: "plan",
            expected: expected.into(),
            found: found.into(),
        };
        let mut lines = text.lines();
        let head = lines.next().unwrap_or_default();
        if head != HEAD {
            return Err(wrong(HEAD, head));
        }
        let mut lines = lines.skip_while(|line| line.is_empty());
        let figures = (lines.by_ref().take_while(|line| !line.is_empty()))
            .map(|line| figure(line).ok_or_else(|| wrong("a name and a number", line)))
            .collect::<Result<_>>()?;
        Ok(PlanLock { figures, rows: unfolded(lines) })
    }
}

fn figure(line: &str) -> Option<Figure> {
    let (name, value) = line.rsplit_once(": ")?;
    let value = value.trim_end_matches(" B").replace(',', "");
    Some(Figure::new(name, value.parse().ok()?))
}

/// The rows of a file, repeated ones as often as they are.
fn unfolded<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let (mut rows, mut run, mut times) = (Vec::new(), Vec::new(), 1);
    let end_run = |rows: &mut Vec<String>, run: &mut Vec<String>, times: usize| {
        (0..times).for_each(|_| rows.extend_from_slice(run));
        run.clear();
    };
    for line in lines {
        if let Some(row) = line.strip_prefix("  ") {
            run.push(row.to_string());
            continue;
        }
        end_run(&mut rows, &mut run, times);
        match line.strip_suffix(" times:").and_then(|times| times.parse().ok()) {
            Some(found) => times = found,
            None => rows.push(line.to_string()),
        }
    }
    end_run(&mut rows, &mut run, times);
    rows
}

fn figures(report: &PlanReport) -> Vec<Figure> {
    let copies: u64 = report.kernels.iter().filter(|k| k.is_copy).map(|k| k.launches).sum();
    let transfers: u64 = report.transfers.iter().map(|t| t.times).sum();
    let mut figures = vec![
        Figure::new("kernels", report.kernels.len() as u64),
        Figure::new("launches", report.launches()),
        Figure::new("launches that only copy", copies),
        Figure::new("flops", report.flops()),
        Figure::new("bytes read", report.bytes_loaded()),
        Figure::new("bytes written", report.bytes_stored()),
        Figure::new("transfers", transfers),
        Figure::new("bytes transferred", report.bytes_transferred()),
        Figure::new("peak memory", report.peak_bytes()),
    ];
    for m in &report.memory {
        let parts = [("inputs", m.inputs), ("results", m.results), ("intermediates", m.intermediates)];
        let part = |(name, value)| Figure::new(format!("memory on {}, {name}", m.device), value);
        figures.extend(parts.map(part));
    }
    figures
}

fn rows(report: &PlanReport) -> Vec<String> {
    let mut rows: Vec<String> = report.kernels.iter().map(kernel_row).collect();
    for t in &report.transfers {
        let reason = match t.reason {
            TransferReason::Requested => String::new(),
            reason => format!(", {reason}"),
        };
        let (times, bytes) = (times(t.times), grouped(t.bytes));
        rows.push(format!("transfer{times} {} -> {}: {bytes} B{reason}", t.from, t.to));
    }
    let dropped = |t: &super::DroppedTransfer| {
        format!("no transfer {} -> {}: {} B saved", t.from, t.to, grouped(t.bytes))
    };
    rows.extend(report.dropped_transfers.iter().map(dropped));
    let recomputed =
        |r: &super::Recomputed| format!("computed in {} kernels: {}{}", r.times, r.name, r.shape);
    rows.extend(report.recomputed.iter().map(recomputed));
    let again =
        |r: &super::Rematerialized| format!("recomputed{}: {}{}", times(r.times as u64), r.name, r.shape);
    rows.extend(report.rematerialized.iter().map(again));
    rows.extend(
        report.in_chunks.iter().map(|c| format!("computed in {} chunks: {}{}", c.chunks, c.name, c.shape)),
    );
    rows
}

fn kernel_row(kernel: &KernelReport) -> String {
    let [loaded, stored, flops] = [kernel.loaded, kernel.stored, kernel.flops].map(grouped);
    let KernelReport { name, shape, device, launches, .. } = kernel;
    format!(
        "{name}{shape} on {device}{}: reads {loaded} B, writes {stored} B, {flops} flop",
        times(*launches)
    )
}

fn times(n: u64) -> String {
    if n == 1 { String::new() } else { format!(" x{}", grouped(n)) }
}
