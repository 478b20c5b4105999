//! Orthogonal and triangular factors.

use kiln_linalg::Factors;

use crate::base::Result;
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;
use crate::tensor::decomposition::{Factored, Matrices, expect_matrices};
use crate::tensor::diagonal::upper_triangle;
use crate::tensor::join::cat_along;
use crate::tensor::solve::triangular_solutions;

impl Tensor {
    /// The factors `q @ r` of matrices `[.., m, n]`: orthonormal columns and an upper triangle.
    ///
    /// With `k` the lesser of `m` and `n`, `q` is `[.., m, k]` and `r` `[.., k, n]`; if `full`, `q` is `[.., m, m]`
    /// and `r` `[.., m, n]`. The diagonal of `r` is not negative, so that the factors of matrices of full rank
    /// are unique (in PyTorch, signs are LAPACK's). Matrices with infinities or NaN give NaN.
    ///
    /// The gradient is finite for matrices whose first `k` columns are independent. With `full` and more rows
    /// than columns there is none: asking for it is an error.
    ///
    /// Needs the feature `linalg`. Invalid unless the type is `F32` or `F64`, and on a GPU. PyTorch:
    /// `torch.linalg.qr`, with the modes `"reduced"` and `"complete"`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let (q, r) = Tensor::from([[0.0f32, 2.0], [4.0, 1.0]]).qr(false);
    /// assert_eq!(q.to_vec::<f32>()?, [0.0, 1.0, 1.0, 0.0]);
    /// assert_eq!(r.to_vec::<f32>()?, [4.0, 1.0, 0.0, 2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn qr(&self, full: bool) -> (Tensor, Tensor) {
        let site = CallSite::here("qr");
        site.build_pair(&[self], || {
            expect_matrices(site, self)?;
            qr(site, self, full)
        })
    }
}

fn qr(site: CallSite, x: &Tensor, full: bool) -> Result<(Tensor, Tensor)> {
    let (rank, shape) = (x.rank(), x.shape());
    let (m, n) = (shape[rank - 2], shape[rank - 1]);
    // The columns beyond a square follow from it.
    let square = site.slice(x, rank - 1, 0, m.min(n), 1);
    let full = full && m > n;
    let rule = move |factors: &Factored, cotangents: &Factored| match full {
        true => site.invalid("`full` false for a gradient, as there are more rows than columns", "true", &[]),
        false => gradient(site, factors, cotangents),
    };
    let factors = Factored::of(site, &square, Factors::Qr { full })?.with_gradient(&square, rule);
    let (q, r) = (factors.part(site, 0), factors.part(site, 1));
    if m >= n {
        return Ok((q, r));
    }
    let rest = site.mm(&site.mt(&q), &site.slice(x, rank - 1, m, n, 1));
    let r = cat_along(site, &[&r, &rest], rank - 1)?;
    Ok((q, r))
}

/// The matrices' cotangent, `(gq + q s) r'^-1` where `s` is the upper triangle of `gr r' - q' gq`, mirrored
/// (Walter and Lehmann, "Algorithmic differentiation of linear algebra functions", 2012).
fn gradient(site: CallSite, factors: &Factored, cotangents: &Factored) -> Tensor {
    let (q, r) = (factors.part(site, 0), factors.part(site, 1));
    let (gq, gr) = (cotangents.part(site, 0), cotangents.part(site, 1));
    let m = site.sub(site.mm(&gr, &site.mt(&r)), site.mm(&site.mt(&q), &gq));
    let s = site.add(upper_triangle(site, &m, 0), site.mt(&upper_triangle(site, &m, 1)));
    let left = site.add(gq, site.mm(&q, &s));
    site.mt(&triangular_solutions(site, &r, &site.mt(&left), true, false))
}
