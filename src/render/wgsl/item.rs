//! A text of WGSL as its declarations.

use std::collections::HashMap;
use std::ops::Range;

/// A declaration or a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'t> {
    /// Its text, without comments before it.
    pub text: &'t str,
    /// What it declares; a directive declares nothing.
    pub name: Option<&'t str>,
}

impl<'t> Item<'t> {
    fn new(text: &'t str) -> Item<'t> {
        let words: Vec<Range<usize>> = words(text).collect();
        let declares = |word: &Range<usize>| {
            matches!(&text[word.clone()], "fn" | "var" | "const" | "struct" | "alias" | "override")
        };
        let keyword = words.iter().position(declares);
        // The address space of a variable comes before its name.
        let named = |at: usize| {
            let after = words[at].end;
            let template = text[after..].trim_start().starts_with('<');
            let start = if template { after + text[after..].find('>')? } else { after };
            words.iter().find(|word| word.start >= start).map(|word| &text[word.clone()])
        };
        Item { text, name: keyword.and_then(named) }
    }

    /// The names in it that are no members of something.
    pub fn references(&self) -> impl Iterator<Item = &'t str> + '_ {
        words(self.text).filter(|word| !self.is_member(word)).map(|word| &self.text[word])
    }

    /// The number of its binding, if it is one.
    pub fn binding(&self) -> Option<usize> {
        self.text.split_once("@binding(")?.1.split_once(')')?.0.parse().ok()
    }

    /// The type of a variable.
    pub fn element(&self) -> Option<&'t str> {
        Some(self.text.split_once(": ")?.1.trim_end_matches(';'))
    }

    /// Whether a word of it names a member.
    fn is_member(&self, word: &Range<usize>) -> bool {
        let declared =
            self.text.starts_with("struct ") && self.text[word.end..].trim_start().starts_with(':');
        declared || self.text[..word.start].ends_with('.')
    }
}

/// An item's text with other names.
pub fn renamed(item: &Item<'_>, names: &HashMap<String, String>) -> String {
    let mut text = String::with_capacity(item.text.len());
    let mut done = 0;
    for word in words(item.text).filter(|word| !item.is_member(word)) {
        if let Some(name) = names.get(&item.text[word.clone()]) {
            text += &item.text[done..word.start];
            text += name;
            done = word.end;
        }
    }
    text + &item.text[done..]
}

/// The items of a text.
pub fn items(text: &str) -> Vec<Item<'_>> {
    let mut items = Vec::new();
    let (mut start, mut depth, mut at) = (None, 0, 0);
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
            continue;
        }
        if rest.starts_with("/*") {
            at += rest.find("*/").map_or(rest.len(), |end| end + 2);
            continue;
        }
        at += c.len_utf8();
        if !c.is_whitespace() {
            start.get_or_insert(at - c.len_utf8());
        }
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        let ends = depth == 0 && matches!(c, ';' | '}');
        if let Some(from) = start.filter(|_| ends) {
            items.push(Item::new(&text[from..at]));
            start = None;
        }
    }
    items
}

/// Where the identifiers and keywords of a text are.
fn words(text: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let rest = &text[at..];
            let first = rest.chars().next()?;
            if rest.starts_with("//") {
                at += rest.find('\n').unwrap_or(rest.len());
            } else if rest.starts_with("/*") {
                at += rest.find("*/").map_or(rest.len(), |end| end + 2);
            } else if first.is_ascii_alphanumeric() || first == '_' {
                let start = at;
                let of_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
                at += rest.find(|c| !of_word(c)).unwrap_or(rest.len());
                if !first.is_ascii_digit() {
                    return Some(start..at);
                }
            } else {
                at += first.len_utf8();
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "// a comment; with } in it
enable f16;
@group(0) @binding(2) var<storage, read_write> in1_0: array<vec2<u64>>;
struct Pair { low: f32, /* } */ high: f32 }
const N = 12u;
fn low(at: i32) -> f32 {
    if (at > 0x1fi) { return in1_0[at].low; }
    return f32(N);
}
";

    #[test]
    fn a_text_is_its_declarations() {
        let found = items(TEXT);
        let names: Vec<Option<&str>> = found.iter().map(|item| item.name).collect();
        assert_eq!(names, [None, Some("in1_0"), Some("Pair"), Some("N"), Some("low")]);
        assert_eq!(found[1].binding(), Some(2));
        assert_eq!(found[1].element(), Some("array<vec2<u64>>"));
        assert_eq!(found[0].text, "enable f16;");
    }

    #[test]
    fn members_keep_their_names() {
        let names = HashMap::from([("low".into(), "low_1".into()), ("N".into(), "N_1".into())]);
        let found: Vec<String> = items(TEXT).iter().map(|item| renamed(item, &names)).collect();
        assert_eq!(found[2], "struct Pair { low: f32, /* } */ high: f32 }");
        assert!(found[4].starts_with("fn low_1(at: i32)"), "{}", found[4]);
        assert!(found[4].contains("in1_0[at].low;") && found[4].contains("f32(N_1)"), "{}", found[4]);
    }
}
