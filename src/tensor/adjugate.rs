//! Adjugates: the gradients of determinants, also of singular matrices.

use crate::base::DType;
use crate::ir::{AluOp, Monoid};
use crate::tensor::Tensor;
use crate::tensor::compose::{CallSite, finish};
use crate::tensor::solve::{combined, det, identity, inverse, pivots};

/// The transposed adjugates of matrices times a number each: of a regular matrix by Jacobi's
/// formula, of a singular one `a` from a regular one `b = a + u v'`, by the formula of Sherman and
/// Morrison times the determinant. Where `b` is singular too, all cofactors are 0.
pub(crate) fn adjugates(site: CallSite, a: &Tensor, factor: &Tensor) -> Tensor {
    let (n, rank, dtype) = (a.shape()[a.rank() - 1], a.rank(), a.dtype());
    let (rows, columns) = (rank - 2, rank - 1);
    let lift = |x: &Tensor| site.unsqueeze(&site.unsqueeze(x, rows), columns);
    // Numbers without a pattern, as no vector that occurs is orthogonal to them; these steps kept
    // singular matrices of several sorts well conditioned.
    let waves = |axis: usize, step: f64| {
        let index = site.iota_along(n, axis, rank, dtype, a.device());
        site.unary(AluOp::Sin, &site.add(site.mul(index, step), 1.0))
    };
    let size = site.reduce(Monoid::Max, &site.unary(AluOp::Abs, a), &[rows, columns]);
    let size = site.select(&site.eq(&size, 0.0), 1.0, size, dtype).detached(site.span);
    let size = site.select(&pivots(site, a).1, size, 0.0, dtype);
    let (u, v) = (site.mul(lift(&site.mul(&size, 0.5)), waves(rows, 2.9)), waves(columns, 2.4));
    let b = site.add(a, site.mul(&u, &v));
    let det = lift(&finish(det(site, &b)));
    // What rounding leaves of a pivot counts as none.
    let least = combined(site, Monoid::Min, &site.unary(AluOp::Abs, &pivots(site, &b).0));
    let noise = if dtype == DType::F64 { 1e-14 } else { 4e-6 };
    let none = lift(&site.binary(AluOp::Or, site.lt(&least, site.mul(&size, noise)), site.eq(&least, 0.0)));
    let b = site.select(&none, identity(site, a), b, dtype);
    let inverse = inverse(site, &b);
    // b^-1 u, v' b^-1 and v' b^-1 u.
    let sum = |x: &Tensor, axis: usize| site.reduce_keepdim(Monoid::Sum, x, &[axis]);
    let right = sum(&site.mul(&inverse, site.transpose(&u, rows, columns)), columns);
    let left = sum(&site.mul(&inverse, site.transpose(&v, rows, columns)), rows);
    let both = sum(&site.mul(&right, site.transpose(&v, rows, columns)), rows);
    // The quotient of the determinants of `a` and `b`: of a singular `a` it is 0, with its slope.
    let gap = site.sub(1.0, both);
    let rest = site.select(&site.eq(lift(&size), 0.0), 0.0, gap.detached(site.span), dtype);
    let adjugate = site.add(site.mul(site.sub(gap, rest), &inverse), site.mul(right, left));
    let adjugate = site.select(&none, 0.0, site.mul(adjugate, det), dtype);
    site.mul(site.transpose(&adjugate, rows, columns), lift(factor))
}
