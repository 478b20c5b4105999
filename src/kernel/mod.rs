//! Layer 2: kernels. What one launch computes, independent of any device.
//!
//! - [`affine`]: index arithmetic over a kernel's axes.
//! - [`expr`]: the pure expression DAG.
//! - [`nest`]: the kernel itself: axes, inputs, stores.
//! - [`lower`]: from a set of graph nodes to a kernel, or the reason why not.

pub mod affine;
pub mod cost;
pub mod expr;
pub mod nest;

pub use affine::{Affine, AxisId};
pub use expr::{Access, Dynamic, Expr, ExprId, ExprNode, Guard, Within};
pub use nest::{Axis, Contraction, Input, Kernel, Store};
