//! Sums as text.

use std::fmt::Write;
use std::time::Duration;

use crate::plan::report::{bytes, count};
use crate::plan::roofline::Seconds;
use crate::profile::averages::{Averages, GroupBy, Row, RowKind, SortBy};
use crate::profile::profile::DeviceProfile;

/// A column of a table.
struct Column<'a> {
    head: &'static str,
    /// Whether its entries are words, to the left, and not numbers.
    words: bool,
    entry: Box<dyn Fn(&Row) -> String + 'a>,
}

fn words<'a>(head: &'static str, entry: impl Fn(&Row) -> String + 'a) -> Column<'a> {
    Column { head, words: true, entry: Box::new(entry) }
}

fn number<'a>(head: &'static str, entry: impl Fn(&Row) -> String + 'a) -> Column<'a> {
    Column { head, words: false, entry: Box::new(entry) }
}

impl Averages {
    /// The most of something first, as text of at most so many rows a part: devices with a line each;
    /// kernels and transfers; what the host did; memory, if it was profiled. The part that the order is
    /// about comes first.
    ///
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::profile::{SortBy, profile};
    ///
    /// # fn main() -> kiln::Result<()> {
    /// let x = Tensor::ones([64, 64], ());
    /// let (_, profile) = profile(|| x.matmul(&x).realize().map(|_| ()))?;
    /// let text = profile.key_averages().table(SortBy::DeviceTime, 10);
    /// assert!(text.contains("matmul[64, 64]"), "{text}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn table(&self, sort: SortBy, row_limit: usize) -> String {
        let mut text = self.head();
        let of = |kinds: &[RowKind], sort: SortBy| -> Vec<&Row> {
            let rows = self.sorted(sort).into_iter();
            rows.filter(|row| kinds.contains(&row.kind) && worth(row)).collect()
        };
        // What an order says nothing of has its own.
        let of_host = if sort == SortBy::Calls { sort } else { SortBy::HostTime };
        let of_memory = if sort == SortBy::Allocated { sort } else { SortBy::Growth };
        let devices = (self.device_columns(), of(&[RowKind::Device, RowKind::Transfer], sort));
        let host = (self.host_columns(), of(&[RowKind::Host, RowKind::UserCode], of_host));
        let memory = (memory_columns(), of(&[RowKind::Memory], of_memory));
        let mut parts = [devices, host, memory];
        match sort {
            SortBy::DeviceTime | SortBy::Calls | SortBy::Bytes | SortBy::Ratio => {}
            SortBy::HostTime => parts.swap(0, 1),
            SortBy::Allocated | SortBy::Growth => parts.rotate_right(1),
        }
        for (columns, rows) in parts.iter().filter(|(_, rows)| !rows.is_empty()) {
            write_part(&mut text, columns, rows, row_limit);
        }
        text
    }

    /// The whole: a line for each device, and one for the profiler.
    fn head(&self) -> String {
        let profile = &self.profile;
        let mut text = String::new();
        for DeviceProfile { device, properties, busy, kernels, peak } in &profile.devices {
            let (share, sum) = (percent(*busy, profile.span), percent(*kernels, *busy));
            let _ = write!(
                text,
                "{device} ({}): busy {} of {} ({share}), ",
                properties.name,
                time(*busy),
                time(profile.span)
            );
            let _ = write!(text, "kernels add up to {sum} of that");
            if let Some(peak) = peak {
                let (moved, done) = (count(peak.bytes as u64), count(peak.flops as u64));
                let _ = write!(text, "; at most {moved}B/s, {done}flop/s");
            }
            text += "\n";
        }
        let overhead = percent(profile.overhead, profile.span);
        let _ = writeln!(text, "recording took about {} ({overhead})", time(profile.overhead));
        text
    }

    fn device_columns(&self) -> Vec<Column<'_>> {
        let total: Duration = self.rows.iter().map(|row| row.self_device_time).sum();
        let mut columns = match self.by {
            GroupBy::Kernel => vec![
                words("kernel", |row| row.name.clone()),
                words("device", |row| row.device.map_or(String::new(), |device| device.to_string())),
            ],
            GroupBy::Operation => vec![words("operation", |row| row.name.clone())],
            GroupBy::Line => vec![words("line", |row| row.name.clone())],
            GroupBy::Label => vec![words("label", |row| row.name.clone())],
        };
        columns.push(number("calls", |row| row.calls.to_string()));
        if self.by != GroupBy::Kernel {
            columns.push(number("total", |row| time(row.device_time)));
        }
        columns.extend([
            number("self", |row| time(row.self_device_time)),
            number("share", move |row| percent(row.self_device_time, total)),
            number("average", |row| time(row.average())),
            number("predicted", predicted_average),
            number("ratio", |row| row.ratio().map_or(String::new(), |ratio| format!("{ratio:.1}"))),
            number("host", |row| time(row.host_time)),
            number("moved", |row| bytes(row.bytes)),
            number("GB/s", |row| giga(row.bandwidth())),
            number("GFLOP/s", |row| giga(row.flop_rate())),
            number("of roof", |row| row.ratio().map_or(String::new(), |r| format!("{:.0} %", 100.0 / r))),
            number("memory", |row| bytes(row.allocated)),
        ]);
        if self.by == GroupBy::Line && self.profile.memory_events().next().is_some() {
            columns.push(number("growth", growth));
        }
        columns.push(match self.by {
            GroupBy::Line | GroupBy::Label => words("operations", |row| row.operations.join(", ")),
            GroupBy::Kernel | GroupBy::Operation => words("at", place),
        });
        columns
    }

    fn host_columns(&self) -> Vec<Column<'_>> {
        let span = self.profile.span;
        vec![
            words("host", |row| row.name.clone()),
            number("calls", |row| row.calls.to_string()),
            number("time", |row| time(row.host_time)),
            number("share", move |row| percent(row.host_time, span)),
            number("average", |row| time(row.host_time / row.calls.max(1) as u32)),
            words("at", place),
        ]
    }
}

fn memory_columns<'a>() -> Vec<Column<'a>> {
    vec![
        words("memory", |row| row.name.clone()),
        words("device", |row| row.device.map_or(String::new(), |device| device.to_string())),
        number("blocks", |row| row.calls.to_string()),
        number("allocated", |row| bytes(row.allocated)),
        number("growth", growth),
        words("at", place),
    ]
}

/// Whether a row has anything to say.
fn worth(row: &Row) -> bool {
    row.calls > 0 || !row.host_time.is_zero() || row.growth != 0
}

/// The user's line, or both ends of the user's code.
fn place(row: &Row) -> String {
    match (row.at, row.until) {
        (None, None) if row.kind == RowKind::UserCode => "before and after all else".into(),
        (at, None) if row.kind == RowKind::UserCode => at.map_or(String::new(), |at| format!("after {at}")),
        (Some(at), Some(until)) => format!("after {at}, before {until}"),
        (None, Some(until)) => format!("before {until}"),
        (Some(at), None) => at.to_string(),
        (None, None) => String::new(),
    }
}

fn predicted_average(row: &Row) -> String {
    row.predicted.map_or(String::new(), |all| time(all / row.calls.max(1) as u32))
}

fn growth(row: &Row) -> String {
    let sign = if row.growth < 0 { "-" } else { "+" };
    if row.growth == 0 { "0".into() } else { format!("{sign}{}", bytes(row.growth.unsigned_abs())) }
}

fn time(time: Duration) -> String {
    if time.is_zero() { "0".into() } else { Seconds(time.as_secs_f64()).to_string() }
}

fn percent(part: Duration, whole: Duration) -> String {
    let share = if whole.is_zero() { 0.0 } else { part.as_secs_f64() / whole.as_secs_f64() };
    format!("{:.1} %", 100.0 * share)
}

fn giga(rate: f64) -> String {
    if rate == 0.0 { String::new() } else { format!("{:.1}", rate / 1e9) }
}

/// Columns as wide as their widest entry: words to the left, numbers to the right. A column that nothing is
/// in is left out.
fn write_part(text: &mut String, columns: &[Column<'_>], rows: &[&Row], limit: usize) {
    let shown = &rows[..rows.len().min(limit)];
    let mut entries: Vec<Vec<String>> = vec![columns.iter().map(|column| column.head.into()).collect()];
    entries.extend(shown.iter().map(|row| columns.iter().map(|column| (column.entry)(row)).collect()));
    let is_used = |column: &usize| entries[1..].iter().any(|row| !matches!(&*row[*column], "" | "0" | "0 B"));
    let used: Vec<usize> = (0..columns.len()).filter(is_used).collect();
    let width = |&column: &usize| entries.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = used.iter().map(width).collect();
    let cell = |row: &[String], (&column, &width): (&usize, &usize)| match columns[column].words {
        true => format!("{:<width$}", row[column]),
        false => format!("{:>width$}", row[column]),
    };
    for (number, row) in entries.iter().enumerate() {
        let cells: Vec<String> = used.iter().zip(&widths).map(|at| cell(row, at)).collect();
        let _ = write!(text, "{}{}", if number == 0 { "\n" } else { "" }, cells.join("  ").trim_end());
        *text += "\n";
        let inside = number.checked_sub(1).and_then(|number| inside(shown[number]));
        if let Some(inside) = inside.filter(|_| columns[0].head == "kernel") {
            let _ = writeln!(text, "  of {inside}");
        }
    }
    let hidden = rows.len() - shown.len();
    if hidden > 0 {
        let _ = writeln!(text, ".. and {hidden} more");
    }
}

/// The operations that were fused into a kernel, where its name leaves some out.
fn inside(row: &Row) -> Option<String> {
    let name = row.name.trim_start_matches("grad_").split('[').next().unwrap_or_default();
    (row.operations.len() > 1 && row.operations.join("_") != name).then(|| row.operations.join(", "))
}
