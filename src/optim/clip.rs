//! Gradient clipping.

use crate::base::{OpError, Result, Span};
use crate::grad::without_grad;
use crate::ir::pending::{Pending, register};
use crate::nn::Param;
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;
use crate::tensor::pack::{Pack, alike};

/// Scales all gradients by one number so that their 2-norm together is at most
/// `max_norm`. Returns the norm they had, lazy like the gradients: a step
/// computes it with them. It is where the first gradient is; of gradients elsewhere, single numbers cross.
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
        let squares = gradients.pieces().map(|piece| piece.square().sum(..));
        let Some(square) = squares.reduce(|a, b| &a + b.to(a.device())) else {
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

/// The gradients of parameters, those that are alike in one piece.
pub(super) struct Gradients<'a> {
    packs: Vec<(Vec<&'a Param>, Pack, Tensor)>,
}

impl<'a> Gradients<'a> {
    pub(super) fn of(site: CallSite, params: &'a [Param]) -> Result<Gradients<'a>> {
        let found: Vec<(&Param, Tensor)> =
            params.iter().filter_map(|p| Some((p, p.grad_in_memory()?))).collect();
        let mut packs = Vec::new();
        for members in alike(found.iter().map(|(_, grad)| (grad.dtype(), grad.device()))) {
            let grads: Vec<Tensor> = members.iter().map(|&i| found[i].1.clone()).collect();
            let shapes = grads.iter().map(Tensor::shape).collect();
            let pack = Pack::new(site, shapes, grads[0].dtype(), grads[0].device());
            let whole = pack.whole(&grads)?;
            packs.push((members.into_iter().map(|i| found[i].0).collect(), pack, whole));
        }
        Ok(Gradients { packs })
    }

    /// All gradients, in as few pieces as there are without anything between.
    pub(super) fn pieces(&self) -> impl Iterator<Item = Tensor> {
        self.packs.iter().flat_map(|(params, pack, whole)| match pack.is_dense() {
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
