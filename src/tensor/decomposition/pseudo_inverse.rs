//! Pseudo-inverses, least squares and ranks.

use kiln_linalg::Factors;

use crate::base::{DType, Result};
use crate::ir::{AluOp, Monoid};
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;
use crate::tensor::decomposition::{Factored, Matrices, eigen, expect_matrices, expect_square, svd};
use crate::tensor::options::options;
use crate::tensor::rule::with_rule;

options! {
    /// Which singular values count as 0, for [`Tensor::pinv`], [`Tensor::lstsq`] and [`Tensor::matrix_rank`].
    ///
    /// Those of at most the larger of `atol` and `rtol` times the matrix's largest.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::ToleranceOpts;
    /// let a = Tensor::from([[1.0f32, 0.0], [0.0, 0.01]]);
    /// assert_eq!(a.matrix_rank(ToleranceOpts::default()).item::<i64>()?, 2);
    /// assert_eq!(a.matrix_rank(ToleranceOpts::default().rtol(0.1)).item::<i64>()?, 1);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ToleranceOpts {
        /// Absolute tolerance.
        atol: f64 = 0.0;
        /// Relative tolerance. If not given, 0 beside an `atol`, else the larger extent of the matrices times
        /// the distance from 1 to the next number of the type.
        rtol: Option<f64> = None, f64 => Some;
        /// The matrices are symmetric: eigenvalues, which are faster, stand in for singular values. Only the
        /// lower triangle is read.
        symmetric: bool = false;
    }
}

impl Tensor {
    /// Pseudo-inverses (Moore and Penrose) of matrices `[.., m, n]`: `[.., n, m]`.
    ///
    /// Singular values within the tolerance count as 0. The gradient is that for matrices of constant rank.
    ///
    /// Needs the feature `linalg`. Invalid unless the type is `F32` or `F64`, and on a GPU. PyTorch:
    /// `torch.linalg.pinv`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let a = Tensor::from([[2.0f32, 0.0], [0.0, 0.0], [0.0, 4.0]]);
    /// assert_eq!(a.pinv(Default::default()).to_vec::<f32>()?, [0.5, 0.0, 0.0, 0.0, 0.0, 0.25]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn pinv(&self, opts: ToleranceOpts) -> Tensor {
        let site = CallSite::here("pinv");
        site.build(&[self], || {
            expect(site, self, &opts)?;
            pinv(site, self, &opts)
        })
    }

    /// The `x` of least norm among those for which the norm of `self @ x - other` is least.
    ///
    /// Matrices `[.., m, n]` and right-hand sides `[.., m, k]` give `[.., n, k]`; `[.., m]`, where that is the
    /// matrices' shape without the last axis, gives `[.., n]`. Batch axes broadcast. Singular values within the
    /// tolerance count as 0. The gradient is that of `self.pinv(opts) @ other`.
    ///
    /// Needs the feature `linalg`. Invalid unless the type is `F32` or `F64`, and on a GPU. PyTorch:
    /// `torch.linalg.lstsq(..).solution`; its other results are `(self @ x - other).square().sum(-2)`,
    /// [`Tensor::matrix_rank`] and [`Tensor::svdvals`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// // The line through (0, 1), (1, 3) and (2, 5), as its value at 0 and its slope.
    /// let a = Tensor::from([[1.0f64, 0.0], [1.0, 1.0], [1.0, 2.0]]);
    /// let x = a.lstsq(&Tensor::from([1.0f64, 3.0, 5.0]), Default::default());
    /// let [at_0, slope] = x.to_vec::<f64>()?[..] else { unreachable!() };
    /// assert!((at_0 - 1.0).abs() < 1e-12 && (slope - 2.0).abs() < 1e-12);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn lstsq(&self, other: &Tensor, opts: ToleranceOpts) -> Tensor {
        let site = CallSite::here("lstsq");
        site.build(&[self, other], || {
            expect(site, self, &opts)?;
            lstsq(site, self, other, &opts)
        })
    }

    /// The ranks of matrices `[.., m, n]` as `[..]` of `I64`: the number of singular values that are not within
    /// the tolerance.
    ///
    /// Needs the feature `linalg`. Invalid unless the type is `F32` or `F64`, and on a GPU. PyTorch:
    /// `torch.linalg.matrix_rank`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let a = Tensor::from([[1.0f32, 2.0], [2.0, 4.0]]);
    /// assert_eq!(a.matrix_rank(Default::default()).item::<i64>()?, 1);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn matrix_rank(&self, opts: ToleranceOpts) -> Tensor {
        let site = CallSite::here("matrix_rank");
        site.build(&[self], || {
            expect(site, self, &opts)?;
            let values = match opts.symmetric {
                true => site.unary(AluOp::Abs, &eigen::eigenvalues(site, self)?),
                false => svd::singular_values(site, self)?,
            };
            let counted = site.cast(&counted(site, self, &values, &opts), DType::I64);
            Ok(site.sum(&counted, &[values.rank() - 1]))
        })
    }
}

fn expect(site: CallSite, x: &Tensor, opts: &ToleranceOpts) -> Result<()> {
    if !(opts.atol >= 0.0 && opts.rtol.unwrap_or(0.0) >= 0.0) {
        let found = format!("atol {} and rtol {:?}", opts.atol, opts.rtol);
        return Err(site.error("tolerances of at least 0", found, &[x]));
    }
    if opts.symmetric { expect_square(site, x) } else { expect_matrices(site, x) }
}

/// Which of the singular values `[.., k]` of matrices `a` are above the tolerance.
fn counted(site: CallSite, a: &Tensor, values: &Tensor, opts: &ToleranceOpts) -> Tensor {
    let last = values.rank() - 1;
    let (m, n) = (a.shape()[last], a.shape()[last + 1]);
    let epsilon = if a.dtype() == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
    let usual = if opts.atol > 0.0 { 0.0 } else { epsilon * m.max(n) as f64 };
    let largest = site.reduce_keepdim(Monoid::Max, values, &[last]);
    let tolerance = site.max(site.mul(largest, opts.rtol.unwrap_or(usual)), opts.atol);
    site.lt(tolerance, values)
}

/// Factors `v`, `s` and `u` of pseudo-inverses `v diag(s) u'`.
fn inverted(site: CallSite, a: &Tensor, opts: &ToleranceOpts) -> Result<[Tensor; 3]> {
    let (u, s, v) = if opts.symmetric {
        let factors = Factored::of(site, a, Factors::Eigh)?;
        let v = factors.part(site, 1);
        (v.clone(), factors.part(site, 0), v)
    } else {
        let factors = Factored::of(site, a, Factors::Svd { full: false })?;
        (factors.part(site, 0), factors.part(site, 1), site.mt(&factors.part(site, 2)))
    };
    let counted = counted(site, a, &site.unary(AluOp::Abs, &s), opts);
    // NaN is neither above nor within a tolerance, and stays.
    let counted = site.binary(AluOp::Or, counted, site.is_nan(&s));
    let inverse = site.unary(AluOp::Recip, &site.select(&counted, &s, f64::INFINITY, s.dtype()));
    Ok([v, inverse, u])
}

fn pinv(site: CallSite, a: &Tensor, opts: &ToleranceOpts) -> Result<Tensor> {
    let [v, s, u] = inverted(site, a, opts)?;
    let inverse = site.mm(&site.mul(v, site.row(&s)), &site.mt(&u));
    Ok(with_rule(inverse, &[a], move |inputs, p, g| vec![Some(gradient(site, &inputs[0], p, g))]))
}

/// The matrices' cotangent from that of their pseudo-inverses `p` (Golub and Pereyra, "The differentiation of
/// pseudo-inverses and nonlinear least squares problems whose variables separate", 1973).
fn gradient(site: CallSite, a: &Tensor, p: &Tensor, g: &Tensor) -> Tensor {
    let (pt, gt) = (site.mt(p), site.mt(g));
    let along = site.mm(&site.mm(&pt, g), &pt);
    // The projections of gt onto what a does not reach, in rows and in columns.
    let rows = site.sub(&gt, site.mm(a, &site.mm(p, &gt)));
    let columns = site.sub(&gt, site.mm(&site.mm(&gt, p), a));
    let rows = site.mm(&rows, &site.mm(p, &pt));
    let columns = site.mm(&site.mm(&pt, p), &columns);
    site.sub(site.add(rows, columns), along)
}

fn lstsq(site: CallSite, a: &Tensor, b: &Tensor, opts: &ToleranceOpts) -> Result<Tensor> {
    let (shape, rank) = (a.shape(), a.rank());
    if b.dtype() != a.dtype() {
        let found = format!("{} and {}", a.dtype(), b.dtype());
        return Err(site.error("matrix and right-hand side of one type", found, &[a, b]));
    }
    let vector = b.rank() == 1 || b.shape()[..] == shape[..rank - 1];
    let right = if vector { site.unsqueeze(b, b.rank()) } else { b.clone() };
    let rows = shape[rank - 2];
    if right.rank() < 2 || right.shape()[right.rank() - 2] != rows {
        return Err(site.error(format!("right-hand sides of {rows} rows"), b.shape().to_string(), &[a, b]));
    }
    let [v, s, u] = inverted(site, a, opts)?;
    let x = site.mm(&v, &site.mul(site.column(&s), site.mm(&site.mt(&u), &right)));
    x.check()?;
    // Gradients pass the pseudo-inverse, which the value does not need.
    let (lead, pinv) = (&x.shape()[..x.rank() - 2], pinv(site, a, opts)?);
    let spread = |t: &Tensor| site.expand(t, &[lead, &t.shape()[t.rank() - 2..]].concat());
    let x = with_rule(x, &[&spread(&pinv), &spread(&right)], move |inputs, _, g| {
        vec![Some(site.mm(g, &site.mt(&inputs[1]))), Some(site.mm(&site.mt(&inputs[0]), g))]
    });
    Ok(if vector { site.squeeze(&x, x.rank() - 1) } else { x })
}
