//! Recording: what, when, and where it goes.

use std::fmt;
use std::time::{Duration, SystemTime};

use crate::base::system::since_epoch;
use crate::base::{Device, Result};
use crate::plan::context;
use crate::profile::materialize::{self, Peaks};
use crate::profile::profile::{GroupingOptions, device_profiles};
use crate::profile::schedule::{Phase, Schedule};
use crate::profile::{Event, Profile};
use crate::runtime::trace::{self, Activity, HostSpan, Recording};

type OnTraceReady = Box<dyn FnMut(&Profile) -> Result<()>>;

/// What is recorded, and when. Every thread of the process is recorded.
///
/// ```
/// use kiln::prelude::*;
/// use kiln::profile::{Profiler, Schedule};
///
/// # fn main() -> kiln::Result<()> {
/// let schedule = Schedule { skip_first: 0, wait: 1, warmup: 1, active: 2, repeat: 1 };
/// let mut profiler = Profiler::builder().schedule(schedule).start();
/// for _ in 0..5 {
///     Tensor::ones([64, 64], ()).exp().sum(..).item::<f32>()?;
///     profiler.step();
/// }
/// let profile = profiler.stop()?;
/// assert_eq!(profile.steps, (2, 4));
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is recorded before start()"]
pub struct Profiler {
    devices: Option<Vec<Device>>,
    host: bool,
    memory: bool,
    peaks: bool,
    options: GroupingOptions,
    schedule: Option<Schedule>,
    on_trace_ready: Option<OnTraceReady>,
}

impl Profiler {
    /// All devices and the host, shapes and lines, no memory, one profile from start to stop.
    pub fn builder() -> Profiler {
        Profiler {
            devices: None,
            host: true,
            memory: false,
            peaks: true,
            options: GroupingOptions { shapes: true, lines: true },
            schedule: None,
            on_trace_ready: None,
        }
    }

    /// Keeps the kernels of these devices only.
    pub fn devices(mut self, devices: impl IntoIterator<Item = Device>) -> Profiler {
        self.devices = Some(devices.into_iter().collect());
        self
    }

    /// Whether to keep what the host did.
    pub fn host(mut self, on: bool) -> Profiler {
        self.host = on;
        self
    }

    /// Whether kernels of different shapes are different rows of a table.
    pub fn record_shapes(mut self, on: bool) -> Profiler {
        self.options.shapes = on;
        self
    }

    /// Whether to record memory that is handed out and comes back.
    pub fn profile_memory(mut self, on: bool) -> Profiler {
        self.memory = on;
        self
    }

    /// Whether kernels of different lines are different rows of a table. PyTorch: `with_stack`.
    pub fn with_lines(mut self, on: bool) -> Profiler {
        self.options.lines = on;
        self
    }

    /// Whether to measure what the devices can do at most ([`Device::peak_throughput`]), for predictions: a
    /// tenth of a second for each device when the first profile ends, once in a process.
    pub fn predict(mut self, on: bool) -> Profiler {
        self.peaks = on;
        self
    }

    /// Which steps to record; they end where [`ActiveProfiler::step`] is called.
    pub fn schedule(mut self, schedule: Schedule) -> Profiler {
        self.schedule = Some(schedule);
        self
    }

    /// Is called with each profile once it is there: after the last active step of a cycle, and at the stop
    /// for what was recorded of a cycle that had not ended. Its error is that of [`ActiveProfiler::stop`].
    pub fn on_trace_ready(mut self, call: impl FnMut(&Profile) -> Result<()> + 'static) -> Profiler {
        self.on_trace_ready = Some(Box::new(call));
        self
    }

    /// Starts with the first step.
    pub fn start(self) -> ActiveProfiler {
        let mut recording = Recording::begin(self.memory);
        recording.switch(false);
        let mut active = ActiveProfiler {
            cost: trace::record_cost(),
            profiler: self,
            recording,
            step: 0,
            phase: Phase::Off,
            began: Began::now(0),
            span: None,
            profile: None,
            failed: None,
        };
        active.enter(0);
        active
    }
}

impl fmt::Debug for Profiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Profiler { devices, host, memory, options, schedule, .. } = self;
        f.debug_struct("Profiler")
            .field("devices", devices)
            .field("host", host)
            .field("memory", memory)
            .field("options", options)
            .field("schedule", schedule)
            .finish_non_exhaustive()
    }
}

/// When a window of records began.
#[derive(Clone, Copy, Debug)]
struct Began {
    time: u64,
    clock: SystemTime,
    observing: u64,
    step: usize,
}

impl Began {
    fn now(step: usize) -> Began {
        Began {
            time: trace::now(),
            clock: SystemTime::UNIX_EPOCH + since_epoch(),
            observing: trace::observing(),
            step,
        }
    }
}

/// A profiler that records. Dropping it drops what it recorded.
#[must_use = "the profile comes from stop()"]
#[derive(Debug)]
pub struct ActiveProfiler {
    profiler: Profiler,
    recording: Recording,
    /// Nanoseconds that a record takes.
    cost: u64,
    step: usize,
    phase: Phase,
    began: Began,
    span: Option<HostSpan>,
    profile: Option<Profile>,
    failed: Option<crate::Error>,
}

impl ActiveProfiler {
    /// Ends a step and begins the next one. PyTorch: `profiler.step()`.
    pub fn step(&mut self) {
        self.span = None;
        if self.phase == Phase::ActiveLast && self.profiler.schedule.is_some() {
            self.finish(self.step + 1);
        }
        self.enter(self.step + 1);
    }

    /// The number of the present step, from 0.
    pub fn step_number(&self) -> usize {
        self.step
    }

    /// What is done in the present step.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    fn enter(&mut self, step: usize) {
        let phase = match &self.profiler.schedule {
            Some(schedule) => schedule.phase(step),
            None => Phase::Active,
        };
        let was_active = self.phase.is_active();
        (self.step, self.phase) = (step, phase);
        self.recording.switch(phase.is_on());
        if phase.is_active() && !was_active {
            // What the warm-up left goes with this.
            self.recording.take();
            self.began = Began::now(step);
        }
        self.span =
            phase.is_on().then(|| trace::span(Activity::Step).named(|| format!("step {step}").into()));
    }

    /// Ends a window, the profile of which is then the last one.
    fn finish(&mut self, end_step: usize) {
        // The next active step begins a window of its own.
        self.phase = Phase::Off;
        let end = trace::now();
        let result = self.collect(end, end_step).and_then(|profile| {
            let result = match &mut self.profiler.on_trace_ready {
                Some(call) => call(&profile),
                None => Ok(()),
            };
            self.profile = Some(profile);
            result
        });
        if let Err(error) = result {
            self.failed.get_or_insert(error);
        }
    }

    fn collect(&mut self, end: u64, end_step: usize) -> Result<Profile> {
        let context = context::current();
        let mut records = self.recording.take();
        self.recording.switch(false);
        let devices = materialize::devices(&records);
        // Devices that tell times themselves have told them all once they are through.
        for &device in &devices {
            let backend = context.backend(device)?;
            backend.flush().and_then(|()| backend.sync())?;
        }
        records.extend(self.recording.take());
        let count = records.len() as u64;
        let Began { time: start, clock, observing, step } = self.began;
        let observing = trace::observing().saturating_sub(observing);
        let peaks: Peaks = match self.profiler.peaks {
            true => {
                devices.iter().filter_map(|&device| Some((device, device.peak_throughput().ok()?))).collect()
            }
            false => Peaks::new(),
        };
        let mut events = materialize::events(records, (start, end), &peaks);
        events.retain(|event| self.keeps(event));
        let described =
            |device: Device| Some((context.backend(device).ok()?.properties(), peaks.get(&device).copied()));
        Ok(Profile {
            span: Duration::from_nanos(end.saturating_sub(start)),
            started: clock,
            steps: (step, end_step),
            devices: device_profiles(&events, described),
            overhead: Duration::from_nanos(count * self.cost + observing),
            events: events.into(),
            main_thread: trace::thread(),
            options: self.profiler.options,
        })
    }

    fn keeps(&self, event: &Event) -> bool {
        let wanted = |device: Device| match &self.profiler.devices {
            Some(devices) => devices.contains(&device),
            None => true,
        };
        match event {
            Event::Kernel(kernel) => wanted(kernel.kernel.device),
            Event::Transfer(transfer) => wanted(transfer.from) || wanted(transfer.to),
            Event::Host(_) => self.profiler.host,
            Event::Memory(memory) => wanted(memory.device),
        }
    }

    /// Ends recording. Gives the profile of the window that was open, else of the last one that ended.
    ///
    /// # Errors
    /// A device's failure in what was recorded; the first error of `on_trace_ready`.
    pub fn stop(mut self) -> Result<Profile> {
        self.span = None;
        if self.phase.is_active() {
            let step = self.step + usize::from(self.profiler.schedule.is_none());
            self.finish(step);
        }
        match (self.failed.take(), self.profile.take()) {
            (Some(error), _) => Err(error),
            (None, Some(profile)) => Ok(profile),
            (None, None) => {
                // Nothing was active: a profile of no time.
                self.began = Began::now(self.step);
                self.collect(self.began.time, self.step)
            }
        }
    }
}

/// Runs the closure and gives what it gave, with its profile.
///
/// # Errors
/// A device's failure in what was recorded.
///
/// ```
/// use kiln::prelude::*;
/// use kiln::profile::profile;
///
/// # fn main() -> kiln::Result<()> {
/// let (sum, profile) = profile(|| Tensor::ones([1000], ()).exp().sum(..).item::<f32>())?;
/// assert!((sum? - 2718.3).abs() < 0.1);
/// assert!(profile.device(Device::cpu()).is_some_and(|cpu| cpu.kernels <= profile.span));
/// # Ok(())
/// # }
/// ```
pub fn profile<T>(body: impl FnOnce() -> T) -> Result<(T, Profile)> {
    let active = Profiler::builder().start();
    let value = body();
    Ok((value, active.stop()?))
}
