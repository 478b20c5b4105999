//! Layer 4: devices. Memory, launches, transfers, counters.
//!
//! A backend is small: memory, transfers, `compile` and `sync`; never a
//! method per operation. What it compiles is a [`Workload`]; a compiled
//! [`Program`] launches itself on [`Bindings`].

pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(any(feature = "cuda", feature = "wgpu"))]
pub mod disk_cache;
pub mod host;
pub mod label;
pub mod ledger;
pub mod null;
pub mod properties;
pub mod replay;
#[cfg(any(feature = "cuda", feature = "wgpu"))]
mod sources;
pub mod trace;
#[cfg(any(feature = "cuda", feature = "wgpu"))]
pub mod tune;
#[cfg(feature = "wgpu")]
pub mod wgpu;

use std::any::Any;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::base::{DType, Device, Error, OpName, Result, Span};
use crate::ir::collective::CollectiveKind;
use crate::ir::device_collective::DeviceCollective;
use crate::ir::{DeviceBuffer, Type};
use crate::kernel::lower::attention::AttentionLimits;
use crate::kernel::{JointPart, Workload};

pub use label::Label;
pub use ledger::Ledger;
pub use properties::Properties;
pub use replay::Replay;
pub use trace::LaunchClock;

/// What a device can do, as far as planning asks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Capabilities {
    /// Buffers one kernel may bind; splits kernels that would need more.
    pub max_bindings: usize,
    /// Independent workers, to judge whether there are enough rows.
    pub workers: usize,
    /// Bytes of a row that stay on chip between the stages of a row kernel.
    pub row_bytes: usize,
    /// The attention that a template runs.
    pub attention: Option<AttentionLimits>,
    /// The element types it cannot compute with.
    pub missing: &'static [DType],
    /// Which kernels may write over what they read.
    pub in_place: InPlace,
    /// Whether an index out of range is known only once the host waits, after later steps have run.
    pub late_index_errors: bool,
    /// Whether reads under conditions cost what others do. Elsewhere a kernel is cut at its conditions, which
    /// one cannot be after a product or within its rows: there they stay apart.
    pub cheap_guards: bool,
    /// Whether products of one row are one launch where they need not wait for each other.
    pub joint_rows: bool,
    /// The alignment of outputs, in bytes.
    pub output_alignment: usize,
    /// Whether a thread can wait for it. In a page of a browser none can wait for a GPU: what needs an
    /// answer is asynchronous there.
    pub can_block: bool,
}

/// Which kernels may write over inputs that they read only where they write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InPlace {
    /// None, nor elsewhere into a buffer that they read, as WebGPU has it: each value has a buffer of its own.
    Never,
    /// Those with a single output.
    SingleOutput,
    /// All: those with several outputs read everything at a point before they write anything there.
    AnyOutputs,
}

/// What a call that needs a device's answer does until the answer is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// It keeps its thread.
    Block,
    /// It is a future that is pending.
    Yield,
}

/// Something that a device does, or has done.
pub type Pending<'a> = Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

/// A buffer as a kernel sees it.
#[derive(Clone, Copy, Debug)]
pub struct Binding<'a> {
    /// The memory.
    pub buffer: &'a DeviceBuffer,
    /// Where the kernel's element 0 is, in bytes from the buffer's start.
    pub offset: usize,
}

/// A rank's part of a collective.
#[derive(Clone, Copy, Debug)]
pub struct RankCollective<'a> {
    /// What the ranks do.
    pub kind: CollectiveKind,
    /// This rank's number in the group.
    pub rank: usize,
    /// The number of ranks.
    pub size: usize,
    /// The operand's type.
    pub ty: &'a Type,
    /// The operand, row-major.
    pub operand: Binding<'a>,
    /// The memory of the result, and where in it that is, in bytes.
    pub result: (&'a Arc<DeviceBuffer>, usize),
}

/// Bytes to be read from a device.
#[derive(Debug)]
pub struct Download<'a> {
    /// The memory.
    pub buffer: &'a DeviceBuffer,
    /// Where in it, in bytes.
    pub start: usize,
    /// Where they go.
    pub out: &'a mut [u8],
}

/// Devices copy whole words: parts lie behind each other, filled up at both ends.
#[cfg(feature = "wgpu")]
impl Download<'_> {
    /// Where the first word starts.
    fn first(&self) -> u64 {
        self.start as u64 / 4 * 4
    }
    /// Bytes of the words; none where nothing is to be read.
    fn padded(&self) -> u64 {
        let end = ((self.start + self.out.len()) as u64).next_multiple_of(4);
        if self.out.is_empty() { 0 } else { end - self.first() }
    }
    /// Takes what is to be read out of the words of all parts.
    fn fill(parts: &mut [Download<'_>], words: &[u8]) {
        let mut at = 0;
        for part in parts.iter_mut().filter(|part| !part.out.is_empty()) {
            let start = at + part.start % 4;
            part.out.copy_from_slice(&words[start..start + part.out.len()]);
            at += part.padded() as usize;
        }
    }
}

/// What one launch works on.
#[derive(Debug)]
pub struct Bindings<'a> {
    /// In the order of the kernel's inputs.
    pub inputs: &'a [Binding<'a>],
    /// In the order of the kernel's stores. Outputs do not overlap inputs,
    /// but for a donated input that the kernel reads exactly where it writes.
    pub outputs: &'a [Binding<'a>],
    /// Scalar arguments as bits of their types, in the kernel's order.
    pub scalars: &'a [u64],
    /// Where index errors go.
    pub status: &'a IndexStatus,
}

impl<'a> Bindings<'a> {
    /// What a kernel of several works on, of what all do.
    pub fn of_part(&self, part: &JointPart<'_>) -> Bindings<'a> {
        let kernel = part.kernel;
        Bindings {
            inputs: &self.inputs[part.input..][..kernel.inputs.len()],
            outputs: &self.outputs[part.output..][..kernel.stores.len()],
            scalars: &self.scalars[part.argument..][..kernel.args],
            status: self.status,
        }
    }
}

/// The operation that uses an index, for devices that report a bad one after
/// the launch.
#[derive(Clone, Copy, Debug)]
pub struct IndexSite {
    /// The primitive's name.
    pub primitive: &'static str,
    /// What the user called, if that is known.
    pub called: OpName,
    /// The user's line.
    pub span: Span,
}

impl IndexSite {
    /// The operation's name, for people: gradients go by the primitive.
    pub fn op(&self) -> &'static str {
        self.called.text().filter(|&name| name != OpName::GRADIENT).unwrap_or(self.primitive)
    }

    /// The error of an index outside of an axis here.
    pub fn error(&self, index: i64, extent: usize) -> Error {
        Error::IndexOutOfRange { op: self.op(), index, extent, span: self.span }
    }
}

/// The first index out of range that a kernel met.
#[derive(Debug, Default)]
pub struct IndexStatus {
    site: Option<IndexSite>,
    failed: AtomicBool,
    first: Mutex<Option<(i64, usize)>>,
}

impl IndexStatus {
    /// A status for a launch whose indices a known operation uses.
    pub fn at(site: Option<IndexSite>) -> IndexStatus {
        IndexStatus { site, ..IndexStatus::default() }
    }
    /// The operation that uses the indices, if known.
    pub fn site(&self) -> Option<IndexSite> {
        self.site
    }
    /// Records an index outside `0..extent`; the first one stays.
    #[cold]
    pub fn record(&self, index: i64, extent: usize) {
        let mut first = self.first.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        first.get_or_insert((index, extent));
        self.failed.store(true, Ordering::Release);
    }
    /// The first index out of range and the extent it exceeded; clears it.
    pub fn take(&self) -> Option<(i64, usize)> {
        if !self.failed.swap(false, Ordering::AcqRel) {
            return None;
        }
        self.first.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take()
    }
}

/// A program and what it works on.
#[derive(Debug)]
pub struct Launch<'a> {
    /// What is launched.
    pub program: &'a dyn Program,
    /// What it works on.
    pub bindings: Bindings<'a>,
}

/// Something compiled for one device.
pub trait Program: Any + Send + Sync + fmt::Debug {
    /// The program's text: shader, CUDA C, or the printed tile program.
    fn source(&self) -> String;
    /// Enqueues the work; on the CPU, does it.
    ///
    /// # Errors
    /// A driver's or user kernel's failure. Outputs are then unspecified;
    /// nothing else is touched.
    fn launch(&self, bindings: &Bindings<'_>) -> Result<()>;
    /// Kernels that were compiled to make it; fewer where what was compiled for
    /// other sizes serves. `None` where the device interprets kernels, to
    /// which sizes are data.
    fn compiled(&self) -> Option<u64> {
        Some(1)
    }
}

/// How much memory a device's pool holds, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// In live buffers.
    pub allocated: u64,
    /// In live buffers and in the cache.
    pub reserved: u64,
    /// The most that was allocated at once.
    pub peak: u64,
    /// The limit in force; `u64::MAX` if none.
    pub limit: u64,
    /// Buffers handed out so far, where the pool counts them.
    pub allocations: u64,
}

/// A device.
pub trait Backend: Any + Send + Sync + fmt::Debug {
    /// The device's name.
    fn device(&self) -> Device;
    /// What it can do.
    fn capabilities(&self) -> &Capabilities;
    /// Uninitialised memory.
    ///
    /// # Errors
    /// [`crate::base::Error::OutOfMemory`] over the limit or when refused.
    fn allocate(&self, bytes: usize) -> Result<DeviceBuffer>;
    /// Uninitialised memory that a copy from the host fills before anything
    /// else uses it: the copy need not wait for what is enqueued.
    ///
    /// # Errors
    /// As [`Backend::allocate`].
    fn allocate_to_fill(&self, bytes: usize) -> Result<DeviceBuffer> {
        self.allocate(bytes)
    }
    /// Host memory from which the device copies by itself; plain host memory
    /// where it cannot.
    ///
    /// # Errors
    /// As [`Backend::allocate`].
    fn allocate_pinned(&self, bytes: usize) -> Result<DeviceBuffer> {
        host::allocate_pinned(bytes)
    }
    /// Memory holding a copy of `data`.
    ///
    /// # Errors
    /// As [`Backend::allocate`], or the driver's failure.
    fn upload(&self, data: &[u8]) -> Result<DeviceBuffer>;
    /// The bytes `start..start + out.len()` of a buffer, waiting for them.
    ///
    /// # Errors
    /// The driver's failure; an index out of range that an earlier launch met.
    fn download(&self, buffer: &DeviceBuffer, start: usize, out: &mut [u8]) -> Result<()>;
    /// Copies bytes within the device.
    ///
    /// # Errors
    /// The driver's failure.
    fn copy(&self, from: Binding<'_>, to: Binding<'_>, bytes: usize) -> Result<()>;
    /// Copies bytes of another device without the host, in the order of what
    /// both were given; `false`, and nothing is done, where that cannot be.
    ///
    /// # Errors
    /// Either driver's failure.
    fn copy_from_peer(
        &self,
        to: Binding<'_>,
        source: &dyn Backend,
        from: Binding<'_>,
        bytes: usize,
    ) -> Result<bool> {
        let _ = (to, source, from, bytes);
        Ok(false)
    }
    /// Prepares a collective in which the ranks' devices exchange data by themselves. The operand's memory is
    /// free for what the device is given next; the result is not there before the collective has run. `None`,
    /// and nothing is done, where the device knows no such thing.
    ///
    /// # Errors
    /// As [`Backend::allocate`]; the driver's failure.
    fn collective(&self, part: &RankCollective<'_>) -> Result<Option<Box<dyn DeviceCollective>>> {
        let _ = part;
        Ok(None)
    }
    /// Puts bytes of the host's into memory of the device.
    ///
    /// # Errors
    /// As [`Backend::upload`].
    fn write(&self, to: Binding<'_>, data: &[u8]) -> Result<()> {
        let staged = self.upload(data)?;
        self.copy(Binding { buffer: &staged, offset: 0 }, to, data.len())
    }
    /// Puts bytes of a block of the host's into memory of the device. It may
    /// return before they are copied; the block is kept as it is until then.
    ///
    /// # Errors
    /// As [`Backend::write`].
    fn write_from(
        &self,
        to: Binding<'_>,
        from: &Arc<DeviceBuffer>,
        start: usize,
        bytes: usize,
    ) -> Result<()> {
        self.write(to, &host::bytes(from)[start..start + bytes])
    }
    /// Bytes of every part, waiting for all of them at once.
    ///
    /// # Errors
    /// As [`Backend::download`].
    fn download_all(&self, parts: &mut [Download<'_>]) -> Result<()> {
        parts.iter_mut().try_for_each(|part| self.download(part.buffer, part.start, part.out))
    }
    /// As [`Backend::download_all`], without keeping the thread where the device can do otherwise.
    fn download_async<'a>(&'a self, parts: &'a mut [Download<'_>]) -> Pending<'a> {
        Box::pin(std::future::ready(self.download_all(parts)))
    }
    /// Bytes that a launch of the work takes besides its inputs and outputs.
    fn scratch(&self, work: &Workload) -> usize {
        let _ = work;
        0
    }
    /// A program for the work.
    ///
    /// # Errors
    /// What the compiler said.
    fn compile(&self, work: &Workload) -> Result<Arc<dyn Program>>;
    /// Whether several threads that compile at once are sooner done than one, and programs
    /// are the same.
    fn compiles_in_parallel(&self) -> bool {
        false
    }
    /// Whether launches of a program may be given to the device together with
    /// others', by [`Backend::launch_all`].
    fn replays(&self, program: &dyn Program) -> bool {
        let _ = program;
        false
    }
    /// Enqueues launches of a plan that follow each other. `replay` is the
    /// device's to keep what makes the same launches cheaper the next time. Gives
    /// the calls of the driver that this saved.
    ///
    /// # Errors
    /// As [`Program::launch`].
    fn launch_all(&self, launches: &[Launch<'_>], replay: &Replay) -> Result<u64> {
        let _ = replay;
        launches.iter().try_for_each(|launch| launch.program.launch(&launch.bindings))?;
        Ok(0)
    }
    /// Whose clock tells how long a launch takes.
    fn launch_clock(&self) -> LaunchClock {
        LaunchClock::Host
    }
    /// Starts everything enqueued, without waiting.
    ///
    /// # Errors
    /// The driver's failure.
    fn flush(&self) -> Result<()> {
        Ok(())
    }
    /// What the device is, in words.
    fn describe(&self) -> String {
        "ready".into()
    }
    /// Waits for everything enqueued.
    ///
    /// # Errors
    /// The first failure since the last wait: an index out of range, a
    /// driver's failure.
    fn sync(&self) -> Result<()>;
    /// As [`Backend::sync`], without keeping the thread where the device can do otherwise.
    fn sync_async(&self) -> Pending<'_> {
        Box::pin(std::future::ready(self.sync()))
    }
    /// What the device is.
    fn properties(&self) -> Properties {
        Properties { name: self.describe(), ..Properties::of(self.capabilities()) }
    }
    /// What the driver says of the device's memory, all programs counted:
    /// bytes free, and bytes in all. `None` where it does not say.
    fn driver_memory(&self) -> Option<(u64, u64)> {
        None
    }
    /// What the pool holds.
    fn memory(&self) -> MemoryStats;
    /// Shows the pool's books to `look`; whether there are any.
    fn with_ledger(&self, look: &mut dyn FnMut(&mut Ledger)) -> bool {
        let _ = look;
        false
    }
    /// Sets the most bytes that may be allocated at once.
    fn set_memory_limit(&self, bytes: u64);
    /// Gives cached memory back to the system.
    fn empty_cache(&self);
}
