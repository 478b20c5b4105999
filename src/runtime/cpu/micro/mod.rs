//! Micro-ops: precompiled vector loops over one tile of `n` elements, looked
//! up once when a tile program is built and called through plain function
//! pointers.
//!
//! A register is a run of elements of one [`Lane`] type. Each loop is
//! compiled for the target's baseline, for AVX2 with FMA, and for AVX-512;
//! [`isa::level`] picks once. Loops vectorise because LLVM sees generic
//! bodies inlined into functions that enable the instruction set.
//!
//! Destinations never overlap sources, not even exactly: the loops work on
//! slices, so aliasing would be undefined behaviour (and, were it checked for,
//! five to ten times slower).

mod accumulate;
mod alu;
mod cast;
mod choice;
mod copy;
mod exponential;
mod fold;
mod fused;
mod gather;
mod half16;
mod isa;
mod lane;
mod late;
mod lines;
mod math;
mod math64;
mod memory;
mod ops;
mod pair;
mod piecewise;
mod polynomial;
mod products;
mod reduce;
mod scan;
mod shifted;
mod short;
pub mod softmax;
mod streamed;
mod sums;
mod transpose;
mod tuple;
pub mod winograd;

pub use accumulate::{AccumulateFn, Accumulator, RowsFn, accumulate};
pub use alu::{alu, asks};
pub use cast::{bitcast, cast};
pub use choice::choice;
pub use copy::{copied, copy_lines};
pub use fused::{Fused, fused};
pub use gather::{GatherFn, load_gather};
pub use half16::interleave_bf16;
pub use isa::{Level, level};
pub use lane::Lane;
pub use late::{Late, OverlapFn, overlapping};
pub use lines::{Apart, LinesFn, alu_variants};
pub use memory::{ExpandFn, StridedFn};
pub use memory::{
    expand_cols, expand_rows, fill, iota_i64, load, nt_fence, prefetch, prefetch_far, store, store_nt,
};
pub use memory::{load_strided, store_strided};
pub use pair::{Side, pair};
pub use polynomial::{TERMS, polynomial};
pub use products::products;
pub use reduce::{ReduceFn, Reducer, Reduction, STATE_BYTES, WholeFn, reduce};
pub use scan::{ScanFn, Scanner, scan};
pub use shifted::{WeightedSumFn, weighted_sum};
pub use short::{LINES, SHORT, ShortFn};
pub use transpose::{TransposeFn, load_tile_transposed};

/// What an operand's pointer points at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// A vector: one element per element of the tile.
    V,
    /// A scalar: one element for the whole tile.
    S,
}

/// Operands of a micro-op, at most.
pub const OPERANDS: usize = 4;

/// Where the operands are.
pub type Operands = [*const u8; OPERANDS];

/// What they are; of those that an operation does not have, anything.
pub type Forms = [Form; OPERANDS];

/// A micro-op: `fn(dst, [a, b, c, d], n, next)`.
///
/// # Safety
/// `dst` is valid for writing `n` result elements, every operand the
/// operation has for reading `n` (form V) or one (form S) of its own, all
/// aligned for their types; the other operands are ignored and may be null.
/// `dst` overlaps no operand. A loop that [`asks`] asks for as much memory at `next` as it
/// reads at `a`, where any address will do.
pub type MicroFn = unsafe fn(dst: *mut u8, from: Operands, n: usize, next: *const u8);

/// Other loops of a micro-op.
#[derive(Clone, Copy, Debug)]
pub struct Variants {
    /// Over short lines.
    pub lines: LinesFn,
    /// With stores past the caches.
    pub streaming: Streaming,
}

/// The loop of a micro-op whose stores pass the caches by; [`nt_fence`] orders them.
#[derive(Clone, Copy, Debug)]
pub struct Streaming {
    /// The loop.
    pub function: MicroFn,
    /// Whether it is the product of a line and a number, which can be [`Late`].
    pub late: bool,
}

/// A micro-op with its name, for people.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// The loop.
    pub function: MicroFn,
    /// Its name.
    pub name: &'static str,
    /// Its other loops, where there are any.
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
