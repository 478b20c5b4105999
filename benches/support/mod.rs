//! What the benchmarks share: inputs, timing, checksums, JSON lines.

pub mod report;
pub mod spec;
