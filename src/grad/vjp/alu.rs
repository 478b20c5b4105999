//! Scalar operations.

use std::f64::consts;

use crate::grad::vjp::VjpContext;
use crate::ir::AluOp;
use crate::tensor::Tensor;

/// The cotangent of operand `i`; `None` where the slope is 0 everywhere.
pub(super) fn alu(op: AluOp, p: &VjpContext, i: usize) -> Option<Tensor> {
    if !p.x[i].dtype().is_float() {
        return None;
    }
    Some(summed_to(p, slope_times(op, p, i)?, i))
}

/// An operand of rank 0 extends to the result's shape; its cotangent sums.
fn summed_to(p: &VjpContext, cotangent: Tensor, i: usize) -> Tensor {
    if p.x[i].rank() == cotangent.rank() {
        return cotangent;
    }
    let axes: Vec<usize> = (0..cotangent.rank()).collect();
    p.site.sum(&cotangent, &axes)
}

fn slope_times(op: AluOp, p: &VjpContext, i: usize) -> Option<Tensor> {
    let (s, g, y, x) = (p.site, p.g, p.y, p.x);
    let zero = || s.scalar(0.0, g.dtype(), g.device());
    let neg = |x: &Tensor| s.unary(AluOp::Neg, x);
    Some(match op {
        AluOp::Add => g.clone(),
        AluOp::Sub if i == 0 => g.clone(),
        AluOp::Sub => neg(g),
        AluOp::Mul => s.mul(g, &x[1 - i]),
        AluOp::Div if i == 0 => s.div(g, &x[1]),
        AluOp::Div => neg(&s.div(s.mul(g, y), &x[1])),
        AluOp::Rem if i == 0 => g.clone(),
        AluOp::Rem => neg(&s.mul(g, s.unary(AluOp::Trunc, &s.div(&x[0], &x[1])))),
        AluOp::Max => extreme(p, &s.lt(&x[i], &x[1 - i])),
        AluOp::Min => extreme(p, &s.lt(&x[1 - i], &x[i])),
        AluOp::Pow if i == 0 => {
            let power = s.binary(AluOp::Pow, &x[0], s.sub(&x[1], 1.0));
            // An infinite exponent times a power that is 0 has the limit 0.
            let infinite = s.eq(s.unary(AluOp::Abs, &x[1]), f64::INFINITY);
            let flat = s.binary(AluOp::Or, s.eq(&x[1], 0.0), s.and(infinite, s.eq(&power, 0.0)));
            s.select(&flat, zero(), s.mul(g, s.mul(&x[1], power)), g.dtype())
        }
        AluOp::Pow => {
            let slope = s.mul(y, s.unary(AluOp::Log, &x[0]));
            // Where the power is 0, the logarithm of 0 or infinity times it has the limit 0.
            let flat = s.binary(AluOp::Or, s.eq(y, 0.0), s.and(s.eq(&x[0], 0.0), s.eq(&x[1], 0.0)));
            s.select(&flat, zero(), s.mul(g, slope), g.dtype())
        }
        AluOp::Neg => neg(g),
        AluOp::Abs => {
            let below = s.select(&s.lt(&x[0], 0.0), neg(g), zero(), g.dtype());
            s.select(&s.lt(0.0, &x[0]), g, below, g.dtype())
        }
        AluOp::Recip => neg(&s.mul(s.mul(g, y), y)),
        AluOp::Sqrt => s.div(g, s.mul(y, 2.0)),
        AluOp::Exp2 => s.mul(s.mul(g, y), consts::LN_2),
        AluOp::Log2 => s.div(g, s.mul(&x[0], consts::LN_2)),
        AluOp::Exp => s.mul(g, y),
        AluOp::Log => s.div(g, &x[0]),
        AluOp::Sin => s.mul(g, s.unary(AluOp::Cos, &x[0])),
        AluOp::Cos => neg(&s.mul(g, s.unary(AluOp::Sin, &x[0]))),
        AluOp::Tanh => s.mul(g, s.sub(1.0, s.square(y))),
        AluOp::Erf => {
            let bell = s.unary(AluOp::Exp, &neg(&s.square(&x[0])));
            s.mul(s.mul(g, bell), consts::FRAC_2_SQRT_PI)
        }
        AluOp::Where if i == 1 => s.select(&x[0], g, zero(), g.dtype()),
        AluOp::Where if i == 2 => s.select(&x[0], zero(), g, g.dtype()),
        AluOp::Floor | AluOp::Trunc | AluOp::Round | AluOp::Lt | AluOp::Eq | AluOp::Where => return None,
        AluOp::And | AluOp::Or | AluOp::Xor | AluOp::Not | AluOp::Shl | AluOp::Shr => return None,
    })
}

/// All of it to the extreme operand, half of it where both are.
fn extreme(p: &VjpContext, loses: &Tensor) -> Tensor {
    let (s, g) = (p.site, p.g);
    let zero = s.scalar(0.0, g.dtype(), g.device());
    let wins = s.select(loses, &zero, g, g.dtype());
    s.select(&s.eq(&p.x[0], &p.x[1]), s.mul(g, 0.5), wins, g.dtype())
}
