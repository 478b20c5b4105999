//! Positions of extremes along an axis.

use crate::ir::Monoid;
use crate::tensor::Tensor;
use crate::tensor::axis::{AxisList, IntoAxes};
use crate::tensor::compose::CallSite;
use crate::tensor::lane::{kept, one_lane};
use crate::tensor::reduce::nonempty;
use crate::tensor::rule::picked;

impl Tensor {
    /// The position of the largest element along an axis, the first of equals: `I64`.
    ///
    /// NaN is largest. `..` gives the position among all elements. Invalid where the axis is empty.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1i64, 5, 5], [7, 0, 4]]);
    /// assert_eq!(x.argmax(1).to_vec::<i64>()?, [1, 0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn argmax(&self, axis: impl IntoAxes) -> Tensor {
        argument(CallSite::here("argmax"), self, axis.into_axes(), Monoid::ArgMax, false)
    }

    /// As [`Tensor::argmax`], the axis kept with extent 1.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1i64, 5, 5], [7, 0, 4]]);
    /// assert_eq!(x.argmax_keepdim(1).dims()?, [2, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn argmax_keepdim(&self, axis: impl IntoAxes) -> Tensor {
        argument(CallSite::here("argmax"), self, axis.into_axes(), Monoid::ArgMax, true)
    }

    /// The position of the smallest element along an axis, the first of equals: `I64`.
    ///
    /// NaN is smallest. `..` gives the position among all elements. Invalid where the axis is
    /// empty.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1i64, 5, 5], [7, 0, 4]]);
    /// assert_eq!(x.argmin(1).to_vec::<i64>()?, [0, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn argmin(&self, axis: impl IntoAxes) -> Tensor {
        argument(CallSite::here("argmin"), self, axis.into_axes(), Monoid::ArgMin, false)
    }

    /// As [`Tensor::argmin`], the axis kept with extent 1.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1i64, 5, 5], [7, 0, 4]]);
    /// assert_eq!(x.argmin_keepdim(1).dims()?, [2, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn argmin_keepdim(&self, axis: impl IntoAxes) -> Tensor {
        argument(CallSite::here("argmin"), self, axis.into_axes(), Monoid::ArgMin, true)
    }

    /// The largest element along an axis and its position, the first of equals.
    ///
    /// PyTorch: `torch.max` with `dim`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1i64, 5], [7, 4]]);
    /// let (values, indices) = x.max_with_index(1);
    /// assert_eq!(values.to_vec::<i64>()?, [5, 7]);
    /// assert_eq!(indices.to_vec::<i64>()?, [1, 0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn max_with_index(&self, axis: i64) -> (Tensor, Tensor) {
        with_index(CallSite::here("max_with_index"), self, axis, Monoid::Max, Monoid::ArgMax, false)
    }

    /// As [`Tensor::max_with_index`], the axis kept with extent 1.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1i64, 5], [7, 4]]);
    /// let (values, indices) = x.max_with_index_keepdim(1);
    /// assert_eq!((values.dims()?, indices.dims()?), ([2, 1], [2, 1]));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn max_with_index_keepdim(&self, axis: i64) -> (Tensor, Tensor) {
        with_index(CallSite::here("max_with_index"), self, axis, Monoid::Max, Monoid::ArgMax, true)
    }

    /// The smallest element along an axis and its position, the first of equals.
    ///
    /// PyTorch: `torch.min` with `dim`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1i64, 5], [7, 4]]);
    /// let (values, indices) = x.min_with_index(1);
    /// assert_eq!(values.to_vec::<i64>()?, [1, 4]);
    /// assert_eq!(indices.to_vec::<i64>()?, [0, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn min_with_index(&self, axis: i64) -> (Tensor, Tensor) {
        with_index(CallSite::here("min_with_index"), self, axis, Monoid::Min, Monoid::ArgMin, false)
    }

    /// As [`Tensor::min_with_index`], the axis kept with extent 1.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1i64, 5], [7, 4]]);
    /// let (values, indices) = x.min_with_index_keepdim(1);
    /// assert_eq!((values.dims()?, indices.dims()?), ([2, 1], [2, 1]));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn min_with_index_keepdim(&self, axis: i64) -> (Tensor, Tensor) {
        with_index(CallSite::here("min_with_index"), self, axis, Monoid::Min, Monoid::ArgMin, true)
    }
}

fn argument(site: CallSite, x: &Tensor, axes: AxisList, monoid: Monoid, keepdim: bool) -> Tensor {
    site.build(&[x], || {
        let all = axes == AxisList::All;
        let (row, axis) = one_lane(site, x, &axes)?;
        nonempty(site, &row, &[axis])?;
        let y = site.reduce(monoid, &row, &[axis]);
        Ok(match (keepdim, all) {
            (false, _) => y,
            (true, true) => site.reshape(&y, &kept(x, &(0..x.rank()).collect::<Vec<_>>())),
            (true, false) => site.reshape(&y, &kept(x, &[axis])),
        })
    })
}

fn with_index(
    site: CallSite,
    x: &Tensor,
    axis: i64,
    value: Monoid,
    index: Monoid,
    keepdim: bool,
) -> (Tensor, Tensor) {
    site.build_pair(&[x], || {
        let (row, axis) = site.lane(x, axis)?;
        nonempty(site, &row, &[axis])?;
        let shape = if keepdim { Some(kept(x, &[axis])) } else { None };
        let index = site.reduce(index, &row, &[axis]);
        let value = picked(site, site.reduce(value, &row, &[axis]), &row, axis, &index);
        let finish = |y: Tensor| shape.as_ref().map_or_else(|| y.clone(), |shape| site.reshape(&y, shape));
        Ok((finish(value), finish(index)))
    })
}
