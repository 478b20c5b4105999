//! Axis arguments: `-1`, `[0, 1]`, `..`.

use std::ops::RangeFull;

use smallvec::SmallVec;

use crate::base::{Error, OpError, Result, Shape, Span};

/// Axes as a user names them.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// let x = Tensor::zeros([2, 3, 4], ());
/// assert_eq!(x.sum(-1).dims()?, [2, 3]);
/// assert_eq!(x.sum([0, 1]).dims()?, [4]);
/// assert_eq!(x.sum(..).rank(), 0);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AxisList {
    /// Every axis.
    All,
    /// These, counted from the end when negative.
    These(SmallVec<[i64; 4]>),
}

/// What can name axes: an integer, an array, slice or vector of integers, or
/// `..` for all of them.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// let x = Tensor::zeros([2, 3, 4], ());
/// assert_eq!(x.sum([0, -1]).dims()?, [3]);
/// assert_eq!(x.sum(..).rank(), 0);
/// # Ok::<(), kiln::Error>(())
/// ```
pub trait IntoAxes {
    /// The axes named.
    fn into_axes(self) -> AxisList;
}

impl IntoAxes for AxisList {
    fn into_axes(self) -> AxisList {
        self
    }
}
impl IntoAxes for RangeFull {
    fn into_axes(self) -> AxisList {
        AxisList::All
    }
}
impl IntoAxes for i64 {
    fn into_axes(self) -> AxisList {
        AxisList::These(SmallVec::from_slice(&[self]))
    }
}
impl IntoAxes for i32 {
    fn into_axes(self) -> AxisList {
        i64::from(self).into_axes()
    }
}
impl IntoAxes for usize {
    fn into_axes(self) -> AxisList {
        i64::try_from(self).unwrap_or(i64::MAX).into_axes()
    }
}
impl<const N: usize> IntoAxes for [i64; N] {
    fn into_axes(self) -> AxisList {
        AxisList::These(SmallVec::from_slice(&self))
    }
}
impl<const N: usize> IntoAxes for [i32; N] {
    fn into_axes(self) -> AxisList {
        AxisList::These(self.iter().map(|&axis| i64::from(axis)).collect())
    }
}
impl IntoAxes for &[i64] {
    fn into_axes(self) -> AxisList {
        AxisList::These(SmallVec::from_slice(self))
    }
}
impl IntoAxes for Vec<i64> {
    fn into_axes(self) -> AxisList {
        AxisList::These(SmallVec::from_vec(self))
    }
}
impl IntoAxes for &Vec<i64> {
    fn into_axes(self) -> AxisList {
        self.as_slice().into_axes()
    }
}

/// The number of one axis of `shape`. As in PyTorch, a rank-0 tensor accepts
/// 0 and -1 where the caller treats it as having one axis; here it does not.
///
/// # Errors
/// An axis outside `-rank..rank`.
pub(crate) fn resolve(op: &'static str, span: Span, axis: i64, shape: &Shape) -> Result<usize> {
    let rank = shape.rank() as i64;
    if (-rank..rank).contains(&axis) {
        return Ok(axis.rem_euclid(rank) as usize);
    }
    let expected = match rank {
        0 => "no axis, as the tensor has rank 0".to_string(),
        _ => format!("an axis in {}..={}", -rank, rank - 1),
    };
    Err(Error::from(OpError::new(op, span, expected, format!("axis {axis}")).with_shapes([shape.clone()])))
}
