//! What operations give: values, gradients, edges of their range, and the kernels they become.

mod accuracy;
mod edges;
mod edges_axes;
mod fft;
mod gradients;
mod indices;
#[path = "../support/leaves.rs"]
mod leaves;
#[cfg(feature = "linalg")]
mod linalg;
mod networks;
mod slopes;
mod stencil;
#[path = "../support/mod.rs"]
mod support;
