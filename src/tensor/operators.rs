//! The operators `+ - * / % & | ^ << >> ! -` between tensors and numbers.

use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Rem, Shl, Shr, Sub};

use crate::base::{DType, Span};
use crate::ir::{AluOp, Op};
use crate::tensor::compose::CallSite;
use crate::tensor::operand::{Operand, OperandValue, common_dtype, elementwise, elementwise_as};
use crate::tensor::term::{floor_remainder, formula};
use crate::tensor::{Tensor, rounded};

/// The two operands of an operator.
type OperandPair = [OperandValue; 2];

/// Addition; on truth values, or.
pub(crate) fn add(span: Span, operands: OperandPair) -> Tensor {
    arithmetic("add", span, AluOp::Add, Some(AluOp::Or), operands)
}

/// Subtraction; of truth values, an error as in PyTorch.
pub(crate) fn sub(span: Span, operands: OperandPair) -> Tensor {
    arithmetic("sub", span, AluOp::Sub, None, operands)
}

/// Multiplication; on truth values, and.
pub(crate) fn mul(span: Span, operands: OperandPair) -> Tensor {
    arithmetic("mul", span, AluOp::Mul, Some(AluOp::And), operands)
}

/// True division: integers become `F32` first.
pub(crate) fn div(span: Span, operands: OperandPair) -> Tensor {
    binary("div", span, |dtype| (AluOp::Div, dtype.to_float()), operands)
}

/// Remainder with the divisor's sign (PyTorch's `%`); an integer by 0 is 0.
pub(crate) fn remainder(span: Span, operands: OperandPair) -> Tensor {
    formula(CallSite { name: "remainder", span }, operands, |[a, b]| floor_remainder(&a, &b))
}

fn arithmetic(
    name: &'static str,
    span: Span,
    op: AluOp,
    on_bool: Option<AluOp>,
    operands: OperandPair,
) -> Tensor {
    let on = |dtype| if dtype == DType::Bool { on_bool.unwrap_or(op) } else { op };
    binary(name, span, |dtype| (on(dtype), dtype), operands)
}

/// [`elementwise_as`] of two operands, with the common cases first: nothing
/// to convert, or one plain number. From the operands' common type `computed` says
/// what is done, and on which type.
#[inline]
fn binary(
    name: &'static str,
    span: Span,
    computed: impl Fn(DType) -> (AluOp, DType),
    operands: OperandPair,
) -> Tensor {
    let operands = match operands {
        [OperandValue::Tensor(a), OperandValue::Tensor(b)] if a.ty().is_some() && a.ty() == b.ty() => {
            let (op, dtype) = computed(a.dtype());
            if dtype == a.dtype() {
                return Tensor::apply_alike(name, span, op, [a, b]);
            }
            [OperandValue::Tensor(a), OperandValue::Tensor(b)]
        }
        operands => operands,
    };
    let (op, dtype) = computed(common_dtype(&operands).unwrap_or(DType::F32));
    let number = |value, like: &Tensor| Tensor::constant(value, dtype, like.device(), span);
    let pair = match operands {
        operands if rounded::wanted(dtype) => return elementwise_as(name, span, op, dtype, operands),
        [OperandValue::Tensor(a), OperandValue::Scalar(b)] if a.dtype() == dtype => {
            let b = number(b, &a);
            [a, b]
        }
        [OperandValue::Scalar(a), OperandValue::Tensor(b)] if b.dtype() == dtype => [number(a, &b), b],
        operands => return elementwise_as(name, span, op, dtype, operands),
    };
    Tensor::apply_alike(name, span, op, pair)
}

macro_rules! binary_operator {
    ($($(#[doc = $doc:literal])* $trait:ident $method:ident $function:expr;)*) => {$(
        impl<R: Operand> $trait<R> for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: R) -> Tensor {
                $function(Span::caller(), [self.into_operand(), rhs.into_operand()])
            }
        }
        impl<R: Operand> $trait<R> for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: R) -> Tensor {
                $function(Span::caller(), [self.into_operand(), rhs.into_operand()])
            }
        }
    )*};
}

fn bit_and(span: Span, operands: OperandPair) -> Tensor {
    elementwise("bitwise_and", span, AluOp::And, operands)
}
fn bit_or(span: Span, operands: OperandPair) -> Tensor {
    elementwise("bitwise_or", span, AluOp::Or, operands)
}
fn bit_xor(span: Span, operands: OperandPair) -> Tensor {
    elementwise("bitwise_xor", span, AluOp::Xor, operands)
}
fn shift_left(span: Span, operands: OperandPair) -> Tensor {
    elementwise("bitwise_left_shift", span, AluOp::Shl, operands)
}
fn shift_right(span: Span, operands: OperandPair) -> Tensor {
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
                $function(Span::caller(), [self.into_operand(), rhs.into_operand()])
            }
        }
        impl $trait<&Tensor> for $t {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: &Tensor) -> Tensor {
                $function(Span::caller(), [self.into_operand(), rhs.into_operand()])
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Device;

    /// Operands of one type go another way than those of several.
    #[test]
    fn operators_take_and_give_the_types_that_they_do_in_pytorch() {
        let of = |values: [i32; 2], dtype| Tensor::from_slice(&values, [2], ()).to_dtype(dtype);
        let pair = |dtype| (of([7, 0], dtype), of([2, 1], dtype));
        let (a, b) = pair(DType::I32);
        assert_eq!((&a / &b).to_vec::<f32>().unwrap(), [3.5, 0.0]);
        assert_eq!((&a / b.to_dtype(DType::I64)).dtype(), DType::F32);
        assert_eq!((&a - &b).to_vec::<i32>().unwrap(), [5, -1]);
        let (a, b) = pair(DType::F16);
        assert_eq!((&a / &b).dtype(), DType::F16);
        let (a, b) = pair(DType::Bool);
        assert_eq!((&a + &b).to_vec::<bool>().unwrap(), [true, true]);
        assert_eq!((&a * &b).to_vec::<bool>().unwrap(), [true, false]);
        assert!((&a - &b).check().is_err());
        let apart = Tensor::ones([2], Device::meta());
        assert!((&apart + Tensor::ones([2], ())).check().is_err());
    }

    #[test]
    fn a_number_on_either_side_leaves_the_shape() {
        let x = Tensor::ones([2, 3], ());
        assert_eq!((2.0 - &x).shape(), x.shape());
        assert_eq!((&x - 2.0).shape(), x.shape());
    }
}
