//! The vector loops of kiln's CPU device, compiled once for each instruction set.
//!
//! This crate is an implementation detail of [kiln](https://docs.rs/kiln): its interface may change
//! with any version. It knows element types and scalar operations, and nothing of graphs, kernels or
//! threads.
//!
//! - [`DType`], [`Scalar`], [`AluOp`]: element types, numbers, and what scalar operations mean.
//! - [`micro`]: loops over a tile of elements, looked up by operation and type.
//! - [`gemm`]: the innermost loops of matrix products.
//!
//! Lookup functions return function pointers, and none of them is generic, so every loop is compiled
//! here and not by the crate that calls it.

#![deny(missing_docs)]

pub mod alu;
pub mod dtype;
pub mod gemm;
pub mod micro;
pub mod scalar;
pub mod special;
pub mod thresholds;

pub use alu::AluOp;
pub use dtype::{DType, Kind};
pub use scalar::Scalar;
