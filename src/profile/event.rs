//! What a profile holds: kernels, transfers, what the host did, memory.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::base::{Device, Shape, Span};
use crate::plan::observe::ObservedRun;
use crate::plan::roofline::Bottleneck;

pub use crate::runtime::trace::Activity;

/// Something that happened. Times are counted from the profile's start.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A kernel ran.
    Kernel(KernelEvent),
    /// Data moved between devices.
    Transfer(TransferEvent),
    /// A thread of the host did something.
    Host(HostEvent),
    /// A block of memory was handed out or came back.
    Memory(MemoryEvent),
}

/// One run of a kernel.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KernelEvent {
    /// What ran; runs of one kernel for the same calls share it.
    pub kernel: Arc<KernelInfo>,
    /// The number of the host's thread that launched it.
    pub thread: usize,
    /// When the host began to launch it.
    pub launched: Duration,
    /// How long the host took to launch it; 0 on devices of the host, where launching is running.
    pub launching: Duration,
    /// When the device began.
    pub start: Duration,
    /// When the device was through.
    pub end: Duration,
    /// How long the device worked in between.
    pub time: Duration,
    pub(crate) launched_by: LaunchedBy,
}

/// The run of a plan that launched a kernel, and with which step.
#[derive(Clone)]
pub(crate) struct LaunchedBy {
    pub run: Arc<ObservedRun>,
    pub step: usize,
}

impl fmt::Debug for LaunchedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}", self.step)
    }
}

/// What is known of a kernel.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct KernelInfo {
    /// The operations inside as the user called them, the last ones where there are many.
    pub name: String,
    /// Where it runs.
    pub device: Device,
    /// The shape of the largest value it stores.
    pub shape: Shape,
    /// All operations inside, in order.
    pub operations: Vec<OperationInfo>,
    /// Bytes a launch reads from memory.
    pub loaded: u64,
    /// Bytes a launch writes to memory.
    pub stored: u64,
    /// Scalar operations of a launch.
    pub flops: u64,
    /// Bytes of memory that were taken for what it stores.
    pub allocated: u64,
    /// The user's line that asked for the value it stores.
    pub at: Span,
    /// The labels around that, outermost first, as `epoch/forward`.
    pub label: Option<Arc<str>>,
    /// What the roofline predicts, where the device's peaks are known.
    pub predicted: Option<Prediction>,
}

/// An operation inside a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct OperationInfo {
    /// What the user called.
    pub name: &'static str,
    /// The user's line.
    pub at: Span,
    /// The labels around it.
    pub label: Option<Arc<str>>,
}

/// The least time of a launch ([`Device::peak_throughput`]).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Prediction {
    /// That time.
    pub time: Duration,
    /// What limits it.
    pub bound: Bottleneck,
}

impl KernelInfo {
    /// Bytes a launch reads and writes.
    pub fn bytes(&self) -> u64 {
        self.loaded.saturating_add(self.stored)
    }
}

/// One transfer, as long as the host was busy with it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TransferEvent {
    /// From where.
    pub from: Device,
    /// To where.
    pub to: Device,
    /// Bytes moved.
    pub bytes: u64,
    /// The user's line, if it is known.
    pub at: Option<Span>,
    /// The labels around it.
    pub label: Option<Arc<str>>,
    /// The host's thread.
    pub thread: usize,
    /// When it began.
    pub start: Duration,
    /// When it ended.
    pub end: Duration,
    /// What the peaks of the devices predict, where they are known.
    pub predicted: Option<Duration>,
}

/// Something that a thread of the host did. Events of one thread nest.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HostEvent {
    /// What.
    pub activity: Activity,
    /// The name of a step or label, the call of a read, what was waited for.
    pub name: Option<Arc<str>>,
    /// The user's line, if it is known.
    pub at: Option<Span>,
    /// The device that it has to do with.
    pub device: Option<Device>,
    /// The labels around it.
    pub label: Option<Arc<str>>,
    /// The thread.
    pub thread: usize,
    /// When it began.
    pub start: Duration,
    /// When it ended.
    pub end: Duration,
}

/// A block of memory that was handed out or came back.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MemoryEvent {
    /// When.
    pub time: Duration,
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
    /// The operation or the kind of memory.
    pub name: &'static str,
    /// The shape of the tensor in it, or its bytes.
    pub shape: Shape,
    /// The user's line, if there is one.
    pub at: Option<Span>,
}

impl Event {
    /// When it began.
    pub fn start(&self) -> Duration {
        match self {
            Event::Kernel(kernel) => kernel.start,
            Event::Transfer(transfer) => transfer.start,
            Event::Host(host) => host.start,
            Event::Memory(memory) => memory.time,
        }
    }
}
