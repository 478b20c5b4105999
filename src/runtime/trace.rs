//! What profilers record: spans of the host's threads, launches with their times on devices, memory.
//!
//! Planning and devices write here, [`crate::profile`] reads. Where nobody records, a hook is one relaxed
//! load of an atomic. Times are nanoseconds since the process first asked.

use std::any::Any;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use crate::base::system::Instant;
use crate::base::{Device, Region, Span};
use crate::runtime::label::Label;

/// What a thread of the host does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Activity {
    /// A step of the profiler's schedule.
    Step,
    /// A region that the user named.
    Region,
    /// A value that is computed and read.
    Read,
    /// Computing values: what is inside and not named by itself binds memory and keeps results.
    Realize,
    /// Numbering the operations that have no value yet.
    Collect,
    /// Looking a plan up, or making one.
    Plan,
    /// Compiling kernels.
    Compile,
    /// Giving a kernel to its device; on devices of the host, running it.
    Launch,
    /// Running a part of a kernel that another thread launched.
    Work,
    /// Waiting for a device.
    Wait,
    /// Moving data between devices.
    Transfer,
    /// Meeting the other ranks of a group.
    Collective,
    /// Making a batch in a loader.
    Batch,
}

/// Something that a thread of the host did.
#[derive(Clone, Debug)]
pub struct HostRecord {
    /// What.
    pub activity: Activity,
    /// A name beside that, if there is one.
    pub name: Option<Arc<str>>,
    /// The user's line, if it is known.
    pub at: Option<Span>,
    /// The device that it has to do with; of a transfer, where it goes.
    pub device: Option<Device>,
    /// Of a transfer, where it comes from and its bytes.
    pub moved: Option<(Device, u64)>,
    /// The user's region.
    pub region: Region,
    /// The thread's number.
    pub thread: usize,
    /// When it began.
    pub start: u64,
    /// When it ended.
    pub end: u64,
}

/// A launch: what the host did for it.
#[derive(Clone, Debug)]
pub struct LaunchRecord {
    /// By which [`DeviceRecord`]s name it.
    pub number: u64,
    /// What knows the kernel: a plan's run.
    pub run: Arc<dyn Any + Send + Sync>,
    /// The step of the plan.
    pub step: usize,
    /// Where it runs.
    pub device: Device,
    /// Whether the device runs it while the host waits.
    pub on_host: bool,
    /// The thread's number.
    pub thread: usize,
    /// When the host began to launch it.
    pub start: u64,
    /// When the host was through.
    pub end: u64,
}

/// When a device worked for a launch.
#[derive(Clone, Copy, Debug)]
pub struct DeviceRecord {
    /// The launch.
    pub launch: u64,
    /// When it began.
    pub start: u64,
    /// When it ended.
    pub end: u64,
}

/// When a thread ran a part of what another one launched.
#[derive(Clone, Copy, Debug)]
pub struct WorkRecord {
    /// The launch.
    pub launch: u64,
    /// The thread's number.
    pub thread: usize,
    /// When it began.
    pub start: u64,
    /// When it ended.
    pub end: u64,
}

/// A block of memory that was handed out or came back.
#[derive(Clone, Debug)]
pub struct MemoryRecord {
    /// When.
    pub at: u64,
    /// Where.
    pub device: Device,
    /// The pool's name of the block, used again after it is freed.
    pub block: u64,
    /// Bytes requested.
    pub bytes: u64,
    /// Whether it was handed out.
    pub allocated: bool,
    /// Bytes in use on the device afterwards.
    pub in_use: u64,
    /// What it holds.
    pub label: Label,
}

/// Anything recorded.
#[derive(Clone, Debug)]
pub enum Record {
    /// What a thread did.
    Host(HostRecord),
    /// A launch.
    Launch(LaunchRecord),
    /// A device's time.
    Device(DeviceRecord),
    /// What another thread did for a launch.
    Work(WorkRecord),
    /// Memory.
    Memory(MemoryRecord),
}

static RECORDING: AtomicUsize = AtomicUsize::new(0);
static RECORDING_MEMORY: AtomicUsize = AtomicUsize::new(0);
static OBSERVING: AtomicU64 = AtomicU64::new(0);
static LAUNCHES: AtomicU64 = AtomicU64::new(1);
static LOGS: Mutex<Vec<(u64, Vec<Record>)>> = Mutex::new(Vec::new());
static THREADS: Mutex<Vec<String>> = Mutex::new(Vec::new());
static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

thread_local! {
    static THREAD: usize = register_thread();
    static CURRENT_LAUNCH: Cell<u64> = const { Cell::new(0) };
}

fn register_thread() -> usize {
    let mut threads = lock(&THREADS);
    let thread = std::thread::current();
    let number = threads.len();
    threads.push(thread.name().map_or_else(|| format!("thread {number}"), String::from));
    number
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing under these locks can panic half-way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether anybody records.
#[inline]
pub fn is_on() -> bool {
    RECORDING.load(Ordering::Relaxed) > 0
}

/// The time: nanoseconds since the process first asked.
pub fn now() -> u64 {
    u64::try_from(EPOCH.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// The number of this thread.
pub fn thread() -> usize {
    THREAD.try_with(|number| *number).unwrap_or(usize::MAX)
}

/// The name of a thread.
pub fn thread_name(number: usize) -> String {
    lock(&THREADS).get(number).cloned().unwrap_or_else(|| "a thread that ended".into())
}

/// Adds to every log.
pub fn push(record: Record) {
    let mut logs = lock(&LOGS);
    if let Some(((_, last), others)) = logs.split_last_mut() {
        others.iter_mut().for_each(|(_, log)| log.push(record.clone()));
        last.push(record);
    }
}

/// About how long a record takes, in nanoseconds.
pub fn record_cost() -> u64 {
    const RECORDS: u64 = 256;
    let log = Mutex::new(Vec::new());
    let start = now();
    for _ in 0..RECORDS {
        let mut record = Box::new(open(Activity::Realize));
        record.end = now();
        lock(&log).push(Record::Host(*record));
    }
    (now() - start) / RECORDS
}

/// Adds time that observing a run took.
pub fn observed(nanoseconds: u64) {
    OBSERVING.fetch_add(nanoseconds, Ordering::Relaxed);
}

/// Nanoseconds that observing runs took so far.
pub fn observing() -> u64 {
    OBSERVING.load(Ordering::Relaxed)
}

/// A log that records until it is dropped.
#[derive(Debug)]
pub struct Recording {
    number: u64,
    memory: bool,
    on: bool,
}

impl Recording {
    /// Begins, with memory if so asked.
    pub fn begin(memory: bool) -> Recording {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        now();
        lock(&LOGS).push((number, Vec::new()));
        let mut recording = Recording { number, memory, on: false };
        recording.switch(true);
        recording
    }

    /// Stops or continues to record; times of launches before still arrive.
    pub fn switch(&mut self, on: bool) {
        if self.on == on {
            return;
        }
        self.on = on;
        let memory = usize::from(self.memory);
        if on {
            RECORDING.fetch_add(1, Ordering::Relaxed);
            RECORDING_MEMORY.fetch_add(memory, Ordering::Relaxed);
        } else {
            RECORDING.fetch_sub(1, Ordering::Relaxed);
            RECORDING_MEMORY.fetch_sub(memory, Ordering::Relaxed);
        }
    }

    /// Takes what was recorded.
    pub fn take(&self) -> Vec<Record> {
        let mut logs = lock(&LOGS);
        let own = logs.iter_mut().find(|(number, _)| *number == self.number);
        own.map(|(_, log)| std::mem::take(log)).unwrap_or_default()
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.switch(false);
        lock(&LOGS).retain(|(number, _)| *number != self.number);
    }
}

/// Until it is dropped, this thread does something; nothing where nobody records.
#[must_use = "the span ends when the guard is dropped"]
#[derive(Debug)]
pub struct HostSpan(Option<Box<HostRecord>>);

/// Begins a span of this thread.
#[inline]
pub fn span(activity: Activity) -> HostSpan {
    if is_on() { HostSpan(Some(Box::new(open(activity)))) } else { HostSpan(None) }
}

/// Begins a transfer of so many bytes, asked for in a line.
#[inline]
pub fn transfer(from: Device, to: Device, bytes: usize, line: impl FnOnce() -> Span) -> HostSpan {
    if is_on() { span(Activity::Transfer).on(to).moving(from, bytes).at(line()) } else { HostSpan(None) }
}

#[cold]
fn open(activity: Activity) -> HostRecord {
    let (thread, region) = (thread(), Region::current());
    let (name, at, device, moved) = Default::default();
    let start = now();
    HostRecord { activity, name, at, device, moved, region, thread, start, end: start }
}

impl HostSpan {
    /// With the user's line.
    pub fn at(mut self, line: Span) -> HostSpan {
        if let Some(record) = &mut self.0 {
            record.at = Some(line);
        }
        self
    }
    /// With the device that it has to do with.
    pub fn on(mut self, device: Device) -> HostSpan {
        if let Some(record) = &mut self.0 {
            record.device = Some(device);
        }
        self
    }
    /// With what moves, from where.
    pub fn moving(mut self, from: Device, bytes: usize) -> HostSpan {
        if let Some(record) = &mut self.0 {
            record.moved = Some((from, bytes as u64));
        }
        self
    }
    /// With a name; it is made only where somebody records.
    pub fn named(mut self, name: impl FnOnce() -> Arc<str>) -> HostSpan {
        if let Some(record) = &mut self.0 {
            record.name = Some(name());
        }
        self
    }
    /// Forgets it: nothing was done.
    pub fn discard(mut self) {
        self.0 = None;
    }
}

impl Drop for HostSpan {
    fn drop(&mut self) {
        if let Some(mut record) = self.0.take() {
            record.end = now();
            push(Record::Host(*record));
        }
    }
}

/// Whose time it is that a device works for a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchClock {
    /// The host's: launching returns when the work is done.
    Host,
    /// The device's, which reports [`DeviceRecord`]s of [`current_launch`].
    Device,
    /// The host's, which must wait before and after each launch: the device tells no times.
    Waiting,
}

/// Until it is dropped, this thread launches a step of a plan.
#[must_use = "the launch ends when the guard is dropped"]
#[derive(Debug)]
pub struct OpenLaunch(Option<LaunchRecord>);

/// Begins a launch.
pub fn launch(run: Arc<dyn Any + Send + Sync>, step: usize, device: Device, on_host: bool) -> OpenLaunch {
    let number = LAUNCHES.fetch_add(1, Ordering::Relaxed);
    CURRENT_LAUNCH.set(number);
    let start = now();
    OpenLaunch(Some(LaunchRecord { number, run, step, device, on_host, thread: thread(), start, end: start }))
}

/// The number of the launch that this thread is making; 0 if it is making none that is recorded.
#[inline]
pub fn current_launch() -> u64 {
    if is_on() { CURRENT_LAUNCH.get() } else { 0 }
}

impl Drop for OpenLaunch {
    fn drop(&mut self) {
        CURRENT_LAUNCH.set(0);
        if let Some(mut record) = self.0.take() {
            record.end = now();
            push(Record::Launch(record));
        }
    }
}

/// Until it is dropped, this thread runs a part of what another one launched.
#[must_use = "the work ends when the guard is dropped"]
#[derive(Debug)]
pub struct OpenWork(Option<WorkRecord>);

/// Begins a part of a launch; nothing for number 0.
#[inline]
pub fn work(launch: u64) -> OpenWork {
    let begun = |launch| WorkRecord { launch, thread: thread(), start: now(), end: 0 };
    OpenWork((launch != 0).then(|| begun(launch)))
}

impl Drop for OpenWork {
    fn drop(&mut self) {
        if let Some(mut record) = self.0.take() {
            record.end = now();
            push(Record::Work(record));
        }
    }
}

/// Records a block of memory.
#[inline]
pub fn memory(record: impl FnOnce() -> MemoryRecord) {
    if RECORDING_MEMORY.load(Ordering::Relaxed) > 0 {
        push(Record::Memory(record()));
    }
}
