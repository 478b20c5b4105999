//! How long a plan would take on more ranks than there are.
//!
//! A step that many ranks take together has kernels, which each rank runs for itself, and collectives, which grow
//! with the ranks. Both are known from the plan: so what a cluster would do is told before anybody rents it.
//!
//! Kernels take what the roofline says they take at least, one after the other. Collectives go over a network beside
//! them, one at a time: each starts when its operand is whole, and the first kernel that reads its result waits.
//! A collective goes level by level, within machines and then between them, in a ring on each level; an exchange
//! between machines moves only the part that each rank of a machine holds (Thakur, Rabenseifner and Gropp,
//! "Optimization of Collective Communication Operations in MPICH", 2005).

use std::fmt::{self, Display};

use crate::base::Device;
use crate::ir::collective::CollectiveKind;
use crate::plan::report::{CollectiveReport, PlanReport};
use crate::plan::roofline::{PeakThroughput, Roofline, Seconds};

/// What connects a rank to its neighbors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Bytes per second that a rank sends, while it receives as many.
    pub bytes: f64,
    /// Seconds until the first byte of a message is there.
    pub latency: f64,
}

/// Ranks and their links, level by level: processors in a machine, machines in a room.
///
/// # Examples
/// ```
/// use kiln::plan::scaling::{Link, Network};
/// let (fast, slow) = (Link { bytes: 3e11, latency: 3e-6 }, Link { bytes: 2.5e10, latency: 1e-5 });
/// let room = Network::of(8, fast).times(8, slow);
/// assert_eq!(room.ranks(), 64);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// Ranks, or networks, of each level, the innermost first.
    levels: Vec<(usize, Link)>,
}

impl Network {
    /// Ranks with links between all of them. None counts as one.
    #[must_use]
    pub fn of(ranks: usize, link: Link) -> Network {
        Network { levels: vec![(ranks.max(1), link)] }
    }
    /// So many of this network, in which each rank has a link to those of its place in the others.
    #[must_use]
    pub fn times(mut self, networks: usize, link: Link) -> Network {
        self.levels.push((networks.max(1), link));
        self
    }
    /// The number of ranks.
    pub fn ranks(&self) -> usize {
        self.levels.iter().map(|level| level.0).fold(1, usize::saturating_mul)
    }

    /// One rank, then twice as many each time, until a level is full, and so on with the next.
    fn parts(&self) -> Vec<Network> {
        let mut parts = vec![Network { levels: Vec::new() }];
        for (number, &(extent, link)) in self.levels.iter().enumerate() {
            let doubled = (1..usize::BITS).map(|bit| 1 << bit).take_while(|&count| count < extent);
            for count in doubled.chain((extent > 1).then_some(extent)) {
                let mut levels = self.levels[..number].to_vec();
                levels.push((count, link));
                parts.push(Network { levels });
            }
        }
        parts
    }

    /// Seconds of a collective.
    fn seconds(&self, collective: &CollectiveReport) -> f64 {
        let given = collective.bytes as f64;
        let ring = |ways: f64, whole: f64| {
            self.by_level(|ranks, inner| {
                let steps = ranks - 1.0;
                (ways * steps / ranks * whole / inner, ways * steps)
            })
        };
        match collective.kind {
            CollectiveKind::AllReduce(_) => ring(2.0, given),
            CollectiveKind::ReduceScatter(_) => ring(1.0, given),
            // What all have together stays, however many they are.
            CollectiveKind::AllGather => ring(1.0, given * collective.ranks as f64),
            CollectiveKind::AllToAll => {
                let all = self.ranks() as f64;
                self.by_level(|ranks, inner| ((ranks - 1.0) * inner / all * given, ranks - 1.0))
            }
            CollectiveKind::Broadcast { .. } | CollectiveKind::SumTo { .. } => {
                self.by_level(|ranks, _| (given, ranks.log2().ceil()))
            }
            CollectiveKind::Barrier => self.by_level(|ranks, _| (0.0, ranks.log2().ceil())),
        }
    }

    /// The sum over levels of the time of bytes and messages, which depend on the level's ranks and on the number
    /// of ranks of each network in it.
    fn by_level(&self, cost: impl Fn(f64, f64) -> (f64, f64)) -> f64 {
        let mut inner = 1.0;
        let mut seconds = 0.0;
        for &(ranks, link) in self.levels.iter().filter(|level| level.0 > 1) {
            let (bytes, messages) = cost(ranks as f64, inner);
            seconds += bytes / link.bytes + messages * link.latency;
            inner *= ranks as f64;
        }
        seconds
    }
}

/// A plan on some number of ranks, each of which does what the plan says.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ScaledStep {
    /// The number of ranks.
    pub ranks: usize,
    /// Seconds of kernels and transfers.
    pub compute: f64,
    /// Seconds that collectives are on their way.
    pub communication: f64,
    /// Seconds of the whole.
    pub step: f64,
}

impl ScaledStep {
    /// The share of the time in which a rank computes: 1 if communication costs nothing.
    pub fn efficiency(&self) -> f64 {
        if self.step > 0.0 { self.compute / self.step } else { 1.0 }
    }
}

/// A plan on more and more ranks. Prints as a table.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Scaling {
    /// From one rank to all of the network.
    pub steps: Vec<ScaledStep>,
}

impl PlanReport {
    /// What the plan of one rank would take if more and more ranks of a network took part, each with as much work
    /// as this one has (weak scaling). All collectives are of all ranks, as those of data parallelism are.
    ///
    /// The result is a bound, not a measurement: kernels and links at their best.
    ///
    /// # Examples
    /// ```
    /// use kiln::dist::{self, Reduce};
    /// use kiln::plan::roofline::PeakThroughput;
    /// use kiln::plan::scaling::{Link, Network};
    /// use kiln::prelude::*;
    /// // 16 MiB, summed over the ranks by two that are threads here.
    /// let plans = dist::spawn(2, |world| {
    ///     let x = Tensor::ones([2048, 2048], ());
    ///     world.all_reduce(&x.matmul(&x), Reduce::Sum).plan()
    /// })?;
    /// let gpu = PeakThroughput {
    ///     bytes: 3e12,
    ///     flops: 5e13,
    ///     elementwise_flops: 3e13,
    ///     launches: 2e5,
    ///     bytes_from_host: 5e10,
    ///     bytes_to_host: 5e10,
    /// };
    /// let (fast, slow) = (Link { bytes: 3e11, latency: 3e-6 }, Link { bytes: 2.5e10, latency: 1e-5 });
    /// let scaling = plans[0].scaling(&Network::of(8, fast).times(8, slow), gpu);
    /// let ranks: Vec<usize> = scaling.steps.iter().map(|step| step.ranks).collect();
    /// assert_eq!(ranks, [1, 2, 4, 8, 16, 32, 64]);
    /// assert_eq!(scaling.steps[0].efficiency(), 1.0);
    /// assert!(scaling.steps[6].step > scaling.steps[3].step);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn scaling(&self, network: &Network, peak_throughput: PeakThroughput) -> Scaling {
        let roofline = self.roofline_under(Device::null(), peak_throughput);
        Scaling { steps: network.parts().iter().map(|part| self.scaled(part, &roofline)).collect() }
    }

    fn scaled(&self, network: &Network, roofline: &Roofline) -> ScaledStep {
        let kernels = &roofline.kernels;
        let mut clocks = Clocks { computed: roofline.transfers, sent: 0.0, waiting: Vec::new() };
        let mut communication = 0.0;
        let mut next = self.collectives.iter().peekable();
        for number in 0..=kernels.len() {
            while let Some(collective) = next.next_if(|collective| collective.after <= number) {
                let seconds = network.seconds(collective);
                communication += seconds;
                clocks.send(seconds, number + collective.overlapped);
            }
            clocks.wait(number);
            clocks.computed += kernels.get(number).map_or(0.0, |kernel| kernel.seconds);
        }
        clocks.wait(usize::MAX);
        ScaledStep {
            ranks: network.ranks(),
            compute: roofline.seconds(),
            communication,
            step: clocks.computed,
        }
    }
}

/// How far the device and the network are.
struct Clocks {
    computed: f64,
    sent: f64,
    /// Collectives that nobody has waited for: before which kernel somebody does, and when each is done.
    waiting: Vec<(usize, f64)>,
}

impl Clocks {
    fn send(&mut self, seconds: f64, first_reader: usize) {
        self.sent = self.sent.max(self.computed) + seconds;
        self.waiting.push((first_reader, self.sent));
    }
    fn wait(&mut self, kernel: usize) {
        for (_, done) in self.waiting.extract_if(.., |waiting| waiting.0 <= kernel) {
            self.computed = self.computed.max(done);
        }
    }
}

impl Display for Scaling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>6}  {:>9}  {:>13}  {:>9}  efficiency", "ranks", "compute", "communication", "step")?;
        for at in &self.steps {
            let [compute, communication, step] = [at.compute, at.communication, at.step].map(Seconds);
            let percent = 100.0 * at.efficiency();
            writeln!(f, "{:>6}  {compute:>9}  {communication:>13}  {step:>9}  {percent:>8.0} %", at.ranks)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Span;
    use crate::dist::{Reduce, spawn};
    use crate::ir::collective;
    use crate::tensor::Tensor;

    /// A microsecond for a message, a nanosecond for a byte.
    const LINK: Link = Link { bytes: 1e9, latency: 1e-6 };
    const SLOW: Link = Link { bytes: 1e8, latency: 1e-5 };
    /// A byte takes a nanosecond, an operation too, a launch a microsecond.
    const PEAK: PeakThroughput = PeakThroughput {
        bytes: 1e9,
        flops: 1e9,
        elementwise_flops: 1e9,
        launches: 1e6,
        bytes_from_host: 1e8,
        bytes_to_host: 1e8,
    };

    fn seconds(network: &Network, kind: CollectiveKind, bytes: u64, ranks: usize) -> f64 {
        network.seconds(&CollectiveReport {
            name: kind.to_string(),
            group: "world".into(),
            ranks,
            bytes,
            device: Device::cpu(),
            after: 0,
            overlapped: 0,
            at: Span::caller(),
            kind,
        })
    }

    #[track_caller]
    fn assert_near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9 * expected, "{found} for {expected}");
    }

    #[test]
    fn collectives_go_around_a_ring_on_each_level() {
        let sum = collective::Reduce::Sum;
        let (machine, room) = (Network::of(4, LINK), Network::of(4, LINK).times(2, SLOW));
        let all_reduce = |network| seconds(network, CollectiveKind::AllReduce(sum), 4_000_000, 2);
        // Three parts of a million bytes there, three back.
        assert_near(all_reduce(&machine), 6.0 * 1e-3 + 6e-6);
        // Between the machines, the million that a rank has: half of it there, half back.
        assert_near(all_reduce(&room), 6.0 * 1e-3 + 6e-6 + 2.0 * 500_000.0 / 1e8 + 2e-5);
        // What two gave to gather were 4 million bytes.
        let gathered = seconds(&machine, CollectiveKind::AllGather, 2_000_000, 2);
        assert_near(gathered, 0.5 * all_reduce(&machine));
        assert_near(seconds(&machine, CollectiveKind::ReduceScatter(sum), 4_000_000, 2), gathered);
        // A quarter stays, half goes to the other machine.
        let to_all = seconds(&Network::of(2, LINK).times(2, SLOW), CollectiveKind::AllToAll, 4_000_000, 2);
        assert_near(to_all, 1e6 / 1e9 + 1e-6 + 2e6 / 1e8 + 1e-5);
        assert_near(seconds(&room, CollectiveKind::Broadcast { root: 0 }, 0, 2), 2e-6 + 1e-5);
        assert_eq!(seconds(&Network::of(1, LINK), CollectiveKind::AllReduce(sum), 4_000_000, 2), 0.0);
    }

    #[test]
    fn what_runs_in_between_hides_the_time_on_the_way() {
        let plans = spawn(2, |world| {
            let x = Tensor::ones([256, 256], ());
            x.realize()?;
            let sent = world.all_reduce(&x, Reduce::Sum);
            let hidden = x.matmul(&x);
            sent.matmul(&hidden).plan()
        });
        let plan = &plans.unwrap()[0];
        let scaling = plan.scaling(&Network::of(2, LINK), PEAK);
        let [alone, both] = scaling.steps[..] else { panic!("{scaling}") };
        assert_eq!((alone.ranks, alone.communication, alone.efficiency()), (1, 0.0, 1.0));
        // The product takes longer than 256 KiB to the other rank.
        assert_near(both.communication, 262_144.0 / 1e9 + 2e-6);
        assert!(plan.collectives[0].overlapped == 1 && both.step == both.compute, "{plan}\n{scaling}");
        // Over a link of a hundredth of the speed it does not.
        let far = plan.scaling(&Network::of(2, Link { bytes: 1e5, latency: 0.0 }), PEAK).steps[1];
        assert_near(far.step, far.communication + 0.5 * far.compute);
        assert!(far.efficiency() < 0.1, "{scaling}");
    }

    #[test]
    fn collectives_go_one_at_a_time() {
        let mut clocks = Clocks { computed: 1.0, sent: 0.0, waiting: Vec::new() };
        clocks.send(2.0, 5);
        clocks.send(3.0, 7);
        let mut at = |kernel| {
            clocks.wait(kernel);
            clocks.computed
        };
        assert_eq!([4, 5, 6, 7].map(&mut at), [1.0, 3.0, 3.0, 6.0]);
    }

    #[test]
    fn a_table_has_a_row_for_each_number_of_ranks() {
        let plan = Tensor::ones([4, 4], ()).exp().plan().unwrap();
        let scaling = plan.scaling(&Network::of(6, LINK).times(3, SLOW), PEAK);
        let ranks: Vec<usize> = scaling.steps.iter().map(|step| step.ranks).collect();
        assert_eq!(ranks, [1, 2, 4, 6, 12, 18]);
        assert_eq!(scaling.to_string().lines().count(), 7);
    }
}
