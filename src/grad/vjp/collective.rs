//! Collectives: what a rank's operand gets of the cotangents of all ranks' results.

use std::sync::Arc;

use crate::grad::vjp::VjpContext;
use crate::ir::AluOp;
use crate::ir::collective::{Channel, Collective, CollectiveKind, Reduce};
use crate::tensor::Tensor;
use crate::tensor::collective::collective as among_ranks;

/// The cotangent of the operand, a collective itself.
pub fn collective(p: &VjpContext, collective: &Collective) -> Option<Tensor> {
    let channel = collective.channel.as_ref()?;
    let run = |kind, x: &Tensor| among_ranks(p.site, kind, channel, x);
    Some(match collective.kind {
        CollectiveKind::AllReduce(reduce) => {
            reduced(p, reduce, &run(CollectiveKind::AllReduce(linear(reduce)), p.g), channel)
        }
        CollectiveKind::ReduceScatter(reduce) => {
            let whole = run(CollectiveKind::AllGather, p.g);
            let over = |x: &Tensor| p.site.mul(x, 1.0 / collective.size as f64);
            match reduce {
                Reduce::Sum => whole,
                Reduce::Mean => over(&whole),
                // As if all were combined and each rank took its part.
                Reduce::Min | Reduce::Max | Reduce::Product => {
                    let y = run(CollectiveKind::AllGather, p.y);
                    share(p, reduce, &whole, &y, channel)
                }
            }
        }
        CollectiveKind::AllGather => run(CollectiveKind::ReduceScatter(Reduce::Sum), p.g),
        CollectiveKind::AllToAll => run(CollectiveKind::AllToAll, p.g),
        CollectiveKind::Broadcast { root } => run(CollectiveKind::SumTo { root }, p.g),
        CollectiveKind::SumTo { root } => run(CollectiveKind::Broadcast { root }, p.g),
        CollectiveKind::Barrier => return None,
    })
}

/// How cotangents are combined: all ranks' results depend on each operand.
fn linear(reduce: Reduce) -> Reduce {
    match reduce {
        Reduce::Mean => Reduce::Mean,
        Reduce::Sum | Reduce::Min | Reduce::Max | Reduce::Product => Reduce::Sum,
    }
}

fn reduced(p: &VjpContext, reduce: Reduce, cotangent: &Tensor, channel: &Arc<dyn Channel>) -> Tensor {
    match reduce {
        Reduce::Sum | Reduce::Mean => cotangent.clone(),
        Reduce::Min | Reduce::Max | Reduce::Product => share(p, reduce, cotangent, p.y, channel),
    }
}

/// This rank's share of a cotangent of the extreme, or of the product, `y` of all operands. Equal extremes share
/// equally.
fn share(
    p: &VjpContext,
    reduce: Reduce,
    cotangent: &Tensor,
    y: &Tensor,
    channel: &Arc<dyn Channel>,
) -> Tensor {
    let (site, x) = (p.site, &p.x[0]);
    if reduce == Reduce::Product {
        // The product of the others, which a quotient does not give where this rank's is 0.
        let all = among_ranks(site, CollectiveKind::AllGather, channel, x);
        let ranks = (0..channel.size()).filter(|&rank| rank != channel.rank());
        let at = |rank: usize| site.reshape(&site.slice(&all, 0, rank, rank + 1, 1), &x.shape());
        return ranks.fold(cotangent.clone(), |product, rank| site.mul(&product, at(rank)));
    }
    let is_extreme = site.cast(&site.eq(x, y), cotangent.dtype());
    let count = among_ranks(site, CollectiveKind::AllReduce(Reduce::Sum), channel, &is_extreme);
    site.binary(AluOp::Div, site.mul(cotangent, &is_extreme), &count)
}
