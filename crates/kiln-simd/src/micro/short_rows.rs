//! Reductions of many short rows, sixteen at a time.
//!
//! In a row of a few vectors the horizontal reduction of the last vector takes longer than the
//! elements. So a row's vectors are combined to one, and blocks of sixteen rows are transposed: rows
//! become lanes, and every reduction is vertical.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use crate::DType;
use crate::micro::isa::{Isa, versioned};
use crate::micro::lane::{LaneType, Number};
use crate::micro::monoid::{Largest, Monoid, Smallest, Sum};
use crate::micro::reduce::{ReduceKind, canonical};
use crate::micro::transpose::load_tile_transposed;
use crate::micro::{view, view_mut};
use crate::thresholds::SHORT_REDUCED_ROW;

/// Rows that are reduced together.
pub const ROW_BLOCK: usize = 16;

/// Independent accumulators, which hide the latency of the operation.
const ACCUMULATORS: usize = 4;

/// Reduces at least [`ROW_BLOCK`] contiguous rows of at most [`SHORT_REDUCED_ROW`] elements each:
/// `fn(out, src, n, rows)`, a result for each.
///
/// # Safety
/// `src` is valid for `n * rows` aligned elements, `out` for `rows` results; they do not
/// overlap.
pub type ShortRowsFn = unsafe fn(out: *mut u8, src: *const u8, n: usize, rows: usize);

/// The function that reduces short rows of elements of type `dtype`, where they have four
/// bytes in a register and the reduction's state is one of them.
pub fn short_rows(kind: ReduceKind, dtype: DType) -> Option<ShortRowsFn> {
    match LaneType::of(dtype) {
        LaneType::F32 => of::<f32>(canonical(kind, dtype)),
        LaneType::I32 => of::<i32>(canonical(kind, dtype)),
        LaneType::U32 => of::<u32>(canonical(kind, dtype)),
        LaneType::F64 | LaneType::I64 | LaneType::U8 => None,
    }
}

fn of<T: Number>(kind: ReduceKind) -> Option<ShortRowsFn> {
    match kind {
        ReduceKind::Sum => Some(short_rows_loop::<ShortRows<Sum, T>>()),
        ReduceKind::Max => Some(short_rows_loop::<ShortRows<Largest, T>>()),
        ReduceKind::Min => Some(short_rows_loop::<ShortRows<Smallest, T>>()),
        ReduceKind::Prod
        | ReduceKind::ArgMax
        | ReduceKind::ArgMin
        | ReduceKind::Moments
        | ReduceKind::LogSumExp => None,
    }
}

versioned! {
    /// A loop with the signature [`ShortRowsFn`].
    ShortRowsLoop, short_rows_loop, base_short_rows_loop,
    fn(out: *mut u8, src: *const u8, n: usize, rows: usize)
}

struct ShortRows<M, T>(PhantomData<(M, T)>);
impl<M: Monoid<T>, T: Number> ShortRowsLoop for ShortRows<M, T> {
    #[inline(always)]
    unsafe fn run<I: Isa>(out: *mut u8, src: *const u8, n: usize, rows: usize) {
        debug_assert!(n <= SHORT_REDUCED_ROW && rows >= ROW_BLOCK);
        let transposed = load_tile_transposed(DType::U32);
        let mut buffer = [const { MaybeUninit::<[T; ROW_BLOCK]>::uninit() }; SHORT_REDUCED_ROW];
        // SAFETY: the contract of `ShortRowsFn`; what is read of the buffer was written.
        unsafe {
            let out: &mut [T] = view_mut(out, rows);
            for first in (0..rows).step_by(ROW_BLOCK) {
                // The last block overlaps the one before, whose rows are reduced again.
                let first = first.min(rows - ROW_BLOCK);
                let from = src.cast::<T>().add(first * n);
                let to = buffer.as_mut_ptr().cast::<u8>();
                let (vectors, rest) = (n / ROW_BLOCK, n % ROW_BLOCK);
                let count = if vectors > 1 {
                    let mut one = [[M::IDENTITY; ROW_BLOCK]; ROW_BLOCK];
                    for (row, one) in one.iter_mut().enumerate() {
                        *one = fold_row::<M, T>(view(from.add(row * n).cast(), n));
                    }
                    transposed(to, one.as_ptr().cast(), ROW_BLOCK, ROW_BLOCK, ROW_BLOCK as isize, 0);
                    let (to, from) = (buffer.as_mut_ptr().add(ROW_BLOCK), from.add(vectors * ROW_BLOCK));
                    transposed(to.cast(), from.cast(), rest, ROW_BLOCK, n as isize, 0);
                    ROW_BLOCK + rest
                } else {
                    transposed(to, from.cast(), n, ROW_BLOCK, n as isize, 0);
                    n
                };
                let elements = view::<[T; ROW_BLOCK]>(buffer.as_ptr().cast(), count);
                out[first..first + ROW_BLOCK].copy_from_slice(&reduce_lanes::<M, T>(elements));
            }
        }
    }
}

/// A row's whole vectors, at least one, combined lane by lane.
#[inline(always)]
fn fold_row<M: Monoid<T>, T: Number>(row: &[T]) -> [T; ROW_BLOCK] {
    let (vectors, _) = row.as_chunks::<ROW_BLOCK>();
    let mut sums = vectors[0];
    for vector in &vectors[1..] {
        sums = combine::<M, T>(sums, vector);
    }
    sums
}

/// Two vectors combined lane by lane.
#[inline(always)]
fn combine<M: Monoid<T>, T: Number>(x: [T; ROW_BLOCK], y: &[T; ROW_BLOCK]) -> [T; ROW_BLOCK] {
    std::array::from_fn(|lane| M::combine(x[lane], y[lane]))
}

/// The results of transposed rows: vector `i` holds element `i` of each row.
#[inline(always)]
fn reduce_lanes<M: Monoid<T>, T: Number>(elements: &[[T; ROW_BLOCK]]) -> [T; ROW_BLOCK] {
    let join = combine::<M, T>;
    let [mut a, mut b, mut c, mut d] = [[M::IDENTITY; ROW_BLOCK]; ACCUMULATORS];
    let (fours, rest) = elements.as_chunks::<ACCUMULATORS>();
    for [p, q, r, s] in fours {
        (a, b, c, d) = (join(a, p), join(b, q), join(c, r), join(d, s));
    }
    for x in rest {
        a = join(a, x);
    }
    join(join(a, &b), &join(c, &d))
}
