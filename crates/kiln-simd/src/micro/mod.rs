//! Micro-ops: precompiled vector loops over one tile of `n` elements, looked
//! up once when a tile program is built and called through function pointers.
//!
//! A register is a run of elements of one [`LaneType`]. Each loop is
//! compiled for the target's baseline, for AVX2 with FMA, and for AVX-512;
//! [`isa::level`] picks once. Loops vectorise because LLVM sees generic
//! bodies inlined into functions that enable the instruction set.
//!
//! Destinations never overlap sources, not even exactly: the loops work on
//! slices, so aliasing would be undefined behaviour (and, were it checked for,
//! five to ten times slower).

mod accumulate;
mod alu;
mod batched_rows;
mod binary_chain;
mod cast;
mod compare_select;
mod copy;
mod dequantize;
mod exponential;
pub mod fft;
mod fold;
mod fused;
mod gather;
mod half16;
mod integer_dot;
mod integer_panels;
mod isa;
mod lane;
mod math;
mod math64;
mod memory;
mod monoid;
mod non_temporal;
mod ops;
mod piecewise;
mod polynomial;
mod quantized_dot;
mod reduce;
mod scan;
mod scatter;
mod short_rows;
pub mod softmax;
mod sum_of_products;
mod sums;
mod transpose;
mod tuple;
mod weighted_sum;
pub mod winograd;

pub use accumulate::{AccumulateFn, AccumulateRowsFn, Accumulator, accumulate};
pub use alu::{alu, prefetches};
pub use batched_rows::{BatchedRowsFn, RowBatch, alu_variants};
pub use binary_chain::{ChainSide, binary_chain};
pub use cast::{bitcast, cast};
pub use compare_select::compare_select;
pub use copy::{copy_operation, copy_rows};
pub use dequantize::{CodeLayout, QUANTIZED_BLOCK, QuantizedMatrix, QuantizedRow, dequantize};
pub use fused::{Fused, fused};
pub use gather::{GatherFn, load_gather};
pub use half16::interleave_bf16;
pub use integer_dot::{IntegerDotFn, RoundedBlock, RoundedRows, integer_dot};
pub use integer_panels::{IntegerPanels, PANEL_COLUMNS, PanelBlock, PanelProduct, integer_panels};
pub use isa::{Level, level};
pub use lane::LaneType;
pub use memory::{ExpandFn, StridedFn};
pub use memory::{
    expand_cols, expand_rows, fill, iota_i64, load, nt_fence, prefetch_l1, prefetch_l2, store, store_nt,
};
pub use memory::{load_strided, store_strided};
pub use polynomial::{POLYNOMIAL_TERMS, polynomial};
pub use quantized_dot::{BlockedVector, QuantizedDotFn, quantized_dot};
pub use reduce::{ReduceFn, ReduceKind, ReduceRowFn, Reducer, STATE_BYTES, reduce};
pub use scan::{ScanFn, Scanner, scan};
pub use scatter::{ScatterFn, scatter};
pub use short_rows::{ROW_BLOCK, ShortRowsFn};
pub use sum_of_products::sum_of_products;
#[cfg(target_arch = "x86_64")]
pub(crate) use transpose::x86::{transposed_8x8, transposed_16x16};
pub use transpose::{TransposeFn, load_tile_transposed};
pub use weighted_sum::{WeightedSumFn, weighted_sum};

/// What an operand's pointer points at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperandKind {
    /// One element per element of the tile.
    Vector,
    /// One element, broadcast to the whole tile.
    Broadcast,
}

/// The most operands that a micro-op has.
pub const MAX_OPERANDS: usize = 4;

/// The operands' addresses.
pub type OperandPtrs = [*const u8; MAX_OPERANDS];

/// The operands' kinds; an operation ignores those beyond its arity.
pub type OperandKinds = [OperandKind; MAX_OPERANDS];

/// A micro-op: `fn(dst, [a, b, c, d], n, next)`.
///
/// # Safety
/// `dst` is valid for writing `n` result elements, every operand the
/// operation has for reading `n` elements (vector) or one (broadcast), all
/// aligned for their types; the other operands are ignored and may be null.
/// `dst` overlaps no operand. A loop that [`prefetches`] does so for as many bytes at
/// `next` as it reads at `a`; `next` may be any address.
pub type MicroFn = unsafe fn(dst: *mut u8, from: OperandPtrs, n: usize, next: *const u8);

/// Alternative loops of a micro-op.
#[derive(Clone, Copy, Debug)]
pub struct Variants {
    /// Over several rows in one call.
    pub batched: BatchedRowsFn,
    /// With non-temporal stores; [`nt_fence`] orders them.
    pub non_temporal: MicroFn,
}

/// A micro-op with its printed name.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// The loop.
    pub function: MicroFn,
    /// Its name.
    pub name: &'static str,
    /// Its alternative loops, if any.
    pub variants: Option<Variants>,
}

/// # Safety
/// `data` is valid for reading `n` elements during `'a`, aligned for `T`, and
/// nothing writes them meanwhile.
#[inline(always)]
unsafe fn view<'a, T>(data: *const u8, n: usize) -> &'a [T] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(data.cast(), n) }
}

/// # Safety
/// `data` is valid for writing `n` elements during `'a`, aligned for `T`, and
/// nothing else accesses them meanwhile.
#[inline(always)]
unsafe fn view_mut<'a, T>(data: *mut u8, n: usize) -> &'a mut [T] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(data.cast(), n) }
}

#[cfg(test)]
mod tests;
