//! Decoders of the Llama family: Llama, SmolLM2 and 3, Mistral, Qwen 2 and 3, Gemma to Gemma 3.

use kiln::nn::{Embedding, KvCache, Layer, Linear, MultiheadAttention, RMSNorm};
use kiln::tensor::{Place, Tensor};
use kiln::{LoadOpts, Span, StateDict};

use crate::activation::Activation;
use crate::config::Config;
use crate::error::Result;
use crate::llama_config::LlamaConfig;

/// A decoder of the Llama family (Touvron et al. 2023): token numbers `[n, l]` to logits `[n, l, vocab]`.
///
/// Parameters are named as in `transformers`, except that projections of attention's results are
/// `out_proj`; [`Llama::load_opts`] renames what files have.
///
/// # Examples
/// ```
/// use kiln::nn::{Layer, ModuleExt};
/// use kiln::prelude::*;
/// use kiln_models::{Config, Llama};
/// let config = Config::parse("config.json", r#"{
///     "model_type": "llama", "vocab_size": 32, "hidden_size": 16, "intermediate_size": 24,
///     "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
///     "tie_word_embeddings": true
/// }"#)?;
/// let model = Llama::new(&config, ())?;
/// let tokens = Tensor::from([[1i64, 5, 3]]);
/// assert_eq!(model.forward(&tokens).shape()[..], [1, 3, 32]);
///
/// // The same, position by position.
/// let caches = model.caches(1, 8);
/// let mut last = Tensor::zeros([1, 32], ());
/// for i in 0..3 {
///     last = model.next(&tokens.narrow(1, i, 1), &caches);
/// }
/// let whole = model.forward(&tokens).i((.., -1));
/// assert!((last - whole).abs().max(..).item::<f32>()? < 1e-5);
/// # Ok::<(), kiln_models::Error>(())
/// ```
#[derive(Debug)]
pub struct Llama {
    /// `[vocab, width]`.
    pub embed_tokens: Embedding,
    /// The layers, first to last.
    pub layers: Vec<LlamaLayer>,
    /// Before the logits.
    pub norm: RMSNorm,
    /// `[vocab, width]`; the embedding's weights if `None`.
    pub lm_head: Option<Linear>,
    config: LlamaConfig,
}
kiln::module!(Llama { embed_tokens, layers, norm, lm_head; skip config });

/// A layer of [`Llama`]: attention and a gated perceptron, each added to what comes in.
#[derive(Debug)]
pub struct LlamaLayer {
    /// Before attention.
    pub input_layernorm: RMSNorm,
    /// Attention to the position itself and those before.
    pub self_attn: MultiheadAttention,
    /// Before the perceptron; in Gemma 2 and 3 after attention.
    pub post_attention_layernorm: RMSNorm,
    /// Gemma 2 and 3: before the perceptron.
    pub pre_feedforward_layernorm: Option<RMSNorm>,
    /// Gemma 2 and 3: after the perceptron.
    pub post_feedforward_layernorm: Option<RMSNorm>,
    /// The perceptron.
    pub mlp: LlamaMlp,
}
kiln::module!(LlamaLayer {
    input_layernorm,
    self_attn,
    post_attention_layernorm,
    pre_feedforward_layernorm,
    post_feedforward_layernorm,
    mlp,
});

/// `down(activation(gate(x)) * up(x))` (Shazeer 2020).
#[derive(Debug)]
pub struct LlamaMlp {
    /// `[inner, width]`.
    pub gate_proj: Linear,
    /// `[inner, width]`.
    pub up_proj: Linear,
    /// `[width, inner]`.
    pub down_proj: Linear,
    activation: Activation,
}
kiln::module!(LlamaMlp { gate_proj, up_proj, down_proj; skip activation });

impl Llama {
    /// A model of new weights. On [`Device::meta`](kiln::Device::meta) it takes no memory until weights are
    /// loaded.
    ///
    /// # Errors
    /// An entry that is missing or wrong, or another kind of model.
    #[track_caller]
    pub fn new(config: &Config, place: impl Into<Place>) -> Result<Llama> {
        let (config, place) = (LlamaConfig::read(config)?, place.into());
        let layers = (0..config.layers).map(|number| LlamaLayer::new(&config, number, place)).collect();
        let head = || Linear::without_bias(config.width, config.vocab, place);
        Ok(Llama {
            embed_tokens: Embedding::new(config.vocab, config.width, place),
            layers,
            norm: config.norm(place),
            lm_head: (!config.tied).then(head),
            config,
        })
    }

    /// What its shape is.
    pub fn config(&self) -> &LlamaConfig {
        &self.config
    }

    /// How to load files with the names of `transformers`.
    ///
    /// # Examples
    /// ```
    /// let name = kiln_models::Llama::load_opts().renamed("model.layers.3.self_attn.o_proj.weight");
    /// assert_eq!(name, "layers.3.self_attn.out_proj.weight");
    /// ```
    pub fn load_opts() -> LoadOpts {
        // Old files have tables that are computed.
        LoadOpts::default()
            .strip_prefix("base_model.model")
            .strip_prefix("language_model")
            .strip_prefix("model")
            .rename("layers.{}.self_attn.o_proj", "layers.{}.self_attn.out_proj")
            .ignore("layers.{}.self_attn.rotary_emb")
    }

    /// The adapters ([`add_lora`](kiln::nn::add_lora)) by the names that PEFT gives them beside the model of
    /// `transformers`. [`Llama::load_opts`], not strict, reads them.
    ///
    /// # Errors
    /// The error recorded in one of them.
    ///
    /// # Examples
    /// ```
    /// use kiln::nn::{LoraOpts, ModuleExt, add_lora};
    /// use kiln_models::{Config, Llama};
    /// let config = Config::parse("config.json", r#"{
    ///     "model_type": "llama", "vocab_size": 32, "hidden_size": 16, "intermediate_size": 24,
    ///     "num_hidden_layers": 1, "num_attention_heads": 4
    /// }"#)?;
    /// let model = Llama::new(&config, ())?;
    /// add_lora(&model, LoraOpts::default(), &["out_proj"])?;
    /// let file = model.adapter_state()?;
    /// let name = "base_model.model.model.layers.0.self_attn.o_proj.lora_A.weight";
    /// assert_eq!(file.iter().next().map(|(name, _)| name), Some(name));
    /// let report = model.load_state_dict_with(&file, Llama::load_opts().strict(false))?;
    /// assert_eq!(report.loaded.len(), 2);
    /// # Ok::<(), kiln_models::Error>(())
    /// ```
    pub fn adapter_state(&self) -> Result<StateDict> {
        let own = kiln::nn::adapter_state(self)?;
        let mut published = StateDict::new();
        for (name, tensor) in own.part("base_model.model").iter() {
            let name = name.replace(".out_proj.", ".o_proj.");
            published.insert(format!("base_model.model.model.{name}"), tensor)?;
        }
        Ok(published)
    }

    /// Empty caches, one a layer, for `batch` sequences of up to `capacity` positions each.
    #[track_caller]
    pub fn caches(&self, batch: usize, capacity: usize) -> Vec<KvCache> {
        self.layers.iter().map(|layer| layer.self_attn.cache(batch, capacity)).collect()
    }

    /// The logits `[n, vocab]` of what follows tokens `[n, l]`, which follow those in the caches and are
    /// added to them.
    ///
    /// Invalid where there is not one cache a layer, all of one length, and as
    /// [`attend_cached`](MultiheadAttention::attend_cached) is.
    #[track_caller]
    pub fn next(&self, tokens: &Tensor, caches: &[KvCache]) -> Tensor {
        match self.read("Llama::next", tokens, caches, self.plain_pass()) {
            Ok(x) => self.last_logits(&x),
            Err(error) => Tensor::build(|| Err(error)),
        }
    }

    /// The logits `[n, l, vocab]` of what follows each of tokens `[n, l]`, as [`next`](Self::next) gives
    /// those of what follows the last: for [`speculate`](kiln::nn::speculate()).
    ///
    /// Invalid as that is.
    #[track_caller]
    pub fn next_all(&self, tokens: &Tensor, caches: &[KvCache]) -> Tensor {
        match self.read("Llama::next_all", tokens, caches, self.plain_pass()) {
            Ok(x) => self.logits(&x),
            Err(error) => Tensor::build(|| Err(error)),
        }
    }

    /// A pass through a layer, by its number, of what comes in, with its cache and the position of the first token.
    fn plain_pass(&self) -> impl Fn(usize, &Tensor, &KvCache, &Tensor) -> Tensor {
        |layer, x, cache, position| {
            let layer = &self.layers[layer];
            layer.forward_with(x, |x| layer.self_attn.attend_cached_at(x, cache, position))
        }
    }

    /// What the layers make of tokens that follow those in the caches: `[n, l, width]`; `pass` is one through a
    /// layer.
    #[track_caller]
    pub(crate) fn read(
        &self,
        call: &'static str,
        tokens: &Tensor,
        caches: &[KvCache],
        pass: impl Fn(usize, &Tensor, &KvCache, &Tensor) -> Tensor,
    ) -> kiln::Result<Tensor> {
        let (layers, span) = (self.layers.len(), Span::caller());
        let alike = |first: &&KvCache| {
            caches.len() == layers && caches.iter().all(|cache| cache.len() == first.len())
        };
        let Some(first) = caches.first().filter(alike) else {
            let lengths: Vec<usize> = caches.iter().map(KvCache::len).collect();
            let expected = format!("{layers} caches of one length");
            let found = format!("{} of lengths {lengths:?}", caches.len());
            return Err(kiln::Error::Argument { call, expected, found, span });
        };
        let position = first.position();
        let numbered = caches.iter().enumerate();
        Ok(numbered.fold(self.embedded(tokens), |x, (layer, cache)| pass(layer, &x, cache, &position)))
    }

    /// Embeddings `[n, l, width]` of tokens `[n, l]`.
    #[track_caller]
    fn embedded(&self, tokens: &Tensor) -> Tensor {
        let x = self.embed_tokens.forward(tokens);
        match self.config.embedding_scale {
            // The factor is rounded to the weights' type, as in the models' own code.
            Some(scale) => &x * Tensor::full([], scale, (x.device(), x.dtype())),
            None => x,
        }
    }

    /// The logits `[n, vocab]` at the last position.
    #[track_caller]
    pub(crate) fn last_logits(&self, x: &Tensor) -> Tensor {
        self.logits(&x.narrow(1, -1, 1)).squeeze(1)
    }

    #[track_caller]
    pub(crate) fn logits(&self, x: &Tensor) -> Tensor {
        let x = self.norm.forward(x);
        let logits = match &self.lm_head {
            Some(head) => head.forward(&x),
            None => x.linear(&self.embed_tokens.weight.get(), None),
        };
        match self.config.logit_softcap {
            Some(cap) => (logits / cap).tanh() * cap,
            None => logits,
        }
    }
}

impl Layer for Llama {
    /// Logits of what follows each position.
    #[track_caller]
    fn forward(&self, tokens: &Tensor) -> Tensor {
        let embedded = self.embedded(tokens);
        let x = self.layers.iter().fold(embedded, |x, layer| layer.forward(&x));
        self.logits(&x)
    }
}

impl LlamaLayer {
    #[track_caller]
    fn new(config: &LlamaConfig, number: usize, place: Place) -> LlamaLayer {
        let opts = config.attention(number);
        let mut self_attn = MultiheadAttention::new(config.width, config.heads, opts, place);
        // Gemma's norms of queries and keys count from one as well.
        for norm in [&mut self_attn.q_norm, &mut self_attn.k_norm] {
            *norm = norm.take().map(|norm| norm.offset(config.norm_offset));
        }
        let around = || config.norms_around.then(|| config.norm(place));
        LlamaLayer {
            input_layernorm: config.norm(place),
            self_attn,
            post_attention_layernorm: config.norm(place),
            pre_feedforward_layernorm: around(),
            post_feedforward_layernorm: around(),
            mlp: LlamaMlp::new([config.width, config.inner], config.mlp_bias, config.activation, place),
        }
    }

    #[track_caller]
    pub(crate) fn forward_with(&self, x: &Tensor, attend: impl FnOnce(&Tensor) -> Tensor) -> Tensor {
        let attended = attend(&self.input_layernorm.forward(x));
        match (&self.pre_feedforward_layernorm, &self.post_feedforward_layernorm) {
            (Some(before), Some(after)) => {
                let x = x + self.post_attention_layernorm.forward(&attended);
                &x + after.forward(&self.mlp.forward(&before.forward(&x)))
            }
            (Some(_) | None, _) => {
                let x = x + attended;
                &x + self.mlp.forward(&self.post_attention_layernorm.forward(&x))
            }
        }
    }
}

impl Layer for LlamaLayer {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        self.forward_with(x, |x| self.self_attn.forward(x))
    }
}

impl LlamaMlp {
    #[track_caller]
    pub(crate) fn new(
        [width, inner]: [usize; 2],
        bias: bool,
        activation: Activation,
        place: Place,
    ) -> LlamaMlp {
        let linear = |inputs, outputs| {
            if bias {
                Linear::new(inputs, outputs, place)
            } else {
                Linear::without_bias(inputs, outputs, place)
            }
        };
        LlamaMlp {
            gate_proj: linear(width, inner),
            up_proj: linear(width, inner),
            down_proj: linear(inner, width),
            activation,
        }
    }
}

impl Layer for LlamaMlp {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let gate = self.activation.apply(&self.gate_proj.forward(x));
        self.down_proj.forward(&(gate * self.up_proj.forward(x)))
    }
}
