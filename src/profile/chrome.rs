//! A profile in the Trace Event Format, which chrome://tracing, ui.perfetto.dev and TensorBoard's PyTorch
//! plugin read.
//!
//! Source: "Trace Event Format", the Chromium project. Times are microseconds; categories and names of
//! arguments are those that `torch.profiler` writes.

use std::path::Path;
use std::time::Duration;

use crate::base::{Device, Result};
use crate::plan::history::{quoted, write};
use crate::profile::Profile;
use crate::profile::event::{Activity, Event, HostEvent, KernelEvent, MemoryEvent, TransferEvent};
use crate::profile::json::Object;
use crate::profile::profile::DeviceProfile;
use crate::profile::tracks::{Lane, Track, Tracks};

impl Profile {
    /// Writes a trace to open in ui.perfetto.dev or chrome://tracing. It has a track for each thread of the
    /// host and for each device; beside the kernels, how long they were predicted to take; transfers;
    /// memory over time; and arrows from where the host launched kernels to where they ran. PyTorch:
    /// `export_chrome_trace`.
    ///
    /// # Errors
    /// A file that cannot be written.
    ///
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::profile::profile;
    ///
    /// # fn main() -> kiln::Result<()> {
    /// let x = Tensor::ones([64, 64], ());
    /// let (_, profile) = profile(|| x.matmul(&x).realize().map(|_| ()))?;
    /// let path = std::env::temp_dir().join(format!("kiln-trace-{}.json", std::process::id()));
    /// profile.write_chrome_trace(&path)?;
    /// assert!(std::fs::read_to_string(&path).is_ok_and(|text| text.contains("\"traceEvents\"")));
    /// # std::fs::remove_file(path).ok();
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn write_chrome_trace(&self, path: impl AsRef<Path>) -> Result<()> {
        write(path.as_ref(), &trace(self))
    }
}

/// The text of the file.
fn trace(profile: &Profile) -> String {
    let (tracks, main) = (Tracks::new(profile), profile.main_thread);
    let mut trace = Trace { tracks, main, events: Vec::new(), launches: 0 };
    for event in profile.events() {
        match event {
            Event::Kernel(kernel) => trace.kernel(kernel),
            Event::Transfer(transfer) => trace.transfer(transfer),
            Event::Host(host) => trace.host(host),
            Event::Memory(memory) => trace.memory(memory),
        }
    }
    trace.events.sort_by_key(|(time, _)| *time);
    let mut events = trace.metadata();
    events.extend(trace.events.into_iter().map(|(_, event)| event));
    let devices: Vec<String> =
        profile.devices.iter().filter_map(|device| properties(&trace.tracks, device)).collect();
    let started = profile.started.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let (devices, events) = (devices.join(", "), events.join(",\n"));
    let head = Object::new()
        .value("schemaVersion", 1)
        .text("displayTimeUnit", "ms")
        .value("baseTimeNanoseconds", started.as_nanos())
        .value("deviceProperties", format_args!("[{devices}]"))
        .value("traceEvents", format_args!("[\n{events}\n]"));
    head.end() + "\n"
}

/// What TensorBoard shows of a device that is not the host.
fn properties(tracks: &Tracks, profile: &DeviceProfile) -> Option<String> {
    let found = &profile.properties;
    let id = tracks.accelerator(profile.device)?;
    let mut object = Object::new().value("id", id).text("name", &found.name);
    if let Some(bytes) = found.total_memory {
        object = object.value("totalGlobalMem", bytes);
    }
    if let Some((Ok(major), Ok(minor))) =
        found.capability.split_once('.').map(|(major, minor)| (major.parse::<u32>(), minor.parse::<u32>()))
    {
        object = object.value("computeMajor", major).value("computeMinor", minor);
    }
    Some(object.value("numSms", found.compute_units).end())
}

/// Microseconds.
fn micros(time: Duration) -> String {
    let nanos = time.as_nanos();
    format!("{}.{:03}", nanos / 1000, nanos % 1000)
}

/// A trace on the way.
struct Trace {
    tracks: Tracks,
    /// The number of the thread that profiled.
    main: usize,
    /// With their times.
    events: Vec<(Duration, String)>,
    launches: u64,
}

impl Trace {
    /// An event's phase, place and time.
    fn at(phase: &str, name: &str, track: Track, time: Duration) -> Object {
        let object = Object::new().text("ph", phase).text("name", name);
        object.value("pid", track.process).value("tid", track.number).value("ts", micros(time))
    }

    /// Something that lasts.
    fn complete(
        &mut self,
        category: &str,
        name: &str,
        track: Track,
        (start, end): (Duration, Duration),
        args: Object,
    ) {
        let event = Trace::at("X", name, track, start).text("cat", category);
        let event = event.value("dur", micros(end.saturating_sub(start))).object("args", args);
        self.events.push((start, event.end()));
    }

    fn kernel(&mut self, event: &KernelEvent) {
        let kernel = &event.kernel;
        self.launches += 1;
        let (launch, on_host) = (self.launches, event.launching.is_zero());
        let name = format!("{}{}", kernel.name, kernel.shape);
        let host = self.tracks.thread(event.thread);
        let queue = self.tracks.of_device(kernel.device, Lane::Queue, event.start, event.end);
        let ids = || Object::new().value("External id", launch).value("correlation", launch);
        if on_host {
            let args = ids().text("line", &kernel.at.to_string());
            self.complete("cpu_op", &name, host, (event.start, event.end), args);
        } else {
            let span = (event.launched, event.launched + event.launching);
            self.complete("cuda_runtime", &format!("launch {name}"), host, span, ids());
        }
        let args = self.kernel_args(event, ids());
        // A kernel of the host's is an operator to readers that know kernels of GPUs only.
        let category =
            if self.tracks.accelerator(kernel.device).is_some() { "kernel" } else { "host_kernel" };
        self.complete(category, &name, queue, (event.start, event.end), args);
        let flow = |phase, track, time| {
            Trace::at(phase, "launch", track, time).text("cat", "ac2g").value("id", launch)
        };
        self.events.push((event.launched, flow("s", host, event.launched).end()));
        let arrives = event.start.max(event.launched);
        self.events.push((arrives, flow("f", queue, arrives).text("bp", "e").end()));
        if let Some(predicted) = kernel.predicted {
            let span = (event.start, event.start + predicted.time);
            let track = self.tracks.of_device(kernel.device, Lane::Predicted, span.0, span.1);
            let args = Object::new().text("bound", &predicted.bound.to_string());
            self.complete("predicted", &name, track, span, args);
        }
    }

    fn kernel_args(&self, event: &KernelEvent, ids: Object) -> Object {
        let kernel = &event.kernel;
        let seconds = event.time.as_secs_f64();
        let operations: Vec<String> = kernel.operations.iter().map(|one| quoted(one.name)).collect();
        let mut args = ids
            .value("device", self.tracks.accelerator(kernel.device).unwrap_or(0))
            .value("stream", 0)
            .text("line", &kernel.at.to_string())
            .value("operations", format_args!("[{}]", operations.join(", ")))
            .value("bytes", kernel.bytes())
            .value("flops", kernel.flops)
            .float("GB/s", kernel.bytes() as f64 / seconds / 1e9)
            .float("GFLOP/s", kernel.flops as f64 / seconds / 1e9)
            .value("bytes allocated", kernel.allocated);
        if let Some(label) = &kernel.label {
            args = args.text("label", label);
        }
        if let Some(predicted) = kernel.predicted {
            args = args.value("predicted us", micros(predicted.time));
        }
        args
    }

    fn transfer(&mut self, event: &TransferEvent) {
        let name = format!("copy {} -> {}", event.from, event.to);
        let span = (event.start, event.end);
        let track = self.tracks.of_device(event.to, Lane::Transfers, event.start, event.end);
        let line = event.at.map_or(String::new(), |at| at.to_string());
        let args = || Object::new().value("bytes", event.bytes).text("line", &line);
        let device = [event.to, event.from].into_iter().find_map(|device| self.tracks.accelerator(device));
        self.complete("gpu_memcpy", &name, track, span, args().value("device", device.unwrap_or(0)));
        let thread = self.tracks.thread(event.thread);
        self.complete("cpu_op", &name, thread, span, args());
    }

    fn host(&mut self, event: &HostEvent) {
        let line = event.at.map(|at| at.to_string());
        let name = match (event.activity, event.name.as_deref()) {
            // As torch.profiler names them, since readers look for that.
            (Activity::Step, Some(name)) => name.replace("step ", "ProfilerStep#"),
            (Activity::Wait, Some(name)) => format!("wait for {name}"),
            (_, Some(name)) => name.to_string(),
            (activity, None) => {
                let what = format!("{activity:?}").to_lowercase();
                let device = event.device.map_or(String::new(), |device| format!(" {device}"));
                let at = line.as_deref().map_or(String::new(), |line| format!(" {line}"));
                what + &device + &at
            }
        };
        let category = match event.activity {
            Activity::Step | Activity::Region => "user_annotation",
            Activity::Read
            | Activity::Realize
            | Activity::Collect
            | Activity::Plan
            | Activity::Compile
            | Activity::Launch
            | Activity::Work
            | Activity::Wait
            | Activity::Transfer
            | Activity::Collective
            | Activity::Batch => "cpu_op",
        };
        let mut args = Object::new();
        if let Some(line) = &line {
            args = args.text("line", line);
        }
        if let Some(label) = &event.label {
            args = args.text("label", label);
        }
        let thread = self.tracks.thread(event.thread);
        self.complete(category, &name, thread, (event.start, event.end), args);
    }

    fn memory(&mut self, event: &MemoryEvent) {
        let track = Track { process: self.tracks.device(event.device), number: 0 };
        let counter = Trace::at("C", &format!("memory of {}", event.device), track, event.time);
        let counter = counter.object("args", Object::new().value("bytes", event.in_use));
        self.events.push((event.time, counter.end()));
        // TensorBoard's own form, of which it knows the host and GPUs.
        let sign = if event.allocated { "" } else { "-" };
        let device = self.tracks.accelerator(event.device);
        let args = Object::new()
            .value("Device Type", i32::from(event.device != Device::cpu()))
            .value("Device Id", device.map_or(-1, |device| device as i64))
            .value("Addr", event.block)
            .value("Bytes", format_args!("{sign}{}", event.bytes))
            .value("Total Allocated", event.in_use)
            .value("Total Reserved", 0);
        let main = self.tracks.thread(self.main);
        let instant = Trace::at("i", "[memory]", main, event.time).text("s", "t").text("cat", "memory");
        self.events.push((event.time, instant.object("args", args).end()));
    }

    /// The names of processes and tracks, and the order to show them in.
    fn metadata(&self) -> Vec<String> {
        let named = |kind: &str, (process, number): (u32, usize), args: Object| {
            let object =
                Object::new().text("ph", "M").text("name", kind).value("pid", process).value("tid", number);
            object.value("ts", 0).object("args", args).end()
        };
        let mut events = Vec::new();
        for (place, (process, name)) in self.tracks.processes().into_iter().enumerate() {
            events.push(named("process_name", (process, 0), Object::new().text("name", &name)));
            events.push(named("process_sort_index", (process, 0), Object::new().value("sort_index", place)));
        }
        for (track, name) in self.tracks.names() {
            let place = (track.process, track.number);
            events.push(named("thread_name", place, Object::new().text("name", name)));
            events.push(named("thread_sort_index", place, Object::new().value("sort_index", track.number)));
        }
        events
    }
}
