//! Whisper: speech to text.

mod config;
mod decoder;
mod encoder;
mod features;

use kiln::nn::{Beam, BeamOpts, GenerateOpts, Layer, Sampling, beam_search, generate};
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
        let (prompt, left, _no_graph) = (self.prompt(prompt), self.left(prompt)?, no_grad());
        let state = self.state(features, 1)?;
        let opts = GenerateOpts::default().sampling(Sampling::greedy()).max_tokens(most.min(left));
        let opts = opts.stop(vec![self.config.end]);
        Ok(generate(prompt, opts, features.device(), self.step(&state)).collect::<kiln::Result<_>>()?)
    }

    /// The texts that are likeliest as a whole, the best first, where [`transcribe`](Self::transcribe) takes the
    /// likeliest token each time ([`beam_search`]). Five beams are usual.
    ///
    /// # Errors
    /// As those of `transcribe`; no beam.
    ///
    /// # Examples
    /// ```
    /// use kiln::nn::BeamOpts;
    /// use kiln::prelude::*;
    /// use kiln_models::{Config, Whisper};
    /// let config = Config::parse("config.json", r#"{
    ///     "model_type": "whisper", "vocab_size": 32, "d_model": 16, "num_mel_bins": 8,
    ///     "encoder_layers": 1, "encoder_attention_heads": 2, "encoder_ffn_dim": 24,
    ///     "decoder_layers": 1, "decoder_attention_heads": 2, "decoder_ffn_dim": 24
    /// }"#)?;
    /// let model = Whisper::new(&config, ())?;
    /// let opts = BeamOpts::default().beams(3).max_tokens(4);
    /// let beams = model.transcribe_beams(&Tensor::ones([1, 8, 40], ()), &[1, 5], opts)?;
    /// assert!(beams[0].score >= beams[1].score);
    /// # Ok::<(), kiln_models::Error>(())
    /// ```
    #[track_caller]
    pub fn transcribe_beams(&self, features: &Tensor, prompt: &[i64], opts: BeamOpts) -> Result<Vec<Beam>> {
        let (prompt, left, _no_graph) = (self.prompt(prompt), self.left(prompt)?, no_grad());
        let state = self.state(features, opts.beams)?;
        let most = opts.max_tokens.min(left);
        let opts = opts.max_tokens(most).stop(vec![self.config.end]);
        Ok(beam_search(prompt, opts, features.device(), state.caches(), self.step(&state))?)
    }

    /// A prompt, or the token that starts texts.
    fn prompt<'a>(&'a self, prompt: &'a [i64]) -> &'a [i64] {
        if prompt.is_empty() { std::slice::from_ref(&self.config.start) } else { prompt }
    }

    /// How many positions are left after a prompt.
    fn left(&self, prompt: &[i64]) -> Result<usize> {
        let (found, most) = (self.prompt(prompt).len(), self.config.positions);
        most.checked_sub(found).ok_or(Error::TooLong { found, most })
    }

    /// What the decoder needs of features `[1, mels, frames]` for so many texts.
    #[track_caller]
    fn state(&self, features: &Tensor, texts: usize) -> Result<WhisperState> {
        let encoded = self.encoder.forward(features);
        let encoded = Tensor::cat(&vec![&encoded; texts.max(1)], 0);
        let state = self.decoder.state(&encoded, self.config.positions);
        state.realize()?;
        Ok(state)
    }

    /// Logits of what follows tokens, without those that are never written, or not at first.
    fn step<'a>(&'a self, state: &'a WhisperState) -> impl FnMut(&Tensor) -> Tensor + 'a {
        let mut first = true;
        move |tokens| {
            let logits = self.config.suppressed(&self.decoder.next(tokens, state), first);
            first = false;
            logits
        }
    }
}
