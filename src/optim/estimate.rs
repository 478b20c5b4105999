//! Estimates of a model's memory, without allocating it.

use std::fmt::{self, Display};

use crate::base::{Device, Result, Span};
use crate::grad::{grad, without_grad};
use crate::nn::{Module, ModuleExt};
use crate::optim::Rule;
use crate::plan::report::{MemoryReport, PlanReport, bytes, count};
use crate::tensor::Tensor;
use crate::tensor::place::with_device;
use crate::tensor::plan::plan;

/// What a model needs. Prints as a list.
#[derive(Debug)]
#[non_exhaustive]
pub struct Estimate<M> {
    /// The model, on [`Device::meta`].
    pub model: M,
    /// Number of elements of the parameters.
    pub parameters: u64,
    /// Bytes of the parameters.
    pub parameter_bytes: u64,
    /// Bytes of the buffers.
    pub buffer_bytes: u64,
}

/// What a model needs, built on [`Device::meta`] and so in no memory.
///
/// ```
/// use kiln::nn::{Layer, Linear, Sequential};
/// use kiln::optim::AdamOpts;
/// use kiln::prelude::*;
/// # fn main() -> kiln::Result<()> {
/// // 120 GB of parameters, which are nowhere.
/// let wide = || Sequential::new().push(Linear::new(1 << 17, 1 << 17, ())).push(Linear::new(1 << 17, 1 << 17, ()));
/// let model = kiln::estimate(wide)?;
/// assert_eq!(model.parameters, 2 * ((1 << 34) + (1 << 17)));
/// assert_eq!(model.optimizer_bytes(&AdamOpts::default()), 2 * model.parameter_bytes);
/// let needs = model.training(|m| m.forward(&Tensor::empty([64, 1 << 17], ())).square().mean(..))?;
/// assert!(needs.activations >= 64 * 4 << 17);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The error recorded in a parameter or a buffer.
#[track_caller]
pub fn estimate<M: Module>(model: impl FnOnce() -> M) -> Result<Estimate<M>> {
    let model = with_device(Device::meta(), model);
    // However they start, what is planned finds them there.
    model.replace_all(Span::caller(), &|x| Ok(Tensor::empty(x.shape(), (Device::meta(), x.dtype()))))?;
    let size = |x: &Tensor| (x.numel() as u64, x.numel() as u64 * x.dtype().size() as u64);
    let (mut parameters, mut parameter_bytes, mut buffer_bytes) = (0, 0, 0);
    for param in model.parameters() {
        let (elements, bytes) = size(&param.get());
        (parameters, parameter_bytes) = (parameters + elements, parameter_bytes + bytes);
    }
    for (_, buffer) in model.named_buffers() {
        buffer_bytes += size(&buffer.get()).1;
    }
    Ok(Estimate { model, parameters, parameter_bytes, buffer_bytes })
}

/// What running a model needs.
#[derive(Debug)]
#[non_exhaustive]
pub struct Needs {
    /// Bytes of parameters, buffers and inputs.
    pub inputs: u64,
    /// Bytes of the gradients; 0 for inference.
    pub gradients: u64,
    /// Bytes in use at most besides: activations, and what is computed on the
    /// way.
    pub activations: u64,
    /// The plan.
    pub plan: PlanReport,
}

impl Needs {
    /// Bytes in use at most, what an optimizer remembers not counted.
    pub fn peak(&self) -> u64 {
        self.inputs.saturating_add(self.gradients).saturating_add(self.activations)
    }
}

impl<M: Module> Estimate<M> {
    /// Bytes of the gradients.
    pub fn gradient_bytes(&self) -> u64 {
        self.parameter_bytes
    }

    /// Bytes that an optimizer of this rule remembers.
    pub fn optimizer_bytes(&self, rule: &dyn Rule) -> u64 {
        self.parameter_bytes.saturating_mul(rule.state().len() as u64)
    }

    /// What computing an output needs; `forward` builds it, on
    /// [`Device::meta`].
    ///
    /// # Errors
    /// The error recorded in the output.
    pub fn inference(&self, forward: impl FnOnce(&M) -> Tensor) -> Result<Needs> {
        let output = with_device(Device::meta(), || without_grad(|| forward(&self.model)));
        self.needs(plan(&[&output])?, 0)
    }

    /// What computing a loss and the gradients of all parameters needs;
    /// `loss` builds it, on [`Device::meta`].
    ///
    /// # Errors
    /// The error recorded in the loss.
    pub fn training(&self, loss: impl FnOnce(&M) -> Tensor) -> Result<Needs> {
        let loss = with_device(Device::meta(), || loss(&self.model));
        loss.check()?;
        let parameters: Vec<Tensor> = self.model.parameters().iter().map(|param| param.get()).collect();
        let gradients = grad(&loss, &parameters.iter().collect::<Vec<_>>());
        let all: Vec<&Tensor> = std::iter::once(&loss).chain(&gradients).collect();
        self.needs(plan(&all)?, self.gradient_bytes())
    }

    fn needs(&self, plan: PlanReport, gradients: u64) -> Result<Needs> {
        let total =
            |part: fn(&MemoryReport) -> u64| plan.memory.iter().map(part).fold(0, u64::saturating_add);
        let inputs = total(|memory| memory.inputs);
        let activations =
            total(|memory| memory.results.saturating_add(memory.intermediates)).saturating_sub(gradients);
        Ok(Needs { inputs, gradients, activations, plan })
    }
}

impl<M> Display for Estimate<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "parameters  {} ({})", bytes(self.parameter_bytes), count(self.parameters).trim_end())?;
        writeln!(f, "buffers     {}", bytes(self.buffer_bytes))
    }
}

impl Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows =
            [("inputs", self.inputs), ("gradients", self.gradients), ("activations", self.activations)];
        rows.iter().try_for_each(|(name, n)| writeln!(f, "{name:<12}{}", bytes(*n)))?;
        writeln!(f, "{:<12}{}", "peak", bytes(self.peak()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::{Layer, Linear, Sequential};
    use crate::optim::{AdamOpts, SgdOpts};

    fn model() -> Sequential {
        Sequential::new().push(Linear::new(100, 200, ())).then(Tensor::relu).push(Linear::new(200, 10, ()))
    }

    #[test]
    fn parameters_gradients_and_state_are_counted_without_memory() {
        let found = estimate(model).unwrap();
        assert_eq!(found.parameters, 100 * 200 + 200 + 200 * 10 + 10);
        assert_eq!(found.parameter_bytes, 4 * found.parameters);
        assert_eq!(found.gradient_bytes(), found.parameter_bytes);
        assert_eq!(found.optimizer_bytes(&AdamOpts::default()), 2 * found.parameter_bytes);
        assert_eq!(found.optimizer_bytes(&SgdOpts::default()), 0);
        assert_eq!(found.optimizer_bytes(&SgdOpts::default().momentum(0.9)), found.parameter_bytes);
    }

    #[test]
    fn needs_grow_with_the_batch_and_training_holds_more() {
        let found = estimate(model).unwrap();
        let output = |m: &Sequential, rows: usize| m.forward(&Tensor::empty([rows, 100], ()));
        let inference = |rows| found.inference(|m| output(m, rows)).unwrap();
        let training = |rows| found.training(|m| output(m, rows).square().mean(..)).unwrap();
        let hidden = 4 * 200 * 64;
        assert!(inference(64).activations >= hidden, "{}", inference(64));
        assert!(training(64).activations >= hidden, "{}", training(64));
        assert_eq!(training(64).gradients, found.parameter_bytes);
        let more = training(128).activations - training(64).activations;
        assert!((hidden..3 * hidden).contains(&more), "{more} bytes for 64 rows more");
        assert!(inference(64).peak() < training(64).peak());
    }

    #[test]
    fn a_mistake_in_the_model_is_reported() {
        let found = estimate(model).unwrap();
        let wrong = found.inference(|m| m.forward(&Tensor::empty([4, 99], ())));
        assert!(wrong.unwrap_err().to_string().contains("99"));
    }
}
