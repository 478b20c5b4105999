//! Blocks of bytes as files have them: a scale, perhaps an offset, and the codes.

use half::f16;

use crate::base::{DType, Device, Result, Shape};
use crate::tensor::Tensor;
use crate::tensor::quantized::{BLOCK, Quantization, QuantizedTensor, grouped};

/// Turns the sign bit of a code of `Q8_0`, which files have as a signed byte, into an offset of 128.
const SIGN: u8 = 0x80;

impl QuantizedTensor {
    /// One in host memory, of the blocks of a file; `None` unless there are as many as the shape takes.
    pub(crate) fn from_blocks(
        quantization: Quantization,
        shape: &Shape,
        bytes: &[u8],
    ) -> Option<QuantizedTensor> {
        let rows = shape.last().is_some_and(|row| row.is_multiple_of(BLOCK));
        let count = shape.numel() / BLOCK;
        if !rows || bytes.len() != count.checked_mul(quantization.block_bytes())? {
            return None;
        }
        let (code_bytes, has_offset) = (quantization.code_bytes(), quantization.has_offset());
        let mut codes = Vec::with_capacity(count * code_bytes);
        let (mut scales, mut offsets) = (Vec::with_capacity(count), Vec::new());
        for block in bytes.chunks_exact(quantization.block_bytes()) {
            let (head, tail) = block.split_at(block.len() - code_bytes);
            let mut floats = head.as_chunks().0.iter().map(|&bytes| f16::from_le_bytes(bytes));
            scales.extend(floats.next());
            offsets.extend(floats.next());
            codes.extend_from_slice(tail);
        }
        if quantization == Quantization::Q8_0 {
            codes.iter_mut().for_each(|code| *code ^= SIGN);
        }
        let host = Device::cpu();
        let floats = |values| Tensor::from_vec(values, grouped(shape, 1), host);
        Some(QuantizedTensor {
            quantization,
            shape: shape.clone(),
            dtype: DType::F32,
            codes: Tensor::from_vec(codes, grouped(shape, code_bytes), host),
            scales: floats(scales),
            offsets: has_offset.then(|| floats(offsets)),
        })
    }

    /// The blocks of a file.
    ///
    /// # Errors
    /// What computing the parts says.
    #[track_caller]
    pub(crate) fn to_blocks(&self) -> Result<Vec<u8>> {
        let (mut codes, scales) = (self.codes.to_vec::<u8>()?, self.scales.to_vec::<f16>()?);
        let offsets = self.offsets.as_ref().map(|offsets| offsets.to_vec::<f16>()).transpose()?;
        if self.quantization == Quantization::Q8_0 {
            codes.iter_mut().for_each(|code| *code ^= SIGN);
        }
        let mut blocks = Vec::with_capacity(self.bytes());
        for (i, codes) in codes.chunks_exact(self.quantization.code_bytes()).enumerate() {
            let floats = [Some(&scales), offsets.as_ref()].into_iter().flatten();
            floats.for_each(|floats| blocks.extend(floats[i].to_le_bytes()));
            blocks.extend(codes);
        }
        Ok(blocks)
    }
}
