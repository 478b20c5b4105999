//! A run of elements along an axis replaced, from a position on that may vary.

use crate::base::{DType, Result, Scalar};
use crate::ir::{AluOp, Op, ScatterMode};
use crate::tensor::Tensor;
use crate::tensor::call_site::with_extent;
use crate::tensor::compose::CallSite;
use crate::tensor::index::run_from;
use crate::tensor::operand::{Operand, OperandValue};
use crate::tensor::position::along;
use crate::tensor::update::{expect_shape, same_dtype};

impl Tensor {
    /// The tensor with `src` from `start` on along an axis.
    ///
    /// The start is a number, or a rank-0 integer tensor known only when running.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1i64, 2, 3, 4]);
    /// assert_eq!(x.slice_update(0, 2, &Tensor::from([8i64, 9])).to_vec::<i64>()?, [1, 2, 8, 9]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn slice_update(&self, axis: i64, start: impl Operand, src: &Tensor) -> Tensor {
        let site = CallSite::here("slice_update");
        let (start, known) = match start.into_operand() {
            OperandValue::Tensor(start) => (start, None),
            OperandValue::Scalar(start) => {
                let known = if let Scalar::Int(start) = start { Some(start) } else { None };
                (site.scalar(start, start.default_dtype(), self.device()), known)
            }
        };
        site.build(&[self, src, &start], || {
            same_dtype(site, self, src)?;
            let axis = site.axis_number(self, axis)?;
            let extent = self.shape()[axis];
            let length = src.shape().get(axis).copied().unwrap_or(0);
            expect_shape(site, src, &with_extent(&self.shape(), axis, length))?;
            if let Some(known) = known {
                let first = first_of_run(site, self, known, length, extent)?;
                let first = site.scalar(first, DType::I64, self.device());
                return Ok(written_at(site, self, axis, &first, src));
            }
            let row = run_from(site, &start, length, extent)?;
            let at = site.expand(&along(site, &row, axis, self.rank()), &src.shape());
            Ok(site.apply(Op::Scatter(axis as u8, ScatterMode::Set), &[self, &at, src]))
        })
    }
}

/// Where a run of `length` elements starts in an axis; negative starts count from its end.
///
/// # Errors
/// A run that the axis does not hold.
fn first_of_run(site: CallSite, x: &Tensor, start: i64, length: usize, extent: usize) -> Result<i64> {
    let first = if start < 0 { start.saturating_add(extent as i64) } else { start };
    if first < 0 || first as u64 > extent.saturating_sub(length) as u64 {
        let expected = format!("a start within {extent} elements, for {length} of them");
        return Err(site.error(expected, start.to_string(), &[x]));
    }
    Ok(first)
}

/// `x` with `new` along an axis from a position on, `[]` of `I64`, that is known to leave it room. The
/// plan sees that too: it checks no index, and writes where `x` lies if nobody else can read that.
pub(crate) fn written_at(site: CallSite, x: &Tensor, axis: usize, start: &Tensor, new: &Tensor) -> Tensor {
    let (Some(&length), Some(&extent)) = (new.shape().get(axis), x.shape().get(axis)) else {
        return x.clone();
    };
    let last = extent.saturating_sub(length) as i64;
    let first = site.alu(AluOp::Max, &[start, &site.constant_like(0, start)]);
    let first = site.alu(AluOp::Min, &[&first, &site.constant_like(last, start)]);
    let row = site.alu(AluOp::Add, &[&site.iota(length, DType::I64, x.device()), &first]);
    let at = site.expand(&along(site, &row, axis, new.rank()), &new.shape());
    site.apply(Op::Scatter(axis as u8, ScatterMode::Set), &[x, &at, new])
}
