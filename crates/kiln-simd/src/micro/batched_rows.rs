//! Arithmetic on batches of short strided rows: one call computes all rows of a tile, since a
//! call costs as much as a row of a few vectors.

use std::marker::PhantomData;

use crate::AluOp;
use crate::DType;
use crate::micro::alu::{Binary, Micro, Prefetching, SS, SV, Select, Trig, Unary, VS, VV};
use crate::micro::exponential;
use crate::micro::isa::{Isa, versioned};
use crate::micro::lane::LaneType;
use crate::micro::non_temporal::{Elementwise, non_temporal};
use crate::micro::ops::{self, Map2};
use crate::micro::{MAX_OPERANDS, OperandKind, OperandKinds, OperandPtrs, Variants, piecewise};

/// How many rows a batch has, and their strides in bytes.
#[derive(Clone, Copy, Debug)]
pub struct RowBatch {
    /// Rows.
    pub rows: usize,
    /// From a row of the result to the next.
    pub dst_stride: usize,
    /// From a row of each operand to the next.
    pub src_strides: [usize; MAX_OPERANDS],
}

impl RowBatch {
    /// One row.
    pub const SINGLE: RowBatch = RowBatch { rows: 1, dst_stride: 0, src_strides: [0; MAX_OPERANDS] };

    /// Rows of an operation with one operand.
    pub fn unary(rows: usize, dst_stride: usize, src_stride: usize) -> RowBatch {
        RowBatch { rows, dst_stride, src_strides: [src_stride; MAX_OPERANDS] }
    }

    /// The addresses of each row of the result and of the first operand.
    #[inline(always)]
    pub fn row_ptrs(&self, to: *mut u8, from: *const u8) -> impl Iterator<Item = (*mut u8, *const u8)> {
        let at = |row: usize, stride: usize| row.wrapping_mul(stride);
        let &RowBatch { rows, dst_stride, src_strides: [src_stride, ..] } = self;
        (0..rows)
            .map(move |row| (to.wrapping_add(at(row, dst_stride)), from.wrapping_add(at(row, src_stride))))
    }
}

/// A micro-op over a batch of rows: `fn(dst, [a, b, c, d], n, batch)`.
///
/// # Safety
/// That of [`super::MicroFn`] for every row, and no row of `dst` overlaps any row of
/// an operand.
pub type BatchedRowsFn = unsafe fn(dst: *mut u8, from: OperandPtrs, n: usize, batch: &RowBatch);

versioned! {
    /// A loop with the signature [`BatchedRowsFn`].
    BatchedLoop, batched_loop, base_batched_loop,
    fn(dst: *mut u8, from: OperandPtrs, n: usize, batch: &RowBatch)
}

/// A micro-op's loop, row by row.
fn batched<K: Micro + 'static>() -> BatchedRowsFn {
    batched_loop::<BatchedRows<K>>()
}

/// The batched and the non-temporal loop of one operation.
pub(super) fn variants<K: Elementwise + 'static>() -> Variants {
    Variants { batched: batched::<K>(), non_temporal: non_temporal::<K>() }
}

/// The alternative loops of the ALU rows on `F32` and the 16-bit floats' register form, where at least one
/// operand is a vector.
pub fn alu_variants(op: AluOp, dtype: DType, kinds: OperandKinds) -> Option<Variants> {
    if LaneType::of(dtype) != LaneType::F32 {
        return None;
    }
    match op {
        AluOp::Add => binary::<ops::Add>(kinds),
        AluOp::Sub => binary::<ops::Sub>(kinds),
        AluOp::Mul => binary::<ops::Mul>(kinds),
        AluOp::Div => binary::<ops::Div>(kinds),
        AluOp::Max => binary::<ops::Max>(kinds),
        AluOp::Min => binary::<ops::Min>(kinds),
        AluOp::Neg => Some(variants::<Unary<ops::Neg, f32>>()),
        AluOp::Abs => Some(variants::<Unary<ops::Abs, f32>>()),
        AluOp::Floor => Some(variants::<Unary<ops::Floor, f32>>()),
        AluOp::Trunc => Some(variants::<Unary<ops::Trunc, f32>>()),
        AluOp::Round => Some(variants::<Unary<ops::Round, f32>>()),
        AluOp::Recip => Some(variants::<Prefetching<ops::Recip, f32>>()),
        AluOp::Sqrt => Some(variants::<Prefetching<ops::Sqrt, f32>>()),
        AluOp::Exp2 => Some(variants::<Prefetching<ops::Exp2, f32>>()),
        AluOp::Log2 => Some(variants::<Prefetching<ops::Log2, f32>>()),
        AluOp::Log => Some(variants::<Prefetching<ops::Log, f32>>()),
        AluOp::Tanh => Some(variants::<Prefetching<ops::Tanh, f32>>()),
        AluOp::Sin => Some(variants::<Trig<ops::Sin, f32>>()),
        AluOp::Cos => Some(variants::<Trig<ops::Cos, f32>>()),
        AluOp::Exp => Some(exp()),
        AluOp::Erf => piecewise::erf().is_none().then(variants::<Prefetching<ops::Erf, f32>>),
        AluOp::Where => select(kinds),
        AluOp::Rem | AluOp::Pow | AluOp::Lt | AluOp::Eq => None,
        AluOp::And | AluOp::Or | AluOp::Xor | AluOp::Not | AluOp::Shl | AluOp::Shr => None,
    }
}

/// Those of the exponential, written for the instruction set where it has its own.
fn exp() -> Variants {
    let Some(loops) = exponential::loops() else { return variants::<Prefetching<ops::Exp, f32>>() };
    Variants { batched: loops.exp_batched, non_temporal: loops.exp_non_temporal }
}

fn select(kinds: OperandKinds) -> Option<Variants> {
    match kinds {
        [OperandKind::Vector, OperandKind::Vector, OperandKind::Vector, _] => {
            Some(variants::<Select<u32, VV>>())
        }
        [OperandKind::Vector, OperandKind::Vector, OperandKind::Broadcast, _] => {
            Some(variants::<Select<u32, VS>>())
        }
        [OperandKind::Vector, OperandKind::Broadcast, OperandKind::Vector, _] => {
            Some(variants::<Select<u32, SV>>())
        }
        [OperandKind::Vector, OperandKind::Broadcast, OperandKind::Broadcast, _] => {
            Some(variants::<Select<u32, SS>>())
        }
        [OperandKind::Broadcast, ..] => None,
    }
}

fn binary<O: Map2<f32, Out = f32> + 'static>(kinds: OperandKinds) -> Option<Variants> {
    match (kinds[0], kinds[1]) {
        (OperandKind::Vector, OperandKind::Vector) => Some(variants::<Binary<O, f32, VV>>()),
        (OperandKind::Vector, OperandKind::Broadcast) => Some(variants::<Binary<O, f32, VS>>()),
        (OperandKind::Broadcast, OperandKind::Vector) => Some(variants::<Binary<O, f32, SV>>()),
        (OperandKind::Broadcast, OperandKind::Broadcast) => None,
    }
}

struct BatchedRows<K>(PhantomData<K>);
impl<K: Micro> BatchedLoop for BatchedRows<K> {
    // The trip count of the loop along a row stays unknown: LLVM unrolls a loop of known length
    // to scalars, and gathers those of several rows.
    #[inline(always)]
    unsafe fn run<I: Isa>(dst: *mut u8, mut from: OperandPtrs, n: usize, batch: &RowBatch) {
        let mut to = dst;
        for _ in 0..batch.rows {
            // SAFETY: the caller's promise.
            unsafe { K::run::<I>(to, from, n, from[0]) }
            to = to.wrapping_add(batch.dst_stride);
            from = std::array::from_fn(|i| from[i].wrapping_add(batch.src_strides[i]));
        }
    }
}
