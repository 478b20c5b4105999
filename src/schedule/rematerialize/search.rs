//! Which values to recompute: a greedy search for the largest saving per cost where
//! memory use is highest.

use std::cmp::Reverse;

use crate::schedule::rematerialize::trace::{LiveRanges, Trace};

/// Values looked at in one round, those first that would free most.
const CANDIDATES: usize = 48;
/// How many steps back to recompute.
const DEPTHS: [usize; 5] = [0, 1, 2, 4, 16];
/// The part of the peak to be taken off in one round, at first and at least.
const FIRST_CUT: f64 = 0.1;
const LAST_CUT: f64 = 0.005;

/// The trace with values recomputed until its peak is within `target`, or until
/// nothing helps any more.
pub(super) fn search<'a>(mut trace: Trace<'a>, target: u64) -> Trace<'a> {
    let most_entries = 3 * trace.entries.len();
    let mut cut = FIRST_CUT;
    while trace.entries.len() < most_entries {
        let live_ranges = trace.live_ranges();
        let profile = trace.profile(&live_ranges);
        let peak = profile.iter().copied().max().unwrap_or(0);
        if peak <= target {
            break;
        }
        let goal = target.max(peak - (peak as f64 * cut) as u64);
        match best(&trace, &live_ranges, &profile, goal) {
            Some(better) => trace = better,
            None if cut < LAST_CUT => break,
            None => cut /= 2.0,
        }
    }
    trace
}

/// A value, the entry before which it could be recomputed, and an upper bound on
/// the bytes that would free.
struct RecomputeCandidate {
    value: usize,
    before: usize,
    frees: u64,
}

/// The change that takes off most of what is above the goal for what it
/// costs; none if none does without a higher peak.
fn best<'a>(trace: &Trace<'a>, live_ranges: &LiveRanges, profile: &[u64], goal: u64) -> Option<Trace<'a>> {
    let (excess, peak) = (above(profile, goal), profile.iter().max());
    let (mut found, mut worth) = (None, 0.0);
    for candidate in candidates(trace, live_ranges, profile, goal) {
        let mut entries = 0;
        for depth in DEPTHS {
            let changed = trace.recompute(candidate.value, candidate.before, depth, live_ranges);
            // Deeper finds nothing more to recompute.
            if changed.entries.len() == entries {
                break;
            }
            entries = changed.entries.len();
            let profile = changed.profile(&changed.live_ranges());
            let left = above(&profile, goal);
            let gain = excess.saturating_sub(left) as f64 / (changed.cost() - trace.cost() + 1) as f64;
            if profile.iter().max() <= peak && gain > worth {
                (found, worth) = (Some(changed), gain);
            }
        }
    }
    found
}

/// Bytes above the goal, summed over entries.
fn above(profile: &[u64], goal: u64) -> u64 {
    profile.iter().map(|held| held.saturating_sub(goal)).sum()
}

/// Values that lie idle between two uses while more than the goal is held.
fn candidates(
    trace: &Trace<'_>,
    live_ranges: &LiveRanges,
    profile: &[u64],
    goal: u64,
) -> Vec<RecomputeCandidate> {
    // By line, how many entries before it are above the goal.
    let mut above = vec![0u64; profile.len() + 1];
    for (line, &held) in profile.iter().enumerate() {
        above[line + 1] = above[line] + u64::from(held > goal);
    }
    let mut last_use: Vec<Option<usize>> = vec![None; trace.values.len()];
    let mut found = Vec::new();
    for (now, line) in trace.entries.iter().enumerate() {
        for &value in &line.reads {
            let Some(before) = last_use[value].replace(now) else { continue };
            let high = above[now] - above[(before + 1).min(now)];
            if high > 0 && trace.values[value].bytes > 0 && trace.is_repeatable(value, live_ranges) {
                let frees = high * trace.values[value].bytes;
                found.push(RecomputeCandidate { value, before: now, frees });
            }
        }
        line.writes.iter().for_each(|&value| last_use[value] = Some(now));
    }
    found.sort_by_key(|candidate| Reverse(candidate.frees));
    found.truncate(CANDIDATES);
    found
}
