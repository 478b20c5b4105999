//! The model to beat: the next character given the two before it, counted.

use std::collections::HashMap;

/// Counts of what follows up to two characters.
///
/// Smoothed by Witten and Bell's interpolation (1991): after a context seen
/// `n` times with `t` different successors, the counts have the share
/// `n / (n + t)` and the context without its first character the rest; below
/// single characters, all are equally likely.
#[derive(Debug)]
pub struct Trigram {
    /// By the one or two characters before, or none.
    seen: HashMap<Vec<u8>, Successors>,
    alphabet: usize,
}

#[derive(Debug, Default)]
struct Successors {
    all: f64,
    each: HashMap<u8, f64>,
}

impl Trigram {
    /// Counts a text of characters below `alphabet`.
    pub fn fitted(text: &[u8], alphabet: usize) -> Trigram {
        let mut seen: HashMap<Vec<u8>, Successors> = HashMap::new();
        for at in 0..text.len() {
            for before in 0..=2.min(at) {
                let successors = seen.entry(text[at - before..at].to_vec()).or_default();
                successors.all += 1.0;
                *successors.each.entry(text[at]).or_default() += 1.0;
            }
        }
        Trigram { seen, alphabet }
    }

    /// The probability of a character after the last two of `before`.
    pub fn probability(&self, before: &[u8], character: u8) -> f64 {
        let before = &before[before.len().saturating_sub(2)..];
        (0..=before.len()).fold(1.0 / self.alphabet as f64, |shorter, length| {
            let Some(seen) = self.seen.get(&before[before.len() - length..]) else { return shorter };
            let (count, kinds) = (seen.each.get(&character).copied().unwrap_or(0.0), seen.each.len() as f64);
            (count + kinds * shorter) / (seen.all + kinds)
        })
    }

    /// The mean of the negative logarithms of the probabilities of all
    /// characters of a text but the first: nats.
    pub fn loss(&self, text: &[u8]) -> f64 {
        let surprise = |at: usize| -self.probability(&text[..at], text[at]).ln();
        (1..text.len()).map(surprise).sum::<f64>() / (text.len() - 1) as f64
    }
}
