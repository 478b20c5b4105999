//! The vector loops' tuning numbers: what each decides, and what it was chosen by.
//!
//! Times are CPU milliseconds without and with it, one after another on one machine (AMD EPYC).

// Micro-ops.

/// Longest row that is transposed with others and reduced vertically. Sums of a million elements in rows
/// of 16: 0.90 without, 0.23 with this; of 49: 0.62 and 0.24.
pub const SHORT_REDUCED_ROW: usize = 64;
/// Elements of a costly loop between prefetches. Chosen by: memory takes up about 24 cache lines at once.
pub const PREFETCH_CHUNK: usize = 128;
/// Longest `f32` row whose successor is prefetched to L1, not L2. Chosen by: both and the results fit.
pub const L1_PREFETCH_ROW: usize = 2048;
/// Elements gathered one by one after positions that are not close. Chosen by: their neighbours hardly are.
pub const SCATTERED_GATHER_RUN: usize = 32;

// Matrix products.

/// Rows ahead that packing prefetches to L2. 64 MiB of B: 7.0 without, 5.1 with this.
pub const GEMM_PACK_PREFETCH_ROWS: isize = 8;
/// Bytes ahead that dot products prefetch of the run that their rows are. Rows of 576, GB/s: 36 from memory and 73
/// from cache where four rows prefetched to L2 for themselves, 41 and 108 with this; 33 and 99 without.
pub const GEMV_PREFETCH_BYTES: usize = 1 << 13;
/// Bytes of codes ahead that loops over packed numbers prefetch. Bytes to floats, numbers a nanosecond: 2.0 without,
/// 13.3 with this; without, the compiler makes vectors across blocks, byte by byte (Intel Xeon with AMX).
pub const PACKED_PREFETCH_BYTES: usize = 1 << 13;
/// Bytes of codes ahead that products in integers prefetch of the run that their rows are. 576 rows of 1,536 half
/// bytes from memory, GB/s: 13.8 where each row prefetched for itself, 26.9 with this; of 576, 13.9 and 21.2.
pub const INTEGER_PREFETCH_BYTES: usize = 1 << 12;
