//! kiln: a lazy tensor-graph compiler.
#![deny(missing_docs)]

pub mod base;
pub mod ir;
pub mod kernel;
pub mod plan;
pub mod runtime;
pub mod schedule;
pub mod tensor;
