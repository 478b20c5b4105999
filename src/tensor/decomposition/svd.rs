//! Singular values and vectors.

use kiln_linalg::Factors;

use crate::base::Result;
use crate::ir::Monoid;
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;
use crate::tensor::decomposition::{Factored, Matrices, expect_matrices, is_tracked};
use crate::tensor::reduce::extreme;
use crate::tensor::rule::with_rule;

impl Tensor {
    /// Singular value decompositions `u @ diag(s) @ vh` of matrices `[.., m, n]`.
    ///
    /// With `k` the lesser of `m` and `n`, the results are `u` `[.., m, k]`, `s` `[.., k]`, descending, and
    /// `vh` `[.., k, n]`; if `full`, `u` is `[.., m, m]` and `vh` `[.., n, n]`. In a column of `u` the element of
    /// greatest magnitude is positive. Matrices with infinities or NaN give NaN.
    ///
    /// Gradients of `u` and `vh` hold for functions that do not depend on the signs of their columns and rows,
    /// and grow without bound where singular values approach each other, or 0 if the matrix is not square;
    /// those of the further columns and rows of `full` ones are taken for 0. See [`Tensor::svdvals`].
    ///
    /// Needs the feature `linalg`. Invalid unless the type is `F32` or `F64`, and on a GPU. PyTorch:
    /// `torch.linalg.svd`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let a = Tensor::from([[0.0f32, -2.0], [3.0, 0.0], [0.0, 0.0]]);
    /// let (u, s, vh) = a.svd(false);
    /// assert_eq!(s.to_vec::<f32>()?, [3.0, 2.0]);
    /// assert_eq!(u.to_vec::<f32>()?, [0.0, 1.0, 1.0, 0.0, 0.0, 0.0]);
    /// assert_eq!(vh.to_vec::<f32>()?, [1.0, 0.0, 0.0, -1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn svd(&self, full: bool) -> (Tensor, Tensor, Tensor) {
        let site = CallSite::here("svd");
        let factors = || {
            expect_matrices(site, self)?;
            let factored = svd(site, self, full)?;
            Ok([0, 1, 2].map(|which| factored.part(site, which)))
        };
        let [u, s, vh] = site.build_array(&[self], factors);
        (u, s, vh)
    }

    /// The singular values of matrices `[.., m, n]`, descending: `[.., k]`, `k` the lesser of `m` and `n`.
    ///
    /// The gradient is finite for equal singular values, too. As [`Tensor::svd`] otherwise. PyTorch:
    /// `torch.linalg.svdvals`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let a = Tensor::from([[0.0f32, -2.0], [3.0, 0.0]]);
    /// assert_eq!(a.svdvals().to_vec::<f32>()?, [3.0, 2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn svdvals(&self) -> Tensor {
        let site = CallSite::here("svdvals");
        site.build(&[self], || {
            expect_matrices(site, self)?;
            singular_values(site, self)
        })
    }
}

/// The decomposition with its gradient.
fn svd(site: CallSite, x: &Tensor, full: bool) -> Result<Factored> {
    let rule = move |factors: &Factored, cotangents: &Factored| gradient(site, factors, cotangents);
    Ok(Factored::of(site, x, Factors::Svd { full })?.with_gradient(x, rule))
}

/// The first `k` columns of `u`, the singular values, and the first `k` rows of `vh`.
fn thin(site: CallSite, factors: &Factored) -> [Tensor; 3] {
    let [u, s, vh] = [0, 1, 2].map(|which| factors.part(site, which));
    let k = s.shape()[s.rank() - 1];
    [site.slice(&u, u.rank() - 1, 0, k, 1), s, site.slice(&vh, vh.rank() - 2, 0, k, 1)]
}

/// The matrices' cotangent, `u (a s + s b + diag(gs)) vh` where `a` and `b` are `u' gu` and `vh gvh'` less their
/// transposes, over differences of squared singular values; and what `u` and `vh` gain outside of the spaces
/// they span (Townsend, "Differentiating the Singular Value Decomposition", 2016).
fn gradient(site: CallSite, factors: &Factored, cotangents: &Factored) -> Tensor {
    let ([u, s, vh], [gu, gs, gvh]) = (thin(site, factors), thin(site, cotangents));
    let (row, column) = (site.row(&s), site.column(&s));
    let a = site.skew(&site.mm(&site.mt(&u), &gu));
    let b = site.skew(&site.mm(&vh, &site.mt(&gvh)));
    // As a product of difference and sum, since squares cancel.
    let apart = site.mul(site.sub(&row, &column), site.add(&row, &column));
    let inner = site.quotient(&site.add(site.mul(a, &row), site.mul(&column, b)), &apart);
    let left = site.add(site.mm(&u, &inner), site.mul(&u, site.row(&gs)));
    let x = site.mm(&left, &vh);
    let (m, n) = (u.shape()[u.rank() - 2], vh.shape()[vh.rank() - 1]);
    if m > n {
        let over = site.quotient(&gu, &row);
        let outside = site.sub(&over, site.mm(&u, &site.mm(&site.mt(&u), &over)));
        return site.add(x, site.mm(&outside, &vh));
    }
    if n > m {
        let over = site.quotient(&gvh, &column);
        let outside = site.sub(&over, site.mm(&site.mm(&over, &site.mt(&vh)), &vh));
        return site.add(x, site.mm(&u, &outside));
    }
    x
}

/// The singular values, with vectors where gradients need them.
pub(super) fn singular_values(site: CallSite, x: &Tensor) -> Result<Tensor> {
    let values = Factored::of(site, x, Factors::SingularValues)?.part(site, 0);
    if !is_tracked(&values) {
        return Ok(values);
    }
    let factors = svd(site, x, false)?;
    let (work, s) = (factors.work, factors.part(site, 1));
    Ok(with_rule(s, &[x, &factors.packed], move |inputs, _, g| {
        let factors = Factored { work, packed: inputs[1].clone() };
        let (u, vh) = (factors.part(site, 0), factors.part(site, 2));
        vec![Some(site.mm(&site.mul(u, site.row(g)), &vh)), None]
    }))
}

/// The largest or smallest singular value of the matrices in two axes, or their sum.
pub(crate) fn singular_norm(
    site: CallSite,
    x: &Tensor,
    (row, column): (usize, usize),
    monoid: Monoid,
) -> Result<Tensor> {
    let mut order: Vec<usize> = (0..x.rank()).filter(|&axis| axis != row && axis != column).collect();
    order.extend([row, column]);
    let x = site.permute(x, &order);
    expect_matrices(site, &x)?;
    let s = singular_values(site, &x)?;
    let last = s.rank() - 1;
    if monoid == Monoid::Sum { Ok(site.sum(&s, &[last])) } else { extreme(site, &s, monoid, &[last]) }
}
