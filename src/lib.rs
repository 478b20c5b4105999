//! kiln is a lazy tensor-graph compiler. Tensor operations shape a graph;
//! `realize()` fires it.
//!
//! ```
//! use kiln::prelude::*;
//!
//! # fn main() -> kiln::Result<()> {
//! let x = Tensor::linspace(-1.0, 1.0, 6, ()).reshape([2, 3]);
//! let y = (&x * 2.0 + 1.0).gelu().softmax(-1); // nothing has run
//! let values: Vec<f32> = y.to_vec()?; // one kernel
//! assert!((values[..3].iter().sum::<f32>() - 1.0).abs() < 1e-6);
//! # Ok(())
//! # }
//! ```
//!
//! # The life of an expression
//!
//! A method of [`Tensor`] composes primitives ([`ir::Op`]), whose shapes,
//! types and devices are inferred at once. [`realize`] collects the nodes
//! that have no value yet, finds their plan in the cache or makes one, runs
//! it, and lets the nodes forget how they were computed. Making a plan is the
//! list of passes in [`schedule::schedule`]: composites expand, algebra
//! simplifies, nodes fuse into kernels, kernels are ordered and share memory.
//!
//! [`plan`](mod@plan) shows what would run without running it: kernels, bytes moved,
//! peak memory, transfers, and with
//! [`why_not_fused`](PlanReport::why_not_fused) why two values are computed
//! apart. [`assert_kernels!`], [`assert_bytes_moved!`] and
//! [`assert_peak_bytes!`] hold a program to it in tests.
//!
//! # Invariants
//!
//! - Nodes are pure: there is no assignment.
//! - Operations never panic and return [`Tensor`]; an error makes an invalid
//!   tensor that carries its cause and your line, and comes out of whatever
//!   asks for data as one `Err`.
//! - Data crosses devices only at explicit transfers.
//! - Results are bitwise repeatable on one device.
#![deny(missing_docs)]

pub mod assert;
#[doc(hidden)]
pub mod base;
pub mod bench;
pub mod data;
pub mod dist;
pub mod grad;
pub mod guide;
pub mod io;
#[doc(hidden)]
pub mod ir;
#[doc(hidden)]
pub mod kernel;
pub mod nn;
pub mod optim;
pub mod opts;
mod page;
pub mod plan;
pub mod prelude;
pub mod profile;
#[doc(hidden)]
pub mod render;
#[doc(hidden)]
pub mod runtime;
#[doc(hidden)]
pub mod schedule;
pub mod tensor;
pub mod train;

/// The compiler's layers, for tools that look inside it: the graph, kernels, renderers,
/// schedules and devices' backends.
///
/// Nothing here is stable: names and meanings may change with any release.
pub mod unstable {
    pub use crate::{base, ir, kernel, plan, render, runtime, schedule};
}

pub use base::error::{LiveTensor, OpError};
pub use base::progress;
pub use base::{
    DType, Device, DeviceKind, Dims, Direction, Element, Error, Float16Rounding, Precision, Result, Scalar,
    Shape, Span, StateProblem, WrongStep, float16_rounding, float32_matmul_precision, is_deterministic,
    set_benchmark, set_deterministic, set_float16_rounding, set_float32_matmul_precision,
};
pub use grad::{
    GradMode, GradOpts, checkpoint, checkpoint_many, custom_grad, enable_grad, grad, grad_with,
    is_grad_enabled, no_grad, vjp,
};
pub use io::{LoadOpts, LoadReport, RawTensor, StateDict};
pub use optim::estimate;
pub use plan::budget::{Budget, with_budget};
pub use plan::context::{Context, Counters, current as context, with_context};
pub use plan::doctor::doctor;
pub use plan::guard::{deny_collectives, deny_sync, deny_transfers};
pub use plan::memory::{MemoryChange, MemoryTracker, log_memory};
pub use plan::{FusionBlocker, PlanReport, UnsupportedPart};
pub use render::GpuTarget;
pub use tensor::Tensor;
pub use tensor::autocast::compare::compare_precision;
pub use tensor::autocast::{Autocast, autocast, autocast_dtype, with_autocast};
pub use tensor::complex::Complex;
pub use tensor::control::{composite, custom, fori_loop, scan, scan_reverse};
pub use tensor::einsum::einsum;
pub use tensor::fft;
pub use tensor::function::Function;
pub use tensor::place::{default_device, device_scope, with_device};
pub use tensor::plan::{plan, plan_with};
pub use tensor::quantized::{Quantization, QuantizedTensor};
pub use tensor::random::{Generator, generator, manual_seed, set_generator};
pub use tensor::read::{realize, realize_async};
pub use tensor::var::Var;

/// The README's programs, compiled and run with the other examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The program of the page on debugging.
#[cfg(doctest)]
#[doc = include_str!("../docs/debugging.md")]
struct Debugging;

/// The programs of the page on several ranks.
#[cfg(doctest)]
#[doc = include_str!("../docs/distributed.md")]
struct Distributed;

/// The program of the page on profiling.
#[cfg(doctest)]
#[doc = include_str!("../docs/profiling.md")]
struct Profiling;

/// The programs of the page on training.
#[cfg(doctest)]
#[doc = include_str!("../docs/training.md")]
struct Training;
