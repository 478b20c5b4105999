//! Sums over the equal things of a profile.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use crate::base::region::SEPARATOR;
use crate::base::{Device, Span};
use crate::profile::Profile;
use crate::profile::event::{KernelEvent, OperationInfo};
use crate::profile::host::host_times;
use crate::profile::profile::DeviceProfile;

/// What makes events of a profile equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GroupBy {
    /// The kernel: its name, device, and, as the profiler was told, shape and line.
    Kernel,
    /// The operation that the user called. A kernel of several is a part of each: its time counts whole in
    /// their device time, and in even shares in their self time.
    Operation,
    /// The user's line; kernels of several lines count as those of several operations do.
    Line,
    /// The label ([`record_function`](crate::profile::record_function), a layer's path in its model). What is
    /// inside a label inside counts in the device time of both, in the self time of the inner one only.
    Label,
}

/// What rows are ordered by, the most first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SortBy {
    /// Self time on a device, or in a transfer.
    DeviceTime,
    /// Time of the host's.
    HostTime,
    /// How often.
    Calls,
    /// Bytes moved.
    Bytes,
    /// Memory taken.
    Allocated,
    /// Memory taken and not given back.
    Growth,
    /// Measured time over predicted time.
    Ratio,
}

/// What a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RowKind {
    /// Kernels, or an operation, line or label.
    Device,
    /// Transfers.
    Transfer,
    /// Something that kiln did on the host.
    Host,
    /// The user's own code between calls that kiln records: building graphs, and all that is not kiln.
    UserCode,
    /// Memory.
    Memory,
}

/// The sum of equal events.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Row {
    /// What they are.
    pub name: String,
    /// What kind of thing that is.
    pub kind: RowKind,
    /// The device, if they are of one.
    pub device: Option<Device>,
    /// The user's line, if they are of one.
    pub at: Option<Span>,
    /// The line that the user's code led to.
    pub until: Option<Span>,
    /// The operations inside, in order, those of equal names once.
    pub operations: Vec<&'static str>,
    /// How often.
    pub calls: usize,
    /// Time on the device, or in the transfer, of all that has to do with it.
    pub device_time: Duration,
    /// The part of that which is its own: these add up.
    pub self_device_time: Duration,
    /// The host's time that is its own.
    pub host_time: Duration,
    /// Bytes moved.
    pub bytes: u64,
    /// Scalar operations.
    pub flops: u64,
    /// Bytes of memory taken.
    pub allocated: u64,
    /// Bytes of memory taken less those that came back.
    pub growth: i64,
    /// The time that the roofline predicts for the self time, where it is known.
    pub predicted: Option<Duration>,
}

/// The rows of a profile, and what it says of the whole.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Averages {
    /// How it is grouped.
    pub by: GroupBy,
    /// The rows, in the order in which they first happened.
    pub rows: Vec<Row>,
    pub(super) profile: Arc<Profile>,
}

impl Row {
    fn new(kind: RowKind, name: String) -> Row {
        let (device, at, until, operations, predicted) = Default::default();
        let (calls, bytes, flops, allocated, growth) = Default::default();
        let (device_time, self_device_time, host_time) = Default::default();
        Row {
            name,
            kind,
            device,
            at,
            until,
            operations,
            calls,
            device_time,
            self_device_time,
            host_time,
            bytes,
            flops,
            allocated,
            growth,
            predicted,
        }
    }

    /// Self time of a call on average.
    pub fn average(&self) -> Duration {
        self.self_device_time / u32::try_from(self.calls.max(1)).unwrap_or(u32::MAX)
    }

    /// Bytes moved in a second of self time.
    pub fn bandwidth(&self) -> f64 {
        rate(self.bytes, self.self_device_time)
    }

    /// Scalar operations in a second of self time.
    pub fn flop_rate(&self) -> f64 {
        rate(self.flops, self.self_device_time)
    }

    /// Measured time over predicted time: 1 is as fast as the device goes.
    pub fn ratio(&self) -> Option<f64> {
        let predicted = self.predicted?.as_secs_f64();
        (predicted > 0.0).then(|| self.self_device_time.as_secs_f64() / predicted)
    }

    /// What a sort looks at.
    fn key(&self, by: SortBy) -> f64 {
        match by {
            SortBy::DeviceTime => self.self_device_time.as_secs_f64(),
            SortBy::HostTime => self.host_time.as_secs_f64(),
            SortBy::Calls => self.calls as f64,
            SortBy::Bytes => self.bytes as f64,
            SortBy::Allocated => self.allocated as f64,
            SortBy::Growth => self.growth as f64,
            SortBy::Ratio => self.ratio().unwrap_or(0.0),
        }
    }

    /// Adds a share of a kernel's run: all of it, or one of so many.
    fn add_kernel(&mut self, kernel: &KernelEvent, shares: u32) {
        let share = |n: u64| n / u64::from(shares);
        self.calls += 1;
        self.device_time += kernel.time;
        self.add_own(kernel.time / shares, kernel.kernel.predicted.map(|predicted| predicted.time / shares));
        self.host_time += kernel.launching / shares;
        self.bytes += share(kernel.kernel.bytes());
        self.flops += share(kernel.kernel.flops);
        self.allocated += share(kernel.kernel.allocated);
    }

    /// Adds self time, and what is predicted of it: the sum is known if all parts are.
    fn add_own(&mut self, time: Duration, predicted: Option<Duration>) {
        let is_first = self.self_device_time.is_zero() && self.predicted.is_none();
        self.predicted = match (self.predicted, predicted) {
            (Some(sum), Some(more)) => Some(sum + more),
            (None, Some(more)) if is_first => Some(more),
            (None | Some(_), _) => None,
        };
        self.self_device_time += time;
    }

    fn add_operations(&mut self, operations: &[OperationInfo]) {
        for operation in operations {
            if !self.operations.contains(&operation.name) {
                self.operations.push(operation.name);
            }
        }
    }
}

fn rate(amount: u64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { amount as f64 / time.as_secs_f64() }
}

/// What makes events one row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    kind: RowKind,
    name: String,
    device: Option<Device>,
    /// Lines, whatever the column.
    at: Option<(&'static str, u32)>,
    until: Option<(&'static str, u32)>,
}

/// The line of a span, whatever its column.
fn line_of(span: Span) -> (&'static str, u32) {
    (span.file(), span.line())
}

/// Rows on the way.
struct Rows<'a> {
    profile: &'a Profile,
    by: GroupBy,
    rows: Vec<Row>,
    places: HashMap<Key, usize>,
}

impl Averages {
    pub(super) fn of(profile: &Profile, by: GroupBy) -> Averages {
        let mut rows = Rows { profile, by, rows: Vec::new(), places: HashMap::new() };
        profile.kernels().for_each(|kernel| rows.add_kernel(kernel));
        rows.add_transfers();
        rows.add_host();
        rows.add_memory();
        Averages { by, rows: rows.rows, profile: Arc::new(profile.clone()) }
    }

    /// The same profile, grouped otherwise.
    ///
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::profile::{GroupBy, SortBy, profile};
    ///
    /// # fn main() -> kiln::Result<()> {
    /// let x = Tensor::ones([64, 64], ());
    /// let (_, profile) = profile(|| x.matmul(&x).relu().realize().map(|_| ()))?;
    /// let by_operation = profile.key_averages().by(GroupBy::Operation);
    /// assert!(by_operation.sorted(SortBy::DeviceTime).iter().any(|row| row.name == "matmul"));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn by(&self, by: GroupBy) -> Averages {
        Averages::of(&self.profile, by)
    }

    /// The rows, the most of something first.
    pub fn sorted(&self, by: SortBy) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        rows.sort_by(|a, b| b.key(by).total_cmp(&a.key(by)));
        rows
    }

    /// The devices of the profile.
    pub fn devices(&self) -> &[DeviceProfile] {
        &self.profile.devices
    }
}

impl Rows<'_> {
    fn row(
        &mut self,
        kind: RowKind,
        name: impl Into<String>,
        device: Option<Device>,
        [at, until]: [Option<Span>; 2],
    ) -> &mut Row {
        let (rows, name) = (&mut self.rows, name.into());
        let key = Key { kind, name: name.clone(), device, at: at.map(line_of), until: until.map(line_of) };
        let place = *self.places.entry(key).or_insert_with(|| {
            rows.push(Row { device, at, until, ..Row::new(kind, name) });
            rows.len() - 1
        });
        &mut self.rows[place]
    }

    fn named(&mut self, kind: RowKind, name: impl Into<String>) -> &mut Row {
        self.row(kind, name, None, [None, None])
    }

    fn line(&mut self, at: Span) -> &mut Row {
        self.row(RowKind::Device, at.to_string(), None, [Some(at), None])
    }

    fn add_kernel(&mut self, event: &KernelEvent) {
        let kernel = &event.kernel;
        match self.by {
            GroupBy::Kernel => {
                let options = self.profile.options;
                let shape = if options.shapes { kernel.shape.to_string() } else { String::new() };
                let (name, device) = (format!("{}{shape}", kernel.name), Some(kernel.device));
                let at = options.lines.then_some(kernel.at);
                let row = self.row(RowKind::Device, name, device, [at, None]);
                row.add_kernel(event, 1);
                row.add_operations(&kernel.operations);
            }
            GroupBy::Operation => {
                let names = distinct_by(kernel.operations.iter().map(|one| one.name), |name| name);
                for name in &names {
                    self.named(RowKind::Device, *name).add_kernel(event, names.len() as u32);
                }
            }
            GroupBy::Line => {
                let lines = distinct_by(kernel.operations.iter().map(|one| one.at), line_of);
                for &line in &lines {
                    let row = self.line(line);
                    row.add_kernel(event, lines.len() as u32);
                    let here: Vec<OperationInfo> = kernel
                        .operations
                        .iter()
                        .filter(|one| line_of(one.at) == line_of(line))
                        .cloned()
                        .collect();
                    row.add_operations(&here);
                }
            }
            GroupBy::Label => {
                let (outer, own) = labels(kernel.label.as_deref());
                for path in outer {
                    let row = self.named(RowKind::Device, path);
                    row.calls += 1;
                    row.device_time += event.time;
                }
                let row = self.named(RowKind::Device, own);
                row.add_kernel(event, 1);
                row.add_operations(&kernel.operations);
            }
        }
    }

    fn add_transfers(&mut self) {
        let profile = self.profile;
        for transfer in profile.transfers() {
            let name = format!("copy {} -> {}", transfer.from, transfer.to);
            let row = match (self.by, transfer.at) {
                (GroupBy::Line, Some(at)) => self.line(at),
                (GroupBy::Label, _) => self.named(RowKind::Device, labels(transfer.label.as_deref()).1),
                (GroupBy::Kernel, at) if profile.options.lines => {
                    self.row(RowKind::Transfer, name, Some(transfer.to), [at, None])
                }
                (GroupBy::Kernel | GroupBy::Operation | GroupBy::Line, _) => {
                    self.named(RowKind::Transfer, name)
                }
            };
            let time = transfer.end.saturating_sub(transfer.start);
            row.calls += 1;
            row.device_time += time;
            row.add_own(time, transfer.predicted);
            row.bytes += transfer.bytes;
        }
    }

    fn add_host(&mut self) {
        let profile = self.profile;
        for spent in host_times(profile) {
            let row = match (self.by, &spent.what, spent.at) {
                (GroupBy::Label, ..) => self.named(RowKind::Device, labels(spent.label.as_deref()).1),
                (GroupBy::Line, Some(_), Some(at)) => self.line(at),
                (_, Some(what), _) => self.named(RowKind::Host, what.clone()),
                (_, None, _) => {
                    let label = spent.label.map(|label| format!(" in {label}")).unwrap_or_default();
                    self.row(RowKind::UserCode, format!("your code{label}"), None, [spent.at, spent.until])
                }
            };
            // Rows of labels and lines count kernels.
            row.calls += usize::from(row.kind != RowKind::Device);
            row.host_time += spent.time;
        }
    }

    fn add_memory(&mut self) {
        let profile = self.profile;
        if self.by == GroupBy::Line && profile.memory_events().next().is_some() {
            // The pool's books say it, and say more.
            self.rows.iter_mut().for_each(|row| row.allocated = 0);
        }
        for event in profile.memory_events() {
            let row = match (self.by, event.at) {
                (GroupBy::Line, Some(at)) => self.line(at),
                (GroupBy::Kernel | GroupBy::Line, at) => {
                    self.row(RowKind::Memory, event.name, Some(event.device), [at, None])
                }
                (GroupBy::Operation | GroupBy::Label, _) => continue,
            };
            let bytes = i64::try_from(event.bytes).unwrap_or(i64::MAX);
            row.calls += usize::from(event.allocated && row.kind == RowKind::Memory);
            row.allocated += if event.allocated { event.bytes } else { 0 };
            row.growth += if event.allocated { bytes } else { -bytes };
        }
    }
}

/// The name of what has no label.
const UNLABELED: &str = "(no label)";

/// The paths of the labels around a path's innermost, and that path.
fn labels(path: Option<&str>) -> (Vec<&str>, &str) {
    match path {
        None => (Vec::new(), UNLABELED),
        Some(path) => (path.match_indices(SEPARATOR).map(|(at, _)| &path[..at]).collect(), path),
    }
}

/// Each of those that a key tells apart once, in order.
fn distinct_by<T: Copy, K: Eq + Hash>(items: impl Iterator<Item = T>, key: impl Fn(T) -> K) -> Vec<T> {
    let mut seen = HashSet::new();
    items.filter(|item| seen.insert(key(*item))).collect()
}
