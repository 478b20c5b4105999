//! Lines of text, indented by blocks.

use std::fmt::Write;

/// Text under construction.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    text: String,
    depth: usize,
}

/// A place in a text, at which lines are put in later.
#[derive(Clone, Copy, Debug)]
pub struct InsertionPoint {
    at: usize,
    depth: usize,
}

impl Writer {
    /// The place after the last line.
    pub fn insertion_point(&self) -> InsertionPoint {
        InsertionPoint { at: self.text.len(), depth: self.depth }
    }
    /// Puts a line in at a place, which is after it then.
    pub fn line_at(&mut self, insertion_point: &mut InsertionPoint, line: impl AsRef<str>) {
        let line = format!("{:indent$}{}\n", "", line.as_ref(), indent = 4 * insertion_point.depth);
        self.text.insert_str(insertion_point.at, &line);
        insertion_point.at += line.len();
    }
    /// No lines yet, the first of them inside this many blocks.
    pub fn inside(depth: usize) -> Writer {
        Writer { text: String::new(), depth }
    }
    /// Adds a line.
    pub fn line(&mut self, line: impl AsRef<str>) {
        let _ = writeln!(self.text, "{:indent$}{}", "", line.as_ref(), indent = 4 * self.depth);
    }
    /// Opens a block after `head`.
    pub fn open(&mut self, head: impl AsRef<str>) {
        let head = head.as_ref();
        self.line(if head.is_empty() { "{".into() } else { format!("{head} {{") });
        self.depth += 1;
    }
    /// Closes the innermost block.
    pub fn close(&mut self) {
        self.depth -= 1;
        self.line("}");
    }
    /// The text so far.
    pub fn text(&self) -> &str {
        &self.text
    }
}
