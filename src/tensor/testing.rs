//! Small tensors and their values, for tests.

use crate::base::{DType, Scalar, Span};
use crate::ir::{Layout, Leaf, Node, Type};
use crate::runtime::host;
use crate::tensor::Tensor;

/// A tensor of these numbers.
pub(crate) fn tensor(dims: &[usize], dtype: DType, values: &[f64]) -> Tensor {
    let ty = Type::new(dims, dtype, crate::base::Device::cpu());
    assert_eq!(ty.shape.numel(), values.len());
    let mut bytes = Vec::new();
    for &value in values {
        let scalar = if dtype.is_float() { Scalar::Float(value) } else { Scalar::Int(value as i64) };
        bytes.extend_from_slice(&scalar.to_bits(dtype).to_le_bytes()[..dtype.size()]);
    }
    let buffer = host::upload(&bytes).expect("host memory for a test");
    let layout = Layout::contiguous(&ty.shape);
    Tensor::from_node(Node::leaf(ty, Leaf { buffer: buffer.into(), layout }, Span::caller()))
}

/// An `F32` tensor of these numbers.
pub(crate) fn f32s(dims: &[usize], values: &[f64]) -> Tensor {
    tensor(dims, DType::F32, values)
}

/// An `I64` tensor of these numbers.
pub(crate) fn i64s(dims: &[usize], values: &[i64]) -> Tensor {
    tensor(dims, DType::I64, &values.iter().map(|&v| v as f64).collect::<Vec<_>>())
}

/// An `F32` tensor of small numbers that are all different enough: small
/// integers over 8, so that sums of products are exact.
pub(crate) fn pattern(dims: &[usize], seed: usize) -> Tensor {
    let count: usize = dims.iter().product();
    let values: Vec<f64> = (0..count).map(|i| (((i + seed) * 7 + seed) % 23) as f64 / 8.0 - 1.25).collect();
    f32s(dims, &values)
}

/// The values by the oracle.
pub(crate) fn values(x: &Tensor) -> Vec<f64> {
    Tensor::oracle(&[x]).expect("a valid tensor").remove(0).to_f64()
}

/// Asserts shape and values, these to a relative or absolute 1e-6.
#[track_caller]
pub(crate) fn assert_close(x: &Tensor, dims: &[usize], expected: &[f64]) {
    x.check().expect("a valid tensor");
    assert_eq!(x.shape()[..], *dims);
    let found = values(x);
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        let close = (a - b).abs() <= 1e-6 * b.abs().max(1.0) || a == b || (a.is_nan() && b.is_nan());
        assert!(close, "element {i}: {a} for {b}\n{found:?}\n{expected:?}");
    }
    assert_eq!(found.len(), expected.len());
}

/// The text of the recorded error.
#[track_caller]
pub(crate) fn error_text(x: &Tensor) -> String {
    x.check().expect_err("an invalid tensor").to_string()
}
