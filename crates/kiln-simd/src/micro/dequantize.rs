//! Numbers of codes: blocks of 32 share a scale, and perhaps an offset.

use std::ptr::NonNull;

use half::f16;

use crate::micro::half16::widen_f16;
use crate::micro::isa::{Isa, versioned};
use crate::micro::memory::prefetch_l2;
use crate::thresholds::PACKED_PREFETCH_BYTES;

/// Numbers of a block.
pub const QUANTIZED_BLOCK: usize = 32;

/// How the codes of a block lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeLayout {
    /// A byte each.
    Bytes,
    /// Four bits each: the lower ones of 16 bytes are the first half, the upper ones the second.
    Nibbles,
}

impl CodeLayout {
    /// The bytes of a block's codes.
    pub const fn block_bytes(self) -> usize {
        match self {
            CodeLayout::Bytes => QUANTIZED_BLOCK,
            CodeLayout::Nibbles => QUANTIZED_BLOCK / 2,
        }
    }
}

/// Blocks that follow each other.
#[derive(Clone, Copy, Debug)]
pub struct QuantizedRow {
    /// Codes, one block's behind the other's.
    pub codes: *const u8,
    /// A scale for each block.
    pub scales: *const f16,
    /// An offset for each block, if there are any, added to the scale times the distance of the code from
    /// [`QuantizedRow::zero`].
    pub offsets: Option<NonNull<f16>>,
    /// The code of zero.
    pub zero: f32,
    /// How many blocks.
    pub blocks: usize,
    /// Where their numbers go.
    pub to: *mut f32,
}

/// Rows that lie equally far apart. Their results, a float each, follow each other.
#[derive(Clone, Copy, Debug)]
pub struct QuantizedMatrix {
    /// The first.
    pub first: QuantizedRow,
    /// How many there are.
    pub count: usize,
    /// From a row's codes to the next row's.
    pub codes_step: isize,
    /// From a row's first scale to the next row's.
    pub scales_step: isize,
    /// From a row's first offset to the next row's.
    pub offsets_step: isize,
}

impl QuantizedMatrix {
    /// A row.
    #[inline(always)]
    pub fn row(&self, number: usize) -> QuantizedRow {
        let QuantizedMatrix { first, codes_step, scales_step, offsets_step, .. } = *self;
        let moved = |step: isize| number as isize * step;
        let offset = |start: NonNull<f16>| NonNull::new(start.as_ptr().wrapping_offset(moved(offsets_step)));
        QuantizedRow {
            codes: first.codes.wrapping_offset(moved(codes_step)),
            scales: first.scales.wrapping_offset(moved(scales_step)),
            offsets: first.offsets.and_then(offset),
            to: first.to.wrapping_add(number),
            ..first
        }
    }
}

versioned! {
    /// A loop over blocks.
    DequantizeLoop, dequantize_loop, base_dequantize_loop, fn(row: &QuantizedRow)
}

/// The loop that writes the numbers of blocks.
///
/// # Safety
/// Codes, scales and offsets are readable for all blocks, and `to` is writable for all numbers, none of which
/// overlap.
pub fn dequantize(layout: CodeLayout) -> unsafe fn(row: &QuantizedRow) {
    match layout {
        CodeLayout::Bytes => dequantize_loop::<Bytes>(),
        CodeLayout::Nibbles => dequantize_loop::<Nibbles>(),
    }
}

struct Bytes;
impl DequantizeLoop for Bytes {
    #[inline(always)]
    unsafe fn run<I: Isa>(row: &QuantizedRow) {
        // Copies, which no store can change as far as the compiler knows: else nothing is vectorized.
        let QuantizedRow { codes, scales, offsets, zero, blocks, to } = *row;
        for block in 0..blocks {
            // SAFETY: the caller's promise.
            unsafe {
                let (scale, offset) = (widen_f16(scales.add(block).read()), offset(offsets, block));
                let (codes, to) = (codes.add(block * QUANTIZED_BLOCK), to.add(block * QUANTIZED_BLOCK));
                prefetch_l2(codes.wrapping_add(PACKED_PREFETCH_BYTES), QUANTIZED_BLOCK);
                let codes: [u8; QUANTIZED_BLOCK] = codes.cast::<[u8; QUANTIZED_BLOCK]>().read();
                for (j, &code) in codes.iter().enumerate() {
                    *to.add(j) = (f32::from(code) - zero) * scale + offset;
                }
            }
        }
    }
}

struct Nibbles;
impl DequantizeLoop for Nibbles {
    #[inline(always)]
    unsafe fn run<I: Isa>(row: &QuantizedRow) {
        const HALF: usize = QUANTIZED_BLOCK / 2;
        let QuantizedRow { codes, scales, offsets, zero, blocks, to } = *row;
        for block in 0..blocks {
            // SAFETY: the caller's promise.
            unsafe {
                let (scale, offset) = (widen_f16(scales.add(block).read()), offset(offsets, block));
                let (codes, to) = (codes.add(block * HALF), to.add(block * QUANTIZED_BLOCK));
                prefetch_l2(codes.wrapping_add(PACKED_PREFETCH_BYTES), HALF);
                let pairs: [u8; HALF] = codes.cast::<[u8; HALF]>().read();
                for (j, pair) in pairs.iter().enumerate() {
                    *to.add(j) = (f32::from(pair & 15) - zero) * scale + offset;
                }
                for (j, pair) in pairs.iter().enumerate() {
                    *to.add(HALF + j) = (f32::from(pair >> 4) - zero) * scale + offset;
                }
            }
        }
    }
}

/// The offset of a block; -0, which changes no number, where there are none.
///
/// # Safety
/// As [`dequantize`].
#[inline(always)]
pub(super) unsafe fn offset(offsets: Option<NonNull<f16>>, block: usize) -> f32 {
    // SAFETY: the caller's promise.
    offsets.map_or(-0.0, |offsets| widen_f16(unsafe { offsets.add(block).read() }))
}
