//! Scans along an axis.

use crate::base::{Result, Shape};
use crate::ir::{AluOp, Monoid, Op};
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;
use crate::tensor::position::positions_in;
use crate::tensor::reduce::widened;

impl Tensor {
    /// Running sums along an axis; the shape stays. Integers and truth values are summed as `I64`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([1i64, 2, 3]).cumsum(0).to_vec::<i64>()?, [1, 3, 6]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn cumsum(&self, axis: i64) -> Tensor {
        let site = CallSite::here("cumsum");
        let this: &Tensor = &site.autocast(self);
        site.build(&[this], || running(site, &widened(site, this), axis, Monoid::Sum))
    }

    /// Running products along an axis; the shape stays.
    ///
    /// Integers and truth values are multiplied as `I64`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([1i64, 2, 3]).cumprod(0).to_vec::<i64>()?, [1, 2, 6]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn cumprod(&self, axis: i64) -> Tensor {
        let site = CallSite::here("cumprod");
        let this: &Tensor = &site.autocast(self);
        site.build(&[this], || running(site, &widened(site, this), axis, Monoid::Prod))
    }

    /// Running maxima along an axis, and the position of each, the last of equals.
    ///
    /// NaN from the first on. Both have this shape.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let (values, indices) = Tensor::from([1i64, 3, 2]).cummax(0);
    /// assert_eq!(values.to_vec::<i64>()?, [1, 3, 3]);
    /// assert_eq!(indices.to_vec::<i64>()?, [0, 1, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn cummax(&self, axis: i64) -> (Tensor, Tensor) {
        let site = CallSite::here("cummax");
        site.build_pair(&[self], || with_index(site, self, axis, Monoid::Max))
    }

    /// Running minima along an axis, and the position of each, the last of equals.
    ///
    /// NaN from the first on. Both have this shape.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let (values, indices) = Tensor::from([2i64, 3, 1]).cummin(0);
    /// assert_eq!(values.to_vec::<i64>()?, [2, 2, 1]);
    /// assert_eq!(indices.to_vec::<i64>()?, [0, 0, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn cummin(&self, axis: i64) -> (Tensor, Tensor) {
        let site = CallSite::here("cummin");
        site.build_pair(&[self], || with_index(site, self, axis, Monoid::Min))
    }

    /// Logarithms of running sums of exponentials along an axis, without overflow; the shape stays.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1000.0f32, 1000.0]);
    /// assert!((x.logcumsumexp(0).i(1).item::<f32>()? - 1000.6931).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn logcumsumexp(&self, axis: i64) -> Tensor {
        let site = CallSite::here("logcumsumexp");
        site.build(&[self], || running(site, self, axis, Monoid::LogSumExp))
    }
}

fn running(site: CallSite, x: &Tensor, axis: i64, monoid: Monoid) -> Result<Tensor> {
    let (row, axis) = site.lane(x, axis)?;
    Ok(site.reshape(&scanned(site, &row, axis, monoid), &x.shape()))
}

/// The running combination along an axis.
pub(crate) fn scanned(site: CallSite, x: &Tensor, axis: usize, monoid: Monoid) -> Tensor {
    site.apply(Op::Scan(monoid, axis as u8), &[x])
}

/// The position of an extreme is the last so far where the element equals
/// the running extreme, or is NaN.
fn with_index(site: CallSite, x: &Tensor, axis: i64, monoid: Monoid) -> Result<(Tensor, Tensor)> {
    let (row, axis) = site.lane(x, axis)?;
    let values = scanned(site, &row, axis, monoid);
    let mut here = site.alu(AluOp::Eq, &[&row, &values]);
    if row.dtype().is_float() {
        here = site.alu(AluOp::Or, &[&here, &site.is_nan(&row)]);
    }
    let shape: Shape = row.shape();
    let at = positions_in(site, &shape, axis, crate::base::DType::I64, row.device());
    let marked = site.choose(&here, &at, &site.constant_like(0, &at));
    let indices = scanned(site, &marked, axis, Monoid::Max);
    Ok((site.reshape(&values, &x.shape()), site.reshape(&indices, &x.shape())))
}

#[cfg(test)]
mod tests {
    use crate::base::DType;
    use crate::tensor::testing::{assert_close, f32s, i64s, tensor};

    #[test]
    fn sums_run_along_one_axis() {
        let x = i64s(&[2, 2], &[1, 2, 3, 4]);
        assert_close(&x.cumsum(0), &[2, 2], &[1.0, 2.0, 4.0, 6.0]);
        assert_close(&x.cumprod(-1), &[2, 2], &[1.0, 2.0, 3.0, 12.0]);
        assert_eq!(tensor(&[1], DType::U8, &[1.0]).cumsum(0).dtype(), DType::I64);
        assert_close(&f32s(&[], &[3.0]).cumsum(-1), &[], &[3.0]);
    }

    #[test]
    fn extremes_remember_the_last_of_equals_and_nan() {
        let x = f32s(&[6], &[1.0, 3.0, 3.0, 2.0, f64::NAN, 9.0]);
        let (values, indices) = x.cummax(0);
        assert_close(&values, &[6], &[1.0, 3.0, 3.0, 3.0, f64::NAN, f64::NAN]);
        assert_close(&indices, &[6], &[0.0, 1.0, 2.0, 2.0, 4.0, 4.0]);
    }

    #[test]
    fn logarithms_of_sums_do_not_overflow() {
        let x = f32s(&[2], &[1000.0, 1000.0]);
        assert_close(&x.logcumsumexp(0), &[2], &[1000.0, 1000.0 + 2f64.ln()]);
    }
}
