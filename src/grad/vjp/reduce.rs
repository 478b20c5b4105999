//! Reductions.

use crate::base::shape::product;
use crate::grad::vjp::VjpContext;
use crate::ir::{AluOp, Axes, Monoid};
use crate::tensor::Tensor;

pub(super) fn reduce(p: &VjpContext, monoid: Monoid, axes: &Axes) -> Option<Tensor> {
    let (s, x) = (p.site, &p.x[0]);
    let axes: Vec<usize> = axes.iter().map(|&axis| usize::from(axis)).collect();
    let shape = x.shape();
    let kept: Vec<usize> =
        (0..x.rank()).map(|axis| if axes.contains(&axis) { 1 } else { shape[axis] }).collect();
    let along = |value: &Tensor| s.expand(&s.reshape(value, &kept), &shape);
    Some(match monoid {
        Monoid::Sum => along(p.g),
        Monoid::Prod => s.mul(along(p.g), product_of_others(p, &axes)),
        Monoid::Max | Monoid::Min => {
            let chosen = s.eq(x, along(p.y));
            let both_nan = s.and(is_nan(p, x), is_nan(p, &along(p.y)));
            let chosen = s.binary(AluOp::Or, &chosen, &both_nan);
            let count = s.sum(&s.cast(&chosen, x.dtype()), &axes);
            let share = s.div(p.g, &count);
            let zero = s.scalar(0.0, x.dtype(), x.device());
            s.select(&chosen, along(&share), zero, x.dtype())
        }
        Monoid::M2 => {
            let deviation = s.sub(x, s.mean_keepdim(x, &axes));
            s.mul(s.mul(along(p.g), deviation), 2.0)
        }
        Monoid::LogSumExp => {
            // Rows of minus infinity have no share to give.
            let empty = s.eq(along(p.y), f64::NEG_INFINITY);
            let share = s.unary(AluOp::Exp, &s.sub(x, along(p.y)));
            let zero = s.scalar(0.0, x.dtype(), x.device());
            s.select(&empty, zero, s.mul(along(p.g), share), x.dtype())
        }
        Monoid::ArgMax | Monoid::ArgMin => return None,
    })
}

fn is_nan(p: &VjpContext, x: &Tensor) -> Tensor {
    p.site.unary(AluOp::Not, &p.site.eq(x, x))
}

/// For each element, the product of the others of its row: what is before
/// times what is after, which stays right where there are zeros.
fn product_of_others(p: &VjpContext, axes: &[usize]) -> Tensor {
    let (s, x) = (p.site, &p.x[0]);
    let free: Vec<usize> = (0..x.rank()).filter(|axis| !axes.contains(axis)).collect();
    let order: Vec<usize> = free.iter().chain(axes).copied().collect();
    let moved = s.permute(x, &order);
    let mut dims: Vec<usize> = free.iter().map(|&axis| x.shape()[axis]).collect();
    dims.push(product(axes.iter().map(|&axis| x.shape()[axis])));
    let rows = s.reshape(&moved, &dims);
    let last = dims.len() - 1;
    let before = super::scan::exclusive_product(s, &rows, last);
    let after = s.flip(&super::scan::exclusive_product(s, &s.flip(&rows, &[last]), last), &[last]);
    let others = s.reshape(&s.mul(before, after), &moved.shape());
    let mut inverse = vec![0; order.len()];
    order.iter().enumerate().for_each(|(to, &from)| inverse[from] = to);
    s.permute(&others, &inverse)
}
