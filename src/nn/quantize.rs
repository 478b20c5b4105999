//! Quantizing a module's weights, and how much of them is lost.

use std::fmt;

use crate::base::{Result, Shape, Span};
use crate::io::Pattern;
use crate::nn::module::{Module, ModuleExt};
use crate::nn::param::Param;
use crate::plan::report::bytes;
use crate::tensor::quantized::{BLOCK, Quantization, QuantizedTensor};
use crate::tensor::{Tensor, read};

/// Which weights [`ModuleExt::quantize`] leaves as they are.
///
/// # Examples
/// ```
/// use kiln::nn::{Linear, ModuleExt, QuantizeOpts, Sequential};
/// use kiln::Quantization;
/// let net = Sequential::new().push(Linear::new(32, 64, ())).push(Linear::new(64, 2, ()));
/// let report = net.quantize(Quantization::Q4_0, QuantizeOpts::default().keep("1"))?;
/// assert_eq!(report.weights.len(), 1); // "0.weight"
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct QuantizeOpts {
    kept: Vec<Pattern>,
}

impl QuantizeOpts {
    /// Parameters whose names begin with this pattern stay as they are: see
    /// [`LoadOpts`](crate::LoadOpts) for what a pattern is.
    #[must_use]
    pub fn keep(mut self, pattern: &str) -> Self {
        self.kept.push(Pattern::new(pattern));
        self
    }

    /// Whether a parameter is to be quantized: a matrix of floats whose rows are whole blocks.
    fn takes(&self, name: &str, param: &Param) -> bool {
        let shape = param.shape();
        let fits = shape.rank() == 2 && shape[1] > 0 && shape[1].is_multiple_of(BLOCK);
        fits && param.dtype().is_float() && !self.kept.iter().any(|pattern| pattern.fit(name).is_some())
    }
}

/// A weight that was quantized.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct QuantizedWeight {
    /// The module's name of it.
    pub name: String,
    /// Its shape.
    pub shape: Shape,
    /// What it took before, in bytes.
    pub bytes_before: usize,
    /// What it takes now, in bytes.
    pub bytes: usize,
    /// The norm of what was lost over the norm of the weight.
    pub error: f64,
}

/// What [`ModuleExt::quantize`] did; prints a line a weight.
///
/// # Examples
/// ```
/// use kiln::nn::{Linear, ModuleExt, QuantizeOpts};
/// use kiln::prelude::*;
/// use kiln::Quantization;
/// let net = Linear::new(32, 4, ());
/// net.weight.set(&Tensor::linspace(-1.0, 1.0, 128, ()).reshape([4, 32]))?;
/// let report = net.quantize(Quantization::Q8_0, QuantizeOpts::default())?;
/// let expected = "\
/// weight  shape      before     after  error
/// weight  [4, 32]     512 B     136 B  0.14 %
/// 1 weight: 512 B before, 136 B after
/// ";
/// assert_eq!(report.to_string(), expected);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QuantizeReport {
    /// The weights, in the order of the module's parameters.
    pub weights: Vec<QuantizedWeight>,
}

/// What [`ModuleExt::quantize`] does.
pub(super) fn quantize<M: Module + ?Sized>(
    module: &M,
    quantization: Quantization,
    opts: &QuantizeOpts,
    span: Span,
) -> Result<QuantizeReport> {
    let _line = span.enter();
    let mut report = QuantizeReport::default();
    let mut packed = Vec::new();
    for (name, param) in module.named_parameters() {
        if opts.takes(&name, &param) {
            let (weight, tensor) = quantized(name, &param, quantization)?;
            report.weights.push(weight);
            packed.push((param, tensor));
        }
    }
    packed.iter().try_for_each(|(param, tensor)| param.set_quantized(tensor))?;
    Ok(report)
}

/// A parameter's quantized tensor, and its line of the report.
fn quantized(
    name: String,
    param: &Param,
    quantization: Quantization,
) -> Result<(QuantizedWeight, QuantizedTensor)> {
    let before = param.get().detach();
    let tensor = QuantizedTensor::quantize(&before, quantization)?;
    let norm = |x: &Tensor| x.float().square().sum(..).sqrt();
    let (lost, whole) = (norm(&(&before - tensor.dequantize())), norm(&before));
    read::realize(&[&lost, &whole])?;
    let (lost, whole) = (f64::from(lost.item::<f32>()?), f64::from(whole.item::<f32>()?));
    let bytes_before =
        param.quantized().map_or(before.numel() * before.dtype().size(), |packed| packed.bytes());
    let error = if whole == 0.0 { 0.0 } else { lost / whole };
    let weight = QuantizedWeight { name, shape: before.shape(), bytes_before, bytes: tensor.bytes(), error };
    Ok((weight, tensor))
}

impl fmt::Display for QuantizeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shapes: Vec<String> = self.weights.iter().map(|weight| weight.shape.to_string()).collect();
        let longest = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0);
        let name = longest(&mut self.weights.iter().map(|weight| weight.name.len())).max(6);
        let shape = longest(&mut shapes.iter().map(String::len)).max(5);
        writeln!(f, "{:name$}  {:shape$}  {:>8}  {:>8}  error", "weight", "shape", "before", "after")?;
        for (weight, text) in self.weights.iter().zip(&shapes) {
            let sizes = [weight.bytes_before, weight.bytes].map(|size| bytes(size as u64));
            let (before, after, error) = (&sizes[0], &sizes[1], 100.0 * weight.error);
            writeln!(f, "{:name$}  {text:shape$}  {before:>8}  {after:>8}  {error:.2} %", weight.name)?;
        }
        let total =
            |of: fn(&QuantizedWeight) -> usize| bytes(self.weights.iter().map(of).sum::<usize>() as u64);
        let (count, s) = (self.weights.len(), if self.weights.len() == 1 { "" } else { "s" });
        writeln!(f, "{count} weight{s}: {} before, {} after", total(|w| w.bytes_before), total(|w| w.bytes))
    }
}
