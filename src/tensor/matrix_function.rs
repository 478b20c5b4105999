//! Factors and functions of matrices, by loops inside the graph.

use crate::base::DType;
use crate::ir::{AluOp, Monoid};
use crate::tensor::Tensor;
use crate::tensor::blocked;
use crate::tensor::compose::{CallSite, Checked, finish};
use crate::tensor::control::loop_at;
use crate::tensor::matmul::matmul;
use crate::tensor::rule::with_rule;
use crate::tensor::solve::{square_floats, triangular_solutions};

impl Tensor {
    /// The triangular factor of positive definite symmetric matrices `[.., n, n]`.
    ///
    /// It is `l` of `l @ l.T`, or with `upper` `u` of `u.T @ u`; one triangle of the matrices is
    /// read. Matrices that are not positive definite give NaN. PyTorch: `torch.linalg.cholesky`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let a = Tensor::from([[4.0f32, 2.0], [2.0, 5.0]]);
    /// assert_eq!(a.cholesky(false).to_vec::<f32>()?, [2.0, 0.0, 1.0, 2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn cholesky(&self, upper: bool) -> Tensor {
        let site = CallSite::here("cholesky");
        finish(cholesky(site, &site.autocast(self), upper))
    }

    /// The exponential of square matrices `[.., n, n]`. Invalid for others.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::zeros([2, 2], ()).matrix_exp().to_vec::<f32>()?, [1.0, 0.0, 0.0, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn matrix_exp(&self) -> Tensor {
        let site = CallSite::here("matrix_exp");
        finish(matrix_exp(site, self))
    }
}

fn cholesky(site: CallSite, x: &Tensor, upper: bool) -> Checked<Tensor> {
    let (wide, n) = square_floats(site, x)?;
    if n == 0 {
        return Ok(x.clone());
    }
    let rank = wide.rank();
    let turned = move |x: &Tensor| site.transpose(x, rank - 2, rank - 1);
    let lower = if upper { turned(&wide) } else { wide };
    let factor = blocked::cholesky(site, &lower);
    let factor = with_rule(factor, &[&lower], move |_, l, g| vec![Some(symmetric_gradient(site, l, g))]);
    Ok(site.cast(&if upper { turned(&factor) } else { factor }, x.dtype()))
}

/// The gradient of symmetric matrices from that of their factors `l`, in both triangles:
/// `l^-T p l^-1`, where `p` is the lower triangle of `l^T g`, mirrored, halved
/// (Murray, "Differentiation of the Cholesky decomposition", 2016).
fn symmetric_gradient(site: CallSite, l: &Tensor, g: &Tensor) -> Tensor {
    let (n, rank) = (l.shape()[l.rank() - 1], l.rank());
    let turned = |x: &Tensor| site.transpose(x, rank - 2, rank - 1);
    let [row, column] = [2, 1].map(|back| site.iota_along(n, rank - back, rank, DType::I64, l.device()));
    let p = matmul(site, &turned(l), g);
    let p = site.mul(site.select(&site.lt(row, column), turned(&p), &p, p.dtype()), 0.5);
    let upper = turned(l);
    // Both factors by solving from the left, as p is symmetric.
    let half = triangular_solutions(site, &upper, &p, true, false);
    triangular_solutions(site, &upper, &turned(&half), true, false)
}

/// Squarings at most; scales norms up to half of 2^32 at least.
const MAX_SQUARINGS: usize = 32;
/// Terms of the Taylor polynomial in one block of four powers.
const BLOCKS: usize = 4;

/// Scaling and squaring: `exp(a) = exp(a / 2^s)^(2^s)`, `s` such that the
/// Taylor polynomial of degree 15 is exact to the type (Higham, "Functions of
/// Matrices", 10.3): for a norm of at most a half to 1e-18, of at most 2 to
/// 3e-9. Each squaring saved halves the rounding error. `s` differs from matrix
/// to matrix and is known only when it runs, so the loop always takes the
/// most squarings and keeps the results of as many as each matrix needs.
fn matrix_exp(site: CallSite, x: &Tensor) -> Checked<Tensor> {
    let (wide, _) = square_floats(site, x)?;
    let (rank, dtype) = (wide.rank(), wide.dtype());
    let sums = site.reduce_keepdim(Monoid::Sum, &site.unary(AluOp::Abs, &wide), &[rank - 2]);
    let norm = site.reduce_keepdim(Monoid::Max, &sums, &[rank - 1]);
    let largest = if dtype == DType::F64 { 0.5 } else { 2.0 };
    let doublings = site.unary(AluOp::Log2, &site.mul(norm, 1.0 / largest));
    let up = site.unary(AluOp::Neg, &site.unary(AluOp::Floor, &site.unary(AluOp::Neg, &doublings)));
    let squarings = site.min(site.max(up, 0.0), MAX_SQUARINGS as f64);
    let scale = site.unary(AluOp::Exp2, &site.unary(AluOp::Neg, &squarings));
    let start = taylor(site, &site.mul(&wide, scale));
    let result = loop_at(site, MAX_SQUARINGS, &[start], |i, carries| {
        let more = site.lt(site.cast(i, dtype), &squarings);
        vec![site.select(&more, matmul(site, &carries[0], &carries[0]), &carries[0], dtype)]
    });
    Ok(site.cast(&result[0], x.dtype()))
}

/// The Taylor polynomial of the exponential in blocks of four powers, by
/// Horner's rule in the fourth power (Paterson and Stockmeyer 1973).
fn taylor(site: CallSite, a: &Tensor) -> Tensor {
    let (rank, n) = (a.rank(), a.shape()[a.rank() - 1]);
    let index = |axis: usize| site.iota_along(n, axis, rank, DType::I64, a.device());
    let identity = site.cast(&site.eq(index(rank - 2), index(rank - 1)), a.dtype());
    let square = matmul(site, a, a);
    let (cube, fourth) = (matmul(site, &square, a), matmul(site, &square, &square));
    let powers = [identity, a.clone(), square, cube];
    let block = |first: usize| {
        let term = |(i, power): (usize, &Tensor)| site.mul(power, 1.0 / factorial(first + i));
        let terms: Vec<Tensor> = powers.iter().enumerate().map(term).collect();
        site.add(site.add(&terms[0], &terms[1]), site.add(&terms[2], &terms[3]))
    };
    (0..BLOCKS - 1)
        .rev()
        .fold(block(4 * (BLOCKS - 1)), |sum, i| site.add(matmul(site, &sum, &fourth), block(4 * i)))
}

fn factorial(n: usize) -> f64 {
    (1..=n).map(|i| i as f64).product()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::testing::{assert_close, f32s, pattern, values};

    #[test]
    fn factors_multiply_back() {
        let a = pattern(&[2, 3, 4], 1);
        let site = CallSite::here("t");
        let product = a.matmul(&site.transpose(&a, 1, 2));
        let n = site.iota(3, DType::I64, a.device());
        let ridge = site.cast(&site.eq(site.unsqueeze(&n, 1), &n), DType::F32);
        let spd = site.add(product, ridge);
        let lower = spd.cholesky(false);
        assert_close(&lower.matmul(&site.transpose(&lower, 1, 2)), &[2, 3, 3], &values(&spd));
        assert_close(&site.transpose(&spd.cholesky(true), 1, 2), &[2, 3, 3], &values(&lower));
        let above: Vec<f64> =
            values(&lower).iter().enumerate().filter(|(p, _)| p / 3 % 3 < p % 3).map(|v| *v.1).collect();
        assert_eq!(above, [0.0; 6]);
    }

    #[test]
    fn exponentials_of_known_matrices() {
        let turn = f32s(&[2, 2, 2], &[0.0, -2.0, 2.0, 0.0, 1.0, 5.0, 0.0, -3.0]);
        let (c, s, e, d) = (2f64.cos(), 2f64.sin(), 1f64.exp(), (-3f64).exp());
        let expected = [c, -s, s, c, e, 5.0 * (e - d) / 4.0, 0.0, d];
        assert_close(&turn.matrix_exp(), &[2, 2, 2], &expected);
        assert_close(&f32s(&[1, 1], &[0.0]).matrix_exp(), &[1, 1], &[1.0]);
    }
}
