//! What else the machine did during a measurement.

use std::fmt::{self, Display};
use std::hint::black_box;
use std::time::Duration;

use crate::base::system::Instant;

/// Multiplications of the loop that tells the processor's speed: about a fifth of a millisecond.
const CHAIN: u64 = 200_000;

/// Runs of that loop, of which the shortest counts.
const CHAINS: usize = 5;

/// What makes a measurement doubtful.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Disturbance {
    /// The interquartile range is over [`Disturbance::SPREAD`] of the median: this part of it.
    Spread(f64),
    /// Other programs used over [`Disturbance::LOAD`] of the machine's processor time: this part of it. Known
    /// on Linux only.
    Load(f64),
    /// One thread's speed moved by over [`Disturbance::CLOCK`] from before to after: by this part.
    Clock(f64),
    /// The closure returned tensors that were in memory already, so nothing was computed.
    NothingRun,
}

impl Disturbance {
    /// The largest interquartile range of a steady measurement, as a part of the median.
    pub const SPREAD: f64 = 0.1;
    /// The largest part of the machine that others may use.
    pub const LOAD: f64 = 0.1;
    /// The largest part by which the processor's speed may move.
    pub const CLOCK: f64 = 0.05;
}

impl Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |part: &f64| format!("{:.0} %", part * 100.0);
        match self {
            Disturbance::Spread(part) => write!(
                f,
                "the interquartile range is {} of the median, over {}: something disturbed some runs",
                percent(part),
                percent(&Disturbance::SPREAD)
            ),
            Disturbance::Load(part) => write!(
                f,
                "other programs used {} of the processors, over {}",
                percent(part),
                percent(&Disturbance::LOAD)
            ),
            Disturbance::Clock(part) => write!(
                f,
                "one thread became {} {}, over {}: the clock rate or a neighbor changed",
                percent(&part.abs()),
                if *part < 0.0 { "slower" } else { "faster" },
                percent(&Disturbance::CLOCK)
            ),
            Disturbance::NothingRun => f.write_str(
                "the closure returned tensors that were in memory already: nothing was computed; build them in it",
            ),
        }
    }
}

/// The machine before a measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    chain: Duration,
    processors: Option<ProcessorTime>,
}

impl Machine {
    pub fn now() -> Machine {
        Machine { chain: chain(), processors: ProcessorTime::now() }
    }

    /// What happened since.
    pub fn disturbances(&self) -> Vec<Disturbance> {
        let processors = self.processors.and_then(|before| Some(ProcessorTime::now()?.others_since(before)));
        let faster = self.chain.as_secs_f64() / chain().as_secs_f64() - 1.0;
        let load = processors.filter(|&part| part > Disturbance::LOAD).map(Disturbance::Load);
        let clock = (faster.abs() > Disturbance::CLOCK).then_some(Disturbance::Clock(faster));
        load.into_iter().chain(clock).collect()
    }
}

/// The time of a chain of multiplications, each of which waits for the one before: so many cycles.
fn chain() -> Duration {
    let run = || {
        let start = Instant::now();
        let product = (0..CHAIN).fold(black_box(3u64), |product, i| product.wrapping_mul(product | i));
        black_box(product);
        start.elapsed()
    };
    (0..CHAINS).map(|_| run()).min().unwrap_or_default()
}

/// Processor time since the system started, in its ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ProcessorTime {
    /// Of all processors, busy and idle.
    total: u64,
    busy: u64,
    /// Of this process.
    own: u64,
}

impl ProcessorTime {
    fn now() -> Option<ProcessorTime> {
        let read = |path: &str| std::fs::read_to_string(path).ok();
        ProcessorTime::parse(&read("/proc/stat")?, &read("/proc/self/stat")?)
    }

    /// From Linux's `/proc/stat` and `/proc/self/stat` (proc(5)).
    fn parse(all: &str, own: &str) -> Option<ProcessorTime> {
        let numbers =
            |text: &str| text.split_whitespace().map_while(|n| n.parse().ok()).collect::<Vec<u64>>();
        // user, nice, system, idle, iowait, irq, softirq, steal; what follows is part of the first two.
        let all = numbers(all.lines().next()?.strip_prefix("cpu")?);
        let all = all.get(..8)?;
        // After the name in parentheses come the state and 10 fields, then user and system time.
        let mut own = own.rsplit_once(')')?.1.split_whitespace().skip(11);
        let mut own_time = || own.next()?.parse::<u64>().ok();
        let own = own_time()? + own_time()?;
        let (total, idle): (u64, u64) = (all.iter().sum(), all[3] + all[4]);
        Some(ProcessorTime { total, busy: total - idle, own })
    }

    /// The part of the machine that others used since.
    fn others_since(&self, before: ProcessorTime) -> f64 {
        let [total, busy, own] =
            [(self.total, before.total), (self.busy, before.busy), (self.own, before.own)]
                .map(|(now, then)| now.saturating_sub(then) as f64);
        if total > 0.0 { ((busy - own) / total).max(0.0) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_use_is_what_this_process_does_not() {
        let own = |user: u64| format!("7 (a (name) S 1 7 7 0 -1 4194560 9 0 0 0 {user} 5 0 0 20 0 1 0 3 0 0");
        let parse = |all: &str, user: u64| ProcessorTime::parse(all, &own(user)).expect("numbers");
        let before = parse("cpu  100 0 20 800 10 0 0 0 0 0\ncpu0 1 2\n", 30);
        assert_eq!(before, ProcessorTime { total: 930, busy: 120, own: 35 });
        let after = parse("cpu  160 0 20 840 10 0 0 0 0 0\n", 50);
        assert_eq!(after.others_since(before), 0.4);
        assert_eq!(before.others_since(before), 0.0);
        assert_eq!(ProcessorTime::parse("", ""), None);
    }

    #[test]
    fn disturbances_state_their_thresholds() {
        assert!(Disturbance::Spread(0.25).to_string().contains("25 % of the median, over 10 %"));
        assert!(Disturbance::Clock(-0.2).to_string().contains("20 % slower, over 5 %"));
    }
}
