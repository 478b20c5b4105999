//! Shapes: the same elements seen through other axes. None of this runs; it
//! rewrites the index maps of whatever reads the result. The order of axes is
//! in [`crate::tensor::permute`].

use std::borrow::Borrow;

use crate::base::shape::volume;
use crate::base::{Dims, Result, Shape};
use crate::ir::Op;
use crate::tensor::axis::IntoAxes;
use crate::tensor::call_site::with_axis;
use crate::tensor::compose::CallSite;
use crate::tensor::spec::{IntoShapeSpec, ShapeSpec};
use crate::tensor::{Tensor, lane};

impl Tensor {
    /// The same elements, in row-major order, under another shape.
    ///
    /// One extent may be -1 and is worked out. Invalid when the number of elements differs.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1i64, 2, 3], [4, 5, 6]]);
    /// assert_eq!(x.reshape([3, -1]).dims()?, [3, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn reshape(&self, shape: impl IntoShapeSpec) -> Tensor {
        let site = CallSite::here("reshape");
        let spec = shape.into_shape_spec();
        site.build(&[self], || Ok(site.reshape(self, &fill_in(site, &spec, self.numel(), self)?)))
    }

    /// As [`Tensor::reshape`]: there is no other kind of view here.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1i64, 2, 3], [4, 5, 6]]);
    /// assert_eq!(x.view(-1).dims()?, [6]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn view(&self, shape: impl IntoShapeSpec) -> Tensor {
        let site = CallSite::here("view");
        let spec = shape.into_shape_spec();
        site.build(&[self], || Ok(site.reshape(self, &fill_in(site, &spec, self.numel(), self)?)))
    }

    /// As [`Tensor::reshape`], to the shape of `other`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1i64, 2, 3, 4]);
    /// assert_eq!(x.reshape_as(&Tensor::zeros([2, 2], ())).dims()?, [2, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn reshape_as(&self, other: &Tensor) -> Tensor {
        let site = CallSite::here("reshape_as");
        site.build(&[self, other], || Ok(site.reshape(self, &other.shape())))
    }

    /// As [`Tensor::reshape_as`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1i64, 2, 3, 4]);
    /// assert_eq!(x.view_as(&Tensor::zeros([2, 2], ())).dims()?, [2, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn view_as(&self, other: &Tensor) -> Tensor {
        let site = CallSite::here("view_as");
        site.build(&[self, other], || Ok(site.reshape(self, &other.shape())))
    }

    /// The axes `start..=end` as one.
    ///
    /// `[2, 3, 4]` from 1 to -1 gives `[2, 12]`; rank 0 becomes `[1]`. Invalid for an axis out of
    /// range or an end before the start.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::zeros([2, 3, 4], ());
    /// assert_eq!(x.flatten(1, -1).dims()?, [2, 12]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn flatten(&self, start: i64, end: i64) -> Tensor {
        let site = CallSite::here("flatten");
        site.build(&[self], || {
            let (row, start) = site.lane(self, start)?;
            let end = site.axis_number(&row, end)?;
            if end < start {
                return Err(site.error(
                    "a last axis not before the first",
                    format!("{start}, {end}"),
                    &[self],
                ));
            }
            let shape = row.shape();
            let mut dims = Dims::from_slice(&shape[..start]);
            dims.push(volume(&shape[start..=end]));
            dims.extend_from_slice(&shape[end + 1..]);
            Ok(site.reshape(&row, &Shape(dims)))
        })
    }

    /// All elements in row-major order along one axis.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1i64, 2], [3, 4]]);
    /// assert_eq!(x.ravel().to_vec::<i64>()?, [1, 2, 3, 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn ravel(&self) -> Tensor {
        CallSite::here("ravel").reshape(self, &Shape::from(self.numel()))
    }

    /// One axis split into several.
    ///
    /// `[2, 12]` along 1 to `[3, 4]` gives `[2, 3, 4]`; one extent may be -1. Invalid unless the
    /// product of the extents is the axis's.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::zeros([2, 12], ());
    /// assert_eq!(x.unflatten(1, [3, -1]).dims()?, [2, 3, 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn unflatten(&self, axis: i64, sizes: impl IntoShapeSpec) -> Tensor {
        let site = CallSite::here("unflatten");
        let sizes = sizes.into_shape_spec();
        site.build(&[self], || {
            let axis = site.axis_number(self, axis)?;
            let shape = self.shape();
            let inner = fill_in(site, &sizes, shape[axis], self)?;
            if inner.numel() != shape[axis] {
                let expected = format!("extents whose product is {}", shape[axis]);
                return Err(site.error(expected, inner.to_string(), &[self]));
            }
            let mut dims = Dims::from_slice(&shape[..axis]);
            dims.extend_from_slice(&inner);
            dims.extend_from_slice(&shape[axis + 1..]);
            Ok(site.reshape(self, &Shape(dims)))
        })
    }

    /// Without the axes named whose extent is 1; the others named stay. `..` names all.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::zeros([1, 2, 1], ());
    /// assert_eq!(x.squeeze(..).dims()?, [2]);
    /// assert_eq!(x.squeeze(0).dims()?, [2, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn squeeze(&self, axes: impl IntoAxes) -> Tensor {
        let site = CallSite::here("squeeze");
        let axes = axes.into_axes();
        site.build(&[self], || {
            let named = lane::lanes(site, self, &axes)?;
            let shape = self.shape();
            let stays = |axis: &usize| shape[*axis] != 1 || !named.contains(axis);
            let dims: Dims = (0..shape.rank()).filter(stays).map(|axis| shape[axis]).collect();
            Ok(site.reshape(self, &Shape(dims)))
        })
    }

    /// With a new axis of extent 1 at `axis`, counted in the result: `[3]` at 0 gives `[1, 3]`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::zeros([3], ());
    /// assert_eq!(x.unsqueeze(0).dims()?, [1, 3]);
    /// assert_eq!(x.unsqueeze(-1).dims()?, [3, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn unsqueeze(&self, axis: i64) -> Tensor {
        let site = CallSite::here("unsqueeze");
        site.build(&[self], || {
            let axis = new_axis(site, self, axis)?;
            Ok(site.reshape(self, &with_axis(&self.shape(), axis, 1)))
        })
    }

    /// Axes of extent 1 repeated to the extents given.
    ///
    /// Where there are more extents than axes, the first are new leading axes; -1 keeps an axis as
    /// it is. Costs no memory. Invalid where an extent is neither 1 nor the one given.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1i64], [2]]);
    /// assert_eq!(x.expand([2, 2]).to_vec::<i64>()?, [1, 1, 2, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn expand(&self, shape: impl IntoShapeSpec) -> Tensor {
        let site = CallSite::here("expand");
        let spec = shape.into_shape_spec();
        site.build(&[self], || {
            let own = self.shape();
            let lead = spec.0.len().saturating_sub(own.rank());
            let mut dims = Dims::new();
            for (i, &extent) in spec.0.iter().enumerate() {
                dims.push(match usize::try_from(extent) {
                    Ok(extent) => extent,
                    Err(_) if extent == -1 && i >= lead && i - lead < own.rank() => own[i - lead],
                    Err(_) => {
                        let expected = "extents of at least 0, or -1 for an axis already there";
                        return Err(site.error(expected, format!("{extent} for axis {i}"), &[self]));
                    }
                });
            }
            Ok(site.expand(self, &Shape(dims)))
        })
    }

    /// As [`Tensor::expand`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::zeros([2, 1], ());
    /// assert_eq!(x.broadcast_to([4, 2, 3]).dims()?, [4, 2, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn broadcast_to(&self, shape: impl IntoShapeSpec) -> Tensor {
        self.expand(shape)
    }

    /// As [`Tensor::expand`], to the shape of `other`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::zeros([2, 1], ());
    /// assert_eq!(x.expand_as(&Tensor::zeros([2, 3], ())).dims()?, [2, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn expand_as(&self, other: &Tensor) -> Tensor {
        let site = CallSite::here("expand_as");
        site.build(&[self, other], || Ok(site.expand(self, &other.shape())))
    }

    /// The tensors expanded to the one shape they broadcast to.
    ///
    /// An error is a single invalid tensor.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let (x, y) = (Tensor::zeros([2, 1], ()), Tensor::zeros([3], ()));
    /// for z in Tensor::broadcast_tensors(&[x, y]) {
    ///     assert_eq!(z.dims()?, [2, 3]);
    /// }
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn broadcast_tensors<T: Borrow<Tensor>>(tensors: &[T]) -> Vec<Tensor> {
        let site = CallSite::here("broadcast_tensors");
        let tensors: Vec<&Tensor> = tensors.iter().map(Borrow::borrow).collect();
        site.build_list(&tensors, || {
            let mut shape = Shape::scalar();
            for x in &tensors {
                let fail = || site.error("shapes that broadcast together", x.shape().to_string(), &tensors);
                shape = shape.broadcast(&x.shape()).ok_or_else(fail)?;
            }
            Ok(tensors.iter().map(|x| site.expand(x, &shape)).collect())
        })
    }

    /// The tensor itself.
    ///
    /// What is not yet computed has no memory layout, and what is computed is contiguous.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1i64, 2], [3, 4]]).t();
    /// assert_eq!(x.contiguous().to_vec::<i64>()?, [1, 3, 2, 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn contiguous(&self) -> Tensor {
        self.clone()
    }

    /// The values in memory of their own. PyTorch: `Tensor.clone`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1i64, 2]);
    /// assert_eq!(x.copy().to_vec::<i64>()?, [1, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn copy(&self) -> Tensor {
        CallSite::here("copy").apply(Op::Copy(self.device()), &[self])
    }

    /// With axes added until there is at least one.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::scalar(1.0, ()).atleast_1d().dims()?, [1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn atleast_1d(&self) -> Tensor {
        atleast(CallSite::here("atleast_1d"), self, 1)
    }

    /// With axes added until there are at least two: `[n]` becomes `[1, n]`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::zeros([3], ()).atleast_2d().dims()?, [1, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn atleast_2d(&self) -> Tensor {
        atleast(CallSite::here("atleast_2d"), self, 2)
    }

    /// With axes added until there are at least three.
    ///
    /// `[n]` becomes `[1, n, 1]` and `[m, n]` becomes `[m, n, 1]`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::zeros([3], ()).atleast_3d().dims()?, [1, 3, 1]);
    /// assert_eq!(Tensor::zeros([2, 3], ()).atleast_3d().dims()?, [2, 3, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn atleast_3d(&self) -> Tensor {
        atleast(CallSite::here("atleast_3d"), self, 3)
    }
}

/// The shape a specification means for `numel` elements.
fn fill_in(site: CallSite, spec: &ShapeSpec, numel: usize, x: &Tensor) -> Result<Shape> {
    let known = || spec.0.iter().filter(|&&extent| extent != -1);
    if spec.0.iter().filter(|&&extent| extent == -1).count() > 1 {
        return Err(site.error("at most one extent of -1", format!("{:?}", spec.0), &[x]));
    }
    if known().any(|&extent| extent < 0) {
        return Err(site.error("extents of at least 0, or one -1", format!("{:?}", spec.0), &[x]));
    }
    let product = known().fold(1usize, |n, &extent| n.saturating_mul(extent as usize));
    let mut dims = Dims::new();
    for &extent in &spec.0 {
        if extent != -1 {
            dims.push(extent as usize);
        } else if product != 0 && numel.is_multiple_of(product) {
            dims.push(numel / product);
        } else {
            let expected = format!("a shape of {numel} elements with one extent to work out");
            return Err(site.error(expected, format!("{:?}", spec.0), &[x]));
        }
    }
    Ok(Shape(dims))
}

/// The number of a new axis, counted in the result.
pub(crate) fn new_axis(site: CallSite, x: &Tensor, axis: i64) -> Result<usize> {
    let rank = x.rank() as i64 + 1;
    if (-rank..rank).contains(&axis) {
        return Ok(axis.rem_euclid(rank) as usize);
    }
    Err(site.error(format!("a new axis in {}..={}", -rank, rank - 1), format!("axis {axis}"), &[x]))
}

/// `x` with axes added as in [`Tensor::atleast_3d`] until there are `rank`.
pub(crate) fn atleast(site: CallSite, x: &Tensor, rank: usize) -> Tensor {
    let mut shape = x.shape();
    if shape.rank() == 2 && rank == 3 {
        shape = with_axis(&shape, 2, 1);
    } else if shape.rank() == 1 && rank == 3 {
        shape = with_axis(&with_axis(&shape, 0, 1), 2, 1);
    } else {
        while shape.rank() < rank {
            shape = with_axis(&shape, 0, 1);
        }
    }
    site.reshape(x, &shape)
}

/// `x` with a new axis at `axis`, repeated `count` times along it.
pub(crate) fn repeated(site: CallSite, x: &Tensor, axis: usize, count: usize) -> Tensor {
    let one = site.reshape(x, &with_axis(&x.shape(), axis, 1));
    site.expand(&one, &with_axis(&x.shape(), axis, count))
}

#[cfg(test)]
mod tests {
    use crate::tensor::Tensor;
    use crate::tensor::testing::{assert_close, error_text, f32s, pattern};

    #[test]
    fn reshape_works_out_one_extent() {
        let x = pattern(&[4, 6], 0);
        assert_eq!(x.reshape([2, -1]).shape()[..], [2, 12]);
        assert_eq!(x.reshape((3usize, 2i64, -1)).shape()[..], [3, 2, 4]);
        assert_eq!(x.reshape(-1).shape()[..], [24]);
        assert_eq!(x.reshape(x.t().shape()).shape()[..], [6, 4]);
        assert!(error_text(&x.reshape([5, -1])).contains("24 elements"));
        assert!(error_text(&x.reshape([-1, -1])).contains("at most one"));
        assert!(error_text(&x.reshape([5, 5])).contains("a shape of 24 elements, found [5, 5]"));
    }

    #[test]
    fn an_invalid_operand_passes_through() {
        let bad = pattern(&[2], 0).reshape([3]);
        let text = error_text(&bad);
        assert_eq!(error_text(&bad.unsqueeze(7).flatten(0, -1).movedim(0, 1)), text);
    }

    #[test]
    fn squeeze_passes_over_longer_axes() {
        let x = pattern(&[1, 2, 1], 0);
        assert_eq!(x.squeeze(..).shape()[..], [2]);
        assert_eq!(x.squeeze([0, 1]).shape()[..], [2, 1]);
        assert_eq!(f32s(&[], &[1.0]).squeeze(-1).rank(), 0);
    }

    #[test]
    fn a_single_element_has_one_axis_where_pytorch_gives_it_one() {
        let x = f32s(&[], &[2.0]);
        assert_eq!(x.flatten(0, -1).shape()[..], [1]);
    }

    #[test]
    fn expand_keeps_axes_named_minus_one() {
        let x = f32s(&[2, 1], &[1.0, 2.0]);
        assert_close(&x.expand([-1, 2]), &[2, 2], &[1.0, 1.0, 2.0, 2.0]);
        assert!(x.expand([-1, 2, 2]).check().is_err());
        let pair = Tensor::broadcast_tensors(&[&x, &pattern(&[3], 0)]);
        assert!(pair.iter().all(|y| y.shape()[..] == [2, 3]));
    }
}
