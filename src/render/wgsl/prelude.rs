//! The functions that kernels call: those of `prelude.wgsl` that a text needs.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The library, each function under its name.
static LIBRARY: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
    let mut found = Vec::new();
    for text in [include_str!("prelude.wgsl"), include_str!("prelude64.wgsl")] {
        // A function, with the comment before it, ends at a brace of its own.
        let mut rest = text;
        while let Some(end) = rest.find("\n}\n") {
            let (own, after) = rest.split_at(end + 3);
            if let Some(start) = own.find("fn ") {
                let name = own[start + 3..].split('(').next().unwrap_or_default();
                found.push((name, own[start..].trim_start()));
            }
            rest = after;
        }
    }
    found
});

/// The functions that a text calls, and those that they call, in the
/// library's order.
pub fn needed(text: &str) -> String {
    let places: HashMap<&str, usize> = LIBRARY.iter().enumerate().map(|(i, (name, _))| (*name, i)).collect();
    let mut wanted = vec![false; LIBRARY.len()];
    let mut pending = vec![text];
    while let Some(text) = pending.pop() {
        for name in calls(text) {
            if let Some(&place) = places.get(name)
                && !wanted[place]
            {
                wanted[place] = true;
                pending.push(body(LIBRARY[place].1));
            }
        }
    }
    LIBRARY.iter().zip(wanted).filter(|(_, wanted)| *wanted).map(|((_, text), _)| *text).collect()
}

/// A function's text after its name.
fn body(text: &str) -> &str {
    text.split_once('(').map_or("", |(_, rest)| rest)
}

/// The names followed by a parenthesis.
fn calls(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices('(').map(|(end, _)| {
        let before = text[..end].trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
        &text[before.len()..end]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_called_comes_along() {
        let text = needed("let x = maximum_f32(a, b);");
        assert!(text.contains("fn maximum_f32(") && text.contains("fn rank_max_f32("), "{text}");
        assert!(!text.contains("fn exp_f32("), "{text}");
        assert_eq!(needed("let x = a + b;"), "");
    }
}
