//! Decompositions of a matrix, by the crate `faer`, on the thread that calls.
//!
//! This crate is an implementation detail of [kiln](https://docs.rs/kiln): its interface may change with any
//! version. What it exports is not generic, so `faer` is compiled here, once, and not by the crate that calls.

#![deny(missing_docs)]

use std::ops::{Mul, Neg};

use faer::diag::Diag;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::evd::{ComputeEigenvectors, self_adjoint_evd, self_adjoint_evd_scratch};
use faer::linalg::householder::{
    apply_block_householder_sequence_on_the_left_in_place_scratch as reflect_scratch,
    apply_block_householder_sequence_on_the_left_in_place_with_conj as reflect,
};
use faer::linalg::qr::no_pivoting::factor::{qr_in_place, qr_in_place_scratch, recommended_block_size};
use faer::linalg::svd::{ComputeSvdVectors, svd, svd_scratch};
use faer::traits::RealField;
use faer::{ColRef, Conj, Mat, Par};

/// What a matrix of `m` rows and `n` columns is decomposed into; `k` is the lesser of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Factors {
    /// `u`, `s` descending and `vh` of `u diag(s) vh`, `[m, k]`, `[k]` and `[k, n]`. The element of greatest
    /// magnitude in a column of `u` is positive.
    Svd {
        /// Whether `u` is `[m, m]` and `vh` `[n, n]`.
        full: bool,
    },
    /// The `s` of that alone.
    SingularValues,
    /// `w` ascending and `v` of `v diag(w) v'`, `[n]` and `[n, n]`, from the lower triangle of a square matrix.
    /// The element of greatest magnitude in a column of `v` is positive.
    Eigh,
    /// The `w` of that alone.
    Eigenvalues,
    /// `q` and the upper triangle `r` of `q r`, `[m, n]` and `[n, n]`, from a matrix of no more columns than
    /// rows. The diagonal of `r` is not negative.
    Qr {
        /// Whether `q` is `[m, m]` and `r` `[m, n]`.
        full: bool,
    },
}

/// The types of numbers that matrices are decomposed in, `f32` and `f64`.
pub trait Number: Sized {
    /// The factors of a row-major matrix, one after the other, row-major. NaN where an element that is read is
    /// not finite, or the iteration does not converge.
    fn factor(factors: Factors, rows: usize, columns: usize, matrix: &[Self]) -> Vec<Self>;
}

impl Number for f32 {
    fn factor(factors: Factors, rows: usize, columns: usize, matrix: &[f32]) -> Vec<f32> {
        factor(factors, rows, columns, matrix)
    }
}

impl Number for f64 {
    fn factor(factors: Factors, rows: usize, columns: usize, matrix: &[f64]) -> Vec<f64> {
        factor(factors, rows, columns, matrix)
    }
}

impl Factors {
    /// The shapes of the factors, in their order.
    pub fn shapes(self, rows: usize, columns: usize) -> Vec<Vec<usize>> {
        let (m, n, k) = (rows, columns, rows.min(columns));
        match self {
            Factors::Svd { full: true } => vec![vec![m, m], vec![k], vec![n, n]],
            Factors::Svd { full: false } => vec![vec![m, k], vec![k], vec![k, n]],
            Factors::SingularValues | Factors::Eigenvalues => vec![vec![k]],
            Factors::Eigh => vec![vec![k], vec![n, n]],
            Factors::Qr { full: true } => vec![vec![m, m], vec![m, n]],
            Factors::Qr { full: false } => vec![vec![m, k], vec![k, n]],
        }
    }
}

/// What the code below needs of a number besides `faer`'s own arithmetic.
trait Real: RealField + Copy + Mul<Output = Self> + Neg<Output = Self> {
    /// Powers of two up to this one, and their reciprocals, are finite and not subnormal.
    const EXPONENT: i32;
    /// The nearest number.
    fn nearest(x: f64) -> Self;
    /// The same number.
    fn wide(self) -> f64;
}

impl Real for f32 {
    const EXPONENT: i32 = 120;
    fn nearest(x: f64) -> f32 {
        x as f32
    }
    fn wide(self) -> f64 {
        f64::from(self)
    }
}

impl Real for f64 {
    const EXPONENT: i32 = 1000;
    fn nearest(x: f64) -> f64 {
        x
    }
    fn wide(self) -> f64 {
        self
    }
}

fn factor<T: Real>(factors: Factors, rows: usize, columns: usize, matrix: &[T]) -> Vec<T> {
    let at = |i: usize, j: usize| match factors {
        Factors::Eigh | Factors::Eigenvalues => matrix[i.max(j) * columns + i.min(j)],
        Factors::Svd { .. } | Factors::SingularValues | Factors::Qr { .. } => matrix[i * columns + j],
    };
    let a = Mat::from_fn(rows, columns, at);
    let found = scale(&a).and_then(|scale| {
        let (down, up) = (T::nearest(2f64.powi(-scale)), T::nearest(2f64.powi(scale)));
        let a = Mat::from_fn(rows, columns, |i, j| a[(i, j)] * down);
        match factors {
            Factors::Svd { full } => singular_vectors(&a, full, up),
            Factors::SingularValues => singular_values(&a, up),
            Factors::Eigh => eigen(&a, true, up),
            Factors::Eigenvalues => eigen(&a, false, up),
            Factors::Qr { full } => Some(orthogonal(a, full, up)),
        }
    });
    let shapes = || factors.shapes(rows, columns);
    let elements = || shapes().iter().map(|shape| shape.iter().product::<usize>()).sum();
    found.unwrap_or_else(|| vec![T::nearest(f64::NAN); elements()])
}

/// The exponent of the largest magnitude, by which the matrix is divided so that nothing overflows or
/// vanishes on the way; `None` if an element is not finite.
fn scale<T: Real>(a: &Mat<T>) -> Option<i32> {
    let mut largest = 0f64;
    for x in a.col_iter().flat_map(|column| column.iter()) {
        let x = x.wide().abs();
        if !x.is_finite() {
            return None;
        }
        largest = largest.max(x);
    }
    let exponent = if largest == 0.0 { 0 } else { largest.log2().floor() as i32 };
    Some(exponent.clamp(-T::EXPONENT, T::EXPONENT))
}

/// Appends a matrix, row by row.
fn write<T>(out: &mut Vec<T>, rows: usize, columns: usize, at: impl Fn(usize, usize) -> T) {
    (0..rows).for_each(|i| out.extend((0..columns).map(|j| at(i, j))));
}

/// The sign of the element of greatest magnitude in each column.
fn signs<T: Real>(x: &Mat<T>) -> Vec<T> {
    let sign = |column: ColRef<'_, T>| {
        let greatest =
            column.iter().map(|x| x.wide()).fold(0f64, |a, b| if b.abs() > a.abs() { b } else { a });
        T::nearest(if greatest < 0.0 { -1.0 } else { 1.0 })
    };
    x.col_iter().map(sign).collect()
}

fn singular_vectors<T: Real>(a: &Mat<T>, full: bool, up: T) -> Option<Vec<T>> {
    let (m, n) = a.shape();
    let k = m.min(n);
    let vectors = if full { ComputeSvdVectors::Full } else { ComputeSvdVectors::Thin };
    let columns = |n: usize| if full { n } else { k };
    let (mut u, mut v) = (Mat::zeros(m, columns(m)), Mat::zeros(n, columns(n)));
    let mut s = Diag::zeros(k);
    let scratch = svd_scratch::<T>(m, n, vectors, vectors, Par::Seq, Default::default());
    let stack = &mut MemBuffer::new(scratch);
    let (to_u, to_v) = (Some(u.as_mut()), Some(v.as_mut()));
    svd(a.as_ref(), s.as_mut(), to_u, to_v, Par::Seq, MemStack::new(stack), Default::default()).ok()?;
    let (of_u, mut of_v) = (signs(&u), signs(&v));
    of_v[..k].copy_from_slice(&of_u[..k]);
    let mut out = Vec::with_capacity(m * u.ncols() + k + n * v.ncols());
    write(&mut out, m, u.ncols(), |i, j| u[(i, j)] * of_u[j]);
    out.extend((0..k).map(|i| s[i] * up));
    write(&mut out, v.ncols(), n, |i, j| v[(j, i)] * of_v[i]);
    Some(out)
}

fn singular_values<T: Real>(a: &Mat<T>, up: T) -> Option<Vec<T>> {
    let (m, n) = a.shape();
    let mut s = Diag::zeros(m.min(n));
    let vectors = ComputeSvdVectors::No;
    let scratch = svd_scratch::<T>(m, n, vectors, vectors, Par::Seq, Default::default());
    let stack = &mut MemBuffer::new(scratch);
    svd(a.as_ref(), s.as_mut(), None, None, Par::Seq, MemStack::new(stack), Default::default()).ok()?;
    Some((0..s.dim()).map(|i| s[i] * up).collect())
}

fn eigen<T: Real>(a: &Mat<T>, vectors: bool, up: T) -> Option<Vec<T>> {
    let n = a.nrows();
    let (mut w, mut v) = (Diag::zeros(n), Mat::zeros(n, n));
    let what = if vectors { ComputeEigenvectors::Yes } else { ComputeEigenvectors::No };
    let scratch = self_adjoint_evd_scratch::<T>(n, what, Par::Seq, Default::default());
    let stack = &mut MemBuffer::new(scratch);
    let to_v = vectors.then(|| v.as_mut());
    self_adjoint_evd(a.as_ref(), w.as_mut(), to_v, Par::Seq, MemStack::new(stack), Default::default())
        .ok()?;
    let mut out: Vec<T> = (0..n).map(|i| w[i] * up).collect();
    if vectors {
        let signs = signs(&v);
        write(&mut out, n, n, |i, j| v[(i, j)] * signs[j]);
    }
    Some(out)
}

fn orthogonal<T: Real>(mut a: Mat<T>, full: bool, up: T) -> Vec<T> {
    let (m, n) = a.shape();
    let block = recommended_block_size::<T>(m, n);
    let mut coefficients = Mat::zeros(block, n);
    let scratch = qr_in_place_scratch::<T>(m, n, block, Par::Seq, Default::default());
    let stack = &mut MemBuffer::new(scratch);
    qr_in_place(a.as_mut(), coefficients.as_mut(), Par::Seq, MemStack::new(stack), Default::default());
    let columns = if full { m } else { n };
    let mut q = Mat::identity(m, columns);
    let stack = &mut MemBuffer::new(reflect_scratch::<T>(m, block, columns));
    let (basis, stack) = (a.as_ref(), MemStack::new(stack));
    reflect(basis, coefficients.as_ref(), Conj::No, q.as_mut(), Par::Seq, stack);
    let sign = |i: usize| T::nearest(if i < n && a[(i, i)].wide() < 0.0 { -1.0 } else { 1.0 });
    let mut out = Vec::with_capacity((m + n) * columns);
    write(&mut out, m, columns, |i, j| q[(i, j)] * sign(j));
    let r = |i: usize, j: usize| if i <= j { a[(i, j)] * sign(i) * up } else { T::nearest(0.0) };
    write(&mut out, columns, n, r);
    out
}
