//! Gather and scatter.

use crate::grad::vjp::VjpContext;
use crate::ir::{Op, ScatterMode};
use crate::tensor::Tensor;

/// Each element's cotangent goes back to where it was taken, summing.
pub(super) fn gather(p: &VjpContext, axis: usize) -> Tensor {
    let zeros = p.site.zeros_like(&p.x[0]);
    p.site.apply(Op::Scatter(axis as u8, ScatterMode::Add), &[&zeros, &p.x[1], p.g])
}

/// Operands: the base, the indices, the updates.
pub(super) fn scatter(p: &VjpContext, axis: usize, mode: ScatterMode, i: usize) -> Option<Tensor> {
    let (s, base, index, updates) = (p.site, &p.x[0], &p.x[1], &p.x[2]);
    let scattered =
        |mode, base: &Tensor, with: &Tensor| s.apply(Op::Scatter(axis as u8, mode), &[base, index, with]);
    let taken = |x: &Tensor| s.gather(x, axis, index);
    let zero = s.scalar(0.0, p.g.dtype(), p.g.device());
    Some(match (mode, i) {
        (_, 1) => return None,
        (ScatterMode::Set, 0) => scattered(ScatterMode::Set, p.g, &p.site.zeros_like(updates)),
        (ScatterMode::Set | ScatterMode::Add, 2) => taken(p.g),
        (ScatterMode::Add, _) => p.g.clone(),
        (ScatterMode::Mul, 0) => scattered(ScatterMode::Mul, p.g, updates),
        (ScatterMode::Mul, _) => {
            // The product of everything else at the place: zeros count apart.
            let is_zero = s.eq(updates, 0.0);
            let one = s.scalar(1.0, updates.dtype(), updates.device());
            let others = s.select(&is_zero, &one, updates, updates.dtype());
            let product = scattered(ScatterMode::Mul, base, &others);
            let zeros = s.cast(&is_zero, updates.dtype());
            let count = scattered(ScatterMode::Add, &p.site.zeros_like(base), &zeros);
            let left = s.sub(taken(&count), &zeros);
            let slope = s.select(&s.eq(&left, 0.0), s.div(taken(&product), &others), &zero, updates.dtype());
            s.mul(taken(p.g), slope)
        }
        (ScatterMode::Max | ScatterMode::Min, _) => {
            let own = s.cast(&s.eq(base, p.y), base.dtype());
            let given = s.cast(&s.eq(updates, taken(p.y)), updates.dtype());
            let count = scattered(ScatterMode::Add, &own, &given);
            let share = s.div(p.g, &count);
            if i == 0 { s.mul(share, &own) } else { s.mul(taken(&share), &given) }
        }
        (ScatterMode::Set, _) => unreachable!("a scatter has three operands"),
    })
}
