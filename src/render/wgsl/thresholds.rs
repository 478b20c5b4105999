//! Tuning numbers of WGSL's templates. Where a line names no measurement, the number is an
//! estimate: nothing was measured for it. The tiles' rates are in
//! [`product`](crate::render::product).

/// Multiplications, for each compile-bound element, that are worth compiling a second pass of
/// columns in attention: it takes lavapipe a tenth of a second.
pub const MIN_WORK_OF_SECOND_PASS: u64 = 1 << 17;
/// Eighths of an attention tile's queries from which its template is used on software drivers:
/// on lavapipe it is as fast as the body at five (8 heads 64 wide, 512 keys).
pub const SOFTWARE_QUERY_EIGHTHS: usize = 5;
/// The same on GPUs, as one in so many: in the body they wait for memory.
pub const GPU_QUERY_FRACTION: usize = 4;

/// Product tiles that run at a time, on software drivers, integrated and discrete GPUs.
pub const SOFTWARE_CONCURRENT_TILES: u64 = 8;
/// See [`SOFTWARE_CONCURRENT_TILES`].
pub const INTEGRATED_CONCURRENT_TILES: u64 = 32;
/// See [`SOFTWARE_CONCURRENT_TILES`].
pub const DISCRETE_CONCURRENT_TILES: u64 = 128;
/// Elements that a workgroup sorts in shared memory, at most, on software drivers and on GPUs.
pub const SOFTWARE_SORT_BLOCK: usize = 1024;
/// See [`SOFTWARE_SORT_BLOCK`].
pub const GPU_SORT_BLOCK: usize = 512;
