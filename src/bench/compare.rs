//! Measurements side by side.

use std::fmt::{self, Display};

use crate::bench::measurement::{Measurement, TimeUnit};

/// Measurements as tables: one a label, a row a sub-label, a column a description; rows in groups by device
/// and threads. Times are medians, in one unit a table. `*` is the fastest of a row, `~` a time whose spread
/// is over [`Disturbance::SPREAD`](crate::bench::Disturbance::SPREAD). What has the same names and place is
/// one entry.
///
/// PyTorch: `torch.utils.benchmark.Compare`. [`crate::bench`] has an example.
#[derive(Clone, Debug, Default)]
pub struct Compare {
    measurements: Vec<Measurement>,
}

impl Compare {
    /// A table of these.
    pub fn new(measurements: impl IntoIterator<Item = Measurement>) -> Compare {
        let mut compare = Compare::default();
        compare.extend(measurements);
        compare
    }
}

impl Extend<Measurement> for Compare {
    fn extend<I: IntoIterator<Item = Measurement>>(&mut self, measurements: I) {
        for found in measurements {
            match self.measurements.iter_mut().find(|known| is_same(known, &found)) {
                Some(known) => known.seconds.extend(found.seconds),
                None => self.measurements.push(found),
            }
        }
    }
}

fn is_same(a: &Measurement, b: &Measurement) -> bool {
    let names = |m: &Measurement| (m.label.clone(), m.sub_label.clone(), m.description.clone(), m.place());
    names(a) == names(b)
}

/// Each once, in order.
fn distinct(all: impl Iterator<Item = String>) -> Vec<String> {
    let mut found = Vec::new();
    all.for_each(|one| {
        if !found.contains(&one) {
            found.push(one);
        }
    });
    found
}

impl Display for Compare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for label in distinct(self.measurements.iter().map(|m| m.label.clone())) {
            let all = self.measurements.iter().filter(|m| m.label == label);
            Table::new(&label, all.collect()).write(f)?;
        }
        Ok(())
    }
}

struct Table<'a> {
    label: &'a str,
    entries: Vec<&'a Measurement>,
    columns: Vec<String>,
    rows: Vec<String>,
    unit: TimeUnit,
}

impl<'a> Table<'a> {
    fn new(label: &'a str, entries: Vec<&'a Measurement>) -> Table<'a> {
        let fastest = entries.iter().map(|m| m.median()).fold(f64::INFINITY, f64::min);
        Table {
            label,
            columns: distinct(entries.iter().map(|m| m.description.clone())),
            rows: distinct(entries.iter().map(|m| m.sub_label.clone())),
            unit: TimeUnit::of(fastest),
            entries,
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.label.is_empty() { "times" } else { self.label };
        writeln!(f, "{name}: median in {}, * is the fastest of a row, ~ varies", self.unit.name)?;
        let places = distinct(self.entries.iter().map(|m| m.place()));
        let cells: Vec<Vec<Vec<String>>> = places.iter().map(|place| self.cells(place)).collect();
        let names = self.rows.iter().map(|row| row.chars().count() + 2);
        let first = names.chain(places.iter().map(|place| place.chars().count())).max().unwrap_or(0);
        let width = |column: usize| {
            let entries = cells.iter().flatten().map(|row| &row[column]).chain([&self.columns[column]]);
            entries.map(|entry| entry.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        if self.columns.iter().any(|name| !name.is_empty()) {
            write_row(f, "", first, &self.columns, &widths)?;
        }
        for (place, rows) in places.iter().zip(&cells) {
            writeln!(f, "{place}")?;
            let named = self.rows.iter().zip(rows).filter(|(_, row)| row.iter().any(|cell| !cell.is_empty()));
            for (name, row) in named {
                write_row(f, &format!("  {name}"), first, row, &widths)?;
            }
        }
        Ok(())
    }

    /// The entries of one place by row and column, empty where nothing was measured.
    fn cells(&self, place: &str) -> Vec<Vec<String>> {
        self.rows.iter().map(|row| self.row_cells(place, row)).collect()
    }

    fn row_cells(&self, place: &str, row: &str) -> Vec<String> {
        let here = |m: &&&Measurement| m.place() == place && m.sub_label == row;
        let fastest = self.entries.iter().filter(here).map(|m| m.median()).fold(f64::INFINITY, f64::min);
        let several = self.entries.iter().filter(here).count() > 1;
        let cell = |column: &String| {
            let found = self.entries.iter().filter(here).find(|m| m.description == *column);
            let mark = |m: &Measurement| {
                let best = if several && m.median() <= fastest { "*" } else { " " };
                let varies = if m.is_steady() { " " } else { "~" };
                format!("{}{best}{varies}", self.unit.digits(m.median()))
            };
            found.map_or_else(String::new, |m| mark(m))
        };
        self.columns.iter().map(cell).collect()
    }
}

fn write_row(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    first: usize,
    cells: &[String],
    widths: &[usize],
) -> fmt::Result {
    let mut line = format!("{name:<first$}");
    for (cell, width) in cells.iter().zip(widths) {
        line += &format!("  {cell:>width$}");
    }
    writeln!(f, "{}", line.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::measurement::tests::measured;

    #[test]
    fn a_table_has_one_unit_and_marks_the_fastest() {
        let mut table = Compare::new([
            measured("64", "f32", &[2.0e-4]),
            measured("64", "bf16", &[1.0e-4]),
            measured("4096", "f32", &[0.5, 0.1, 0.9]),
        ]);
        let mut wide = measured("64", "f32", &[0.3e-4]);
        wide.threads = 4;
        table.extend([wide]);
        let expected = "\
sum: median in us, * is the fastest of a row, ~ varies
                     f32   bf16
cpu, 2 threads
  64               200    100*
  4096          500000 ~
cpu, 4 threads
  64              30.0
";
        assert_eq!(table.to_string(), expected);
    }

    #[test]
    fn the_same_measured_twice_is_one_entry() {
        let table = Compare::new([measured("a", "b", &[1.0]), measured("a", "b", &[3.0])]);
        assert!(table.to_string().contains("  2.00"), "{table}");
        let plain = Compare::new([measured("64", "", &[1.0])]).to_string();
        assert!(plain.contains("varies\ncpu, 2 threads\n  64"), "no empty line of headings: {plain}");
    }
}
