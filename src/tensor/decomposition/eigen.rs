//! Eigenvalues and eigenvectors of symmetric matrices.

use kiln_linalg::Factors;

use crate::base::Result;
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;
use crate::tensor::decomposition::{Factored, Matrices, expect_square, is_tracked};
use crate::tensor::rule::with_rule;

impl Tensor {
    /// Eigendecompositions `v @ diag(w) @ v.T` of symmetric matrices `[.., n, n]`.
    ///
    /// The results are the eigenvalues `w` `[.., n]`, ascending, and the eigenvectors in the columns of `v`
    /// `[.., n, n]`. One triangle of the matrices is read, the lower or with `upper` the upper one. In a column
    /// of `v` the element of greatest magnitude is positive. Matrices with infinities or NaN give NaN.
    ///
    /// The gradient is that of symmetric matrices, in both triangles. That of `v` holds for functions that do
    /// not depend on the signs of its columns, and grows without bound where eigenvalues approach each other.
    ///
    /// Needs the feature `linalg`. Invalid unless the matrices are square and the type is `F32` or `F64`, and on
    /// a GPU. PyTorch: `torch.linalg.eigh`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let (w, v) = Tensor::from([[3.0f32, 0.0], [0.0, 1.0]]).eigh(false);
    /// assert_eq!(w.to_vec::<f32>()?, [1.0, 3.0]);
    /// assert_eq!(v.to_vec::<f32>()?, [0.0, 1.0, 1.0, 0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn eigh(&self, upper: bool) -> (Tensor, Tensor) {
        let site = CallSite::here("eigh");
        site.build_pair(&[self], || {
            expect_square(site, self)?;
            let factors = eigh(site, &lower(site, self, upper))?;
            Ok((factors.part(site, 0), factors.part(site, 1)))
        })
    }

    /// The eigenvalues of symmetric matrices `[.., n, n]`, ascending: `[.., n]`.
    ///
    /// The gradient is finite for equal eigenvalues, too. As [`Tensor::eigh`] otherwise. PyTorch:
    /// `torch.linalg.eigvalsh`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let a = Tensor::from([[3.0f32, 0.0], [0.0, 1.0]]);
    /// assert_eq!(a.eigvalsh(false).to_vec::<f32>()?, [1.0, 3.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn eigvalsh(&self, upper: bool) -> Tensor {
        let site = CallSite::here("eigvalsh");
        site.build(&[self], || {
            expect_square(site, self)?;
            eigenvalues(site, &lower(site, self, upper))
        })
    }
}

/// Matrices whose lower triangle is the one to read.
fn lower(site: CallSite, x: &Tensor, upper: bool) -> Tensor {
    if upper { site.mt(x) } else { x.clone() }
}

/// The decomposition with its gradient.
fn eigh(site: CallSite, x: &Tensor) -> Result<Factored> {
    let rule = move |factors: &Factored, cotangents: &Factored| gradient(site, factors, cotangents);
    Ok(Factored::of(site, x, Factors::Eigh)?.with_gradient(x, rule))
}

/// The matrices' cotangent, `v (a / 2 + diag(gw)) v'` where `a` is `v' gv` less its transpose, over differences
/// of eigenvalues (Giles, "Collected matrix derivative results", 2008, 3.1).
fn gradient(site: CallSite, factors: &Factored, cotangents: &Factored) -> Tensor {
    let (w, v) = (factors.part(site, 0), factors.part(site, 1));
    let (gw, gv) = (cotangents.part(site, 0), cotangents.part(site, 1));
    let a = site.skew(&site.mm(&site.mt(&v), &gv));
    let apart = site.sub(site.row(&w), site.column(&w));
    let inner = site.mul(site.quotient(&a, &apart), 0.5);
    let left = site.add(site.mm(&v, &inner), site.mul(&v, site.row(&gw)));
    site.mm(&left, &site.mt(&v))
}

/// The eigenvalues, with vectors where gradients need them.
pub(super) fn eigenvalues(site: CallSite, x: &Tensor) -> Result<Tensor> {
    let values = Factored::of(site, x, Factors::Eigenvalues)?.part(site, 0);
    if !is_tracked(&values) {
        return Ok(values);
    }
    let factors = eigh(site, x)?;
    let (work, w) = (factors.work, factors.part(site, 0));
    Ok(with_rule(w, &[x, &factors.packed], move |inputs, _, g| {
        let v = Factored { work, packed: inputs[1].clone() }.part(site, 1);
        vec![Some(site.mm(&site.mul(&v, site.row(g)), &site.mt(&v))), None]
    }))
}
