//! The shape of a Whisper.

use kiln::tensor::Tensor;

use crate::activation::Activation;
use crate::config::Config;
use crate::error::Result;
use crate::whisper::features::HOP;

/// What a Whisper's `config.json` says.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WhisperConfig {
    /// Tokens.
    pub vocab: usize,
    /// Channels.
    pub width: usize,
    /// Bands of the spectra.
    pub mels: usize,
    /// Positions of the encoder, each of two frames.
    pub source_positions: usize,
    /// Positions of the decoder.
    pub positions: usize,
    /// The encoder.
    pub encoder: WhisperStack,
    /// The decoder.
    pub decoder: WhisperStack,
    /// The token that starts texts.
    pub start: i64,
    /// The token that ends texts.
    pub end: i64,
    /// Tokens that are never picked.
    pub suppress: Vec<i64>,
    /// Tokens that are not picked first.
    pub suppress_first: Vec<i64>,
    pub(super) activation: Activation,
}

/// The layers of an encoder or a decoder.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct WhisperStack {
    /// How many.
    pub layers: usize,
    /// Heads of attention.
    pub heads: usize,
    /// Channels inside of the perceptrons.
    pub inner: usize,
}

impl WhisperConfig {
    /// Reads a configuration.
    ///
    /// # Errors
    /// An entry that is missing or wrong, or another kind of model.
    pub fn read(config: &Config) -> Result<WhisperConfig> {
        config.check_kind("whisper")?;
        let stack = |part: &str| -> Result<WhisperStack> {
            Ok(WhisperStack {
                layers: config.layers(&format!("{part}_layers"))?,
                heads: config.layers(&format!("{part}_attention_heads"))?,
                inner: config.count(&format!("{part}_ffn_dim"))?,
            })
        };
        let tokens = |key: &str| -> Result<Vec<i64>> {
            Ok(config.counts(key)?.unwrap_or_default().into_iter().map(|token| token as i64).collect())
        };
        Ok(WhisperConfig {
            vocab: config.count("vocab_size")?,
            width: config.count("d_model")?,
            mels: config.count_or("num_mel_bins", 80)?,
            source_positions: config.count_or("max_source_positions", 1500)?,
            positions: config.count_or("max_target_positions", 448)?,
            encoder: stack("encoder")?,
            decoder: stack("decoder")?,
            start: config.count_or("decoder_start_token_id", 50_257)? as i64,
            end: config.count_or("eos_token_id", 50_257)? as i64,
            suppress: tokens("suppress_tokens")?,
            suppress_first: tokens("begin_suppress_tokens")?,
            activation: Activation::read(config, "activation_function", "gelu")?,
        })
    }

    /// Samples of the sound that it hears: two frames a position.
    pub fn samples(&self) -> usize {
        self.source_positions.saturating_mul(2 * HOP)
    }

    /// Logits `[n, vocab]` without the tokens that may not be picked.
    #[track_caller]
    pub(super) fn suppressed(&self, logits: &Tensor, first: bool) -> Tensor {
        let also = if first { &self.suppress_first[..] } else { &[] };
        let tokens: Vec<i64> = self.suppress.iter().chain(also).copied().collect();
        if tokens.is_empty() {
            return logits.clone();
        }
        let count = tokens.len();
        let shape = [logits.shape().first().copied().unwrap_or(0), count];
        let never = Tensor::full(shape, f64::NEG_INFINITY, (logits.device(), logits.dtype()));
        logits.scatter(-1, &Tensor::from_vec(tokens, [1, count], logits.device()).expand(shape), &never)
    }
}
