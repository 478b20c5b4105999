//! A micro-op done row by row.

use kiln_simd::micro::{BatchedRowsFn, MAX_OPERANDS, MicroFn};

use crate::runtime::cpu::tile::program::{DestForwarding, FrameSlot, Prefetch, TileShape};

/// A micro-op over each row of a tile, or of a vector the only one.
#[derive(Clone, Debug)]
pub struct RowwiseOp {
    /// The loop.
    pub function: MicroFn,
    /// The loop with non-temporal stores, for where it writes a store's values in place.
    pub non_temporal: Option<MicroFn>,
    /// The loop over all rows, where those are short.
    pub batched: Option<BatchedRowsFn>,
    /// Its printed name.
    pub name: &'static str,
    /// The destination.
    pub to: (FrameSlot, RowStride),
    /// The operands; unused ones repeat the first.
    pub from: [(FrameSlot, RowStride); MAX_OPERANDS],
    /// Shape of what varies along rows, or between them.
    pub shape: TileShape,
    /// Whether the loop prefetches while it computes; else that is done after each row.
    pub prefetches: bool,
    /// What to prefetch.
    pub prefetch: Option<Prefetch>,
    /// A store of the result whose rows have gaps between them, which may be written in place.
    pub forwarding: Option<Box<DestForwarding>>,
    /// The reduction that each row has all elements of, fused into the loop.
    pub row_reduction: Option<u32>,
}

impl RowwiseOp {
    /// A micro-op over the rows of a shape that prefetches nothing.
    pub fn new(
        function: MicroFn,
        name: &'static str,
        to: (FrameSlot, RowStride),
        from: [(FrameSlot, RowStride); MAX_OPERANDS],
        shape: TileShape,
    ) -> RowwiseOp {
        let (non_temporal, batched, prefetches, prefetch) = (None, None, false, None);
        let (forwarding, row_reduction) = (None, None);
        RowwiseOp {
            function,
            non_temporal,
            batched,
            name,
            to,
            from,
            shape,
            prefetches,
            prefetch,
            forwarding,
            row_reduction,
        }
    }
}

/// From an operand's row to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowStride {
    /// By so many bytes, however long a row is.
    Bytes(usize),
    /// By a row of elements of so many bytes.
    Dense(usize),
}

impl RowStride {
    /// The bytes, for rows of so many elements.
    pub fn bytes(self, cols: usize) -> usize {
        match self {
            RowStride::Bytes(bytes) => bytes,
            RowStride::Dense(lane) => cols * lane,
        }
    }
}
