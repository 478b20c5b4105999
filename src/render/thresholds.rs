//! Tuning numbers of what WGSL and CUDA C share. Each decides one thing, by what its line says.
//! Where a line names no measurement, the number is an estimate: nothing was measured for it.

/// Rows that 32-bit positions number.
pub const MAX_NUMBERED_ROWS: usize = i32::MAX as usize;
/// Elements below which compiling faster code takes Mesa's software driver longer than it saves.
/// Measured on lavapipe.
pub const SOFTWARE_COMPILE_BOUND_ELEMENTS: usize = 4096;
/// Iterations of one invocation on a software driver: lavapipe stops it, silently, at 65,535.
pub const SOFTWARE_MAX_ITERATIONS: u64 = 60_000;
/// Multiplications that count as one element of [`SOFTWARE_COMPILE_BOUND_ELEMENTS`].
pub const MULTIPLICATIONS_PER_ELEMENT: usize = 1024;

/// Definitions, times elements per thread, above which a thread has one element: drivers take
/// about half a second to compile a thousand.
pub const MAX_COARSENED_DEFINITIONS: usize = 160;
/// Compile-bound sizes from which a software driver's threads have 8 or 16 elements.
pub const WIDE_COARSENING_SIZES: usize = 64;
/// Elements per thread along a grid axis, at most.
pub const MAX_GRID_COARSENING: usize = 8;
/// Elements per thread along a row axis, at most.
pub const MAX_ROW_COARSENING: usize = 16;

/// Registers of a GPU's thread that cached rows may take: with twice as many, half as many
/// threads would run at once.
pub const GPU_CACHE_REGISTERS: usize = 64;
/// The same of a software driver's thread, whose registers are the processor's cache.
pub const SOFTWARE_CACHE_REGISTERS: usize = 512;
/// Compile-bound sizes from which a software driver caches rows by unrolled loops.
pub const CACHED_ROWS_SIZES: usize = 256;
/// Elements per thread of such loops, at most.
pub const MAX_CACHED_ROW_COARSENING: usize = 8;
/// Definitions of rows' values, times elements and iterations, that are unrolled at most.
pub const MAX_UNROLLED_DEFINITIONS: usize = 2048;
/// Operations of rows' values, times elements and iterations, for which drivers take about a
/// quarter of a second; more subgroups share a row to stay below.
pub const QUICKLY_COMPILED_OPERATIONS: usize = 256;
/// Subgroups that may share a cached row: more than one meet at barriers.
pub const SUBGROUPS_PER_CACHED_ROW: [usize; 3] = [1, 2, 4];
/// Iteration counts that are unrolled: few, since each is a text of its own.
pub const UNROLL_COUNTS: [usize; 8] = [1, 2, 3, 4, 6, 8, 12, 16];

/// Points from which a GPU's threads keep its memory busy without sharing their rows.
pub const COALESCED_POINTS: usize = 1 << 12;
/// Points below which a GPU's workgroups share rows rather than give a thread several points.
pub const SHARED_ROW_POINTS: usize = 1 << 12;
/// Invocations of a workgroup that shares no rows, on software drivers and on GPUs.
pub const SOFTWARE_WORKGROUP: u32 = 64;
/// See [`SOFTWARE_WORKGROUP`].
pub const GPU_WORKGROUP: u32 = 256;
/// Points from which a software driver's threads have whole rows: its vectors have eight lanes,
/// its threads are few, and barriers are expensive.
pub const SOFTWARE_WHOLE_ROW_POINTS: usize = 32;
/// Steps of a row, and threads that share it from so many on, on software drivers.
pub const SOFTWARE_ROW_THREADS: [(usize, usize); 2] = [(1024, 64), (128, 16)];
/// Steps of a row up to which a GPU's thread has all of it.
pub const GPU_WHOLE_ROW_STEPS: usize = 16;
/// The same where points fill the device, and how many do.
pub const GPU_WHOLE_ROW_STEPS_OF_MANY: usize = 64;
/// See [`GPU_WHOLE_ROW_STEPS_OF_MANY`].
pub const GPU_MANY_POINTS: usize = 1 << 16;
/// Steps of a row up to which 32 threads share it on GPUs; more are shared by 256.
pub const GPU_WARP_ROW_STEPS: usize = 256;

/// Elements per thread of an emitted product: along rows and columns, for sums on software
/// drivers that little follows, for small ones there, and else.
pub const WIDE_PRODUCT_TILE: (usize, usize) = (8, 8);
/// See [`WIDE_PRODUCT_TILE`].
pub const SMALL_PRODUCT_TILE: (usize, usize) = (2, 4);
/// See [`WIDE_PRODUCT_TILE`].
pub const PRODUCT_TILE: (usize, usize) = (4, 4);
/// Steps of the reduction dimension that a thread of an emitted product takes together.
pub const PRODUCT_STEP: usize = 4;
/// Invocations of a workgroup of an emitted product, on software drivers and on GPUs.
pub const SOFTWARE_PRODUCT_WORKGROUP: u32 = 32;
/// See [`SOFTWARE_PRODUCT_WORKGROUP`].
pub const GPU_PRODUCT_WORKGROUP: u32 = 64;
/// Expressions behind the sum up to which a software driver's emitted product has 8 by 8
/// results per thread.
pub const MAX_WIDE_TILE_EPILOGUE: usize = 4;
/// Operations after the sums of a template's product, each time they are written out: drivers
/// compile a thousand in about 30 ms.
pub const MAX_EPILOGUE_OPS: u64 = 4096;
/// Results below which a product uses no template.
pub const MIN_TILED_RESULTS: usize = 64;
/// Columns below which the operands of a product change places, if rows are four times as many.
pub const FEW_COLUMNS: usize = 8;

/// Queries of an attention up to which its template for few takes them one by one: what is read of keys and
/// values serves one query.
pub const FEW_QUERIES: usize = 4;
/// Keys of so few up to which one workgroup goes through them as soon as several kernels would, of which more
/// workgroups share them.
pub const KEYS_OF_FEW_QUERIES: usize = 2048;

/// Rows below which splitting them is not worth another launch.
pub const MIN_SPLIT_ROWS: usize = 1 << 14;
/// Parts that fill a device, and rows of a part at least: on software drivers, where threads
/// take parts, and on integrated and discrete GPUs, where workgroups do.
pub const SOFTWARE_PARTS: (usize, usize) = (1024, 1 << 12);
/// See [`SOFTWARE_PARTS`].
pub const INTEGRATED_PARTS: (usize, usize) = (128, 1 << 13);
/// See [`SOFTWARE_PARTS`].
pub const DISCRETE_PARTS: (usize, usize) = (1024, 1 << 13);
/// Threads that parts of rows across memory should make on a GPU.
pub const COALESCED_THREADS: usize = 1 << 17;
/// Rows of such a part, at least.
pub const MIN_COALESCED_ROWS: usize = 32;
/// Elements below which such rows are not split.
pub const MIN_COALESCED_ELEMENTS: usize = 1 << 18;
/// Parts below which such rows are not split.
pub const MIN_COALESCED_PARTS: usize = 8;
/// Bytes between rows from which a software driver splits them: addresses pages apart share a
/// cache's few places. Measured on lavapipe: a sum over the first axis took 101 ms whole, 18 split.
pub const PAGE_BYTES: usize = 4096;
/// Rows of such a part.
pub const ROWS_PER_CACHE_SET: usize = 16;
/// Parts below which such rows are not split.
pub const MIN_LOCAL_PARTS: usize = 4;
/// Rows of a part above which its length is a multiple of four, for vectors.
pub const VECTOR_PART_ROWS: usize = 64;
/// Elements per thread that count in a split's iterations: of rows, and of a product's tile.
pub const MAX_ELEMENTS_PER_STEP: usize = 4;
/// See [`MAX_ELEMENTS_PER_STEP`].
pub const MAX_PRODUCT_ELEMENTS_PER_STEP: usize = 32;

/// Updates of a part of a scatter, at least.
pub const MIN_UPDATES_PER_PART: usize = 1 << 12;
/// Parts of a scatter, at most.
pub const MAX_SCATTER_PARTS: usize = 512;
/// Parts below which a scatter is not split.
pub const MIN_SCATTER_PARTS: usize = 4;
