//! Elements written at positions that a tensor holds.

use crate::base::{DType, Kind, Result, Scalar, Shape};
use crate::ir::monoid::int_range;
use crate::ir::{AluOp, Op, PadAxis, ScatterMode};
use crate::tensor::Tensor;
use crate::tensor::advanced::as_index;
use crate::tensor::compose::CallSite;
use crate::tensor::index::{cropped, filler, value_like};
use crate::tensor::operand::{Operand, OperandValue};
use crate::tensor::position::inside;

/// How values written at one position are combined.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// let x = Tensor::from([10i64, 20]);
/// let (index, src) = (Tensor::from([0i64, 0]), Tensor::from([3i64, 40]));
/// assert_eq!(x.scatter_reduce(0, &index, &src, ScatterReduce::Amax, true).to_vec::<i64>()?, [40, 20]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScatterReduce {
    /// Their sum; of truth values, whether any is true.
    Sum,
    /// Their product; of truth values, whether all are true.
    Prod,
    /// Their mean; of integers, rounded down.
    Mean,
    /// The largest.
    Amax,
    /// The smallest.
    Amin,
}

impl Tensor {
    /// The tensor with `src` written along an axis at the positions `index` holds.
    ///
    /// `src` is a tensor or a number; the last of several wins. The index may be shorter than the
    /// tensor on the other axes and than `src` on all. A position outside the axis is an error when
    /// it runs.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([0i64, 0, 0]);
    /// let y = x.scatter(0, &Tensor::from([2i64, 0]), &Tensor::from([5i64, 6]));
    /// assert_eq!(y.to_vec::<i64>()?, [6, 0, 5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn scatter(&self, axis: i64, index: &Tensor, src: impl Operand) -> Tensor {
        let site = CallSite::here("scatter");
        let src = src.into_operand();
        site.build(&[self, index], || {
            let target = ScatterArguments::new(site, self, axis, index, src)?;
            Ok(target.written(site, self, |x, at, values| {
                site.apply(Op::Scatter(target.axis as u8, ScatterMode::Set), &[x, at, values])
            }))
        })
    }

    /// The tensor with `src` added along an axis at the positions `index` holds.
    ///
    /// Shapes as for [`Tensor::scatter`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1i64, 1, 1]);
    /// let y = x.scatter_add(0, &Tensor::from([2i64, 2]), &Tensor::from([5i64, 6]));
    /// assert_eq!(y.to_vec::<i64>()?, [1, 1, 12]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn scatter_add(&self, axis: i64, index: &Tensor, src: impl Operand) -> Tensor {
        reduced(
            CallSite::here("scatter_add"),
            self,
            axis,
            index,
            src.into_operand(),
            ScatterReduce::Sum,
            true,
        )
    }

    /// The tensor with `src` combined in along an axis at the positions `index` holds.
    ///
    /// Where any is written, the tensor's own element takes part only with `include_self`. Shapes
    /// as for [`Tensor::scatter`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([10i64, 20]);
    /// let (index, src) = (Tensor::from([0i64, 0]), Tensor::from([3i64, 4]));
    /// let y = x.scatter_reduce(0, &index, &src, ScatterReduce::Prod, false);
    /// assert_eq!(y.to_vec::<i64>()?, [12, 20]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn scatter_reduce(
        &self,
        axis: i64,
        index: &Tensor,
        src: impl Operand,
        reduce: ScatterReduce,
        include_self: bool,
    ) -> Tensor {
        let site = CallSite::here("scatter_reduce");
        reduced(site, self, axis, index, src.into_operand(), reduce, include_self)
    }
}

fn reduced(
    site: CallSite,
    x: &Tensor,
    axis: i64,
    index: &Tensor,
    src: OperandValue,
    reduce: ScatterReduce,
    include_self: bool,
) -> Tensor {
    site.build(&[x, index], || {
        let target = ScatterArguments::new(site, x, axis, index, src)?;
        Ok(target.written(site, x, |x, at, values| {
            combined(site, x, (target.axis, at), values, reduce, include_self)
        }))
    })
}

/// Arguments of a scatter that fit each other: at least rank 1, the values
/// of the index's shape and the tensor's type.
struct ScatterArguments {
    axis: usize,
    index: Tensor,
    values: Tensor,
}

impl ScatterArguments {
    fn new(
        site: CallSite,
        x: &Tensor,
        axis: i64,
        index: &Tensor,
        src: OperandValue,
    ) -> Result<ScatterArguments> {
        let (row, axis) = site.lane(x, axis)?;
        let (index, _) = site.lane(&as_index(site, index)?, 0)?;
        let empty = index.numel() == 0;
        let shorter = |a: &Shape, b: &Shape, but: usize| {
            a.rank() == b.rank() && (0..a.rank()).all(|i| i == but || a[i] <= b[i])
        };
        if !empty && !shorter(&index.shape(), &row.shape(), axis) {
            let expected = format!("an index of rank {} no longer on the axes but {axis}", row.rank());
            return Err(site.error(expected, index.shape().to_string(), &[x, &index]));
        }
        let values = match src {
            OperandValue::Scalar(_) => site.expand(&value_like(site, src, x)?, &index.shape()),
            OperandValue::Tensor(src) => {
                src.node()?;
                if src.dtype() != x.dtype() {
                    let expected = format!("values of type {}", x.dtype());
                    return Err(site.error(expected, src.dtype().to_string(), &[x, &src]));
                }
                let (src, _) = site.lane(&src, 0)?;
                if !empty && !shorter(&index.shape(), &src.shape(), usize::MAX) {
                    let expected = format!("values for an index of shape {}", index.shape());
                    return Err(site.error(expected, src.shape().to_string(), &[x, &src]));
                }
                if empty { src } else { cropped(site, &src, &index.shape(), usize::MAX) }
            }
        };
        Ok(ScatterArguments { axis, index, values })
    }

    /// `x` with the part that the index can reach replaced by what `write`
    /// makes of it.
    fn written(
        &self,
        site: CallSite,
        x: &Tensor,
        write: impl FnOnce(&Tensor, &Tensor, &Tensor) -> Tensor,
    ) -> Tensor {
        if self.index.numel() == 0 {
            return x.clone();
        }
        let row = if x.rank() == 0 { site.reshape(x, &Shape::from(1)) } else { x.clone() };
        let part = cropped(site, &row, &self.index.shape(), self.axis);
        let written = write(&part, &self.index, &self.values);
        let (whole, reach) = (row.shape(), part.shape());
        if whole == reach {
            return site.reshape(&written, &x.shape());
        }
        let rest =
            |(&whole, &part): (&usize, &usize)| PadAxis { hi: (whole - part) as i64, ..PadAxis::default() };
        let pads: Vec<PadAxis> = whole.iter().zip(&*reach).map(rest).collect();
        let padded = site.pad(&written, pads.clone(), 0);
        site.choose(&inside(site, &reach, &pads, x.device()), &padded, &row)
    }
}

/// `values` combined into `x` at positions along an axis.
pub(crate) fn combined(
    site: CallSite,
    x: &Tensor,
    (axis, index): (usize, &Tensor),
    values: &Tensor,
    reduce: ScatterReduce,
    include_self: bool,
) -> Tensor {
    let scatter =
        |mode, x: &Tensor, values: &Tensor| site.apply(Op::Scatter(axis as u8, mode), &[x, index, values]);
    // Sums and products of narrow floats are rounded once, at the end.
    let dtype = match reduce {
        ScatterReduce::Sum | ScatterReduce::Prod | ScatterReduce::Mean => x.dtype().compute(),
        ScatterReduce::Amax | ScatterReduce::Amin => x.dtype(),
    };
    let (mut base, values) = (site.cast(x, dtype), site.cast(values, dtype));
    if !include_self {
        let start = filler(site, identity(reduce, dtype), &base, &index.shape());
        base = scatter(ScatterMode::Set, &base, &start);
    }
    let y = scatter(mode(reduce, dtype), &base, &values);
    let y = if reduce == ScatterReduce::Mean {
        let ones = filler(site, Scalar::Int(1), &y, &index.shape());
        let own = filler(site, Scalar::Int(i64::from(include_self)), &y, &x.shape());
        let count = scatter(ScatterMode::Add, &own, &ones);
        quotient(site, &y, &site.alu(AluOp::Max, &[&count, &site.constant_like(1, &count)]))
    } else {
        y
    };
    site.cast(&y, x.dtype())
}

/// What a scatter does for a reduction; on truth values, sums and products
/// are or and and.
pub(crate) fn mode(reduce: ScatterReduce, dtype: DType) -> ScatterMode {
    let bool = dtype == DType::Bool;
    match reduce {
        ScatterReduce::Sum | ScatterReduce::Mean if bool => ScatterMode::Max,
        ScatterReduce::Prod if bool => ScatterMode::Min,
        ScatterReduce::Sum | ScatterReduce::Mean => ScatterMode::Add,
        ScatterReduce::Prod => ScatterMode::Mul,
        ScatterReduce::Amax => ScatterMode::Max,
        ScatterReduce::Amin => ScatterMode::Min,
    }
}

fn identity(reduce: ScatterReduce, dtype: DType) -> Scalar {
    let (least, greatest) = int_range(dtype);
    match (reduce, dtype.kind()) {
        (ScatterReduce::Sum | ScatterReduce::Mean, _) => Scalar::Int(0),
        (ScatterReduce::Prod, _) => Scalar::Int(1),
        (ScatterReduce::Amax, Kind::Float) => Scalar::Float(f64::NEG_INFINITY),
        (ScatterReduce::Amin, Kind::Float) => Scalar::Float(f64::INFINITY),
        (ScatterReduce::Amax, Kind::Bool | Kind::Int) => Scalar::Int(least),
        (ScatterReduce::Amin, Kind::Bool | Kind::Int) => Scalar::Int(greatest),
    }
}

/// The quotient by a positive count; of integers, rounded down.
fn quotient(site: CallSite, sum: &Tensor, count: &Tensor) -> Tensor {
    let quotient = site.alu(AluOp::Div, &[sum, count]);
    if sum.dtype().is_float() {
        return quotient;
    }
    let rest = site.alu(AluOp::Rem, &[sum, count]);
    let down = site.alu(AluOp::Lt, &[&rest, &site.constant_like(0, &rest)]);
    let less = site.alu(AluOp::Sub, &[&quotient, &site.constant_like(1, &quotient)]);
    site.choose(&down, &less, &quotient)
}

#[cfg(test)]
mod tests {
    use super::ScatterReduce;
    use crate::base::DType;
    use crate::tensor::testing::{assert_close, error_text, f32s, i64s, tensor};

    #[test]
    fn the_last_write_wins_and_the_rest_stays() {
        let x = f32s(&[2, 3], &[0.0; 6]);
        let index = i64s(&[1, 3], &[2, 2, 0]);
        let y = x.scatter(1, &index, f32s(&[1, 3], &[1.0, 2.0, 3.0]));
        assert_close(&y, &[2, 3], &[3.0, 0.0, 2.0, 0.0, 0.0, 0.0]);
        let y = x.scatter(0, &i64s(&[1, 2], &[1, 0]), 7.0);
        assert_close(&y, &[2, 3], &[0.0, 7.0, 0.0, 7.0, 0.0, 0.0]);
    }

    #[test]
    fn own_elements_take_part_on_request() {
        let x = f32s(&[3], &[10.0, 20.0, 30.0]);
        let (index, src) = (i64s(&[3], &[0, 0, 2]), f32s(&[3], &[1.0, 3.0, 5.0]));
        let reduce = |how, own| x.scatter_reduce(0, &index, &src, how, own);
        assert_close(&reduce(ScatterReduce::Sum, true), &[3], &[14.0, 20.0, 35.0]);
        assert_close(&reduce(ScatterReduce::Sum, false), &[3], &[4.0, 20.0, 5.0]);
        assert_close(&reduce(ScatterReduce::Mean, true), &[3], &[14.0 / 3.0, 20.0, 17.5]);
        assert_close(&reduce(ScatterReduce::Mean, false), &[3], &[2.0, 20.0, 5.0]);
        assert_close(&reduce(ScatterReduce::Prod, false), &[3], &[3.0, 20.0, 5.0]);
        assert_close(&reduce(ScatterReduce::Amax, true), &[3], &[10.0, 20.0, 30.0]);
        assert_close(&reduce(ScatterReduce::Amin, false), &[3], &[1.0, 20.0, 5.0]);
    }

    #[test]
    fn means_of_integers_are_rounded_down_and_sums_of_truths_are_or() {
        let y = i64s(&[1], &[0]).scatter_reduce(
            0,
            &i64s(&[2], &[0, 0]),
            i64s(&[2], &[-1, -2]),
            ScatterReduce::Mean,
            false,
        );
        assert_close(&y, &[1], &[-2.0]);
        let truths = tensor(&[2], DType::Bool, &[1.0, 1.0]);
        let y = tensor(&[1], DType::Bool, &[0.0]).scatter_add(0, &i64s(&[2], &[0, 0]), truths);
        assert_close(&y, &[1], &[1.0]);
    }

    #[test]
    fn types_and_shapes_must_fit() {
        let (x, index) = (f32s(&[2], &[0.0; 2]), i64s(&[1], &[0]));
        assert!(
            error_text(&x.scatter(0, &index, i64s(&[1], &[0]))).contains("values of type f32, found i64")
        );
        assert!(error_text(&x.scatter(0, &i64s(&[1, 1], &[0]), 0.0)).contains("an index of rank 1"));
        assert!(error_text(&x.scatter(0, &f32s(&[1], &[0.0]), 0.0)).contains("an integer index"));
    }
}
