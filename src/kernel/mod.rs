//! Layer 2: kernels. What one launch computes, independent of any device.
//!
//! - [`affine`]: index arithmetic over a kernel's axes.
//! - [`expr`]: the pure expression DAG.
//! - [`nest`]: the kernel itself: axes, inputs, stores.
//! - [`cost`]: bytes and operations of a launch.

pub mod affine;
pub mod cost;
pub mod expr;
pub mod nest;

pub use affine::{Affine, AxisId};
pub use expr::{Access, Dynamic, Expr, ExprId, ExprNode, Guard, Within};
pub use nest::{Axis, Contraction, Input, Kernel, ScatterStore, Sort, Store, Work};
