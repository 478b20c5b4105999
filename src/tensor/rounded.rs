//! 16-bit floats rounded after every operation, where the process asks for it.
//!
//! A rounding is a cast to `F32` and back: kernels hold 16-bit values in 32 bits, and a cast is where
//! they lose the rest. No rewrite removes one of a value that was computed.

use crate::base::{DType, Float16Rounding, Span, float16_rounding};
use crate::ir::{AluOp, Monoid, Op, ScatterMode};
use crate::tensor::Tensor;
use crate::tensor::operand::{OperandList, OperandValue};

/// Whether the result of an operation, of this type, is to be rounded.
#[inline]
pub(crate) fn rounds(op: &Op, dtype: DType) -> bool {
    wanted(dtype) && inexact(op)
}

/// Whether values of this type are to be rounded after every operation.
#[inline]
pub(crate) fn wanted(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16) && float16_rounding() == Float16Rounding::EveryOperation
}

/// Whether an operation on values of a type may have results between that type's values.
fn inexact(op: &Op) -> bool {
    match op {
        Op::Alu(op) => inexact_alu(*op),
        Op::Reduce(monoid, _) | Op::Scan(monoid, _) => adds(*monoid),
        Op::Scatter(_, mode) => match mode {
            ScatterMode::Add | ScatterMode::Mul => true,
            ScatterMode::Set | ScatterMode::Max | ScatterMode::Min => false,
        },
        Op::Iota(..) | Op::Unwindow(..) | Op::Contract(_) => true,
        // What a user's does is rounded within.
        Op::Composite(composite, _) => composite.built_in.is_some(),
        Op::Const(..) | Op::Arg(..) | Op::Leaf(_) | Op::Param(..) | Op::Cast(_) | Op::Bitcast(_) => false,
        Op::Reshape(_) | Op::Permute(_) | Op::Expand(_) | Op::Pad(_) | Op::Slice(_) | Op::Flip(_) => false,
        Op::Window(_) | Op::Gather(_) | Op::Sort { .. } | Op::Copy(_) | Op::After | Op::Pack(_) => false,
        Op::Loop(..) | Op::Custom(..) | Op::Collective(_) => false,
    }
}

fn adds(monoid: Monoid) -> bool {
    match monoid {
        Monoid::Sum | Monoid::Prod | Monoid::M2 | Monoid::LogSumExp => true,
        Monoid::Max | Monoid::Min | Monoid::ArgMax | Monoid::ArgMin => false,
    }
}

fn inexact_alu(op: AluOp) -> bool {
    use AluOp::{
        Abs, Add, And, Cos, Div, Eq, Erf, Exp, Exp2, Floor, Log, Log2, Lt, Max, Min, Mul, Neg, Not, Or, Pow,
        Recip, Rem, Round, Shl, Shr, Sin, Sqrt, Sub, Tanh, Trunc, Where, Xor,
    };
    match op {
        Add | Sub | Mul | Div | Rem | Pow | Recip | Sqrt | Exp2 | Log2 | Exp | Log => true,
        Sin | Cos | Tanh | Erf => true,
        Max | Min | Neg | Abs | Floor | Trunc | Round | Where => false,
        Lt | Eq | And | Or | Xor | Not | Shl | Shr => false,
    }
}

impl Tensor {
    /// 16-bit values without what they have beyond their type.
    pub(crate) fn rounded(self, name: &'static str, span: Span) -> Tensor {
        let dtype = self.dtype();
        let wide = Tensor::apply_owned(name, span, Op::Cast(DType::F32), [self]);
        Tensor::apply_owned(name, span, Op::Cast(dtype), [wide])
    }
}

/// Operands of one elementwise operation of 16 bits, in 32, so that numbers among them keep theirs.
/// `None` where there is no number or the operation rounds nothing.
pub(crate) fn with_numbers(
    name: &'static str,
    span: Span,
    op: AluOp,
    dtype: DType,
    operands: &[OperandValue],
) -> Option<OperandList> {
    let number = |operand: &OperandValue| matches!(operand, OperandValue::Scalar(_));
    if !rounds(&Op::Alu(op), dtype) || !operands.iter().any(number) {
        return None;
    }
    let widened = operands.iter().map(|operand| match operand {
        OperandValue::Tensor(x) => {
            let x = x.clone().cast_as(name, dtype, span).cast_as(name, DType::F32, span);
            OperandValue::Tensor(x)
        }
        OperandValue::Scalar(value) => OperandValue::Scalar(*value),
    });
    Some(widened.collect())
}
