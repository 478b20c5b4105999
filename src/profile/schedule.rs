//! Which steps of a loop are recorded.

/// Which steps of a loop are recorded: after `skip_first` steps, cycles of `wait` steps that are not,
/// `warmup` steps whose records are dropped, and `active` steps that make one profile; `repeat` cycles, or
/// as many as there are if that is 0. PyTorch: `torch.profiler.schedule`.
///
/// ```
/// use kiln::profile::{Phase, Schedule};
///
/// let schedule = Schedule { skip_first: 1, wait: 1, warmup: 1, active: 2, repeat: 1 };
/// let phases: Vec<Phase> = (0..6).map(|step| schedule.phase(step)).collect();
/// use Phase::*;
/// assert_eq!(phases, [Off, Off, Warmup, Active, ActiveLast, Off]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Steps before the first cycle.
    pub skip_first: usize,
    /// Steps of a cycle that are not recorded.
    pub wait: usize,
    /// Steps after those, recorded and dropped: compilation, caches and clocks settle.
    pub warmup: usize,
    /// Steps after those that make the profile; none count as one.
    pub active: usize,
    /// How many cycles there are; 0 if they never end.
    pub repeat: usize,
}

/// What a profiler does in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing.
    Off,
    /// It records, and drops the records at the end of the phase.
    Warmup,
    /// It records.
    Active,
    /// It records, and the profile is ready after this step.
    ActiveLast,
}

impl Phase {
    /// Whether anything is recorded.
    pub fn is_on(self) -> bool {
        self != Phase::Off
    }
    /// Whether what is recorded is kept.
    pub fn is_active(self) -> bool {
        matches!(self, Phase::Active | Phase::ActiveLast)
    }
}

impl Schedule {
    /// What is done in a step, counted from 0.
    pub fn phase(&self, step: usize) -> Phase {
        let Some(step) = step.checked_sub(self.skip_first) else { return Phase::Off };
        let active = self.active.max(1);
        let cycle = self.wait.saturating_add(self.warmup).saturating_add(active);
        if self.repeat > 0 && step / cycle >= self.repeat {
            return Phase::Off;
        }
        let before = step % cycle;
        match () {
            () if before < self.wait => Phase::Off,
            () if before < self.wait + self.warmup => Phase::Warmup,
            () if before + 1 < cycle => Phase::Active,
            () => Phase::ActiveLast,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_follow_each_other_until_they_have_been_repeated() {
        let schedule = Schedule { skip_first: 2, wait: 1, warmup: 1, active: 1, repeat: 2 };
        let phases: Vec<Phase> = (0..10).map(|step| schedule.phase(step)).collect();
        use Phase::{ActiveLast, Off, Warmup};
        assert_eq!(phases, [Off, Off, Off, Warmup, ActiveLast, Off, Warmup, ActiveLast, Off, Off]);
        let endless = Schedule { skip_first: 0, wait: 0, warmup: 0, active: 0, repeat: 0 };
        assert_eq!(endless.phase(1_000), ActiveLast);
    }
}
