//! Layer 4: devices. Memory, launches, transfers, counters.

pub mod host;
