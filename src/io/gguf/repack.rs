//! Blocks of every format as blocks of those that kiln computes with packed.

use std::borrow::Cow;

use half::f16;
use rayon::prelude::*;

use crate::io::gguf::block::{BlockFormat, CHUNK, float};
use crate::io::gguf::narrow_block::mxfp4_scale;
use crate::io::gguf::super_block::q4_k_parts;
use crate::tensor::quantized::{BLOCK, Quantization};

/// The largest code of `Q8_0`.
const LARGEST: f32 = 127.0;

impl BlockFormat {
    /// How a parameter of this format stays packed, [`LoadOpts::quantized`](crate::LoadOpts::quantized) given.
    ///
    /// `Q8_0`, `Q4_0` and `Q4_1` stay as they are. `Q4_K` keeps its codes, and `Q5_0`, `IQ4_NL` and `MXFP4` their
    /// numbers, but for the rounding of scales to 16 bits. What the others stand for is rounded to 8 bits, by
    /// at most 1/254 of the largest of 32 numbers.
    ///
    /// # Examples
    /// ```
    /// use kiln::Quantization;
    /// use kiln::io::gguf::BlockFormat;
    /// assert_eq!(BlockFormat::Q4_K.quantization(), Quantization::Q4_1);
    /// assert_eq!(BlockFormat::Q6_K.quantization(), Quantization::Q8_0);
    /// ```
    pub fn quantization(self) -> Quantization {
        use BlockFormat::*;
        match self {
            Q4_0 => Quantization::Q4_0,
            Q4_1 | Q4_K => Quantization::Q4_1,
            Q8_0 | Q5_0 | Q5_1 | Q2_K | Q3_K | Q5_K | Q6_K | IQ4_NL | IQ4_XS | MXFP4 => Quantization::Q8_0,
        }
    }

    /// Whole blocks as those of [`BlockFormat::quantization`], by all threads.
    pub(crate) fn repack(self, bytes: &[u8]) -> Cow<'_, [u8]> {
        use BlockFormat::*;
        match self {
            Q4_0 | Q4_1 | Q8_0 => Cow::Borrowed(bytes),
            Q4_K => self.each(bytes, |block, to| {
                let blocks = to.chunks_exact_mut(Quantization::Q4_1.block_bytes());
                q4_k_parts(block).zip(blocks).for_each(|((scale, offset, codes), to)| {
                    to[..2].copy_from_slice(&f16::from_f32(scale).to_le_bytes());
                    to[2..4].copy_from_slice(&f16::from_f32(offset).to_le_bytes());
                    let (lower, upper) = codes.split_at(BLOCK / 2);
                    let pairs = to[4..].iter_mut().zip(lower.iter().zip(upper));
                    pairs.for_each(|(to, (lower, upper))| *to = lower | upper << 4);
                });
            }),
            Q5_0 | IQ4_NL => self.rounded(bytes, |block| Some(float(block, 0))),
            MXFP4 => self.rounded(bytes, |block| Some(mxfp4_scale(block))),
            Q5_1 | Q2_K | Q3_K | Q5_K | Q6_K | IQ4_XS => self.rounded(bytes, |_| None),
        }
    }

    /// As `Q8_0`, by the scale whose multiples a block's numbers are, where there is one.
    fn rounded(self, bytes: &[u8], scale: impl Fn(&[u8]) -> Option<f32> + Sync) -> Cow<'_, [u8]> {
        self.each(bytes, |block, to| {
            let mut numbers = [0.0; 256];
            let numbers = &mut numbers[..self.block_len()];
            self.decode_block(block, numbers);
            let blocks = to.chunks_exact_mut(Quantization::Q8_0.block_bytes());
            numbers
                .chunks_exact(BLOCK)
                .zip(blocks)
                .for_each(|(numbers, to)| round(numbers, scale(block), to));
        })
    }

    fn each(self, bytes: &[u8], repack: impl Fn(&[u8], &mut [u8]) + Sync) -> Cow<'static, [u8]> {
        let own = self.block_bytes();
        let to = self.block_len() / BLOCK * self.quantization().block_bytes();
        let mut blocks = vec![0; bytes.len() / own * to];
        let chunks = blocks.par_chunks_mut(CHUNK * to).zip(bytes.par_chunks(CHUNK * own));
        chunks.for_each(|(blocks, bytes)| {
            bytes.chunks_exact(own).zip(blocks.chunks_exact_mut(to)).for_each(|(from, to)| repack(from, to));
        });
        Cow::Owned(blocks)
    }
}

/// 32 numbers as a block of `Q8_0`. One that is infinite or NaN makes all of them NaN.
fn round(numbers: &[f32], scale: Option<f32>, to: &mut [u8]) {
    let largest = numbers.iter().fold(0f32, |largest, x| largest.max(x.abs()));
    let is_finite = numbers.iter().all(|x| x.is_finite());
    let scale = if is_finite { scale.unwrap_or(largest / LARGEST) } else { f32::NAN };
    to[..2].copy_from_slice(&f16::from_f32(scale).to_le_bytes());
    let steps = if scale == 0.0 { 0.0 } else { scale.recip() };
    for (to, x) in to[2..].iter_mut().zip(numbers) {
        *to = (x * steps).round().clamp(-LARGEST, LARGEST) as i8 as u8;
    }
}
