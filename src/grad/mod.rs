//! Gradients: reverse mode as a transformation of the graph.
//!
//! [`grad`] walks from tensors back to what they were computed from and
//! builds, node by node, the vector-Jacobian products (`vjp`, one per
//! primitive). What comes out are ordinary lazy tensors: they fuse with the
//! forward pass, run in one plan with it, and can be differentiated again.
//!
//! Only *tracked* nodes are looked through: those that depend on a tensor
//! marked by [`requires_grad`](crate::Tensor::with_requires_grad), and were built
//! while tracking was on ([`no_grad`]). A tracked tensor that is realized keeps
//! the edges gradients need until it is dropped or
//! [`backward`](crate::Tensor::backward) has used them.

mod attention;
mod backward;
mod checkpoint;
mod control;
mod mode;
pub(crate) mod presence;
mod pull_back;
mod vjp;

pub use backward::{GradOpts, custom_grad, grad, grad_with, vjp};
pub use checkpoint::{checkpoint, checkpoint_many};
pub use mode::{GradMode, enable_grad, is_grad_enabled, no_grad, with_grad, without_grad};
