//! Decompositions of matrices (feature `linalg`), computed on the CPU: one node computes all factors of a
//! batch, and each factor is a part of its result. Gradients are closed forms of tensor operations.

mod condition;
mod eigen;
mod pseudo_inverse;
mod qr;
mod svd;

pub use pseudo_inverse::ToleranceOpts;

pub(crate) use svd::singular_norm;

use kiln_linalg::Factors;

use crate::base::{DType, DeviceKind, Result};
use crate::ir::{AluOp, Op};
use crate::runtime::cpu::decomposition::Decomposition;
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;
use crate::tensor::matmul::matmul;
use crate::tensor::rule::with_rule;

/// The factors of a batch of matrices, or cotangents of them.
struct Factored {
    work: Decomposition,
    packed: Tensor,
}

impl Factored {
    /// The factors of matrices in two axes at the end, without a gradient.
    ///
    /// # Errors
    /// Factors too large.
    fn of(site: CallSite, x: &Tensor, factors: Factors) -> Result<Factored> {
        let (rows, columns) = (x.shape()[x.rank() - 2], x.shape()[x.rank() - 1]);
        let work = Decomposition { factors, rows, columns, dtype: x.dtype() };
        let packed = site.apply(Op::Custom(work.kernel(), 0), &[x]);
        packed.check()?;
        Ok(Factored { work, packed })
    }

    /// The same factors as a function of the matrices whose gradient is `rule`: from factors and their
    /// cotangents to that of the matrices.
    fn with_gradient(
        self,
        x: &Tensor,
        rule: impl Fn(&Factored, &Factored) -> Tensor + Send + Sync + 'static,
    ) -> Factored {
        let work = self.work;
        let of = move |packed: &Tensor| Factored { work, packed: packed.clone() };
        let packed = with_rule(self.packed, &[x], move |_, packed, g| vec![Some(rule(&of(packed), &of(g)))]);
        Factored { work, packed }
    }

    /// The factor of this number.
    fn part(&self, site: CallSite, which: usize) -> Tensor {
        let (shape, last) = (self.packed.shape(), self.packed.rank() - 1);
        let range = self.work.range(which);
        let flat = site.slice(&self.packed, last, range.start, range.end, 1);
        site.reshape(&flat, &[&shape[..last], &self.work.shapes()[which][..]].concat())
    }
}

/// Fails unless `x` is a batch of matrices of `F32` or `F64` that the CPU can work on.
fn expect_matrices(site: CallSite, x: &Tensor) -> Result<()> {
    if x.rank() < 2 {
        return Err(site.error("a tensor of rank at least 2", format!("rank {}", x.rank()), &[x]));
    }
    if !matches!(x.dtype(), DType::F32 | DType::F64) {
        return Err(site.error("a tensor of f32 or f64", x.dtype().to_string(), &[x]));
    }
    if matches!(x.device().kind, DeviceKind::Wgpu | DeviceKind::Cuda) {
        let expected = "a tensor on the CPU, to which `.to(Device::cpu())` moves one";
        return Err(site.error(expected, format!("one on {}", x.device()), &[x]));
    }
    Ok(())
}

/// As [`expect_matrices`], of square ones.
fn expect_square(site: CallSite, x: &Tensor) -> Result<()> {
    expect_matrices(site, x)?;
    let shape = x.shape();
    match shape[shape.rank() - 2] == shape[shape.rank() - 1] {
        true => Ok(()),
        false => Err(site.error("square matrices", format!("shape {shape}"), &[x])),
    }
}

/// Whether gradients pass a tensor.
fn is_tracked(x: &Tensor) -> bool {
    x.peek().is_some_and(|node| node.is_tracked())
}

/// Matrix algebra on the last two axes.
trait Matrices {
    /// The matrices transposed.
    fn mt(self, x: &Tensor) -> Tensor;
    /// The product of matrices of one batch.
    fn mm(self, a: &Tensor, b: &Tensor) -> Tensor;
    /// Vectors `[.., n]` as rows, `[.., 1, n]`, to scale columns by.
    fn row(self, x: &Tensor) -> Tensor;
    /// Vectors `[.., n]` as columns, `[.., n, 1]`, to scale rows by.
    fn column(self, x: &Tensor) -> Tensor;
    /// `x / y`, and 0 where both are: what a result does not depend on has no gradient.
    fn quotient(self, x: &Tensor, y: &Tensor) -> Tensor;
    /// `x - x'`, 0 on the diagonal.
    fn skew(self, x: &Tensor) -> Tensor;
}

impl Matrices for CallSite {
    fn mt(self, x: &Tensor) -> Tensor {
        self.transpose(x, x.rank().wrapping_sub(2), x.rank().wrapping_sub(1))
    }
    fn mm(self, a: &Tensor, b: &Tensor) -> Tensor {
        matmul(self, a, b)
    }
    fn row(self, x: &Tensor) -> Tensor {
        self.unsqueeze(x, x.rank().saturating_sub(1))
    }
    fn column(self, x: &Tensor) -> Tensor {
        self.unsqueeze(x, x.rank())
    }
    fn quotient(self, x: &Tensor, y: &Tensor) -> Tensor {
        let nothing = self.binary(AluOp::And, self.eq(x, 0.0), self.eq(y, 0.0));
        self.div(x, self.select(&nothing, 1.0, y, y.dtype()))
    }
    fn skew(self, x: &Tensor) -> Tensor {
        self.sub(x, self.mt(x))
    }
}
