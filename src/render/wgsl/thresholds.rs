//! Tuning numbers of WGSL's templates. Where a line names no measurement, the number is an
//! estimate: nothing was measured for it. The tiles' rates are in
//! [`product`](crate::render::product).

use crate::render::target::Adapter;

/// Multiplications, for each compile-bound element, that are worth compiling a second pass of
/// columns in attention: it takes lavapipe a tenth of a second.
pub const MIN_WORK_OF_SECOND_PASS: u64 = 1 << 17;
/// Eighths of an attention tile's queries from which its template is used on software drivers:
/// on lavapipe it is as fast as the body at five (8 heads 64 wide, 512 keys).
pub const SOFTWARE_QUERY_EIGHTHS: usize = 5;
/// The same on GPUs, as one in so many: in the body they wait for memory.
pub const GPU_QUERY_FRACTION: usize = 4;

/// Keys of few queries up to which their template is used on software drivers, whose barriers are slow: on
/// lavapipe a token after 64 others took as long by it, one after 600 took 1.14 times as long.
pub const SOFTWARE_KEYS_OF_FEW_QUERIES: usize = 256;

/// Workgroups of templates that run at a time.
pub fn concurrent_tiles(adapter: Adapter) -> u64 {
    match adapter {
        Adapter::Software => 8,
        Adapter::Integrated => 32,
        Adapter::Discrete => 128,
    }
}

/// Elements that a workgroup sorts in shared memory, at most, on software drivers and on GPUs.
pub const SOFTWARE_SORT_BLOCK: usize = 1024;
/// See [`SOFTWARE_SORT_BLOCK`].
pub const GPU_SORT_BLOCK: usize = 512;
