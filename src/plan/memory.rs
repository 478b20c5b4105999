//! The memory of devices: what is in use, what the pools hold, how much at
//! most, and who has it.

use std::fmt::{self, Display, Write};

use crate::base::error::Located;
use crate::base::{Device, Error, Result, Span};
use crate::ir::lazy::lazy_nodes;
use crate::plan::context;
use crate::plan::report::bytes;
use crate::runtime::ledger::Event;
use crate::runtime::{Ledger, MemoryStats};

impl Device {
    /// Bytes in tensors that are alive.
    ///
    /// # Errors
    /// [`Error::DeviceUnavailable`].
    #[track_caller]
    pub fn memory_allocated(self) -> Result<u64> {
        Ok(self.memory_stats()?.allocated)
    }

    /// Bytes that the pool holds: in tensors, and cached to be used again.
    ///
    /// # Errors
    /// As [`Device::memory_allocated`].
    #[track_caller]
    pub fn memory_reserved(self) -> Result<u64> {
        Ok(self.memory_stats()?.reserved)
    }

    /// The most bytes that were in tensors at once, since the process began
    /// or since [`Device::reset_peak_memory_stats`].
    ///
    /// # Errors
    /// As [`Device::memory_allocated`].
    #[track_caller]
    pub fn max_memory_allocated(self) -> Result<u64> {
        Ok(self.memory_stats()?.peak)
    }

    /// All of the pool's sums.
    ///
    /// # Errors
    /// As [`Device::memory_allocated`].
    #[track_caller]
    pub fn memory_stats(self) -> Result<MemoryStats> {
        context::current().memory(self).located()
    }

    /// Makes what is in use now the most that was in use.
    ///
    /// # Errors
    /// As [`Device::memory_allocated`]; a device whose pool keeps no books.
    #[track_caller]
    pub fn reset_peak_memory_stats(self) -> Result<()> {
        self.ledger("reset_peak_memory_stats", Ledger::reset_peak)
    }

    /// Gives memory that no tensor uses back to the system.
    ///
    /// # Errors
    /// As [`Device::memory_allocated`].
    #[track_caller]
    pub fn empty_cache(self) -> Result<()> {
        context::current().backend(self).located()?.empty_cache();
        Ok(())
    }

    /// What the driver says, all programs counted: bytes free, bytes in all.
    ///
    /// # Errors
    /// A device that is not there, or whose driver does not say.
    #[track_caller]
    pub fn mem_get_info(self) -> Result<(u64, u64)> {
        let span = Span::caller();
        let silent = || not_known("mem_get_info", self, "a driver that tells its memory", span);
        context::current().backend(self).located()?.driver_memory().ok_or_else(silent)
    }

    /// Sets the most bytes that tensors may occupy at once. What would exceed
    /// them is [`Error::OutOfMemory`]; everything that was there stays.
    ///
    /// # Errors
    /// As [`Device::memory_allocated`].
    #[track_caller]
    pub fn set_memory_limit(self, bytes: u64) -> Result<()> {
        context::current().set_memory_limit(self, bytes).located()
    }

    /// [`Device::set_memory_limit`] to a part of the device's memory.
    ///
    /// # Errors
    /// A fraction outside 0 to 1; as [`Device::mem_get_info`].
    #[track_caller]
    pub fn set_memory_fraction(self, fraction: f64) -> Result<()> {
        if !(0.0..=1.0).contains(&fraction) {
            let (expected, found) = ("a fraction from 0 to 1".into(), fraction.to_string());
            let span = Span::caller();
            return Err(Error::Argument { call: "set_memory_fraction", expected, found, span });
        }
        let (_, total) = self.mem_get_info()?;
        self.set_memory_limit((total as f64 * fraction) as u64)
    }

    /// A table of the device's memory: what tensors use, what the pool holds,
    /// what the driver sees, the largest tensors with the lines that made
    /// them, and how many operations are still lazy, and so use nothing yet.
    ///
    /// # Errors
    /// As [`Device::memory_allocated`].
    #[track_caller]
    pub fn memory_summary(self) -> Result<String> {
        let stats = self.memory_stats()?;
        let mut text = format!("memory of {self}\n");
        let limit = if stats.limit == u64::MAX { "none".into() } else { bytes(stats.limit) };
        let cached = stats.reserved.saturating_sub(stats.allocated);
        let rows = [
            ("in tensors", bytes(stats.allocated)),
            ("  at most so far", bytes(stats.peak)),
            ("held by the pool", bytes(stats.reserved)),
            ("  cached or lost to rounding", bytes(cached)),
            ("limit", limit),
            ("buffers handed out so far", stats.allocations.to_string()),
        ];
        for (name, value) in rows {
            let _ = writeln!(text, "  {name:<30} {value:>12}");
        }
        if let Ok((free, total)) = self.mem_get_info() {
            let _ = writeln!(
                text,
                "  {:<30} {:>12} of {}",
                "free as the driver sees it",
                bytes(free),
                bytes(total)
            );
        }
        let mut largest = Vec::new();
        context::current().backend(self)?.with_ledger(&mut |ledger| largest = ledger.largest(Ledger::NAMED));
        for tensor in largest {
            let _ = writeln!(text, "  {tensor}");
        }
        Ok(text + &lazy_note())
    }

    /// Starts recording when which memory is handed out and comes back, or
    /// stops and forgets what was recorded.
    ///
    /// # Errors
    /// As [`Device::reset_peak_memory_stats`].
    #[track_caller]
    pub fn record_memory_history(self, on: bool) -> Result<()> {
        self.ledger("record_memory_history", |ledger| ledger.record_history(on))
    }

    /// What was recorded since [`Device::record_memory_history`]; `None` if
    /// nothing is being recorded.
    ///
    /// # Errors
    /// As [`Device::reset_peak_memory_stats`].
    #[track_caller]
    pub fn memory_history(self) -> Result<Option<Vec<Event>>> {
        self.ledger("memory_history", |ledger| ledger.history())
    }

    /// Looks into the books of the device's pool.
    #[track_caller]
    fn ledger<R>(self, call: &'static str, look: impl FnOnce(&mut Ledger) -> R) -> Result<R> {
        let (mut look, mut found, span) = (Some(look), None, Span::caller());
        context::current().backend(self).located()?.with_ledger(&mut |ledger| {
            found = look.take().map(|look| look(ledger));
        });
        found.ok_or_else(|| not_known(call, self, "a device whose pool keeps books", span))
    }
}

fn not_known(call: &'static str, device: Device, expected: &str, span: Span) -> Error {
    Error::Argument { call, expected: expected.into(), found: device.to_string(), span }
}

/// Prints, on standard error, the memory of each device that was used, a line each, and how many operations
/// are lazy still; gives the text, too.
///
/// [`Device::memory_summary`] says more of one device. PyTorch: a line of `torch.cuda.memory_summary`.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// let x = Tensor::ones([1 << 20], ()) + 1.0;
/// x.realize()?;
/// let text = kiln::log_memory("after the first step");
/// assert!(text.starts_with("memory after the first step\n  cpu: "));
/// # Ok::<(), kiln::Error>(())
/// ```
pub fn log_memory(when: &str) -> String {
    let context = context::current();
    let mut text = format!("memory {when}\n");
    for device in context.used_devices() {
        if let Ok(stats) = context.memory(device) {
            let _ = writeln!(text, "  {device}: {stats}");
        }
    }
    let note = lazy_note();
    if !note.is_empty() {
        let _ = write!(text, "  {note}");
    }
    eprint!("{text}");
    text
}

impl Display for MemoryStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [allocated, peak, reserved] = [self.allocated, self.peak, self.reserved].map(bytes);
        write!(f, "{allocated} in tensors, {peak} at most so far, {reserved} held by the pool")?;
        match self.limit {
            u64::MAX => Ok(()),
            limit => write!(f, ", limit {}", bytes(limit)),
        }
    }
}

/// What to say of operations that have not run; nothing if there are none.
fn lazy_note() -> String {
    match lazy_nodes() {
        0 => String::new(),
        1 => "1 operation not realized yet: it uses no memory so far\n".into(),
        count => format!("{count} operations not realized yet: they use no memory so far\n"),
    }
}

/// Watches a device's memory from its making on: how far it rose, and what
/// is left.
///
/// ```
/// use kiln::prelude::*;
/// use kiln::MemoryTracker;
///
/// # fn main() -> kiln::Result<()> {
/// let tracker = MemoryTracker::new(Device::cpu())?;
/// let x = Tensor::ones([1000], ()).exp();
/// assert_eq!(tracker.report()?.net, 0); // lazy: nothing has run
/// x.realize()?;
/// assert_eq!(tracker.report()?.net, 4000);
/// println!("{}", tracker.report()?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use]
pub struct MemoryTracker {
    device: Device,
    before: MemoryStats,
}

/// What a [`MemoryTracker`] saw, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryChange {
    /// The device.
    pub device: Device,
    /// More (or, below 0, less) in tensors than at the beginning.
    pub net: i64,
    /// The most that was in tensors at once, beyond what was at the beginning.
    pub peak: u64,
    /// Operations of the whole program that are still lazy, and so not in
    /// these numbers.
    pub lazy: usize,
}

impl MemoryTracker {
    /// Watches from now on. Resets the device's peak.
    ///
    /// # Errors
    /// As [`Device::reset_peak_memory_stats`].
    #[track_caller]
    pub fn new(device: Device) -> Result<MemoryTracker> {
        device.reset_peak_memory_stats()?;
        Ok(MemoryTracker { device, before: device.memory_stats()? })
    }

    /// What has changed so far.
    ///
    /// # Errors
    /// [`Error::DeviceUnavailable`].
    #[track_caller]
    pub fn report(&self) -> Result<MemoryChange> {
        let now = self.device.memory_stats()?;
        Ok(MemoryChange {
            device: self.device,
            net: now.allocated as i64 - self.before.allocated as i64,
            peak: now.peak.saturating_sub(self.before.allocated),
            lazy: lazy_nodes(),
        })
    }
}

impl std::fmt::Display for MemoryChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.net < 0 { "-" } else { "+" };
        let (net, peak) = (bytes(self.net.unsigned_abs()), bytes(self.peak));
        write!(f, "{}: {sign}{net}, at most +{peak} in between", self.device)?;
        if self.lazy > 0 { write!(f, "; {}", lazy_note().trim_end()) } else { Ok(()) }
    }
}
