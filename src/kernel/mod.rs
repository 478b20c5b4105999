//! Layer 2: kernels. What one launch computes, independent of any device.
//!
//! - [`affine`]: index arithmetic over a kernel's axes.
//! - [`expr`]: the pure expression DAG.
//! - [`nest`]: the kernel itself: axes, inputs, stores; [`root`]: what it computes.
//! - [`mod@lower`]: from a set of graph nodes to a kernel, or the [`Blocker`] that
//!   says why not; [`index`] and [`builder`] are its parts.
//! - [`interning`]: equal parts of a plan's kernels are stored once.
//! - [`contraction`]: a contraction written as a reduction.
//! - [`index_set_splitting`]: a kernel as several, each over a part of its grid;
//!   [`mod@delinearize`]: divisions that such a part no longer needs;
//!   [`horizontal_fusion`]: parts that write side by side, as one kernel.
//! - [`joint`]: kernels that a device launches as one.
//! - [`ranges`]: what integers may be, and the checks of indices that are needless.
//! - [`cost`]: bytes and operations of a launch.

pub mod affine;
pub mod blocker;
pub mod builder;
pub mod contraction;
pub mod cost;
pub mod delinearize;
pub mod expr;
pub mod horizontal_fusion;
pub mod index;
pub mod index_set_splitting;
pub mod interning;
pub mod joint;
pub mod lower;
pub mod nest;
pub mod print;
pub mod ranges;
pub mod root;

pub use affine::{Affine, AxisId};
pub use blocker::Blocker;
pub use expr::{Access, BoundsCheck, Dynamic, Expr, ExprId, ExprNode, Guard, Within};
pub use interning::KernelInterner;
pub use joint::{JointAlias, JointPart, JointSlot, JointWork};
pub use lower::{LoweredKernel, Request, Role, lower};
pub use nest::{
    AttentionPart, Contraction, FusedAttention, Kernel, KernelInput, KernelStore, LoopAxis, ScatterStore,
    Sort, Workload,
};
pub use root::KernelRoot;
