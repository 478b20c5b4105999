//! Conversions of type.

use crate::base::{DType, Span};
use crate::ir::Op;
use crate::tensor::Tensor;

impl Tensor {
    /// The elements converted to `dtype`: integers wrap, anything but 0
    /// becomes true, floats become integers by truncation. NaN and floats
    /// beyond `I32` or `I64` become its least value; unsigned types take the
    /// low bits of the `I64`. The same tensor if it has that type.
    #[track_caller]
    pub fn to_dtype(&self, dtype: DType) -> Tensor {
        self.clone().cast_as("to_dtype", dtype, Span::caller())
    }

    /// The same bits as a type of the same width.
    #[track_caller]
    pub fn bitcast(&self, dtype: DType) -> Tensor {
        if self.dtype() == dtype {
            return self.clone();
        }
        Tensor::apply("bitcast", Span::caller(), Op::Bitcast(dtype), &[self])
    }
}

macro_rules! casts {
    ($($(#[doc = $doc:literal])+ $name:ident $dtype:ident;)*) => {
        impl Tensor {$(
            $(#[doc = $doc])+
            #[track_caller]
            pub fn $name(&self) -> Tensor {
                self.clone().cast_as(stringify!($name), DType::$dtype, Span::caller())
            }
        )*}
    };
}

casts! {
    /// As `F32`.
    float F32;
    /// As `F64`.
    double F64;
    /// As `F16`.
    half F16;
    /// As `BF16`.
    bfloat16 BF16;
    /// As `I64`.
    long I64;
    /// As `I32`.
    int I32;
    /// As `U8`.
    byte U8;
    /// As `Bool`: whether elements differ from 0.
    bool Bool;
}
