//! Low-rank adapters: few trained numbers beside a frozen layer.

use crate::base::{Result, Span};
use crate::io::StateDict;
use crate::module;
use crate::nn::dropout::Dropout;
use crate::nn::linear::Linear;
use crate::nn::module::{Layer, Module, ModuleExt};
use crate::nn::param::Param;
use crate::tensor::Tensor;
use crate::tensor::options::options;

options! {
    /// Options of [`Lora`].
    LoraOpts {
        /// The rank: rows of the first matrix, columns of the second.
        rank: usize = 8;
        /// What the adapter's result is multiplied by, times the rank.
        alpha: f64 = 16.0;
        /// The probability of an input of the adapter to be dropped in training.
        dropout: f64 = 0.0;
    }
}

/// A frozen [`Linear`] and a trained adapter beside it: `base(x) + alpha / rank * B(A(x))`, where `A` is
/// `[rank, in]` and `B` `[out, rank]`, zeros at first (Hu et al., "LoRA: Low-Rank Adaptation of Large Language
/// Models", 2021).
///
/// The base may be quantized: gradients flow through its packed weight, so a model trains in little more than
/// the memory that its packed weights take. Its parts are named as PEFT names them.
///
/// # Examples
/// ```
/// use kiln::nn::{Layer, Linear, Lora, LoraOpts, ModuleExt};
/// use kiln::optim::{AdamW, AdamWOpts, Optimizer};
/// use kiln::prelude::*;
/// use kiln::Quantization;
/// let base = Linear::new(64, 32, ());
/// base.weight.quantize(Quantization::Q4_0)?;
/// let layer = Lora::new(base, LoraOpts::default().rank(4));
/// let mut optimizer = AdamW::new(layer.trained(), AdamWOpts::default());
/// let x = Tensor::randn([8, 64], ());
/// let before = layer.forward(&x).square().mean(..).item::<f32>()?;
/// for _ in 0..3 {
///     optimizer.zero_grad();
///     layer.forward(&x).square().mean(..).backward()?;
///     optimizer.step()?;
/// }
/// assert!(layer.forward(&x).square().mean(..).item::<f32>()? < before);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Debug)]
#[expect(non_snake_case, reason = "the names are PEFT's")]
pub struct Lora {
    /// What is adapted; frozen.
    pub base_layer: Linear,
    /// `A`, to the rank.
    pub lora_A: Linear,
    /// `B`, from the rank.
    pub lora_B: Linear,
    dropout: Dropout,
    scale: f64,
}
module!(Lora { base_layer, lora_A, lora_B, dropout; skip scale });

impl Lora {
    /// Freezes a layer and puts an adapter that does nothing yet beside it, in `F32` on the layer's device.
    #[track_caller]
    pub fn new(base: Linear, opts: LoraOpts) -> Lora {
        let _line = Span::caller().enter();
        base.parameters().iter().for_each(|param| param.set_requires_grad(false));
        let (shape, device) = (base.weight.shape(), base.weight.device());
        let (inputs, outputs) = (shape.get(1).copied().unwrap_or(0), shape.first().copied().unwrap_or(0));
        let up = Linear::without_bias(opts.rank, outputs, device);
        // Parameters take what is of their shape, type and device.
        let _ = up.weight.set(&Tensor::zeros([outputs, opts.rank], device));
        Lora {
            base_layer: base,
            lora_A: Linear::without_bias(inputs, opts.rank, device),
            lora_B: up,
            dropout: Dropout::new(opts.dropout),
            scale: opts.alpha / opts.rank.max(1) as f64,
        }
    }

    /// The parameters that are trained.
    pub fn trained(&self) -> Vec<Param> {
        vec![self.lora_A.weight.clone(), self.lora_B.weight.clone()]
    }

    /// The layer with the adapter added to its weight, which is an ordinary one then, in memory.
    ///
    /// # Errors
    /// What computing it says. The adapter stays as it is.
    ///
    /// # Examples
    /// ```
    /// use kiln::nn::{Layer, Linear, Lora, LoraOpts};
    /// use kiln::prelude::*;
    /// let layer = Lora::new(Linear::new(8, 4, ()), LoraOpts::default());
    /// layer.lora_B.weight.set(&Tensor::randn([4, 8], ()))?;
    /// let x = Tensor::randn([2, 8], ());
    /// let merged = layer.merged()?;
    /// assert!((merged.forward(&x) - layer.forward(&x)).abs().max(..).item::<f32>()? < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn merged(&self) -> Result<Linear> {
        let _line = Span::caller().enter();
        let base = self.base_layer.weight.get().detach();
        let change = self.lora_B.weight.get().matmul(&self.lora_A.weight.get()).detach() * self.scale;
        let weight = (base.float() + change).to_dtype(base.dtype());
        let weight = Param::new(weight.realize()?.clone());
        let bias = self.base_layer.bias.as_ref().map(|bias| Param::new(bias.get()));
        Ok(Linear { weight, bias })
    }
}

impl Layer for Lora {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let narrow = self.lora_A.forward(&self.dropout.forward(&x.to_dtype(self.lora_A.weight.dtype())));
        let change = self.lora_B.forward(&narrow) * self.scale;
        let base = self.base_layer.forward(x);
        let dtype = base.dtype();
        base + change.to_dtype(dtype)
    }
}

/// What PEFT writes in the names of adapters before those of the model.
const PEFT_PREFIX: &str = "base_model.model";

/// The adapters of a model, by PEFT's names: those of a file `adapter_model.safetensors`.
///
/// [`LoadOpts::strip_prefix`](crate::LoadOpts::strip_prefix) of `base_model.model`, not strict, loads them.
///
/// # Errors
/// The error recorded in one of them.
///
/// # Examples
/// ```
/// use kiln::nn::{Linear, Lora, LoraOpts, ModuleExt, Sequential, adapter_state};
/// use kiln::LoadOpts;
/// let model = || Sequential::new().push(Lora::new(Linear::new(4, 2, ()), LoraOpts::default()));
/// let file = adapter_state(&model())?;
/// let names: Vec<&str> = file.iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["base_model.model.0.lora_A.weight", "base_model.model.0.lora_B.weight"]);
/// let opts = LoadOpts::default().strip_prefix("base_model.model").strict(false);
/// assert_eq!(model().load_state_dict_with(&file, opts)?.loaded.len(), 2);
/// # Ok::<(), kiln::Error>(())
/// ```
pub fn adapter_state<M: Module + ?Sized>(model: &M) -> Result<StateDict> {
    let mut state = StateDict::new();
    let named = model.named_parameters().into_iter();
    let mut adapters = named.filter(|(name, _)| name.contains("lora_A.") || name.contains("lora_B."));
    adapters.try_for_each(|(name, param)| state.insert(format!("{PEFT_PREFIX}.{name}"), &param.get()))?;
    Ok(state)
}
