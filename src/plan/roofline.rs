//! The least time of a plan: each kernel against its device's peak throughput
//! (Williams, Waterman and Patterson, "Roofline", 2009).

use std::fmt::{self, Display};

use crate::base::{Device, Direction, Span};
use crate::kernel::cost::work_cost;
use crate::kernel::nest::Workload;
use crate::plan::report::{KernelReport, PlanReport, TransferReport, count};

/// A device's peak throughput, per second; see
/// [`Device::peak_throughput`](crate::Device::peak_throughput).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PeakThroughput {
    /// Bytes that a large elementwise kernel reads and writes.
    pub bytes: f64,
    /// Scalar operations of a large `f32` matrix product.
    pub flops: f64,
    /// Scalar operations of a kernel that does many with each element, for which it has no unit of their own.
    pub elementwise_flops: f64,
    /// Kernels that do next to nothing.
    pub launches: f64,
    /// Bytes that come from the host; infinite for the host itself.
    pub bytes_from_host: f64,
    /// Bytes that go to the host; infinite for the host itself.
    pub bytes_to_host: f64,
}

impl PeakThroughput {
    /// Seconds that a byte takes to or from the device.
    pub(crate) fn seconds_per_byte(&self, direction: Direction) -> f64 {
        let (up, down) = (1.0 / self.bytes_from_host, 1.0 / self.bytes_to_host);
        match direction {
            Direction::ToDevice => up,
            Direction::ToHost => down,
            Direction::BetweenDevices => up + down,
        }
    }
}

/// What limits a kernel's speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bottleneck {
    /// The bytes it moves.
    Memory,
    /// The operations it does.
    Compute,
    /// Starting it: it moves and does too little.
    Launch,
}

impl Display for Bottleneck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Bottleneck::Memory => "memory-bound",
            Bottleneck::Compute => "compute-bound",
            Bottleneck::Launch => "launch-bound",
        })
    }
}

/// One kernel against the peak throughput.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KernelRoof {
    /// The kernel's name and shape.
    pub name: String,
    /// Operations per byte moved.
    pub intensity: f64,
    /// Seconds that all its launches take at least.
    pub seconds: f64,
    /// What limits it.
    pub bound: Bottleneck,
    /// The user's line.
    pub at: Span,
}

/// A plan against a device's peak throughput. Prints as a table.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Roofline {
    /// The device.
    pub device: Device,
    /// Its peak throughput.
    pub peak_throughput: PeakThroughput,
    /// The plan's kernels, in order.
    pub kernels: Vec<KernelRoof>,
    /// Seconds that the transfers of the plan take at least.
    pub transfers: f64,
}

impl Roofline {
    /// Seconds that the whole takes at least, one thing after the other.
    pub fn seconds(&self) -> f64 {
        self.transfers + self.kernels.iter().map(|kernel| kernel.seconds).sum::<f64>()
    }
    /// Seconds of kernels that this keeps from being faster.
    pub fn seconds_of(&self, bound: Bottleneck) -> f64 {
        self.kernels.iter().filter(|kernel| kernel.bound == bound).map(|kernel| kernel.seconds).sum()
    }
}

impl PlanReport {
    /// The plan's kernels against a device's peak throughput, whatever device they are
    /// planned for: the least time that the plan would take there.
    pub fn roofline_under(&self, device: Device, peak_throughput: PeakThroughput) -> Roofline {
        let kernels = self.kernels.iter().map(|kernel| roof(kernel, &peak_throughput)).collect();
        let transfer = |t: &TransferReport| {
            t.bytes as f64 * t.times as f64 * peak_throughput.seconds_per_byte(t.direction)
        };
        let transfers = self.transfers.iter().map(transfer).sum();
        Roofline { device, peak_throughput, kernels, transfers }
    }
}

/// A comparison of a sort is a branch that is mispredicted every other time, and a move: as long as so many
/// operations of a vector loop.
const OPERATIONS_OF_A_COMPARISON: f64 = 32.0;

/// A kernel against peak throughput. Products and other operations take their time one after the other.
pub(crate) fn roof(kernel: &KernelReport, peak_throughput: &PeakThroughput) -> KernelRoof {
    let (bytes, flops) = (kernel.loaded as f64 + kernel.stored as f64, kernel.flops as f64);
    let products = work_cost(&kernel.work).products as f64;
    let others = match *kernel.work {
        Workload::Sort(_) => flops * OPERATIONS_OF_A_COMPARISON,
        Workload::Kernel(_) | Workload::Custom(..) | Workload::Joint(_) => flops - products,
    };
    let computing = products / peak_throughput.flops + others / peak_throughput.elementwise_flops;
    let limits = [
        (Bottleneck::Memory, bytes / peak_throughput.bytes),
        (Bottleneck::Compute, computing),
        (Bottleneck::Launch, 1.0 / peak_throughput.launches),
    ];
    let (bound, seconds) = limits.into_iter().fold(limits[0], |a, b| if b.1 > a.1 { b } else { a });
    KernelRoof {
        name: format!("{}{}", kernel.name, kernel.shape),
        intensity: if bytes > 0.0 { flops / bytes } else { 0.0 },
        seconds: seconds * kernel.launches as f64,
        bound,
        at: kernel.at,
    }
}

impl Display for PeakThroughput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = |n: f64| count(n as u64);
        let (products, others) = (rate(self.flops), rate(self.elementwise_flops));
        write!(f, "{}B/s, {products}flop/s in products, {others}flop/s elsewhere", rate(self.bytes))?;
        write!(f, ", {}launches/s", rate(self.launches))?;
        if self.bytes_from_host.is_finite() {
            let (up, down) = (rate(self.bytes_from_host), rate(self.bytes_to_host));
            write!(f, ", {up}B/s from the host, {down}B/s to it")?;
        }
        Ok(())
    }
}

impl Display for Roofline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} at most: {}", self.device, self.peak_throughput)?;
        let width = self.kernels.iter().map(|kernel| kernel.name.chars().count()).max().unwrap_or(0);
        for k in &self.kernels {
            let (name, bound, time) = (&k.name, k.bound, Seconds(k.seconds));
            writeln!(f, "{name:<width$}  {bound:<13}  {time:>9}  {:>7.2} flop/B  {}", k.intensity, k.at)?;
        }
        if self.transfers > 0.0 {
            writeln!(f, "transfers: {}", Seconds(self.transfers))?;
        }
        writeln!(f, "at least {}", Seconds(self.seconds()))
    }
}

/// A time, in the unit that suits it.
pub(crate) struct Seconds(pub f64);

impl Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scale, unit) = match self.0 {
            s if s >= 1.0 => (1.0, "s"),
            s if s >= 1e-3 => (1e3, "ms"),
            _ => (1e6, "us"),
        };
        f.pad(&format!("{:.1} {unit}", self.0 * scale))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Tensor;

    /// 1 byte takes a nanosecond, an operation of a product too, another one two, a launch a microsecond.
    const SLOW: PeakThroughput = PeakThroughput {
        bytes: 1e9,
        flops: 1e9,
        elementwise_flops: 5e8,
        launches: 1e6,
        bytes_from_host: 1e8,
        bytes_to_host: 1e8,
    };

    fn bounds(tensor: &Tensor) -> Vec<Bottleneck> {
        let roofline = tensor.plan().unwrap().roofline_under(Device::null(), SLOW);
        roofline.kernels.iter().map(|kernel| kernel.bound).collect()
    }

    #[test]
    fn a_kernel_is_bound_by_what_takes_longest() {
        let on = Device::null();
        let x = Tensor::from_vec(vec![1.0f32; 1 << 16], [256, 256], on);
        x.realize().unwrap();
        assert_eq!(bounds(&(&x + 1.0)), [Bottleneck::Memory]);
        assert_eq!(bounds(&x.matmul(&x)), [Bottleneck::Compute]);
        // 10 operations for 8 bytes.
        assert_eq!(bounds(&x.exp()), [Bottleneck::Compute]);
        // 5 comparisons for 12 bytes.
        let sorted = bounds(&x.reshape([1 << 11, 32]).argsort(1, false));
        assert_eq!(sorted.last(), Some(&Bottleneck::Compute));
        let small = Tensor::from_vec(vec![1.0f32; 4], [4], on);
        small.realize().unwrap();
        assert_eq!(bounds(&(&small + 1.0)), [Bottleneck::Launch]);
    }

    #[test]
    fn times_add_up_and_transfers_count() {
        let x = Tensor::from_vec(vec![1.0f32; 1000], [1000], ());
        let y = x.to(Device::null()) + 1.0;
        let roofline = y.plan().unwrap().roofline_under(Device::null(), SLOW);
        assert!((roofline.transfers - 4000.0 / 1e8).abs() < 1e-12, "{roofline}");
        // 4,000 bytes read, 4,000 written.
        assert!((roofline.seconds_of(Bottleneck::Memory) - 8e-6).abs() < 1e-12, "{roofline}");
        assert!((roofline.seconds() - 48e-6).abs() < 1e-12, "{roofline}");
        let text = roofline.to_string();
        assert!(text.contains("memory-bound") && text.contains("at least 48.0 us"), "{text}");
    }
}
