//! Elements taken at positions that a tensor holds.

use crate::base::{DType, Result, Scalar, Shape};
use crate::ir::{AluOp, Monoid, Op};
use crate::tensor::Tensor;
use crate::tensor::advanced::{as_index, rows, wrapped};
use crate::tensor::axis::{AxisList, IntoAxes};
use crate::tensor::call_site::{with_axis, with_extent};
use crate::tensor::compose::CallSite;
use crate::tensor::lane::one_lane;
use crate::tensor::operand::{Operand, OperandValue};
use crate::tensor::position::position_dtype;
use crate::tensor::scan::scanned;
use crate::tensor::search::search;

impl Tensor {
    /// Elements along an axis at the positions `index` holds.
    ///
    /// On axis 0 of a matrix, `result[i][j] = self[index[i][j]][j]`. The result has the index's
    /// shape; on the other axes the index may be shorter. A position outside the axis, negative
    /// ones included, is an error when it runs.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1i64, 2], [3, 4]]);
    /// assert_eq!(x.gather(1, &Tensor::from([[0i64, 0], [1, 0]])).to_vec::<i64>()?, [1, 1, 4, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn gather(&self, axis: i64, index: &Tensor) -> Tensor {
        let site = CallSite::here("gather");
        site.build(&[self, index], || {
            let at = as_index(site, index)?;
            if index.numel() == 0 {
                return Ok(site.cast(index, self.dtype()));
            }
            let (x, axis) = site.lane(self, axis)?;
            let (at, _) = site.lane(&at, 0)?;
            let fits =
                x.rank() == at.rank() && (0..x.rank()).all(|i| i == axis || at.shape()[i] <= x.shape()[i]);
            if !fits {
                let expected = format!("an index of rank {} no longer on the axes but {axis}", x.rank());
                return Err(site.error(expected, index.shape().to_string(), &[self, index]));
            }
            let part = cropped(site, &x, &at.shape(), axis);
            Ok(site.reshape(&site.apply(Op::Gather(axis as u8), &[&part, &at]), &index.shape()))
        })
    }

    /// Whole slices along an axis, in the order of the positions that a rank-1 (or 0) index holds.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1i64, 2], [3, 4], [5, 6]]);
    /// assert_eq!(x.index_select(0, &Tensor::from([2i64, 0])).to_vec::<i64>()?, [5, 6, 1, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn index_select(&self, axis: i64, index: &Tensor) -> Tensor {
        let site = CallSite::here("index_select");
        site.build(&[self, index], || {
            let at = as_index(site, index)?;
            let (x, axis) = site.lane(self, axis)?;
            if index.rank() > 1 || (self.rank() == 0 && index.numel() != 1) {
                let expected = "a rank-1 index, of one element for a rank-0 tensor";
                return Err(site.error(expected, index.shape().to_string(), &[self, index]));
            }
            let at = site.reshape(&at, &Shape::from(index.numel()));
            let taken = rows(site, &x, axis, &at);
            Ok(if self.rank() == 0 { site.reshape(&taken, &self.shape()) } else { taken })
        })
    }

    /// Elements of the flattened tensor at the positions `index` holds, in the index's shape.
    ///
    /// Positions count from the end when negative.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1i64, 2], [3, 4]]);
    /// assert_eq!(x.take(&Tensor::from([0i64, -1])).to_vec::<i64>()?, [1, 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn take(&self, index: &Tensor) -> Tensor {
        let site = CallSite::here("take");
        site.build(&[self, index], || {
            let at = as_index(site, index)?;
            let flat = site.reshape(self, &Shape::from(self.numel()));
            let at = site.reshape(&wrapped(site, &at, self.numel()), &Shape::from(index.numel()));
            Ok(site.reshape(&site.apply(Op::Gather(0), &[&flat, &at]), &index.shape()))
        })
    }

    /// As [`Tensor::gather`], with broadcasting and positions counted from the end.
    ///
    /// The tensors first broadcast together on the other axes. `..` takes from the flattened
    /// tensors.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[30i64, 10], [20, 40]]);
    /// assert_eq!(x.take_along_dim(&x.argsort(1, false), 1).to_vec::<i64>()?, [10, 30, 20, 40]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn take_along_dim(&self, index: &Tensor, axis: impl IntoAxes) -> Tensor {
        let site = CallSite::here("take_along_dim");
        let axis = axis.into_axes();
        site.build(&[self, index], || {
            let at = as_index(site, index)?;
            let (x, number) = one_lane(site, self, &axis)?;
            let at = match axis {
                AxisList::All => site.reshape(&at, &Shape::from(at.numel())),
                AxisList::These(_) => site.lane(&at, 0)?.0,
            };
            if x.rank() != at.rank() {
                let expected = format!("an index of rank {}", x.rank());
                return Err(site.error(expected, index.shape().to_string(), &[self, index]));
            }
            let (mine, other) = (with_extent(&x.shape(), number, 1), with_extent(&at.shape(), number, 1));
            let fail = || site.error("shapes that broadcast together", other.to_string(), &[self, index]);
            let common = mine.broadcast(&other).ok_or_else(fail)?;
            let x = site.expand(&x, &with_extent(&common, number, x.shape()[number]));
            let at = site.expand(&at, &with_extent(&common, number, at.shape()[number]));
            let at = wrapped(site, &at, x.shape()[number]);
            Ok(site.apply(Op::Gather(number as u8), &[&x, &at]))
        })
    }

    /// Each slice along an axis as often as the rank-1 `counts` say, which add up to `length`.
    ///
    /// PyTorch: `torch.repeat_interleave` with `output_size`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([10i64, 20]);
    /// let y = x.repeat_interleave_by(&Tensor::from([1i64, 3]), 0, 4);
    /// assert_eq!(y.to_vec::<i64>()?, [10, 20, 20, 20]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn repeat_interleave_by(&self, counts: &Tensor, axis: impl IntoAxes, length: usize) -> Tensor {
        let site = CallSite::here("repeat_interleave_by");
        let axis = axis.into_axes();
        site.build(&[self, counts], || {
            let (x, axis) = one_lane(site, self, &axis)?;
            let extent = x.shape()[axis];
            let counts = as_index(site, counts)?;
            if counts.rank() > 1 || (counts.numel() != extent && counts.numel() != 1) {
                let expected = format!("a count for each of {extent} slices");
                return Err(site.error(expected, counts.shape().to_string(), &[self, &counts]));
            }
            let counts = site.expand(&site.lane(&counts, 0)?.0, &Shape::from(extent));
            let ends = scanned(site, &counts, 0, Monoid::Sum);
            let here = site.apply(Op::Iota(length, DType::I64, x.device()), &[]);
            here.check()?;
            Ok(rows(site, &x, axis, &search(site, &ends, &here, true)))
        })
    }

    /// Integers as rows of `classes` numbers (`I64`), 1 at the integer and 0 elsewhere.
    ///
    /// `[..]` to `[.., classes]`. All 0 for an integer outside `0..classes`. PyTorch:
    /// `nn.functional.one_hot`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([0i64, 2]).one_hot(3).to_vec::<i64>()?, [1, 0, 0, 0, 0, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn one_hot(&self, classes: usize) -> Tensor {
        let site = CallSite::here("one_hot");
        site.build(&[self], || {
            let wide = as_index(site, self)?;
            let narrow = self.dtype() == DType::I32 && position_dtype(classes) == DType::I32;
            let x = if narrow { self } else { &wide };
            let rank = x.rank();
            let shape = with_axis(&x.shape(), rank, classes);
            let x = site.expand(&site.reshape(x, &with_axis(&x.shape(), rank, 1)), &shape);
            let class = site.expand(&site.apply(Op::Iota(classes, x.dtype(), x.device()), &[]), &shape);
            Ok(site.cast(&site.alu(AluOp::Eq, &[&x, &class]), DType::I64))
        })
    }

    /// Whether each element is among the elements of `test`: `Bool`, in this shape.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1i64, 2, 3]);
    /// assert_eq!(x.isin(Tensor::from([3i64, 1])).to_vec::<bool>()?, [true, false, true]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn isin(&self, test: impl Operand) -> Tensor {
        let site = CallSite::here("isin");
        let test = match test.into_operand() {
            OperandValue::Tensor(tensor) => tensor,
            OperandValue::Scalar(value) => site.scalar(value, value.promote(self.dtype()), self.device()),
        };
        site.build(&[self, &test], || {
            let rank = self.rank();
            let one = site.reshape(self, &with_axis(&self.shape(), rank, 1));
            let test = site.reshape(&test, &Shape::from(test.numel()));
            let pair = site.unify(&[&one, &test])?;
            Ok(site.reduce(Monoid::Max, &site.alu(AluOp::Eq, &[&pair[0], &pair[1]]), &[rank]))
        })
    }
}

/// `x` cut to the extents of an index on the axes but one.
pub(crate) fn cropped(site: CallSite, x: &Tensor, index: &Shape, axis: usize) -> Tensor {
    let mut part = x.clone();
    for (i, &extent) in index.iter().enumerate() {
        if i != axis {
            part = site.slice(&part, i, 0, extent, 1);
        }
    }
    part
}

/// The positions `start..start + length`, where `start` is a rank-0 integer
/// tensor that counts from the end of an axis when negative.
///
/// # Errors
/// A start that is not one integer.
pub(crate) fn run_from(site: CallSite, start: &Tensor, length: usize, extent: usize) -> Result<Tensor> {
    start.node()?;
    if start.numel() != 1 {
        return Err(site.error("a start of one element", start.shape().to_string(), &[start]));
    }
    let start = site.reshape(&as_index(site, start)?, &Shape::scalar());
    let steps = site.apply(Op::Iota(length, DType::I64, start.device()), &[]);
    Ok(site.alu(AluOp::Add, &[&steps, &wrapped(site, &start, extent)]))
}

/// `length` elements along an axis from a position known only when running.
///
/// # Errors
/// As [`run_from`].
pub(crate) fn narrow_at(
    site: CallSite,
    x: &Tensor,
    axis: usize,
    start: &Tensor,
    length: usize,
) -> Result<Tensor> {
    Ok(rows(site, x, axis, &run_from(site, start, length, x.shape()[axis])?))
}

/// A value to write as `like`'s type: a number, or a rank-0 tensor.
///
/// # Errors
/// A tensor of more than one element.
pub(crate) fn value_like(site: CallSite, value: OperandValue, like: &Tensor) -> Result<Tensor> {
    match value {
        OperandValue::Scalar(value) => Ok(site.constant_like(value, like)),
        OperandValue::Tensor(tensor) => {
            tensor.node()?;
            if tensor.rank() != 0 {
                let found = tensor.shape().to_string();
                return Err(site.error("a number or a rank-0 tensor", found, &[like, &tensor]));
            }
            Ok(site.cast(&tensor, like.dtype()))
        }
    }
}

/// The value of a constant that is no element: for positions without one.
pub(crate) fn filler(site: CallSite, value: Scalar, like: &Tensor, shape: &Shape) -> Tensor {
    site.expand(&site.constant_like(value, like), shape)
}

#[cfg(test)]
mod tests {
    use crate::base::DType;
    use crate::tensor::Tensor;
    use crate::tensor::testing::{assert_close, error_text, f32s, i64s, pattern, tensor};

    #[test]
    fn gather_may_leave_rows_out() {
        let x = f32s(&[3, 2], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_close(&x.gather(1, &i64s(&[2, 1], &[1, 0])), &[2, 1], &[1.0, 2.0]);
        assert_close(&x.gather(0, &tensor(&[1, 2], DType::U8, &[2.0, 0.0])), &[1, 2], &[4.0, 1.0]);
        assert!(error_text(&x.gather(1, &i64s(&[4, 1], &[0; 4]))).contains("no longer on the axes but 1"));
        assert!(error_text(&x.gather(0, &i64s(&[2], &[0, 0]))).contains("an index of rank 2"));
    }

    #[test]
    fn a_position_outside_is_an_error_when_it_runs() {
        let x = f32s(&[2], &[0.0, 1.0]);
        assert!(Tensor::oracle(&[&x.gather(0, &i64s(&[1], &[2]))]).is_err());
        assert!(Tensor::oracle(&[&x.index_select(0, &i64s(&[1], &[-1]))]).is_err());
        assert_close(&x.take(&i64s(&[1], &[-1])), &[1], &[1.0]);
    }

    #[test]
    fn whole_slices_in_any_order() {
        let x = pattern(&[3, 2], 0);
        let y = x.index_select(0, &i64s(&[4], &[2, 0, 2, 1]));
        assert_eq!(y.shape()[..], [4, 2]);
        let counts = i64s(&[3], &[2, 0, 1]);
        let z = f32s(&[3], &[1.0, 2.0, 3.0]).repeat_interleave_by(&counts, 0, 3);
        assert_close(&z, &[3], &[1.0, 1.0, 3.0]);
    }

    #[test]
    fn a_start_known_when_running() {
        let x = f32s(&[4], &[0.0, 1.0, 2.0, 3.0]);
        assert_close(&x.narrow(0, i64s(&[], &[-3]), 2), &[2], &[1.0, 2.0]);
        assert_close(&x.narrow(0, -3, 2), &[2], &[1.0, 2.0]);
        assert!(error_text(&x.narrow(0, 3, 2)).contains("a start in -4..=2"));
    }

    #[test]
    fn classes_become_rows() {
        let x = tensor(&[2], DType::I32, &[1.0, 5.0]).one_hot(3);
        assert_close(&x, &[2, 3], &[0.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(x.dtype(), DType::I64);
        assert_close(&f32s(&[3], &[1.0, 2.0, 3.0]).isin(i64s(&[2], &[3, 1])), &[3], &[1.0, 0.0, 1.0]);
    }
}
