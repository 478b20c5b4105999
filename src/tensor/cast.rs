//! Conversions of type.

use crate::base::{DType, Span};
use crate::ir::Op;
use crate::tensor::Tensor;

impl Tensor {
    /// The elements converted to `dtype`; the same tensor if it has that type.
    ///
    /// Integers wrap, anything but 0 becomes true, floats become integers by truncation. NaN and
    /// floats beyond `I32` or `I64` become its least value; unsigned types take the low bits of the
    /// `I64`. PyTorch: `Tensor.to(dtype)`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([-1.5f32, 2.5]);
    /// assert_eq!(x.to_dtype(DType::I64).to_vec::<i64>()?, [-1, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn to_dtype(&self, dtype: DType) -> Tensor {
        self.clone().cast_as("to_dtype", dtype, Span::caller())
    }

    /// The same bits as a type of the same width.
    ///
    /// Invalid for another width. PyTorch: `Tensor.view(dtype)`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1.0f32]);
    /// assert_eq!(x.bitcast(DType::I32).to_vec::<i32>()?, [0x3f80_0000]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
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
    /// As `F32`; see [`Tensor::to_dtype`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([1i64, 2]).float().to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    float F32;
    /// As `F64`; see [`Tensor::to_dtype`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([1i64, 2]).double().to_vec::<f64>()?, [1.0, 2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    double F64;
    /// As `F16`; see [`Tensor::to_dtype`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([1.0f32]).half().dtype(), DType::F16);
    /// ```
    half F16;
    /// As `BF16`; see [`Tensor::to_dtype`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([1.0f32]).bfloat16().dtype(), DType::BF16);
    /// ```
    bfloat16 BF16;
    /// As `I64`; see [`Tensor::to_dtype`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([1.9f32, -1.9]).long().to_vec::<i64>()?, [1, -1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    long I64;
    /// As `I32`; see [`Tensor::to_dtype`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([1.9f32, -1.9]).int().to_vec::<i32>()?, [1, -1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    int I32;
    /// As `U8`; see [`Tensor::to_dtype`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([1i64, 257]).byte().to_vec::<u8>()?, [1, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    byte U8;
    /// As `Bool`: whether elements differ from 0.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([0.0f32, 0.5]).bool().to_vec::<bool>()?, [false, true]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    bool Bool;
}
