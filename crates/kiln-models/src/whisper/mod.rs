//! Whisper: speech to text.

mod config;
mod decoder;
mod encoder;
mod features;

use kiln::nn::{GenerateOpts, Layer, Sampling, generate};
use kiln::tensor::{Place, Tensor};
use kiln::{LoadOpts, no_grad};

pub use config::{WhisperConfig, WhisperStack};
pub use decoder::{WhisperDecoder, WhisperDecoderLayer, WhisperState};
pub use encoder::{WhisperEncoder, WhisperEncoderLayer};
pub use features::log_mel;

use crate::config::Config;
use crate::error::{Error, Result};

/// Speech to text (Radford et al. 2022): an encoder of the spectra of 30 seconds, and a decoder of tokens
/// that looks at what the encoder made.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln_models::{Config, Whisper};
/// let config = Config::parse("config.json", r#"{
///     "model_type": "whisper", "vocab_size": 32, "d_model": 16, "num_mel_bins": 8,
///     "encoder_layers": 1, "encoder_attention_heads": 2, "encoder_ffn_dim": 24,
///     "decoder_layers": 1, "decoder_attention_heads": 2, "decoder_ffn_dim": 24,
///     "max_source_positions": 10, "max_target_positions": 12, "decoder_start_token_id": 1, "eos_token_id": 2
/// }"#)?;
/// let model = Whisper::new(&config, ())?;
/// let sound = Tensor::linspace(-1.0, 1.0, 3000, ());
/// let features = model.features(&sound).unsqueeze(0);
/// assert_eq!(features.dims()?, [1, 8, 20]);
/// let tokens = model.transcribe(&features, &[1, 5], 4)?;
/// assert!(tokens.len() <= 4);
/// # Ok::<(), kiln_models::Error>(())
/// ```
#[derive(Debug)]
pub struct Whisper {
    /// Of spectra.
    pub encoder: WhisperEncoder,
    /// Of tokens.
    pub decoder: WhisperDecoder,
    config: WhisperConfig,
}
kiln::module!(Whisper { encoder, decoder; skip config });

impl Whisper {
    /// A model of new weights. On [`Device::meta`](kiln::Device::meta) it takes no memory until weights are
    /// loaded.
    ///
    /// # Errors
    /// An entry that is missing or wrong, or another kind of model.
    #[track_caller]
    pub fn new(config: &Config, place: impl Into<Place>) -> Result<Whisper> {
        let (config, place) = (WhisperConfig::read(config)?, place.into());
        let (encoder, decoder) = (WhisperEncoder::of(&config, place), WhisperDecoder::of(&config, place));
        Ok(Whisper { encoder, decoder, config })
    }

    /// What its shape is.
    pub fn config(&self) -> &WhisperConfig {
        &self.config
    }

    /// How to load files with the names of `transformers`.
    ///
    /// # Examples
    /// ```
    /// let name = kiln_models::Whisper::load_opts().renamed("model.decoder.layers.3.encoder_attn.q_proj.weight");
    /// assert_eq!(name, "decoder.layers.3.encoder_attn.q_proj.weight");
    /// ```
    pub fn load_opts() -> LoadOpts {
        // The scores' weights are those of the tokens' vectors.
        LoadOpts::default().strip_prefix("model").ignore("proj_out")
    }

    /// The spectra `[mels, frames]` of sound `[time]`, 16,000 samples a second: silence is added to what is
    /// shorter than the model hears, and what is longer is cut ([`log_mel`]).
    #[track_caller]
    pub fn features(&self, sound: &Tensor) -> Tensor {
        let (held, most) = (sound.shape().last().copied().unwrap_or(0), self.config.samples());
        let sound = sound.narrow(-1, 0, held.min(most));
        log_mel(&sound.pad(&[0, most.saturating_sub(held) as i64], 0.0), self.config.mels)
    }

    /// Logits `[n, l, vocab]` of what follows each of the tokens `[n, l]`, for features
    /// `[n, mels, frames]`.
    #[track_caller]
    pub fn forward(&self, features: &Tensor, tokens: &Tensor) -> Tensor {
        self.decoder.forward(tokens, &self.encoder.forward(features))
    }

    /// The likeliest tokens that follow those of the prompt, for features `[1, mels, frames]`: at most `most`
    /// of them, or as many as the model has positions for, up to the one that ends texts.
    ///
    /// A prompt says the language and the task; without one it is the token that starts texts.
    ///
    /// # Errors
    /// A prompt of more tokens than the model has positions; those of the features and of devices.
    #[track_caller]
    pub fn transcribe(&self, features: &Tensor, prompt: &[i64], most: usize) -> Result<Vec<i64>> {
        let (start, positions) = ([self.config.start], self.config.positions);
        let prompt = if prompt.is_empty() { &start } else { prompt };
        let left = positions.checked_sub(prompt.len());
        let left = left.ok_or(Error::TooLong { found: prompt.len(), most: positions })?;
        let _no_graph = no_grad();
        let state = self.decoder.state(&self.encoder.forward(features), positions);
        state.realize()?;
        let mut first = true;
        let step = |tokens: &Tensor| {
            let logits = self.config.suppressed(&self.decoder.next(tokens, &state), first);
            first = false;
            logits
        };
        let opts = GenerateOpts::default().sampling(Sampling::greedy()).max_tokens(most.min(left));
        let opts = opts.stop(vec![self.config.end]);
        Ok(generate(prompt, opts, features.device(), step).collect::<kiln::Result<_>>()?)
    }
}
