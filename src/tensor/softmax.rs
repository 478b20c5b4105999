//! Softmax and its relatives along one axis: maximum, exponential and sum
//! over the same rows, which fuse into one kernel.
//!
//! 16-bit floats compute in `F32`; integers become `F32` first. A tensor of
//! rank 0 counts as one row of one element, with axis 0 or -1.

use crate::base::DType;
use crate::ir::{AluOp, Monoid};
use crate::tensor::Tensor;
use crate::tensor::compose::{CallSite, Checked, finish};

impl Tensor {
    /// `exp(x)` over its sum along the axis; the shape stays. Invalid for an axis out of range.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1.0f32, 1.0], [3.0, 3.0]]);
    /// assert_eq!(x.softmax(-1).to_vec::<f32>()?, [0.5; 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn softmax(&self, axis: i64) -> Tensor {
        along(CallSite::here("softmax"), self, axis, None, softmax)
    }

    /// [`Tensor::softmax`] of the elements converted to `dtype`, which is the result's type.
    ///
    /// PyTorch: `softmax` with `dtype`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([2i64, 2]);
    /// assert_eq!(x.softmax_as(0, DType::F64).to_vec::<f64>()?, [0.5, 0.5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn softmax_as(&self, axis: i64, dtype: DType) -> Tensor {
        along(CallSite::here("softmax"), self, axis, Some(dtype), softmax)
    }

    /// The logarithm of [`Tensor::softmax`], without underflow.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([0.0f32, 1000.0]);
    /// assert_eq!(x.log_softmax(0).to_vec::<f32>()?, [-1000.0, 0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn log_softmax(&self, axis: i64) -> Tensor {
        along(CallSite::here("log_softmax"), self, axis, None, log_softmax)
    }

    /// [`Tensor::log_softmax`] of the elements converted to `dtype`, which is the result's type.
    ///
    /// PyTorch: `log_softmax` with `dtype`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([0i64, 1000]);
    /// assert_eq!(x.log_softmax_as(0, DType::F64).to_vec::<f64>()?, [-1000.0, 0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn log_softmax_as(&self, axis: i64, dtype: DType) -> Tensor {
        along(CallSite::here("log_softmax"), self, axis, Some(dtype), log_softmax)
    }

    /// The softmax of the negated elements; the shape stays. Invalid for an axis out of range.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([0.0f32, 1000.0]);
    /// assert_eq!(x.softmin(0).to_vec::<f32>()?, [1.0, 0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn softmin(&self, axis: i64) -> Tensor {
        along(CallSite::here("softmin"), self, axis, None, |site, x, axis| {
            softmax(site, &site.unary(AluOp::Neg, x), axis)
        })
    }

    /// [`Tensor::softmin`] of the elements converted to `dtype`, which is the result's type.
    ///
    /// PyTorch: `softmin` with `dtype`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([0i64, 1000]);
    /// assert_eq!(x.softmin_as(0, DType::F64).to_vec::<f64>()?, [1.0, 0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn softmin_as(&self, axis: i64, dtype: DType) -> Tensor {
        along(CallSite::here("softmin"), self, axis, Some(dtype), |site, x, axis| {
            softmax(site, &site.unary(AluOp::Neg, x), axis)
        })
    }
}

type RowFunction = fn(CallSite, &Tensor, usize) -> Tensor;

/// `body` along an axis, computed in the type's arithmetic and rounded once.
fn along(site: CallSite, x: &Tensor, axis: i64, dtype: Option<DType>, body: RowFunction) -> Tensor {
    let x: &Tensor = &site.autocast(x);
    let rows = || -> Checked<Tensor> {
        site.valid(&[x])?;
        let dtype = dtype.unwrap_or(x.dtype().to_float());
        site.require(dtype.is_float(), &[x], || ("a floating type".into(), dtype.to_string()))?;
        let flat = if x.rank() == 0 { site.reshape(x, &[1]) } else { x.clone() };
        let axis = site.axis(&flat, axis)?;
        let result = body(site, &site.cast(&site.cast(&flat, dtype), dtype.compute()), axis);
        Ok(site.reshape(&site.cast(&result, dtype), &x.shape()))
    };
    finish(rows())
}

/// The maximum of each row, along an axis that stays with extent 1. A constant for
/// gradients: less it or not, rows have the same softmax.
pub(crate) fn row_maximum(site: CallSite, x: &Tensor, axis: usize) -> Tensor {
    site.reduce_keepdim(Monoid::Max, x, &[axis]).detached(site.span)
}

/// The elements less their row's maximum.
fn shifted(site: CallSite, x: &Tensor, axis: usize) -> Tensor {
    site.sub(x, row_maximum(site, x, axis))
}

// One quotient a row: products take less than half as long as quotients, for one rounding more.
fn softmax(site: CallSite, x: &Tensor, axis: usize) -> Tensor {
    let powers = site.unary(AluOp::Exp, &shifted(site, x, axis));
    let total = site.reduce_keepdim(Monoid::Sum, &powers, &[axis]);
    site.mul(&powers, site.unary(AluOp::Recip, &total))
}

fn log_softmax(site: CallSite, x: &Tensor, axis: usize) -> Tensor {
    let shifted = shifted(site, x, axis);
    let powers = site.unary(AluOp::Exp, &shifted);
    let total = site.reduce_keepdim(Monoid::Sum, &powers, &[axis]);
    site.sub(&shifted, site.unary(AluOp::Log, &total))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::testing::{assert_close, error_text, f32s, i64s, values};

    #[test]
    fn a_number_alone_is_a_row_of_one() {
        assert_close(&f32s(&[], &[3.0]).softmax(0), &[], &[1.0]);
        assert_close(&f32s(&[], &[3.0]).log_softmax(-1), &[], &[0.0]);
        assert!(error_text(&f32s(&[], &[3.0]).softmax(1)).contains("axis"));
    }

    #[test]
    fn rows_may_lie_along_any_axis_and_be_empty() {
        let x = f32s(&[2, 2], &[0.0, 0.0, 3f64.ln(), 0.0]);
        assert_close(&x.softmax(0), &[2, 2], &[0.25, 0.5, 0.75, 0.5]);
        assert_close(&x.softmin(0), &[2, 2], &[0.75, 0.5, 0.25, 0.5]);
        assert_close(&f32s(&[2, 0], &[]).softmax(1), &[2, 0], &[]);
        assert!(values(&f32s(&[1], &[f64::NEG_INFINITY]).softmax(0))[0].is_nan());
    }

    #[test]
    fn the_type_may_be_chosen() {
        let x = i64s(&[2], &[0, 0]);
        assert_eq!(x.softmax(0).dtype(), DType::F32);
        assert_eq!(x.softmax_as(0, DType::F64).dtype(), DType::F64);
        assert!(error_text(&x.softmax_as(0, DType::I64)).contains("a floating type"));
    }
}
