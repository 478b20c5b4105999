//! Tuning numbers of CUDA's templates. Where a line names no measurement, the number is an
//! estimate: nothing was measured for it. The tiles' rates are in [`tiles`](super::tiles).

/// Threads of a multiprocessor, at least, for attention in 32-bit floats: left to itself the
/// compiler aims at more and spills registers.
pub const ATTENTION_RESIDENT_THREADS: usize = 256;
/// The same on tensor cores: where only log-sum-exps are computed by warpgroups; where gradients
/// are, or warpgroups or tall tiles compute; and else. So many threads have registers for what
/// they hold.
pub const LOG_SUM_RESIDENT_THREADS: usize = 512;
/// See [`LOG_SUM_RESIDENT_THREADS`].
pub const WIDE_RESIDENT_THREADS: usize = 256;
/// See [`LOG_SUM_RESIDENT_THREADS`].
pub const RESIDENT_THREADS: usize = 384;
/// One in so many of a tile's queries from which attention's template is used: for fewer,
/// products by themselves waste less.
pub const QUERY_FRACTION: usize = 4;

/// Keys that a team of threads looks at together, for one of few queries: what is read of them waits together.
pub const KEYS_OF_TEAM: usize = 4;
/// Few queries, of all attentions, that occupy a device by a block each.
pub const FILLING_QUERIES: usize = 128;

/// The shortest side of a product that is worth a library's call.
pub const MIN_LIBRARY_SIDE: usize = 64;
/// The same of 16-bit floats, which the library reads faster where rows are few: a weight of
/// 128 MiB took 0.05 ms by it, 0.07 by a kernel of ours, on an H200.
pub const MIN_LIBRARY_SIDE_OF_HALVES: usize = 8;
/// The fewest multiplications that are worth a library's call.
pub const MIN_LIBRARY_WORK: usize = 1 << 24;

/// Rows, of four bytes, up to which a product is as fast as the other matrix is read.
pub const MAX_SKINNY_ROWS: usize = 16;
/// Bytes that a multiprocessor reads in a nanosecond in such a product.
pub const SKINNY_BYTES_PER_NANOSECOND: u64 = 40;
/// Bytes of multiplications that it does in a nanosecond there, at most.
pub const SKINNY_MAX_RATE: u64 = 400;
/// Columns below which a product whose columns are neighbours reads less than a cache line.
pub const CACHE_LINE_COLUMNS: usize = 32;

/// Steps of the reduction dimension of a part of a product, at least (split-K).
pub const MIN_K_PER_PART: usize = 256;
/// Bytes that memory moves in a nanosecond.
pub const MEMORY_BYTES_PER_NANOSECOND: u64 = 2000;
/// Nanoseconds that a launch takes.
pub const LAUNCH_NANOSECONDS: u64 = 3000;
/// Blocks for each multiprocessor up to which a product is split along its reduction dimension.
pub const SPLIT_K_BLOCKS: u64 = 4;
/// Bytes of shared memory from which a device has the tiles of data centres.
pub const LARGE_SHARED_BYTES: usize = 160 << 10;
/// Steps until a product's pipeline is full.
pub const PIPELINE_FILL: usize = 4;
/// Elements of an operand that the blocks of a multiprocessor compute in a nanosecond, when
/// weighed against storing it once. Measured: casts on an H200.
pub const COMPUTED_PER_NANOSECOND: u64 = 7;

/// Indices of a scatter that a lane reads before the updates of any are made: reads that wait
/// together.
pub const SCATTER_PREFETCH: usize = 4;
/// Updates that may meet, from which warps share them.
pub const MIN_SHARED_UPDATES: usize = 16;
/// Threads for each multiprocessor from which one makes all updates of a point.
pub const SCATTER_BUSY_THREADS: usize = 1 << 10;
/// Warps for each multiprocessor that share a scatter's positions.
pub const SCATTER_WARPS: usize = 32;

/// Elements that a block sorts, at most and at least.
pub const SORT_SEGMENT: [usize; 2] = [4096, 64];
/// Elements that it sorts where a sort keeps few of them: its threads have a pair each.
pub const SELECTION_SEGMENT: usize = 1024;
/// One in so many of these may be kept for that.
pub const SELECTION_FRACTION: usize = 8;
/// Threads of a sorting block, at most.
pub const SORT_THREADS: usize = 512;
