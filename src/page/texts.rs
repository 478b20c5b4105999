//! Texts and lines of the user's source, each once, by number.

use std::collections::HashMap;
use std::fs;

use crate::base::Span;
use crate::profile::json::{Object, list, quoted};

/// Lines shown on either side of the user's.
const AROUND: usize = 3;

/// The texts of a page.
#[derive(Debug, Default)]
pub(super) struct Texts {
    texts: Vec<String>,
    numbers: HashMap<String, usize>,
    lines: Vec<Span>,
    line_numbers: HashMap<Span, usize>,
}

impl Texts {
    /// The number of a text.
    pub fn text(&mut self, text: String) -> usize {
        let Texts { texts, numbers, .. } = self;
        *numbers.entry(text).or_insert_with_key(|text| {
            texts.push(text.clone());
            texts.len() - 1
        })
    }

    /// The number of a line.
    pub fn line(&mut self, at: Span) -> usize {
        let Texts { lines, line_numbers, .. } = self;
        *line_numbers.entry(at).or_insert_with(|| {
            lines.push(at);
            lines.len() - 1
        })
    }

    /// All texts, by number.
    pub fn texts(&self) -> String {
        list(self.texts.iter().map(|text| quoted(text)))
    }

    /// All lines, by number, with their source where it is found: lines are relative to where the program was
    /// compiled, which is where it mostly runs.
    pub fn lines(&self) -> String {
        let mut files: HashMap<&str, Vec<String>> = HashMap::new();
        list(self.lines.iter().map(|at| {
            let file = files.entry(at.file()).or_insert_with(|| {
                let text = if at.is_users() { fs::read_to_string(at.file()).ok() } else { None };
                text.map(|text| text.lines().map(String::from).collect()).unwrap_or_default()
            });
            let line = at.line() as usize;
            let first = line.saturating_sub(AROUND).max(1);
            let around = file.iter().skip(first - 1).take(line + AROUND + 1 - first);
            let object = Object::new().text("at", &at.to_string()).value("line", line).value("first", first);
            object.value("source", list(around.map(|text| quoted(text)))).end()
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_one() {
        let mut texts = Texts::default();
        let numbers = ["a", "b", "a"].map(|text| texts.text(text.into()));
        assert_eq!((numbers, texts.texts().as_str()), ([0, 1, 0], r#"["a", "b"]"#));
    }
}
