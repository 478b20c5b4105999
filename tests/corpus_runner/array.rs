//! Values outside kiln: what the files hold and what a run returns.

use half::{bf16, f16};
use kiln::DType;

/// A dense row-major array in host memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Type of the elements.
    pub dtype: DType,
    /// Extents of the axes.
    pub shape: Vec<usize>,
    /// The elements, little-endian.
    pub bytes: Vec<u8>,
}

/// Elements in a type wide enough to compare them exactly.
#[derive(Debug, PartialEq)]
pub enum Values {
    /// Elements of a floating-point type.
    Floats(Vec<f64>),
    /// Integers, and truth values as 0 and 1.
    Integers(Vec<i64>),
}

impl Array {
    /// The elements, widened.
    pub fn values(&self) -> Values {
        match self.dtype {
            DType::F64 => Values::Floats(self.elements(f64::from_le_bytes)),
            DType::F32 => Values::Floats(self.elements(|b| f64::from(f32::from_le_bytes(b)))),
            DType::F16 => Values::Floats(self.elements(|b| f16::from_le_bytes(b).to_f64())),
            DType::BF16 => Values::Floats(self.elements(|b| bf16::from_le_bytes(b).to_f64())),
            DType::I64 => Values::Integers(self.elements(i64::from_le_bytes)),
            DType::I32 => Values::Integers(self.elements(|b| i64::from(i32::from_le_bytes(b)))),
            DType::U32 => Values::Integers(self.elements(|b| i64::from(u32::from_le_bytes(b)))),
            DType::U8 => Values::Integers(self.elements(|[b]| i64::from(b))),
            DType::Bool => Values::Integers(self.elements(|[b]| i64::from(b != 0))),
        }
    }

    /// The elements, each made from its `N` bytes.
    pub fn elements<const N: usize, T>(&self, from: impl Fn([u8; N]) -> T) -> Vec<T> {
        self.bytes.as_chunks::<N>().0.iter().map(|&chunk| from(chunk)).collect()
    }

    /// An array of `dtype` whose element `i` is `value(i)` rounded to the type.
    pub fn from_fn(dtype: DType, shape: &[usize], value: impl Fn(usize) -> f64) -> Array {
        let numel = shape.iter().product();
        let width = dtype.size();
        let bytes = (0..numel).flat_map(|i| {
            let bits = kiln::Scalar::from(value(i)).to_bits(dtype);
            bits.to_le_bytes().into_iter().take(width)
        });
        Array { dtype, shape: shape.to_vec(), bytes: bytes.collect() }
    }
}
