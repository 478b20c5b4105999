//! Systems, determinants and decompositions.

use kiln::opts::SolveTriangularOpts;
#[cfg(feature = "linalg")]
use kiln::opts::{MatrixNorm, ToleranceOpts};
use kiln::prelude::*;

#[cfg(feature = "linalg")]
use super::all;
use super::{Input, Row, any};

const SQUARE: Input = any(&[2, 3, 3]);
#[cfg(feature = "linalg")]
const TALL: Input = any(&[4, 3]);

pub const SYSTEMS: &[Row] = &[
    ("solve", &[SQUARE, any(&[2, 3, 2])], |x| x[0].solve(&x[1])),
    ("solve of a vector", &[any(&[3, 3]), any(&[3])], |x| x[0].solve(&x[1])),
    ("solve_triangular", &[SQUARE, any(&[2, 3, 2])], |x| {
        x[0].solve_triangular(&x[1], SolveTriangularOpts::default().upper(true))
    }),
    ("solve_triangular from the right", &[SQUARE, any(&[2, 2, 3])], |x| {
        x[0].solve_triangular(&x[1], SolveTriangularOpts::default().left(false).unitriangular(true))
    }),
    ("inv", &[SQUARE], |x| x[0].inv()),
    ("det", &[SQUARE], |x| x[0].det()),
    ("slogdet", &[SQUARE], |x| x[0].slogdet().1),
    ("cholesky", &[SQUARE], |x| definite(&x[0]).cholesky(false)),
    ("cholesky, upper", &[SQUARE], |x| definite(&x[0]).cholesky(true)),
    ("matrix_exp", &[SQUARE], |x| x[0].matrix_exp()),
];

#[cfg(feature = "linalg")]
pub const DECOMPOSITIONS: &[Row] = &[
    ("qr", &[TALL], |x| {
        let (q, r) = x[0].qr(false);
        all(&[q, r])
    }),
    ("qr of a wide matrix", &[any(&[3, 4])], |x| {
        let (q, r) = x[0].qr(false);
        all(&[q, r])
    }),
    ("svd", &[TALL], |x| {
        let (u, s, vh) = x[0].svd(false);
        all(&[u, s, vh])
    }),
    ("svdvals", &[SQUARE], |x| x[0].svdvals()),
    ("eigh", &[SQUARE], |x| {
        let (values, vectors) = symmetric(&x[0]).eigh(false);
        all(&[values, vectors])
    }),
    ("eigvalsh", &[SQUARE], |x| symmetric(&x[0]).eigvalsh(true)),
    ("pinv", &[TALL], |x| x[0].pinv(Default::default())),
    ("pinv of a wide matrix", &[any(&[2, 2, 3])], |x| x[0].pinv(Default::default())),
    ("pinv of a symmetric matrix", &[SQUARE], |x| {
        symmetric(&x[0]).pinv(ToleranceOpts::default().symmetric(true))
    }),
    ("lstsq", &[TALL, any(&[4, 2])], |x| x[0].lstsq(&x[1], Default::default())),
    ("lstsq of a wide matrix", &[any(&[2, 2, 3]), any(&[2, 2])], |x| x[0].lstsq(&x[1], Default::default())),
    ("lstsq of a square matrix", &[any(&[3, 3]), any(&[3])], |x| x[0].lstsq(&x[1], Default::default())),
    ("lstsq of a matrix of low rank", &[any(&[4, 2]), any(&[2, 3]), any(&[4, 2])], |x| {
        x[0].matmul(&x[1]).lstsq(&x[2], ToleranceOpts::default().rtol(1e-9))
    }),
    ("pinv of a matrix of low rank", &[any(&[3, 2]), any(&[2, 4])], |x| {
        x[0].matmul(&x[1]).pinv(ToleranceOpts::default().rtol(1e-9))
    }),
    ("cond", &[SQUARE], |x| x[0].cond(MatrixNorm::Spectral)),
    ("cond by columns", &[SQUARE], |x| x[0].cond(MatrixNorm::MaxColumn)),
    ("matrix_norm, spectral", &[TALL], |x| x[0].matrix_norm(MatrixNorm::Spectral, [0, 1])),
    ("matrix_norm, nuclear", &[TALL], |x| x[0].matrix_norm(MatrixNorm::Nuclear, [1, 0])),
];

#[cfg(feature = "linalg")]
fn symmetric(x: &Tensor) -> Tensor {
    x + x.mt()
}

fn definite(x: &Tensor) -> Tensor {
    x.matmul(&x.mt()) + Tensor::eye(3, 3, x.dtype())
}
