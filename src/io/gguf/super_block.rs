//! Blocks of 256 numbers in parts of 16 or 32, whose scales are packed in a few bits each and
//! multiplied by one of the block.

use crate::io::gguf::block::float;
use crate::io::gguf::narrow_block::non_linear;

/// 2 bits a number; parts of 16 with 4 bits of scale and 4 of offset.
pub fn q2_k(block: &[u8], y: &mut [f32]) {
    let (scales, packed) = (&block[..16], &block[16..80]);
    let (scale, offset) = (float(block, 80), float(block, 82));
    for (part, y) in y.chunks_exact_mut(16).enumerate() {
        let (scale, offset) = (scale * f32::from(scales[part] & 15), offset * f32::from(scales[part] >> 4));
        let (from, shift) = two_bits(part);
        y.iter_mut().zip(&packed[from..]).for_each(|(y, q)| *y = scale * f32::from(q >> shift & 3) - offset);
    }
}

/// Where the 2 bits of a part of 16 numbers are: the first byte, and the bit. Half a block is in 32
/// bytes, of which every part has 2 bits of every other 16.
fn two_bits(part: usize) -> (usize, usize) {
    (part / 8 * 32 + part % 2 * 16, part % 8 / 2 * 2)
}

/// 3 bits a number, of which the third is apart; parts of 16 with 6 bits of scale.
pub fn q3_k(block: &[u8], y: &mut [f32]) {
    let (third, packed, scales) = (&block[..32], &block[32..96], &block[96..108]);
    let scale = float(block, 108);
    for (part, y) in y.chunks_exact_mut(16).enumerate() {
        let low = scales[part % 8] >> (part / 8 * 4) & 15;
        let high = scales[8 + part % 4] >> (part / 4 * 2) & 3;
        let scale = scale * (f32::from(low | high << 4) - 32.0);
        let (from, shift) = two_bits(part);
        let third = &third[from % 32..];
        for (i, y) in y.iter_mut().enumerate() {
            let missing = if third[i] >> (part / 2) & 1 == 0 { 4.0 } else { 0.0 };
            *y = scale * (f32::from(packed[from + i] >> shift & 3) - missing);
        }
    }
}

/// The 6 bits of scale and of offset of a part of 32 numbers, from 12 bytes.
fn six_bits(packed: &[u8], part: usize) -> (f32, f32) {
    let (scale, offset) = if part < 4 {
        (packed[part] & 63, packed[part + 4] & 63)
    } else {
        let low = packed[part + 4];
        (low & 15 | packed[part - 4] >> 6 << 4, low >> 4 | packed[part] >> 6 << 4)
    };
    (f32::from(scale), f32::from(offset))
}

/// 4 bits a number; parts of 32 with 6 bits of scale and of offset.
pub fn q4_k(block: &[u8], y: &mut [f32]) {
    four_bits(block, &block[16..], y, |_, _| 0);
}

/// The parts of a block of `Q4_K`: what its codes are multiplied with, what is added, and the codes.
pub fn q4_k_parts(block: &[u8]) -> impl Iterator<Item = (f32, f32, [u8; 32])> {
    let (scale, offset) = (float(block, 0), float(block, 2));
    (0..8).map(move |part| {
        let (own_scale, own_offset) = six_bits(&block[4..16], part);
        let packed = &block[16 + part / 2 * 32..];
        let codes = std::array::from_fn(|i| packed[i] >> (part % 2 * 4) & 15);
        (scale * own_scale, -offset * own_offset, codes)
    })
}

/// 5 bits a number, of which the fifth is apart; parts as in `Q4_K`.
pub fn q5_k(block: &[u8], y: &mut [f32]) {
    let fifth = &block[16..48];
    four_bits(block, &block[48..], y, |part, i| (fifth[i] >> part & 1) * 16);
}

/// Numbers of 4 bits and `more`, by part and place in it; two parts share 32 bytes.
fn four_bits(block: &[u8], packed: &[u8], y: &mut [f32], more: impl Fn(usize, usize) -> u8) {
    let (scale, offset) = (float(block, 0), float(block, 2));
    for (part, y) in y.chunks_exact_mut(32).enumerate() {
        let (own_scale, own_offset) = six_bits(&block[4..16], part);
        let (scale, offset) = (scale * own_scale, offset * own_offset);
        let packed = &packed[part / 2 * 32..];
        for (i, y) in y.iter_mut().enumerate() {
            let low = packed[i] >> (part % 2 * 4) & 15;
            *y = scale * f32::from(low + more(part, i)) - offset;
        }
    }
}

/// 6 bits a number, of which two are apart; parts of 16 with 8 bits of scale.
pub fn q6_k(block: &[u8], y: &mut [f32]) {
    let (low, high, scales) = (&block[..128], &block[128..192], &block[192..208]);
    let scale = float(block, 208);
    for (part, y) in y.chunks_exact_mut(16).enumerate() {
        let scale = scale * f32::from(scales[part] as i8);
        // Half a block is four rows of 32: their low bits in 64 bytes, their high ones in 32.
        let (half, row, column) = (part / 8, part % 8 / 2, part % 2 * 16);
        for (i, y) in y.iter_mut().enumerate() {
            let at = column + i;
            let low = low[half * 64 + row % 2 * 32 + at] >> (row / 2 * 4) & 15;
            let high = high[half * 32 + at] >> (row * 2) & 3;
            *y = scale * (f32::from(low | high << 4) - 32.0);
        }
    }
}

/// 4 bits a number, of the non-linear table; parts of 32 with 6 bits of scale.
pub fn iq4_xs(block: &[u8], y: &mut [f32]) {
    let scale = float(block, 0);
    let high = u16::from_le_bytes([block[2], block[3]]);
    let (low, packed) = (&block[4..8], &block[8..]);
    for (part, y) in y.chunks_exact_mut(32).enumerate() {
        let low = low[part / 2] >> (part % 2 * 4) & 15;
        let own = f32::from(low) + f32::from((high >> (part * 2) & 3) << 4) - 32.0;
        non_linear(&packed[part * 16..(part + 1) * 16], scale * own, y);
    }
}
