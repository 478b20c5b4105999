//! Raw tensors, of types that kiln does not compute with.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use half::f16;

use crate::base::{DType, Device, Element, Result, Shape};
use crate::io::format;
#[cfg(feature = "gguf")]
use crate::io::gguf::BlockFormat;
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;
use crate::tensor::quantized::{Quantization, QuantizedTensor};

/// A tensor of a type that kiln does not compute with: the format's name of
/// its type, its shape and its bytes, which are saved as they are.
/// [`RawTensor::to_tensor`] converts the common ones.
#[derive(Clone)]
pub struct RawTensor {
    dtype: String,
    shape: Shape,
    owner: Arc<dyn AsRef<[u8]> + Send + Sync>,
    range: Range<usize>,
}

impl RawTensor {
    /// A tensor from the name of its type in the safetensors format (`"U16"`,
    /// `"F8_E4M3"`, `"C64"`) and its bytes: little-endian, in row-major order.
    ///
    /// # Errors
    /// A type that kiln computes with, or bytes of another number than the
    /// type and shape take.
    #[track_caller]
    pub fn new(dtype: &str, shape: impl Into<Shape>, bytes: Vec<u8>) -> Result<RawTensor> {
        let (site, shape, range) = (CallSite::here("RawTensor::new"), shape.into(), 0..bytes.len());
        if format::dtype_of(dtype).is_some() {
            return Err(site.error("a type that no Tensor has", dtype, &[]));
        }
        let wrong = |found| site.error("as many bytes as the type and shape take", found, &[]);
        format::check(dtype, &shape, range.len()).map_err(wrong)?;
        Ok(RawTensor::within(dtype, shape, Arc::new(bytes), range))
    }

    /// One whose bytes are a part of what `owner` holds.
    pub(crate) fn within(
        dtype: &str,
        shape: Shape,
        owner: Arc<dyn AsRef<[u8]> + Send + Sync>,
        range: Range<usize>,
    ) -> RawTensor {
        RawTensor { dtype: dtype.into(), shape, owner, range }
    }

    /// The name of its type in the safetensors format.
    pub fn dtype(&self) -> &str {
        &self.dtype
    }
    /// Its shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }
    /// Its bytes: little-endian, in row-major order. Of a file they are mapped,
    /// and read when they are looked at.
    pub fn bytes(&self) -> &[u8] {
        &(*self.owner).as_ref()[self.range.clone()]
    }

    /// The same values as a tensor in host memory: `I8`, `I16` and `U16` as
    /// `I32`, `U64` as `I64`, `F8_E4M3` and `F8_E5M2` as `F16`, all exactly;
    /// with the feature `gguf`, its blocks as `F32`.
    /// Invalid for other types, and for a `U64` above the largest `I64`.
    #[track_caller]
    pub fn to_tensor(&self) -> Tensor {
        self.to_tensor_at(CallSite::here("to_tensor"))
    }

    /// [`RawTensor::to_tensor`] for a call.
    pub(crate) fn to_tensor_at(&self, site: CallSite) -> Tensor {
        let _line = site.span.enter();
        match self.dtype() {
            "I8" => self.each(|[byte]| i32::from(byte as i8)),
            "I16" => self.each(|pair| i32::from(i16::from_le_bytes(pair))),
            "U16" => self.each(|pair| i32::from(u16::from_le_bytes(pair))),
            "U64" => match self.values(u64::from_le_bytes).find(|&value| i64::try_from(value).is_err()) {
                None => self.each(i64::from_le_bytes),
                Some(large) => site.invalid("values that an i64 can have", large.to_string(), &[]),
            },
            "F8_E4M3" => self.each(|[byte]| e4m3(byte)),
            // The upper half of an F16.
            "F8_E5M2" => self.each(|[byte]| f16::from_bits(u16::from(byte) << 8)),
            #[cfg(feature = "gguf")]
            packed if let Some(format) = BlockFormat::of(packed) => {
                Tensor::from_vec(format.decode(self.bytes()), self.shape.clone(), Device::cpu())
            }
            other => site.invalid("one of I8, I16, U16, U64, F8_E4M3, F8_E5M2", other, &[]),
        }
    }

    /// The type to convert it to, if there is one.
    pub(crate) fn converted(&self) -> Option<DType> {
        match self.dtype() {
            "I8" | "I16" | "U16" => Some(DType::I32),
            "U64" => Some(DType::I64),
            "F8_E4M3" | "F8_E5M2" => Some(DType::F16),
            #[cfg(feature = "gguf")]
            packed if BlockFormat::of(packed).is_some() => Some(DType::F32),
            _ => None,
        }
    }

    /// How a parameter of this type stays packed, if it does.
    pub(crate) fn quantization(&self) -> Option<Quantization> {
        #[cfg(feature = "gguf")]
        return BlockFormat::of(&self.dtype).map(BlockFormat::quantization);
        #[cfg(not(feature = "gguf"))]
        None
    }

    /// The blocks of [`RawTensor::quantization`].
    pub(crate) fn packed(&self) -> Option<QuantizedTensor> {
        #[cfg(feature = "gguf")]
        {
            let blocks = BlockFormat::of(&self.dtype)?.repack(self.bytes());
            QuantizedTensor::from_blocks(self.quantization()?, &self.shape, &blocks)
        }
        #[cfg(not(feature = "gguf"))]
        None
    }

    fn values<const N: usize, T>(&self, value: impl Fn([u8; N]) -> T) -> impl Iterator<Item = T> {
        self.bytes().as_chunks::<N>().0.iter().map(move |&bytes| value(bytes))
    }

    #[track_caller]
    fn each<const N: usize, T: Element>(&self, value: impl Fn([u8; N]) -> T) -> Tensor {
        Tensor::from_vec(self.values(value).collect(), self.shape.clone(), Device::cpu())
    }
}

impl fmt::Debug for RawTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawTensor({}{})", self.dtype, self.shape)
    }
}

/// Four bits of exponent and three of mantissa: the last exponent has numbers
/// too, and only all ones is no number.
fn e4m3(byte: u8) -> f16 {
    let (exponent, mantissa) = (i32::from(byte >> 3 & 15), f32::from(byte & 7));
    let magnitude = match (exponent, byte & 7) {
        (15, 7) => f32::NAN,
        (0, _) => mantissa * 2f32.powi(-9),
        (_, _) => (1.0 + mantissa / 8.0) * 2f32.powi(exponent - 7),
    };
    f16::from_f32(if byte < 128 { magnitude } else { -magnitude })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_bits_are_the_numbers_of_their_tables() {
        let table = [(0, 0.0), (1, 0.001953125), (7, 0.013671875), (8, 0.015625), (0x38, 1.0), (0x7e, 448.0)];
        for (byte, value) in table {
            assert_eq!(e4m3(byte).to_f32(), value);
            assert_eq!(e4m3(byte | 128).to_f32().to_bits(), (-value).to_bits());
        }
        assert!(e4m3(0x7f).is_nan() && e4m3(0xff).is_nan());
        let ordered: Vec<f32> = (0..0x7f).map(|byte| e4m3(byte).to_f32()).collect();
        assert!(ordered.is_sorted_by(|a, b| a < b));
        let e5m2 = RawTensor::new("F8_E5M2", [5], vec![0x01, 0x3c, 0x7b, 0xfc, 0x7d]).unwrap();
        let values = e5m2.to_tensor().to_vec::<f16>().unwrap();
        let values: Vec<f32> = values.into_iter().map(f16::to_f32).collect();
        assert_eq!(values[..4], [2f32.powi(-16), 1.0, 57344.0, f32::NEG_INFINITY]);
        assert!(values[4].is_nan());
    }
}
