//! The order of axes. None of this runs; it rewrites the index maps of
//! whatever reads the result.

use crate::base::{Dims, Result};
use crate::tensor::Tensor;
use crate::tensor::axis::{AxisList, IntoAxes};
use crate::tensor::compose::CallSite;

impl Tensor {
    /// The axes in the order named: axis `i` of the result is axis `axes[i]`.
    ///
    /// Invalid unless each axis is named once.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::zeros([2, 3, 4], ());
    /// assert_eq!(x.permute([2, 0, 1]).dims()?, [4, 2, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn permute(&self, axes: impl IntoAxes) -> Tensor {
        let site = CallSite::here("permute");
        let axes = axes.into_axes();
        site.build(&[self], || {
            let order = in_order(site, self, &axes)?;
            if order.len() != self.rank() {
                let expected = format!("each of {} axes once", self.rank());
                return Err(site.error(expected, format!("{order:?}"), &[self]));
            }
            Ok(site.permute(self, &order))
        })
    }

    /// Two axes swapped: `[2, 3, 4]` with 0 and 2 gives `[4, 3, 2]`.
    ///
    /// Invalid for an axis out of range.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::zeros([2, 3, 4], ());
    /// assert_eq!(x.transpose(0, -1).dims()?, [4, 3, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn transpose(&self, a: i64, b: i64) -> Tensor {
        swap(CallSite::here("transpose"), self, a, b)
    }

    /// As [`Tensor::transpose`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::zeros([2, 3], ());
    /// assert_eq!(x.swapaxes(0, 1).dims()?, [3, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn swapaxes(&self, a: i64, b: i64) -> Tensor {
        swap(CallSite::here("swapaxes"), self, a, b)
    }

    /// The transpose of a matrix; a vector or single element as it is. Invalid for rank 3 and more.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1i64, 2], [3, 4]]);
    /// assert_eq!(x.t().to_vec::<i64>()?, [1, 3, 2, 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn t(&self) -> Tensor {
        let site = CallSite::here("t");
        match self.rank() {
            0 | 1 => self.clone(),
            2 => site.permute(self, &[1, 0]),
            rank => {
                site.build(&[self], || Err(site.error("rank 2 or less", format!("rank {rank}"), &[self])))
            }
        }
    }

    /// Each matrix of the last two axes transposed: `[.., n, m]` to `[.., m, n]`.
    ///
    /// Invalid for rank 1 and less. PyTorch: `Tensor.mT`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::zeros([5, 2, 3], ());
    /// assert_eq!(x.mt().dims()?, [5, 3, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn mt(&self) -> Tensor {
        let site = CallSite::here("mt");
        if self.rank() >= 2 {
            return swap(site, self, -2, -1);
        }
        let found = format!("rank {}", self.rank());
        site.build(&[self], || Err(site.error("rank 2 or more", found, &[self])))
    }

    /// The axes `source` moved to the positions `destination`, the others keeping their order.
    ///
    /// Invalid unless there are as many of one as of the other, all in range and distinct.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::zeros([2, 3, 4], ());
    /// assert_eq!(x.movedim(0, -1).dims()?, [3, 4, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn movedim(&self, source: impl IntoAxes, destination: impl IntoAxes) -> Tensor {
        let site = CallSite::here("movedim");
        let (source, destination) = (source.into_axes(), destination.into_axes());
        site.build(&[self], || {
            let (from, to) = (in_order(site, self, &source)?, in_order(site, self, &destination)?);
            if from.len() != to.len() {
                let found = format!("{} and {}", from.len(), to.len());
                return Err(site.error("as many sources as destinations", found, &[self]));
            }
            Ok(site.permute(self, &moved(self.rank(), &from, &to)))
        })
    }
}

/// The axes named, in the order named.
pub(crate) fn in_order(site: CallSite, x: &Tensor, axes: &AxisList) -> Result<Dims> {
    let AxisList::These(axes) = axes else { return Ok((0..x.rank()).collect()) };
    let mut order = Dims::new();
    for &axis in axes {
        let axis = site.axis_number(x, axis)?;
        if order.contains(&axis) {
            return Err(site.error("distinct axes", format!("axis {axis} twice"), &[x]));
        }
        order.push(axis);
    }
    Ok(order)
}

/// The order of axes after moving each of `from` to the matching of `to`.
pub(crate) fn moved(rank: usize, from: &[usize], to: &[usize]) -> Vec<usize> {
    let mut rest = (0..rank).filter(|axis| !from.contains(axis));
    (0..rank)
        .filter_map(|slot| match to.iter().position(|&t| t == slot) {
            Some(i) => Some(from[i]),
            None => rest.next(),
        })
        .collect()
}

fn swap(site: CallSite, x: &Tensor, a: i64, b: i64) -> Tensor {
    site.build(&[x], || {
        let (row, a) = site.lane(x, a)?;
        let b = site.axis_number(&row, b)?;
        if x.rank() == 0 {
            return Ok(x.clone());
        }
        let mut order: Vec<usize> = (0..x.rank()).collect();
        order.swap(a, b);
        Ok(site.permute(x, &order))
    })
}

/// `x` with the axis `from` moved to the position `to`.
pub(crate) fn move_axis(site: CallSite, x: &Tensor, from: usize, to: usize) -> Tensor {
    site.permute(x, &moved(x.rank(), &[from], &[to]))
}

#[cfg(test)]
mod tests {
    use crate::tensor::testing::{error_text, f32s, pattern};

    #[test]
    fn a_mistake_names_the_call_and_the_users_line() {
        let text = error_text(&pattern(&[2, 3], 0).permute([0, 0]));
        assert!(text.contains("permute: expected distinct axes, found axis 0 twice"), "{text}");
        assert!(text.contains(&format!("{}:{}", file!(), line!() - 2)), "{text}");
    }

    #[test]
    fn movedim_keeps_the_order_of_the_rest() {
        let x = pattern(&[2, 3, 4, 5], 0);
        assert_eq!(x.movedim(0, -1).shape()[..], [3, 4, 5, 2]);
        assert_eq!(x.movedim([0, -1], [1, 0]).shape()[..], [5, 2, 3, 4]);
        assert!(error_text(&x.movedim([0, 1], 0)).contains("as many sources"));
    }

    #[test]
    fn a_single_element_has_one_axis_to_swap() {
        let x = f32s(&[], &[2.0]);
        assert_eq!(x.transpose(0, -1).rank(), 0);
        assert!(x.permute(0).check().is_err());
    }
}
