//! The process's switches for autotuning: choices made by timing.

use std::sync::atomic::{AtomicU8, Ordering};

#[cfg(any(feature = "wgpu", feature = "cuda"))]
use crate::base::config::config;

const UNSET: u8 = 2;

static BENCHMARK: AtomicU8 = AtomicU8::new(UNSET);
static DETERMINISTIC: AtomicU8 = AtomicU8::new(UNSET);

/// Says whether devices time the implementations of a matrix product, a convolution,
/// another contraction or an attention when it is first compiled, and keep the fastest: in
/// memory, and in the folder of `KILN_CACHE_DIR` by device and driver. In place
/// of `KILN_TUNE`; where neither says anything, wgpu's GPUs time and CUDA devices
/// do not. What is compiled already stays as it is.
pub fn set_benchmark(on: bool) {
    BENCHMARK.store(u8::from(on), Ordering::Relaxed);
}

/// Says whether results must be the same, bit by bit, in every process on the same
/// device. Within a process they always are; but a choice made by timing, of which
/// sums may depend in their last bits, can differ between processes. With `true`
/// nothing is chosen by timing, whatever [`set_benchmark`] says. What is compiled
/// already stays as it is.
pub fn set_deterministic(on: bool) {
    DETERMINISTIC.store(u8::from(on), Ordering::Relaxed);
}

/// What [`set_deterministic`] said last; `false` before.
pub fn is_deterministic() -> bool {
    DETERMINISTIC.load(Ordering::Relaxed) == 1
}

/// Whether a device that would do so by itself, or not, chooses by timing.
#[cfg(any(feature = "wgpu", feature = "cuda"))]
pub(crate) fn chooses_by_timing(by_itself: bool) -> bool {
    if is_deterministic() {
        return false;
    }
    match BENCHMARK.load(Ordering::Relaxed) {
        UNSET => config().tune.unwrap_or(by_itself),
        said => said == 1,
    }
}
