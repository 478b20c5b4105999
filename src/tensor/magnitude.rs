//! Norms of vectors and matrices, and distances.

use crate::base::{Result, Scalar};
use crate::ir::{AluOp, Monoid};
use crate::tensor::Tensor;
use crate::tensor::axis::{AxisList, IntoAxes};
use crate::tensor::compose::CallSite;
#[cfg(feature = "linalg")]
use crate::tensor::decomposition::singular_norm;
use crate::tensor::lane::{kept, reduced};
use crate::tensor::permute::in_order;
use crate::tensor::reduce::{computing, extreme, nonempty, total};
use crate::tensor::rule::with_rule;

/// Which norm of a matrix.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln::opts::MatrixNorm;
/// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
/// assert_eq!(x.matrix_norm(MatrixNorm::MaxRow, [-2, -1]).to_vec::<f32>()?, [7.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MatrixNorm {
    /// Square root of the sum of squares.
    Frobenius,
    /// Largest sum of magnitudes down a column.
    MaxColumn,
    /// Smallest sum of magnitudes down a column.
    MinColumn,
    /// Largest sum of magnitudes along a row.
    MaxRow,
    /// Smallest sum of magnitudes along a row.
    MinRow,
    /// Largest singular value, with the feature `linalg`; PyTorch's 2.
    #[cfg(feature = "linalg")]
    Spectral,
    /// Smallest singular value, with the feature `linalg`; PyTorch's -2.
    #[cfg(feature = "linalg")]
    LeastSingular,
    /// Sum of singular values, with the feature `linalg`; PyTorch's `"nuc"`.
    #[cfg(feature = "linalg")]
    Nuclear,
}

impl Tensor {
    /// The `p`-norm over axes: the `p`-th root of the sum of magnitudes to the power `p`.
    ///
    /// An infinite `p` is the largest (negative: the smallest) magnitude, 0 the number of nonzero
    /// elements. Invalid unless the type is floating, or when an infinite or negative order meets an
    /// empty axis. The gradient of a norm of 0 is 0. PyTorch: `torch.linalg.vector_norm`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([3.0f32, -4.0]);
    /// assert_eq!(x.norm(2.0, ..).to_vec::<f32>()?, [5.0]);
    /// assert_eq!(x.norm(f64::INFINITY, ..).to_vec::<f32>()?, [4.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn norm(&self, p: f64, axes: impl IntoAxes) -> Tensor {
        over(CallSite::here("norm"), self, p, &axes.into_axes(), false)
    }

    /// As [`Tensor::norm`], the axes kept with extent 1.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::ones([2, 3], ());
    /// assert_eq!(x.norm_keepdim(2.0, 1).dims()?, [2, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn norm_keepdim(&self, p: f64, axes: impl IntoAxes) -> Tensor {
        over(CallSite::here("norm"), self, p, &axes.into_axes(), true)
    }

    /// A norm of the matrices that two axes (rows, then columns) span.
    ///
    /// PyTorch: `torch.linalg.matrix_norm`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::MatrixNorm;
    /// let x = Tensor::from([[3.0f32, 0.0], [0.0, 4.0]]);
    /// assert_eq!(x.matrix_norm(MatrixNorm::Frobenius, [0, 1]).to_vec::<f32>()?, [5.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn matrix_norm(&self, norm: MatrixNorm, axes: [i64; 2]) -> Tensor {
        matrix(CallSite::here("matrix_norm"), self, norm, axes, false)
    }

    /// As [`Tensor::matrix_norm`], the axes kept with extent 1.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::MatrixNorm;
    /// let x = Tensor::ones([5, 2, 3], ());
    /// assert_eq!(x.matrix_norm_keepdim(MatrixNorm::MaxColumn, [1, 2]).dims()?, [5, 1, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn matrix_norm_keepdim(&self, norm: MatrixNorm, axes: [i64; 2]) -> Tensor {
        matrix(CallSite::here("matrix_norm"), self, norm, axes, true)
    }

    /// The `p`-norm of the difference of two tensors that broadcast together, over all elements.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([3.0f32, 4.0]);
    /// assert_eq!(x.dist(&Tensor::zeros([2], ()), 2.0).to_vec::<f32>()?, [5.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn dist(&self, other: &Tensor, p: f64) -> Tensor {
        let site = CallSite::here("dist");
        let this: &Tensor = &site.autocast(self);
        let other: &Tensor = &site.autocast(other);
        site.build(&[this, other], || {
            let pair = site.unify(&[this, other])?;
            let apart = site.alu(AluOp::Sub, &[&pair[0], &pair[1]]);
            magnitude(site, &apart, p, &(0..apart.rank()).collect::<Vec<_>>())
        })
    }

    /// The slices along an axis whose `p`-norm is above `limit`, scaled down to it.
    ///
    /// The others stay as they are, and so does the shape.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[3.0f32, 4.0], [0.5, 0.0]]).renorm(2.0, 0, 1.0);
    /// assert!((x.i(0).norm(2.0, ..).item::<f32>()? - 1.0).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn renorm(&self, p: f64, axis: i64, limit: f64) -> Tensor {
        let site = CallSite::here("renorm");
        let this: &Tensor = &site.autocast(self);
        site.build(&[this], || {
            let axis = site.axis_number(this, axis)?;
            let others: Vec<usize> = (0..this.rank()).filter(|&other| other != axis).collect();
            let wide = computing(site, this)?;
            let size = site.reshape(&magnitude(site, &wide, p, &others)?, &kept(this, &others));
            let limit = site.constant_like(Scalar::Float(limit), &wide);
            // PyTorch's guard against division by 0.
            let guarded = site.alu(AluOp::Add, &[&size, &site.constant_like(Scalar::Float(1e-7), &size)]);
            let scale = site.alu(AluOp::Div, &[&limit, &guarded]);
            let above = site.alu(AluOp::Lt, &[&limit, &size]);
            let scale = site.choose(&above, &scale, &site.constant_like(1, &scale));
            let scaled = site.alu(AluOp::Mul, &[&wide, &site.expand(&scale, &this.shape())]);
            Ok(site.cast(&scaled, this.dtype()))
        })
    }
}

fn over(site: CallSite, x: &Tensor, p: f64, axes: &AxisList, keepdim: bool) -> Tensor {
    let x: &Tensor = &site.autocast(x);
    site.build(&[x], || {
        let axes = reduced(site, x, axes)?;
        let y = magnitude(site, x, p, &axes)?;
        Ok(if keepdim { site.reshape(&y, &kept(x, &axes)) } else { y })
    })
}

/// The `p`-norm over axes, rounded once.
pub(crate) fn magnitude(site: CallSite, x: &Tensor, p: f64, axes: &[usize]) -> Result<Tensor> {
    let wide = computing(site, x)?;
    let size = |x: &Tensor| site.alu(AluOp::Abs, &[x]);
    if p < 0.0 {
        nonempty(site, &wide, axes)?;
    }
    let y = if p == f64::INFINITY {
        extreme(site, &size(&wide), Monoid::Max, axes)?
    } else if p == f64::NEG_INFINITY {
        extreme(site, &size(&wide), Monoid::Min, axes)?
    } else if p == 0.0 {
        let zero = site.alu(AluOp::Eq, &[&wide, &site.constant_like(0, &wide)]);
        let nonzero = site.alu(AluOp::Not, &[&zero]);
        let count = total(site, &site.cast(&nonzero, wide.dtype()), axes);
        // A step function: its slope is 0 everywhere.
        with_rule(count, &[&wide], |_, _, _| vec![None])
    } else if p == 1.0 {
        total(site, &size(&wide), axes)
    } else if p == 2.0 {
        let squares = site.alu(AluOp::Mul, &[&wide, &wide]);
        let y = site.alu(AluOp::Sqrt, &[&total(site, &squares, axes)]);
        with_slope(site, y, &wide, p, axes)
    } else {
        let exponent = site.constant_like(Scalar::Float(p), &wide);
        let inverse = site.constant_like(Scalar::Float(1.0 / p), &wide);
        let powers = site.alu(AluOp::Pow, &[&size(&wide), &exponent]);
        let y = site.alu(AluOp::Pow, &[&total(site, &powers, axes), &inverse]);
        with_slope(site, y, &wide, p, axes)
    };
    Ok(site.cast(&y, x.dtype()))
}

/// `y` as the `p`-norm of `x`, with the gradient `sign(x) (|x| / y)^(p - 1)`, which is 0 where the
/// norm is 0, and for orders other than 2 where the element is.
fn with_slope(site: CallSite, y: Tensor, x: &Tensor, p: f64, axes: &[usize]) -> Tensor {
    let shape = kept(x, axes);
    with_rule(y, &[x], move |inputs, y, g| {
        let x = &inputs[0];
        let spread = |t: &Tensor| site.expand(&site.reshape(t, &shape), &x.shape());
        let (zero, one) = (site.constant_like(0, x), site.constant_like(1, x));
        let is_zero = |t: &Tensor| site.alu(AluOp::Eq, &[t, &zero]);
        if p == 2.0 {
            let still = is_zero(y);
            let factor = site.alu(AluOp::Div, &[g, &site.choose(&still, &one, y)]);
            return vec![Some(site.alu(AluOp::Mul, &[x, &spread(&site.choose(&still, &zero, &factor))]))];
        }
        let y = spread(y);
        let still = site.alu(AluOp::Or, &[&is_zero(x), &is_zero(&y)]);
        let safe = |t: &Tensor| site.choose(&still, &one, t);
        let slope = slope(site, &site.alu(AluOp::Abs, &[&safe(x)]), &safe(&y), p);
        let negative = site.alu(AluOp::Lt, &[x, &zero]);
        let signed = site.choose(&negative, &site.alu(AluOp::Neg, &[&slope]), &slope);
        vec![Some(site.alu(AluOp::Mul, &[&site.choose(&still, &zero, &signed), &spread(g)]))]
    })
}

/// `(x / y)^(p - 1)`; of small orders as two powers, as the quotient may have no room.
fn slope(site: CallSite, x: &Tensor, y: &Tensor, p: f64) -> Tensor {
    let power = |x: &Tensor, p: f64| site.alu(AluOp::Pow, &[x, &site.constant_like(Scalar::Float(p), x)]);
    if 0.0 < p && p < 2.0 {
        return site.alu(AluOp::Mul, &[&power(x, p - 1.0), &power(y, 1.0 - p)]);
    }
    power(&site.alu(AluOp::Div, &[x, y]), p - 1.0)
}

/// A norm of the matrices that two axes span.
pub(crate) fn matrix(site: CallSite, x: &Tensor, norm: MatrixNorm, axes: [i64; 2], keepdim: bool) -> Tensor {
    let x: &Tensor = &site.autocast(x);
    site.build(&[x], || {
        let plane = in_order(site, x, &axes.into_axes())?;
        let (row, column) = (plane[0], plane[1]);
        let y = match norm {
            MatrixNorm::Frobenius => magnitude(site, x, 2.0, &plane)?,
            MatrixNorm::MaxColumn => sums(site, x, row, column, Monoid::Max)?,
            MatrixNorm::MinColumn => sums(site, x, row, column, Monoid::Min)?,
            MatrixNorm::MaxRow => sums(site, x, column, row, Monoid::Max)?,
            MatrixNorm::MinRow => sums(site, x, column, row, Monoid::Min)?,
            #[cfg(feature = "linalg")]
            MatrixNorm::Spectral => singular_norm(site, x, (row, column), Monoid::Max)?,
            #[cfg(feature = "linalg")]
            MatrixNorm::LeastSingular => singular_norm(site, x, (row, column), Monoid::Min)?,
            #[cfg(feature = "linalg")]
            MatrixNorm::Nuclear => singular_norm(site, x, (row, column), Monoid::Sum)?,
        };
        Ok(if keepdim { site.reshape(&y, &kept(x, &plane)) } else { y })
    })
}

/// The extreme along `across` of the sums of magnitudes down `down`.
fn sums(site: CallSite, x: &Tensor, down: usize, across: usize, monoid: Monoid) -> Result<Tensor> {
    let magnitudes = site.alu(AluOp::Abs, &[&computing(site, x)?]);
    let sums = total(site, &magnitudes, &[down]);
    let y = extreme(site, &sums, monoid, &[across - usize::from(across > down)])?;
    Ok(site.cast(&y, x.dtype()))
}

#[cfg(test)]
mod tests {
    use super::MatrixNorm;
    use crate::tensor::testing::{assert_close, error_text, f32s};

    #[test]
    fn norms_of_a_row() {
        let x = f32s(&[3], &[3.0, -4.0, 0.0]);
        let cases = [(0.0, 2.0), (1.0, 7.0), (2.0, 5.0), (f64::INFINITY, 4.0), (f64::NEG_INFINITY, 0.0)];
        for (p, expected) in cases {
            assert_close(&x.norm(p, ..), &[], &[expected]);
        }
        assert_close(&x.norm(3.0, ..), &[], &[91f64.cbrt()]);
        assert_close(&x.norm(2.0, ..).dist(&x, 1.0), &[], &[2.0 + 9.0 + 5.0]);
        assert!(error_text(&x.norm(1.0, 1)).contains("an axis in"));
    }

    #[test]
    fn norms_of_a_matrix() {
        let x = f32s(&[2, 2], &[1.0, -2.0, 3.0, 4.0]);
        let norms = [
            (MatrixNorm::Frobenius, 30f64.sqrt()),
            (MatrixNorm::MaxColumn, 6.0),
            (MatrixNorm::MinColumn, 4.0),
            (MatrixNorm::MaxRow, 7.0),
            (MatrixNorm::MinRow, 3.0),
        ];
        for (norm, expected) in norms {
            assert_close(&x.matrix_norm(norm, [-2, -1]), &[], &[expected]);
            assert_close(&x.matrix_norm_keepdim(norm, [0, 1]), &[1, 1], &[expected]);
        }
    }

    #[test]
    fn renorm_only_shrinks() {
        let x = f32s(&[2, 2], &[3.0, 4.0, 0.3, 0.4]);
        assert_close(&x.renorm(2.0, 0, 1.0).norm(2.0, 1), &[2], &[1.0 / (1.0 + 2e-8), 0.5]);
    }
}
