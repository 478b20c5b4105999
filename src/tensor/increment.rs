//! Differences along an axis, and the integral that undoes them.

use crate::base::{DType, Result, Scalar};
use crate::ir::{AluOp, Monoid};
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;
use crate::tensor::join::cat_along;
use crate::tensor::operand::{Operand, OperandValue};
use crate::tensor::options::{options, some};
use crate::tensor::position::along;
use crate::tensor::reduce::{total, widened};
use crate::tensor::scan::scanned;

options! {
    /// How differences are taken.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::DiffOpts;
    /// let x = Tensor::from([1i64, 4, 9]);
    /// assert_eq!(x.diff(DiffOpts::default().order(2)).to_vec::<i64>()?, [2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    DiffOpts {
        /// How many times (1).
        order: usize = 1;
        /// The axis (-1).
        axis: i64 = -1;
        /// What comes before the tensor along the axis.
        prepend: Option<Tensor> = None, &Tensor => some;
        /// What comes after it.
        append: Option<Tensor> = None, &Tensor => some;
    }
}

impl Tensor {
    /// Differences of neighbours along an axis.
    ///
    /// `[n]` to `[n - 1]`; of truth values, whether they differ.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1i64, 4, 9]);
    /// assert_eq!(x.diff(Default::default()).to_vec::<i64>()?, [3, 5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn diff(&self, opts: DiffOpts) -> Tensor {
        let site = CallSite::here("diff");
        let parts: Vec<&Tensor> =
            opts.prepend.iter().chain(std::iter::once(self)).chain(opts.append.iter()).collect();
        site.build(&parts, || {
            let axis = site.axis_number(self, opts.axis)?;
            if opts.order == 0 {
                return Ok(self.clone());
            }
            let mut y = cat_along(site, &parts, axis)?;
            let op = if y.dtype() == DType::Bool { AluOp::Xor } else { AluOp::Sub };
            for _ in 0..opts.order.min(y.shape()[axis]) {
                let (low, high) = neighbours(site, &y, axis);
                y = site.alu(op, &[&high, &low]);
            }
            Ok(y)
        })
    }

    /// The integral along an axis, which disappears, by the trapezoid rule.
    ///
    /// The points are `spacing` apart if that is a number, else at the positions it holds.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let y = Tensor::from([1.0f32, 2.0, 3.0]);
    /// assert_eq!(y.trapezoid(1.0, 0).to_vec::<f32>()?, [4.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn trapezoid(&self, spacing: impl Operand, axis: i64) -> Tensor {
        let site = CallSite::here("trapezoid");
        let (this, spacing): (&Tensor, _) = (&site.autocast(self), spacing.into_operand());
        site.build(&[this], || {
            let (areas, axis) = doubled_areas(site, this, spacing, axis)?;
            Ok(halved(site, &total(site, &areas, &[axis])))
        })
    }

    /// The running integral along an axis by the trapezoid rule: `[n]` to `[n - 1]`.
    ///
    /// As for [`Tensor::trapezoid`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let y = Tensor::from([1.0f32, 2.0, 3.0]);
    /// assert_eq!(y.cumulative_trapezoid(1.0, 0).to_vec::<f32>()?, [1.5, 4.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn cumulative_trapezoid(&self, spacing: impl Operand, axis: i64) -> Tensor {
        let site = CallSite::here("cumulative_trapezoid");
        let (this, spacing): (&Tensor, _) = (&site.autocast(self), spacing.into_operand());
        site.build(&[this], || {
            let (areas, axis) = doubled_areas(site, this, spacing, axis)?;
            Ok(halved(site, &scanned(site, &widened(site, &areas), axis, Monoid::Sum)))
        })
    }
}

/// All elements but the last along an axis, and all but the first.
fn neighbours(site: CallSite, x: &Tensor, axis: usize) -> (Tensor, Tensor) {
    let extent = x.shape()[axis];
    let fewer = extent.saturating_sub(1);
    (site.slice(x, axis, 0, fewer, 1), site.slice(x, axis, extent.min(1), extent, 1))
}

/// Twice the area of each strip, and the number of the axis in them.
fn doubled_areas(site: CallSite, y: &Tensor, spacing: OperandValue, axis: i64) -> Result<(Tensor, usize)> {
    let axis = site.axis_number(y, axis)?;
    let (low, high) = neighbours(site, y, axis);
    let heights = site.alu(AluOp::Add, &[&low, &high]);
    let points = match spacing {
        OperandValue::Scalar(width) => {
            let heights = site.cast(&heights, y.dtype().to_float());
            let width = site.constant_like(Scalar::Float(width.as_f64()), &heights);
            return Ok((site.alu(AluOp::Mul, &[&heights, &width]), axis));
        }
        OperandValue::Tensor(points) => points,
    };
    points.node()?;
    let extent = y.shape()[axis];
    let (points, at) = match points.rank() {
        1 => (along(site, &points, axis, y.rank()), 0),
        rank if rank + axis >= y.rank() => (points.clone(), rank + axis - y.rank()),
        _ => (points.clone(), usize::MAX),
    };
    if points.shape().get(at) != Some(&extent) {
        let expected = format!("{extent} points along axis {axis}");
        return Err(site.error(expected, points.shape().to_string(), &[y, &points]));
    }
    let (from, to) = neighbours(site, &points, at);
    let widths = site.alu(AluOp::Sub, &[&to, &from]);
    let pair = site.unify(&[&heights, &widths])?;
    let axis = axis + pair[0].rank() - heights.rank();
    Ok((site.alu(AluOp::Mul, &[&pair[0], &pair[1]]), axis))
}

fn halved(site: CallSite, x: &Tensor) -> Tensor {
    let x = &site.cast(x, x.dtype().to_float());
    site.alu(AluOp::Mul, &[x, &site.constant_like(Scalar::Float(0.5), x)])
}

#[cfg(test)]
mod tests {
    use super::DiffOpts;
    use crate::base::DType;
    use crate::tensor::testing::{assert_close, f32s, tensor};

    #[test]
    fn differences_of_neighbours() {
        let x = f32s(&[4], &[1.0, 2.0, 4.0, 8.0]);
        assert_close(&x.diff(DiffOpts::default()), &[3], &[1.0, 2.0, 4.0]);
        assert_close(&x.diff(DiffOpts::default().order(2)), &[2], &[1.0, 2.0]);
        assert_close(&x.diff(DiffOpts::default().order(9)), &[0], &[]);
        let before = f32s(&[1], &[0.0]);
        assert_close(&x.diff(DiffOpts::default().prepend(&before)), &[4], &[1.0, 1.0, 2.0, 4.0]);
        let flags = tensor(&[3], DType::Bool, &[1.0, 1.0, 0.0]);
        assert_close(&flags.diff(DiffOpts::default()), &[2], &[0.0, 1.0]);
    }

    #[test]
    fn integrals_by_the_trapezoid_rule() {
        let y = f32s(&[3], &[0.0, 2.0, 4.0]);
        assert_close(&y.trapezoid(1.0, -1), &[], &[4.0]);
        let places = f32s(&[3], &[0.0, 1.0, 3.0]);
        assert_close(&y.trapezoid(&places, 0), &[], &[7.0]);
        assert_close(&y.cumulative_trapezoid(&places, 0), &[2], &[1.0, 7.0]);
        assert!(y.trapezoid(f32s(&[2], &[0.0, 1.0]), 0).check().is_err());
    }
}
