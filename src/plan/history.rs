//! A recorded history of memory as files: JSON for programs, a page with a
//! timeline for people.

use std::fmt::Write;
use std::path::Path;

use crate::base::file::{Durability, replace};
use crate::base::{Device, Error, Result, Span};
use crate::runtime::ledger::Event;

impl Device {
    /// Writes the recorded history as JSON: the device, and one event a line
    /// with microseconds, block, bytes, action, bytes in use afterwards, the
    /// operation, shape and line.
    ///
    /// # Errors
    /// Nothing recorded, or a file that cannot be written; what was recorded
    /// stays.
    #[track_caller]
    pub fn dump_memory_snapshot(self, path: impl AsRef<Path>) -> Result<()> {
        write(path.as_ref(), &json(self, &self.recorded("dump_memory_snapshot")?))
    }

    /// Writes the recorded history as a page of its own: a timeline of the
    /// bytes in use, and each block with its operation, shape and line.
    ///
    /// # Errors
    /// As [`Device::dump_memory_snapshot`].
    #[track_caller]
    pub fn dump_memory_timeline(self, path: impl AsRef<Path>) -> Result<()> {
        write(path.as_ref(), &html(self, &self.recorded("dump_memory_timeline")?))
    }

    #[track_caller]
    fn recorded(self, call: &'static str) -> Result<Vec<Event>> {
        let span = Span::caller();
        self.memory_history()?.ok_or_else(|| Error::Argument {
            call,
            span,
            expected: "a history, from record_memory_history(true) on".into(),
            found: "nothing recorded".into(),
        })
    }
}

/// Writes a file whole or not at all.
///
/// # Errors
/// The file system's.
#[track_caller]
pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    let (path_text, span) = (path.display().to_string(), Span::caller());
    let failed = |error: std::io::Error| Error::File { path: path_text, message: error.to_string(), span };
    replace(path, &[text.as_bytes()], Durability::Cache).map_err(failed)
}

fn json(device: Device, events: &[Event]) -> String {
    let mut text = format!("{{\"device\": \"{device}\", \"events\": [");
    for (number, event) in events.iter().enumerate() {
        let _ = write!(text, "{}\n{}", if number == 0 { "" } else { "," }, json_event(event));
    }
    text + "\n]}\n"
}

fn json_event(event: &Event) -> String {
    let action = if event.allocated { "alloc" } else { "free" };
    let line = event.label.span.map_or("null".into(), |span| quoted(&span.to_string()));
    format!(
        "{{\"us\": {}, \"block\": {}, \"bytes\": {}, \"action\": \"{action}\", \"in_use\": {}, \"name\": {}, \"shape\": {:?}, \"line\": {line}}}",
        event.at.as_micros(),
        event.block,
        event.bytes,
        event.in_use,
        quoted(event.label.name),
        &event.label.shape[..],
    )
}

/// A text as JSON writes it.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out += "\\\"",
            '\\' => out += "\\\\",
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out + "\""
}

/// The page. The data are JSON inside it; a `<` could end their element.
fn html(device: Device, events: &[Event]) -> String {
    let data = json(device, events).replace('<', "\\u003c");
    include_str!("timeline.html").replace("\"DATA\"", &data)
}
