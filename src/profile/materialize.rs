//! From records to events.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::base::{Device, Direction, Region};
use crate::plan::observe::{ObservedKernel, ObservedRun};
use crate::plan::roofline::{PeakThroughput, roof};
use crate::profile::event::{
    Activity, Event, HostEvent, KernelEvent, KernelInfo, LaunchedBy, MemoryEvent, OperationInfo, Prediction,
    TransferEvent,
};
use crate::runtime::trace::{DeviceRecord, HostRecord, LaunchRecord, MemoryRecord, Record, WorkRecord};

/// The peaks of devices, where they are known.
pub type Peaks = HashMap<Device, PeakThroughput>;

/// The devices that launches were recorded on, and those of transfers.
pub fn devices(records: &[Record]) -> Vec<Device> {
    let mut found: Vec<Device> = Vec::new();
    for record in records {
        let devices = match record {
            Record::Launch(launch) => [Some(launch.device), None],
            Record::Host(host) => [host.moved.and(host.device), host.moved.map(|(from, _)| from)],
            Record::Device(_) | Record::Work(_) | Record::Memory(_) => [None, None],
        };
        for device in devices.into_iter().flatten() {
            if !found.contains(&device) {
                found.push(device);
            }
        }
    }
    found
}

/// The events of a window of time, in the order in which they began.
pub fn events(records: Vec<Record>, (start, end): (u64, u64), peaks: &Peaks) -> Vec<Event> {
    let mut times: HashMap<u64, Vec<DeviceRecord>> = HashMap::new();
    for record in &records {
        if let Record::Device(device) = record {
            times.entry(device.launch).or_default().push(*device);
        }
    }
    let mut window = Window { start, end, peaks, times, kernels: HashMap::new(), launched: HashMap::new() };
    // Threads that helped are through before the launch is.
    let (work, others): (Vec<Record>, Vec<Record>) =
        records.into_iter().partition(|record| matches!(record, Record::Work(_)));
    let mut events: Vec<Event> =
        others.into_iter().chain(work).filter_map(|record| window.event(record)).collect();
    events.sort_by_key(Event::start);
    events
}

struct Window<'a> {
    start: u64,
    end: u64,
    peaks: &'a Peaks,
    /// By launch.
    times: HashMap<u64, Vec<DeviceRecord>>,
    /// By the address of the run and the step.
    kernels: HashMap<(usize, usize), Option<Arc<KernelInfo>>>,
    /// By launch.
    launched: HashMap<u64, Arc<KernelInfo>>,
}

impl Window<'_> {
    fn at(&self, time: u64) -> Duration {
        Duration::from_nanos(time.saturating_sub(self.start))
    }

    fn event(&mut self, record: Record) -> Option<Event> {
        match record {
            Record::Launch(launch) if (self.start..=self.end).contains(&launch.start) => {
                self.kernel(&launch).map(Event::Kernel)
            }
            Record::Host(host) if host.end > self.start && host.start <= self.end => Some(self.host(host)),
            Record::Memory(memory) if (self.start..=self.end).contains(&memory.at) => {
                Some(Event::Memory(self.memory(memory)))
            }
            Record::Work(work) => self.work(work).map(Event::Host),
            Record::Launch(_) | Record::Host(_) | Record::Memory(_) | Record::Device(_) => None,
        }
    }

    fn kernel(&mut self, launch: &LaunchRecord) -> Option<KernelEvent> {
        let run = launch.run.clone().downcast::<ObservedRun>().ok()?;
        let key = (Arc::as_ptr(&run) as usize, launch.step);
        let peaks = self.peaks;
        let known = self.kernels.entry(key);
        let kernel =
            known.or_insert_with(|| run.kernel(launch.step).map(|found| info(&found, peaks))).clone()?;
        self.launched.insert(launch.number, kernel.clone());
        let own = [DeviceRecord { launch: launch.number, start: launch.start, end: launch.end }];
        // A kernel of the user's runs on the host, whatever the device's clock.
        let times = self.times.get(&launch.number).map_or(&own[..], |times| times);
        let start = times.iter().map(|time| time.start).min()?;
        let end = times.iter().map(|time| time.end).max()?;
        let time = times.iter().map(|time| time.end.saturating_sub(time.start)).sum();
        let host = if launch.on_host { 0 } else { launch.end - launch.start };
        Some(KernelEvent {
            kernel,
            thread: launch.thread,
            launched: self.at(launch.start),
            launching: Duration::from_nanos(host),
            start: self.at(start),
            end: self.at(end),
            time: Duration::from_nanos(time),
            launched_by: LaunchedBy { run, step: launch.step },
        })
    }

    /// What a thread did for a kernel that another one launched.
    fn work(&self, record: WorkRecord) -> Option<HostEvent> {
        let kernel = self.launched.get(&record.launch)?;
        Some(HostEvent {
            activity: Activity::Work,
            name: Some(kernel.name.as_str().into()),
            at: Some(kernel.at),
            device: Some(kernel.device),
            label: kernel.label.clone(),
            thread: record.thread,
            start: self.at(record.start),
            end: self.at(record.end),
        })
    }

    fn host(&self, record: HostRecord) -> Event {
        // What began before belongs to the window as far as it is inside.
        let (start, end) = (self.at(record.start), self.at(record.end.min(self.end)));
        let (at, thread, label) = (record.at, record.thread, record.region.path());
        match (record.moved, record.device) {
            (Some((from, bytes)), Some(to)) if record.activity == Activity::Transfer => {
                let predicted = predicted(from, to, bytes, self.peaks);
                Event::Transfer(TransferEvent { from, to, bytes, at, label, thread, start, end, predicted })
            }
            _ => {
                let HostRecord { activity, name, device, .. } = record;
                Event::Host(HostEvent { activity, name, at, device, label, thread, start, end })
            }
        }
    }

    fn memory(&self, record: MemoryRecord) -> MemoryEvent {
        let MemoryRecord { at, device, block, bytes, allocated, in_use, label } = record;
        let (time, name, shape, at) = (self.at(at), label.name, label.shape, label.span);
        MemoryEvent { time, device, block, bytes, allocated, in_use, name, shape, at }
    }
}

/// The least time of a transfer.
fn predicted(from: Device, to: Device, bytes: u64, peaks: &Peaks) -> Option<Duration> {
    let device = if to == Device::cpu() { from } else { to };
    let seconds = peaks.get(&device)?.seconds_per_byte(Direction::of(from, to)) * bytes as f64;
    Some(Duration::from_secs_f64(seconds))
}

fn info(found: &ObservedKernel, peaks: &Peaks) -> Arc<KernelInfo> {
    let report = &found.report;
    let mut paths: HashMap<Region, Option<Arc<str>>> = HashMap::new();
    let mut path = |region: Region| paths.entry(region).or_insert_with(|| region.path()).clone();
    let operations = found.operations.iter();
    let operations =
        operations.map(|one| OperationInfo { name: one.name, at: one.at, label: path(one.region) });
    let predicted = peaks.get(&report.device).map(|peak| {
        let roof = roof(report, peak);
        Prediction { time: Duration::from_secs_f64(roof.seconds), bound: roof.bound }
    });
    Arc::new(KernelInfo {
        name: report.name.clone(),
        device: report.device,
        shape: report.shape.clone(),
        operations: operations.collect(),
        loaded: report.loaded,
        stored: report.stored,
        flops: report.flops,
        allocated: found.allocated,
        at: report.at,
        label: found.region.path(),
        predicted,
    })
}
