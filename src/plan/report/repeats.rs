//! Runs of kernels that repeat, as those of a model's equal layers do.

use std::collections::HashMap;
use std::hash::Hash;

/// Kernels of a run, at most.
const MAX_PERIOD: usize = 256;

/// Rows that a table must save to be worth a note.
const MIN_SAVED: usize = 4;

/// Some neighbours, and how often they come one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Repeat {
    /// Where they are first.
    pub start: usize,
    /// How many they are.
    pub period: usize,
    /// How often they come; 1 for what does not repeat.
    pub times: usize,
}

/// Covers all items, in order: from each on, the run that saves the most rows.
pub(super) fn repeats<T: Eq + Hash>(items: &[T]) -> Vec<Repeat> {
    let mut numbers = HashMap::new();
    let ids: Vec<usize> = (items.iter())
        .map(|item| {
            let next = numbers.len();
            *numbers.entry(item).or_insert(next)
        })
        .collect();
    let mut found = Vec::new();
    let mut start = 0;
    while start < ids.len() {
        let rest = &ids[start..];
        let runs = (1..=MAX_PERIOD.min(rest.len() / 2)).map(|period| (period, times(rest, period)));
        let saved = |&(period, times): &(usize, usize)| period * (times - 1);
        // Of equals, the shortest.
        let best = runs.rev().max_by_key(saved).filter(|run| saved(run) >= MIN_SAVED);
        let (period, times) = best.unwrap_or((1, 1));
        found.push(Repeat { start, period, times });
        start += period * times;
    }
    found
}

/// How often the first so many items come in a row.
fn times(ids: &[usize], period: usize) -> usize {
    let first = &ids[..period];
    ids.chunks_exact(period).take_while(|chunk| *chunk == first).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<(usize, usize, usize)> {
        let items: Vec<char> = text.chars().collect();
        repeats(&items).iter().map(|run| (run.start, run.period, run.times)).collect()
    }

    #[test]
    fn equal_layers_are_one_run() {
        assert_eq!(of("xabcabcabcy"), [(0, 1, 1), (1, 3, 3), (10, 1, 1)]);
        assert_eq!(of("aaaaaaaa"), [(0, 1, 8)]);
        assert_eq!(of("abab"), [(0, 1, 1), (1, 1, 1), (2, 1, 1), (3, 1, 1)], "two rows are not worth a note");
        assert_eq!(of(""), []);
    }
}
