//! What the benchmarks share: inputs, timing, checksums, JSON lines.
// Each benchmark uses a part of it.
#![allow(dead_code)]

pub mod item;
pub mod report;
pub mod spec;
