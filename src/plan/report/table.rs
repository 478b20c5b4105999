//! A report as text.

use std::fmt::{self, Display};

use crate::plan::report::repeats::{Repeat, repeats};
use crate::plan::report::{KernelReport, PlanReport};
use crate::schedule::TransferReason;

impl Display for PlanReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kernels.is_empty() && self.transfers.is_empty() && self.collectives.is_empty() {
            return writeln!(f, "nothing to run: every value is in memory");
        }
        let rows: Vec<[String; 7]> = self.kernels.iter().map(row).collect();
        write_table(f, &rows)?;
        for t in &self.transfers {
            let times = times(t.times);
            let reason = if t.reason == TransferReason::Requested {
                String::new()
            } else {
                format!(" ({})", t.reason)
            };
            writeln!(f, "transfer{times} {} -> {}: {}{reason} at {}", t.from, t.to, bytes(t.bytes), t.at)?;
        }
        for c in &self.collectives {
            let meanwhile = match c.overlapped {
                0 => String::new(),
                1 => ", beside 1 kernel".into(),
                n => format!(", beside {n} kernels"),
            };
            let (name, group, given) = (&c.name, &c.group, bytes(c.bytes));
            writeln!(f, "{name} among {} ranks of {group}: {given}{meanwhile} at {}", c.ranks, c.at)?;
        }
        for t in &self.dropped_transfers {
            writeln!(f, "no transfer {} -> {}: {} saved at {}", t.from, t.to, bytes(t.bytes), t.at)?;
        }
        for r in &self.recomputed {
            writeln!(f, "recomputed in {} kernels: {}{} at {}", r.times, r.name, r.shape, r.at)?;
        }
        for r in &self.rematerialized {
            writeln!(f, "recomputed, first run at {}: {}{}{}", r.at, r.name, r.shape, times(r.times as u64))?;
        }
        for c in &self.in_chunks {
            writeln!(f, "in {} chunks: {}{} at {}", c.chunks, c.name, c.shape, c.at)?;
        }
        self.write_totals(f)
    }
}

impl PlanReport {
    fn write_totals(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.kernels.len() == 1 { "" } else { "s" };
        write!(f, "{} kernel{plural}", self.kernels.len())?;
        if self.launches() != self.kernels.len() as u64 {
            write!(f, ", launched {} times", self.launches())?;
        }
        let (loaded, stored) = (bytes(self.bytes_loaded()), bytes(self.bytes_stored()));
        writeln!(f, ": reads {loaded}, writes {stored}, {}flop", count(self.flops()))?;
        for m in &self.memory {
            let parts = [("inputs", m.inputs), ("results", m.results), ("intermediates", m.intermediates)];
            let parts = parts.map(|(name, n)| format!("{name} {}", bytes(n))).join(", ");
            writeln!(f, "peak memory on {}: {} ({parts})", m.device, bytes(m.peak()))?;
        }
        Ok(())
    }
}

fn row(kernel: &KernelReport) -> [String; 7] {
    [
        format!("{}{}", kernel.name, times(kernel.launches)),
        kernel.shape.to_string(),
        kernel.device.to_string(),
        bytes(kernel.loaded),
        bytes(kernel.stored),
        count(kernel.flops).trim_end().to_string(),
        kernel.at.to_string(),
    ]
}

/// How often, where that is not once.
fn times(n: u64) -> String {
    if n == 1 { String::new() } else { format!(" x{n}") }
}

const HEAD: [&str; 7] = ["kernel", "shape", "device", "reads", "writes", "flops", "at"];

/// Columns as wide as their widest entry; numbers to the right; rows that repeat once.
fn write_table(f: &mut fmt::Formatter<'_>, rows: &[[String; 7]]) -> fmt::Result {
    let head = HEAD.map(String::from);
    let width = |column: usize| {
        let entries = rows.iter().chain([&head]).map(|row| row[column].chars().count());
        entries.max().unwrap_or(0)
    };
    let widths: [usize; 7] = std::array::from_fn(width);
    write_row(f, &head, &widths)?;
    for Repeat { start, period, times } in repeats(rows) {
        rows[start..start + period].iter().try_for_each(|row| write_row(f, row, &widths))?;
        match (period, times) {
            (_, 1) => {}
            (1, _) => writeln!(f, "  .. and this kernel {} times more", times - 1)?,
            (..) => writeln!(f, "  .. and the last {period} kernels {} times more", times - 1)?,
        }
    }
    Ok(())
}

fn write_row(f: &mut fmt::Formatter<'_>, row: &[String; 7], widths: &[usize; 7]) -> fmt::Result {
    for ((column, entry), &width) in row.iter().enumerate().zip(widths) {
        match column {
            6 => write!(f, "{entry}")?,
            3..=5 => write!(f, "{entry:>width$}  ")?,
            _ => write!(f, "{entry:<width$}  ")?,
        }
    }
    writeln!(f)
}

/// A number of bytes in binary units, three digits or so.
pub(crate) fn bytes(n: u64) -> String {
    scaled(n, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"])
}

/// A count in decimal units, followed by the unit's letter or nothing, so
/// that a noun can follow: `1.2 G`. Counts saturate: the largest stands for all above it.
pub(crate) fn count(n: u64) -> String {
    let text = scaled(n, 1000.0, &["", "k", "M", "G", "T", "P", "E"]);
    if n == u64::MAX { format!("over {text}") } else { text }
}

/// All digits, with a comma after every three: `1,234`.
pub(crate) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn scaled(n: u64, base: f64, units: &[&str]) -> String {
    let mut value = n as f64;
    let mut unit = 0;
    while value >= base && unit + 1 < units.len() {
        value /= base;
        unit += 1;
    }
    if unit == 0 { format!("{n} {}", units[0]) } else { format!("{value:.1} {}", units[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(bytes(12), "12 B");
        assert_eq!(bytes(16 << 20), "16.0 MiB");
        assert_eq!(count(1_250_000), "1.2 M");
        assert_eq!(count(7), "7 ");
        assert_eq!(count(u64::MAX), "over 18.4 E");
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
    }
}
