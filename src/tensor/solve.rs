//! Linear systems and determinants, by loops inside the graph (`tensor/blocked.rs`).
//! A singular matrix gives infinities or NaN, not an error.

use crate::base::{DType, Shape};
use crate::ir::{AluOp, Monoid};
use crate::tensor::Tensor;
use crate::tensor::adjugate::adjugates;
use crate::tensor::blocked::{eliminate, substitute};
use crate::tensor::compose::{CallSite, Checked, finish};
use crate::tensor::diagonal::{lower_triangle, upper_triangle};
use crate::tensor::linalg::expect_square;
use crate::tensor::matmul::matmul;
use crate::tensor::options::options;
use crate::tensor::rule::with_rule;

options! {
    /// Options of [`Tensor::solve_triangular`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::SolveTriangularOpts;
    /// let (a, b) = (Tensor::from([[2.0f32, 1.0], [0.0, 4.0]]), Tensor::from([[4.0f32], [8.0]]));
    /// let y = a.solve_triangular(&b, SolveTriangularOpts::default().upper(true));
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
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
    /// Determinants of square matrices: `[.., n, n]` to `[..]`.
    ///
    /// The gradient is the transposed adjugate, also of singular matrices. Invalid unless the
    /// matrices are square and floating. PyTorch: `torch.linalg.det`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let a = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// assert!((a.det().item::<f32>()? + 2.0).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn det(&self) -> Tensor {
        let site = CallSite::here("det");
        finish(det(site, self))
    }

    /// Signs of determinants of square matrices, and the logarithms of their magnitudes.
    ///
    /// `[.., n, n]` to `[..]`. PyTorch: `torch.linalg.slogdet`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let a = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// let (sign, log) = a.slogdet();
    /// assert_eq!(sign.item::<f32>()?, -1.0);
    /// assert!((log.item::<f32>()? - 0.6931).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn slogdet(&self) -> (Tensor, Tensor) {
        let site = CallSite::here("slogdet");
        match slogdet(site, self) {
            Ok(both) => both,
            Err(invalid) => (invalid.clone(), invalid),
        }
    }

    /// Inverses of square matrices `[.., n, n]`; a singular one gives infinities or NaN.
    ///
    /// Invalid unless the matrices are square and floating. PyTorch: `torch.linalg.inv`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let a = Tensor::from([[2.0f32, 0.0], [0.0, 4.0]]);
    /// assert_eq!(a.inv().to_vec::<f32>()?, [0.5, 0.0, 0.0, 0.25]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn inv(&self) -> Tensor {
        let site = CallSite::here("inv");
        finish(inv(site, &site.autocast(self)))
    }

    /// The solutions `x` of `self @ x = other` for square matrices `[.., n, n]`.
    ///
    /// Right-hand sides are `[.., n, k]`, or `[.., n]` where that is the matrices' shape without
    /// the last axis. PyTorch: `torch.linalg.solve`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let a = Tensor::from([[2.0f32, 0.0], [0.0, 4.0]]);
    /// assert_eq!(a.solve(&Tensor::from([4.0f32, 4.0])).to_vec::<f32>()?, [2.0, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn solve(&self, other: &Tensor) -> Tensor {
        let site = CallSite::here("solve");
        finish(solve(site, &site.autocast(self), &site.autocast(other)))
    }

    /// The solutions of systems with triangular matrices; the other triangle is not read.
    ///
    /// Shapes as for [`Tensor::solve`]. PyTorch: `torch.linalg.solve_triangular`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let (a, b) = (Tensor::from([[2.0f32, 0.0], [1.0, 4.0]]), Tensor::from([[4.0f32], [6.0]]));
    /// assert_eq!(a.solve_triangular(&b, Default::default()).to_vec::<f32>()?, [2.0, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn solve_triangular(&self, other: &Tensor, opts: SolveTriangularOpts) -> Tensor {
        let site = CallSite::here("solve_triangular");
        finish(solve_triangular(site, self, other, &opts))
    }
}

/// Floating square matrices in the type arithmetic is carried out in.
pub(crate) fn square_floats(site: CallSite, x: &Tensor) -> Checked<(Tensor, usize)> {
    let n = expect_square(site, x)?;
    site.require(x.dtype().is_float(), &[x], || ("a floating tensor".into(), x.dtype().to_string()))?;
    Ok((site.cast(x, x.dtype().compute()), n))
}

/// The sum of numbers of each matrix, or their product, `[..]` from `[blocks, .., width]`.
pub(crate) fn combined(site: CallSite, monoid: Monoid, x: &Tensor) -> Tensor {
    site.reduce(monoid, x, &[0, x.rank() - 1])
}

/// The pivots of matrices, and whether one of them is zero.
pub(crate) fn pivots(site: CallSite, x: &Tensor) -> (Tensor, Tensor) {
    let nothing = site.slice(x, x.rank() - 1, 0, 0, 1);
    let pivots = eliminate(site, x, &nothing).pivots;
    let zeros = site.cast(&site.eq(&pivots, 0.0), DType::I32);
    let singular = site.lt(0i64, combined(site, Monoid::Max, &zeros));
    (pivots, singular)
}

pub(crate) fn det(site: CallSite, x: &Tensor) -> Checked<Tensor> {
    let (wide, n) = square_floats(site, x)?;
    if n == 0 {
        let ones = site.scalar(1.0, x.dtype(), x.device());
        return Ok(site.expand(&ones, &x.shape()[..x.rank() - 2]));
    }
    let (pivots, singular) = pivots(site, &wide);
    let product = combined(site, Monoid::Prod, &pivots);
    let det = site.select(&singular, 0.0, product, wide.dtype());
    let det = with_rule(det, &[&wide], move |x, _, g| vec![Some(adjugates(site, &x[0], g))]);
    Ok(site.cast(&det, x.dtype()))
}

/// The transposed inverses of matrices times a number each.
fn cofactors(site: CallSite, x: &Tensor, factor: &Tensor) -> Tensor {
    let rank = x.rank();
    let factor = site.unsqueeze(&site.unsqueeze(factor, rank - 2), rank - 1);
    site.mul(site.transpose(&inverse(site, x), rank - 2, rank - 1), factor)
}

fn slogdet(site: CallSite, x: &Tensor) -> Checked<(Tensor, Tensor)> {
    let (wide, n) = square_floats(site, x)?;
    if n == 0 {
        let number = |value: f64| site.scalar(value, x.dtype(), x.device());
        let spread = |value: f64| site.expand(&number(value), &x.shape()[..x.rank() - 2]);
        return Ok((spread(1.0), spread(0.0)));
    }
    let (pivots, singular) = pivots(site, &wide);
    let negative = site.select(&site.lt(&pivots, 0.0), -1.0, 1.0, wide.dtype());
    let sign = site.select(&singular, 0.0, combined(site, Monoid::Prod, &negative), wide.dtype());
    let logs = site.unary(AluOp::Log, &site.unary(AluOp::Abs, &pivots));
    let log = combined(site, Monoid::Sum, &logs);
    let log = site.select(&singular, f64::NEG_INFINITY, log, wide.dtype());
    let log = with_rule(log, &[&wide], move |x, _, g| vec![Some(cofactors(site, &x[0], g))]);
    Ok((site.cast(&sign, x.dtype()), site.cast(&log, x.dtype())))
}

/// Identity matrices of a tensor's shape.
pub(crate) fn identity(site: CallSite, x: &Tensor) -> Tensor {
    let (n, rank) = (x.shape()[x.rank() - 1], x.rank());
    let index = |axis: usize| site.iota_along(n, axis, rank, DType::I64, x.device());
    site.expand(&site.cast(&site.eq(index(rank - 2), index(rank - 1)), x.dtype()), &x.shape())
}

/// The inverses of square matrices, in the type arithmetic is carried out in.
pub(crate) fn inverse(site: CallSite, x: &Tensor) -> Tensor {
    solutions(site, x, &identity(site, x))
}

/// The inverses of square matrices.
pub(crate) fn inv(site: CallSite, x: &Tensor) -> Checked<Tensor> {
    let (wide, _) = square_floats(site, x)?;
    Ok(site.cast(&inverse(site, &wide), x.dtype()))
}

/// The solutions for right-hand sides `[.., n, k]` of the matrices' batch.
fn solutions(site: CallSite, a: &Tensor, b: &Tensor) -> Tensor {
    let turned = move |x: &Tensor| site.transpose(x, x.rank() - 2, x.rank() - 1);
    if b.numel() == 0 {
        return b.clone();
    }
    let x = eliminate(site, a, b).solutions;
    with_rule(x, &[a, b], move |inputs, x, g| {
        let right = solutions(site, &turned(&inputs[0]), g);
        let matrix = site.unary(AluOp::Neg, &matmul(site, &right, &turned(x)));
        vec![Some(matrix), Some(right)]
    })
}

fn broadcast_batches(site: CallSite, a: &Tensor, b: &Tensor) -> Checked<(Tensor, Tensor)> {
    let lead = |x: &Tensor| Shape::new(&x.shape()[..x.rank() - 2]);
    let Some(batch) = lead(a).broadcast(&lead(b)) else {
        let found = format!("{} and {}", a.shape(), b.shape());
        return Err(site.invalid("batch axes that broadcast together", found, &[a, b]));
    };
    let spread = |x: &Tensor| site.expand(x, &[&batch[..], &x.shape()[x.rank() - 2..]].concat());
    Ok((spread(a), spread(b)))
}

fn same_type(site: CallSite, a: &Tensor, b: &Tensor) -> Checked<()> {
    site.require(a.dtype() == b.dtype(), &[a, b], || {
        ("matrix and right-hand side of one type".into(), format!("{} and {}", a.dtype(), b.dtype()))
    })
}

fn solve(site: CallSite, a: &Tensor, b: &Tensor) -> Checked<Tensor> {
    let (wide, n) = square_floats(site, a)?;
    same_type(site, a, b)?;
    let shape = a.shape();
    let vector = b.rank() == 1 || b.shape()[..] == shape[..shape.rank() - 1];
    let right = site.cast(b, b.dtype().compute());
    let right = if vector { site.unsqueeze(&right, b.rank()) } else { right };
    let fits = right.rank() >= 2 && right.shape()[right.rank() - 2] == n;
    site.require(fits, &[a, b], || (format!("right-hand sides of {n} rows"), b.shape().to_string()))?;
    let (wide, right) = broadcast_batches(site, &wide, &right)?;
    let x = solutions(site, &wide, &right);
    site.valid(&[&x])?;
    let x = if vector { site.squeeze(&x, x.rank() - 1) } else { x };
    Ok(site.cast(&x, a.dtype()))
}

fn solve_triangular(site: CallSite, a: &Tensor, b: &Tensor, opts: &SolveTriangularOpts) -> Checked<Tensor> {
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
    let x = triangular_solutions(site, &wide, &right, upper, opts.unitriangular);
    site.valid(&[&x])?;
    Ok(site.cast(&if opts.left { x } else { turn(&x) }, a.dtype()))
}

/// The solutions for right-hand sides `[.., n, k]` of the triangles' batch.
pub(crate) fn triangular_solutions(
    site: CallSite,
    a: &Tensor,
    b: &Tensor,
    upper: bool,
    unit: bool,
) -> Tensor {
    if b.numel() == 0 {
        return b.clone();
    }
    let (rows, columns) = (a.rank() - 2, a.rank() - 1);
    // An upper triangle, upside down and mirrored, is a lower one.
    let flipped = |x: &Tensor, axes: &[usize]| if upper { site.flip(x, axes) } else { x.clone() };
    let (lower, right) = (flipped(a, &[rows, columns]), flipped(b, &[rows]));
    let x = flipped(&substitute(site, &lower, &right, unit), &[rows]);
    with_rule(x, &[a, b], move |inputs, x, g| {
        let turned = |x: &Tensor| site.transpose(x, rows, columns);
        let right = triangular_solutions(site, &turned(&inputs[0]), g, !upper, unit);
        let matrix = site.unary(AluOp::Neg, &matmul(site, &right, &turned(x)));
        let strict = i64::from(unit);
        let matrix = if upper {
            upper_triangle(site, &matrix, strict)
        } else {
            lower_triangle(site, &matrix, -strict)
        };
        vec![Some(matrix), Some(right)]
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::testing::{assert_close, error_text, f32s, pattern, values};

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
        let y = CallSite::here("t").unsqueeze(&x.solve(&one), 2);
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

    /// Several blocks, the last of which is completed, in matrices that need exchanges of rows
    /// within blocks and between them; few matrices, and many.
    #[test]
    fn orders_of_several_blocks() {
        for (m, n) in [(2usize, 1usize), (2, 33), (2, 64), (2, 70), (40, 3), (140, 35)] {
            // Rows of a well-conditioned matrix, out of order.
            let entry = |p: usize| {
                let (i, j) = (p / n % n, p % n);
                let noise = ((p * 7919 % 1009) as f64 / 1009.0 - 0.5) / 2.0;
                if (i * 17 + 5) % n == j { n as f64 / 3.0 + noise } else { noise }
            };
            let values_of = |count: usize| (0..count * n * n).map(entry).collect::<Vec<f64>>();
            let x = f32s(&[m, n, n], &values_of(m));
            let b = pattern(&[m, n, 3], 5);
            assert_close(&x.matmul(&x.solve(&b)), &[m, n, 3], &values(&b));
            let identity: Vec<f64> =
                (0..m * n * n).map(|p| if p / n % n == p % n { 1.0 } else { 0.0 }).collect();
            assert_close(&x.matmul(&x.inv()), &[m, n, n], &identity);
            let (sign, log) = x.slogdet();
            let (signs, logs) = unblocked(&values_of(m), n);
            assert_close(&sign, &[m], &signs);
            assert_close(&log, &[m], &logs);
            let lower = x.tril(0) + Tensor::eye(n, n, ()) * (n as f64);
            let y = lower.solve_triangular(&b, SolveTriangularOpts::default());
            assert_close(&lower.matmul(&y), &[m, n, 3], &values(&b));
            let spd = x.matmul(&CallSite::here("t").transpose(&x, 1, 2));
            let factor = spd.cholesky(false);
            let back = factor.matmul(&CallSite::here("t").transpose(&factor, 1, 2));
            let scale = 9.0 / (n * n) as f64;
            let scaled: Vec<f64> = values(&spd).iter().map(|v| v * scale).collect();
            assert_close(&(back * scale), &[m, n, n], &scaled);
        }
    }

    /// Signs of determinants and logarithms of their magnitudes, by elimination of one column
    /// after the other.
    fn unblocked(values: &[f64], n: usize) -> (Vec<f64>, Vec<f64>) {
        let one = |m: &[f64]| {
            let mut m = m.to_vec();
            let (mut sign, mut log) = (1.0, 0.0);
            for i in 0..n {
                let best = (i..n).max_by(|&a, &b| m[a * n + i].abs().total_cmp(&m[b * n + i].abs())).unwrap();
                if best != i {
                    (0..n).for_each(|j| m.swap(i * n + j, best * n + j));
                    sign = -sign;
                }
                let pivot = m[i * n + i];
                sign *= pivot.signum();
                log += pivot.abs().ln();
                for r in i + 1..n {
                    let factor = m[r * n + i] / pivot;
                    (i..n).for_each(|j| m[r * n + j] -= factor * m[i * n + j]);
                }
            }
            (sign, log)
        };
        values.chunks(n * n).map(one).unzip()
    }

    #[test]
    fn what_has_no_inverse_is_not_finite() {
        let singular = f32s(&[2, 2], &[1.0, 2.0, 2.0, 4.0]);
        assert!(values(&singular.inv()).iter().any(|v| !v.is_finite()));
        let (sign, log) = singular.slogdet();
        assert_eq!((values(&sign), values(&log)), (vec![0.0], vec![f64::NEG_INFINITY]));
        // Nothing is read above the diagonal, and nothing of order 0 fails.
        let triangle = f32s(&[2, 2], &[2.0, f64::NAN, 1.0, 4.0]);
        let b = f32s(&[2, 1], &[2.0, 9.0]);
        let opts = SolveTriangularOpts::default;
        assert_close(&triangle.solve_triangular(&b, opts()), &[2, 1], &[1.0, 2.0]);
        assert_close(&triangle.cholesky(false).narrow(0, 0, 1), &[1, 2], &[2f64.sqrt(), 0.0]);
        let (empty, nothing) = (f32s(&[0, 0], &[]), f32s(&[0, 3], &[]));
        for y in [
            empty.solve(&nothing),
            empty.solve_triangular(&nothing, opts()),
            empty.cholesky(true),
            empty.inv(),
            triangle.tril(0).solve(&f32s(&[2, 0], &[])),
            f32s(&[0, 2, 2], &[]).cholesky(false),
            f32s(&[0, 2, 2], &[]).det(),
            f32s(&[0, 40, 40], &[]).inv(),
        ] {
            assert!(values(&y).is_empty());
        }
    }

    #[test]
    fn errors_are_told() {
        assert!(error_text(&pattern(&[2, 3], 1).det()).contains("square"));
        assert!(error_text(&matrices().solve(&pattern(&[2], 1))).contains("3 rows"));
    }
}
