//! Linear systems and determinants, by loops inside the graph: shapes are
//! static, so the number of steps is the order of the matrix. A singular
//! matrix gives infinities or NaN, not an error.

use crate::base::{DType, Shape};
use crate::ir::{AluOp, Monoid};
use crate::tensor::Tensor;
use crate::tensor::compose::{Checked, Site, finish};
use crate::tensor::control::loop_at;
use crate::tensor::linalg::expect_square;
use crate::tensor::options::options;

options! {
    /// Options of [`Tensor::solve_triangular`].
    SolveTriangularOpts {
        /// The matrix's upper triangle counts, not its lower.
        upper: bool = false;
        /// The unknown is on the right of the matrix (true), as in `A x = b`.
        left: bool = true;
        /// The diagonal is taken as ones.
        unitriangular: bool = false;
    }
}

impl Tensor {
    /// Determinants of square matrices `[.., n, n]`.
    #[track_caller]
    pub fn det(&self) -> Tensor {
        let site = Site::here("det");
        finish(det(site, self))
    }

    /// Signs of determinants of square matrices, and the logarithms of their
    /// magnitudes.
    #[track_caller]
    pub fn slogdet(&self) -> (Tensor, Tensor) {
        let site = Site::here("slogdet");
        match slogdet(site, self) {
            Ok(both) => both,
            Err(invalid) => (invalid.clone(), invalid),
        }
    }

    /// Inverses of square matrices `[.., n, n]`.
    #[track_caller]
    pub fn inv(&self) -> Tensor {
        let site = Site::here("inv");
        finish(inverse(site, self))
    }

    /// The solutions `x` of `self @ x = other` for square matrices
    /// `[.., n, n]` and right-hand sides `[.., n, k]`, or `[.., n]` where
    /// that is the matrices' shape without the last axis.
    #[track_caller]
    pub fn solve(&self, other: &Tensor) -> Tensor {
        let site = Site::here("solve");
        finish(solve(site, self, other))
    }

    /// The solutions of systems with triangular matrices; the other triangle
    /// is not read.
    #[track_caller]
    pub fn solve_triangular(&self, other: &Tensor, opts: SolveTriangularOpts) -> Tensor {
        let site = Site::here("solve_triangular");
        finish(solve_triangular(site, self, other, &opts))
    }
}

/// Floating square matrices in the type arithmetic is carried out in.
pub(crate) fn square_floats(site: Site, x: &Tensor) -> Checked<(Tensor, usize)> {
    let n = expect_square(site, x)?;
    site.require(x.dtype().is_float(), &[x], || ("a floating tensor".into(), x.dtype().to_string()))?;
    Ok((site.cast(x, x.dtype().compute()), n))
}

/// `0, 1, ..` down the rows, or along the columns, of matrices of `rank`.
fn rows(site: Site, n: usize, rank: usize, like: &Tensor) -> Tensor {
    site.iota_along(n, rank - 2, rank, DType::I64, like.device())
}

/// One row, or one column, of matrices, at a position that is the same for
/// all or one for each.
pub(crate) fn line(site: Site, x: &Tensor, axis: usize, at: &Tensor) -> Tensor {
    let mut dims = x.shape().to_vec();
    dims[axis] = 1;
    let at = if at.rank() == 0 {
        at.clone()
    } else {
        site.unsqueeze(&site.unsqueeze(at, at.rank()), at.rank() + 1)
    };
    site.gather(x, axis, &site.expand(&at, &dims))
}

/// One step of Gauss-Jordan elimination with partial pivoting: the pivot's
/// row comes to place `i` and its column becomes that of the identity.
struct Step {
    matrix: Tensor,
    /// The pivot, `[.., 1, 1]`.
    pivot: Tensor,
    /// Whether rows were exchanged, `[.., 1, 1]`.
    swapped: Tensor,
}

fn eliminate(site: Site, matrix: &Tensor, i: &Tensor, n: usize) -> Step {
    let (rank, dtype) = (matrix.rank(), matrix.dtype());
    let (row_axis, column_axis) = (rank - 2, rank - 1);
    let row = rows(site, n, rank, matrix);
    let column = line(site, matrix, column_axis, i);
    let magnitude = site.unary(AluOp::Abs, &column);
    let candidates = site.select(&site.lt(&row, i), -1.0, magnitude, dtype);
    let best = site.reduce_keepdim(Monoid::ArgMax, &candidates, &[row_axis]);
    let batch = &best.shape()[..rank - 2];
    let best_row = line(site, matrix, row_axis, &site.reshape(&best, batch));
    let this_row = line(site, matrix, row_axis, i);
    let (at_i, at_best) = (site.eq(&row, i), site.eq(&row, &best));
    let pivot = line(site, &best_row, column_axis, i);
    let scaled = site.div(&best_row, &pivot);
    // What each row holds in the pivot's column after the exchange.
    let factor = site.select(&at_best, line(site, &this_row, column_axis, i), &column, dtype);
    let exchanged = site.select(&at_best, &this_row, matrix, dtype);
    let reduced = site.sub(exchanged, site.mul(factor, &scaled));
    let swapped = site.unary(AluOp::Not, &site.eq(&best, i));
    Step { matrix: site.select(&at_i, scaled, reduced, dtype), pivot, swapped }
}

fn ones(site: Site, dims: &[usize], like: &Tensor) -> Tensor {
    site.expand(&site.scalar(1.0, like.dtype(), like.device()), dims)
}

/// -1 where rows were exchanged, else 1.
fn parity(site: Site, step: &Step) -> Tensor {
    site.select(&step.swapped, -1.0, 1.0, step.matrix.dtype())
}

fn without_matrix(site: Site, x: &Tensor, y: &Tensor) -> Tensor {
    site.reshape(x, &y.shape()[..y.rank() - 2])
}

fn det(site: Site, x: &Tensor) -> Checked<Tensor> {
    let (wide, n) = square_floats(site, x)?;
    let dims = [&wide.shape()[..wide.rank() - 2], &[1, 1]].concat();
    let carries = [wide.clone(), ones(site, &dims, &wide)];
    let out = loop_at(site, n, &carries, |i, carries| {
        let step = eliminate(site, &carries[0], i, n);
        let signed = site.mul(&step.pivot, parity(site, &step));
        // A column without a pivot leaves zeros over zeros in the matrix.
        let singular = site.eq(&step.pivot, 0.0);
        let matrix = site.select(&singular, &carries[0], &step.matrix, wide.dtype());
        vec![matrix, site.mul(&carries[1], signed)]
    });
    Ok(site.cast(&without_matrix(site, &out[1], x), x.dtype()))
}

fn slogdet(site: Site, x: &Tensor) -> Checked<(Tensor, Tensor)> {
    let (wide, n) = square_floats(site, x)?;
    let dims = [&wide.shape()[..wide.rank() - 2], &[1, 1]].concat();
    let one = ones(site, &dims, &wide);
    let carries = [wide.clone(), one.clone(), site.mul(&one, 0.0)];
    let out = loop_at(site, n, &carries, |i, carries| {
        let step = eliminate(site, &carries[0], i, n);
        let negative = site.select(&site.lt(&step.pivot, 0.0), -1.0, 1.0, wide.dtype());
        let singular = site.eq(&step.pivot, 0.0);
        let sign = site.select(&singular, 0.0, site.mul(negative, parity(site, &step)), wide.dtype());
        let log = site.unary(AluOp::Log, &site.unary(AluOp::Abs, &step.pivot));
        let matrix = site.select(&singular, &carries[0], &step.matrix, wide.dtype());
        vec![matrix, site.mul(&carries[1], sign), site.add(&carries[2], log)]
    });
    let result = |t: &Tensor| site.cast(&without_matrix(site, t, x), x.dtype());
    Ok((result(&out[1]), result(&out[2])))
}

/// The inverses of square matrices.
pub(crate) fn inverse(site: Site, x: &Tensor) -> Checked<Tensor> {
    let (wide, n) = square_floats(site, x)?;
    let column = site.iota_along(n, wide.rank() - 1, wide.rank(), DType::I64, wide.device());
    let identity = site.cast(&site.eq(rows(site, n, wide.rank(), &wide), column), wide.dtype());
    let y = eliminate_all(site, &wide, &site.expand(&identity, &wide.shape()), n);
    Ok(site.cast(&y, x.dtype()))
}

/// The solutions for right-hand sides `[.., n, k]`: what elimination makes of
/// them. Both sides are carried apart, as joining them would copy.
fn eliminate_all(site: Site, a: &Tensor, b: &Tensor, n: usize) -> Tensor {
    let (rank, k) = (a.rank(), b.shape()[b.rank() - 1]);
    let widened = |x: &Tensor, before: usize, after: usize| {
        let mut pads = vec![crate::ir::PadAxis::default(); rank];
        pads[rank - 1] = crate::ir::PadAxis { lo: before as i64, hi: after as i64, interior: 0 };
        site.pad(x, pads, 0.0)
    };
    let joined = site.add(widened(a, 0, k), widened(b, n, 0));
    let out = loop_at(site, n, &[joined], |i, carries| vec![eliminate(site, &carries[0], i, n).matrix]);
    site.slice(&out[0], rank - 1, n, n + k, 1)
}

fn broadcast_batches(site: Site, a: &Tensor, b: &Tensor) -> Checked<(Tensor, Tensor)> {
    let lead = |x: &Tensor| Shape::new(&x.shape()[..x.rank() - 2]);
    let Some(batch) = lead(a).broadcast(&lead(b)) else {
        let found = format!("{} and {}", a.shape(), b.shape());
        return Err(site.mistake("batch axes that broadcast together", found, &[a, b]));
    };
    let spread = |x: &Tensor| site.expand(x, &[&batch[..], &x.shape()[x.rank() - 2..]].concat());
    Ok((spread(a), spread(b)))
}

fn same_type(site: Site, a: &Tensor, b: &Tensor) -> Checked<()> {
    site.require(a.dtype() == b.dtype(), &[a, b], || {
        ("matrix and right-hand side of one type".into(), format!("{} and {}", a.dtype(), b.dtype()))
    })
}

fn solve(site: Site, a: &Tensor, b: &Tensor) -> Checked<Tensor> {
    let (wide, n) = square_floats(site, a)?;
    same_type(site, a, b)?;
    let shape = a.shape();
    let vector = b.rank() == 1 || b.shape()[..] == shape[..shape.rank() - 1];
    let right = site.cast(b, b.dtype().compute());
    let right = if vector { site.unsqueeze(&right, b.rank()) } else { right };
    let fits = right.rank() >= 2 && right.shape()[right.rank() - 2] == n;
    site.require(fits, &[a, b], || (format!("right-hand sides of {n} rows"), b.shape().to_string()))?;
    let (wide, right) = broadcast_batches(site, &wide, &right)?;
    let x = eliminate_all(site, &wide, &right, n);
    site.valid(&[&x])?;
    let x = if vector { site.squeeze(&x, x.rank() - 1) } else { x };
    Ok(site.cast(&x, a.dtype()))
}

fn solve_triangular(site: Site, a: &Tensor, b: &Tensor, opts: &SolveTriangularOpts) -> Checked<Tensor> {
    let (wide, n) = square_floats(site, a)?;
    same_type(site, a, b)?;
    let against = if opts.left { 2 } else { 1 };
    let fits = b.rank() >= 2 && b.shape()[b.rank() - against] == n;
    site.require(fits, &[a, b], || {
        (format!("right-hand sides with an extent of {n} against the matrix"), b.shape().to_string())
    })?;
    let turn = |x: &Tensor| site.transpose(x, x.rank() - 2, x.rank() - 1);
    let right = site.cast(b, b.dtype().compute());
    // x A = b is A' x' = b', where the triangles are exchanged.
    let (wide, right, upper) =
        if opts.left { (wide, right, opts.upper) } else { (turn(&wide), turn(&right), !opts.upper) };
    let (wide, right) = broadcast_batches(site, &wide, &right)?;
    let x = substitute(site, &wide, &right, n, upper, opts.unitriangular);
    site.valid(&[&x])?;
    Ok(site.cast(&if opts.left { x } else { turn(&x) }, a.dtype()))
}

/// Forward substitution, for upper triangles backward. What is not solved yet
/// is 0, so that each row is multiplied whole.
fn substitute(site: Site, a: &Tensor, b: &Tensor, n: usize, upper: bool, unit: bool) -> Tensor {
    let rank = b.rank();
    let zeros = site.expand(&site.scalar(0.0, b.dtype(), b.device()), &b.shape());
    let solved = loop_at(site, n, &[zeros], |step, carries| {
        let i = if upper { site.sub(n as i64 - 1, step) } else { step.clone() };
        let row = line(site, a, rank - 2, &i);
        let known = crate::tensor::matmul::matmul(site, &row, &carries[0]);
        let rest = site.sub(line(site, b, rank - 2, &i), known);
        let value = if unit { rest } else { site.div(rest, line(site, &row, rank - 1, &i)) };
        let here = site.eq(rows(site, n, rank, b), &i);
        vec![site.select(&here, value, &carries[0], b.dtype())]
    });
    solved[0].clone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::testing::{assert_close, f32s, mistake, pattern, values};

    /// Two well-conditioned matrices, one of which needs an exchange of rows.
    fn matrices() -> Tensor {
        let first = [0.0, 2.0, 1.0, 1.0, 0.0, 0.0, 3.0, 0.0, 1.0];
        let second = [2.0, 1.0, 0.0, 0.0, 3.0, 1.0, 1.0, 0.0, 2.0];
        f32s(&[2, 3, 3], &[first, second].concat())
    }

    fn determinant(m: &[f64]) -> f64 {
        let minor = |a: usize, b: usize, c: usize, d: usize| m[a] * m[d] - m[b] * m[c];
        m[0] * minor(4, 5, 7, 8) - m[1] * minor(3, 5, 6, 8) + m[2] * minor(3, 4, 6, 7)
    }

    #[test]
    fn determinants_by_the_rule_of_sarrus() {
        let x = matrices();
        let expected: Vec<f64> = values(&x).chunks(9).map(determinant).collect();
        assert_close(&x.det(), &[2], &expected);
        let (sign, log) = x.slogdet();
        assert_close(&sign, &[2], &expected.iter().map(|d| d.signum()).collect::<Vec<_>>());
        assert_close(&log, &[2], &expected.iter().map(|d| d.abs().ln()).collect::<Vec<_>>());
        let singular = f32s(&[2, 2], &[1.0, 2.0, 2.0, 4.0]);
        assert_close(&singular.det(), &[], &[0.0]);
        assert_close(&f32s(&[0, 0], &[]).det(), &[], &[1.0]);
    }

    #[test]
    fn inverses_and_solutions_multiply_back() {
        let x = matrices();
        let identity = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0].repeat(2);
        assert_close(&x.matmul(&x.inv()), &[2, 3, 3], &identity);
        let b = pattern(&[2, 3, 2], 2);
        assert_close(&x.matmul(&x.solve(&b)), &[2, 3, 2], &values(&b));
        let one = pattern(&[3], 3);
        let y = Site::here("t").unsqueeze(&x.solve(&one), 2);
        assert_close(&x.matmul(&y), &[2, 3, 1], &values(&one).repeat(2));
        let cubed = x.matmul(&x).matmul(&x);
        assert_close(&x.matrix_power(-3).matmul(&cubed), &[2, 3, 3], &identity);
    }

    #[test]
    fn triangles_are_solved_by_substitution() {
        let (a, b) = (matrices(), pattern(&[2, 3, 3], 4));
        let v = values(&a);
        for (upper, left, unit) in
            [(false, true, false), (true, true, true), (true, false, false), (false, false, true)]
        {
            let entry = |p: usize| {
                let (i, j) = (p / 3 % 3, p % 3);
                let inside = if upper { i < j } else { i > j };
                let diagonal = if unit { 1.0 } else { v[p] + 5.0 };
                if i == j {
                    diagonal
                } else if inside {
                    v[p]
                } else {
                    0.0
                }
            };
            let clean = f32s(&[2, 3, 3], &(0..18).map(entry).collect::<Vec<_>>());
            let shifted: Vec<f64> =
                (0..18).map(|p| if p / 3 % 3 == p % 3 { v[p] + 5.0 } else { v[p] }).collect();
            let opts = SolveTriangularOpts::default().upper(upper).left(left).unitriangular(unit);
            let x = f32s(&[2, 3, 3], &shifted).solve_triangular(&b, opts);
            let back = if left { clean.matmul(&x) } else { x.matmul(&clean) };
            assert_close(&back, &[2, 3, 3], &values(&b));
        }
    }

    #[test]
    fn mistakes_are_told() {
        assert!(mistake(&pattern(&[2, 3], 1).det()).contains("square"));
        assert!(mistake(&matrices().solve(&pattern(&[2], 1))).contains("3 rows"));
    }
}
