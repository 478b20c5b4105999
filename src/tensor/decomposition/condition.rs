//! Condition numbers.

use crate::base::Result;
use crate::ir::Monoid;
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;
use crate::tensor::decomposition::{expect_matrices, expect_square, singular_norm};
use crate::tensor::magnitude::{MatrixNorm, matrix};
use crate::tensor::solve;

impl Tensor {
    /// Condition numbers of matrices `[.., m, n]` under a norm: `[..]`.
    ///
    /// Those of the norms [`MatrixNorm::Spectral`] and [`MatrixNorm::LeastSingular`] are the quotient of the
    /// extreme singular values, the one over the other; the others are the norm of a square matrix times that of
    /// its inverse, infinite for a singular one.
    ///
    /// Needs the feature `linalg`. Invalid unless the type is `F32` or `F64`, and on a GPU. PyTorch:
    /// `torch.linalg.cond`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::MatrixNorm;
    /// let a = Tensor::from([[4.0f32, 0.0], [0.0, -2.0]]);
    /// assert_eq!(a.cond(MatrixNorm::Spectral).item::<f32>()?, 2.0);
    /// assert_eq!(a.cond(MatrixNorm::MaxRow).item::<f32>()?, 2.0);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn cond(&self, norm: MatrixNorm) -> Tensor {
        let site = CallSite::here("cond");
        site.build(&[self], || cond(site, self, norm))
    }
}

fn cond(site: CallSite, x: &Tensor, norm: MatrixNorm) -> Result<Tensor> {
    expect_matrices(site, x)?;
    let plane = (x.rank() - 2, x.rank() - 1);
    if x.numel() == 0 {
        return Ok(site.expand(&site.constant_like(0, x), &x.shape()[..plane.0]));
    }
    let largest = || singular_norm(site, x, plane, Monoid::Max);
    let smallest = || singular_norm(site, x, plane, Monoid::Min);
    match norm {
        MatrixNorm::Spectral => Ok(site.div(largest()?, smallest()?)),
        MatrixNorm::LeastSingular => Ok(site.div(smallest()?, largest()?)),
        MatrixNorm::Frobenius
        | MatrixNorm::MaxColumn
        | MatrixNorm::MinColumn
        | MatrixNorm::MaxRow
        | MatrixNorm::MinRow
        | MatrixNorm::Nuclear => {
            expect_square(site, x)?;
            let size = |x: &Tensor| matrix(site, x, norm, [-2, -1], false);
            let product = site.mul(size(x), size(&solve::inverse(site, x)));
            let singular = solve::pivots(site, x).1;
            Ok(site.select(&singular, f64::INFINITY, product, x.dtype()))
        }
    }
}
