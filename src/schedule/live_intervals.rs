//! Which of many things are alive during some steps, without looking at all.

/// Numbered things, each alive from one step to another.
#[derive(Debug)]
pub(super) struct LiveIntervals {
    /// A segment tree over the steps: what is alive in all steps of a node and not in
    /// all of its parent's.
    throughout: Vec<Vec<usize>>,
    /// By step, what comes alive.
    from: Vec<Vec<usize>>,
}

impl LiveIntervals {
    /// Nothing, in so many steps.
    pub fn new(steps: usize) -> LiveIntervals {
        LiveIntervals { throughout: vec![Vec::new(); 2 * steps], from: vec![Vec::new(); steps] }
    }

    /// A thing is alive from step `first` to step `last`.
    pub fn insert(&mut self, number: usize, first: usize, last: usize) {
        self.from[first].push(number);
        let (mut low, mut high) = (first + self.from.len(), last + 1 + self.from.len());
        while low < high {
            if low % 2 == 1 {
                self.throughout[low].push(number);
                low += 1;
            }
            if high % 2 == 1 {
                high -= 1;
                self.throughout[high].push(number);
            }
            (low, high) = (low / 2, high / 2);
        }
    }

    /// What is alive in some step from `first` to `last`, once each: at the first of
    /// them, or from a later one on.
    pub fn overlapping(&self, first: usize, last: usize) -> impl Iterator<Item = usize> {
        let nodes = std::iter::successors(Some(first + self.from.len()), |node| Some(node / 2));
        let at_first = nodes.take_while(|&node| node > 0).flat_map(|node| &self.throughout[node]);
        at_first.chain(self.from[first + 1..=last].iter().flatten()).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_finds_what_looking_at_all_finds() {
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
