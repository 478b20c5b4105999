//! Layer 6: plans and their cache, and `realize`.
//!
//! - [`key`]: what makes two graphs share a plan.
//! - [`context`]: devices, caches and counters; `constants`: what operations keep there.
//! - [`build`]: from a graph to a plan; `compiled`: its programs; `joint`: which of them are one.
//! - [`run`]: a plan on data.
//! - [`transfer`]: data out of a device, or to another.
//! - [`report`]: what a plan will do; [`dot`] draws it, [`debug`] prints it.
//! - [`roofline`]: the least time of a plan; [`scaling`]: that of more ranks than there are.
//! - [`memory`]: what devices hold; [`history`] writes its record to files.
//! - [`budget`]: scopes with a memory limit, and plans within it.
//! - [`guard`]: scopes that deny transfers or waiting.
//! - [`doctor`]: which devices there are.
//! - [`observe`]: what a profiler keeps of a run.
//! - [`mod@realize`]: collect, find or build the plan, run it, record the values.

pub mod budget;
#[doc(hidden)]
pub mod build;
mod cache;
mod check;
mod compiled;
pub(crate) mod constants;
#[doc(hidden)]
pub mod context;
#[doc(hidden)]
pub mod debug;
#[doc(hidden)]
pub mod device;
pub mod doctor;
#[doc(hidden)]
pub mod donate;
pub mod dot;
pub(crate) mod fallback;
pub mod guard;
#[doc(hidden)]
pub mod history;
mod joint;
#[doc(hidden)]
pub mod key;
pub mod memory;
#[doc(hidden)]
pub mod observe;
mod programs;
#[doc(hidden)]
pub mod realize;
pub mod report;
pub mod roofline;
#[doc(hidden)]
pub mod run;
pub mod scaling;
#[cfg(test)]
pub(crate) mod tests;
#[doc(hidden)]
pub mod transfer;
mod varint;
#[doc(hidden)]
pub mod view;
pub(crate) mod wait;
pub(crate) mod watch;

pub use build::Plan;
pub use context::{Context, Counters, with_context};
pub use realize::realize;
pub(crate) use realize::{realize_as, realize_async};
pub use report::{FusionBlocker, PlanReport, UnsupportedPart};
