//! Texts in which the numbers that stem from sizes are marked, so that one
//! compiled text serves kernels that differ in them.
//!
//! A marked text is a *family* (the text without those numbers) and numbers.
//! Compiled for the first time it has them written in it, which lets compilers
//! unroll and divide fast. What differs in a second one of the family is read
//! from launch words instead, and so on: what differed once will differ again.

use crate::render::c_like::emit::position;
use crate::render::wgsl::dialect::word as word_at;

/// Before a number.
const START: char = '\u{e000}';
/// After it.
const END: char = '\u{e001}';

/// What a marked number is in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Signed,
    Unsigned,
    Wide,
    /// The blocks of four launch words: it grows, but is never read from one.
    Blocks,
}

/// A number of a text, marked.
pub fn signed(value: i64) -> String {
    match i32::try_from(value) {
        // 0 and 1 say what is there at all.
        Ok(value) if !(-1..=1).contains(&value) && value > i32::MIN => format!("{START}{value}{END}"),
        Ok(_) | Err(_) => position(value),
    }
}

/// A number of type `u32`, marked.
pub fn unsigned(value: usize) -> String {
    if value > 1 && value <= u32::MAX as usize {
        format!("{START}{value}u{END}")
    } else {
        format!("{value}u")
    }
}

/// A number of type `i64` that fits 32 bits, marked.
pub fn wide(value: usize) -> String {
    if value > 1 && value <= i32::MAX as usize {
        format!("{START}{value}li{END}")
    } else {
        format!("{value}li")
    }
}

/// How many blocks of four launch words there are, marked.
pub fn blocks(count: usize) -> String {
    format!("{START}{count}b{END}")
}

/// A marked text taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sized {
    /// The comment line at the top, which names sizes too.
    title: String,
    /// The text between the numbers: one piece more than there are numbers.
    pieces: Vec<String>,
    numbers: Vec<(i64, Kind)>,
}

impl Sized {
    /// Takes a text apart. A user's own may have the marks' characters in it by
    /// chance: where they mark no number, the text has none.
    pub fn new(text: &str) -> Sized {
        let (title, body) = match text.split_once('\n') {
            Some((title, rest)) if title.starts_with("//") => (format!("{title}\n"), rest),
            Some(_) | None => (String::new(), text),
        };
        let mut split = body.split(START);
        let mut pieces = vec![split.next().unwrap_or_default().to_string()];
        let mut numbers = Vec::new();
        for part in split {
            let Some((number, rest)) = part.split_once(END).and_then(|(x, rest)| Some((parsed(x)?, rest)))
            else {
                return Sized { title, pieces: vec![body.to_string()], numbers: Vec::new() };
            };
            numbers.push(number);
            pieces.push(rest.to_string());
        }
        Sized { title, pieces, numbers }
    }

    /// What texts that differ in numbers only share, the comment apart.
    pub fn family(&self) -> String {
        let kinds = self.numbers.iter().map(|(_, kind)| match kind {
            Kind::Signed => "?",
            Kind::Unsigned => "?u",
            Kind::Wide => "?li",
            Kind::Blocks => "?b",
        });
        let mut text = self.pieces[0].clone();
        for (kind, piece) in kinds.zip(&self.pieces[1..]) {
            text.push(START);
            text += kind;
            text += piece;
        }
        text
    }

    /// The numbers, in order.
    pub fn numbers(&self) -> Vec<i64> {
        self.numbers.iter().map(|(value, _)| *value).collect()
    }

    /// The text with its numbers, but for those `lifted`, which are launch words
    /// after all others.
    pub fn text(&self, lifted: &[bool]) -> String {
        let count = lifted.iter().filter(|&&lifted| lifted).count();
        let blocks = self.numbers.iter().find(|(_, kind)| *kind == Kind::Blocks);
        let mut next = 4 * blocks.map_or(0, |(blocks, _)| *blocks as usize);
        let mut text = self.title.clone() + &self.pieces[0];
        for ((&(value, kind), &lifted), piece) in self.numbers.iter().zip(lifted).zip(&self.pieces[1..]) {
            text += &match (kind, lifted) {
                (Kind::Blocks, _) => (value + count.div_ceil(4) as i64).to_string(),
                (Kind::Signed, false) => position(value),
                (Kind::Unsigned, false) => format!("{value}u"),
                (Kind::Wide, false) => format!("{value}li"),
                (Kind::Signed | Kind::Unsigned | Kind::Wide, true) => {
                    next += 1;
                    from_word(kind, next - 1)
                }
            };
            text += piece;
        }
        text
    }

    /// Whether a number may be read from a launch word.
    pub fn may_lift(&self) -> Vec<bool> {
        self.numbers.iter().map(|(_, kind)| *kind != Kind::Blocks).collect()
    }
}

/// A marked text with all its numbers in it.
pub fn plain(text: &str) -> String {
    let sized = Sized::new(text);
    sized.text(&vec![false; sized.numbers.len()])
}

fn parsed(number: &str) -> Option<(i64, Kind)> {
    let digits = number.trim_end_matches(char::is_alphabetic);
    let kind = match &number[digits.len()..] {
        "" => Kind::Signed,
        "u" => Kind::Unsigned,
        "li" => Kind::Wide,
        "b" => Kind::Blocks,
        _ => return None,
    };
    Some((digits.parse().ok()?, kind))
}

fn from_word(kind: Kind, word: usize) -> String {
    let word = word_at(word);
    match kind {
        Kind::Signed => format!("bitcast<i32>({word})"),
        Kind::Wide => format!("i64(bitcast<i32>({word}))"),
        Kind::Unsigned | Kind::Blocks => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_or_read_from_words_behind_the_others() {
        let text = |n: usize| format!("[{}] x * {} / {} - {}", blocks(2), signed(-5), unsigned(n), wide(n));
        let (one, two) = (Sized::new(&text(7)), Sized::new(&text(12)));
        assert_eq!(one.family(), two.family());
        assert_eq!(plain(&text(7)), "[2] x * (-5) / 7u - 7li");
        assert_eq!(two.numbers(), [2, -5, 12, 12]);
        assert_eq!(
            two.text(&[false, false, true, true]),
            "[3] x * (-5) / launch[2].x - i64(bitcast<i32>(launch[2].y))"
        );
    }

    #[test]
    fn a_text_with_the_characters_of_marks_stays_what_it_is() {
        for text in ["a\u{e000}b", "a\u{e000}b\u{e001}c", "// x\n\u{e001}\u{e000}7"] {
            assert_eq!(plain(text), text);
        }
    }

    #[test]
    fn zero_and_one_are_part_of_the_family() {
        assert_ne!(Sized::new(&signed(1)).family(), Sized::new(&signed(2)).family());
        assert_eq!(plain(&signed(0)), "0");
    }
}
