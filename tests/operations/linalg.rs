//! Decompositions of matrices: what they multiply back to, gradients against central differences, and matrices
//! that are zero, singular, thin, empty or not finite.
use kiln::opts::{DiagonalOpts, MatrixNorm, ToleranceOpts};
use kiln::prelude::*;
use kiln::{GradOpts, assert_kernels, grad, grad_with};

/// Values without a pattern that decompositions could use.
fn noise(shape: &[usize], seed: usize) -> Tensor {
    let count: usize = shape.iter().product();
    let value = |i: usize| ((i * 7919 + seed * 104_729 + i * i * 31) % 1009) as f64 / 504.5 - 1.0;
    Tensor::from_vec((0..count).map(value).collect::<Vec<f64>>(), shape, ())
}

fn symmetric(shape: &[usize], seed: usize) -> Tensor {
    let x = noise(shape, seed);
    &x + x.mt()
}

fn matrix<const M: usize, const N: usize>(rows: [[f64; N]; M]) -> Tensor {
    Tensor::from_vec(rows.concat(), [M, N], ())
}

fn values(x: &Tensor) -> Vec<f64> {
    x.to_dtype(DType::F64).to_vec::<f64>().expect("values")
}

#[track_caller]
fn assert_near(what: &str, found: &[f64], expected: &[f64], bound: f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let near = (found - expected).abs() <= bound * (1.0 + expected.abs());
        assert!(near, "{what}: element {i} is {found}, expected {expected}");
    }
}

#[track_caller]
fn assert_same(what: &str, found: &Tensor, expected: &Tensor, bound: f64) {
    assert_eq!(found.shape(), expected.shape(), "{what}");
    assert_near(what, &values(found), &values(expected), bound);
}

fn eye(like: &Tensor) -> Tensor {
    let n = like.shape()[like.rank() - 1];
    like.zeros_like() + Tensor::eye(n, n, like.dtype())
}

fn orthonormal(what: &str, x: &Tensor, bound: f64) {
    let product = x.mt().matmul(x);
    assert_same(what, &product, &eye(&product), bound);
}

/// Matrices of many shapes: random ones, of rank 1 and 0, and with values that repeat.
fn matrices() -> Vec<Tensor> {
    let shapes: [&[usize]; 9] =
        [&[1, 1], &[1, 5], &[5, 1], &[4, 3], &[3, 4], &[2, 3, 3], &[40, 17], &[9, 60], &[2, 1, 6, 4]];
    let mut all = Vec::new();
    for shape in shapes {
        let x = noise(shape, 3);
        let (m, n) = (shape[shape.len() - 2], shape[shape.len() - 1]);
        all.extend([x.zeros_like(), x.ones_like(), x.zeros_like() + Tensor::eye(m, n, DType::F64), x]);
    }
    all
}

fn precisions() -> [(DType, f64); 2] {
    [(DType::F64, 1e-12), (DType::F32, 2e-5)]
}

#[test]
fn singular_values_and_vectors_multiply_back() {
    for (dtype, bound) in precisions() {
        for x in matrices().iter().map(|x| x.to_dtype(dtype)) {
            for full in [false, true] {
                let what = format!("svd of {dtype} {}, {full}", x.shape());
                let (u, s, vh) = x.svd(full);
                let k = s.shape()[s.rank() - 1] as i64;
                let (thin_u, thin_vh) = (u.narrow(-1, 0, k as usize), vh.narrow(-2, 0, k as usize));
                assert_same(&what, &(&thin_u * s.unsqueeze(-2)).matmul(&thin_vh), &x, bound);
                orthonormal(&what, &u, bound);
                orthonormal(&what, &vh.mt(), bound);
                let found = values(&s);
                assert!(
                    found.chunks(k as usize).all(|s| s.is_sorted_by(|a, b| a >= b) && s[s.len() - 1] >= 0.0)
                );
                assert_near(&what, &values(&x.svdvals()), &found, bound);
            }
        }
    }
}

#[test]
fn eigenvalues_and_vectors_multiply_back() {
    for (dtype, bound) in precisions() {
        for n in [1usize, 2, 3, 17, 70] {
            for x in
                [symmetric(&[2, n, n], 4), symmetric(&[n, n], 4).zeros_like(), Tensor::eye(n, n, DType::F64)]
            {
                let x = x.to_dtype(dtype);
                let what = format!("eigh of {dtype} {}", x.shape());
                let (w, v) = x.eigh(false);
                assert_same(&what, &(&v * w.unsqueeze(-2)).matmul(&v.mt()), &x, bound);
                orthonormal(&what, &v, bound);
                assert!(values(&w).chunks(n).all(|w| w.is_sorted()), "{what}");
                assert_near(&what, &values(&x.eigvalsh(false)), &values(&w), bound);
                assert_near(&what, &values(&x.eigvalsh(true)), &values(&w), bound);
            }
        }
    }
    // The other triangle is not read.
    let x = matrix([[2.0, f64::NAN], [1.0, 2.0]]);
    assert_near("lower", &values(&x.eigvalsh(false)), &[1.0, 3.0], 1e-15);
    assert_near("upper", &values(&x.mt().eigvalsh(true)), &[1.0, 3.0], 1e-15);
}

#[test]
fn orthogonal_and_triangular_factors_multiply_back() {
    for (dtype, bound) in precisions() {
        for x in matrices().iter().map(|x| x.to_dtype(dtype)) {
            for full in [false, true] {
                let what = format!("qr of {dtype} {}, {full}", x.shape());
                let (q, r) = x.qr(full);
                let columns = if full { x.shape()[x.rank() - 2] } else { q.shape()[q.rank() - 1] };
                assert_eq!((q.shape()[q.rank() - 1], r.shape()[r.rank() - 2]), (columns, columns), "{what}");
                assert_same(&what, &q.matmul(&r), &x, bound);
                orthonormal(&what, &q, bound);
                assert_same(&what, &r.triu(0), &r, 0.0);
                assert!(
                    values(&r.diagonal(DiagonalOpts::default().axes((-2, -1)))).iter().all(|&d| d >= 0.0),
                    "{what}"
                );
            }
        }
    }
}

#[test]
fn the_sign_of_vectors_is_that_of_their_greatest_element() {
    let greatest_is_positive = |x: &Tensor| {
        let columns = values(&x.mt().contiguous());
        columns.chunks(x.shape()[x.rank() - 2]).all(|c| {
            let greatest = c.iter().copied().fold(0f64, |a, b| if b.abs() > a.abs() { b } else { a });
            greatest > 0.0
        })
    };
    assert!(greatest_is_positive(&noise(&[7, 5], 1).svd(true).0));
    assert!(greatest_is_positive(&symmetric(&[6, 6], 1).eigh(false).1));
}

#[test]
fn magnitudes_near_the_limits_of_the_type_neither_overflow_nor_vanish() {
    let x = matrix([[3.0, 0.0], [4.0, 5.0]]);
    for (dtype, scales, bound) in [(DType::F32, [1e36, 1e-36], 1e-6), (DType::F64, [1e300, 1e-300], 1e-14)] {
        for scale in scales {
            let scaled = (&x * scale).to_dtype(dtype);
            let s: Vec<f64> = values(&scaled.svdvals()).iter().map(|s| s / scale).collect();
            assert_near("s", &s, &[45f64.sqrt(), 5f64.sqrt()], bound);
            let r: Vec<f64> = values(&scaled.qr(false).1).iter().map(|r| r / scale).collect();
            assert_near("r", &r, &[5.0, 4.0, 0.0, 3.0], bound);
            let w: Vec<f64> = values(&scaled.eigvalsh(false)).iter().map(|w| w / scale).collect();
            assert_near("w", &w, &[4.0 - 17f64.sqrt(), 4.0 + 17f64.sqrt()], bound);
        }
    }
}

#[test]
fn matrices_that_are_not_finite_give_nan_and_leave_the_others() {
    for bad in [f64::NAN, f64::INFINITY] {
        let x = Tensor::stack(&[matrix([[1.0, 0.0], [bad, 2.0]]), matrix([[1.0, 0.0], [0.0, 2.0]])], 0);
        let (u, s, vh) = x.svd(false);
        let (q, r) = x.qr(false);
        let (w, v) = x.eigh(false);
        for y in [u, s, vh, q, r, w, v, x.svdvals(), x.eigvalsh(false), x.pinv(Default::default())] {
            let found = values(&y);
            let (first, second) = found.split_at(found.len() / 2);
            assert!(first.iter().all(|v| v.is_nan()) && second.iter().all(|v| v.is_finite()), "{found:?}");
        }
    }
}

#[test]
fn nothing_has_factors_of_nothing() {
    let of = |shape: &[usize]| Tensor::zeros(shape, DType::F64);
    for (m, n) in [(0usize, 0usize), (0, 3), (3, 0)] {
        let x = of(&[2, m, n]);
        let k = m.min(n);
        let (u, s, vh) = x.svd(false);
        assert_eq!(
            (u.dims().unwrap(), s.dims().unwrap(), vh.dims().unwrap()),
            ([2, m, k], [2, k], [2, k, n])
        );
        let (u, _, vh) = x.svd(true);
        assert_same("u", &u, &eye(&of(&[2, m, m])), 0.0);
        assert_same("vh", &vh, &eye(&of(&[2, n, n])), 0.0);
        let (q, r) = x.qr(true);
        assert_same("q", &q, &eye(&of(&[2, m, m])), 0.0);
        assert_eq!((values(&r).len(), values(&s).len()), (0, 0));
        assert!(values(&x.pinv(Default::default())).is_empty());
        assert_eq!(values(&x.matrix_rank(Default::default())), [0.0, 0.0]);
        assert_eq!(values(&x.lstsq(&of(&[2, m, 1]), Default::default())), vec![0.0; 2 * n]);
        assert_eq!(values(&x.cond(MatrixNorm::Spectral)), [0.0, 0.0]);
        assert_eq!(values(&x.matrix_norm(MatrixNorm::Nuclear, [-2, -1])), [0.0, 0.0]);
    }
    let none = of(&[0, 3, 2]);
    let (w, v) = of(&[0, 2, 2]).eigh(false);
    for y in [none.svd(false).0, none.svdvals(), none.qr(false).1, none.pinv(Default::default()), w, v] {
        assert!(values(&y).is_empty());
    }
}

#[test]
fn pseudo_inverses_satisfy_the_equations_of_penrose() {
    let low_rank = noise(&[6, 2], 1).matmul(&noise(&[2, 5], 2));
    for a in matrices().into_iter().chain([low_rank]) {
        let p = a.pinv(Default::default());
        let (ap, pa) = (a.matmul(&p), p.matmul(&a));
        assert_same("a p a", &ap.matmul(&a), &a, 1e-11);
        assert_same("p a p", &pa.matmul(&p), &p, 1e-11);
        assert_same("a p", &ap.mt(), &ap, 1e-11);
        assert_same("p a", &pa.mt(), &pa, 1e-11);
    }
    let opts = || ToleranceOpts::default().symmetric(true);
    for a in [symmetric(&[2, 5, 5], 3), symmetric(&[3, 3], 3).zeros_like()] {
        assert_same("symmetric", &a.pinv(opts()), &a.pinv(Default::default()), 1e-11);
        assert_eq!(values(&a.matrix_rank(opts())), values(&a.matrix_rank(Default::default())));
    }
}

#[test]
fn ranks_count_what_is_above_the_tolerance() {
    let ranks: Vec<Vec<f64>> =
        matrices()[12..16].iter().map(|x| values(&x.matrix_rank(Default::default()))).collect();
    assert_eq!(ranks, [[0.0], [1.0], [3.0], [3.0]]);
    let x = matrix([[1.0, 0.0], [0.0, 1e-3]]);
    assert_eq!(values(&x.matrix_rank(ToleranceOpts::default().atol(1e-2))), [1.0]);
    assert_eq!(values(&x.matrix_rank(ToleranceOpts::default().rtol(1e-4))), [2.0]);
    assert_near("pinv", &values(&x.pinv(ToleranceOpts::default().rtol(0.1))), &[1.0, 0.0, 0.0, 0.0], 1e-15);
}

#[test]
fn least_squares_leaves_a_residual_orthogonal_to_the_columns() {
    let zeros = |x: &Tensor| x.zeros_like();
    for (a, b) in [
        (noise(&[7, 3], 1), noise(&[7, 2], 2)),
        (noise(&[2, 7, 3], 1), noise(&[2, 7], 2)),
        (noise(&[3, 7], 1), noise(&[3], 2)),
        (noise(&[7, 3], 1), noise(&[4, 7, 1], 2)),
    ] {
        let x = a.lstsq(&b, Default::default());
        let vector = b.rank() + 1 == a.rank() || b.rank() == 1;
        let lift = |t: &Tensor| if vector { t.unsqueeze(-1) } else { t.clone() };
        let normal = a.mt().matmul(&(a.matmul(&lift(&x)) - lift(&b)));
        assert_same("normal equations", &normal, &zeros(&normal), 1e-12);
        assert_same("pinv", &lift(&x), &a.pinv(Default::default()).matmul(&lift(&b)), 1e-11);
    }
}

#[test]
fn least_squares_of_low_rank_is_the_shortest() {
    // The second column is twice the first, the third is 0: what they share goes to them as 1 to 2.
    let a = matrix([[1.0, 2.0, 0.0], [0.0, 0.0, 0.0], [-1.0, -2.0, 0.0], [2.0, 4.0, 0.0]]);
    let b = Tensor::from([6.0f64, 5.0, 0.0, 3.0]);
    for (dtype, bound) in precisions() {
        let x = a.to_dtype(dtype).lstsq(&b.to_dtype(dtype), Default::default());
        assert_near("tall", &values(&x), &[0.4, 0.8, 0.0], bound);
        let wide = a
            .mt()
            .to_dtype(dtype)
            .lstsq(&Tensor::from([1.0f64, 2.0, 9.0]).to_dtype(dtype), Default::default());
        assert_near("wide", &values(&wide), &[1.0 / 6.0, 0.0, -1.0 / 6.0, 1.0 / 3.0], bound);
    }
    let both = Tensor::stack(&[a.clone(), noise(&[4, 3], 1)], 0);
    let x = both.lstsq(&b.unsqueeze(-1), Default::default());
    assert_near("of a batch", &values(&x.i((0, .., 0))), &[0.4, 0.8, 0.0], 1e-12);
    assert_near("of zeros", &values(&a.zeros_like().lstsq(&b, Default::default())), &[0.0; 3], 0.0);
}

#[test]
fn norms_and_condition_numbers_of_singular_values() {
    let x = Tensor::stack(&[matrix([[0.0, -2.0], [3.0, 0.0]]), matrix([[4.0, 0.0], [0.0, 4.0]])], 1);
    let norm = |norm| values(&x.matrix_norm(norm, [0, 2]));
    assert_near("spectral", &norm(MatrixNorm::Spectral), &[3.0, 4.0], 1e-15);
    assert_near("least", &norm(MatrixNorm::LeastSingular), &[2.0, 4.0], 1e-15);
    assert_near("nuclear", &norm(MatrixNorm::Nuclear), &[5.0, 8.0], 1e-15);
    assert_eq!(x.matrix_norm_keepdim(MatrixNorm::Spectral, [0, 2]).dims().unwrap(), [1, 2, 1]);
    let x = x.movedim(1, 0);
    let cond = |norm| values(&x.cond(norm));
    assert_near("spectral", &cond(MatrixNorm::Spectral), &[1.5, 1.0], 1e-15);
    assert_near("least", &cond(MatrixNorm::LeastSingular), &[2.0 / 3.0, 1.0], 1e-15);
    assert_near("nuclear", &cond(MatrixNorm::Nuclear), &[25.0 / 6.0, 4.0], 1e-15);
    assert_near("column", &cond(MatrixNorm::MaxColumn), &[1.5, 1.0], 1e-15);
    let singular = matrix([[1.0, 2.0], [2.0, 4.0]]);
    assert_eq!(values(&singular.cond(MatrixNorm::Frobenius)), [f64::INFINITY]);
}

type Function<'a> = &'a dyn Fn(&Tensor) -> Tensor;

/// A number that depends on every element in its own way.
fn weighed(f: Function, x: &Tensor) -> Tensor {
    let y = f(x);
    (&y * noise(&y.shape(), 9)).sum(..)
}

fn differences(f: Function, x: &Tensor) -> Vec<f64> {
    let (at, step) = (values(x), 1e-6);
    let moved = |i: usize, by: f64| {
        let mut values = at.clone();
        values[i] += by;
        weighed(f, &Tensor::from_vec(values, x.shape(), ())).item::<f64>().unwrap()
    };
    (0..at.len()).map(|i| (moved(i, step) - moved(i, -step)) / (2.0 * step)).collect()
}

fn gradient(f: Function, x: &Tensor) -> Tensor {
    let opts = GradOpts::default().allow_unused(true);
    grad_with(&weighed(f, x), &[x], opts).remove(0)
}

/// First derivatives, and second ones of a number made from them.
#[track_caller]
fn check(what: &str, x: &Tensor, f: Function) {
    let x = x.detach().with_requires_grad();
    assert_near(what, &values(&gradient(f, &x)), &differences(f, &x), 1e-6);
    let slopes: Function = &|x| gradient(f, &x.clone().with_requires_grad());
    assert_near(&format!("{what}, twice"), &values(&gradient(slopes, &x)), &differences(slopes, &x), 1e-4);
}

#[test]
fn gradients_agree_with_differences() {
    for shape in [[3usize, 3], [4, 3], [3, 4]] {
        let x = noise(&shape, 5);
        check("u", &x, &|x| x.svd(false).0);
        check("s", &x, &|x| x.svd(false).1);
        check("vh", &x, &|x| x.svd(false).2);
        check("the first vectors", &x, &|x| {
            let (u, s, vh) = x.svd(true);
            u.narrow(-1, 0, 2) * s.narrow(-1, 0, 2) + vh.narrow(-2, 0, 1).sum(..)
        });
        check("svdvals", &x, &|x| x.svdvals());
        check("q", &x, &|x| x.qr(false).0);
        check("r", &x, &|x| x.qr(false).1);
        check("pinv", &x, &|x| x.pinv(Default::default()));
        let other = noise(&[2, shape[0], 2], 6);
        check("lstsq by the matrix", &x, &|x| x.lstsq(&other, Default::default()));
        check("lstsq by the right-hand side", &other, &|b| x.lstsq(b, Default::default()));
        check("spectral norm", &x, &|x| x.matrix_norm(MatrixNorm::Spectral, [-2, -1]));
        check("nuclear norm", &x, &|x| x.matrix_norm(MatrixNorm::Nuclear, [-2, -1]));
        check("cond", &x, &|x| x.cond(MatrixNorm::Spectral));
    }
    let x = noise(&[2, 3, 3], 7);
    check("w", &x, &|x| (x + x.mt()).eigh(false).0);
    check("v", &x, &|x| (x + x.mt()).eigh(true).1);
    check("eigvalsh", &x, &|x| (x + x.mt()).eigvalsh(false));
    check("symmetric pinv", &x, &|x| (x + x.mt()).pinv(ToleranceOpts::default().symmetric(true)));
    check("q of a batch", &x, &|x| x.qr(true).0);
}

#[test]
fn repeated_and_zero_values_have_finite_gradients() {
    for x in [Tensor::eye(3, 3, DType::F64), Tensor::eye(4, 3, DType::F64), Tensor::zeros([3, 4], DType::F64)]
    {
        let x = x.with_requires_grad();
        for y in [x.svdvals(), x.svd(false).1, x.matrix_norm(MatrixNorm::Nuclear, [0, 1])] {
            let found = values(&grad(&y.sum(..), &[&x]).remove(0));
            assert!(found.iter().all(|v| v.is_finite()), "{found:?}");
        }
    }
    let x = Tensor::eye(3, 3, DType::F64).with_requires_grad();
    assert_same("trace", &grad(&x.eigvalsh(false).sum(..), &[&x]).remove(0), &x, 1e-15);
    assert_same("trace", &grad(&x.eigh(false).0.sum(..), &[&x]).remove(0), &x, 1e-15);
}

#[test]
fn a_complete_q_has_no_gradient_where_it_is_not_determined() {
    let x = noise(&[4, 2], 1).with_requires_grad();
    let error = grad(&x.qr(true).0.sum(..), &[&x]).remove(0).check().expect_err("no gradient");
    assert!(
        error.to_string().contains("tests/operations/linalg.rs") && error.to_string().contains("full"),
        "{error}"
    );
}

#[test]
fn gradients_use_the_factors_that_the_values_came_from() {
    let x = noise(&[3, 3], 1).with_requires_grad();
    let loss = x.svdvals().sum(..);
    loss.realize().unwrap();
    // The product of the vectors is all that is left.
    assert_kernels!(grad(&loss, &[&x]).remove(0), 1);
}
