//! The contraction: each operand's cotangent is a contraction of the result's
//! with the other operand.

use crate::grad::vjp::VjpContext;
use crate::ir::ContractDims;
use crate::tensor::Tensor;

pub(super) fn contract(p: &VjpContext, dims: &ContractDims, i: usize) -> Tensor {
    let side = |&(a, b): &(u8, u8), which: usize| usize::from(if which == 0 { a } else { b });
    let free = |which: usize| -> Vec<usize> {
        let taken: Vec<usize> = dims.batch.iter().chain(&dims.contract).map(|d| side(d, which)).collect();
        (0..p.x[which].rank()).filter(|axis| !taken.contains(axis)).collect()
    };
    let (own, other) = (free(i), free(1 - i));
    let batch = dims.batch.len();
    // The result's axes: the batch, the first operand's free axes, the second's.
    let starts = [batch, batch + free(0).len()];
    let pairs_batch: Vec<(usize, usize)> =
        dims.batch.iter().enumerate().map(|(n, d)| (n, side(d, 1 - i))).collect();
    let pairs_free: Vec<(usize, usize)> =
        other.iter().enumerate().map(|(n, &axis)| (starts[1 - i] + n, axis)).collect();
    let product = p.site.contract(p.g, &p.x[1 - i], &pairs_batch, &pairs_free);
    // Its axes: the batch, own free axes, then the contracted ones in the
    // order they have in the other operand.
    let mut contracted: Vec<(usize, usize)> =
        dims.contract.iter().map(|d| (side(d, 1 - i), side(d, i))).collect();
    contracted.sort_unstable();
    let at: Vec<usize> = (dims.batch.iter().map(|d| side(d, i)))
        .chain(own)
        .chain(contracted.into_iter().map(|(_, axis)| axis))
        .collect();
    let mut order = vec![0; at.len()];
    at.into_iter().enumerate().for_each(|(from, to)| order[to] = from);
    p.site.permute(&product, &order)
}
