//! Padding: elements added around a tensor, or (negative) taken from it.

use crate::base::{Result, Scalar};
use crate::ir::PadAxis;
use crate::tensor::Tensor;
use crate::tensor::call_site::with_extent;
use crate::tensor::compose::CallSite;
use crate::tensor::join::cat_along;

/// What padding is filled with.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// let x = Tensor::from([1i64, 2, 3]);
/// assert_eq!(x.pad(&[1, 1], PadMode::Reflect).to_vec::<i64>()?, [2, 1, 2, 3, 2]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum PadMode {
    /// A number.
    Constant(Scalar),
    /// The elements mirrored at the edge, which is not repeated.
    Reflect,
    /// The edge repeated.
    Replicate,
    /// The elements from the other end.
    Circular,
}

impl<T: Into<Scalar>> From<T> for PadMode {
    fn from(value: T) -> PadMode {
        PadMode::Constant(value.into())
    }
}

impl Tensor {
    /// Padding in PyTorch's order: pairs of counts before and after, the last axis first.
    ///
    /// Axes not named stay; negative counts crop. The mode is a number to fill with or a
    /// [`PadMode`]. Invalid for an odd number of counts.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1i64, 2, 3]);
    /// assert_eq!(x.pad(&[1, 2], 0).to_vec::<i64>()?, [0, 1, 2, 3, 0, 0]);
    /// assert_eq!(x.pad(&[-1, 0], 0).to_vec::<i64>()?, [2, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn pad(&self, pads: &[i64], mode: impl Into<PadMode>) -> Tensor {
        let site = CallSite::here("pad");
        let mode = mode.into();
        site.build(&[self], || {
            let pads = per_axis(site, self, pads)?;
            padded(site, self, &pads, mode)
        })
    }

    /// Padding with a number, as [`Tensor::pad`] does it.
    ///
    /// Pairs of counts before and after, the last axis first; negative counts crop.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1i64, 2]]);
    /// assert_eq!(x.constant_pad_nd(&[1, 0, 0, 1], 9).to_vec::<i64>()?, [9, 1, 2, 9, 9, 9]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn constant_pad_nd(&self, pads: &[i64], value: impl Into<Scalar>) -> Tensor {
        let site = CallSite::here("constant_pad_nd");
        let mode = PadMode::Constant(value.into());
        site.build(&[self], || {
            let pads = per_axis(site, self, pads)?;
            padded(site, self, &pads, mode)
        })
    }

    /// Padding axis by axis, the first axis first: one pair of counts before and after for each.
    ///
    /// Negative counts crop.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1i64, 2]]);
    /// assert_eq!(x.pad_axes(&[(0, 1), (1, 0)], 9).to_vec::<i64>()?, [9, 1, 2, 9, 9, 9]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn pad_axes(&self, pads: &[(i64, i64)], mode: impl Into<PadMode>) -> Tensor {
        let site = CallSite::here("pad_axes");
        let mode = mode.into();
        site.build(&[self], || {
            if pads.len() != self.rank() {
                let expected = format!("a pair for each of {} axes", self.rank());
                return Err(site.error(expected, format!("{} pairs", pads.len()), &[self]));
            }
            padded(site, self, pads, mode)
        })
    }
}

/// PyTorch's flat list of counts as one pair per axis.
fn per_axis(site: CallSite, x: &Tensor, pads: &[i64]) -> Result<Vec<(i64, i64)>> {
    if !pads.len().is_multiple_of(2) || pads.len() / 2 > x.rank() {
        let expected = format!("pairs of counts for at most {} axes", x.rank());
        return Err(site.error(expected, format!("{} counts", pads.len()), &[x]));
    }
    let mut pairs = vec![(0, 0); x.rank()];
    for (pair, counts) in pairs.iter_mut().rev().zip(pads.chunks(2)) {
        *pair = (counts[0], counts[1]);
    }
    Ok(pairs)
}

/// Padding by so many elements before and after each axis.
pub(crate) fn padded(site: CallSite, x: &Tensor, pads: &[(i64, i64)], mode: PadMode) -> Result<Tensor> {
    let part: fn(CallSite, &Tensor, usize, usize, bool) -> Result<Tensor> = match mode {
        PadMode::Constant(value) => {
            let pads: Vec<PadAxis> = pads.iter().map(|&(lo, hi)| PadAxis { lo, hi, interior: 0 }).collect();
            return Ok(site.pad(x, pads, value));
        }
        PadMode::Reflect => reflected,
        PadMode::Replicate => edge,
        PadMode::Circular => opposite,
    };
    let mut y = x.clone();
    for (axis, &(lo, hi)) in pads.iter().enumerate() {
        y = padded_axis(site, &y, axis, (lo, hi), part)?;
    }
    Ok(y)
}

/// One axis padded with parts of the tensor itself.
fn padded_axis(
    site: CallSite,
    x: &Tensor,
    axis: usize,
    (lo, hi): (i64, i64),
    part: fn(CallSite, &Tensor, usize, usize, bool) -> Result<Tensor>,
) -> Result<Tensor> {
    let extent = x.shape()[axis];
    let crop = |count: i64| usize::try_from(count.min(0).unsigned_abs()).unwrap_or(usize::MAX);
    let (start, after) = (crop(lo), crop(hi));
    if start.saturating_add(after) > extent {
        let expected = format!("at most {extent} elements cropped on axis {axis}");
        return Err(site.error(expected, format!("{lo} and {hi}"), &[x]));
    }
    // What is cropped at one end is not there to be wrapped around to the other.
    let kept = site.slice(x, axis, start, extent - after, 1);
    let mut parts = Vec::with_capacity(3);
    if lo > 0 {
        parts.push(part(site, &kept, axis, lo as usize, true)?);
    }
    parts.push(kept.clone());
    if hi > 0 {
        parts.push(part(site, &kept, axis, hi as usize, false)?);
    }
    cat_along(site, &parts.iter().collect::<Vec<_>>(), axis)
}

/// The `count` elements next to an edge, mirrored.
fn reflected(site: CallSite, x: &Tensor, axis: usize, count: usize, before: bool) -> Result<Tensor> {
    let extent = x.shape()[axis];
    if count >= extent {
        let expected = format!("fewer than {extent} reflected elements on axis {axis}");
        return Err(site.error(expected, count.to_string(), &[x]));
    }
    let start = if before { 1 } else { extent - 1 - count };
    let part = site.slice(x, axis, start, start + count, 1);
    Ok(site.flip(&part, &[axis]))
}

/// The element at an edge, `count` times.
fn edge(site: CallSite, x: &Tensor, axis: usize, count: usize, before: bool) -> Result<Tensor> {
    let shape = x.shape();
    if shape[axis] == 0 {
        return Err(site.error(format!("an edge to repeat on axis {axis}"), "extent 0", &[x]));
    }
    let at = if before { 0 } else { shape[axis] - 1 };
    let one = site.slice(x, axis, at, at + 1, 1);
    Ok(site.expand(&one, &with_extent(&shape, axis, count)))
}

/// The `count` elements at the other end.
fn opposite(site: CallSite, x: &Tensor, axis: usize, count: usize, before: bool) -> Result<Tensor> {
    let extent = x.shape()[axis];
    if count > extent {
        let expected = format!("at most {extent} elements wrapped around on axis {axis}");
        return Err(site.error(expected, count.to_string(), &[x]));
    }
    let start = if before { extent - count } else { 0 };
    Ok(site.slice(x, axis, start, start + count, 1))
}

#[cfg(test)]
mod tests {
    use super::PadMode;
    use crate::tensor::testing::{assert_close, error_text, f32s};

    #[test]
    fn counts_come_last_axis_first() {
        let x = f32s(&[1, 2], &[1.0, 2.0]);
        assert_close(&x.pad(&[1, 0, 0, 1], 9.0), &[2, 3], &[9.0, 1.0, 2.0, 9.0, 9.0, 9.0]);
        assert_close(&x.pad_axes(&[(0, 1), (1, 0)], 9.0), &[2, 3], &[9.0, 1.0, 2.0, 9.0, 9.0, 9.0]);
        assert_close(&x.pad(&[-1, 1], 0), &[1, 2], &[2.0, 0.0]);
    }

    #[test]
    fn modes_take_from_the_tensor_itself() {
        let x = f32s(&[4], &[0.0, 1.0, 2.0, 3.0]);
        let padded = |mode| x.pad(&[2, 1], mode);
        assert_close(&padded(PadMode::Reflect), &[7], &[2.0, 1.0, 0.0, 1.0, 2.0, 3.0, 2.0]);
        assert_close(&padded(PadMode::Replicate), &[7], &[0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 3.0]);
        assert_close(&padded(PadMode::Circular), &[7], &[2.0, 3.0, 0.0, 1.0, 2.0, 3.0, 0.0]);
        assert_close(&x.pad(&[-1, 1], PadMode::Reflect), &[4], &[1.0, 2.0, 3.0, 2.0]);
    }

    #[test]
    fn what_the_tensor_cannot_give_is_refused() {
        let x = f32s(&[2], &[0.0, 1.0]);
        assert!(error_text(&x.pad(&[2, 0], PadMode::Reflect)).contains("fewer than 2 reflected"));
        assert!(error_text(&x.pad(&[3, 0], PadMode::Circular)).contains("at most 2 elements wrapped"));
        assert!(error_text(&x.pad(&[1], 0)).contains("pairs of counts"));
        assert!(x.pad(&[-2, -1], 0).check().is_err());
    }
}
