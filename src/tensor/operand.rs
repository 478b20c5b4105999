//! Operators: what can stand beside a tensor, promotion and broadcasting.

use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Rem, Shl, Shr, Sub};

use crate::base::{DType, Kind, Scalar, Shape, Span};
use crate::ir::{AluOp, Op};
use crate::tensor::Tensor;

/// The right-hand side of an operator, or any operand that may be a number.
#[derive(Clone, Debug)]
pub enum OperandValue {
    /// A tensor.
    Tensor(Tensor),
    /// A number, which takes the tensor's type unless its category is higher.
    Scalar(Scalar),
}

mod sealed {
    pub trait Sealed {}
}

/// A tensor, a reference to one, or a Rust number.
pub trait Operand: sealed::Sealed {
    /// The operand, by value.
    fn into_operand(self) -> OperandValue;
}

impl sealed::Sealed for Tensor {}
impl Operand for Tensor {
    fn into_operand(self) -> OperandValue {
        OperandValue::Tensor(self)
    }
}
impl sealed::Sealed for &Tensor {}
impl Operand for &Tensor {
    fn into_operand(self) -> OperandValue {
        OperandValue::Tensor(self.clone())
    }
}
impl sealed::Sealed for Scalar {}
impl Operand for Scalar {
    fn into_operand(self) -> OperandValue {
        OperandValue::Scalar(self)
    }
}

macro_rules! scalar_operand {
    ($($t:ty),*) => {$(
        impl sealed::Sealed for $t {}
        impl Operand for $t {
            fn into_operand(self) -> OperandValue { OperandValue::Scalar(Scalar::from(self)) }
        }
    )*};
}
scalar_operand!(f64, f32, i64, i32, u32, u8, usize, bool);

/// The common type of operands: tensors of rank 1 and more decide, rank-0
/// tensors and then numbers count only where their category is higher, as in
/// PyTorch. `None` if there is no tensor and no number.
pub(crate) fn common_dtype(operands: &[&OperandValue]) -> Option<DType> {
    let mut ranked: Option<DType> = None;
    let mut rank0: Option<DType> = None;
    let mut number: Option<DType> = None;
    for operand in operands {
        let (slot, dtype) = match operand {
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
    operands: Vec<OperandValue>,
) -> Result<Vec<Tensor>, Tensor> {
    let tensors =
        || operands.iter().filter_map(|o| if let OperandValue::Tensor(t) = o { Some(t) } else { None });
    if let Some(invalid) = tensors().find(|t| t.ty().is_none()) {
        return Err(invalid.clone());
    }
    let device = tensors().find(|t| t.rank() > 0).or_else(|| tensors().next()).map(Tensor::device);
    let device = device.unwrap_or_else(crate::tensor::place::default_device);
    let mut shape = Shape::scalar();
    for tensor in tensors() {
        let Some(common) = shape.broadcast(&tensor.shape()) else {
            let all: Vec<&Tensor> = tensors().collect();
            let found: Vec<String> = all.iter().map(|t| t.shape().to_string()).collect();
            return Err(Tensor::mistake(
                name,
                span,
                "shapes that broadcast together",
                found.join(" and "),
                &all,
            ));
        };
        shape = common;
    }
    Ok(operands
        .into_iter()
        .map(|operand| match operand {
            OperandValue::Scalar(value) => Tensor::constant(value, dtype, device, span),
            OperandValue::Tensor(tensor) => {
                let tensor = tensor.follow_device(device, span).cast_as(name, dtype, span);
                if tensor.rank() == 0 { tensor } else { tensor.expand_to(name, &shape, span) }
            }
        })
        .collect())
}

/// An elementwise operation on promoted and broadcast operands.
pub(crate) fn elementwise(name: &'static str, span: Span, op: AluOp, operands: Vec<OperandValue>) -> Tensor {
    let refs: Vec<&OperandValue> = operands.iter().collect();
    let dtype = common_dtype(&refs).unwrap_or(DType::F32);
    elementwise_as(name, span, op, dtype, operands)
}

/// An elementwise operation on operands brought to `dtype`.
pub(crate) fn elementwise_as(
    name: &'static str,
    span: Span,
    op: AluOp,
    dtype: DType,
    operands: Vec<OperandValue>,
) -> Tensor {
    match unify(name, span, dtype, operands) {
        Ok(tensors) => Tensor::apply(name, span, Op::Alu(op), &tensors.iter().collect::<Vec<_>>()),
        Err(invalid) => invalid,
    }
}

impl Tensor {
    /// A rank-0 constant on `device`; anything else as it is.
    fn follow_device(self, device: crate::base::Device, span: Span) -> Tensor {
        match self.node().map(|node| node.op().clone()) {
            Ok(Op::Const(value, dtype, from)) if from != device => {
                Tensor::constant(value, dtype, device, span)
            }
            Ok(_) | Err(_) => self,
        }
    }

    /// Cast to `dtype`, or the same node when it has that type.
    pub(crate) fn cast_as(self, name: &'static str, dtype: DType, span: Span) -> Tensor {
        match self.node().map(|node| node.op().clone()) {
            _ if self.dtype() == dtype => self,
            Ok(Op::Const(value, _, device)) => Tensor::constant(value, dtype, device, span),
            Ok(_) | Err(_) => Tensor::apply(name, span, Op::Cast(dtype), &[&self]),
        }
    }

    /// Expanded to `shape`, or the same node when it has that shape.
    pub(crate) fn expand_to(self, name: &'static str, shape: &Shape, span: Span) -> Tensor {
        if self.ty().is_some_and(|ty| ty.shape == *shape) {
            return self;
        }
        Tensor::apply(name, span, Op::Expand(shape.clone()), &[&self])
    }
}

/// Addition; on truth values, or.
pub(crate) fn add(span: Span, operands: Vec<OperandValue>) -> Tensor {
    arithmetic("add", span, AluOp::Add, Some(AluOp::Or), operands)
}

/// Subtraction; of truth values, an error as in PyTorch.
pub(crate) fn sub(span: Span, operands: Vec<OperandValue>) -> Tensor {
    arithmetic("sub", span, AluOp::Sub, None, operands)
}

/// Multiplication; on truth values, and.
pub(crate) fn mul(span: Span, operands: Vec<OperandValue>) -> Tensor {
    arithmetic("mul", span, AluOp::Mul, Some(AluOp::And), operands)
}

/// True division: integers become `F32` first.
pub(crate) fn div(span: Span, operands: Vec<OperandValue>) -> Tensor {
    let refs: Vec<&OperandValue> = operands.iter().collect();
    let dtype = common_dtype(&refs).unwrap_or(DType::F32).to_float();
    elementwise_as("div", span, AluOp::Div, dtype, operands)
}

/// Remainder with the divisor's sign (PyTorch's `%`).
pub(crate) fn remainder(span: Span, mut operands: Vec<OperandValue>) -> Tensor {
    let refs: Vec<&OperandValue> = operands.iter().collect();
    let dtype = common_dtype(&refs).unwrap_or(DType::F32);
    let divisor = operands[1].clone();
    let rem = elementwise_as("remainder", span, AluOp::Rem, dtype, std::mem::take(&mut operands));
    let both = |op: AluOp, a: &Tensor, b: OperandValue| {
        elementwise_as("remainder", span, op, dtype, vec![OperandValue::Tensor(a.clone()), b])
    };
    // A remainder of the other sign than the divisor's moves by one divisor.
    let zero = OperandValue::Scalar(Scalar::Int(0));
    let negative = both(AluOp::Lt, &rem, zero.clone());
    let divisor_negative = match divisor.clone() {
        OperandValue::Tensor(tensor) => both(AluOp::Lt, &tensor, zero.clone()),
        OperandValue::Scalar(s) => {
            Tensor::constant(Scalar::Bool(s.as_f64() < 0.0), DType::Bool, rem.device(), span)
        }
    };
    let differs = elementwise(
        "remainder",
        span,
        AluOp::Xor,
        vec![negative.into_operand(), divisor_negative.into_operand()],
    );
    let nonzero = Tensor::apply("remainder", span, Op::Alu(AluOp::Not), &[&both(AluOp::Eq, &rem, zero)]);
    let moved = both(AluOp::Add, &rem, divisor);
    let adjust =
        elementwise("remainder", span, AluOp::And, vec![differs.into_operand(), nonzero.into_operand()]);
    Tensor::select_as("remainder", span, dtype, adjust, moved, rem)
}

fn arithmetic(
    name: &'static str,
    span: Span,
    op: AluOp,
    on_bool: Option<AluOp>,
    operands: Vec<OperandValue>,
) -> Tensor {
    let refs: Vec<&OperandValue> = operands.iter().collect();
    let dtype = common_dtype(&refs).unwrap_or(DType::F32);
    let op = if dtype.kind() == Kind::Bool { on_bool.unwrap_or(op) } else { op };
    elementwise_as(name, span, op, dtype, operands)
}

impl Tensor {
    /// `condition ? yes : no`, with the values brought to `dtype`.
    pub(crate) fn select_as(
        name: &'static str,
        span: Span,
        dtype: DType,
        condition: Tensor,
        yes: impl Operand,
        no: impl Operand,
    ) -> Tensor {
        let condition = condition.cast_as(name, DType::Bool, span);
        // Broadcasting looks at all three; the type only at the values.
        let shape_of = |o: &OperandValue| match o {
            OperandValue::Tensor(t) => t.shape(),
            OperandValue::Scalar(_) => Shape::scalar(),
        };
        let (yes, no) = (yes.into_operand(), no.into_operand());
        let shape = shape_of(&yes).broadcast(&shape_of(&no)).and_then(|s| s.broadcast(&condition.shape()));
        let Some(shape) = shape else {
            let found = format!("{}, {} and {}", condition.shape(), shape_of(&yes), shape_of(&no));
            return Tensor::mistake(name, span, "shapes that broadcast together", found, &[&condition]);
        };
        let device = [&yes, &no].into_iter().find_map(|o| match o {
            OperandValue::Tensor(t) if t.rank() > 0 => Some(t.device()),
            OperandValue::Tensor(_) | OperandValue::Scalar(_) => None,
        });
        let device =
            if condition.rank() > 0 { condition.device() } else { device.unwrap_or(condition.device()) };
        let place = |o: OperandValue| match o {
            OperandValue::Scalar(value) => Tensor::constant(value, dtype, device, span),
            OperandValue::Tensor(t) => {
                let t = t.follow_device(device, span).cast_as(name, dtype, span);
                if t.rank() == 0 { t } else { t.expand_to(name, &shape, span) }
            }
        };
        let condition = condition.follow_device(device, span);
        let condition =
            if condition.rank() == 0 { condition } else { condition.expand_to(name, &shape, span) };
        Tensor::apply(name, span, Op::Alu(AluOp::Where), &[&condition, &place(yes), &place(no)])
    }
}

macro_rules! binary_operator {
    ($($(#[doc = $doc:literal])* $trait:ident $method:ident $function:expr;)*) => {$(
        impl<R: Operand> $trait<R> for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: R) -> Tensor {
                $function(Span::caller(), vec![self.into_operand(), rhs.into_operand()])
            }
        }
        impl<R: Operand> $trait<R> for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: R) -> Tensor {
                $function(Span::caller(), vec![self.into_operand(), rhs.into_operand()])
            }
        }
    )*};
}

fn bit_and(span: Span, operands: Vec<OperandValue>) -> Tensor {
    elementwise("bitwise_and", span, AluOp::And, operands)
}
fn bit_or(span: Span, operands: Vec<OperandValue>) -> Tensor {
    elementwise("bitwise_or", span, AluOp::Or, operands)
}
fn bit_xor(span: Span, operands: Vec<OperandValue>) -> Tensor {
    elementwise("bitwise_xor", span, AluOp::Xor, operands)
}
fn shift_left(span: Span, operands: Vec<OperandValue>) -> Tensor {
    elementwise("bitwise_left_shift", span, AluOp::Shl, operands)
}
fn shift_right(span: Span, operands: Vec<OperandValue>) -> Tensor {
    elementwise("bitwise_right_shift", span, AluOp::Shr, operands)
}

binary_operator! {
    Add add add;
    Sub sub sub;
    Mul mul mul;
    Div div div;
    Rem rem remainder;
    BitAnd bitand bit_and;
    BitOr bitor bit_or;
    BitXor bitxor bit_xor;
    Shl shl shift_left;
    Shr shr shift_right;
}

macro_rules! scalar_on_the_left {
    ($($t:ty: $($trait:ident $method:ident $function:ident),*;)*) => {$($(
        impl $trait<Tensor> for $t {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: Tensor) -> Tensor {
                $function(Span::caller(), vec![self.into_operand(), rhs.into_operand()])
            }
        }
        impl $trait<&Tensor> for $t {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: &Tensor) -> Tensor {
                $function(Span::caller(), vec![self.into_operand(), rhs.into_operand()])
            }
        }
    )*)*};
}

scalar_on_the_left! {
    f64: Add add add, Sub sub sub, Mul mul mul, Div div div, Rem rem remainder;
    i32: Add add add, Sub sub sub, Mul mul mul, Div div div, Rem rem remainder;
}

impl Neg for &Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        Tensor::apply("neg", Span::caller(), Op::Alu(AluOp::Neg), &[self])
    }
}
impl Neg for Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        Tensor::apply("neg", Span::caller(), Op::Alu(AluOp::Neg), &[&self])
    }
}
impl Not for &Tensor {
    type Output = Tensor;
    #[track_caller]
    fn not(self) -> Tensor {
        Tensor::apply("bitwise_not", Span::caller(), Op::Alu(AluOp::Not), &[self])
    }
}
impl Not for Tensor {
    type Output = Tensor;
    #[track_caller]
    fn not(self) -> Tensor {
        Tensor::apply("bitwise_not", Span::caller(), Op::Alu(AluOp::Not), &[&self])
    }
}
