//! Gradient checkpointing (Chen et al. 2016): activations are recomputed instead of
//! kept.

use std::cell::Cell;
use std::sync::Arc;

use crate::base::Result;
use crate::base::depth::Deeper;
use crate::grad::control::{instantiate, source};
use crate::grad::pull_back::{Cotangent, pull_back};
use crate::ir::lift::{Lifted, lift};
use crate::ir::{Body, Node, Op};
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;
use crate::tensor::rule::{identity, with_rule};

/// `forward` of the input, whose interior is not kept for gradients but
/// computed again from the input when they are taken: less memory for more
/// time.
///
/// Everything computed from the input inside counts as interior. What the
/// function only uses (parameters, other tensors) gets its gradients as ever
/// and is not computed again. Within 32 others, a checkpoint is only its function: what is
/// computed again there is kept until that gradient is taken. The function runs once; random numbers drawn
/// inside are the same both times, and running statistics are set once.
///
/// ```
/// use kiln::nn::{Layer, Linear, ModuleExt};
/// use kiln::prelude::*;
/// # fn main() -> kiln::Result<()> {
/// let block = Linear::new(8, 8, ());
/// let x = Tensor::randn([4, 8], ());
/// let loss = kiln::checkpoint(|x| block.forward(x).tanh(), &x).sum(..);
/// loss.backward()?;
/// assert!(block.parameters().iter().all(|param| param.grad().is_some()));
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn checkpoint(forward: impl FnOnce(&Tensor) -> Tensor, input: &Tensor) -> Tensor {
    checkpoint_at(CallSite::here("checkpoint"), |inputs| forward(&inputs[0]), &[input])
}

/// [`checkpoint`] of a function of several inputs.
#[track_caller]
pub fn checkpoint_many(forward: impl FnOnce(&[Tensor]) -> Tensor, inputs: &[&Tensor]) -> Tensor {
    checkpoint_at(CallSite::here("checkpoint_many"), forward, inputs)
}

/// Checkpoints within each other at most, as each is taken back within the one around it.
const NESTED: usize = 32;

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

fn checkpoint_at(site: CallSite, forward: impl FnOnce(&[Tensor]) -> Tensor, inputs: &[&Tensor]) -> Tensor {
    let Some(within) = Deeper::within(&DEPTH, NESTED) else {
        return forward(&inputs.iter().copied().cloned().collect::<Vec<_>>());
    };
    // Nodes of their own, so that what was computed from an input before is
    // not taken for interior.
    let entered: Vec<Tensor> = inputs.iter().map(|x| identity(x, site.span)).collect();
    let result = forward(&entered);
    drop(within);
    recomputed_later(site, inputs, &entered, result)
}

/// The result of a checkpoint's function of what entered it, with the gradient of one.
fn recomputed_later(site: CallSite, inputs: &[&Tensor], entered: &[Tensor], result: Tensor) -> Tensor {
    let params: Option<Vec<Arc<Node>>> = entered.iter().map(|x| x.peek().cloned()).collect();
    let (Some(params), Some(node)) = (params, result.peek().cloned()) else { return result };
    let Lifted { body, captures } = lift(&params, &[node]);
    let captures: Vec<Tensor> = captures.into_iter().map(Tensor::from_node).collect();
    let all: Vec<&Tensor> = inputs.iter().copied().chain(&captures).collect();
    let body = Arc::new(body);
    with_rule(result, &all, move |inputs, _, cotangent| {
        recomputed(site, &body, inputs, cotangent)
            .unwrap_or_else(|error| vec![Some(Tensor::invalid(error)); inputs.len()])
    })
}

/// The cotangents of a body's inputs, its interior computed again: from inputs
/// that are there only after the cotangent, so that nothing is taken from the
/// first time, and nothing is recomputed before it is needed.
fn recomputed(
    site: CallSite,
    body: &Body,
    inputs: &[Tensor],
    cotangent: &Tensor,
) -> Result<Vec<Option<Tensor>>> {
    let again = |x: &Tensor| {
        let here = x.device() == cotangent.device();
        let late = if here { site.apply(Op::After, &[x, cotangent]) } else { x.clone() };
        if x.is_tracked() { source(site, &late) } else { late }
    };
    let again: Vec<Tensor> = inputs.iter().map(again).collect();
    let result = instantiate(body, &again)?.remove(0);
    let tracked = |i: &usize| inputs[*i].is_tracked();
    let places: Vec<usize> = (0..inputs.len()).filter(tracked).collect();
    let sources: Vec<Arc<Node>> = places.iter().map(|&i| again[i].node().cloned()).collect::<Result<_>>()?;
    let source_cotangents = pull_back(&[(&result, cotangent.clone())], &sources)?;
    let mut cotangents = vec![None; inputs.len()];
    places
        .into_iter()
        .zip(source_cotangents)
        .for_each(|(i, cotangent)| cotangents[i] = Cotangent::into_option(cotangent));
    Ok(cotangents)
}
