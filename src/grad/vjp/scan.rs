//! Scans.

use crate::base::DType;
use crate::grad::vjp::VjpContext;
use crate::ir::{AluOp, Monoid, Op, PadAxis, ScatterMode};
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;

pub(super) fn scan(p: &VjpContext, monoid: Monoid, axis: usize) -> Option<Tensor> {
    Some(match monoid {
        Monoid::Sum => from_the_end(p.site, Monoid::Sum, p.g, axis),
        Monoid::Prod => product(p, axis),
        Monoid::Max | Monoid::Min => extreme(p, axis),
        Monoid::LogSumExp => log_sum_exp(p, axis),
        Monoid::ArgMax | Monoid::ArgMin | Monoid::M2 => return None,
    })
}

fn running(s: CallSite, monoid: Monoid, x: &Tensor, axis: usize) -> Tensor {
    s.apply(Op::Scan(monoid, axis as u8), &[x])
}

/// The running combination of what is at and after each place.
fn from_the_end(s: CallSite, monoid: Monoid, x: &Tensor, axis: usize) -> Tensor {
    s.flip(&running(s, monoid, &s.flip(x, &[axis]), axis), &[axis])
}

/// The product of what is before each place.
pub(super) fn exclusive_product(s: CallSite, x: &Tensor, axis: usize) -> Tensor {
    let mut axes = vec![PadAxis::default(); x.rank()];
    axes[axis] = PadAxis { lo: 1, hi: -1, interior: 0 };
    running(s, Monoid::Prod, &s.pad(x, axes, 1.0), axis)
}

/// Without zeros, the sum of `g y` from the place on, over `x`. At the first
/// zero the products go on as if it were 1; behind it they are 0.
fn product(p: &VjpContext, axis: usize) -> Tensor {
    let (s, x) = (p.site, &p.x[0]);
    let number = |value: f64| s.scalar(value, x.dtype(), x.device());
    let is_zero = s.eq(x, 0.0);
    let zeros = running(s, Monoid::Sum, &s.cast(&is_zero, DType::I64), axis);
    let first = s.and(&is_zero, s.eq(&zeros, 1));
    let bridged = running(s, Monoid::Prod, &s.select(&first, number(1.0), x, x.dtype()), axis);
    let at_first = from_the_end(s, Monoid::Sum, &s.mul(p.g, &bridged), axis);
    let before = s.div(from_the_end(s, Monoid::Sum, &s.mul(p.g, p.y), axis), x);
    let elsewhere = s.select(&is_zero, number(0.0), before, x.dtype());
    s.select(&first, at_first, elsewhere, x.dtype())
}

/// Each cotangent goes to the last place so far where the extreme was met.
fn extreme(p: &VjpContext, axis: usize) -> Tensor {
    let (s, x) = (p.site, &p.x[0]);
    let is_nan = |x: &Tensor| s.unary(AluOp::Not, &s.eq(x, x));
    let met = s.binary(AluOp::Or, s.eq(x, p.y), s.and(is_nan(x), is_nan(p.y)));
    let places = s.iota_along(x.shape()[axis], axis, x.rank(), DType::I64, x.device());
    let places = s.expand(&places, &x.shape());
    let nowhere = s.scalar(0, DType::I64, x.device());
    let last = running(s, Monoid::Max, &s.select(&met, places, nowhere, DType::I64), axis);
    let zeros = s.zeros_like(x);
    s.apply(Op::Scatter(axis as u8, ScatterMode::Add), &[&zeros, &last, p.g])
}

/// `exp(x)` times the sum of `g exp(-y)` from the place on, positive and
/// negative cotangents apart so that their logarithms exist.
fn log_sum_exp(p: &VjpContext, axis: usize) -> Tensor {
    let (s, x) = (p.site, &p.x[0]);
    let part = |g: &Tensor| {
        let logs = s.sub(s.unary(AluOp::Log, g), p.y);
        let positive = s.lt(0.0, g);
        let lowest = s.scalar(f64::NEG_INFINITY, x.dtype(), x.device());
        let logs = s.select(&positive, logs, lowest, x.dtype());
        s.unary(AluOp::Exp, &s.add(from_the_end(s, Monoid::LogSumExp, &logs, axis), x))
    };
    s.sub(part(p.g), part(&s.unary(AluOp::Neg, p.g)))
}
