//! Live intervals in a segment tree: which of them overlap a range of steps.

/// Numbered live intervals, each from one step to another.
#[derive(Debug)]
pub(super) struct LiveIntervals {
    /// A segment tree over the steps: the intervals that cover all steps of a node and
    /// not all of its parent's.
    covering: Vec<Vec<usize>>,
    /// By step, the intervals that start there.
    starting: Vec<Vec<usize>>,
}

impl LiveIntervals {
    /// No intervals, over so many steps.
    pub fn new(steps: usize) -> LiveIntervals {
        LiveIntervals { covering: vec![Vec::new(); 2 * steps], starting: vec![Vec::new(); steps] }
    }

    /// Adds the interval from step `first` to step `last`.
    pub fn insert(&mut self, number: usize, first: usize, last: usize) {
        self.starting[first].push(number);
        let (mut low, mut high) = (first + self.starting.len(), last + 1 + self.starting.len());
        while low < high {
            if low % 2 == 1 {
                self.covering[low].push(number);
                low += 1;
            }
            if high % 2 == 1 {
                high -= 1;
                self.covering[high].push(number);
            }
            (low, high) = (low / 2, high / 2);
        }
    }

    /// The intervals that overlap `first..=last`, once each: those that cover `first`, and
    /// those that start later.
    pub fn overlapping(&self, first: usize, last: usize) -> impl Iterator<Item = usize> {
        let nodes = std::iter::successors(Some(first + self.starting.len()), |node| Some(node / 2));
        let at_first = nodes.take_while(|&node| node > 0).flat_map(|node| &self.covering[node]);
        at_first.chain(self.starting[first + 1..=last].iter().flatten()).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_finds_what_a_scan_of_all_intervals_finds() {
        for steps in 1..12 {
            let lives = (0..steps).flat_map(|first| (first..steps).map(move |last| (first, last)));
            let lives: Vec<(usize, usize)> = lives.collect();
            let mut alive = LiveIntervals::new(steps);
            for (number, &(first, last)) in lives.iter().enumerate() {
                alive.insert(number, first, last);
            }
            for &(first, last) in &lives {
                let mut found: Vec<usize> = alive.overlapping(first, last).collect();
                found.sort_unstable();
                let together = |&number: &usize| lives[number].0 <= last && first <= lives[number].1;
                let all: Vec<usize> = (0..lives.len()).filter(together).collect();
                assert_eq!(found, all, "{first} to {last} of {steps}");
            }
        }
    }
}
