//! Whisper's encoder.

use kiln::nn::{AttentionLayerOpts, Conv1d, Embedding, Layer, LayerNorm, Linear, MultiheadAttention};
use kiln::prelude::ConvOpts;
use kiln::tensor::{Place, Tensor};

use crate::activation::Activation;
use crate::config::Config;
use crate::error::Result;
use crate::whisper::config::{WhisperConfig, WhisperStack};

/// The encoder of [`Whisper`](crate::Whisper): features `[n, mels, frames]` to `[n, frames / 2, width]`.
#[derive(Debug)]
pub struct WhisperEncoder {
    /// Over time.
    pub conv1: Conv1d,
    /// Over time, every second frame.
    pub conv2: Conv1d,
    /// `[positions, width]`: waves, which are not trained.
    pub embed_positions: Embedding,
    /// The layers, first to last.
    pub layers: Vec<WhisperEncoderLayer>,
    /// Of the result.
    pub layer_norm: LayerNorm,
    activation: Activation,
}
kiln::module!(WhisperEncoder { conv1, conv2, embed_positions, layers, layer_norm; skip activation });

/// A layer of [`WhisperEncoder`].
#[derive(Debug)]
pub struct WhisperEncoderLayer {
    /// Attention among all positions.
    pub self_attn: MultiheadAttention,
    /// Before it.
    pub self_attn_layer_norm: LayerNorm,
    /// Into the perceptron.
    pub fc1: Linear,
    /// Out of it.
    pub fc2: Linear,
    /// Before the perceptron.
    pub final_layer_norm: LayerNorm,
    activation: Activation,
}
kiln::module!(WhisperEncoderLayer {
    self_attn, self_attn_layer_norm, fc1, fc2, final_layer_norm; skip activation
});

impl WhisperEncoder {
    /// The encoder alone, of new weights.
    ///
    /// # Errors
    /// An entry that is missing or wrong, or another kind of model.
    ///
    /// # Examples
    /// ```
    /// use kiln::nn::Layer;
    /// use kiln::prelude::*;
    /// use kiln_models::{Config, WhisperEncoder};
    /// let config = Config::parse("config.json", r#"{
    ///     "model_type": "whisper", "vocab_size": 32, "d_model": 16, "num_mel_bins": 8,
    ///     "encoder_layers": 1, "encoder_attention_heads": 2, "encoder_ffn_dim": 24,
    ///     "decoder_layers": 1, "decoder_attention_heads": 2, "decoder_ffn_dim": 24
    /// }"#)?;
    /// let encoder = WhisperEncoder::new(&config, ())?;
    /// assert_eq!(encoder.forward(&Tensor::zeros([1, 8, 100], ())).dims()?, [1, 50, 16]);
    /// # Ok::<(), kiln_models::Error>(())
    /// ```
    #[track_caller]
    pub fn new(config: &Config, place: impl Into<Place>) -> Result<WhisperEncoder> {
        Ok(WhisperEncoder::of(&WhisperConfig::read(config)?, place.into()))
    }

    #[track_caller]
    pub(super) fn of(config: &WhisperConfig, place: Place) -> WhisperEncoder {
        let width = config.width;
        let conv = |inputs, stride| {
            Conv1d::new(inputs, width, [3], ConvOpts::default().stride(stride).padding(1), place)
        };
        let mut embed_positions = Embedding::new(0, width, place);
        embed_positions.weight = kiln::nn::Param::new(waves(config.source_positions, width, place));
        embed_positions.weight.set_requires_grad(false);
        WhisperEncoder {
            conv1: conv(config.mels, 1),
            conv2: conv(width, 2),
            embed_positions,
            layers: (0..config.encoder.layers).map(|_| WhisperEncoderLayer::new(config, place)).collect(),
            layer_norm: LayerNorm::new([width], place),
            activation: config.activation,
        }
    }
}

/// The sines and cosines of positions: `[count, width]`, wave lengths from 2π to 10,000 times as much.
#[track_caller]
fn waves(count: usize, width: usize, place: Place) -> Tensor {
    let half = width / 2;
    let up_to =
        |count: usize| Tensor::arange(0, count as i64, 1, Place { dtype: Some(kiln::DType::F32), ..place });
    let speeds = (up_to(half) * (-(1e4f64.ln()) / half.saturating_sub(1).max(1) as f64)).exp();
    let angles = up_to(count).unsqueeze(1) * speeds;
    let waves = Tensor::cat(&[&angles.sin(), &angles.cos()], 1);
    place.dtype.map_or_else(|| waves.clone(), |dtype| waves.to_dtype(dtype))
}

/// Attention as all of Whisper's layers have it: keys have no bias.
#[track_caller]
pub(super) fn attention(width: usize, stack: WhisperStack, causal: bool, place: Place) -> MultiheadAttention {
    let opts = AttentionLayerOpts::default().causal(causal);
    let mut attention = MultiheadAttention::new(width, stack.heads, opts, place);
    attention.k_proj.bias = None;
    attention
}

impl Layer for WhisperEncoder {
    #[track_caller]
    fn forward(&self, features: &Tensor) -> Tensor {
        let features = features.to_dtype(self.conv1.weight.dtype());
        let x = self.activation.apply(&self.conv1.forward(&features));
        let x = self.activation.apply(&self.conv2.forward(&x)).transpose(1, 2);
        let length = x.shape().get(1).copied().unwrap_or(0);
        let x = x + self.embed_positions.weight.get().narrow(0, 0, length);
        self.layer_norm.forward(&self.layers.iter().fold(x, |x, layer| layer.forward(&x)))
    }
}

impl WhisperEncoderLayer {
    #[track_caller]
    fn new(config: &WhisperConfig, place: Place) -> WhisperEncoderLayer {
        let (width, inner) = (config.width, config.encoder.inner);
        WhisperEncoderLayer {
            self_attn: attention(width, config.encoder, false, place),
            self_attn_layer_norm: LayerNorm::new([width], place),
            fc1: Linear::new(width, inner, place),
            fc2: Linear::new(inner, width, place),
            final_layer_norm: LayerNorm::new([width], place),
            activation: config.activation,
        }
    }
}

impl Layer for WhisperEncoderLayer {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = x + self.self_attn.forward(&self.self_attn_layer_norm.forward(x));
        let inner = self.activation.apply(&self.fc1.forward(&self.final_layer_norm.forward(&x)));
        &x + self.fc2.forward(&inner)
    }
}
