//! Texts in which the numbers that stem from sizes are marked, so that one
//! compiled text serves kernels that differ in them.
//!
//! A marked text is a *family* (the text without those numbers) and numbers.
//! Compiled for the first time it has them written in it, which lets compilers
//! unroll and divide fast. What differs in a second one of the family is read
//! from uniforms instead, and so on: what differed once will differ again.
//! A divisor is two words then, a factor and a shift (Granlund and Montgomery 1994):
//! software drivers divide by what they do not know lane by lane. A text may ask that
//! all its numbers are words from the first one on: what a software driver compiles for
//! a long time, and gains nothing from knowing.

use std::collections::HashMap;

use crate::render::c_like::emit::position;
use crate::render::wgsl::dialect::word as word_at;

/// Before a number.
const START: char = '\u{e000}';
/// After it.
const END: char = '\u{e001}';

/// What a marked number is in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum PlaceholderKind {
    Signed,
    Unsigned,
    Wide,
    /// What stands before the operand of a division by a number.
    Dividend,
    /// What stands after it.
    Divisor,
    /// The blocks of four uniforms: it grows, but is never read from one.
    Blocks,
    /// The same, in a text whose other numbers are words from the first one on.
    BlocksOfWords,
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

/// A number of type `u32` below 2^31, over another, marked.
pub fn quotient(dividend: &str, by: usize) -> String {
    if by > 1 && by <= i32::MAX as usize {
        format!("{START}{by}o{END}{dividend}{START}{by}d{END}")
    } else {
        format!("({dividend} / {by}u)")
    }
}

/// Whether a text divides by a marked number.
pub fn divides(text: &str) -> bool {
    text.contains(&format!("d{END}"))
}

/// The factor and the shift by which numbers below 2^31 are divided by `by`, from 2 to
/// 2^31: the product's high word, shifted. With 2^l the next power of two, the factor is
/// 2^(31+l) / by, rounded up by less than 1, so that the quotient is too large by less
/// than 1 / by.
fn reciprocal(by: u32) -> [u32; 2] {
    let digits = 32 - (by - 1).leading_zeros();
    let factor = (1u64 << (31 + digits)).div_ceil(u64::from(by));
    [factor as u32, digits - 1]
}

/// Division by what [`reciprocal`] gives, with 64-bit integers and without.
const QUOTIENTS: [&str; 2] = [
    "
fn quotient_by(x: u32, factor: u32, shift: u32) -> u32 {
    return u32((u64(x) * u64(factor)) >> 32u) >> shift;
}
",
    "
fn quotient_by(x: u32, factor: u32, shift: u32) -> u32 {
    let low = (x & 0xffffu) * (factor & 0xffffu);
    let middle = (x >> 16u) * (factor & 0xffffu) + (low >> 16u);
    let other = (x & 0xffffu) * (factor >> 16u) + (middle & 0xffffu);
    return ((x >> 16u) * (factor >> 16u) + (middle >> 16u) + (other >> 16u)) >> shift;
}
",
];

/// How many blocks of four uniforms there are, marked; whether the text's other
/// numbers are words from the first one on.
pub fn blocks(count: usize, words: bool) -> String {
    format!("{START}{count}{}{END}", if words { "w" } else { "b" })
}

/// For each number of a text, `None` if it is written there; else the first of those with
/// which it shares its uniforms, perhaps itself.
pub type UniformPlacement = Vec<Option<usize>>;

/// A marked text taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterizedText {
    /// The comment line at the top, which names sizes too.
    title: String,
    /// The text between the numbers: one piece more than there are numbers.
    pieces: Vec<String>,
    numbers: Vec<(i64, PlaceholderKind)>,
}

impl ParameterizedText {
    /// Takes a text apart. A user's own may have the marks' characters in it by
    /// chance: where they mark no number, the text has none.
    pub fn new(text: &str) -> ParameterizedText {
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
                return ParameterizedText { title, pieces: vec![body.to_string()], numbers: Vec::new() };
            };
            numbers.push(number);
            pieces.push(rest.to_string());
        }
        ParameterizedText { title, pieces, numbers }
    }

    /// What texts that differ in numbers only share, the comment apart.
    pub fn family(&self) -> String {
        let kinds = self.numbers.iter().map(|(_, kind)| match kind {
            PlaceholderKind::Signed => "?",
            PlaceholderKind::Unsigned => "?u",
            PlaceholderKind::Wide => "?li",
            PlaceholderKind::Dividend => "?o",
            PlaceholderKind::Divisor => "?d",
            PlaceholderKind::Blocks => "?b",
            PlaceholderKind::BlocksOfWords => "?w",
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

    /// Which numbers are uniforms if those `lifted` are. Numbers that are equal here,
    /// and in each of the other texts of the family, are one: compilers then see that
    /// what is computed from them is the same too. In a text that is compiled once for all
    /// sizes each has its own: whatever is equal here may differ elsewhere.
    pub fn places(&self, lifted: &[bool], others: &[&[i64]]) -> UniformPlacement {
        let (mut first, apart) = (HashMap::new(), self.in_words());
        let mut place = |i: usize| {
            let (value, kind) = self.numbers[i];
            let elsewhere = || others.iter().map(|numbers| numbers[i]).collect::<Vec<i64>>();
            if apart { i } else { *first.entry((kind, value, elsewhere())).or_insert(i) }
        };
        lifted.iter().enumerate().map(|(i, &lifted)| lifted.then(|| place(i))).collect()
    }

    /// The text with its numbers, but for those that are uniforms, which come
    /// after all others. `int64` tells whether the device has 64-bit integers.
    pub fn text(&self, places: &UniformPlacement, int64: bool) -> String {
        let (words, count) = self.starts(places);
        let mut text = self.title.clone() + &self.pieces[0];
        for ((&(value, kind), place), piece) in self.numbers.iter().zip(places).zip(&self.pieces[1..]) {
            text += &match (kind, place) {
                (PlaceholderKind::Blocks | PlaceholderKind::BlocksOfWords, _) => {
                    (value + count.div_ceil(4) as i64).to_string()
                }
                (_, Some(first)) => kind.lifted(words[*first]),
                (PlaceholderKind::Signed, None) => position(value),
                (PlaceholderKind::Unsigned, None) => format!("{value}u"),
                (PlaceholderKind::Wide, None) => format!("{value}li"),
                (PlaceholderKind::Dividend, None) => "(".into(),
                (PlaceholderKind::Divisor, None) => format!(" / {value}u)"),
            };
            text += piece;
        }
        let mut kinds = self.numbers.iter().zip(places);
        if kinds.any(|((_, kind), place)| place.is_some() && *kind == PlaceholderKind::Divisor) {
            text += QUOTIENTS[usize::from(!int64)];
        }
        text
    }

    /// The uniform at which each number starts that has words of its own, and how
    /// many words there are.
    fn starts(&self, places: &UniformPlacement) -> (Vec<usize>, usize) {
        let blocks = self.numbers.iter().find(|(_, kind)| kind.counts_blocks());
        let own = 4 * blocks.map_or(0, |(blocks, _)| *blocks as usize);
        let mut next = own;
        let start = |(i, (_, kind)): (usize, &(i64, PlaceholderKind))| {
            let start = next;
            next += if places[i] == Some(i) { kind.words() } else { 0 };
            start
        };
        let starts = self.numbers.iter().enumerate().map(start).collect();
        (starts, next - own)
    }

    /// The uniforms that say its numbers.
    pub fn words(&self, places: &UniformPlacement) -> Vec<u32> {
        let own = (0..places.len()).filter(|&i| places[i] == Some(i));
        let words = own.flat_map(|i| match self.numbers[i] {
            (value, PlaceholderKind::Signed | PlaceholderKind::Unsigned | PlaceholderKind::Wide) => {
                vec![value as u32]
            }
            (value, PlaceholderKind::Divisor) => reciprocal(value as u32).to_vec(),
            (_, PlaceholderKind::Dividend | PlaceholderKind::Blocks | PlaceholderKind::BlocksOfWords) => {
                Vec::new()
            }
        });
        words.collect()
    }

    /// Whether a number may be read from a uniform.
    pub fn may_lift(&self) -> Vec<bool> {
        self.numbers.iter().map(|(_, kind)| !kind.counts_blocks()).collect()
    }

    /// Which numbers are read from uniforms even in the first text of the family.
    pub fn lifted_at_once(&self) -> Vec<bool> {
        let all = self.in_words();
        self.may_lift().into_iter().map(|may| all && may).collect()
    }

    /// Whether the text asks that all its numbers are words.
    fn in_words(&self) -> bool {
        self.numbers.iter().any(|(_, kind)| *kind == PlaceholderKind::BlocksOfWords)
    }
}

/// A marked text with all its numbers in it.
pub fn plain(text: &str) -> String {
    let sized = ParameterizedText::new(text);
    sized.text(&vec![None; sized.numbers.len()], false)
}

fn parsed(number: &str) -> Option<(i64, PlaceholderKind)> {
    let digits = number.trim_end_matches(char::is_alphabetic);
    let kind = match &number[digits.len()..] {
        "" => PlaceholderKind::Signed,
        "u" => PlaceholderKind::Unsigned,
        "li" => PlaceholderKind::Wide,
        "o" => PlaceholderKind::Dividend,
        "d" => PlaceholderKind::Divisor,
        "b" => PlaceholderKind::Blocks,
        "w" => PlaceholderKind::BlocksOfWords,
        _ => return None,
    };
    Some((digits.parse().ok()?, kind))
}

impl PlaceholderKind {
    /// How many uniforms it is where it is lifted.
    fn words(self) -> usize {
        match self {
            PlaceholderKind::Signed | PlaceholderKind::Unsigned | PlaceholderKind::Wide => 1,
            PlaceholderKind::Divisor => 2,
            PlaceholderKind::Dividend | PlaceholderKind::Blocks | PlaceholderKind::BlocksOfWords => 0,
        }
    }

    fn counts_blocks(self) -> bool {
        matches!(self, PlaceholderKind::Blocks | PlaceholderKind::BlocksOfWords)
    }

    /// Its text where it is these uniforms.
    fn lifted(self, first: usize) -> String {
        let word = word_at(first);
        match self {
            PlaceholderKind::Signed => format!("bitcast<i32>({word})"),
            PlaceholderKind::Wide => format!("i64(bitcast<i32>({word}))"),
            PlaceholderKind::Dividend => "quotient_by(".into(),
            PlaceholderKind::Divisor => format!(", {word}, {})", word_at(first + 1)),
            PlaceholderKind::Unsigned | PlaceholderKind::Blocks | PlaceholderKind::BlocksOfWords => word,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_or_read_from_words_behind_the_others() {
        let text =
            |n: usize| format!("[{}] x * {} / {} - {}", blocks(2, false), signed(-5), unsigned(n), wide(n));
        let (one, two) = (ParameterizedText::new(&text(7)), ParameterizedText::new(&text(12)));
        assert_eq!(one.family(), two.family());
        assert_eq!(plain(&text(7)), "[2] x * (-5) / 7u - 7li");
        assert_eq!(two.numbers(), [2, -5, 12, 12]);
        let places = two.places(&[false, false, true, true], &[]);
        assert_eq!(
            two.text(&places, false),
            "[3] x * (-5) / uniforms[2].x - i64(bitcast<i32>(uniforms[2].y))"
        );
    }

    #[test]
    fn numbers_that_are_always_equal_are_one_word() {
        let text = |x: i64, y: i64| format!("{} {} {}", signed(x), signed(y), signed(x));
        let sized = ParameterizedText::new(&text(9, 9));
        let places = |other: &[i64]| sized.places(&[true; 3], &[other]);
        assert_eq!(places(&[7, 8, 7]), [Some(0), Some(1), Some(0)]);
        assert_eq!(sized.words(&places(&[7, 8, 7])), [9, 9]);
        assert_eq!(sized.words(&places(&[7, 7, 7])), [9]);
        let one = "bitcast<i32>(uniforms[0].x)";
        assert_eq!(
            sized.text(&places(&[7, 8, 7]), false),
            format!("{one} bitcast<i32>(uniforms[0].y) {one}")
        );
    }

    #[test]
    fn a_lifted_divisor_is_a_factor_and_a_shift() {
        let text = |n: usize| format!("[{}] {} - {}", blocks(1, false), quotient("x", n), unsigned(n));
        assert_eq!(plain(&text(7)), "[1] (x / 7u) - 7u");
        let sized = ParameterizedText::new(&text(12));
        let places = sized.places(&[false, true, true, true], &[]);
        let [with, without] = [true, false].map(|int64| sized.text(&places, int64));
        let own = "[2] quotient_by(x, uniforms[1].x, uniforms[1].y) - uniforms[1].z";
        assert!(with.starts_with(own) && with.contains("u64"), "{with}");
        assert!(without.starts_with(own) && !without.contains("u64"), "{without}");
        assert_eq!(sized.words(&places), [0xaaaa_aaab, 3, 12]);
    }

    #[test]
    fn a_text_of_words_reads_them_from_the_first_on() {
        let text = |words: bool| format!("[{}] {} {}", blocks(1, words), signed(7), signed(7));
        let places = |words| {
            let sized = ParameterizedText::new(&text(words));
            sized.places(&sized.lifted_at_once(), &[])
        };
        assert_eq!(places(false), [None; 3]);
        assert_eq!(places(true), [None, Some(1), Some(2)], "equal by chance");
        assert_eq!(plain(&text(true)), plain(&text(false)));
    }

    #[test]
    fn reciprocals_divide_exactly() {
        let near = |x: u32| [x.saturating_sub(1), x, x.saturating_add(1)];
        let powers = (1..31).flat_map(|digit| near(1 << digit));
        let divisors = (2..2000).chain(powers).chain([i32::MAX as u32 - 1, i32::MAX as u32]);
        for by in divisors.filter(|&by| (2..=i32::MAX as u32).contains(&by)) {
            let [factor, shift] = reciprocal(by);
            let most = i32::MAX as u32;
            let multiples = [1, 2, 3, 1000, most / by, (most / by).saturating_sub(1)];
            let dividends =
                multiples.into_iter().flat_map(|n| near(n.saturating_mul(by))).chain(near(most - 1));
            for x in dividends.filter(|&x| x <= most) {
                let quotient = ((u64::from(x) * u64::from(factor)) >> 32) as u32 >> shift;
                assert_eq!(quotient, x / by, "{x} / {by}");
            }
        }
    }

    #[test]
    fn a_text_with_the_characters_of_marks_stays_what_it_is() {
        for text in ["a\u{e000}b", "a\u{e000}b\u{e001}c", "// x\n\u{e001}\u{e000}7"] {
            assert_eq!(plain(text), text);
        }
    }

    #[test]
    fn zero_and_one_are_part_of_the_family() {
        assert_ne!(ParameterizedText::new(&signed(1)).family(), ParameterizedText::new(&signed(2)).family());
        assert_eq!(plain(&signed(0)), "0");
    }
}
