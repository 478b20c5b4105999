//! Blocks of 32 numbers. Two numbers share a byte: the lower four bits are of one in the first half
//! of the block, the upper four of the one 16 places behind.

use crate::io::gguf::block::float;

/// Half a block: pairs of numbers in its bytes are this many apart.
const HALF: usize = 16;

/// What the 4 bits of `IQ4_NL` and `IQ4_XS` stand for: finer near 0, as weights are.
const NON_LINEAR: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// The numbers of 4 bits with a sign, two of exponent and one of mantissa, doubled to be whole.
const E2M1: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// Numbers made of their 4 bits and their place in the block.
fn halves(packed: &[u8], y: &mut [f32], value: impl Fn(usize, u8) -> f32) {
    for (i, &pair) in packed.iter().enumerate() {
        y[i] = value(i, pair & 15);
        y[i + HALF] = value(i + HALF, pair >> 4);
    }
}

/// The fifth bit of each number of a block, from 4 bytes at a place.
fn fifth(block: &[u8], at: usize) -> impl Fn(usize) -> u8 {
    let bits = u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
    move |i| (bits >> i & 1) as u8 * 16
}

pub fn q4_0(block: &[u8], y: &mut [f32]) {
    let scale = float(block, 0);
    halves(&block[2..], y, |_, q| scale * (f32::from(q) - 8.0));
}

pub fn q4_1(block: &[u8], y: &mut [f32]) {
    let (scale, offset) = (float(block, 0), float(block, 2));
    halves(&block[4..], y, |_, q| scale * f32::from(q) + offset);
}

pub fn q5_0(block: &[u8], y: &mut [f32]) {
    let (scale, fifth) = (float(block, 0), fifth(block, 2));
    halves(&block[6..], y, |i, q| scale * (f32::from(q | fifth(i)) - 16.0));
}

pub fn q5_1(block: &[u8], y: &mut [f32]) {
    let (scale, offset, fifth) = (float(block, 0), float(block, 2), fifth(block, 4));
    halves(&block[8..], y, |i, q| scale * f32::from(q | fifth(i)) + offset);
}

pub fn q8_0(block: &[u8], y: &mut [f32]) {
    let scale = float(block, 0);
    y.iter_mut().zip(&block[2..]).for_each(|(y, &q)| *y = scale * f32::from(q as i8));
}

pub fn iq4_nl(block: &[u8], y: &mut [f32]) {
    non_linear(&block[2..], float(block, 0), y);
}

/// Numbers of the non-linear table, scaled.
pub fn non_linear(packed: &[u8], scale: f32, y: &mut [f32]) {
    halves(packed, y, |_, q| scale * f32::from(NON_LINEAR[usize::from(q)]));
}

/// The OCP's microscaling format: the scale is a power of two.
pub fn mxfp4(block: &[u8], y: &mut [f32]) {
    let scale = mxfp4_scale(block);
    halves(&block[1..], y, |_, q| scale * f32::from(E2M1[usize::from(q)]));
}

/// The scale of a block of `MXFP4`, for numbers that are doubled to be whole.
pub fn mxfp4_scale(block: &[u8]) -> f32 {
    2f64.powi(i32::from(block[0]) - 128) as f32
}
