//! Errors: data first, text from the data.

use std::fmt;
use std::sync::Arc;

use kiln_simd::DType;
use kiln_simd::dtype::UnknownDType;

use crate::base::collective_error::CollectiveError;
use crate::base::device::Device;
use crate::base::hub_error::HubError;
use crate::base::shape::Shape;
use crate::base::span::Span;
use crate::base::state_problem::StateProblem;
use crate::base::wrong_step::WrongStep;

/// `Result` with kiln's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error in building the graph: what an operation expected, what it
/// found, and the user's line.
#[derive(Clone, Debug, PartialEq)]
pub struct OpError {
    /// The operation as the user called it (`"matmul"`, `"reshape"`).
    pub op: &'static str,
    /// What the operation requires.
    pub expected: String,
    /// What it was given.
    pub found: String,
    /// The operands' shapes.
    pub shapes: Vec<Shape>,
    /// The user's line.
    pub span: Span,
    /// The module path at the time (`"encoder.layers.3.attn"`), or empty.
    pub path: String,
}

impl OpError {
    /// An error of `op` at `span`.
    pub fn new(
        op: &'static str,
        span: Span,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> OpError {
        OpError {
            op,
            expected: expected.into(),
            found: found.into(),
            shapes: Vec::new(),
            span,
            path: String::new(),
        }
    }
    /// The same error with the operands' shapes.
    #[must_use]
    pub fn with_shapes(mut self, shapes: impl IntoIterator<Item = Shape>) -> OpError {
        self.shapes = shapes.into_iter().collect();
        self
    }
}

impl fmt::Display for OpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected {}, found {}", self.op, self.expected, self.found)?;
        if !self.shapes.is_empty() {
            let shapes: Vec<String> = self.shapes.iter().map(Shape::to_string).collect();
            write!(f, " (shapes {})", shapes.join(", "))?;
        }
        if !self.path.is_empty() {
            write!(f, " in {}", self.path)?;
        }
        write!(f, "\n  at {}", self.span)
    }
}

/// A tensor in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveTensor {
    /// The operation that made it, or the kind of memory.
    pub name: String,
    /// Its shape.
    pub shape: Shape,
    /// Bytes it occupies.
    pub bytes: u64,
    /// The user's line, if there is one.
    pub at: Option<Span>,
}

impl fmt::Display for LiveTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes: {}{}", self.bytes, self.name, self.shape)?;
        self.at.map_or(Ok(()), |at| write!(f, " at {at}"))
    }
}

/// Each problem on a line of its own.
fn listed(problems: &[StateProblem]) -> String {
    problems.iter().map(|problem| format!("\n  {problem}")).collect()
}

/// What would fit, and what is in the way.
fn shortage(requested: u64, in_use: u64, limit: u64, largest: &[LiveTensor]) -> String {
    let mut text = String::new();
    let free = limit.saturating_sub(in_use);
    if limit != u64::MAX {
        let parts = if free > 0 { requested.div_ceil(free) } else { 0 };
        text += &match parts {
            2.. => format!("; {free} bytes would fit: split it in {parts}, or free {}", requested - free),
            _ => format!("; free {} bytes to make it fit", requested.saturating_sub(free)),
        };
    }
    if !largest.is_empty() {
        text += "\nthe largest tensors in memory:";
        largest.iter().for_each(|tensor| text += &format!("\n  {tensor}"));
    }
    text
}

/// The user's line, on a line of its own.
fn line_of(span: Option<Span>) -> String {
    span.map_or_else(String::new, |span| format!("\n  at {span}"))
}

/// What a budget would have to leave out.
fn in_the_way(causes: &[LiveTensor]) -> String {
    let mut text = String::from("\nin memory then, largest first, as much as is too much:");
    causes.iter().for_each(|tensor| text += &format!("\n  {tensor}"));
    text
}

/// Everything that can go wrong through a user, a driver, a file or memory.
/// A broken invariant inside the compiler is a panic instead.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error in building the graph.
    #[error("{0}")]
    Op(Arc<OpError>),
    /// Reading with a Rust type that differs from the tensor's.
    #[error(
        "{call}: the tensor is {found}, not {expected}; write `.to_dtype(DType::{expected:?})` before it, or read it as {found}\n  at {span}"
    )]
    ReadType {
        /// The reading method.
        call: &'static str,
        /// The requested type.
        expected: DType,
        /// The tensor's type.
        found: DType,
        /// The user's line.
        span: Span,
    },
    /// Data requested of a device that has none.
    #[error(
        "{call}: a tensor on the meta device has shape and type but no data (shape {shape}); build it on another device, or move the graph's inputs there\n  at {span}"
    )]
    NoData {
        /// The reading or running method.
        call: &'static str,
        /// The tensor's shape.
        shape: Shape,
        /// The user's line.
        span: Span,
    },
    /// A value requested of what depends on a parameter of a body: of a loop, a scan or a
    /// [`composite`](crate::composite), which is being built or has been.
    #[error(
        "{call}: expected a tensor with a value, found one computed from a parameter of the body built at {body}, which has values only where the body runs; give it out as a result of the body\n  at {span}"
    )]
    InsideBody {
        /// The call that requested it.
        call: &'static str,
        /// The user's line that built the body.
        body: Span,
        /// The user's line of the request.
        span: Span,
    },
    /// A device that is not there.
    #[error("{device} is not available: {reason}{}", line_of(*span))]
    DeviceUnavailable {
        /// The device.
        device: Device,
        /// What is missing, and what mends it.
        reason: String,
        /// The user's line.
        span: Option<Span>,
    },
    /// An allocation over the limit or refused by the driver.
    #[error(
        "out of memory on {device}: {requested} bytes requested, {in_use} in use, limit {limit}{}{}",
        shortage(*requested, *in_use, *limit, largest),
        line_of(*span)
    )]
    OutOfMemory {
        /// The device.
        device: Device,
        /// Bytes requested.
        requested: u64,
        /// Bytes held at the time.
        in_use: u64,
        /// The limit in force (`u64::MAX` if none is set).
        limit: u64,
        /// The largest tensors in memory at the time, largest first, where
        /// the device's pool knows them.
        largest: Arc<[LiveTensor]>,
        /// The user's line that asked for what does not fit.
        span: Option<Span>,
    },
    /// No plan was found that needs no more memory than
    /// [`with_budget`](crate::with_budget) allows. Nothing has run.
    #[error(
        "over budget on {device}: {budget} bytes allowed, and the least that any plan was found to need is {least}{}{}",
        in_the_way(causes),
        line_of(*span)
    )]
    OverBudget {
        /// The device.
        device: Device,
        /// The budget, in bytes.
        budget: u64,
        /// The least budget that would do, as far as was found.
        least: u64,
        /// What is in memory when most is, largest first: as few tensors as
        /// make up what is too much.
        causes: Arc<[LiveTensor]>,
        /// The user's line that asked for the result.
        span: Option<Span>,
    },
    /// An index computed on a device lay outside its axis.
    #[error("{op}: index {index} out of range for an axis of {extent}\n  at {span}")]
    IndexOutOfRange {
        /// The operation that used the index.
        op: &'static str,
        /// The offending index.
        index: i64,
        /// The axis's extent.
        extent: usize,
        /// The user's line.
        span: Span,
    },
    /// A kernel that would not compile or launch.
    #[error("kernel {kernel} on {device}: {message}{}", line_of(*span))]
    Kernel {
        /// The kernel's name.
        kernel: String,
        /// The device.
        device: Device,
        /// What the compiler, driver or user code said.
        message: String,
        /// The user's line that asked for the result.
        span: Option<Span>,
    },
    /// `KILN_CHECK=1` found a step that computes something else than its operations mean.
    #[error("{0}")]
    WrongStep(Arc<WrongStep>),
    /// A transfer where [`deny_transfers`](crate::deny_transfers) is in force.
    #[error("transfers are denied here, and this would move {bytes} bytes from {from} to {to}\n  at {span}")]
    TransferDenied {
        /// From where.
        from: Device,
        /// To where.
        to: Device,
        /// Bytes it would move.
        bytes: u64,
        /// The user's line that requested it.
        span: Span,
    },
    /// An operation of a group of ranks where [`deny_collectives`](crate::deny_collectives) is in force.
    #[error("meeting other ranks is denied here, and {operation} of {bytes} bytes would\n  at {span}")]
    CollectiveDenied {
        /// The operation.
        operation: &'static str,
        /// Bytes of its result.
        bytes: u64,
        /// The user's line that requested it.
        span: Span,
    },
    /// A wait for a device where [`deny_sync`](crate::deny_sync) is in force.
    #[error("waiting for a device is denied here, and {call} waits for {device}\n  at {span}")]
    SyncDenied {
        /// The call.
        call: &'static str,
        /// The device.
        device: Device,
        /// The user's line.
        span: Span,
    },
    /// A call that waits for a device, on the thread of a page of a browser, which nothing may keep.
    #[error("{call} waits for {device}, for which the thread of a page cannot; await {instead}\n  at {span}")]
    CannotBlock {
        /// The call.
        call: &'static str,
        /// The call that gives a future.
        instead: &'static str,
        /// The device.
        device: Device,
        /// The user's line.
        span: Span,
    },
    /// Text that names nothing.
    #[error("cannot parse {what}: expected {expected}, found {found:?}")]
    Parse {
        /// What was being parsed.
        what: &'static str,
        /// What is accepted.
        expected: String,
        /// The text.
        found: String,
    },
    /// A file that could not be read, written or understood.
    #[error("{path}: {message}\n  at {span}")]
    File {
        /// The file.
        path: String,
        /// The reason.
        message: String,
        /// The user's line.
        span: Span,
    },
    /// A saved state that does not fit; all that is wrong with it.
    #[error("{from} cannot be loaded:{}\n  at {span}", listed(problems))]
    State {
        /// Where the state comes from: a file, or the call.
        from: String,
        /// What does not fit.
        problems: Arc<[StateProblem]>,
        /// The user's line.
        span: Span,
    },
    /// A batch that a data loader's worker could not make.
    #[error("batch {batch} could not be made: {message}\n  at {span}")]
    Data {
        /// The number of the batch in its epoch.
        batch: usize,
        /// What the dataset said, or its panic.
        message: String,
        /// The user's line that made the loader.
        span: Span,
    },
    /// An operation of a group of ranks ([`dist`](crate::dist)) that did not come about.
    #[error("{0}")]
    Collective(Arc<CollectiveError>),
    /// A file of the Hugging Face hub that could not be had (feature `hub`).
    #[error("{0}")]
    Hub(Arc<HubError>),
    /// An argument of a call outside the graph.
    #[error("{call}: expected {expected}, found {found}\n  at {span}")]
    Argument {
        /// The call.
        call: &'static str,
        /// What it takes.
        expected: String,
        /// What it got.
        found: String,
        /// The user's line.
        span: Span,
    },
}

impl Error {
    /// The error with the user's line, unless it has one.
    #[must_use]
    pub fn at(mut self, line: Span) -> Error {
        if !line.is_users() {
            return self;
        }
        match &mut self {
            Error::DeviceUnavailable { span, .. }
            | Error::OutOfMemory { span, .. }
            | Error::OverBudget { span, .. }
            | Error::Kernel { span, .. } => _ = span.get_or_insert(line),
            Error::Op(_)
            | Error::ReadType { .. }
            | Error::NoData { .. }
            | Error::InsideBody { .. }
            | Error::IndexOutOfRange { .. }
            | Error::WrongStep(_)
            | Error::TransferDenied { .. }
            | Error::CollectiveDenied { .. }
            | Error::SyncDenied { .. }
            | Error::CannotBlock { .. }
            | Error::Parse { .. }
            | Error::File { .. }
            | Error::State { .. }
            | Error::Data { .. }
            | Error::Collective(_)
            | Error::Hub(_)
            | Error::Argument { .. } => {}
        }
        self
    }
}

/// Results of what knows no line of the user's.
pub(crate) trait Located {
    /// The error, if it is one, with the caller's line.
    #[track_caller]
    fn located(self) -> Self;
}

impl<T> Located for Result<T> {
    #[track_caller]
    #[inline]
    fn located(self) -> Result<T> {
        let line = Span::caller();
        self.map_err(|error| error.at(line))
    }
}

impl From<UnknownDType> for Error {
    fn from(UnknownDType { found }: UnknownDType) -> Error {
        Error::Parse { what: "dtype", expected: UnknownDType::EXPECTED.into(), found }
    }
}

impl From<OpError> for Error {
    fn from(error: OpError) -> Error {
        Error::Op(Arc::new(error))
    }
}
