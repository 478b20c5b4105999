//! What holds the tensors of a module, and loading into it.

#[cfg(feature = "safetensors")]
use std::path::Path;

use crate::base::{Device, Result, Span};
#[cfg(feature = "safetensors")]
use crate::io::Reading;
use crate::io::{ExpectedTensor, LoadOpts, LoadReport, Loaded, Source, load};
use crate::nn::module::{Found, Module, ModuleExt};
use crate::nn::param::{Buffer, Param};
use crate::tensor::Tensor;
use crate::tensor::place::default_device;

/// What a module holds a tensor in.
pub enum TensorCell {
    Param(Param),
    Buffer(Buffer),
}

impl TensorCell {
    pub fn get(&self) -> Tensor {
        match self {
            TensorCell::Param(param) => param.get(),
            TensorCell::Buffer(buffer) => buffer.get(),
        }
    }

    /// The tensor, and the gradient if there is one, changed alike. Of a quantized parameter, only where the
    /// tensor is and its type matter.
    pub fn mapped(&self, map: &dyn Fn(&Tensor) -> Result<Tensor>) -> Result<(Tensor, Option<Tensor>)> {
        let changed = |x: Tensor| -> Result<Tensor> {
            x.check()?;
            let x = map(&x)?;
            x.check().map(|()| x)
        };
        let grad = match self {
            TensorCell::Param(param) => param.grad(),
            TensorCell::Buffer(_) => None,
        };
        Ok((changed(self.get())?, grad.map(changed).transpose()?))
    }

    /// Puts what [`TensorCell::mapped`] made in the place of what it was made of; packed numbers stay packed.
    pub fn put_mapped(&self, tensor: &Tensor, grad: Option<&Tensor>, span: Span) -> Result<()> {
        match self {
            TensorCell::Param(param) if let Some(packed) = param.quantized() => {
                param.move_quantized(&packed, tensor.device(), tensor.dtype(), span)
            }
            TensorCell::Param(_) | TensorCell::Buffer(_) => self.put(tensor, grad, span),
        }
    }

    /// Puts a tensor and a gradient, or none, in.
    pub fn put(&self, tensor: &Tensor, grad: Option<&Tensor>, span: Span) -> Result<()> {
        match self {
            TensorCell::Param(param) => {
                param.replace(tensor, span)?;
                param.set_grad(grad)
            }
            TensorCell::Buffer(buffer) => buffer.replace(tensor, span),
        }
    }
}

/// Parameters, each once, and buffers.
pub fn cells<M: Module + ?Sized>(module: &M) -> Vec<(String, TensorCell)> {
    let params = module.named_parameters().into_iter().map(|(name, param)| (name, TensorCell::Param(param)));
    let buffers = module.named_buffers().into_iter().map(|(name, buffer)| (name, TensorCell::Buffer(buffer)));
    params.chain(buffers).collect()
}

/// The names of shared parameters behind the first, each with the first.
fn aliases<M: Module + ?Sized>(module: &M) -> Vec<(String, String)> {
    let mut first: Vec<(String, Param)> = Vec::new();
    let mut others = Vec::new();
    module.each(&mut |name, part| {
        let Found::Param(param) = part else { return };
        match first.iter().find(|(_, known)| known.ptr_eq(param)) {
            Some((known, _)) => others.push((known.clone(), name.to_string())),
            None => first.push((name.to_string(), param.clone())),
        }
    });
    others
}

/// Where a tensor is to be.
fn place(opts: &LoadOpts, name: &str, held: &Tensor) -> Device {
    let there = if held.device().is_meta() { default_device() } else { held.device() };
    opts.device_for(name).unwrap_or(there)
}

/// Puts what a state has for the module's cells in; nothing unless all of it can be.
///
/// # Errors
/// The error recorded in a cell, and those of loading.
pub fn load_into<M: Module + ?Sized>(
    module: &M,
    source: Source<'_>,
    opts: &LoadOpts,
    span: Span,
) -> Result<LoadReport> {
    let (cells, aliases) = (cells(module), aliases(module));
    let mut targets = Vec::with_capacity(cells.len());
    for (name, cell) in &cells {
        let held = cell.get();
        held.check()?;
        let device = place(opts, name, &held);
        let own = aliases.iter().filter(|(first, _)| first == name).map(|(_, other)| other.clone());
        let aliases = own.collect();
        let packs = matches!(cell, TensorCell::Param(_));
        targets.push(ExpectedTensor { device, aliases, packs, ..ExpectedTensor::like(name.clone(), &held) });
    }
    let (tensors, report) = load(source, &targets, opts, span)?;
    for ((_, cell), loaded) in cells.iter().zip(&tensors) {
        match (cell, loaded) {
            (_, None) => {}
            (_, Some(Loaded::Tensor(tensor))) => cell.put(tensor, None, span)?,
            (TensorCell::Param(param), Some(Loaded::Quantized(packed))) => param.set_quantized(packed)?,
            // It is not asked for: only parameters pack.
            (TensorCell::Buffer(_), Some(Loaded::Quantized(_))) => {}
        }
    }
    Ok(report)
}

/// The same with what was read of a file.
///
/// # Errors
/// Those, and what is wrong with the file.
#[cfg(feature = "safetensors")]
pub fn load_reading<M: Module + ?Sized>(
    module: &M,
    path: &Path,
    reading: Reading,
    opts: &LoadOpts,
    span: Span,
) -> Result<LoadReport> {
    let from = path.display().to_string();
    let (state, unread) = (&reading.state, &reading.unread);
    load_into(module, Source { state, from: &from, problems: reading.problems, unread }, opts, span)
}
