//! Values of the oracle: a type and row-major numbers.

use std::rc::Rc;

use crate::base::{DType, Scalar};
use crate::ir::buffer::Layout;
use crate::ir::oracle::movement::positions;
use crate::ir::ty::Type;

/// The elements of a value in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// Integers, and truth values as 0 and 1.
    Int(Vec<i64>),
    /// Floating-point numbers.
    Float(Vec<f64>),
}

/// A computed tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Shape, element type and device.
    pub ty: Type,
    /// The elements, as many as the shape has.
    pub data: Data,
}

/// A value in the interpreter, with a bound on how far each element computed
/// by a device may be off, if requested.
#[derive(Clone, Debug)]
pub(super) struct OracleCell {
    pub value: Rc<Value>,
    /// Of type `F64`; for integers 0 or, where anything is possible, infinity.
    pub error: Option<Rc<Value>>,
}

impl OracleCell {
    /// A value that every device has alike.
    pub fn certain(value: Value, bounded: bool) -> OracleCell {
        let error = bounded.then(|| Rc::new(value.errors(vec![0.0; value.data.len()])));
        OracleCell { value: Rc::new(value), error }
    }
    /// The value moved, and its errors alike.
    pub fn moved(&self, movement: impl Fn(&Value) -> Value) -> OracleCell {
        let error = self.error.as_ref().map(|error| Rc::new(movement(error)));
        OracleCell { value: Rc::new(movement(&self.value)), error }
    }
    /// The errors of the elements.
    pub fn errors(&self) -> &[f64] {
        self.error.as_ref().expect("bounds were requested").data.floats()
    }
}

impl Data {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Data::Int(data) => data.len(),
            Data::Float(data) => data.len(),
        }
    }
    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The elements at the given positions.
    pub(super) fn take(&self, at: &[usize]) -> Data {
        match self {
            Data::Int(data) => Data::Int(take(data, at)),
            Data::Float(data) => Data::Float(take(data, at)),
        }
    }
    /// One element.
    pub fn scalar(&self, at: usize) -> Scalar {
        match self {
            Data::Int(data) => Scalar::Int(data[at]),
            Data::Float(data) => Scalar::Float(data[at]),
        }
    }
    /// The integers of an integer or truth value.
    pub(super) fn ints(&self) -> &[i64] {
        match self {
            Data::Int(data) => data,
            Data::Float(_) => panic!("a float where inference found an integer"),
        }
    }
    /// The numbers of a float value.
    pub(super) fn floats(&self) -> &[f64] {
        match self {
            Data::Float(data) => data,
            Data::Int(_) => panic!("an integer where inference found a float"),
        }
    }
}

impl Value {
    /// A value of its parts.
    ///
    /// # Panics
    /// When there are more or fewer elements than the shape has.
    pub fn new(ty: Type, data: Data) -> Value {
        assert_eq!(data.len(), ty.shape.numel(), "elements of a value of shape {}", ty.shape);
        Value { ty, data }
    }

    /// A value from row-major bytes.
    ///
    /// # Panics
    /// When `bytes` is shorter than the type asks for.
    pub fn from_bytes(ty: Type, bytes: &[u8]) -> Value {
        let layout = Layout::contiguous(&ty.shape);
        Value::from_view(ty, bytes, &layout)
    }

    /// A value from the bytes of a buffer and its layout there.
    ///
    /// # Panics
    /// When the layout leaves the buffer.
    pub fn from_view(ty: Type, bytes: &[u8], layout: &Layout) -> Value {
        let at = positions(&ty.shape, layout.offset, &layout.strides);
        let size = ty.dtype.size();
        let scalars = at.iter().map(|&i| decode(&bytes[i * size..(i + 1) * size], ty.dtype));
        let data = if ty.dtype.is_float() {
            Data::Float(scalars.map(Scalar::as_f64).collect())
        } else {
            Data::Int(scalars.map(Scalar::as_i64).collect())
        };
        Value::new(ty, data)
    }

    /// The elements as row-major bytes in the machine's order.
    pub fn to_bytes(&self) -> Vec<u8> {
        let size = self.ty.dtype.size();
        let mut bytes = Vec::with_capacity(self.data.len() * size);
        for i in 0..self.data.len() {
            let bits = self.data.scalar(i).to_bits(self.ty.dtype).to_le_bytes();
            let mut element: [u8; 8] = bits;
            if cfg!(target_endian = "big") {
                element[..size].reverse();
            }
            bytes.extend_from_slice(&element[..size]);
        }
        bytes
    }

    /// The elements as `f64`; integers beyond 2^53 round.
    pub fn to_f64(&self) -> Vec<f64> {
        (0..self.data.len()).map(|i| self.data.scalar(i).as_f64()).collect()
    }

    /// Errors of the elements of this value, as a value themselves.
    pub(super) fn errors(&self, errors: Vec<f64>) -> Value {
        Value::new(self.ty.with_dtype(DType::F64), Data::Float(errors))
    }

    /// The same value, its floats rounded to the precision of its type.
    pub(super) fn rounded(&self) -> Value {
        let data = match &self.data {
            Data::Float(data) => Data::Float(data.iter().map(|&x| round(x, self.ty.dtype)).collect()),
            Data::Int(data) => Data::Int(data.clone()),
        };
        Value { ty: self.ty.clone(), data }
    }
}

/// `x` to the precision of a float type.
pub(super) fn round(x: f64, dtype: DType) -> f64 {
    Scalar::Float(x).cast(dtype).as_f64()
}

/// `x` to the width of an integer type.
pub(super) fn wrap(x: i64, dtype: DType) -> i64 {
    Scalar::Int(x).cast(dtype).as_i64()
}

/// The elements of `data` at the given positions.
pub(super) fn take<T: Copy>(data: &[T], at: &[usize]) -> Vec<T> {
    at.iter().map(|&i| data[i]).collect()
}

fn decode(bytes: &[u8], dtype: DType) -> Scalar {
    let mut element = [0; 8];
    element[..bytes.len()].copy_from_slice(bytes);
    if cfg!(target_endian = "big") {
        element[..bytes.len()].reverse();
    }
    Scalar::from_bits(u64::from_le_bytes(element), dtype)
}
