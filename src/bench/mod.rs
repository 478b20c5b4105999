//! Measuring time, as PyTorch's `torch.utils.benchmark`.
//!
//! A [`Timer`] calls a closure, realizes the tensors that it returns and waits for their devices, as often as
//! it takes for the clock not to matter. A [`Measurement`] has the median, the spread, and the throughput by
//! the plan's bytes and FLOPs. [`Compare`] puts several into a table.
//!
//! ```
//! use std::time::Duration;
//!
//! use kiln::bench::{Compare, Timer};
//! use kiln::prelude::*;
//! # fn main() -> kiln::Result<()> {
//! let mut found = Vec::new();
//! for n in [16, 32] {
//!     let x = Tensor::ones([n, n], ());
//!     let size = format!("{n} x {n}");
//!     let mut sum = Timer::new(|| x.sum(0)).label("over an axis").sub_label(&size).description("sum");
//!     found.push(sum.blocked_autorange(Duration::from_millis(2))?);
//!     let mut most = Timer::new(|| x.max(0)).label("over an axis").sub_label(&size).description("max");
//!     found.push(most.blocked_autorange(Duration::from_millis(2))?);
//! }
//! let table = Compare::new(found).to_string();
//! assert!(table.contains("16 x 16") && table.contains("sum"));
//! # Ok(())
//! # }
//! ```

mod compare;
mod machine;
mod measurement;
mod output;
mod timer;

pub use compare::Compare;
pub use machine::Disturbance;
pub use measurement::Measurement;
pub use output::Output;
pub use timer::Timer;
