//! Where time and memory go: every kernel, transfer and span of the host, measured beside what was predicted.
//!
//! ```
//! use kiln::prelude::*;
//! use kiln::profile::{SortBy, profile};
//!
//! # fn main() -> kiln::Result<()> {
//! let (x, w) = (Tensor::ones([64, 64], ()), Tensor::ones([64, 64], ()));
//! let (mean, profile) = profile(|| x.matmul(&w).gelu().mean(..).item::<f32>())?;
//! assert!((mean? - 64.0).abs() < 1e-3);
//! println!("{}", profile.key_averages().table(SortBy::DeviceTime, 10));
//! assert!(profile.kernels().any(|run| run.kernel.name.contains("matmul")));
//! # Ok(())
//! # }
//! ```
//!
//! How times are measured depends on the device. On the CPU launching a kernel runs it, so the host's clock
//! tells. A wgpu adapter writes timestamps before and after each kernel; where it offers none, the host
//! waits around each kernel while it is profiled. A CUDA device records events; launches that are otherwise
//! replayed as one graph are made one by one while they are profiled. Nothing waits for times: they are
//! fetched when the profile ends.
//!
//! PyTorch: `torch.profiler`.

mod averages;
mod chrome;
pub(crate) mod event;
mod host;
pub(crate) mod json;
mod label;
mod materialize;
#[expect(clippy::module_inception, reason = "the type that everything here makes or reads")]
mod profile;
mod profiler;
mod schedule;
mod table;
mod tensorboard;
mod tracks;

pub use averages::{Averages, GroupBy, Row, RowKind, SortBy};
pub use event::{
    Activity, Event, HostEvent, KernelEvent, KernelInfo, MemoryEvent, OperationInfo, Prediction,
    TransferEvent,
};
pub use label::{Label, label, record_function};
pub use profile::{DeviceProfile, Profile};
pub use profiler::{ActiveProfiler, Profiler, profile};
pub use schedule::{Phase, Schedule};
pub use tensorboard::tensorboard_trace_handler;
