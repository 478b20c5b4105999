//! Order statistics: medians, modes, quantiles.

use crate::base::{DType, Result, Scalar, Shape};
use crate::ir::{AluOp, Monoid, PadAxis};
use crate::tensor::Tensor;
use crate::tensor::advanced::rows;
use crate::tensor::axis::{AxisList, IntoAxes};
use crate::tensor::call_site::{with_extent, without};
use crate::tensor::compose::CallSite;
use crate::tensor::lane::{kept, one_lane};
use crate::tensor::operand::{Operand, OperandValue};
use crate::tensor::options::options;
use crate::tensor::permute::move_axis;
use crate::tensor::position::{along, positions_in};
use crate::tensor::reduce::total;
use crate::tensor::scan::scanned;
use crate::tensor::sort::{at, chosen, first, order, sorted};

/// What a quantile between two elements is.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln::opts::{Interpolation, QuantileOpts};
/// let opts = QuantileOpts::default().interpolation(Interpolation::Lower);
/// assert_eq!(Tensor::from([1.0f32, 2.0]).quantile(0.5, .., opts).to_vec::<f32>()?, [1.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Interpolation {
    /// The value on the line between them.
    #[default]
    Linear,
    /// The lower.
    Lower,
    /// The higher.
    Higher,
    /// The nearer; halfway, the one of even position.
    Nearest,
    /// The mean of the two.
    Midpoint,
}

options! {
    /// How a quantile is taken.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::QuantileOpts;
    /// let x = Tensor::zeros([2, 3], ());
    /// assert_eq!(x.quantile(0.5, 1, QuantileOpts::default().keepdim(true)).dims()?, [2, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    QuantileOpts {
        /// What a quantile between two elements is (linear).
        interpolation: Interpolation = Interpolation::Linear;
        /// Keep the axis with extent 1 (false).
        keepdim: bool = false;
    }
}

impl Tensor {
    /// The median along an axis (of an even number, the lower of the middle two) and its position.
    ///
    /// NaN if one is NaN. `..` takes all elements. Invalid where there is none.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let (value, index) = Tensor::from([3i64, 1, 2]).median(0);
    /// assert_eq!((value.item::<i64>()?, index.item::<i64>()?), (2, 2));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn median(&self, axis: impl IntoAxes) -> (Tensor, Tensor) {
        middle(CallSite::here("median"), self, &axis.into_axes(), false, median_index)
    }

    /// As [`Tensor::median`], the axis kept with extent 1.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let (values, _) = Tensor::zeros([2, 3], ()).median_keepdim(1);
    /// assert_eq!(values.dims()?, [2, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn median_keepdim(&self, axis: impl IntoAxes) -> (Tensor, Tensor) {
        middle(CallSite::here("median"), self, &axis.into_axes(), true, median_index)
    }

    /// The median along an axis of the elements that are not NaN, and its position.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let (value, _) = Tensor::from([3.0f32, f32::NAN, 1.0]).nanmedian(0);
    /// assert_eq!(value.to_vec::<f32>()?, [1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn nanmedian(&self, axis: impl IntoAxes) -> (Tensor, Tensor) {
        middle(CallSite::here("nanmedian"), self, &axis.into_axes(), false, nanmedian_index)
    }

    /// As [`Tensor::nanmedian`], the axis kept with extent 1.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let (values, _) = Tensor::zeros([2, 3], ()).nanmedian_keepdim(1);
    /// assert_eq!(values.dims()?, [2, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn nanmedian_keepdim(&self, axis: impl IntoAxes) -> (Tensor, Tensor) {
        middle(CallSite::here("nanmedian"), self, &axis.into_axes(), true, nanmedian_index)
    }

    /// The element that most are equal to along an axis, and the position of its last occurrence.
    ///
    /// The smallest of several such.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let (value, index) = Tensor::from([5i64, 7, 7]).mode(0);
    /// assert_eq!((value.item::<i64>()?, index.item::<i64>()?), (7, 2));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn mode(&self, axis: i64) -> (Tensor, Tensor) {
        middle(CallSite::here("mode"), self, &axis.into_axes(), false, mode_index)
    }

    /// As [`Tensor::mode`], the axis kept with extent 1.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let (values, _) = Tensor::zeros([2, 3], ()).mode_keepdim(1);
    /// assert_eq!(values.dims()?, [2, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn mode_keepdim(&self, axis: i64) -> (Tensor, Tensor) {
        middle(CallSite::here("mode"), self, &axis.into_axes(), true, mode_index)
    }

    /// The values below which the parts `q` of the elements along an axis lie.
    ///
    /// NaN if an element is NaN. A tensor of several `q` adds a leading axis. `..` takes all elements.
    /// Invalid for a number `q` outside `[0, 1]` or a type that is not floating; a `q` out of range in
    /// a tensor is an error when it runs.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1.0f32, 2.0, 3.0]);
    /// assert_eq!(x.quantile(0.25, 0, Default::default()).to_vec::<f32>()?, [1.5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn quantile(&self, q: impl Operand, axis: impl IntoAxes, opts: QuantileOpts) -> Tensor {
        let site = CallSite::here("quantile");
        let this: &Tensor = &site.autocast(self);
        let (q, axis) = (q.into_operand(), axis.into_axes());
        site.build(&[this], || match q {
            OperandValue::Scalar(q) => one_quantile(site, this, q.as_f64(), &axis, &opts),
            OperandValue::Tensor(q) => quantiles(site, this, &q, &axis, &opts),
        })
    }
}

/// An element along an axis by the position that `index` (with extent 1 on
/// the axis) finds for it.
fn middle(
    site: CallSite,
    x: &Tensor,
    axes: &AxisList,
    keepdim: bool,
    index: fn(CallSite, &Tensor, usize) -> Tensor,
) -> (Tensor, Tensor) {
    site.build_pair(&[x], || {
        let (row, axis) = one_lane(site, x, axes)?;
        if row.shape()[axis] == 0 {
            return Err(site.error("at least one element", format!("extent 0 on axis {axis}"), &[x]));
        }
        let index = index(site, &row, axis);
        if keepdim && *axes == AxisList::All {
            let ones = Shape(std::iter::repeat_n(1, x.rank()).collect());
            let value = site.reshape(&at(site, &row, axis, &index), &ones);
            return Ok((value, site.reshape(&index, &ones)));
        }
        Ok(chosen(site, x, &row, axis, &index, keepdim))
    })
}

fn median_index(site: CallSite, x: &Tensor, axis: usize) -> Tensor {
    let middle = (x.shape()[axis] - 1) / 2;
    let index = site.slice(&first(site, x, axis, false, middle + 1), axis, middle, middle + 1, 1);
    if !x.dtype().is_float() {
        return index;
    }
    let first_nan = site.reshape(&site.reduce(Monoid::ArgMax, x, &[axis]), &index.shape());
    site.choose(&has_nan(site, x, axis), &first_nan, &index)
}

fn nanmedian_index(site: CallSite, x: &Tensor, axis: usize) -> Tensor {
    if !x.dtype().is_float() {
        return median_index(site, x, axis);
    }
    let there = total(site, &site.alu(AluOp::Eq, &[x, x]), &[axis]);
    let last = site.alu(AluOp::Sub, &[&there, &site.constant_like(1, &there)]);
    // Truncation takes the -1 of no elements to 0.
    let middle = site.alu(AluOp::Div, &[&last, &site.constant_like(2, &last)]);
    let middle = site.reshape(&middle, &kept(x, &[axis]));
    at(site, &order(site, x, axis, false), axis, &middle)
}

/// The end of the longest run of equal elements in order.
fn mode_index(site: CallSite, x: &Tensor, axis: usize) -> Tensor {
    let (values, order) = sorted(site, x, axis, false);
    let shape = x.shape();
    let mut pads = vec![PadAxis::default(); shape.rank()];
    pads[axis] = PadAxis { lo: 1, hi: -1, interior: 0 };
    let previous = site.pad(&values, pads, 0);
    let here = positions_in(site, &shape, axis, DType::I64, x.device());
    let zero = site.constant_like(0, &here);
    let same = site.alu(AluOp::Eq, &[&previous, &values]);
    let same = site.alu(AluOp::And, &[&same, &site.alu(AluOp::Lt, &[&zero, &here])]);
    let start = scanned(site, &site.choose(&same, &zero, &here), axis, Monoid::Max);
    let length = site.alu(AluOp::Sub, &[&here, &start]);
    let end = site.reshape(&site.reduce(Monoid::ArgMax, &length, &[axis]), &kept(x, &[axis]));
    at(site, &order, axis, &end)
}

/// Whether an element along the axis, which is kept, is NaN.
fn has_nan(site: CallSite, x: &Tensor, axis: usize) -> Tensor {
    site.reshape(&site.reduce(Monoid::Max, &site.is_nan(x), &[axis]), &kept(x, &[axis]))
}

/// The row to take quantiles of, and the shape of one of them.
fn quantile_row(
    site: CallSite,
    x: &Tensor,
    axes: &AxisList,
    opts: &QuantileOpts,
) -> Result<(Tensor, usize, Shape)> {
    let (row, axis) = one_lane(site, x, axes)?;
    if !x.dtype().is_float() || row.shape()[axis] == 0 {
        let expected = "a floating type and at least one element";
        return Err(site.error(expected, format!("{} {}", x.dtype(), x.shape()), &[x]));
    }
    let all: Vec<usize> = (0..x.rank()).collect();
    let shape = match (opts.keepdim, axes) {
        (false, _) => without(&row.shape(), axis),
        (true, AxisList::All) => kept(x, &all),
        (true, AxisList::These(_)) => kept(x, &[axis]),
    };
    Ok((row, axis, shape))
}

fn one_quantile(site: CallSite, x: &Tensor, q: f64, axes: &AxisList, opts: &QuantileOpts) -> Result<Tensor> {
    let (row, axis, shape) = quantile_row(site, x, axes, opts)?;
    if !(0.0..=1.0).contains(&q) {
        return Err(site.error("a part in 0..=1", q.to_string(), &[x]));
    }
    let rank = q * (row.shape()[axis] - 1) as f64;
    let (below, above, weight) = match opts.interpolation {
        Interpolation::Linear => (rank.floor(), rank.ceil(), rank - rank.floor()),
        Interpolation::Midpoint => (rank.floor(), rank.ceil(), 0.5),
        Interpolation::Lower => (rank.floor(), rank.floor(), 0.0),
        Interpolation::Higher => (rank.ceil(), rank.ceil(), 0.0),
        Interpolation::Nearest => (rank.round_ties_even(), rank.round_ties_even(), 0.0),
    };
    let values = at(site, &row, axis, &first(site, &row, axis, false, above as usize + 1));
    let element = |position: f64| site.slice(&values, axis, position as usize, position as usize + 1, 1);
    let mut y = element(below);
    if above > below {
        y = between(site, &y, &element(above), &site.constant_like(Scalar::Float(weight), &values));
    }
    let nan = site.constant_like(Scalar::Float(f64::NAN), &values);
    Ok(site.reshape(&site.choose(&has_nan(site, &row, axis), &nan, &y), &shape))
}

fn quantiles(site: CallSite, x: &Tensor, q: &Tensor, axes: &AxisList, opts: &QuantileOpts) -> Result<Tensor> {
    q.node()?;
    let (row, axis, shape) = quantile_row(site, x, axes, opts)?;
    if q.rank() > 1 || q.dtype() != x.dtype() {
        let expected = format!("parts of type {} and rank 1 or less", x.dtype());
        return Err(site.error(expected, format!("{} {}", q.dtype(), q.shape()), &[x, q]));
    }
    let parts = site.reshape(q, &Shape::from(q.numel()));
    let last = site.constant_like(row.shape()[axis] - 1, &parts);
    let rank = site.alu(AluOp::Mul, &[&parts, &last]);
    let floor = site.alu(AluOp::Floor, &[&rank]);
    let ceil = site.alu(AluOp::Neg, &[&site.alu(AluOp::Floor, &[&site.alu(AluOp::Neg, &[&rank])])]);
    let half = site.constant_like(Scalar::Float(0.5), &rank);
    let fraction = site.alu(AluOp::Sub, &[&rank, &floor]);
    let (below, rest) = match opts.interpolation {
        Interpolation::Linear => (floor, Some((ceil, fraction))),
        Interpolation::Midpoint => (floor, Some((ceil, site.expand(&half, &rank.shape())))),
        Interpolation::Lower => (floor, None),
        Interpolation::Higher => (ceil, None),
        Interpolation::Nearest => (site.alu(AluOp::Round, &[&rank]), None),
    };
    let (values, _) = sorted(site, &row, axis, false);
    let take = |position: &Tensor| rows(site, &values, axis, &site.cast(position, DType::I64));
    let mut y = take(&below);
    if let Some((above, weight)) = rest {
        let weight = site.expand(&along(site, &weight, axis, y.rank()), &y.shape());
        y = between(site, &y, &take(&above), &weight);
    }
    let nan = site.constant_like(Scalar::Float(f64::NAN), &values);
    let spoilt = site.expand(&has_nan(site, &row, axis), &with_extent(&row.shape(), axis, q.numel()));
    let y = move_axis(site, &site.choose(&spoilt, &nan, &y), axis, 0);
    let mut whole = q.shape();
    whole.0.extend_from_slice(&shape);
    Ok(site.reshape(&y, &whole))
}

/// The point at `weight` of the way from `low` to `high`, reckoned from the
/// nearer end, which it is where an infinite end leaves no way.
fn between(site: CallSite, low: &Tensor, high: &Tensor, weight: &Tensor) -> Tensor {
    let apart = site.alu(AluOp::Sub, &[high, low]);
    let up = site.alu(AluOp::Add, &[low, &site.alu(AluOp::Mul, &[weight, &apart])]);
    let rest = site.alu(AluOp::Sub, &[&site.constant_like(1, weight), weight]);
    let down = site.alu(AluOp::Sub, &[high, &site.alu(AluOp::Mul, &[&rest, &apart])]);
    let near = site.alu(AluOp::Lt, &[weight, &site.constant_like(Scalar::Float(0.5), weight)]);
    let y = site.choose(&near, &up, &down);
    site.choose(&site.is_nan(&y), &site.choose(&near, low, high), &y)
}

#[cfg(test)]
mod tests {
    use super::{Interpolation, QuantileOpts};
    use crate::tensor::testing::{assert_close, error_text, f32s, i64s};

    #[test]
    fn a_median_is_the_lower_of_two_and_spreads_nan() {
        let (value, index) = f32s(&[4], &[4.0, 1.0, 3.0, 2.0]).median(0);
        assert_close(&value, &[], &[2.0]);
        assert_close(&index, &[], &[3.0]);
        let x = f32s(&[2, 3], &[1.0, f64::NAN, 0.0, 5.0, 6.0, 4.0]);
        assert_close(&x.median(1).0, &[2], &[f64::NAN, 5.0]);
        assert_close(&x.nanmedian(1).0, &[2], &[0.0, 5.0]);
        assert_close(&x.nanmedian_keepdim(..).0, &[1, 1], &[4.0]);
        assert!(error_text(&f32s(&[0], &[]).median(0).0).contains("at least one element"));
    }

    #[test]
    fn a_mode_is_the_smallest_of_the_most_frequent() {
        let (value, index) = i64s(&[6], &[3, 1, 3, 1, 2, 9]).mode(0);
        assert_close(&value, &[], &[1.0]);
        assert_close(&index, &[], &[3.0]);
    }

    #[test]
    fn quantiles_between_elements() {
        let x = f32s(&[4], &[4.0, 1.0, 3.0, 2.0]);
        let cases = [
            (Interpolation::Linear, 2.2),
            (Interpolation::Lower, 2.0),
            (Interpolation::Higher, 3.0),
            (Interpolation::Nearest, 2.0),
            (Interpolation::Midpoint, 2.5),
        ];
        for (interpolation, expected) in cases {
            let opts = QuantileOpts::default().interpolation(interpolation);
            assert_close(&x.quantile(0.4, .., opts.clone()), &[], &[expected]);
            let both = x.quantile(f32s(&[2], &[0.0, 0.4]), 0, opts.keepdim(true));
            assert_close(&both, &[2, 1], &[1.0, expected]);
        }
        assert!(error_text(&x.quantile(1.5, .., QuantileOpts::default())).contains("a part in 0..=1"));
        let (far, ends) = (f32s(&[3], &[f64::INFINITY, 1.0, f64::NEG_INFINITY]), f32s(&[2], &[0.0, 0.9]));
        let nearest = QuantileOpts::default().interpolation(Interpolation::Nearest);
        assert_close(&far.quantile(&ends, 0, nearest), &[2], &[f64::NEG_INFINITY, f64::INFINITY]);
    }
}
