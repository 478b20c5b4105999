//! Gradient clipping.

use crate::base::{OpError, Result, Span};
use crate::grad::without_grad;
use crate::ir::collective::Reduce;
use crate::ir::pending::{Pending, register};
use crate::nn::Param;
use crate::optim::division::Division;
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;
use crate::tensor::pack::{Pack, alike};

/// Scales all gradients by one number so that their 2-norm together is at most
/// `max_norm`. Returns the norm they had, lazy like the gradients: a step
/// computes it with them. It is where the first gradient is; of gradients elsewhere, single numbers cross.
///
/// Of parameters that ranks divide, as in [`ColumnParallel`](crate::dist::ColumnParallel), the norm is that of all
/// parts: ranks that divide some call it together, with the same parameters in the same order.
/// PyTorch: `torch.nn.utils.clip_grad_norm_`.
///
/// # Errors
/// The error recorded in a gradient; a norm that is negative or NaN.
#[track_caller]
pub fn clip_grad_norm(params: &[Param], max_norm: f64) -> Result<Tensor> {
    let span = Span::caller();
    let _line = span.enter();
    bound(CallSite { name: "clip_grad_norm", span }, max_norm)?;
    without_grad(|| {
        let site = CallSite { name: "clip_grad_norm", span };
        let gradients = Gradients::of(site, params)?;
        let of_parts = gradients.divisions.iter().map(|division| {
            let own = square(gradients.pieces(|param| division.is_of(param)));
            division.all_reduce(site, Reduce::Sum, own)
        });
        let of_whole = square(gradients.pieces(|param| param.cell().division().is_none()));
        let Some(square) = of_whole.into_iter().chain(of_parts).reduce(add) else {
            let found = format!("{} parameters without", params.len());
            return Err(OpError::new("clip_grad_norm", span, "parameters with gradients", found).into());
        };
        let norm = square.sqrt();
        // As PyTorch: 1e-6 keeps the quotient finite.
        let scale = (max_norm / (&norm + 1e-6)).clamp_max(1.0);
        gradients.replace(site, |grad| grad * scale.to(grad.device()).to_dtype(grad.dtype()))?;
        register([Pending::root(norm.node()?)]);
        Ok(norm)
    })
}

/// The sum of all squares, where the first tensor is.
fn square(pieces: impl Iterator<Item = Tensor>) -> Option<Tensor> {
    pieces.map(|piece| piece.square().sum(..)).reduce(add)
}

fn add(a: Tensor, b: Tensor) -> Tensor {
    &a + b.to(a.device())
}

/// The gradients of parameters, those that are alike in one piece.
pub(super) struct Gradients<'a> {
    packs: Vec<(Vec<&'a Param>, Pack, Tensor)>,
    /// The ranks that divide some of the parameters, if there are gradients.
    pub divisions: Vec<Division<'a>>,
}

impl<'a> Gradients<'a> {
    pub(super) fn of(site: CallSite, params: &'a [Param]) -> Result<Gradients<'a>> {
        let found: Vec<(&Param, Tensor)> =
            params.iter().filter_map(|p| Some((p, p.grad_in_memory()?))).collect();
        let divisions = if found.is_empty() { Vec::new() } else { Division::all(params) };
        let mut packs = Vec::new();
        let key = |(param, grad): &(&Param, Tensor)| (grad.dtype(), grad.device(), param.cell().division());
        for members in alike(found.iter().map(key)) {
            let grads: Vec<Tensor> = members.iter().map(|&i| found[i].1.clone()).collect();
            let shapes = grads.iter().map(Tensor::shape).collect();
            let pack = Pack::new(site, shapes, grads[0].dtype(), grads[0].device());
            let whole = pack.whole(&grads)?;
            packs.push((members.into_iter().map(|i| found[i].0).collect(), pack, whole));
        }
        Ok(Gradients { packs, divisions })
    }

    /// The gradients of parameters that are divided alike, in as few pieces as there are without anything between.
    pub(super) fn pieces(&self, which: impl Fn(&Param) -> bool) -> impl Iterator<Item = Tensor> {
        let of_which = self.packs.iter().filter(move |(params, ..)| which(params[0]));
        of_which.flat_map(|(params, pack, whole)| match pack.is_dense() {
            true => vec![whole.clone()],
            false => pack.parts(whole, params.len()),
        })
    }

    /// Puts in what `change` makes of each piece.
    pub(super) fn replace(&self, site: CallSite, change: impl Fn(&Tensor) -> Tensor) -> Result<()> {
        for (params, pack, whole) in &self.packs {
            let changed = pack.parts(&change(whole), params.len());
            params.iter().zip(changed).try_for_each(|(param, grad)| param.change_grad(&grad, site.span))?;
        }
        Ok(())
    }
}

/// Clamps every element of every gradient to `-limit..=limit`.
///
/// # Errors
/// The error recorded in a gradient; a limit that is negative or NaN.
#[track_caller]
pub fn clip_grad_value(params: &[Param], limit: f64) -> Result<()> {
    let site = CallSite::here("clip_grad_value");
    let _line = site.span.enter();
    bound(site, limit)?;
    without_grad(|| Gradients::of(site, params)?.replace(site, |grad| grad.clamp(-limit, limit)))
}

/// Fails for what gradients cannot be kept within.
fn bound(site: CallSite, limit: f64) -> Result<()> {
    if limit >= 0.0 {
        return Ok(());
    }
    Err(site.error("a bound of at least 0", limit.to_string(), &[]))
}
