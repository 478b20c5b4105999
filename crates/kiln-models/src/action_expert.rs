//! SmolVLA's action expert.

use kiln::LoadOpts;
use kiln::nn::{AttentionInput, AttentionLayerOpts, Layer, Linear, MultiheadAttention, RMSNorm};
use kiln::tensor::{Place, Tensor};

use crate::activation::Activation;
use crate::config::Config;
use crate::error::Result;
use crate::llama::LlamaMlp;

/// The part of SmolVLA (Shukor et al. 2025) that moves a robot: noisy actions, a time and what a model of
/// vision and language sees, to how the actions are to change. Every second layer looks at what is seen, the
/// others at the actions themselves.
///
/// Its shape is the one that the public benchmark inferena states, without rotary embedding: published weights
/// do not fit. Entries of its configuration that are left out are SmolVLA's.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln_models::{ActionExpert, Config};
/// let config = Config::parse("config.json", r#"{
///     "model_type": "smolvla_expert", "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
///     "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4, "action_dim": 6, "context_dim": 12
/// }"#)?;
/// let model = ActionExpert::new(&config, ())?;
/// let (actions, time) = (Tensor::zeros([1, 5, 6], ()), Tensor::zeros([1, 1, 32], ()));
/// let seen = Tensor::zeros([1, 3, 12], ());
/// assert_eq!(model.forward(&actions, &time, &seen).dims()?, [1, 5, 6]);
/// # Ok::<(), kiln_models::Error>(())
/// ```
#[derive(Debug)]
pub struct ActionExpert {
    /// `[width, action]`.
    pub action_in_proj: Linear,
    /// `[width, 2 * width]`.
    pub time_in_proj: Linear,
    /// `[width, context]`.
    pub context_proj: Linear,
    /// The layers, first to last.
    pub layers: Vec<ActionExpertLayer>,
    /// Of the result.
    pub norm: RMSNorm,
    /// `[action, width]`.
    pub action_out_proj: Linear,
}
kiln::module!(ActionExpert { action_in_proj, time_in_proj, context_proj, layers, norm, action_out_proj });

/// A layer of [`ActionExpert`]: attention and a gated perceptron, each added to what comes in.
#[derive(Debug)]
pub struct ActionExpertLayer {
    /// Before attention.
    pub input_layernorm: RMSNorm,
    /// Attention to the actions or to what is seen.
    pub self_attn: MultiheadAttention,
    /// Before the perceptron.
    pub post_attention_layernorm: RMSNorm,
    /// The perceptron.
    pub mlp: LlamaMlp,
}
kiln::module!(ActionExpertLayer { input_layernorm, self_attn, post_attention_layernorm, mlp });

impl ActionExpert {
    /// A model of new weights.
    ///
    /// # Errors
    /// An entry that is wrong, or another kind of model.
    #[track_caller]
    pub fn new(config: &Config, place: impl Into<Place>) -> Result<ActionExpert> {
        config.check_kind("smolvla_expert")?;
        let (place, width) = (place.into(), config.count_or("hidden_size", 720)?);
        let (action, context) = (config.count_or("action_dim", 32)?, config.count_or("context_dim", 320)?);
        let layers = config.layers_or("num_hidden_layers", 16)?;
        let linear = |inputs, outputs| Linear::without_bias(inputs, outputs, place);
        Ok(ActionExpert {
            action_in_proj: linear(action, width),
            time_in_proj: linear(width.saturating_mul(2), width),
            context_proj: linear(context, width),
            layers: (0..layers)
                .map(|_| ActionExpertLayer::new(config, width, place))
                .collect::<Result<_>>()?,
            norm: norm(config, width, place)?,
            action_out_proj: linear(width, action),
        })
    }

    /// How to load files with this type's own names, or `o_proj` as `transformers` has it.
    pub fn load_opts() -> LoadOpts {
        LoadOpts::default().rename("layers.{}.self_attn.o_proj", "layers.{}.self_attn.out_proj")
    }

    /// How actions `[n, l, action]` are to change, for a time `[n, 1, 2 * width]` as waves and what is seen,
    /// `[n, s, context]`.
    #[track_caller]
    pub fn forward(&self, actions: &Tensor, time: &Tensor, seen: &Tensor) -> Tensor {
        let mut x = self.action_in_proj.forward(actions) + self.time_in_proj.forward(time);
        let seen = self.context_proj.forward(seen);
        for (number, layer) in self.layers.iter().enumerate() {
            x = layer.forward(&x, (number % 2 == 1).then_some(&seen));
        }
        self.action_out_proj.forward(&self.norm.forward(&x))
    }
}

impl ActionExpertLayer {
    #[track_caller]
    fn new(config: &Config, width: usize, place: Place) -> Result<ActionExpertLayer> {
        let heads = config.layers_or("num_attention_heads", 15)?;
        let opts = AttentionLayerOpts::default()
            .kv_heads(config.layers_or("num_key_value_heads", 5)?)
            .head_width(config.count_or("head_dim", 64)?)
            .bias(false);
        let inner = config.count_or("intermediate_size", 2048)?;
        Ok(ActionExpertLayer {
            input_layernorm: norm(config, width, place)?,
            self_attn: MultiheadAttention::new(width, heads, opts, place),
            post_attention_layernorm: norm(config, width, place)?,
            mlp: LlamaMlp::new([width, inner], false, Activation::Silu, place),
        })
    }

    #[track_caller]
    fn forward(&self, x: &Tensor, seen: Option<&Tensor>) -> Tensor {
        let mut input = AttentionInput::default();
        input.memory = seen.cloned();
        let x = x + self.self_attn.attend(&self.input_layernorm.forward(x), input);
        &x + self.mlp.forward(&self.post_attention_layernorm.forward(&x))
    }
}

#[track_caller]
fn norm(config: &Config, width: usize, place: Place) -> Result<RMSNorm> {
    Ok(RMSNorm::new([width], place).eps(config.number_or("rms_norm_eps", 1e-5)?))
}
