//! Layer 2: kernels. What one launch computes, independent of any device.
//!
//! - [`affine`]: index arithmetic over a kernel's axes.
//! - [`expr`]: the pure expression DAG.
//! - [`nest`]: the kernel itself: axes, inputs, stores.
//! - [`mod@lower`]: from a set of graph nodes to a kernel, or the [`Blocker`] that
//!   says why not; [`index`] and [`builder`] are its parts.
//! - [`parts`]: what kernels of a plan hold between them.
//! - [`contraction`]: a contraction written as a reduction.
//! - [`pieces`]: a kernel as several, each over a part of its grid; [`undivided`]: what such a
//!   piece no longer divides; [`beside`]: those of them as one that write side by side.
//! - [`ranges`]: what integers may be, and the checks of indices that are needless.
//! - [`cost`]: bytes and operations of a launch.

pub mod affine;
pub mod beside;
pub mod blocker;
pub mod builder;
pub mod contraction;
pub mod cost;
pub mod expr;
pub mod index;
pub mod lower;
pub mod nest;
pub mod parts;
pub mod pieces;
pub mod print;
pub mod ranges;
pub mod undivided;

pub use affine::{Affine, AxisId};
pub use blocker::Blocker;
pub use expr::{Access, Bounded, Dynamic, Expr, ExprId, ExprNode, Guard, Within};
pub use lower::{Call, Request, Role, lower};
pub use nest::{Attention, AttentionPart, Axis, Contraction, Input, Kernel, ScatterStore, Sort, Store, Work};
pub use parts::Parts;
