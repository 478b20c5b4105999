//! Shapes of complex numbers: what moves elements moves both parts alike.

use std::borrow::Borrow;

use crate::base::{DType, Device, Result, Shape};
use crate::tensor::complex::Complex;
use crate::tensor::slicing::IntoIndex;
use crate::tensor::spec::IntoShapeSpec;
use crate::tensor::{IntoAxes, Tensor};

/// Methods that are those of both parts.
macro_rules! both_parts {
    ($($(#[doc = $doc:literal])+ $name:ident($($arg:ident: $ty:ty),*);)*) => {
        impl Complex {$(
            $(#[doc = $doc])+
            #[track_caller]
            pub fn $name(&self, $($arg: $ty),*) -> Complex {
                Complex { re: self.re.$name($($arg.clone()),*), im: self.im.$name($($arg),*) }
            }
        )*}
    };
}

both_parts! {
    /// As [`Tensor::reshape`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let z = Complex::from_real(&Tensor::zeros([2, 3], ()));
    /// assert_eq!(z.reshape([3, -1]).shape()[..], [3, 2]);
    /// ```
    reshape(shape: impl IntoShapeSpec + Clone);
    /// As [`Tensor::permute`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let z = Complex::from_real(&Tensor::zeros([2, 3, 4], ()));
    /// assert_eq!(z.permute([2, 0, 1]).shape()[..], [4, 2, 3]);
    /// ```
    permute(axes: impl IntoAxes + Clone);
    /// As [`Tensor::transpose`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let z = Complex::from_real(&Tensor::zeros([2, 3], ()));
    /// assert_eq!(z.transpose(0, 1).shape()[..], [3, 2]);
    /// ```
    transpose(a: i64, b: i64);
    /// As [`Tensor::slice`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let z = Complex::from_real(&Tensor::from([1.0f32, 2.0, 3.0]));
    /// assert_eq!(z.slice(0, 1..).to_vec::<f32>()?, [(2.0, 0.0), (3.0, 0.0)]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    slice(axis: i64, range: impl IntoIndex + Clone);
    /// As [`Tensor::select_index`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let z = Complex::from_real(&Tensor::from([1.0f32, 2.0, 3.0]));
    /// assert_eq!(z.select_index(0, -1).to_vec::<f32>()?, [(3.0, 0.0)]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    select_index(axis: i64, index: i64);
    /// As [`Tensor::unsqueeze`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let z = Complex::from_real(&Tensor::zeros([3], ()));
    /// assert_eq!(z.unsqueeze(0).shape()[..], [1, 3]);
    /// ```
    unsqueeze(axis: i64);
    /// As [`Tensor::squeeze`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let z = Complex::from_real(&Tensor::zeros([1, 3], ()));
    /// assert_eq!(z.squeeze(0).shape()[..], [3]);
    /// ```
    squeeze(axes: impl IntoAxes + Clone);
    /// As [`Tensor::expand`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let z = Complex::from_real(&Tensor::zeros([1, 3], ()));
    /// assert_eq!(z.expand([2, 3]).shape()[..], [2, 3]);
    /// ```
    expand(shape: impl IntoShapeSpec + Clone);
    /// As [`Tensor::flip`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let z = Complex::from_real(&Tensor::from([1.0f32, 2.0]));
    /// assert_eq!(z.flip(0).to_vec::<f32>()?, [(2.0, 0.0), (1.0, 0.0)]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    flip(axes: impl IntoAxes + Clone);
    /// The sum over axes, as [`Tensor::sum`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let z = Complex::new(&Tensor::from([1.0f32, 2.0]), &Tensor::from([3.0f32, 4.0]));
    /// assert_eq!(z.sum(0).to_vec::<f32>()?, [(3.0, 7.0)]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    sum(axes: impl IntoAxes + Clone);
}

impl Complex {
    /// The numbers one after another along an axis, as [`Tensor::cat`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let z = Complex::from_real(&Tensor::from([1.0f32]));
    /// assert_eq!(Complex::cat(&[&z, &-&z], 0).to_vec::<f32>()?, [(1.0, 0.0), (-1.0, -0.0)]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn cat<C: Borrow<Complex>>(parts: &[C], axis: i64) -> Complex {
        let [re, im] = columns(parts);
        Complex { re: Tensor::cat(&re, axis), im: Tensor::cat(&im, axis) }
    }

    /// The numbers, all of one shape, along a new axis, as [`Tensor::stack`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let z = Complex::from_real(&Tensor::from([1.0f32]));
    /// assert_eq!(Complex::stack(&[&z, &z, &z], 0).shape()[..], [3, 1]);
    /// ```
    #[track_caller]
    pub fn stack<C: Borrow<Complex>>(parts: &[C], axis: i64) -> Complex {
        let [re, im] = columns(parts);
        Complex { re: Tensor::stack(&re, axis), im: Tensor::stack(&im, axis) }
    }

    /// The extents of the axes; empty if invalid.
    pub fn shape(&self) -> Shape {
        self.re.shape()
    }
    /// Number of axes; 0 if invalid.
    pub fn rank(&self) -> usize {
        self.re.rank()
    }
    /// The type of the parts: `F32` for PyTorch's `complex64`.
    pub fn dtype(&self) -> DType {
        self.re.dtype()
    }
    /// Where the numbers are or will be.
    pub fn device(&self) -> Device {
        self.re.device()
    }
    /// Whether building the numbers made no error.
    ///
    /// # Errors
    /// The first error made on the way.
    pub fn check(&self) -> Result<()> {
        self.re.check().and_then(|()| self.im.check())
    }
    /// Both parts on a device, as [`Tensor::to`].
    #[track_caller]
    pub fn to(&self, device: Device) -> Complex {
        Complex { re: self.re.to(device), im: self.im.to(device) }
    }
}

/// All real parts, and all imaginary ones.
fn columns<C: Borrow<Complex>>(parts: &[C]) -> [Vec<&Tensor>; 2] {
    [parts.iter().map(|z| &z.borrow().re).collect(), parts.iter().map(|z| &z.borrow().im).collect()]
}
