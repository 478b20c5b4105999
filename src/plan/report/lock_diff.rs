//! What changed between two plans, for people.

use std::fmt::Write;

use crate::plan::report::lock::{Figure, PlanLock};
use crate::plan::report::table::{bytes, count, grouped};

/// Unchanged rows shown on each side of a change.
const CONTEXT: usize = 2;

/// The most pairs of rows that are compared; beyond, all rows count as replaced. A table of this size is
/// made in a fraction of a second.
const MAX_PAIRS: usize = 20_000_000;

/// A row of a diff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edit<'a> {
    Kept(&'a str),
    Removed(&'a str),
    Added(&'a str),
}

/// The figures that differ and the rows that do, with their neighbors.
pub(super) fn changes(before: &PlanLock, after: &PlanLock) -> String {
    let mut text = String::new();
    let value = |figures: &[Figure], name: &str| {
        figures.iter().find(|figure| figure.name == name).map(|figure| figure.value)
    };
    for new in &after.figures {
        let old = value(&before.figures, &new.name);
        if old != Some(new.value) {
            let _ = writeln!(text, "  {}: {}", new.name, change(old.unwrap_or(0), new.value, new.in_bytes()));
        }
    }
    for old in before.figures.iter().filter(|old| value(&after.figures, &old.name).is_none()) {
        let _ = writeln!(text, "  {}: {}", old.name, change(old.value, 0, old.in_bytes()));
    }
    write_edits(&mut text, &edits(&before.rows, &after.rows));
    text
}

/// `1.2 MiB -> 1.9 MiB (+58 %)`; digit by digit where short forms are the same.
fn change(old: u64, new: u64, in_bytes: bool) -> String {
    let short = |n: u64| if in_bytes { bytes(n) } else { count(n).trim_end().to_string() };
    let exact = |n: u64| format!("{}{}", grouped(n), if in_bytes { " B" } else { "" });
    let (mut from, mut to) = (short(old), short(new));
    if from == to {
        (from, to) = (exact(old), exact(new));
    }
    let percent = 100.0 * (new as f64 - old as f64) / old as f64;
    let places = if percent.abs() < 10.0 { 1 } else { 0 };
    let percent = if old == 0 { String::new() } else { format!(" ({percent:+.places$} %)") };
    format!("{from} -> {to}{percent}")
}

/// Rows in order, by a longest common subsequence (Wagner and Fischer, 1974).
fn edits<'a>(before: &'a [String], after: &'a [String]) -> Vec<Edit<'a>> {
    let start = before.iter().zip(after).take_while(|(a, b)| a == b).count();
    let (old, new) = (&before[start..], &after[start..]);
    let end = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    let (old, new) = (&old[..old.len() - end], &new[..new.len() - end]);
    let mut edits: Vec<Edit<'_>> = before[..start].iter().map(|row| Edit::Kept(row)).collect();
    if old.len().saturating_mul(new.len()) > MAX_PAIRS {
        edits.extend(old.iter().map(|row| Edit::Removed(row)));
        edits.extend(new.iter().map(|row| Edit::Added(row)));
    } else {
        replaced(old, new, &mut edits);
    }
    edits.extend(before[before.len() - end..].iter().map(|row| Edit::Kept(row)));
    edits
}

fn replaced<'a>(old: &'a [String], new: &'a [String], edits: &mut Vec<Edit<'a>>) {
    let width = new.len() + 1;
    // The longest common subsequence of `old[i..]` and `new[j..]`, at `i * width + j`.
    let mut common = vec![0u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i * width + j] = match old[i] == new[j] {
                true => common[(i + 1) * width + j + 1] + 1,
                false => common[(i + 1) * width + j].max(common[i * width + j + 1]),
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < old.len() && j < new.len() {
        if old[i] == new[j] {
            edits.push(Edit::Kept(&old[i]));
            (i, j) = (i + 1, j + 1);
        } else if common[(i + 1) * width + j] >= common[i * width + j + 1] {
            edits.push(Edit::Removed(&old[i]));
            i += 1;
        } else {
            edits.push(Edit::Added(&new[j]));
            j += 1;
        }
    }
    edits.extend(old[i..].iter().map(|row| Edit::Removed(row)));
    edits.extend(new[j..].iter().map(|row| Edit::Added(row)));
}

fn write_edits(text: &mut String, edits: &[Edit<'_>]) {
    let kept = |edit: &Edit<'_>| matches!(edit, Edit::Kept(_));
    let near = |at: usize| {
        let (from, to) = (at.saturating_sub(CONTEXT), (at + CONTEXT + 1).min(edits.len()));
        edits[from..to].iter().any(|edit| !kept(edit))
    };
    let mut skipped = 0;
    for (at, edit) in edits.iter().enumerate() {
        if !near(at) {
            skipped += 1;
            continue;
        }
        write_skipped(text, &mut skipped);
        let (sign, row) = match edit {
            Edit::Kept(row) => (' ', row),
            Edit::Removed(row) => ('-', row),
            Edit::Added(row) => ('+', row),
        };
        let _ = writeln!(text, "{sign} {row}");
    }
    if !edits.iter().all(kept) {
        write_skipped(text, &mut skipped);
    }
}

fn write_skipped(text: &mut String, skipped: &mut usize) {
    if *skipped > 0 {
        let _ = writeln!(text, "  .. {skipped} more that did not change");
    }
    *skipped = 0;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Vec<String> {
        text.chars().map(String::from).collect()
    }

    fn diff(before: &str, after: &str) -> String {
        let (before, after) = (rows(before), rows(after));
        let edits = edits(&before, &after);
        let mark = |edit: &Edit<'_>| match edit {
            Edit::Kept(row) => row.to_string(),
            Edit::Removed(row) => format!("-{row}"),
            Edit::Added(row) => format!("+{row}"),
        };
        edits.iter().map(mark).collect()
    }

    #[test]
    fn a_diff_is_as_short_as_can_be() {
        assert_eq!(diff("abcde", "abcde"), "abcde");
        assert_eq!(diff("abcde", "abxde"), "ab-c+xde");
        assert_eq!(diff("abcabc", "abcxabc"), "abc+xabc");
        assert_eq!(diff("", "ab"), "+a+b");
        assert_eq!(diff("axbycz", "abc"), "a-xb-yc-z");
    }

    #[test]
    fn far_rows_are_counted() {
        let (before, after) = (rows("abcdefgh"), rows("abcdeXgh"));
        let mut text = String::new();
        write_edits(&mut text, &edits(&before, &after));
        assert_eq!(text, "  .. 3 more that did not change\n  d\n  e\n- f\n+ X\n  g\n  h\n");
    }

    #[test]
    fn changes_are_in_units_and_percent() {
        assert_eq!(change(12, 13, false), "12 -> 13 (+8.3 %)");
        assert_eq!(change(1_258_291, 1_992_294, true), "1.2 MiB -> 1.9 MiB (+58 %)");
        assert_eq!(change(1_258_291, 1_258_299, true), "1,258,291 B -> 1,258,299 B (+0.0 %)");
        assert_eq!(change(0, 3, false), "0 -> 3");
        assert_eq!(change(4, 0, false), "4 -> 0 (-100 %)");
    }
}
