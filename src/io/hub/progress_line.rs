//! The progress of downloads on a terminal.

use std::io::{IsTerminal, Write, stderr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::io::hub::progress::{Download, DownloadProgress};
use crate::plan::report::bytes;

/// The pause between two pictures of the line.
const PAUSE: Duration = Duration::from_millis(100);

/// Downloads that took less leave no line.
const BRIEF: Duration = Duration::from_secs(1);

/// Characters of a file's name that are shown, its last ones.
const NAME: usize = 30;

/// Shows the progress of downloads on standard error: a line that is written over, and stays when a file that
/// took a second or more is there. Where standard error is no terminal, nothing is shown.
///
/// ```text
///  48 %  model.safetensors  123.4 MiB of 256.6 MiB, 41.1 MiB/s, 3 s left
/// ```
///
/// # Examples
/// ```
/// use kiln::io::{DownloadLine, HubOpts};
/// let opts = HubOpts::default().progress(DownloadLine::default());
/// assert!(opts.progress.is_some());
/// ```
#[derive(Debug)]
pub struct DownloadLine {
    is_shown: bool,
    line: Mutex<Line>,
}

impl Default for DownloadLine {
    fn default() -> DownloadLine {
        DownloadLine { is_shown: stderr().is_terminal(), line: Mutex::default() }
    }
}

impl DownloadProgress for DownloadLine {
    fn report(&self, download: &Download<'_>) {
        if self.is_shown {
            let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
            show(&line.advance(download, Instant::now()));
        }
    }
}

impl Drop for DownloadLine {
    fn drop(&mut self) {
        // A download that failed: what is printed next begins a line.
        if self.line.get_mut().is_ok_and(|line| line.width > 0) {
            show("\n");
        }
    }
}

fn show(text: &str) {
    // Nobody may be reading.
    let _ = stderr().write_all(text.as_bytes());
}

/// What is on the line.
#[derive(Debug, Default)]
struct Line {
    file: String,
    /// When the file was begun, and with how many bytes.
    begun: Option<(Instant, u64)>,
    drawn: Option<Instant>,
    /// Characters that are to be written over.
    width: usize,
}

impl Line {
    /// What is to be written when a download is so far; nothing if that was a moment ago.
    fn advance(&mut self, download: &Download<'_>, now: Instant) -> String {
        if self.file != download.file {
            (self.file, self.begun, self.drawn) = (download.file.into(), None, None);
        }
        let (start, first) = *self.begun.get_or_insert((now, download.done));
        let elapsed = now - start;
        let rate = download.done.saturating_sub(first) as f64 / elapsed.as_secs_f64().max(1e-3);
        let width = self.width;
        if download.done >= download.total {
            *self = Line::default();
            let text = if elapsed < BRIEF { String::new() } else { finished(download, elapsed, rate) };
            let end = if text.is_empty() { "\r" } else { "\n" };
            return format!("\r{text:<width$}{end}");
        }
        if self.drawn.is_some_and(|drawn| now - drawn < PAUSE) {
            return String::new();
        }
        let text = unfinished(download, elapsed, rate);
        (self.drawn, self.width) = (Some(now), text.chars().count());
        format!("\r{text:<width$}")
    }
}

fn unfinished(download: &Download<'_>, elapsed: Duration, rate: f64) -> String {
    let Download { file, done, total } = *download;
    let percent = (done as f64 / total as f64 * 100.0) as u64;
    let mut text = format!("{percent:>3} %  {}  {} of {}", short(file), bytes(done), bytes(total));
    // Before that, a rate means nothing.
    if elapsed >= BRIEF && rate > 0.0 {
        let left = (total - done) as f64 / rate;
        text += &format!(", {}/s, {} left", bytes(rate as u64), period(left));
    }
    text
}

fn finished(download: &Download<'_>, elapsed: Duration, rate: f64) -> String {
    let Download { file, total, .. } = *download;
    let took = period(elapsed.as_secs_f64());
    format!("100 %  {}  {} in {took}, {}/s", short(file), bytes(total), bytes(rate as u64))
}

/// The end of a name that is long.
fn short(file: &str) -> String {
    let length = file.chars().count();
    if length <= NAME {
        file.into()
    } else {
        format!("..{}", file.chars().skip(length - NAME + 2).collect::<String>())
    }
}

fn period(seconds: f64) -> String {
    let whole = seconds.ceil() as u64;
    match whole {
        0..60 => format!("{whole} s"),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_written_over_and_stays_for_what_took_long() {
        let (mut line, start) = (Line::default(), Instant::now());
        let mut after = |seconds: f64, file, done, total| {
            line.advance(&Download { file, done, total }, start + Duration::from_secs_f64(seconds))
        };
        let name = "a/very/long/way/to/model.safetensors";
        assert_eq!(after(0.0, name, 0, 4 << 20), "\r  0 %  ..ong/way/to/model.safetensors  0 B of 4.0 MiB");
        assert_eq!(after(0.01, name, 4, 4 << 20), "", "a moment later");
        let rate = "\r 50 %  ..ong/way/to/model.safetensors  2.0 MiB of 4.0 MiB, 1.0 MiB/s, 2 s left";
        assert_eq!(after(2.0, name, 2 << 20, 4 << 20), rate);
        let end = after(4.0, name, 4 << 20, 4 << 20);
        assert_eq!(end.trim_end(), "\r100 %  ..ong/way/to/model.safetensors  4.0 MiB in 4 s, 1.0 MiB/s");
        assert!(end.ends_with('\n') && end.len() > rate.len(), "all of the line is written over");
        let drawn = after(5.0, "config.json", 0, 600);
        assert_eq!(drawn, "\r  0 %  config.json  0 B of 600 B");
        assert_eq!(after(5.1, "config.json", 600, 600), format!("\r{}\r", " ".repeat(drawn.len() - 1)));
        assert!(rate.len() <= 80, "it fits a terminal");
    }

    #[test]
    fn times_are_of_two_units() {
        assert_eq!([0.2, 59.0, 61.0, 7300.0].map(period), ["1 s", "59 s", "1 min 1 s", "2 h 1 min"]);
    }
}
