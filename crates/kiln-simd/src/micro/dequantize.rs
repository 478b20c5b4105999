//! Numbers of codes: blocks of 32 share a scale, and perhaps an offset.

use std::ptr::NonNull;

use half::f16;

use crate::micro::half16::widen_f16;
use crate::micro::isa::{Isa, versioned};

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
    /// An offset for each block, if numbers are code times scale plus offset; else they are scale times the
    /// distance of the code from [`QuantizedRow::zero`].
    pub offsets: Option<NonNull<f16>>,
    /// The code of zero.
    pub zero: f32,
    /// How many blocks.
    pub blocks: usize,
    /// Where their numbers go.
    pub to: *mut f32,
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
        // SAFETY: the caller's promise.
        unsafe { blocks::<{ QUANTIZED_BLOCK }>(row, |codes| codes.map(f32::from)) }
    }
}

struct Nibbles;
impl DequantizeLoop for Nibbles {
    #[inline(always)]
    unsafe fn run<I: Isa>(row: &QuantizedRow) {
        let halves = |pairs: &[u8; QUANTIZED_BLOCK / 2]| {
            let mut codes = [0.0; QUANTIZED_BLOCK];
            for (j, pair) in pairs.iter().enumerate() {
                codes[j] = f32::from(pair & 15);
                codes[j + QUANTIZED_BLOCK / 2] = f32::from(pair >> 4);
            }
            codes
        };
        // SAFETY: the caller's promise.
        unsafe { blocks::<{ QUANTIZED_BLOCK / 2 }>(row, halves) }
    }
}

/// # Safety
/// As [`dequantize`].
#[inline(always)]
unsafe fn blocks<const BYTES: usize>(
    row: &QuantizedRow,
    codes: impl Fn(&[u8; BYTES]) -> [f32; QUANTIZED_BLOCK],
) {
    // Copies, which no store can change as far as the compiler knows: else nothing is vectorized.
    let QuantizedRow { codes: bytes, scales, offsets, zero, blocks, to } = *row;
    for block in 0..blocks {
        // SAFETY: the caller's promise; arrays of bytes and floats have no padding, and the numbers overlap
        // nothing.
        unsafe {
            let codes = codes(&*bytes.add(block * BYTES).cast());
            let scale = widen_f16(scales.add(block).read());
            let to = &mut *to.add(block * QUANTIZED_BLOCK).cast::<[f32; QUANTIZED_BLOCK]>();
            match offsets {
                None => to.iter_mut().zip(codes).for_each(|(to, code)| *to = (code - zero) * scale),
                Some(offsets) => {
                    let offset = widen_f16(offsets.add(block).read());
                    to.iter_mut().zip(codes).for_each(|(to, code)| *to = code * scale + offset);
                }
            }
        }
    }
}
