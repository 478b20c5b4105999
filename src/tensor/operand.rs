//! Operands: what can stand beside a tensor, promotion and broadcasting.

use std::borrow::Borrow;

use smallvec::SmallVec;

use crate::base::{DType, Device, Scalar, Shape, Span};
use crate::ir::{AluOp, Op, Type};
use crate::tensor::{Tensor, rounded};

/// The right-hand side of an operator, or any operand that may be a number.
#[derive(Clone, Debug)]
pub enum OperandValue {
    /// A tensor.
    Tensor(Tensor),
    /// A number, which takes the tensor's type unless its category is higher.
    Scalar(Scalar),
}

impl OperandValue {
    /// A tensor's device.
    pub(crate) fn device(&self) -> Option<Device> {
        match self {
            OperandValue::Tensor(tensor) => tensor.ty().map(|ty| ty.device),
            OperandValue::Scalar(_) => None,
        }
    }
}

mod sealed {
    pub trait SealedOperand {}
}

/// A tensor, a reference to one, or a Rust number.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// let x = Tensor::from([1.0f32, 2.0]);
/// assert_eq!(x.pow(2).to_vec::<f32>()?, [1.0, 4.0]);
/// assert_eq!(x.pow(&x).to_vec::<f32>()?, [1.0, 4.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
pub trait Operand: sealed::SealedOperand {
    /// The operand, by value.
    fn into_operand(self) -> OperandValue;
}

impl sealed::SealedOperand for Tensor {}
impl Operand for Tensor {
    fn into_operand(self) -> OperandValue {
        OperandValue::Tensor(self)
    }
}
impl sealed::SealedOperand for &Tensor {}
impl Operand for &Tensor {
    fn into_operand(self) -> OperandValue {
        OperandValue::Tensor(self.clone())
    }
}
impl sealed::SealedOperand for OperandValue {}
impl Operand for OperandValue {
    fn into_operand(self) -> OperandValue {
        self
    }
}
impl sealed::SealedOperand for Scalar {}
impl Operand for Scalar {
    fn into_operand(self) -> OperandValue {
        OperandValue::Scalar(self)
    }
}

macro_rules! scalar_operand {
    ($($t:ty),*) => {$(
        impl sealed::SealedOperand for $t {}
        impl Operand for $t {
            fn into_operand(self) -> OperandValue { OperandValue::Scalar(Scalar::from(self)) }
        }
    )*};
}
scalar_operand!(f64, f32, i64, i32, u32, u8, usize, bool);

/// The operands of one elementwise operation.
pub(crate) type OperandList = SmallVec<[OperandValue; 3]>;

/// The common type of operands: tensors of rank 1 and more decide, rank-0
/// tensors and then numbers count only where their category is higher, as in
/// PyTorch. `None` if there is no tensor and no number.
pub(crate) fn common_dtype<O: Borrow<OperandValue>>(operands: &[O]) -> Option<DType> {
    one_dtype(operands).or_else(|| promoted_dtype(operands))
}

/// The type of operands that all are tensors of it, as mostly.
fn one_dtype<O: Borrow<OperandValue>>(operands: &[O]) -> Option<DType> {
    let mut dtypes = operands.iter().map(|operand| match operand.borrow() {
        OperandValue::Tensor(tensor) => Some(tensor.dtype()),
        OperandValue::Scalar(_) => None,
    });
    let first = dtypes.next()??;
    dtypes.all(|dtype| dtype == Some(first)).then_some(first)
}

fn promoted_dtype<O: Borrow<OperandValue>>(operands: &[O]) -> Option<DType> {
    let mut ranked: Option<DType> = None;
    let mut rank0: Option<DType> = None;
    let mut number: Option<DType> = None;
    for operand in operands {
        let (slot, dtype) = match operand.borrow() {
            OperandValue::Tensor(tensor) if tensor.rank() > 0 => (&mut ranked, tensor.dtype()),
            OperandValue::Tensor(tensor) => (&mut rank0, tensor.dtype()),
            OperandValue::Scalar(scalar) => (&mut number, scalar.default_dtype()),
        };
        *slot = Some(slot.map_or(dtype, |d| d.promote(dtype)));
    }
    let join = |high: Option<DType>, low: Option<DType>| match (high, low) {
        (Some(h), Some(l)) if l.kind() > h.kind() => Some(l),
        (Some(h), _) => Some(h),
        (None, l) => l,
    };
    join(ranked, join(rank0, number))
}

/// Operands brought to one type, one device and one shape.
///
/// Numbers and rank-0 constants follow the device of the first tensor with
/// axes. Rank-0 operands stay rank 0: ALU primitives extend them.
pub(crate) fn unify(
    name: &'static str,
    span: Span,
    dtype: DType,
    operands: impl IntoIterator<Item = OperandValue>,
) -> Result<SmallVec<[Tensor; 3]>, Tensor> {
    let operands: OperandList = operands.into_iter().collect();
    let common = common_place(name, span, &operands)?;
    Ok(operands.into_iter().map(|operand| settle(name, span, dtype, &common, operand)).collect())
}

/// Where an elementwise operation takes place, and the shape to expand to if
/// the operands with axes differ.
struct Common {
    device: Device,
    shape: Option<Shape>,
}

fn common_place(name: &'static str, span: Span, operands: &[OperandValue]) -> Result<Common, Tensor> {
    let (mut first, mut ranked): (Option<Device>, Option<&Type>) = (None, None);
    let mut shape: Option<Shape> = None;
    for operand in operands {
        let OperandValue::Tensor(tensor) = operand else { continue };
        let Some(ty) = tensor.ty() else { return Err(tensor.clone()) };
        first = first.or(Some(ty.device));
        let Some(known) = ranked else {
            ranked = (ty.shape.rank() > 0).then_some(ty);
            continue;
        };
        let known = shape.as_ref().unwrap_or(&known.shape);
        if ty.shape.rank() > 0 && ty.shape != *known {
            shape = Some(known.broadcast(&ty.shape).ok_or_else(|| no_broadcast(name, span, operands))?);
        }
    }
    let device = ranked.map(|ty| ty.device).or(first);
    Ok(Common { device: device.unwrap_or_else(crate::tensor::place::default_device), shape })
}

fn no_broadcast(name: &'static str, span: Span, operands: &[OperandValue]) -> Tensor {
    let all = operands.iter().filter_map(|o| if let OperandValue::Tensor(t) = o { Some(t) } else { None });
    let all: Vec<&Tensor> = all.collect();
    let found: Vec<String> = all.iter().map(|t| t.shape().to_string()).collect();
    Tensor::invalid_at(name, span, "shapes that broadcast together", found.join(" and "), &all)
}

fn settle(name: &'static str, span: Span, dtype: DType, common: &Common, operand: OperandValue) -> Tensor {
    match operand {
        OperandValue::Scalar(value) => Tensor::constant(value, dtype, common.device, span),
        OperandValue::Tensor(tensor) => {
            let tensor = tensor.follow_device(common.device, span).cast_as(name, dtype, span);
            match &common.shape {
                Some(shape) if tensor.rank() > 0 => tensor.expand_to(name, shape, span),
                Some(_) | None => tensor,
            }
        }
    }
}

/// An elementwise operation on promoted and broadcast operands.
pub(crate) fn elementwise(
    name: &'static str,
    span: Span,
    op: AluOp,
    operands: impl IntoIterator<Item = OperandValue>,
) -> Tensor {
    let operands: OperandList = operands.into_iter().collect();
    let dtype = common_dtype(&operands).unwrap_or(DType::F32);
    elementwise_as(name, span, op, dtype, operands)
}

/// An elementwise operation on operands brought to `dtype`.
pub(crate) fn elementwise_as(
    name: &'static str,
    span: Span,
    op: AluOp,
    dtype: DType,
    operands: impl IntoIterator<Item = OperandValue>,
) -> Tensor {
    let operands: OperandList = operands.into_iter().collect();
    if let Some(wide) = rounded::with_numbers(name, span, op, dtype, &operands) {
        return elementwise_as(name, span, op, DType::F32, wide).cast_as(name, dtype, span);
    }
    match unify(name, span, dtype, operands) {
        Ok(tensors) => Tensor::apply_owned(name, span, Op::Alu(op), tensors),
        Err(invalid) => invalid,
    }
}

impl Tensor {
    /// A rank-0 constant on `device`; anything else as it is.
    fn follow_device(self, device: Device, span: Span) -> Tensor {
        if self.device() == device {
            return self;
        }
        match self.constant_value() {
            Some(value) => Tensor::constant(value, self.dtype(), device, span),
            None => self,
        }
    }

    /// The value of a rank-0 constant.
    pub(crate) fn constant_value(&self) -> Option<Scalar> {
        match self.node().map(|node| node.op()) {
            Ok(Op::Const(value, ..)) => Some(*value),
            Ok(_) | Err(_) => None,
        }
    }

    /// Cast to `dtype`, or the same node when it has that type.
    pub(crate) fn cast_as(self, name: &'static str, dtype: DType, span: Span) -> Tensor {
        if self.dtype() == dtype {
            return self;
        }
        match self.constant_value() {
            Some(value) => Tensor::constant(value, dtype, self.device(), span),
            None => Tensor::apply_owned(name, span, Op::Cast(dtype), [self]),
        }
    }

    /// Expanded to `shape`, or the same node when it has that shape.
    pub(crate) fn expand_to(self, name: &'static str, shape: &Shape, span: Span) -> Tensor {
        if self.ty().is_some_and(|ty| ty.shape == *shape) {
            return self;
        }
        Tensor::apply_owned(name, span, Op::expand(shape), [self])
    }

    /// `condition ? yes : no`, with the values brought to `dtype`.
    pub(crate) fn select_as(
        name: &'static str,
        span: Span,
        dtype: DType,
        condition: Tensor,
        yes: impl Operand,
        no: impl Operand,
    ) -> Tensor {
        let condition = OperandValue::Tensor(condition.cast_as(name, DType::Bool, span));
        let [yes, no] = [yes.into_operand(), no.into_operand()];
        let operands = [condition, yes, no];
        let common = match common_place(name, span, &operands) {
            Ok(common) => common,
            Err(invalid) => return invalid,
        };
        let [condition, yes, no] = operands;
        let condition = settle(name, span, DType::Bool, &common, condition);
        let [yes, no] = [yes, no].map(|operand| settle(name, span, dtype, &common, operand));
        Tensor::apply_owned(name, span, Op::Alu(AluOp::Where), [condition, yes, no])
    }
}
