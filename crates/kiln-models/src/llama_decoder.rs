//! Passes of a Llama model that follow each other, as generation has them.

use kiln::Function;
use kiln::nn::{KvCache, Layer};
use kiln::tensor::Tensor;

use crate::llama::Llama;

/// A [`Llama`] whose layers are [`Function`]s: their graphs are built once for each number of tokens, not on every
/// pass. [`Llama::decoder`] makes one.
///
/// # Examples
/// ```
/// use kiln::nn::{GenerateOpts, Sampling, generate};
/// use kiln::prelude::*;
/// use kiln_models::{Config, Llama};
/// let config = Config::parse("config.json", r#"{
///     "model_type": "llama", "vocab_size": 32, "hidden_size": 16, "intermediate_size": 24,
///     "num_hidden_layers": 2, "num_attention_heads": 4
/// }"#)?;
/// let model = Llama::new(&config, ())?;
/// let (decoder, caches, _no_grad) = (model.decoder(), model.caches(1, 16), kiln::no_grad());
/// let opts = GenerateOpts::default().sampling(Sampling::greedy()).max_tokens(5);
/// let tokens = generate(&[1, 5, 3], opts, (), |tokens| decoder.next(tokens, &caches));
/// assert_eq!(tokens.collect::<Result<Vec<_>, _>>()?.len(), 5);
/// # Ok::<(), kiln_models::Error>(())
/// ```
#[derive(Debug)]
pub struct LlamaDecoder<'a> {
    model: &'a Llama,
    layers: Vec<LayerFunctions>,
}

/// The parts of a pass through a layer: writing is apart, so that caches are written in place.
#[derive(Debug)]
struct LayerFunctions {
    project: Function,
    write: Function,
    attend: Function,
}

impl Llama {
    /// The model for many passes with caches. It computes what [`next`](Self::next) and
    /// [`next_all`](Self::next_all) do.
    pub fn decoder(&self) -> LlamaDecoder<'_> {
        let functions = || {
            let [project, write, attend] = ["project", "write", "attend"].map(Function::new);
            LayerFunctions { project, write, attend }
        };
        LlamaDecoder { model: self, layers: self.layers.iter().map(|_| functions()).collect() }
    }
}

impl LlamaDecoder<'_> {
    /// As [`Llama::next`].
    #[track_caller]
    pub fn next(&self, tokens: &Tensor, caches: &[KvCache]) -> Tensor {
        match self.read("LlamaDecoder::next", tokens, caches) {
            Ok(x) => self.model.last_logits(&x),
            Err(error) => Tensor::build(|| Err(error)),
        }
    }

    /// As [`Llama::next_all`].
    #[track_caller]
    pub fn next_all(&self, tokens: &Tensor, caches: &[KvCache]) -> Tensor {
        match self.read("LlamaDecoder::next_all", tokens, caches) {
            Ok(x) => self.model.logits(&x),
            Err(error) => Tensor::build(|| Err(error)),
        }
    }

    #[track_caller]
    fn read(&self, call: &'static str, tokens: &Tensor, caches: &[KvCache]) -> kiln::Result<Tensor> {
        self.model.read(call, tokens, caches, |layer, x, cache, position| {
            Tensor::build(|| self.pass(layer, x, cache, position))
        })
    }

    /// A pass through a layer, whose keys and values are added to the cache.
    fn pass(&self, number: usize, x: &Tensor, cache: &KvCache, position: &Tensor) -> kiln::Result<Tensor> {
        let (layer, functions, [_, count, _]) = (&self.model.layers[number], &self.layers[number], x.dims()?);
        let (attention, state) = (&layer.self_attn, cache.state(count)?);
        let [position, x] = [position, x].map(Tensor::clone);
        let projected = functions.project.call(&[], &[position.clone(), x.clone()], |inputs| {
            attention.project(&layer.input_layernorm.forward(&inputs[1]), &inputs[0]).to_vec()
        });
        let [q, k, v] = three(projected)?;
        let inputs = [vec![position.clone(), k, v], state.tensors()].concat();
        let written = functions.write.call(&[], &inputs, |inputs| {
            state.with_tensors(&inputs[3..]).append(&inputs[1], &inputs[2], &inputs[0]).tensors()
        });
        let state = state.with_tensors(&written);
        cache.put(&state, count)?;
        let inputs = [vec![position, x, q], written].concat();
        let read = [("read", (state.extent_read() as i64).into())];
        let mut attended = functions.attend.call(&read, &inputs, |inputs| {
            let held = state.with_tensors(&inputs[3..]);
            vec![layer.forward_with(&inputs[1], |_| attention.attend_state(&inputs[2], &held, &inputs[0]))]
        });
        Ok(attended.remove(0))
    }
}

/// The three results of a function.
///
/// # Errors
/// One that is invalid.
fn three(results: Vec<Tensor>) -> kiln::Result<[Tensor; 3]> {
    results.iter().try_for_each(Tensor::check)?;
    Ok(results.try_into().unwrap_or_else(|found| unreachable!("a function of three results gave {found:?}")))
}
