//! Conversions from and to arrays of the crate `ndarray` (feature `ndarray`).

use ::ndarray::{ArrayBase, ArrayD, Data, Dimension, IxDyn};

use crate::base::{Element, OpError, Result, Span};
use crate::tensor::create::from_data;
use crate::tensor::{Place, Tensor};

impl Tensor {
    /// The values of an array, copied; `[2, 3]` of an array of 2 rows and 3 columns.
    ///
    /// Views and arrays in any order of axes will do. Another type in `place` converts.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let array = ndarray::arr2(&[[1.0f32, 2.0], [3.0, 4.0]]);
    /// let x = Tensor::from_ndarray(&array.t(), ());
    /// assert_eq!(x.to_vec::<f32>()?, [1.0, 3.0, 2.0, 4.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn from_ndarray<T, S, D>(array: &ArrayBase<S, D>, place: impl Into<Place>) -> Tensor
    where
        T: Element,
        S: Data<Elem = T>,
        D: Dimension,
    {
        let span = Span::caller();
        let values: Vec<T> = array.iter().copied().collect();
        from_data("from_ndarray", span, &values, array.shape().to_vec().into(), place.into())
    }

    /// The values as an array of this shape, computed and copied to the host.
    ///
    /// # Errors
    /// As [`Tensor::to_vec`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from_vec(vec![1i64, 2, 3, 4], [2, 2], ());
    /// assert_eq!((x * 2).to_ndarray::<i64>()?, ndarray::arr2(&[[2, 4], [6, 8]]).into_dyn());
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn to_ndarray<T: Element>(&self) -> Result<ArrayD<T>> {
        let span = Span::caller();
        let values = self.to_vec::<T>()?;
        let shape = self.shape();
        ArrayD::from_shape_vec(IxDyn(&shape), values).map_err(|error| {
            OpError::new("to_ndarray", span, "a shape that ndarray can hold", error.to_string())
                .with_shapes([shape])
                .into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_come_back_as_they_went() {
        for shape in [&[][..], &[0], &[3], &[2, 1, 4]] {
            let count = shape.iter().product::<usize>();
            let array = ArrayD::from_shape_vec(IxDyn(shape), (0..count).map(|i| i as f64).collect());
            let array = array.expect("as many values as the shape has");
            assert_eq!(Tensor::from_ndarray(&array, ()).to_ndarray::<f64>().expect("values"), array);
        }
        let wrong = Tensor::from_ndarray(&::ndarray::arr1(&[1.0f32]), ()).to_ndarray::<f64>();
        assert!(wrong.expect_err("another type").to_string().contains("src/tensor/ndarray.rs"));
    }
}
