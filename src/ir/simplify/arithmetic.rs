//! Numbers: folding, units, signs, powers.

use crate::base::{DType, Kind, Scalar};
use crate::ir::alu::AluOp;
use crate::ir::graph::{GraphNode, NodeId};
use crate::ir::monoid::Monoid;
use crate::ir::op::Op;
use crate::ir::rewrite::{GraphBuilder, RewriteRule};
use crate::ir::simplify::{alu_of, binary, instead, unary, unary_at};

pub(super) const RULES: &[RewriteRule] = &[
    RewriteRule { name: "fold numbers", exact: false, apply: fold },
    RewriteRule { name: "scalar operands need no expand", exact: true, apply: unexpand },
    RewriteRule { name: "number to the right", exact: true, apply: number_right },
    RewriteRule { name: "x + 0 = x", exact: true, apply: add_zero },
    RewriteRule { name: "x + -y = x - y", exact: true, apply: add_neg },
    RewriteRule { name: "x - 0 = x", exact: true, apply: sub_zero },
    RewriteRule { name: "x - -y = x + y", exact: true, apply: sub_neg },
    RewriteRule { name: "0 - x = -x, x - x = 0 (integers)", exact: true, apply: sub_integers },
    RewriteRule { name: "x * 1 = x, x * -1 = -x", exact: true, apply: mul_one },
    RewriteRule { name: "x * 0 = 0 (integers)", exact: true, apply: mul_zero },
    RewriteRule { name: "-x * -y = x * y, -x * c = x * -c", exact: true, apply: mul_neg },
    RewriteRule { name: "x / 1 = x, 1 / x = recip(x)", exact: true, apply: div_one },
    RewriteRule { name: "x / 2^k = x * 2^-k", exact: true, apply: div_power_of_two },
    RewriteRule { name: "--x = x", exact: true, apply: double_neg },
    RewriteRule { name: "||x|| = |x|, |-x| = |x| (signed)", exact: true, apply: abs_of_sign },
    RewriteRule { name: "max(x, x) = min(x, x) = x", exact: true, apply: extreme_of_same },
    RewriteRule { name: "(x . c) . d = x . (c . d)", exact: true, apply: reassociate },
    RewriteRule { name: "x^0 = 1, x^1 = x", exact: true, apply: pow_unit },
    RewriteRule { name: "x^2 = x * x, x^3 = x * x * x", exact: false, apply: pow_small },
    RewriteRule { name: "x^-1 = recip(x)", exact: false, apply: pow_inverse },
    RewriteRule { name: "x^0.5 = sqrt(x) (x not negative)", exact: false, apply: pow_half },
];

/// Whether `value` is the float or integer `number`, the sign of zero included.
fn is(value: Scalar, number: f64) -> bool {
    match value {
        Scalar::Float(x) => x.to_bits() == number.to_bits(),
        Scalar::Int(_) | Scalar::Bool(_) => value.as_f64() == number,
    }
}

/// A 16-bit float is folded only if that loses nothing: a kernel computes it
/// in more precision than a constant can hold.
fn fold(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let (op, operands) = alu_of(node)?;
    let values: Option<Vec<Scalar>> = operands.iter().map(|&o| b.number(o)).collect();
    let values = values?;
    let dtype = b.graph.ty(*operands.last()?).dtype;
    let folded = op.eval(dtype, &values);
    if dtype.compute() != dtype && !folded.same(op.eval(dtype.compute(), &values)) {
        return None;
    }
    Some(b.full(folded, &node.ty, node.span))
}

/// Repetitions of one number: the operation extends rank-0 operands itself,
/// and on nothing but repetitions it needs to be computed once only.
fn unexpand(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let (op, operands) = alu_of(node)?;
    if node.ty.shape.rank() == 0 {
        return None;
    }
    let scalars: Vec<Option<NodeId>> = operands.iter().map(|&o| b.uniform(o)).collect();
    let narrowed: Vec<NodeId> = operands.iter().zip(&scalars).map(|(&o, s)| s.unwrap_or(o)).collect();
    if narrowed[..] == operands[..] {
        return None;
    }
    let result = b.alu(op, &narrowed, node.span);
    instead(b, node, result)
}

fn number_right(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let (op, operands) = alu_of(node)?;
    let swap = op.commutes() && b.number(operands[0]).is_some() && b.number(operands[1]).is_none();
    swap.then(|| b.alu(op, &[operands[1], operands[0]], node.span))
}

/// For floats the unit of addition is `-0`: `-0 + +0` is `+0`.
fn add_zero(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let (x, c) = binary(node, AluOp::Add)?;
    let unit = if node.ty.dtype.is_float() { -0.0 } else { 0.0 };
    if is(b.number(c)?, unit) { instead(b, node, x) } else { None }
}

fn add_neg(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let (x, y) = binary(node, AluOp::Add)?;
    let (kept, negated) = match (unary_at(b, x, AluOp::Neg), unary_at(b, y, AluOp::Neg)) {
        (_, Some(y)) => (x, y),
        (Some(x), None) => (y, x),
        (None, None) => return None,
    };
    Some(b.alu(AluOp::Sub, &[kept, negated], node.span))
}

fn sub_zero(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let (x, c) = binary(node, AluOp::Sub)?;
    if is(b.number(c)?, 0.0) { instead(b, node, x) } else { None }
}

fn sub_neg(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let (x, y) = binary(node, AluOp::Sub)?;
    let y = unary_at(b, y, AluOp::Neg)?;
    Some(b.alu(AluOp::Add, &[x, y], node.span))
}

fn sub_integers(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let (x, y) = binary(node, AluOp::Sub)?;
    if node.ty.dtype.is_float() {
        return None;
    }
    if x == y {
        return Some(b.full(0i64, &node.ty, node.span));
    }
    let negated = b.number(x).is_some_and(|c| is(c, 0.0));
    negated.then(|| b.alu(AluOp::Neg, &[y], node.span))
}

fn mul_one(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let (x, c) = binary(node, AluOp::Mul)?;
    let c = b.number(c)?;
    if is(c, 1.0) {
        instead(b, node, x)
    } else if is(c, -1.0) {
        Some(b.alu(AluOp::Neg, &[x], node.span))
    } else {
        None
    }
}

fn mul_zero(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let (_, c) = binary(node, AluOp::Mul)?;
    let zero = node.ty.dtype.is_int() && is(b.number(c)?, 0.0);
    zero.then(|| b.full(0i64, &node.ty, node.span))
}

fn mul_neg(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let (x, y) = binary(node, AluOp::Mul)?;
    let x = unary_at(b, x, AluOp::Neg)?;
    let y = match b.number(y) {
        Some(c) => b.full(AluOp::Neg.eval(node.ty.dtype, &[c]), &b.graph.ty(y).clone(), node.span),
        None => unary_at(b, y, AluOp::Neg)?,
    };
    Some(b.alu(AluOp::Mul, &[x, y], node.span))
}

fn div_one(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let (x, y) = binary(node, AluOp::Div)?;
    if b.number(y).is_some_and(|c| is(c, 1.0)) {
        return instead(b, node, x);
    }
    let recip = node.ty.dtype.is_float() && b.number(x).is_some_and(|c| is(c, 1.0));
    recip.then(|| b.alu(AluOp::Recip, &[y], node.span))
}

/// Dividing by a power of two only changes the exponent, as multiplying by
/// its inverse does, so both round alike. The inverse must be a normal
/// number, since devices may flush others.
fn div_power_of_two(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let (x, c) = binary(node, AluOp::Div)?;
    if !node.ty.dtype.is_float() {
        return None;
    }
    let c = b.number(c)?.as_f64();
    let power = c.is_normal() && c.to_bits() & ((1 << 52) - 1) == 0;
    if !power || !normal(c, node.ty.dtype) || !normal(1.0 / c, node.ty.dtype) {
        return None;
    }
    let inverse = Op::Const(Scalar::Float(1.0 / c), node.ty.dtype, node.ty.device);
    let inverse = b.add(inverse, &[], node.span);
    Some(b.alu(AluOp::Mul, &[x, inverse], node.span))
}

/// Whether a power of two is a normal number of the type.
fn normal(x: f64, dtype: DType) -> bool {
    let least = match dtype {
        DType::F16 => -14,
        DType::F64 => -1022,
        DType::BF16 | DType::F32 | DType::Bool | DType::U8 | DType::I32 | DType::U32 | DType::I64 => -126,
    };
    (least..=-least).contains(&(x.abs().log2() as i32))
}

fn double_neg(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    unary_at(b, unary(node, AluOp::Neg)?, AluOp::Neg)
}

fn abs_of_sign(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let x = unary(node, AluOp::Abs)?;
    if unary_at(b, x, AluOp::Abs).is_some() {
        return Some(x);
    }
    // Of an unsigned integer the negative is another magnitude.
    let unsigned = matches!(node.ty.dtype, DType::U8 | DType::U32);
    let x = unary_at(b, x, AluOp::Neg).filter(|_| !unsigned)?;
    Some(b.alu(AluOp::Abs, &[x], node.span))
}

fn extreme_of_same(_: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let (x, y) = binary(node, AluOp::Max).or_else(|| binary(node, AluOp::Min))?;
    (x == y).then_some(x)
}

/// Two numbers in a chain of one associative operation meet. Sums and
/// products of floats are not associative.
fn reassociate(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let (op, operands) = alu_of(node)?;
    let associative = match op {
        AluOp::Add | AluOp::Mul => !node.ty.dtype.is_float(),
        AluOp::Max | AluOp::Min | AluOp::And | AluOp::Or | AluOp::Xor => true,
        AluOp::Sub | AluOp::Div | AluOp::Rem | AluOp::Pow | AluOp::Neg | AluOp::Abs | AluOp::Recip => false,
        AluOp::Sqrt | AluOp::Exp2 | AluOp::Log2 | AluOp::Exp | AluOp::Log | AluOp::Sin | AluOp::Cos => false,
        AluOp::Tanh | AluOp::Erf | AluOp::Floor | AluOp::Trunc | AluOp::Round | AluOp::Lt | AluOp::Eq => {
            false
        }
        AluOp::Not | AluOp::Shl | AluOp::Shr | AluOp::Where => false,
    };
    if !associative {
        return None;
    }
    let outer = operands[1];
    let (x, inner) = binary(b.graph.node(operands[0]), op)?;
    // Three numbers would go around in a circle, were they not folded.
    if b.number(x).is_some() || b.number(inner).is_none() || b.number(outer).is_none() {
        return None;
    }
    let both = b.alu(op, &[inner, outer], node.span);
    Some(b.alu(op, &[x, both], node.span))
}

/// The base and the number that is the exponent.
fn power(b: &GraphBuilder, node: &GraphNode) -> Option<(NodeId, Scalar)> {
    let (x, c) = binary(node, AluOp::Pow)?;
    Some((x, b.number(c)?))
}

fn pow_unit(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let (x, c) = power(b, node)?;
    if c.as_f64() == 0.0 {
        Some(b.full(1i64, &node.ty, node.span))
    } else if is(c, 1.0) {
        instead(b, node, x)
    } else {
        None
    }
}

fn pow_small(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let (x, c) = power(b, node)?;
    let square = (is(c, 2.0) || is(c, 3.0)).then(|| b.alu(AluOp::Mul, &[x, x], node.span))?;
    Some(if is(c, 2.0) { square } else { b.alu(AluOp::Mul, &[square, x], node.span) })
}

fn pow_inverse(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let (x, c) = power(b, node)?;
    let inverse = node.ty.dtype.is_float() && is(c, -1.0);
    inverse.then(|| b.alu(AluOp::Recip, &[x], node.span))
}

/// Of `-0` and minus infinity the power is `+0` and infinity, the root is not.
fn pow_half(b: &mut GraphBuilder, node: &GraphNode) -> Option<NodeId> {
    let (x, c) = power(b, node)?;
    let root = is(c, 0.5) && never_negative(b, x, 4);
    root.then(|| b.alu(AluOp::Sqrt, &[x], node.span))
}

/// Whether no element is negative or `-0`, looking a few nodes deep.
fn never_negative(b: &GraphBuilder, id: NodeId, depth: u32) -> bool {
    let node = b.graph.node(id);
    if depth == 0 {
        return false;
    }
    let all = || node.operands.iter().all(|&o| never_negative(b, o, depth - 1));
    if let Some((op, operands)) = alu_of(node) {
        return match op {
            AluOp::Abs | AluOp::Exp | AluOp::Exp2 => true,
            AluOp::Mul if operands[0] == operands[1] => true,
            AluOp::Add | AluOp::Mul | AluOp::Div | AluOp::Sqrt | AluOp::Recip | AluOp::Min => all(),
            AluOp::Max => operands.iter().any(|&o| never_negative(b, o, depth - 1)),
            AluOp::Where => operands[1..].iter().all(|&o| never_negative(b, o, depth - 1)),
            AluOp::Sub | AluOp::Rem | AluOp::Pow | AluOp::Neg | AluOp::Log2 | AluOp::Log => false,
            AluOp::Sin
            | AluOp::Cos
            | AluOp::Tanh
            | AluOp::Erf
            | AluOp::Floor
            | AluOp::Trunc
            | AluOp::Round => false,
            AluOp::Lt | AluOp::Eq | AluOp::And | AluOp::Or | AluOp::Xor | AluOp::Not => false,
            AluOp::Shl | AluOp::Shr => false,
        };
    }
    if let Some(value) = b.number(id) {
        return value.as_f64().is_sign_positive() && !value.as_f64().is_nan();
    }
    if let Op::Cast(_) = node.op {
        let from = b.graph.ty(node.operands[0]).dtype;
        return from.kind() == Kind::Bool || matches!(from, DType::U8 | DType::U32);
    }
    matches!(node.op, Op::Reduce(Monoid::Sum, _) | Op::Reshape(_) | Op::Expand(_)) && all()
}
