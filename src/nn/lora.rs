//! Low-rank adapters: few trained numbers beside frozen weights.

use std::sync::{Arc, PoisonError, RwLock};

use crate::base::{Error, Result, Span};
use crate::io::StateDict;
use crate::nn::dropout::Dropout;
use crate::nn::init;
use crate::nn::linear::Linear;
use crate::nn::module::{Layer, Module, ModuleExt, Part, Visitor};
use crate::nn::param::{Buffer, Param, Training};
use crate::tensor::options::options;
use crate::tensor::{Tensor, function_scope};

options! {
    /// Options of adapters ([`add_lora`]).
    LoraOpts {
        /// The rank: rows of the first matrix, columns of the second; at least 1.
        rank: usize = 8;
        /// What the adapter's result is multiplied by, times the rank.
        alpha: f64 = 16.0;
        /// The probability of an input of the adapter to be dropped in training.
        dropout: f64 = 0.0;
    }
}

/// What a [`Linear`] adds to its result: `alpha / rank * B(A(x))`.
#[derive(Debug)]
pub(super) struct Adapter {
    /// `A`, `[rank, in]`.
    a: Param,
    /// `B`, `[out, rank]`; zeros at first, so that the adapter does nothing yet.
    b: Param,
    dropout: Dropout,
    scale: f64,
}

impl Adapter {
    /// One for a weight `[out, in]`.
    #[track_caller]
    fn of(weight: &Param, opts: &LoraOpts) -> Adapter {
        let (shape, device) = (weight.shape(), weight.device());
        let (inputs, outputs) = (shape.get(1).copied().unwrap_or(0), shape.first().copied().unwrap_or(0));
        Adapter {
            a: Param::new(init::fan_in_uniform([opts.rank, inputs], inputs, device)),
            b: Param::new(Tensor::zeros([outputs, opts.rank], device)),
            dropout: Dropout::new(opts.dropout),
            scale: opts.alpha / opts.rank as f64,
        }
    }

    /// The weight with what the adapter changes it by.
    fn merged(&self, weight: &Param) -> Tensor {
        let weight = weight.get().detach();
        let change = self.b.get().matmul(&self.a.get()).detach() * self.scale;
        (weight.float() + change).to_dtype(weight.dtype())
    }

    /// The result `base` of a layer for `x`, and what the adapter adds to it.
    #[track_caller]
    pub(super) fn beside(&self, base: &Tensor, x: &Tensor) -> Tensor {
        let x = self.dropout.forward(&x.to_dtype(self.a.dtype()));
        let change = x.linear(&self.a.get(), None).linear(&self.b.get(), None) * self.scale;
        base + change.to_dtype(base.dtype())
    }

    /// Shows its parts by PEFT's names.
    pub(super) fn visit(&self, visitor: &mut dyn Visitor) {
        visitor.param("lora_A.weight", &self.a);
        visitor.param("lora_B.weight", &self.b);
        self.dropout.visit_as("lora_dropout", visitor);
    }
}

/// Where a [`Linear`] keeps its adapter.
#[derive(Debug, Default)]
pub(super) struct AdapterSlot(Arc<RwLock<Option<Arc<Adapter>>>>);

impl AdapterSlot {
    pub(super) fn get(&self) -> Option<Arc<Adapter>> {
        let now = held(&self.0);
        if function_scope::is_open() {
            let (own, was) = (self.0.clone(), now.clone());
            function_scope::assume(Arc::new(move || {
                held(&own).as_ref().map(Arc::as_ptr) == was.as_ref().map(Arc::as_ptr)
            }));
        }
        now
    }

    fn put(&self, adapter: Option<Adapter>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = adapter.map(Arc::new);
    }
}

fn held(slot: &RwLock<Option<Arc<Adapter>>>) -> Option<Arc<Adapter>> {
    slot.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Freezes a model and puts a trained adapter that does nothing yet beside every [`Linear`] among
/// `targets`, in `F32` on its device: `y = W x + alpha / rank * B A x` with `A` of `[rank, in]` and `B` of
/// `[out, rank]` (Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021). Gives the
/// parameters to train.
///
/// A target is a layer's name or the end of one: `q_proj` is that of all layers. The weights may be
/// quantized: gradients flow through packed ones, so a model trains in little more than the memory that
/// they take. An adapter that is there already is replaced. PEFT: `get_peft_model`.
///
/// # Errors
/// A target that no `Linear` has; a rank of 0; the error recorded in a weight. The model is then as it was.
///
/// # Examples
/// ```
/// use kiln::nn::{Layer, Linear, LoraOpts, ModuleExt, Sequential, add_lora, merge_lora};
/// use kiln::optim::{AdamW, AdamWOpts, Optimizer};
/// use kiln::prelude::*;
/// use kiln::Quantization;
/// let model = Sequential::new().push(Linear::new(64, 32, ())).push(Linear::new(32, 32, ()));
/// model.quantize(Quantization::Q4_0, Default::default())?;
/// let trained = add_lora(&model, LoraOpts::default().rank(4), &["0", "1"])?;
/// assert_eq!(trained.len(), 4);
/// let mut optimizer = AdamW::new(trained, AdamWOpts::default());
/// let x = Tensor::randn([8, 64], ());
/// let before = model.forward(&x).square().mean(..).item::<f32>()?;
/// for _ in 0..3 {
///     optimizer.zero_grad();
///     model.forward(&x).square().mean(..).backward()?;
///     optimizer.step()?;
/// }
/// assert!(model.forward(&x).square().mean(..).item::<f32>()? < before);
/// # Ok::<(), kiln::Error>(())
/// ```
#[track_caller]
pub fn add_lora<M: Module + ?Sized>(model: &M, opts: LoraOpts, targets: &[&str]) -> Result<Vec<Param>> {
    let span = Span::caller();
    let wrong =
        |expected: String, found: String| Err(Error::Argument { call: "add_lora", expected, found, span });
    if opts.rank == 0 {
        return wrong("a rank of at least 1".into(), "0".into());
    }
    let _line = span.enter();
    let (mut met, mut checked) = (vec![false; targets.len()], Ok(()));
    each_linear(model, &mut |name, linear| {
        for (met, _) in met.iter_mut().zip(targets).filter(|(_, target)| is_named(name, target)) {
            *met = true;
            checked = checked.clone().and(linear.weight.get().check());
        }
    });
    if let Some((_, target)) = met.iter().zip(targets).find(|(met, _)| !**met) {
        return wrong("the name of a `Linear`, or its end".into(), format!("{target:?}"));
    }
    checked?;
    model.parameters().iter().for_each(|param| param.set_requires_grad(false));
    let mut trained = Vec::new();
    each_linear(model, &mut |name, linear| {
        if targets.iter().any(|target| is_named(name, target)) {
            let adapter = Adapter::of(&linear.weight, &opts);
            trained.extend([adapter.a.clone(), adapter.b.clone()]);
            linear.adapter.put(Some(adapter));
        }
    });
    Ok(trained)
}

/// Adds the adapters of a model to its weights, which are ordinary ones then, in memory, and removes them.
///
/// # Errors
/// What computing a weight says. The model is then as it was.
///
/// # Examples
/// ```
/// use kiln::nn::{Layer, Linear, ModuleExt, Sequential, add_lora, merge_lora};
/// use kiln::prelude::*;
/// let model = Sequential::new().push(Linear::new(8, 4, ()));
/// let trained = add_lora(&model, Default::default(), &["0"])?;
/// trained[1].set(&Tensor::randn([4, 8], ()))?;
/// let x = Tensor::randn([2, 8], ());
/// let adapted = model.forward(&x).realize()?.clone();
/// merge_lora(&model)?;
/// assert_eq!(model.parameters().len(), 2);
/// assert!((model.forward(&x) - adapted).abs().max(..).item::<f32>()? < 1e-4);
/// # Ok::<(), kiln::Error>(())
/// ```
#[track_caller]
pub fn merge_lora<M: Module + ?Sized>(model: &M) -> Result<()> {
    let span = Span::caller();
    let _line = span.enter();
    let mut sums = Vec::new();
    each_linear(model, &mut |_, linear| {
        sums.extend(linear.adapter.get().map(|it| it.merged(&linear.weight)))
    });
    crate::realize(&sums.iter().collect::<Vec<_>>())?;
    let (mut sums, mut put) = (sums.into_iter(), Ok(()));
    each_linear(model, &mut |_, linear| {
        if linear.adapter.get().is_some()
            && let Some(sum) = sums.next()
        {
            put = put.clone().and(linear.weight.replace(&sum, span));
            linear.adapter.put(None);
        }
    });
    put
}

/// Whether a layer's name is the target, or ends in it.
fn is_named(name: &str, target: &str) -> bool {
    name.strip_suffix(target).is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

/// Calls `look` with each [`Linear`] of a model and its full name, in order.
fn each_linear<M: Module + ?Sized>(model: &M, look: &mut dyn FnMut(&str, &Linear)) {
    model.visit(&mut LinearVisitor { prefix: String::new(), look });
}

struct LinearVisitor<'a> {
    /// The names before, with a dot after each.
    prefix: String,
    look: &'a mut dyn FnMut(&str, &Linear),
}

impl Visitor for LinearVisitor<'_> {
    fn param(&mut self, _name: &str, _param: &Param) {}
    fn buffer(&mut self, _name: &str, _buffer: &Buffer) {}
    fn training(&mut self, _training: &Training) {}
    fn child(&mut self, name: &str, module: &dyn Module) {
        let name = format!("{}{name}", self.prefix);
        match module.as_linear() {
            Some(linear) => (self.look)(&name, linear),
            None => module.visit(&mut LinearVisitor { prefix: name + ".", look: self.look }),
        }
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
/// use kiln::nn::{Linear, ModuleExt, Sequential, adapter_state, add_lora};
/// use kiln::{LoadOpts, Result};
/// let model = || -> Result<Sequential> {
///     let model = Sequential::new().push(Linear::new(4, 2, ()));
///     add_lora(&model, Default::default(), &["0"])?;
///     Ok(model)
/// };
/// let file = adapter_state(&model()?)?;
/// let names: Vec<&str> = file.iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["base_model.model.0.lora_A.weight", "base_model.model.0.lora_B.weight"]);
/// let opts = LoadOpts::default().strip_prefix("base_model.model").strict(false);
/// assert_eq!(model()?.load_state_dict_with(&file, opts)?.loaded.len(), 2);
/// # Ok::<(), kiln::Error>(())
/// ```
pub fn adapter_state<M: Module + ?Sized>(model: &M) -> Result<StateDict> {
    let mut state = StateDict::new();
    let named = model.named_parameters().into_iter();
    let mut adapters = named.filter(|(name, _)| name.contains("lora_A.") || name.contains("lora_B."));
    adapters.try_for_each(|(name, param)| state.insert(format!("{PEFT_PREFIX}.{name}"), &param.get()))?;
    Ok(state)
}
