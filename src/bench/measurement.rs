//! What a timer measured.

use std::fmt::{self, Display};

use crate::base::{Device, DeviceKind};
use crate::bench::machine::Disturbance;
use crate::plan::report::count;

/// The time of a closure, measured in blocks of several runs. Prints as a few lines.
///
/// PyTorch: `torch.utils.benchmark.Measurement`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Measurement {
    /// What is measured: a table of [`Compare`](crate::bench::Compare) each.
    pub label: String,
    /// Its size or other input: a row.
    pub sub_label: String,
    /// The way it is done: a column.
    pub description: String,
    /// The device that was waited for.
    pub device: Device,
    /// Threads of the CPU device.
    pub threads: usize,
    /// Runs between two looks at the clock.
    pub runs_per_block: u64,
    /// Seconds of a run, by block.
    pub seconds: Vec<f64>,
    /// Bytes that a run's kernels read and write, by the plan of what the closure returns; 0 if it returns
    /// nothing to plan.
    pub bytes: u64,
    /// Scalar operations of a run, likewise.
    pub flops: u64,
    /// What makes it doubtful.
    pub disturbances: Vec<Disturbance>,
}

impl Measurement {
    /// The median of a run, in seconds.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }
    /// The mean of a run, in seconds.
    pub fn mean(&self) -> f64 {
        self.seconds.iter().sum::<f64>() / self.seconds.len() as f64
    }
    /// The interquartile range of a run, in seconds: half of all blocks are within it.
    pub fn iqr(&self) -> f64 {
        self.quantile(0.75) - self.quantile(0.25)
    }
    /// The time, in seconds, that this part of the blocks stays under, between two blocks by interpolation:
    /// [`f64::NAN`] without blocks.
    pub fn quantile(&self, part: f64) -> f64 {
        let mut sorted = self.seconds.clone();
        sorted.sort_by(f64::total_cmp);
        let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
        let at = part.clamp(0.0, 1.0) * last as f64;
        let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
        below + (above - below) * at.fract()
    }
    /// Bytes of kernels a second, in GB (1e9); `None` if there was no plan.
    pub fn gigabytes_per_second(&self) -> Option<f64> {
        (self.bytes > 0).then(|| self.bytes as f64 / self.median() / 1e9)
    }
    /// Scalar operations a second, in GFLOP (1e9); `None` if there was no plan, or none.
    pub fn gigaflops_per_second(&self) -> Option<f64> {
        (self.flops > 0).then(|| self.flops as f64 / self.median() / 1e9)
    }
    /// Whether the blocks agree: the interquartile range is at most [`Disturbance::SPREAD`] of the median.
    pub fn is_steady(&self) -> bool {
        self.iqr() <= Disturbance::SPREAD * self.median()
    }
    /// `cpu, 4 threads` or `wgpu:0`.
    pub(super) fn place(&self) -> String {
        let plural = if self.threads == 1 { "" } else { "s" };
        match self.device.kind {
            DeviceKind::Cpu => format!("{}, {} thread{plural}", self.device, self.threads),
            DeviceKind::Wgpu | DeviceKind::Cuda | DeviceKind::Meta | DeviceKind::Null => {
                self.device.to_string()
            }
        }
    }
}

impl Display for Measurement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [&self.label, &self.sub_label, &self.description];
        let names: Vec<&str> =
            names.into_iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
        writeln!(
            f,
            "{} on {}",
            if names.is_empty() { "a run".into() } else { names.join(", ") },
            self.place()
        )?;
        let unit = TimeUnit::of(self.median());
        let time = |seconds: f64| unit.digits(seconds);
        let (low, high) = (time(self.quantile(0.25)), time(self.quantile(0.75)));
        let (median, spread) = (time(self.median()), 100.0 * self.iqr() / self.median());
        write!(f, "  median {median} {}, middle half {low} to {high} (IQR {spread:.1} %)", unit.name)?;
        let plural = |n: u64| if n == 1 { "" } else { "s" };
        let (blocks, runs) = (self.seconds.len(), self.runs_per_block);
        writeln!(f, ", {blocks} block{} of {runs} run{}", plural(blocks as u64), plural(runs))?;
        if let Some(rate) = self.gigabytes_per_second() {
            write!(f, "  {} GB/s of {}B", three_digits(rate), count(self.bytes))?;
            if let Some(rate) = self.gigaflops_per_second() {
                write!(f, ", {} GFLOP/s of {}FLOP", three_digits(rate), count(self.flops))?;
            }
            writeln!(f, " a run, by the plan")?;
        }
        self.disturbances.iter().try_for_each(|found| writeln!(f, "  warning: {found}"))
    }
}

/// A unit of time.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeUnit {
    pub name: &'static str,
    /// How many there are in a second.
    per_second: f64,
}

impl TimeUnit {
    /// The unit in which a time has one to three digits before the point.
    pub fn of(seconds: f64) -> TimeUnit {
        let (name, per_second) = match seconds {
            s if s >= 1.0 => ("s", 1.0),
            s if s >= 1e-3 => ("ms", 1e3),
            s if s >= 1e-6 => ("us", 1e6),
            _ => ("ns", 1e9),
        };
        TimeUnit { name, per_second }
    }
    pub fn digits(self, seconds: f64) -> String {
        three_digits(seconds * self.per_second)
    }
}

/// About three digits, and all those before the point.
fn three_digits(n: f64) -> String {
    let places = match n.abs() {
        n if n >= 100.0 => 0,
        n if n >= 10.0 => 1,
        n if n >= 0.1 => 2,
        _ => 4,
    };
    format!("{n:.places$}")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn measured(row: &str, column: &str, seconds: &[f64]) -> Measurement {
        Measurement {
            label: "sum".into(),
            sub_label: row.into(),
            description: column.into(),
            device: Device::cpu(),
            threads: 2,
            runs_per_block: 10,
            seconds: seconds.to_vec(),
            bytes: 4_000_000,
            flops: 1_000_000,
            disturbances: Vec::new(),
        }
    }

    #[test]
    fn quantiles_interpolate() {
        let found = measured("", "", &[4.0, 1.0, 2.0, 3.0]);
        assert_eq!((found.median(), found.mean()), (2.5, 2.5));
        assert_eq!(found.iqr(), 1.5);
        assert!(!found.is_steady());
        assert!(measured("", "", &[]).median().is_nan());
    }

    #[test]
    fn it_prints_time_spread_and_throughput() {
        let mut found = measured("1M", "f32", &[1.0e-3, 1.02e-3, 1.04e-3]);
        found.disturbances.push(Disturbance::NothingRun);
        let expected = "sum, 1M, f32 on cpu, 2 threads\n  \
            median 1.02 ms, middle half 1.01 to 1.03 (IQR 2.0 %), 3 blocks of 10 runs\n  \
            3.92 GB/s of 4.0 MB, 0.98 GFLOP/s of 1.0 MFLOP a run, by the plan\n  \
            warning: the closure returned tensors that were in memory already";
        assert!(found.to_string().starts_with(expected), "{found}");
    }
}
