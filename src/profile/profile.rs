//! What was recorded, and sums over it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::base::Device;
use crate::plan::roofline::PeakThroughput;
use crate::profile::averages::{Averages, GroupBy};
use crate::profile::event::{Event, HostEvent, KernelEvent, MemoryEvent, TransferEvent};
use crate::runtime::Properties;

/// What a [`Profiler`](crate::profile::Profiler) recorded: every kernel, transfer and span of the host,
/// with the time that the device's roofline predicts beside the time that was measured.
///
/// [`Profile::key_averages`] sums it up, [`Profile::write_chrome_trace`] draws it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Profile {
    /// How long it lasted.
    pub span: Duration,
    /// When it began.
    pub started: SystemTime,
    /// The steps of the schedule that it is of: the first, and the one after the last.
    pub steps: (usize, usize),
    /// The devices that worked.
    pub devices: Vec<DeviceProfile>,
    /// About how much longer everything took because it was recorded, but for what a device itself needs to
    /// tell its times.
    pub overhead: Duration,
    pub(crate) events: Arc<[Event]>,
    pub(crate) main_thread: usize,
    pub(crate) options: GroupingOptions,
}

/// What tells rows of a table apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupingOptions {
    pub shapes: bool,
    pub lines: bool,
}

/// A device in a profile.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeviceProfile {
    /// The device.
    pub device: Device,
    /// What it is.
    pub properties: Properties,
    /// How long it ran kernels, each moment counted once.
    pub busy: Duration,
    /// The sum of its kernels' times.
    pub kernels: Duration,
    /// What it can do at most, where that was measured.
    pub peak: Option<PeakThroughput>,
}

impl Profile {
    /// Everything, in the order in which it began.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The runs of kernels.
    pub fn kernels(&self) -> impl Iterator<Item = &KernelEvent> {
        self.events.iter().filter_map(|event| match event {
            Event::Kernel(kernel) => Some(kernel),
            Event::Transfer(_) | Event::Host(_) | Event::Memory(_) => None,
        })
    }

    /// The transfers.
    pub fn transfers(&self) -> impl Iterator<Item = &TransferEvent> {
        self.events.iter().filter_map(|event| match event {
            Event::Transfer(transfer) => Some(transfer),
            Event::Kernel(_) | Event::Host(_) | Event::Memory(_) => None,
        })
    }

    /// What the host's threads did.
    pub fn host_events(&self) -> impl Iterator<Item = &HostEvent> {
        self.events.iter().filter_map(|event| match event {
            Event::Host(host) => Some(host),
            Event::Kernel(_) | Event::Transfer(_) | Event::Memory(_) => None,
        })
    }

    /// Memory that was handed out or came back; empty unless memory was profiled.
    pub fn memory_events(&self) -> impl Iterator<Item = &MemoryEvent> {
        self.events.iter().filter_map(|event| match event {
            Event::Memory(memory) => Some(memory),
            Event::Kernel(_) | Event::Transfer(_) | Event::Host(_) => None,
        })
    }

    /// A device, if it worked.
    pub fn device(&self, device: Device) -> Option<&DeviceProfile> {
        self.devices.iter().find(|known| known.device == device)
    }

    /// The sums of equal things: kernels, transfers, what the host did, memory. PyTorch: `key_averages`.
    pub fn key_averages(&self) -> Averages {
        Averages::of(self, GroupBy::Kernel)
    }
}

/// How long intervals last together, each moment counted once.
pub(crate) fn union(mut intervals: Vec<(Duration, Duration)>) -> Duration {
    intervals.sort_unstable();
    let (mut total, mut reached) = (Duration::ZERO, Duration::ZERO);
    for (start, end) in intervals {
        total += end.saturating_sub(start.max(reached));
        reached = reached.max(end);
    }
    total
}

/// The sums of each device.
pub(crate) fn device_profiles(
    events: &[Event],
    described: impl Fn(Device) -> Option<(Properties, Option<PeakThroughput>)>,
) -> Vec<DeviceProfile> {
    let mut found: Vec<(Device, Vec<(Duration, Duration)>, Duration)> = Vec::new();
    for event in events {
        let Event::Kernel(kernel) = event else { continue };
        let device = kernel.kernel.device;
        let at = found.iter().position(|known| known.0 == device).unwrap_or_else(|| {
            found.push((device, Vec::new(), Duration::ZERO));
            found.len() - 1
        });
        found[at].1.push((kernel.start, kernel.end));
        found[at].2 += kernel.time;
    }
    let profile = |(device, intervals, kernels)| {
        let (properties, peak) = described(device)?;
        Some(DeviceProfile { device, properties, busy: union(intervals), kernels, peak })
    };
    found.into_iter().filter_map(profile).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_count_once() {
        let ms = Duration::from_millis;
        assert_eq!(union(vec![(ms(5), ms(7)), (ms(0), ms(3)), (ms(1), ms(2)), (ms(2), ms(4))]), ms(6));
        assert_eq!(union(Vec::new()), Duration::ZERO);
    }
}
