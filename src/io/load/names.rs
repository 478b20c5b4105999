//! Patterns of dotted names, and names that are near others.

/// The start of a name, with holes: `layers.{}.attention`. A hole stands for one or more characters
/// other than a dot; the start ends where the name does, or before a dot.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
}

/// How a pattern fits a name.
#[derive(Debug, PartialEq)]
pub struct Fit<'a> {
    holes: Vec<&'a str>,
    /// What follows the start, without the dot between.
    rest: &'a str,
}

const HOLE: &str = "{}";

impl Pattern {
    /// A pattern; a dot at the end means nothing, since the start ends at one anyway.
    pub fn new(text: &str) -> Pattern {
        Pattern { text: text.strip_suffix('.').unwrap_or(text).into() }
    }

    /// The pattern as text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How many holes it has.
    pub fn holes(&self) -> usize {
        self.text.matches(HOLE).count()
    }

    /// How it fits the start of a name. The empty pattern fits every name, all of which is the rest.
    pub fn fit<'a>(&self, name: &'a str) -> Option<Fit<'a>> {
        if self.text.is_empty() {
            return Some(Fit { holes: Vec::new(), rest: name });
        }
        let mut literals = self.text.split(HOLE);
        let mut rest = name.strip_prefix(literals.next()?)?;
        let mut holes = Vec::new();
        for literal in literals {
            let segment = rest.find('.').unwrap_or(rest.len());
            let end = if literal.is_empty() { segment } else { find_after_first(rest, literal)? };
            if end == 0 || end > segment {
                return None;
            }
            holes.push(&rest[..end]);
            rest = &rest[end + literal.len()..];
        }
        let rest = if rest.is_empty() { rest } else { rest.strip_prefix('.')? };
        Some(Fit { holes, rest })
    }

    /// The name that this pattern makes of what another one found: its holes are filled in order.
    pub fn fill(&self, fit: &Fit<'_>) -> String {
        let mut holes = fit.holes.iter();
        let mut name = String::new();
        for (number, literal) in self.text.split(HOLE).enumerate() {
            if number > 0 {
                name += holes.next().unwrap_or(&HOLE);
            }
            name += literal;
        }
        match (name.is_empty(), fit.rest.is_empty()) {
            (true, _) => fit.rest.into(),
            (false, true) => name,
            (false, false) => format!("{name}.{}", fit.rest),
        }
    }
}

/// Where a text has another one that does not begin it.
fn find_after_first(text: &str, other: &str) -> Option<usize> {
    let first = text.chars().next()?.len_utf8();
    text[first..].find(other).map(|at| at + first)
}

/// The name that is most like another one, if any is much like it: at most a third of it differs.
pub fn nearest<'a>(name: &str, others: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let most = name.chars().count().div_ceil(3);
    let measured = others.map(|other| (distance(name, other), other));
    measured.filter(|&(distance, _)| distance <= most).min().map(|(_, other)| other)
}

/// How many characters are to be put in, left out or replaced to make one text of the other
/// (Levenshtein 1966, by Wagner and Fischer's table).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn renamed(from: &str, to: &str, name: &str) -> Option<String> {
        Pattern::new(from).fit(name).map(|fit| Pattern::new(to).fill(&fit))
    }

    #[test]
    fn a_pattern_fits_whole_segments_and_carries_the_rest() {
        let query = |name| renamed("layers.{}.attn.q", "blocks.{}.query", name);
        assert_eq!(query("layers.3.attn.q.weight").as_deref(), Some("blocks.3.query.weight"));
        assert_eq!(query("layers.3.attn.q").as_deref(), Some("blocks.3.query"));
        for other in ["layers.3.attn.qk.weight", "layers..attn.q", "layers.3.4.attn.q", "a.layers.3.attn.q"] {
            assert_eq!(query(other), None, "{other}");
        }
        assert_eq!(renamed("h_{}_{}", "h.{}.{}", "h_1_ab.w").as_deref(), Some("h.1.ab.w"));
        assert_eq!(renamed("model.", "", "model.a.b").as_deref(), Some("a.b"));
        assert_eq!(renamed("", "model", "a.b").as_deref(), Some("model.a.b"));
        assert_eq!(renamed("é{}", "{}", "éü").as_deref(), Some("ü"));
    }

    #[test]
    fn a_near_name_is_found_and_a_far_one_is_not() {
        let near = |name| nearest(name, ["encoder.weight", "encoder.bias", "head"].into_iter());
        assert_eq!(near("encoder.weigth"), Some("encoder.weight"));
        assert_eq!(near("decoder.bias"), Some("encoder.bias"));
        assert_eq!(near("something"), None);
        assert_eq!((distance("", "abc"), distance("kitten", "sitting")), (3, 3));
    }
}
