//! Composing primitives inside an operation: each records the operation's
//! own name and the user's line, so that an error speaks of `conv2d`, not of
//! the `pad` inside it.

use crate::base::{DType, Device, Precision, Scalar, Shape, Span, float32_matmul_precision};
use crate::ir::op::WindowAxis;
use crate::ir::{AluOp, ContractDims, Monoid, Op, PadAxis, SliceAxis};
use crate::tensor::operand::{self, Operand};
use crate::tensor::{Tensor, axis, reduce};

/// What the user called, and where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallSite {
    pub name: &'static str,
    pub span: Span,
}

/// A check of arguments: the tensor to return when it fails.
pub(crate) type Checked<T> = Result<T, Tensor>;

/// The tensor that a body made, or the error that ended it early.
pub(crate) fn finish(result: Checked<Tensor>) -> Tensor {
    result.unwrap_or_else(|invalid| invalid)
}

impl CallSite {
    /// The caller's line under the name of the operation called.
    #[track_caller]
    pub fn here(name: &'static str) -> CallSite {
        CallSite { name, span: Span::caller() }
    }

    /// The tensor that records an error in the arguments.
    pub fn invalid(
        self,
        expected: impl Into<String>,
        found: impl Into<String>,
        operands: &[&Tensor],
    ) -> Tensor {
        Tensor::invalid_at(self.name, self.span, expected, found, operands)
    }

    /// Fails unless `holds`; the texts are made only then.
    pub fn require(
        self,
        holds: bool,
        operands: &[&Tensor],
        texts: impl FnOnce() -> (String, String),
    ) -> Checked<()> {
        if holds {
            return self.valid(operands);
        }
        let (expected, found) = texts();
        Err(self.invalid(expected, found, operands))
    }

    /// Fails with the first invalid operand, whose shape means nothing.
    pub fn valid(self, operands: &[&Tensor]) -> Checked<()> {
        match operands.iter().find(|operand| operand.ty().is_none()) {
            Some(invalid) => Err((*invalid).clone()),
            None => Ok(()),
        }
    }

    /// The number of the axis named, counted from the end when negative.
    pub fn axis(self, x: &Tensor, number: i64) -> Checked<usize> {
        self.valid(&[x])?;
        axis::resolve(self.name, self.span, number, &x.shape()).map_err(Tensor::invalid)
    }

    /// Applies a primitive.
    pub fn apply(self, op: Op, operands: &[&Tensor]) -> Tensor {
        Tensor::apply(self.name, self.span, op, operands)
    }
}

/// Sources and elementwise arithmetic.
impl CallSite {
    /// A rank-0 constant beside `like`.
    pub fn scalar(self, value: impl Into<Scalar>, dtype: DType, device: Device) -> Tensor {
        Tensor::constant(value.into(), dtype, device, self.span)
    }
    /// A rank-0 number that is no part of the plan: another one is another
    /// argument, never another kernel.
    pub fn argument(self, value: impl Into<Scalar>, dtype: DType, device: Device) -> Tensor {
        self.apply(Op::Arg(value.into().cast(dtype), dtype, device), &[])
    }
    /// Zeros of the shape and type of another.
    pub fn zeros_like(self, x: &Tensor) -> Tensor {
        self.expand(&self.scalar(0.0, x.dtype(), x.device()), &x.shape())
    }
    /// `0, 1, 2, ...`
    pub fn iota(self, extent: usize, dtype: DType, device: Device) -> Tensor {
        self.apply(Op::Iota(extent, dtype, device), &[])
    }
    /// `0, 1, 2, ...` along one axis of a tensor of rank `rank`, of extent 1 elsewhere.
    pub fn iota_along(self, extent: usize, axis: usize, rank: usize, dtype: DType, device: Device) -> Tensor {
        let mut dims = vec![1; rank];
        dims[axis] = extent;
        self.reshape(&self.iota(extent, dtype, device), &dims)
    }
    /// Converted by value; the same node when nothing changes.
    pub fn cast(self, x: &Tensor, dtype: DType) -> Tensor {
        x.clone().cast_as(self.name, dtype, self.span)
    }
    /// An operation of one operand.
    pub fn unary(self, op: AluOp, x: &Tensor) -> Tensor {
        self.apply(Op::Alu(op), &[x])
    }
    /// An operation of two operands, promoted and broadcast.
    pub fn binary(self, op: AluOp, a: impl Operand, b: impl Operand) -> Tensor {
        operand::elementwise(self.name, self.span, op, [a.into_operand(), b.into_operand()])
    }
    /// Sum.
    pub fn add(self, a: impl Operand, b: impl Operand) -> Tensor {
        self.binary(AluOp::Add, a, b)
    }
    /// Difference.
    pub fn sub(self, a: impl Operand, b: impl Operand) -> Tensor {
        self.binary(AluOp::Sub, a, b)
    }
    /// Product.
    pub fn mul(self, a: impl Operand, b: impl Operand) -> Tensor {
        self.binary(AluOp::Mul, a, b)
    }
    /// Quotient; of integers, truncated.
    pub fn div(self, a: impl Operand, b: impl Operand) -> Tensor {
        self.binary(AluOp::Div, a, b)
    }
    /// The larger.
    pub fn max(self, a: impl Operand, b: impl Operand) -> Tensor {
        self.binary(AluOp::Max, a, b)
    }
    /// The smaller.
    pub fn min(self, a: impl Operand, b: impl Operand) -> Tensor {
        self.binary(AluOp::Min, a, b)
    }
    /// Whether the first is below the second.
    pub fn lt(self, a: impl Operand, b: impl Operand) -> Tensor {
        self.binary(AluOp::Lt, a, b)
    }
    /// Whether the two are equal.
    pub fn eq(self, a: impl Operand, b: impl Operand) -> Tensor {
        self.binary(AluOp::Eq, a, b)
    }
    /// Both (of truth values or bits).
    pub fn and(self, a: impl Operand, b: impl Operand) -> Tensor {
        self.binary(AluOp::And, a, b)
    }
    /// `condition ? yes : no`, in `yes`'s type.
    pub fn select(self, condition: &Tensor, yes: impl Operand, no: impl Operand, dtype: DType) -> Tensor {
        Tensor::select_as(self.name, self.span, dtype, condition.clone(), yes, no)
    }
    /// One over the square root.
    pub fn rsqrt(self, x: &Tensor) -> Tensor {
        self.unary(AluOp::Recip, &self.unary(AluOp::Sqrt, x))
    }
    /// The square.
    pub fn square(self, x: &Tensor) -> Tensor {
        self.apply(Op::Alu(AluOp::Mul), &[x, x])
    }
}

/// Movement. Helpers that look at an operand's axes hand an invalid one on,
/// which has none.
impl CallSite {
    /// The same elements under another shape; the same node when it has it.
    pub fn reshape(self, x: &Tensor, dims: &[usize]) -> Tensor {
        if x.ty().is_some_and(|ty| ty.shape[..] == *dims) {
            return x.clone();
        }
        self.apply(Op::reshape(dims), &[x])
    }
    /// Axes reordered; the same node when the order is the present one.
    pub fn permute(self, x: &Tensor, order: &[usize]) -> Tensor {
        if order.iter().enumerate().all(|(i, &axis)| i == axis) {
            return x.clone();
        }
        self.apply(Op::Permute(order.iter().map(|&axis| axis as u8).collect()), &[x])
    }
    /// Two axes exchanged.
    pub fn transpose(self, x: &Tensor, a: usize, b: usize) -> Tensor {
        if x.ty().is_none() {
            return x.clone();
        }
        let mut order: Vec<usize> = (0..x.rank()).collect();
        order.swap(a, b);
        self.permute(x, &order)
    }
    /// Broadcast to a shape.
    pub fn expand(self, x: &Tensor, dims: &[usize]) -> Tensor {
        x.clone().expand_to(self.name, &Shape::new(dims), self.span)
    }
    /// A new axis of extent 1.
    pub fn unsqueeze(self, x: &Tensor, axis: usize) -> Tensor {
        if x.ty().is_none() {
            return x.clone();
        }
        let mut dims = x.shape().to_vec();
        dims.insert(axis, 1);
        self.reshape(x, &dims)
    }
    /// An axis of extent 1 removed.
    pub fn squeeze(self, x: &Tensor, axis: usize) -> Tensor {
        if x.ty().is_none() {
            return x.clone();
        }
        let mut dims = x.shape().to_vec();
        dims.remove(axis);
        self.reshape(x, &dims)
    }
    /// Padded with `fill`, one entry per axis; the same node when nothing is
    /// added or cropped.
    pub fn pad(self, x: &Tensor, axes: Vec<PadAxis>, fill: impl Into<Scalar>) -> Tensor {
        let untouched = |(axis, &extent): (&PadAxis, &usize)| {
            (axis.lo, axis.hi) == (0, 0) && (axis.interior == 0 || extent < 2)
        };
        if axes.iter().zip(x.shape().iter()).all(untouched) {
            return x.clone();
        }
        let fill = self.scalar(fill, x.dtype(), x.device());
        self.apply(Op::Pad(axes.into_boxed_slice()), &[x, &fill])
    }
    /// A range of one axis; the same node when it is all of it.
    pub fn slice(self, x: &Tensor, axis: usize, start: usize, stop: usize, step: usize) -> Tensor {
        if x.ty().is_some_and(|ty| ty.shape.get(axis) == Some(&stop)) && (start, step) == (0, 1) {
            return x.clone();
        }
        let mut axes: Vec<SliceAxis> =
            x.shape().iter().map(|&stop| SliceAxis { start: 0, stop, step: 1 }).collect();
        if let Some(entry) = axes.get_mut(axis) {
            *entry = SliceAxis { start, stop, step };
        }
        self.apply(Op::Slice(axes.into_boxed_slice()), &[x])
    }
    /// One position of an axis, which disappears.
    pub fn select_index(self, x: &Tensor, axis: usize, index: usize) -> Tensor {
        self.squeeze(&self.slice(x, axis, index, index + 1, 1), axis)
    }
    /// Axes reversed; the same node when there are none.
    pub fn flip(self, x: &Tensor, axes: &[usize]) -> Tensor {
        if axes.is_empty() {
            return x.clone();
        }
        self.apply(Op::Flip(axes.iter().map(|&axis| axis as u8).collect()), &[x])
    }
    /// Sliding windows, their elements on a new last axis.
    pub fn window(self, x: &Tensor, window: WindowAxis) -> Tensor {
        self.apply(Op::window(window), &[x])
    }
    /// Windows summed back onto an axis of `extent`.
    pub fn unwindow(self, x: &Tensor, window: WindowAxis, extent: usize) -> Tensor {
        self.apply(Op::unwindow(window, extent), &[x])
    }
    /// The diagonal of two axes of one extent, as a new last axis.
    pub fn diagonal(self, x: &Tensor, a: usize, b: usize) -> Tensor {
        if x.ty().is_none() {
            return x.clone();
        }
        let shape = x.shape();
        let mut order: Vec<usize> = (0..x.rank()).filter(|&i| i != a && i != b).collect();
        let mut dims: Vec<usize> = order.iter().map(|&i| shape[i]).collect();
        let n = shape[a];
        order.extend([a, b]);
        dims.push(n * n);
        let flat = self.reshape(&self.permute(x, &order), &dims);
        self.slice(&flat, dims.len() - 1, 0, n * n, n + 1)
    }
}

/// Reductions and structured operations.
impl CallSite {
    /// Axes combined and removed.
    pub fn reduce(self, monoid: Monoid, x: &Tensor, axes: &[usize]) -> Tensor {
        if axes.is_empty() && !matches!(monoid, Monoid::ArgMax | Monoid::ArgMin) {
            return x.clone();
        }
        self.apply(Op::Reduce(monoid, axes.iter().map(|&axis| axis as u8).collect()), &[x])
    }
    /// Axes combined and kept with extent 1.
    pub fn reduce_keepdim(self, monoid: Monoid, x: &Tensor, axes: &[usize]) -> Tensor {
        let dims: Vec<usize> =
            x.shape().iter().enumerate().map(|(i, &n)| if axes.contains(&i) { 1 } else { n }).collect();
        self.reshape(&self.reduce(monoid, x, axes), &dims)
    }
    /// Sum over axes, which disappear.
    pub fn sum(self, x: &Tensor, axes: &[usize]) -> Tensor {
        self.reduce(Monoid::Sum, x, axes)
    }
    /// Mean over axes, which stay with extent 1; of no elements, NaN.
    pub fn mean_keepdim(self, x: &Tensor, axes: &[usize]) -> Tensor {
        if x.ty().is_none() {
            return x.clone();
        }
        let count = reduce::count(x, axes);
        self.div(self.reduce_keepdim(Monoid::Sum, x, axes), count as f64)
    }
    /// A batched contraction.
    pub fn contract(
        self,
        a: &Tensor,
        b: &Tensor,
        batch: &[(usize, usize)],
        contract: &[(usize, usize)],
    ) -> Tensor {
        self.contract_as(a, b, batch, contract, precision(a.dtype()))
    }
    /// A batched contraction that is so exact whatever the process wants.
    pub fn contract_as(
        self,
        a: &Tensor,
        b: &Tensor,
        batch: &[(usize, usize)],
        contract: &[(usize, usize)],
        precision: Precision,
    ) -> Tensor {
        let narrow = |&(i, j): &(usize, usize)| (i as u8, j as u8);
        let dims = ContractDims {
            batch: batch.iter().map(narrow).collect(),
            contract: contract.iter().map(narrow).collect(),
            precision,
        };
        self.apply(Op::Contract(Box::new(dims)), &[a, b])
    }
    /// Elements along an axis at the positions a rank-1 `index` gives, the
    /// same for all other coordinates.
    pub fn take(self, x: &Tensor, axis: usize, index: &Tensor) -> Tensor {
        if x.ty().is_none() {
            return x.clone();
        }
        let mut dims = x.shape().to_vec();
        let mut along = vec![1; dims.len()];
        (dims[axis], along[axis]) = (index.numel(), index.numel());
        self.gather(x, axis, &self.expand(&self.reshape(index, &along), &dims))
    }
    /// Elements along an axis at the positions `index` gives.
    pub fn gather(self, x: &Tensor, axis: usize, index: &Tensor) -> Tensor {
        self.apply(Op::Gather(axis as u8), &[x, &self.cast(index, DType::I64)])
    }
}

/// How exactly values of a type are multiplied, as the process wants it.
pub fn precision(dtype: DType) -> Precision {
    let requested = float32_matmul_precision();
    if dtype == DType::F32 { requested } else { requested.min(Precision::Highest) }
}
