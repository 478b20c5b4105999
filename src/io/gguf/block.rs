//! Formats that store several numbers in a block of bytes, with a scale of their own: what a block
//! is, and its numbers. The formats are those of ggml, the library of llama.cpp.

use half::f16;
use rayon::prelude::*;

use crate::io::gguf::{narrow_block, super_block};
use crate::tensor::quantized::{BLOCK, Quantization};

/// A format of blocks. `Q4_0` has 4 bits a number and a scale, `Q4_1` an offset too; those with `K` have
/// blocks of 256 numbers with scales for parts of them, which are packed themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, non_camel_case_types)] // The names are the format's own.
#[non_exhaustive]
pub enum BlockFormat {
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q2_K,
    Q3_K,
    Q4_K,
    Q5_K,
    Q6_K,
    IQ4_NL,
    IQ4_XS,
    MXFP4,
}

/// Blocks that one thread decodes at a time.
pub(super) const CHUNK: usize = 1 << 10;

/// What a format is.
struct Row {
    format: BlockFormat,
    name: &'static str,
    /// Its number in files.
    id: u32,
    len: usize,
    bytes: usize,
    decode: fn(&[u8], &mut [f32]),
}

#[rustfmt::skip]
const ROWS: [Row; 13] = {
    use BlockFormat::*;
    use narrow_block as n;
    use super_block as s;
    [
        Row { format: Q4_0, name: "Q4_0", id: 2, len: BLOCK, bytes: Quantization::Q4_0.block_bytes(), decode: n::q4_0 },
        Row { format: Q4_1, name: "Q4_1", id: 3, len: BLOCK, bytes: Quantization::Q4_1.block_bytes(), decode: n::q4_1 },
        Row { format: Q5_0, name: "Q5_0", id: 6, len: 32, bytes: 22, decode: n::q5_0 },
        Row { format: Q5_1, name: "Q5_1", id: 7, len: 32, bytes: 24, decode: n::q5_1 },
        Row { format: Q8_0, name: "Q8_0", id: 8, len: BLOCK, bytes: Quantization::Q8_0.block_bytes(), decode: n::q8_0 },
        Row { format: Q2_K, name: "Q2_K", id: 10, len: 256, bytes: 84, decode: s::q2_k },
        Row { format: Q3_K, name: "Q3_K", id: 11, len: 256, bytes: 110, decode: s::q3_k },
        Row { format: Q4_K, name: "Q4_K", id: 12, len: 256, bytes: 144, decode: s::q4_k },
        Row { format: Q5_K, name: "Q5_K", id: 13, len: 256, bytes: 176, decode: s::q5_k },
        Row { format: Q6_K, name: "Q6_K", id: 14, len: 256, bytes: 210, decode: s::q6_k },
        Row { format: IQ4_NL, name: "IQ4_NL", id: 20, len: 32, bytes: 18, decode: n::iq4_nl },
        Row { format: IQ4_XS, name: "IQ4_XS", id: 23, len: 256, bytes: 136, decode: s::iq4_xs },
        Row { format: MXFP4, name: "MXFP4", id: 39, len: 32, bytes: 17, decode: n::mxfp4 },
    ]
};

impl BlockFormat {
    /// All formats.
    pub fn all() -> impl Iterator<Item = BlockFormat> {
        ROWS.iter().map(|row| row.format)
    }
    /// The format of a name, such as `"Q4_K"`.
    pub fn of(name: &str) -> Option<BlockFormat> {
        ROWS.iter().find(|row| row.name == name).map(|row| row.format)
    }
    /// The format of a number in files.
    pub fn of_id(id: u32) -> Option<BlockFormat> {
        ROWS.iter().find(|row| row.id == id).map(|row| row.format)
    }

    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }
    /// Its name.
    pub fn name(self) -> &'static str {
        self.row().name
    }
    /// Its number in files.
    pub fn id(self) -> u32 {
        self.row().id
    }
    /// How many numbers a block has.
    pub fn block_len(self) -> usize {
        self.row().len
    }
    /// How many bytes a block takes.
    pub fn block_bytes(self) -> usize {
        self.row().bytes
    }
    /// The bytes of so many numbers; `None` unless they are whole blocks.
    pub fn bytes_of(self, numel: usize) -> Option<usize> {
        numel
            .is_multiple_of(self.block_len())
            .then_some(numel / self.block_len())?
            .checked_mul(self.block_bytes())
    }

    /// The numbers of whole blocks, by all threads; what is behind the last whole block is left out.
    ///
    /// # Examples
    /// ```
    /// use kiln::io::gguf::BlockFormat;
    /// let mut block = vec![0x00, 0x3c]; // the scale: 1.0 as an f16
    /// block.extend(0..32u8);
    /// let numbers = BlockFormat::Q8_0.decode(&block);
    /// assert_eq!(numbers[..4], [0.0, 1.0, 2.0, 3.0]);
    /// ```
    pub fn decode(self, bytes: &[u8]) -> Vec<f32> {
        let row = self.row();
        let mut numbers = vec![0.0; bytes.len() / row.bytes * row.len];
        let chunks = numbers.par_chunks_mut(CHUNK * row.len).zip(bytes.par_chunks(CHUNK * row.bytes));
        chunks.for_each(|(numbers, bytes)| {
            let blocks = numbers.chunks_exact_mut(row.len).zip(bytes.chunks_exact(row.bytes));
            blocks.for_each(|(numbers, block)| (row.decode)(block, numbers));
        });
        numbers
    }

    /// The numbers of a block.
    pub(super) fn decode_block(self, block: &[u8], numbers: &mut [f32]) {
        (self.row().decode)(block, numbers);
    }
}

/// The 16-bit float at a place of a block.
pub(super) fn float(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_the_order_of_the_formats() {
        for format in BlockFormat::all() {
            assert_eq!(format.row().format, format);
            assert_eq!(BlockFormat::of(format.name()), Some(format));
            assert_eq!(BlockFormat::of_id(format.id()), Some(format));
        }
        assert_eq!(BlockFormat::Q4_K.bytes_of(512), Some(288));
        assert_eq!(BlockFormat::Q4_K.bytes_of(500), None);
    }
}
