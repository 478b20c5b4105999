//! The page that a training leaves.

mod chart;
mod records;

use std::fmt::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::base::file::{Durability, replace};
use crate::base::{Error, Result, Span};
use crate::train::record::{Ended, Logger, Phase, Record, StepRecord, Summary, short};
use chart::{Curve, draw};

/// Writes a page for a browser: curves of all that was recorded, the evaluations as a table, and confusion matrices.
/// One file, which loads nothing else. It holds its numbers too, and a training that is resumed goes on from those of
/// the page that is there.
///
/// The page is written while the training goes on, whole or not at all, so that one that is killed leaves it too: what
/// was recorded two seconds before, or as [`Report::every`] says, is in it.
///
/// # Examples
/// ```
/// use kiln::train::{Ended, Logger, Phase, Record, Report, Scores, Summary};
/// let path = std::env::temp_dir().join(format!("kiln-report-{}.html", std::process::id()));
/// let mut report = Report::new(&path).title("a first try");
/// let scores = Scores { values: vec![("loss".into(), 0.25)], ..Scores::default() };
/// report.record(&Record { phase: Phase::Train, epoch: 0, step: 50, seconds: 1.5, scores })?;
/// let (loss, scores) = (Some(0.25), None);
/// report.finish(&Summary { ended: Ended::Done, epochs: 1, steps: 50, seconds: 1.5, loss, scores })?;
/// assert!(std::fs::read_to_string(&path).is_ok_and(|page| page.contains("<h1>a first try</h1>")));
/// # std::fs::remove_file(path).ok();
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Debug)]
pub struct Report {
    path: PathBuf,
    title: String,
    every: Duration,
    records: Vec<Record>,
    written: Option<Written>,
}

/// The page that is there.
#[derive(Debug)]
struct Written {
    at: Instant,
    took: Duration,
    records: usize,
}

/// The most that writing pages may take of a training's time: one part in so many.
const SHARE: u32 = 50;

impl Report {
    /// To this file.
    pub fn new(path: impl Into<PathBuf>) -> Report {
        let (path, title, every) = (path.into(), "training".into(), Duration::from_secs(2));
        Report { path, title, every, records: Vec::new(), written: None }
    }
    /// The page's title.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Report {
        self.title = title.into();
        self
    }

    /// The least time between two pages (2 seconds); longer where pages take long to write.
    #[must_use]
    pub fn every(mut self, time: Duration) -> Report {
        self.every = time;
        self
    }

    /// Writes the page if it lacks records and is old enough.
    fn update(&mut self) -> Result<()> {
        let is_due = |page: &Written| {
            page.records < self.records.len() && page.at.elapsed() >= self.every.max(page.took * SHARE)
        };
        if self.written.as_ref().is_none_or(is_due) {
            // The next one replaces it: nobody waits for the disk.
            self.write("not finished", &self.so_far(), Durability::Cache)
        } else {
            Ok(())
        }
    }

    /// The training by its records.
    fn so_far(&self) -> Summary {
        let (epochs, steps, seconds) =
            self.records.last().map_or((0, 0, 0.0), |last| (last.epoch, last.step, last.seconds));
        let scores = self.evaluations().last().map(|record| record.scores.clone());
        Summary { ended: Ended::Stopped, epochs, steps, seconds, loss: None, scores }
    }

    fn write(&mut self, state: &str, summary: &Summary, durability: Durability) -> Result<()> {
        let at = Instant::now();
        let parts = [
            ("TITLE", escaped(&self.title)),
            ("TOTALS", totals(state, summary)),
            ("CHARTS", self.charts()),
            ("TABLES", self.tables()),
            ("RECORDS", records::written(&self.records)),
        ];
        let page = include_str!("page.html").to_string();
        let page = parts.iter().fold(page, |page, (name, text)| page.replace(&format!("/*{name}*/"), text));
        let failed = |error: std::io::Error| {
            let (path, message) = (self.path.display().to_string(), error.to_string());
            Error::File { path, message, span: Span::caller() }
        };
        if let Some(folder) = self.path.parent() {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        replace(&self.path, &[page.as_bytes()], durability).map_err(failed)?;
        self.written = Some(Written { at, took: at.elapsed(), records: self.records.len() });
        Ok(())
    }

    /// The names of the numbers, in order of appearance.
    fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for (name, _) in self.records.iter().flat_map(|record| &record.scores.values) {
            if !names.contains(&&name[..]) {
                names.push(name);
            }
        }
        names
    }

    fn charts(&self) -> String {
        let chart = |name: &str| {
            let curves = [Phase::Train, Phase::Validation].map(|phase| self.curve(phase, name));
            let curves: Vec<Curve> = curves.into_iter().filter(|curve| !curve.points.is_empty()).collect();
            if curves.is_empty() {
                return String::new();
            }
            let key = |curve: &Curve| format!("<i class=\"{0}\"></i>{0}", curve.phase);
            let keys: String = curves.iter().map(key).collect();
            let name = escaped(name);
            let drawn = draw(&name, &curves);
            format!("<section><span class=\"legend\">{keys}</span><h2>{name}</h2>{drawn}</section>\n")
        };
        self.names().into_iter().map(chart).collect()
    }

    fn curve(&self, phase: Phase, name: &str) -> Curve {
        let of_phase = self.records.iter().filter(|record| record.phase == phase);
        let points = of_phase.filter_map(|record| Some((record.step, record.scores.get(name)?)));
        Curve { phase: phase.name(), points: points.filter(|(_, value)| value.is_finite()).collect() }
    }

    fn evaluations(&self) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(|record| record.phase == Phase::Validation)
    }

    fn tables(&self) -> String {
        let Some(last) = self.evaluations().last() else { return String::new() };
        let names: String =
            last.scores.values.iter().map(|(name, _)| format!("<th>{}</th>", escaped(name))).collect();
        let mut text =
            format!("<section><h2>Evaluations</h2><table><tr><th>epoch</th><th>step</th>{names}</tr>");
        for Record { epoch, step, scores, .. } in self.evaluations() {
            let cell = |(name, _): &(String, f64)| {
                format!("<td>{}</td>", scores.get(name).map(short).unwrap_or_default())
            };
            let cells: String = last.scores.values.iter().map(cell).collect();
            let _ = write!(text, "<tr><td>{epoch}</td><td>{step}</td>{cells}</tr>");
        }
        text += "</table></section>\n";
        for (name, (shape, sums)) in &last.scores.sums {
            if let [rows, columns] = shape[..]
                && rows == columns
                && rows > 1
            {
                text += &matrix(name, rows, sums);
            }
        }
        text
    }
}

/// Which class was taken for which.
fn matrix(name: &str, classes: usize, sums: &[f64]) -> String {
    let heads: String = (0..classes).map(|class| format!("<th>{class}</th>")).collect();
    let mut text = format!(
        "<section><h2>{}, of the last evaluation: targets in rows, predictions in columns</h2><table class=\"matrix\"><tr><th></th>{heads}</tr>",
        escaped(name)
    );
    for (class, row) in sums.chunks(classes).enumerate() {
        let all: f64 = row.iter().sum();
        let _ = write!(text, "<tr><th>{class}</th>");
        for (said, count) in row.iter().enumerate() {
            let share = if all > 0.0 { count / all } else { 0.0 };
            // What is wrong and rare is to be seen too.
            let (of, strength) = if said == class { ("right", 0.7 * share) } else { ("wrong", share.sqrt()) };
            let _ = write!(text, "<td style=\"background:rgba(var(--{of}),{strength:.3})\">{count}</td>");
        }
        text += "</tr>";
    }
    text + "</table></section>\n"
}

fn totals(state: &str, summary: &Summary) -> String {
    let time = format!("{:.1?}", Duration::try_from_secs_f64(summary.seconds).unwrap_or_default());
    let mut totals = vec![
        ("state".to_string(), state.to_string()),
        ("epochs".into(), summary.epochs.to_string()),
        ("steps".into(), summary.steps.to_string()),
        ("time".into(), time),
    ];
    totals.extend(summary.loss.map(|loss| ("training loss of the last epoch".into(), short(loss))));
    let scores = summary.scores.iter().flat_map(|scores| &scores.values);
    totals.extend(scores.map(|(name, value)| (format!("last {name}"), short(*value))));
    let total = |(name, value): (String, String)| {
        format!("<div class=\"total\"><b>{}</b><span>{}</span></div>", escaped(&value), escaped(&name))
    };
    totals.into_iter().map(total).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

impl Logger for Report {
    fn begin(&mut self, steps: u64) -> Result<()> {
        if self.records.is_empty() && steps > 0 {
            // Another page, or none, has no records.
            let page = std::fs::read_to_string(&self.path).unwrap_or_default();
            self.records = records::read(&page);
            self.records.retain(|record| record.step <= steps);
        }
        Ok(())
    }

    fn record(&mut self, record: &Record) -> Result<()> {
        self.records.push(record.clone());
        self.update()
    }

    fn step(&mut self, _step: &StepRecord) -> Result<()> {
        if self.records.is_empty() { Ok(()) } else { self.update() }
    }

    fn finish(&mut self, summary: &Summary) -> Result<()> {
        let state = match summary.ended {
            Ended::Done => "done",
            Ended::Early => "ended early",
            Ended::Stopped => "stopped",
        };
        self.write(state, summary, Durability::Synced)
    }

    fn fail(&mut self, error: &Error) {
        let message = error.to_string();
        let state = format!("failed: {}", message.lines().next().unwrap_or_default());
        // The training has an error to return already.
        let _ = self.write(&state, &self.so_far(), Durability::Synced);
    }
}
