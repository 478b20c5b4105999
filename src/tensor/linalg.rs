//! Products of vectors, matrices and batches of them. A product is one
//! [`Op::Contract`](crate::ir::Op::Contract); broadcasting costs views, never
//! a repeated operand. Products added to something are in
//! [`crate::tensor::affine`].

use crate::base::{DType, Kind};
use crate::ir::AluOp;
use crate::tensor::Tensor;
use crate::tensor::compose::{CallSite, Checked, finish};
use crate::tensor::matmul::matmul;
use crate::tensor::operand::Operand;

/// Which axes [`Tensor::tensordot`] sums over.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln::opts::TensordotAxes;
/// let x = Tensor::ones([2, 3, 4], ());
/// assert_eq!(x.tensordot(&Tensor::ones([4, 3], ()), ([1, 2], [1, 0])).dims()?, [2]);
/// assert_eq!(TensordotAxes::from(2), TensordotAxes::Count(2));
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TensordotAxes {
    /// The last `n` of the first operand with the first `n` of the second.
    Count(usize),
    /// These of the first with these of the second, pair by pair.
    Pairs(Vec<i64>, Vec<i64>),
}

impl From<usize> for TensordotAxes {
    fn from(count: usize) -> TensordotAxes {
        TensordotAxes::Count(count)
    }
}
impl<const N: usize> From<([i64; N], [i64; N])> for TensordotAxes {
    fn from((a, b): ([i64; N], [i64; N])) -> TensordotAxes {
        TensordotAxes::Pairs(a.to_vec(), b.to_vec())
    }
}
impl From<(Vec<i64>, Vec<i64>)> for TensordotAxes {
    fn from((a, b): (Vec<i64>, Vec<i64>)) -> TensordotAxes {
        TensordotAxes::Pairs(a, b)
    }
}

impl Tensor {
    /// The matrix product: `[.., n, m]` with `[.., m, p]` gives `[.., n, p]`.
    ///
    /// The last two axes are matrices, the others broadcast; a rank-1 operand is a row or column
    /// that disappears.
    ///
    /// Invalid when an operand has rank 0, the types differ, or the extents summed over differ.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let a = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// let b = Tensor::from([[0.0f32, 1.0], [1.0, 0.0]]);
    /// assert_eq!(a.matmul(&b).to_vec::<f32>()?, [2.0, 1.0, 4.0, 3.0]);
    /// assert_eq!(a.matmul(&Tensor::from([1.0f32, 1.0])).to_vec::<f32>()?, [3.0, 7.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn matmul(&self, other: &Tensor) -> Tensor {
        let site = CallSite::here("matmul");
        let this: &Tensor = &site.autocast(self);
        let other: &Tensor = &site.autocast(other);
        matmul(site, this, other)
    }

    /// The product of two matrices: `[n, m]` with `[m, p]` gives `[n, p]`.
    ///
    /// Invalid unless both have rank 2; otherwise as [`Tensor::matmul`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let a = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// assert_eq!(a.mm(&a).to_vec::<f32>()?, [7.0, 10.0, 15.0, 22.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn mm(&self, other: &Tensor) -> Tensor {
        let site = CallSite::here("mm");
        let this: &Tensor = &site.autocast(self);
        let other: &Tensor = &site.autocast(other);
        ranked_product(site, this, other, 2, 2)
    }

    /// Products of two batches of matrices: `[b, n, m]` with `[b, m, p]` gives `[b, n, p]`.
    ///
    /// Invalid unless both have rank 3 and the extents fit.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let a = Tensor::ones([2, 3, 4], ());
    /// assert_eq!(a.bmm(&Tensor::ones([2, 4, 5], ())).dims()?, [2, 3, 5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn bmm(&self, other: &Tensor) -> Tensor {
        let site = CallSite::here("bmm");
        let this: &Tensor = &site.autocast(self);
        let other: &Tensor = &site.autocast(other);
        finish(bmm(site, this, other))
    }

    /// The product of a matrix with a vector: `[n, m]` with `[m]` gives `[n]`.
    ///
    /// Invalid unless the ranks are 2 and 1 and the extents fit.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let a = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// assert_eq!(a.mv(&Tensor::from([1.0f32, 10.0])).to_vec::<f32>()?, [21.0, 43.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn mv(&self, vector: &Tensor) -> Tensor {
        let site = CallSite::here("mv");
        let this: &Tensor = &site.autocast(self);
        let vector: &Tensor = &site.autocast(vector);
        ranked_product(site, this, vector, 2, 1)
    }

    /// The inner product of two vectors: `[n]` with `[n]` gives rank 0. Invalid for other ranks.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let a = Tensor::from([1.0f32, 2.0]);
    /// assert_eq!(a.dot(&Tensor::from([3.0f32, 4.0])).to_vec::<f32>()?, [11.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn dot(&self, other: &Tensor) -> Tensor {
        ranked_product(CallSite::here("dot"), self, other, 1, 1)
    }

    /// Inner product of two vectors; the same as [`Tensor::dot`] on reals.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let a = Tensor::from([1.0f32, 2.0]);
    /// assert_eq!(a.vdot(&Tensor::from([3.0f32, 4.0])).to_vec::<f32>()?, [11.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn vdot(&self, other: &Tensor) -> Tensor {
        ranked_product(CallSite::here("vdot"), self, other, 1, 1)
    }

    /// The sum over the last axes of both: `[.., n]` with `[*, n]` gives `[.., *]`.
    ///
    /// With a rank-0 operand, the product. Invalid when the last extents differ.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let a = Tensor::ones([2, 3], ());
    /// assert_eq!(a.inner(&Tensor::ones([4, 3], ())).dims()?, [2, 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn inner(&self, other: &Tensor) -> Tensor {
        let site = CallSite::here("inner");
        if self.rank() == 0 || other.rank() == 0 {
            return site.mul(self, other);
        }
        site.contract(self, other, &[], &[(self.rank() - 1, other.rank() - 1)])
    }

    /// Every product of an element of one vector with one of the other.
    ///
    /// `[n]` with `[m]` gives `[n, m]`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let a = Tensor::from([1i64, 2]);
    /// assert_eq!(a.outer(&Tensor::from([3i64, 4])).to_vec::<i64>()?, [3, 4, 6, 8]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn outer(&self, other: &Tensor) -> Tensor {
        let site = CallSite::here("outer");
        finish(outer(site, self, other))
    }

    /// The sum of products over the axes named, the others kept in order.
    ///
    /// The axes are a number (the last of one, the first of the other) or pairs. Invalid when
    /// extents differ.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let a = Tensor::ones([2, 3, 4], ());
    /// assert_eq!(a.tensordot(&Tensor::ones([3, 4, 5], ()), 2).dims()?, [2, 5]);
    /// assert_eq!(a.tensordot(&Tensor::ones([4, 6], ()), ([2], [0])).dims()?, [2, 3, 6]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn tensordot(&self, other: &Tensor, axes: impl Into<TensordotAxes>) -> Tensor {
        let site = CallSite::here("tensordot");
        finish(tensordot(site, self, other, &axes.into()))
    }

    /// Square matrices `[.., n, n]` multiplied with themselves `power` times, by repeated squaring.
    ///
    /// A negative power inverts first. Invalid unless the matrices are square. PyTorch:
    /// `torch.linalg.matrix_power`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let a = Tensor::from([[1.0f32, 1.0], [0.0, 1.0]]);
    /// assert_eq!(a.matrix_power(3).to_vec::<f32>()?, [1.0, 3.0, 0.0, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn matrix_power(&self, power: i64) -> Tensor {
        let site = CallSite::here("matrix_power");
        finish(matrix_power(site, self, power))
    }

    /// The sum of products along one axis of two tensors that broadcast.
    ///
    /// PyTorch: `torch.linalg.vecdot`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let a = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// assert_eq!(a.vecdot(&a, 1).to_vec::<f32>()?, [5.0, 25.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn vecdot(&self, other: &Tensor, axis: i64) -> Tensor {
        let site = CallSite::here("vecdot");
        let product = site.mul(&*site.autocast(self), &*site.autocast(other));
        match site.axis(&product, axis) {
            Ok(axis) => site.sum(&product, &[axis]),
            Err(invalid) => invalid,
        }
    }

    /// The vector product along an axis of extent 3, by default the first such.
    ///
    /// Invalid when the ranks differ or there is no such axis. PyTorch: `torch.cross`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let a = Tensor::from([1.0f32, 0.0, 0.0]);
    /// assert_eq!(a.cross(&Tensor::from([0.0f32, 1.0, 0.0]), None).to_vec::<f32>()?, [0.0, 0.0, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn cross(&self, other: &Tensor, axis: Option<i64>) -> Tensor {
        let site = CallSite::here("cross");
        let first = || {
            let both = self.shape().broadcast(&other.shape())?;
            both.iter().position(|&n| n == 3).map(|axis| axis as i64)
        };
        finish(match axis.or_else(first) {
            Some(axis) => cross(site, self, other, axis),
            None => Err(site.invalid("an axis of extent 3", "none", &[self, other])),
        })
    }

    /// The vector product along an axis of extent 3, the last by convention.
    ///
    /// Invalid when the ranks differ or the extent is another. PyTorch: `torch.linalg.cross`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let a = Tensor::from([1.0f32, 0.0, 0.0]);
    /// let y = a.linalg_cross(&Tensor::from([0.0f32, 1.0, 0.0]), -1);
    /// assert_eq!(y.to_vec::<f32>()?, [0.0, 0.0, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn linalg_cross(&self, other: &Tensor, axis: i64) -> Tensor {
        finish(cross(CallSite::here("linalg.cross"), self, other, axis))
    }

    /// The Kronecker product, each element times the whole other.
    ///
    /// `[n, m]` with `[p, q]` gives `[n p, m q]`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let a = Tensor::from([1i64, 10]);
    /// assert_eq!(a.kron(&Tensor::from([1i64, 2])).to_vec::<i64>()?, [1, 2, 10, 20]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn kron(&self, other: &Tensor) -> Tensor {
        let site = CallSite::here("kron");
        finish(kron(site, self, other))
    }

    /// The sum of the main diagonal of a matrix; integers sum as `I64`.
    ///
    /// Invalid unless the rank is 2.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let a = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// assert_eq!(a.trace().to_vec::<f32>()?, [5.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn trace(&self) -> Tensor {
        let site = CallSite::here("trace");
        let this: &Tensor = &site.autocast(self);
        finish(trace(site, this))
    }
}

pub(crate) fn expect_rank(site: CallSite, x: &Tensor, rank: usize) -> Checked<()> {
    site.require(x.rank() == rank, &[x], || {
        (format!("a tensor of rank {rank}"), format!("rank {}", x.rank()))
    })
}

/// Fails unless the tensor is a batch of square matrices; gives their order.
pub(crate) fn expect_square(site: CallSite, x: &Tensor) -> Checked<usize> {
    let shape = x.shape();
    let square = shape.rank() >= 2 && shape[shape.rank() - 1] == shape[shape.rank() - 2];
    site.require(square, &[x], || ("square matrices".into(), format!("shape {shape}")))?;
    Ok(shape[shape.rank() - 1])
}

pub(crate) fn ranked_product(site: CallSite, a: &Tensor, b: &Tensor, rank_a: usize, rank_b: usize) -> Tensor {
    let checked = expect_rank(site, a, rank_a).and_then(|()| expect_rank(site, b, rank_b));
    finish(checked.map(|()| matmul(site, a, b)))
}

pub(crate) fn bmm(site: CallSite, a: &Tensor, b: &Tensor) -> Checked<Tensor> {
    expect_rank(site, a, 3)?;
    expect_rank(site, b, 3)?;
    Ok(site.contract(a, b, &[(0, 0)], &[(2, 1)]))
}

pub(crate) fn outer(site: CallSite, a: &Tensor, b: &Tensor) -> Checked<Tensor> {
    expect_rank(site, a, 1)?;
    expect_rank(site, b, 1)?;
    Ok(product(site, site.unsqueeze(a, 1), b))
}

/// The product of numbers, and of truth values.
pub(crate) fn product(site: CallSite, a: impl Operand, b: &Tensor) -> Tensor {
    let op = if b.dtype() == DType::Bool { AluOp::And } else { AluOp::Mul };
    site.binary(op, a, b)
}

fn tensordot(site: CallSite, a: &Tensor, b: &Tensor, axes: &TensordotAxes) -> Checked<Tensor> {
    site.valid(&[a, b])?;
    let pairs: Vec<(usize, usize)> = match axes {
        TensordotAxes::Count(count) => {
            let fits = *count <= a.rank().min(b.rank());
            site.require(fits, &[a, b], || ("at most as many axes as both have".into(), count.to_string()))?;
            (0..*count).map(|i| (a.rank() - count + i, i)).collect()
        }
        TensordotAxes::Pairs(first, second) => {
            site.require(first.len() == second.len(), &[a, b], || {
                ("as many axes of the first as of the second".into(), format!("{first:?} and {second:?}"))
            })?;
            let pair = |(&i, &j): (&i64, &i64)| Ok((site.axis(a, i)?, site.axis(b, j)?));
            first.iter().zip(second).map(pair).collect::<Checked<_>>()?
        }
    };
    tensordot_pairs(site, a, b, &pairs)
}

/// An axis of extent 1 paired with a longer one broadcasts: the longer is summed.
fn tensordot_pairs(site: CallSite, a: &Tensor, b: &Tensor, pairs: &[(usize, usize)]) -> Checked<Tensor> {
    let (sa, sb) = (a.shape(), b.shape());
    let summed = |x: &Tensor, axes: Vec<usize>| site.reduce_keepdim(crate::ir::Monoid::Sum, x, &axes);
    let lonely_a = pairs.iter().filter(|p| sb[p.1] == 1 && sa[p.0] != 1).map(|p| p.0).collect();
    let lonely_b = pairs.iter().filter(|p| sa[p.0] == 1 && sb[p.1] != 1).map(|p| p.1).collect();
    if pairs.is_empty() {
        let mut dims = sa.to_vec();
        dims.resize(sa.rank() + sb.rank(), 1);
        return Ok(site.mul(site.reshape(a, &dims), b));
    }
    Ok(site.contract(&summed(a, lonely_a), &summed(b, lonely_b), &[], pairs))
}

fn matrix_power(site: CallSite, x: &Tensor, power: i64) -> Checked<Tensor> {
    let n = expect_square(site, x)?;
    if power == 0 {
        let index = |axis| site.iota_along(n, axis, 2, DType::I64, x.device());
        let eye = site.cast(&site.eq(index(0), index(1)), x.dtype());
        return Ok(site.expand(&eye, &x.shape()));
    }
    let mut square = if power < 0 { crate::tensor::solve::inv(site, x)? } else { x.clone() };
    let mut left = power.unsigned_abs();
    let mut result: Option<Tensor> = None;
    loop {
        if left & 1 == 1 {
            result = Some(result.map_or_else(|| square.clone(), |r| matmul(site, &r, &square)));
        }
        left >>= 1;
        match result {
            Some(result) if left == 0 => return Ok(result),
            Some(_) | None => square = matmul(site, &square, &square),
        }
    }
}

fn cross(site: CallSite, a: &Tensor, b: &Tensor, axis: i64) -> Checked<Tensor> {
    site.require(a.rank() == b.rank(), &[a, b], || {
        ("tensors of one rank".into(), format!("ranks {} and {}", a.rank(), b.rank()))
    })?;
    let number = site.axis(a, axis)?;
    let (m, n) = (a.shape()[number], b.shape()[number]);
    site.require(m == 3 && n == 3, &[a, b], || (format!("extent 3 on axis {axis}"), format!("{m} and {n}")))?;
    // c[i] = a[i+1] b[i+2] - a[i+2] b[i+1], indices modulo 3.
    let rolled = |x: &Tensor, by: usize| {
        let mut dims = x.shape().to_vec();
        let index = site.binary(AluOp::Rem, site.add(site.iota(3, DType::I64, x.device()), by as i64), 3i64);
        dims[number] = 3;
        site.take(x, number, &index)
    };
    // Each product is rounded to the type, as in PyTorch: where they cancel,
    // 16-bit floats would differ.
    let product = |i, j| {
        let (a, b) = (rolled(a, i), rolled(b, j));
        let dtype = a.dtype().promote(b.dtype());
        let wide = |t: &Tensor| site.cast(t, dtype.compute());
        site.cast(&site.mul(wide(&a), wide(&b)), dtype)
    };
    Ok(site.sub(product(1, 2), product(2, 1)))
}

fn kron(site: CallSite, a: &Tensor, b: &Tensor) -> Checked<Tensor> {
    site.valid(&[a, b])?;
    let rank = a.rank().max(b.rank());
    let padded = |x: &Tensor| [vec![1; rank - x.rank()], x.shape().to_vec()].concat();
    let (da, db) = (padded(a), padded(b));
    let interleave = |dims: &[usize], first: bool| -> Vec<usize> {
        dims.iter().flat_map(|&n| if first { [n, 1] } else { [1, n] }).collect()
    };
    let (a, b) = (site.reshape(a, &interleave(&da, true)), site.reshape(b, &interleave(&db, false)));
    let dims: Vec<usize> = da.iter().zip(&db).map(|(m, n)| m * n).collect();
    Ok(site.reshape(&product(site, a, &b), &dims))
}

fn trace(site: CallSite, x: &Tensor) -> Checked<Tensor> {
    expect_rank(site, x, 2)?;
    let n = x.shape()[0].min(x.shape()[1]);
    let square = site.slice(&site.slice(x, 0, 0, n, 1), 1, 0, n, 1);
    let dtype = if x.dtype().kind() == Kind::Float { x.dtype() } else { DType::I64 };
    Ok(site.sum(&site.cast(&site.diagonal(&square, 0, 1), dtype), &[0]))
}
