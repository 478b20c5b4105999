//! Gradients kept from growing too large.

use crate::base::{OpError, Result, Span};
use crate::grad::without_grad;
use crate::ir::pending::{Pending, register};
use crate::nn::Param;
use crate::tensor::Tensor;

/// Scales all gradients by one number so that their 2-norm together is at most
/// `max_norm`. Returns the norm they had, lazy like the gradients: a step
/// computes it with them.
///
/// # Errors
/// The mistake recorded in a gradient; gradients on several devices.
#[track_caller]
pub fn clip_grad_norm(params: &[Param], max_norm: f64) -> Result<Tensor> {
    let span = Span::caller();
    without_grad(|| {
        let gradients: Vec<(&Param, Tensor)> = params.iter().filter_map(|p| Some((p, p.grad()?))).collect();
        let squares = gradients.iter().map(|(_, grad)| grad.square().sum(..));
        let Some(square) = squares.reduce(|a, b| a + b) else {
            let found = format!("{} parameters without", params.len());
            return Err(OpError::new("clip_grad_norm", span, "parameters with gradients", found).into());
        };
        let norm = square.sqrt();
        // As PyTorch: 1e-6 keeps the quotient finite.
        let scale = (max_norm / (&norm + 1e-6)).clamp_max(1.0);
        for (param, grad) in &gradients {
            param.set_grad(Some(&(grad * scale.to_dtype(grad.dtype()))))?;
        }
        register([Pending::Node(std::sync::Arc::downgrade(norm.node()?))]);
        Ok(norm)
    })
}

/// Clamps every element of every gradient to `-limit..=limit`.
///
/// # Errors
/// The mistake recorded in a gradient.
#[track_caller]
pub fn clip_grad_value(params: &[Param], limit: f64) -> Result<()> {
    without_grad(|| {
        params.iter().try_for_each(|param| match param.grad() {
            Some(grad) => param.set_grad(Some(&grad.clamp(-limit, limit))),
            None => Ok(()),
        })
    })
}
