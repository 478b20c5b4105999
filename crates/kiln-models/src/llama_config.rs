//! What distinguishes the models of the Llama family.

use kiln::nn::{AttentionLayerOpts, RMSNorm, Rotary};
use kiln::tensor::Place;

use crate::activation::Activation;
use crate::config::Config;
use crate::error::Result;
use crate::rope::rotary;

/// The shape of a [`Llama`](crate::Llama), read from a [`Config`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LlamaConfig {
    /// Tokens.
    pub vocab: usize,
    /// Channels.
    pub width: usize,
    /// Channels inside the perceptrons.
    pub inner: usize,
    /// Layers.
    pub layers: usize,
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Channels of a head.
    pub head_width: usize,
    /// The longest sequence it was made for.
    pub positions: usize,
    /// Whether the logits are made with the embedding's weights.
    pub tied: bool,
    /// In the perceptrons.
    pub activation: Activation,
    pub(crate) eps: f64,
    /// Added to the weights of norms: 1 for Gemma.
    pub(crate) norm_offset: f64,
    /// Whether norms follow attention and perceptron too: Gemma 2 and 3.
    pub(crate) norms_around: bool,
    pub(crate) embedding_scale: Option<f64>,
    pub(crate) logit_softcap: Option<f64>,
    pub(crate) mlp_bias: bool,
    attention: AttentionLayerOpts,
    /// Rotary embedding and window of each layer whose positions look back only so far.
    sliding: Option<(Rotary, usize)>,
    /// Whether each layer is such a one.
    slides: Vec<bool>,
    /// Whether each layer turns queries and keys by their positions.
    turns: Vec<bool>,
}

/// What kinds of models differ in, beside what their configurations say.
struct Family {
    gemma: bool,
    /// Biases of queries, keys and values.
    bias: bool,
    qk_norm: bool,
    norms_around: bool,
    activation: &'static str,
    /// Every so manieth layer looks at all positions, the others through a window; 0: as one.
    global_every: usize,
    /// Every so manieth layer has no rotary embedding; 0: none.
    plain_every: usize,
    /// Whether a window that is given is used where nothing more is said.
    window: bool,
}

const LLAMA: Family = Family {
    gemma: false,
    bias: false,
    qk_norm: false,
    norms_around: false,
    activation: "silu",
    global_every: 0,
    plain_every: 0,
    window: true,
};
const GEMMA: Family = Family { gemma: true, activation: "gelu_pytorch_tanh", ..LLAMA };

impl Family {
    fn of(config: &Config) -> Result<Family> {
        let name = config.text("model_type")?;
        match name.as_str() {
            "llama" | "mistral" => Ok(LLAMA),
            "smollm3" => Ok(Family { plain_every: 4, window: false, ..LLAMA }),
            "qwen2" => Ok(Family { bias: true, window: false, ..LLAMA }),
            "qwen3" => Ok(Family { qk_norm: true, window: false, ..LLAMA }),
            "gemma" => Ok(GEMMA),
            "gemma2" => Ok(Family { norms_around: true, global_every: 2, ..GEMMA }),
            "gemma3" | "gemma3_text" => {
                Ok(Family { norms_around: true, qk_norm: true, global_every: 6, ..GEMMA })
            }
            other => {
                let known = "llama, mistral, smollm3, qwen2, qwen3, gemma, gemma2 or gemma3_text";
                Err(config.wrong("model_type", known, other))
            }
        }
    }
}

impl LlamaConfig {
    /// Reads a configuration.
    ///
    /// # Errors
    /// An entry that is missing or wrong, or another kind of model.
    pub fn read(config: &Config) -> Result<LlamaConfig> {
        let family = Family::of(config)?;
        let (width, heads) = (config.count("hidden_size")?, config.layers("num_attention_heads")?);
        let kv_heads = config.count_or("num_key_value_heads", heads)?;
        if kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
            let expected = format!("a divisor of {heads} heads");
            return Err(config.wrong("num_key_value_heads", expected, kv_heads));
        }
        let head_width = config.count_or("head_dim", width / heads)?;
        let layers = config.layers("num_hidden_layers")?;
        let eps = config.number_or("rms_norm_eps", 1e-6)?;
        let full = rotary(config, head_width, "full_attention")?;
        let activation = config.text_or("hidden_activation", family.activation)?;
        Ok(LlamaConfig {
            vocab: config.count("vocab_size")?,
            width,
            inner: config.count("intermediate_size")?,
            layers,
            heads,
            kv_heads,
            head_width,
            positions: config.count_or("max_position_embeddings", 2048)?,
            tied: config.flag_or("tie_word_embeddings", family.gemma)?,
            activation: Activation::read(config, "hidden_act", &activation)?,
            eps,
            norm_offset: config.number_or("norm_offset", if family.gemma { 1.0 } else { 0.0 })?,
            norms_around: family.norms_around,
            embedding_scale: family.gemma.then(|| (width as f64).sqrt()),
            logit_softcap: config.maybe_number("final_logit_softcapping")?,
            mlp_bias: config.flag_or("mlp_bias", false)?,
            sliding: sliding(config, &family, head_width, &full)?,
            attention: attention(config, &family, eps)?
                .kv_heads(kv_heads)
                .head_width(head_width)
                .rotary(full),
            slides: slides(config, &family, layers)?,
            turns: turns(config, &family, layers)?,
        })
    }

    /// A norm of all channels.
    #[track_caller]
    pub(crate) fn norm(&self, place: Place) -> RMSNorm {
        RMSNorm::new([self.width], place).eps(self.eps).offset(self.norm_offset)
    }

    /// The attention of a layer.
    pub(crate) fn attention(&self, layer: usize) -> AttentionLayerOpts {
        let plain = self.attention.clone();
        let mut opts = match &self.sliding {
            Some((rotary, window)) if self.slides[layer] => plain.rotary(rotary.clone()).window(*window),
            Some(_) | None => plain,
        };
        opts.rotary = opts.rotary.filter(|_| self.turns[layer]);
        opts
    }
}

fn attention(config: &Config, family: &Family, eps: f64) -> Result<AttentionLayerOpts> {
    let bias = config.flag_or("attention_bias", family.bias)?;
    // Qwen 2 has biases of queries, keys and values only.
    let mut opts = AttentionLayerOpts::default().causal(true).bias(bias).out_bias(bias && !family.bias);
    opts.qk_norm = family.qk_norm.then_some(eps);
    opts.softcap = config.maybe_number("attn_logit_softcapping")?;
    opts.scale = config.maybe_number("query_pre_attn_scalar")?.map(|scalar| scalar.powf(-0.5));
    Ok(opts)
}

fn sliding(config: &Config, family: &Family, width: usize, full: &Rotary) -> Result<Option<(Rotary, usize)>> {
    let used = config.flag_or("use_sliding_window", family.window)?;
    let Some(window) = config.maybe_count("sliding_window")?.filter(|_| used) else { return Ok(None) };
    let rotary = match config.maybe_number("rope_local_base_freq")? {
        Some(base) => Rotary::from(base),
        None if config.section("rope_parameters")?.is_some() => rotary(config, width, "sliding_attention")?,
        // Gemma 3's files of llama.cpp do not say it.
        None if family.qk_norm && family.gemma => Rotary::from(1e4),
        None => full.clone(),
    };
    Ok(Some((rotary, window)))
}

fn slides(config: &Config, family: &Family, layers: usize) -> Result<Vec<bool>> {
    if let Some(types) = config.texts("layer_types")? {
        let slides = types.iter().map(|kind| kind == "sliding_attention").collect();
        return of_layers(config, "layer_types", slides, layers);
    }
    if let Some(first) = config.maybe_count("max_window_layers")? {
        return Ok((0..layers).map(|number| number >= first).collect());
    }
    let every = config.count_or("sliding_window_pattern", family.global_every)?;
    Ok((1..=layers).map(|number| every == 0 || !number.is_multiple_of(every)).collect())
}

fn turns(config: &Config, family: &Family, layers: usize) -> Result<Vec<bool>> {
    if let Some(flags) = config.counts("no_rope_layers")? {
        let turns = flags.iter().map(|&flag| flag != 0).collect();
        return of_layers(config, "no_rope_layers", turns, layers);
    }
    let every = config.count_or("no_rope_layer_interval", family.plain_every)?;
    Ok((1..=layers).map(|number| every == 0 || !number.is_multiple_of(every)).collect())
}

/// What an entry says of each layer.
fn of_layers(config: &Config, key: &str, flags: Vec<bool>, layers: usize) -> Result<Vec<bool>> {
    let expected = || config.wrong(key, format!("{layers} of them"), flags.len());
    if flags.len() == layers { Ok(flags) } else { Err(expected()) }
}
