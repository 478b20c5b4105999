//! The CPU backend's tuning numbers, in one place: what each decides, and what it was chosen by.
//!
//! Times are CPU milliseconds without and with it, one after another on one machine.
//! Those of the vector loops are in their crate. "Chosen by" tells the reason where no measurement is on record; a number with neither has none on record.

use std::ops::{Range, RangeInclusive};
use std::time::Duration;

// Work per thread.

/// Most scalar operations of a launch that one thread runs alone. Chosen by: other threads cost more
/// than they help.
pub const SERIAL_OPS: usize = 1 << 17;
/// Scalar operations of a job.
pub const OPS_PER_JOB: usize = 1 << 18;
/// Most jobs that share one point of level 0, or one scatter.
pub const MAX_REDUCTION_JOBS: usize = 64;
/// Fewest tiles of level 0 that are shared between threads by themselves. Chosen by: they occupy the
/// threads.
pub const MIN_PARALLEL_TILES: usize = 32;
/// Fewest points of a kernel that index-set splitting divides. Chosen by: from there on it pays.
pub const SPLIT_MIN_POINTS: usize = 2048;

// Size of a tile.

/// Bytes of registers in use at once. Chosen by: half of an L1 cache.
pub const TILE_REGISTER_BYTES: usize = 24 << 10;
/// The same of a reduction's accumulators. Sum over rows of 4096 x 4096: 7.4 with half of L1, 4.5 with
/// this in L2; of 2048 x 8192: 7.3 and 5.0. Hardware prefetches little beyond a page.
pub const TILE_ACCUMULATOR_BYTES: usize = 96 << 10;
/// Most bytes that a tile of several whole rows stores. Chosen by: as many as wait in a processor's
/// store queue. Softmax, with the change it came in: 4.9 and 3.0.
pub const STORE_QUEUE_BYTES: usize = 4 << 10;
/// Fewest columns of a tile, if registers decide.
pub const MIN_COLUMNS: usize = 64;
/// Most columns of a tile without reductions, if registers decide.
pub const MAX_COLUMNS: usize = 1024;
/// The same along a reduced axis.
pub const MAX_REDUCED_COLUMNS: usize = 4096;
/// The same of accumulators, which a deeper level reduces into.
pub const MAX_ACCUMULATOR_COLUMNS: usize = 8192;
/// Elements of a block program's tile.
pub const BLOCK_TILE_ELEMENTS: usize = 512;
/// Fewest columns of such a tile whose rows are lines; of fewer, rows are pieces of a line. Microseconds of an
/// attention of one query whose pairs are turned: 45 without, 31 with this (AMD EPYC).
pub const BLOCK_FEW_COLUMNS: usize = 8;

// Rows and columns of a tile.

/// Most elements of a row that stays in scratch memory between passes.
pub const RESIDENT_ROW: usize = 32 << 10;
/// The same of a row that takes one pass only.
pub const SINGLE_PASS_ROW: usize = 2048;
/// Longest reduced row of which a tile has several. Chosen by: dispatch costs as much as forty elements.
pub const MULTI_ROW_COLUMNS: usize = 2048;
/// Most rows of such a tile.
pub const MULTI_ROW_MAX_ROWS: usize = 64;
/// Elements of a tile of several short rows without a reduction.
pub const MULTI_ROW_ELEMENTS: usize = 2048;
/// Fewest columns of a tile where threads share a scatter's columns.
pub const SCATTER_MIN_COLUMNS: usize = 128;
/// Fewest rows of a tile whose load is contiguous along rows. Chosen by: a cache line has as many
/// elements of four bytes, and is read once.
pub const ACROSS_MIN_ROWS: usize = 16;
/// Most columns of such a tile. Chosen by: it fits L2.
pub const ACROSS_MAX_COLUMNS: usize = 4096;
/// Rows and columns of a transposing tile.
pub const TRANSPOSING_TILE: usize = 64;
/// Fewest elements of both axes of a transposing tile.
pub const TRANSPOSING_MIN_EXTENT: usize = 8;
/// Fewest row-invariant operations that a tile has several rows to share.
pub const ROW_INVARIANT_MIN_OPS: u64 = 4;
/// Most rows of such a tile.
pub const ROW_INVARIANT_MAX_ROWS: usize = 16;

// Which axis the columns are: costs per element, relative to a contiguous access.

/// An access that does not move along the columns.
pub const COST_INVARIANT_ACCESS: f64 = 0.2;
/// A contiguous access.
pub const COST_CONTIGUOUS_ACCESS: f64 = 1.0;
/// A strided load.
pub const COST_STRIDED_LOAD: f64 = 6.0;
/// A strided store.
pub const COST_STRIDED_STORE: f64 = 8.0;
/// A dispatch, or the beginning and end of a row's reduction.
pub const COST_DISPATCH: f64 = 40.0;
/// One more row of a tile of several.
pub const COST_ROW: f64 = 10.0;
/// Columns after which a dispatch costs no less per element.
pub const COST_MAX_COLUMNS: f64 = 512.0;

// Operations row by row.

/// Fewest columns of rows that one operation goes through one by one. Chosen by: rows are long enough
/// to be worth a call each.
pub const ROWWISE_MIN_COLUMNS: usize = 32;
/// Most columns of rows that one call takes all at once. Chosen by: a call a row would cost as much as
/// its elements.
pub const BATCHED_ROW_COLUMNS: usize = 256;
/// Most loops that compute an absorbed operation again.
pub const MAX_RECOMPUTATIONS: usize = 2;

// Reductions.

/// Longest innermost row of a two-stage reduction. Chosen by: to reduce a longer row costs little more
/// than to add it to another.
pub const TWO_STAGE_MAX_ROW: usize = 512;
/// Fewest rows of a two-stage reduction.
pub const TWO_STAGE_MIN_ROWS: usize = 4;
/// Fewest rows that a vertical reduction takes in by blocks.
pub const BLOCKED_REDUCTION_ROWS: usize = 128;
/// Rows of a block. Chosen by: enough to make joining the total cheap, few enough to keep a sum's
/// rounding error small.
pub const REDUCTION_BLOCK_ROWS: i64 = 128;

// Memory.

/// Fewest bytes that a kernel reads and writes for non-temporal stores: an L3 cache, within these bounds.
/// Chosen by: with 32 MiB of L3, a kernel that reads 16 MiB and writes 8 is faster by way of the caches; with
/// 480, which many share, one that moves 32 MiB takes 0.9 of its time that way, one of 128 MiB 1.3. Small in
/// tests, whose kernels are small.
pub const NON_TEMPORAL_BYTES: RangeInclusive<usize> =
    if cfg!(test) { 512 << 10..=512 << 10 } else { 28 << 20..=64 << 20 };
/// The same of what transposing tiles write, in parts of rows that hardware does not prefetch: stores
/// by way of the cache read them first.
pub const NON_TEMPORAL_TRANSPOSED_BYTES: usize = if cfg!(test) { 1 << 10 } else { 8 << 20 };
/// Most bytes of a row that stays in L2 from one pass to the next.
pub const L2_ROW_BYTES: usize = 256 << 10;
/// Largest stride, in elements, of strided loads that prefetch. Chosen by: a cache line has several.
pub const PREFETCH_MAX_STRIDE: i64 = 16;
/// Gathered rows prefetched ahead of the one at work. Gathered rows, with the change it came in: 1.9
/// and 0.9.
pub const GATHER_PREFETCH_ROWS: usize = 4;
/// Most bytes of each. Chosen by: hardware prefetches the rest.
pub const GATHER_PREFETCH_BYTES: usize = 1 << 10;
/// Rows that one gather call takes.
pub const GATHER_BATCH_ROWS: usize = 16;
/// How many rows ahead a scatter prefetches.
pub const SCATTER_PREFETCH_ROWS: usize = 2;
/// Most bytes of each. Chosen by: hardware prefetches the rest.
pub const SCATTER_PREFETCH_BYTES: usize = 1024;
/// Most rows of a window whose conditions each patch looks at. Chosen by: to rule them out for all rows
/// takes as long as it saves.
pub const WINDOW_FEW_ROWS: usize = 2;
/// Longest row of a patch that is cleared whole where its edges are 0. Convolution of 256 by 256 channels, 2 x 8 x 8:
/// 0.73 with none, 0.69 with these (Intel Xeon). Small in tests, whose rows are short.
pub const WINDOW_CLEARED_ROW_BYTES: usize = if cfg!(test) { 12 } else { 512 };
/// Largest stride, in elements, of windows that prefetch. Chosen by: neighbours share cache lines.
pub const WINDOW_PREFETCH_MAX_STRIDE: u64 = 4;
/// Elements between rows of power-of-two lengths in scratch memory, so that they do not share a cache
/// set.
pub const CACHE_SET_SKEW: usize = 16;

// Contractions.

/// Largest k of a product that shares nothing and is summed point by point. Chosen by: its blocks
/// would be written to be read once.
pub const SHALLOW_K: usize = 64;
/// Fewest rows of either matrix, of distances computed as a product. Chosen by: the copies pay.
pub const DISTANCE_MIN_ROWS: usize = 8;
/// Smallest k of the same.
pub const DISTANCE_MIN_K: usize = 4;
/// Elements computed before they become bfloat16 pairs. Chosen by: they stay in L1.
pub const BF16_STAGING_ELEMENTS: usize = 4096;
/// Fewest rows and columns of a product of 32-bit floats that are rounded for a matrix unit. Chosen by: a tile's
/// side; of fewer, rounding takes as long as it saves.
pub const BF16_ROUNDED_ROWS: usize = 16;
/// Cost of copying an element at a stride up to 1 into a block.
pub const COPY_COST_CONTIGUOUS: f64 = 1.0;
/// The same at a stride up to 4.
pub const COPY_COST_NEAR: f64 = 1.5;
/// The same at a larger stride.
pub const COPY_COST_FAR: f64 = 4.0;
/// Cost of a run of elements, shared by them. Chosen by: a call costs some sixteen contiguous elements.
pub const COPY_COST_RUN: f64 = 16.0;

// Matrix products.

/// Multiply-adds that one thread does as fast as two.
pub const GEMM_SERIAL_MULTIPLY_ADDS: usize = 1 << 20;
/// Fewest multiply-adds of a task, where tasks are halved to occupy the threads.
pub const GEMM_TASK_MIN_MULTIPLY_ADDS: usize = 1 << 17;
/// Fewest multiply-adds of a job, to which small tasks are grouped. Chosen by: worth another thread.
pub const GEMM_JOB_MIN_MULTIPLY_ADDS: usize = 1 << 16;
/// Bytes of an operand's row in a block of k. Chosen by: a panel of B stays in L1.
pub const GEMM_K_BLOCK_BYTES: usize = 1024;
/// Smallest block of k, which that makes for large elements.
pub const GEMM_MIN_K_BLOCK: usize = 64;
/// Largest block of k, which that makes for small elements.
pub const GEMM_MAX_K_BLOCK: usize = 256;
/// Rows of A that are packed at a time. Chosen by: with a block of k they take a quarter of an L2 cache
/// of 1 MiB.
pub const GEMM_PACKED_A_ROWS: usize = 256;
/// Most columns of a task, each of which packs A again. 512 x 4096 x 4096: 198 with 480 columns and 4 MiB of
/// shared B, 180 with both as they are.
pub const GEMM_TASK_COLUMNS: usize = 1024;
/// The same where a function computes A.
pub const GEMM_COMPUTED_A_COLUMNS: usize = 1024;
/// Most elements of C that a task keeps in scratch.
pub const GEMM_SCRATCH_ELEMENTS: usize = 1 << 16;
/// Bytes of B that are packed at once for all threads. Small in tests, whose products are small.
pub const GEMM_SHARED_B_BYTES: usize = if cfg!(test) { 64 << 10 } else { 16 << 20 };
/// Rows of C above which B is packed once for all threads. Convolution of 256 by 256 channels, 2 x 8 x 8: 0.87 with
/// 256, 0.72 with these; 256 x 1024 x 784: 1.8 and 1.6 (Intel Xeon).
pub const GEMM_SHARED_MIN_ROWS: usize = 128;
/// Most bytes of B that each thread packs for itself.
pub const GEMM_PRIVATE_B_BYTES: usize = 512 << 10;
/// Tasks per thread where B is shared. Chosen by: cores are seldom equally fast.
pub const GEMM_TASKS_PER_THREAD: usize = 8;
/// Fewest rows of such a task. 1,024 x 1,024 beside other work: 36 with 256 rows, 28 with these.
pub const GEMM_SHARED_TASK_MIN_ROWS: usize = 64;
/// Tiles of columns that a thread packs at a time, in long rows.
pub const GEMM_PACKED_TILES: usize = 24;
/// Rows of B packed together. Chosen by: few enough streams for the hardware prefetcher.
pub const GEMM_PACK_STREAMS: usize = 8;
/// Most bytes that a block's rows of B span, to be read in place. Chosen by: they stay in cache.
pub const GEMM_B_IN_PLACE_BYTES: usize = 128 << 10;
/// Most tiles of columns for which A is read in place, each of which goes over its rows again. 512 x 4608 x 196:
/// 3.6 with 2, 3.4 with these (Intel Xeon).
pub const GEMM_A_IN_PLACE_TILES: usize = 8;
/// Most bytes between rows of A that is read in place for more columns.
pub const GEMM_A_IN_PLACE_STRIDE: usize = 1024;

// Products of a matrix and a vector, and products with a large k.

/// Multiply-adds that one thread does as fast as two.
pub const GEMV_SERIAL_MULTIPLY_ADDS: usize = 1 << 17;
/// Fewest columns that a task computes by axpys.
pub const GEMV_MIN_COLUMNS: usize = 64;
/// The most. Chosen by: they stay in L1. A vector by a matrix: 5.4 with 512, 4.0 with this.
pub const GEMV_MAX_COLUMNS: usize = 2048;
/// Most vectors that a matrix is multiplied with one by one. Microseconds, blocked and with this: 3 x 64 by
/// 896 x 64, three times, 62 and 35; 4 x 576 by 1536 x 576, 330 and 205 (Intel Xeon).
pub const GEMV_MAX_VECTORS: usize = 4;
/// Most elements of each of several vectors. Chosen by: four rows of the matrix stay in L1.
pub const GEMV_MAX_SHARED_K: usize = 2048;
/// Elements of a matrix that a function fills at a time.
pub const GEMV_FILLED_ELEMENTS: usize = 1 << 14;
/// Longest row that a function fills whole.
pub const GEMV_MAX_FILLED_ROW: usize = 1 << 16;
/// Most elements of C for split-K. Chosen by: its blocks alone cannot occupy the threads.
pub const SPLIT_K_MAX_OUTPUTS: usize = 64 * 64;
/// Smallest slice of k.
pub const SPLIT_K_SLICE: usize = 1024;
/// Most slices of k.
pub const SPLIT_K_MAX_SLICES: usize = 16;
/// Fewest multiply-adds for split-K.
pub const SPLIT_K_MIN_MULTIPLY_ADDS: usize = 1 << 18;
/// Multiply-adds that one thread does as fast as two.
pub const SPLIT_K_SERIAL_MULTIPLY_ADDS: usize = 1 << 17;

// Products of packed numbers in integers.

/// Tasks of a thread. Chosen by: one that is slower leaves some to others. A token of SmolLM2-135M in `Q8_0`: 7.16
/// ms with 4 (AMD EPYC).
pub const INTEGER_TASKS_PER_THREAD: usize = 2;
/// Rows rounded to 8 bits at a time.
pub const INTEGER_ROUNDED_ROWS: usize = 8;
/// Most rows of a task. Chosen by: its block of C stays in L2.
pub const INTEGER_TASK_ROWS: usize = 256;
/// Most columns of a task.
pub const INTEGER_TASK_COLUMNS: usize = 256;
/// Multiply-adds that one thread does as fast as two.
pub const INTEGER_SERIAL_MULTIPLY_ADDS: usize = 1 << 16;
/// The same of products of one row that are launched together.
pub const JOINT_SERIAL_MULTIPLY_ADDS: usize = 1 << 16;

// Attention.

/// Queries of a task. Small in tests, whose attentions are small.
pub const ATTENTION_QUERIES: usize = if cfg!(test) { 32 } else { 64 };
/// Keys whose scores are kept at a time. Chosen by: with keys and values they stay in L2.
pub const ATTENTION_KEYS: usize = if cfg!(test) { 24 } else { 256 };
/// Fewest keys of a part of them that is a task of its own.
pub const ATTENTION_PART_KEYS: usize = if cfg!(test) { 8 } else { 64 };
/// Tasks below whose number keys are divided. Chosen by: a few threads end together.
pub const ATTENTION_TASKS: usize = 16;
/// Most multiply-adds that one thread runs alone. One query of 9 heads 64 wide, 256 keys: 58 us by one, 45 by
/// two (Intel Xeon).
pub const ATTENTION_SERIAL_MULTIPLY_ADDS: usize = if cfg!(test) { 1 << 12 } else { 1 << 17 };

// Convolutions.

/// Most bytes of transformed filters.
pub const WINOGRAD_FILTER_BYTES: usize = 16 << 20;
/// Fewest filters.
pub const WINOGRAD_MIN_FILTERS: usize = 8;
/// Multiply-adds that copying an element of a window costs; measured, the figures are not on record.
pub const WINOGRAD_COPY_COST: usize = 6;
/// Multiply-adds that transforming a tile of one channel or filter costs; measured likewise.
pub const WINOGRAD_TILE_COST: usize = 150;
/// Multiply-adds that transforming a filter of one channel costs, and reading it again: 15 to 30 ns. At 256 channels
/// and filters, 8 by 8 of two images: 2.1 ms with, 0.8 without; 14 by 14 of four: 2.6 and 3.0.
pub const WINOGRAD_FILTER_COST: usize = 2500;
/// Tiles of a task. Chosen by: fewer where many channels fill the cache.
pub const WINOGRAD_TASK_TILES: Range<usize> = 48..96;
/// Transformed elements of each product that a task keeps in cache.
pub const WINOGRAD_CACHED_ELEMENTS: usize = 4096;
/// Fewest tasks. Chosen by: threads share them evenly.
pub const WINOGRAD_MIN_TASKS: usize = 8;
/// Channels whose inputs are read at a time.
pub const WINOGRAD_CHANNELS: usize = 16;
/// Product elements of some filters that are kept at a time.
pub const WINOGRAD_PRODUCT_ELEMENTS: usize = 2048;
/// Filters that a job transforms.
pub const WINOGRAD_FILTERS_PER_JOB: usize = 8;
/// Fewest columns of a depthwise convolution by shifted rows. Chosen by: a row is worth a call.
pub const STENCIL_MIN_COLUMNS: usize = 8;
/// Elements of the input that its task keeps in cache.
pub const STENCIL_CACHED_ELEMENTS: usize = 4096;
/// Fewest rows of its task.
pub const STENCIL_MIN_ROWS: usize = 4;

// Sorts.

/// Bits of a radix digit.
pub const RADIX_BITS: u32 = 11;
/// Shortest row that a radix sort takes. Comparisons took 48 ns an element for rows of 10,000.
pub const RADIX_MIN_ROW: usize = 512;
/// A row of which at most one element in so many is asked for is selected from, not sorted. Ten of
/// 10,000: 30 ms sorted, 4.7 selected.
pub const SELECT_FRACTION: usize = 8;
/// Elements compared with the bound together. Chosen by: no branch for each.
pub const SELECT_BLOCK: usize = 32;
/// Elements of a job.
pub const SORT_ELEMENTS_PER_JOB: usize = 1 << 14;

// Threads.

/// How long a thread that is done spins for the others before it sleeps. Two threads with 30 us of work each: 70 us
/// where it sleeps at once, 34 where it spins (Intel Xeon, a virtual machine).
pub const WAIT_SPIN: Duration = Duration::from_micros(100);
/// How long a thread spins for the next launch before it sleeps. Chosen by: somewhat longer than it takes to wake.
pub const IDLE_SPIN: Duration = Duration::from_micros(50);

// Host memory.

/// Smallest block backed by huge pages of its own.
pub const HUGE_PAGE_MIN_BYTES: usize = 4 << 20;
/// Bytes of a region of huge pages that blocks share. 60 products of 128 x 576 x 1,536 with weights of their own: 1.38
/// on small pages, 1.08 on these (Intel Xeon).
pub const REGION_BYTES: usize = 64 << 20;
/// Smallest block in a region.
pub const REGION_MIN_BLOCK: usize = 64 << 10;
/// Largest block in a region.
pub const REGION_MAX_BLOCK: usize = 16 << 20;
/// How much more than its peak use the pool may hold, as a factor.
pub const POOL_SLACK: f64 = 1.2;
/// The same in bytes, where that is more.
pub const POOL_SLACK_BYTES: u64 = 1 << 20;
/// Smallest block with finely spaced size classes. Chosen by: rounding wastes less than a hundredth.
pub const POOL_FINE_CLASS_BYTES: usize = 1 << 20;
/// Bytes of a row that fused kernels may keep (see `Capabilities::row_bytes`).
pub const CAPABILITY_ROW_BYTES: usize = 128 << 10;
