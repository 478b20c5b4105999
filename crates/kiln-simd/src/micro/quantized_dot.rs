//! Dot products of packed numbers with floats, so that a product with a few rows reads codes and writes
//! nothing but its sums.

use crate::micro::dequantize::{CodeLayout, QUANTIZED_BLOCK, QuantizedRow, offset};
use crate::micro::half16::widen_f16;
use crate::micro::isa::{Isa, versioned};
use crate::micro::math::fma;

/// A vector to multiply rows of packed numbers with.
#[derive(Clone, Copy, Debug)]
pub struct BlockedVector {
    /// As many floats as a row has numbers.
    pub elements: *const f32,
    /// The sum of each block's, which offsets are multiplied by.
    pub sums: *const f32,
}

versioned! {
    /// A sum over the blocks of a row.
    DotLoop, dot_loop, base_dot_loop, fn(row: &QuantizedRow, vector: &BlockedVector)
}

/// A loop that writes the dot product of a row with a vector to the row's `to`. Scales multiply sums over
/// their block.
///
/// # Safety
/// Codes, scales, offsets and vector are readable for all blocks, and one float is writable.
pub type QuantizedDotFn = unsafe fn(row: &QuantizedRow, vector: &BlockedVector);

/// The loop for rows of a layout and a code of zero; `None` where their distance does not fit in a byte.
pub fn quantized_dot(layout: CodeLayout, zero: f32) -> Option<QuantizedDotFn> {
    match layout {
        CodeLayout::Bytes if zero == 128.0 => Some(dot_loop::<Bytes>()),
        CodeLayout::Nibbles if (0.0..=128.0).contains(&zero) && zero.fract() == 0.0 => {
            Some(dot_loop::<Nibbles>())
        }
        CodeLayout::Bytes | CodeLayout::Nibbles => None,
    }
}

/// Lanes of a partial sum: a register.
const LANES: usize = 8;
/// Blocks whose scales are widened together.
const SOME: usize = 16;

type Block = [i8; QUANTIZED_BLOCK];

/// The blocks of a row, from their codes less the code of zero.
#[inline(always)]
unsafe fn dot<I: Isa>(row: &QuantizedRow, vector: &BlockedVector, block: impl Fn(usize) -> Block) {
    let (mut total, mut offsets) = ([0f32; LANES], 0f32);
    for first in (0..row.blocks).step_by(SOME) {
        let some = SOME.min(row.blocks - first);
        let mut scales = [0f32; SOME];
        for (i, scale) in scales[..some].iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            *scale = widen_f16(unsafe { row.scales.add(first + i).read() });
        }
        for (i, &scale) in scales[..some].iter().enumerate() {
            let at = first + i;
            // SAFETY: the caller's promise.
            let elements = unsafe {
                vector.elements.add(at * QUANTIZED_BLOCK).cast::<[f32; QUANTIZED_BLOCK]>().read_unaligned()
            };
            let sums = block_sums::<I>(&block(at), &elements);
            for (total, sum) in total.iter_mut().zip(sums) {
                *total = fma::<I>(sum, scale, *total);
            }
            if row.offsets.is_some() {
                // SAFETY: the caller's promise.
                unsafe { offsets += offset(row.offsets, at) * vector.sums.add(at).read() };
            }
        }
    }
    // SAFETY: the caller's promise.
    unsafe { row.to.write(total.iter().sum::<f32>() + offsets) }
}

/// Products of a block's codes, summed by lane.
#[inline(always)]
fn block_sums<I: Isa>(codes: &Block, elements: &[f32; QUANTIZED_BLOCK]) -> [f32; LANES] {
    let mut sums = [0f32; LANES];
    for part in 0..QUANTIZED_BLOCK / LANES {
        for (lane, sum) in sums.iter_mut().enumerate() {
            let at = part * LANES + lane;
            *sum = fma::<I>(f32::from(codes[at]), elements[at], *sum);
        }
    }
    sums
}

struct Bytes;
impl DotLoop for Bytes {
    #[inline(always)]
    unsafe fn run<I: Isa>(row: &QuantizedRow, vector: &BlockedVector) {
        let (codes, zero) = (row.codes, row.zero as u8);
        // SAFETY: the caller's promise.
        let block = |at: usize| unsafe {
            let codes: [u8; QUANTIZED_BLOCK] =
                codes.add(at * QUANTIZED_BLOCK).cast::<[u8; QUANTIZED_BLOCK]>().read();
            codes.map(|code| code.wrapping_sub(zero) as i8)
        };
        // SAFETY: the caller's promise.
        unsafe { dot::<I>(row, vector, block) }
    }
}

struct Nibbles;
impl DotLoop for Nibbles {
    #[inline(always)]
    unsafe fn run<I: Isa>(row: &QuantizedRow, vector: &BlockedVector) {
        const HALF: usize = QUANTIZED_BLOCK / 2;
        let (codes, zero) = (row.codes, row.zero as u8);
        // SAFETY: the caller's promise.
        let block = |at: usize| unsafe {
            let pairs: [u8; HALF] = codes.add(at * HALF).cast::<[u8; HALF]>().read();
            let mut block = [0i8; QUANTIZED_BLOCK];
            for (j, pair) in pairs.iter().enumerate() {
                block[j] = (pair & 15).wrapping_sub(zero) as i8;
                block[HALF + j] = (pair >> 4).wrapping_sub(zero) as i8;
            }
            block
        };
        // SAFETY: the caller's promise.
        unsafe { dot::<I>(row, vector, block) }
    }
}
