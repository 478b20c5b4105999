//! Whisper's decoder.

use kiln::nn::{AttentionInput, Embedding, KvCache, Layer, LayerNorm, Linear, MultiheadAttention, Param};
use kiln::prelude::DType;
use kiln::tensor::{Place, Tensor};
use kiln::{Span, realize};

use crate::activation::Activation;
use crate::error::Result;
use crate::whisper::config::WhisperConfig;
use crate::whisper::encoder::attention;

/// The decoder of [`Whisper`](crate::Whisper): tokens `[n, l]`, beside what the encoder made, to logits
/// `[n, l, vocab]`.
#[derive(Debug)]
pub struct WhisperDecoder {
    /// `[vocab, width]`; also the scores' weights.
    pub embed_tokens: Embedding,
    /// `[positions, width]`.
    pub embed_positions: Embedding,
    /// The layers, first to last.
    pub layers: Vec<WhisperDecoderLayer>,
    /// Before the scores.
    pub layer_norm: LayerNorm,
}
kiln::module!(WhisperDecoder { embed_tokens, embed_positions, layers, layer_norm });

/// A layer of [`WhisperDecoder`].
#[derive(Debug)]
pub struct WhisperDecoderLayer {
    /// Attention to the position itself and those before.
    pub self_attn: MultiheadAttention,
    /// Before it.
    pub self_attn_layer_norm: LayerNorm,
    /// Attention to what the encoder made.
    pub encoder_attn: MultiheadAttention,
    /// Before it.
    pub encoder_attn_layer_norm: LayerNorm,
    /// Into the perceptron.
    pub fc1: Linear,
    /// Out of it.
    pub fc2: Linear,
    /// Before the perceptron.
    pub final_layer_norm: LayerNorm,
    activation: Activation,
}
kiln::module!(WhisperDecoderLayer {
    self_attn, self_attn_layer_norm, encoder_attn, encoder_attn_layer_norm, fc1, fc2, final_layer_norm;
    skip activation
});

/// What [`WhisperDecoder::next`] keeps from token to token: keys and values of the text so far, which grow,
/// and of what the encoder made, which are projected once.
#[derive(Debug)]
pub struct WhisperState {
    /// Of the text, one a layer.
    caches: Vec<KvCache>,
    /// Of the source, one a layer.
    sources: Vec<[Tensor; 2]>,
}

impl WhisperState {
    /// Computes the source's keys and values now, in one plan.
    ///
    /// # Errors
    /// The error recorded in what the encoder made; those of devices.
    #[track_caller]
    pub fn realize(&self) -> Result<()> {
        Ok(realize(&self.sources.iter().flatten().collect::<Vec<_>>())?)
    }
    /// How many tokens the decoder has seen.
    pub fn len(&self) -> usize {
        self.caches.first().map_or(0, KvCache::len)
    }
    /// Whether it has seen none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Of the text, one a layer.
    pub(super) fn caches(&self) -> &[KvCache] {
        &self.caches
    }
}

impl WhisperDecoder {
    #[track_caller]
    pub(super) fn of(config: &WhisperConfig, place: Place) -> WhisperDecoder {
        let width = config.width;
        let normal =
            |entries: usize| Embedding { weight: Param::new(Tensor::randn([entries, width], place) * 0.02) };
        WhisperDecoder {
            embed_tokens: normal(config.vocab),
            embed_positions: normal(config.positions),
            layers: (0..config.decoder.layers).map(|_| WhisperDecoderLayer::new(config, place)).collect(),
            layer_norm: LayerNorm::new([width], place),
        }
    }

    /// A state for texts of up to `capacity` tokens beside `encoded` `[n, s, width]`, before any token.
    #[track_caller]
    pub fn state(&self, encoded: &Tensor, capacity: usize) -> WhisperState {
        let batch = encoded.shape().first().copied().unwrap_or(0);
        WhisperState {
            caches: self.layers.iter().map(|layer| layer.self_attn.cache(batch, capacity)).collect(),
            sources: self.layers.iter().map(|layer| layer.encoder_attn.keys_values(encoded)).collect(),
        }
    }

    /// Logits `[n, l, vocab]` of what follows each of the tokens.
    #[track_caller]
    pub fn forward(&self, tokens: &Tensor, encoded: &Tensor) -> Tensor {
        let length = tokens.shape().get(1).copied().unwrap_or(0);
        let positions = self.embed_positions.weight.get().narrow(0, 0, length);
        let x = self.embed_tokens.forward(tokens) + positions;
        self.logits(&self.layers.iter().fold(x, |x, layer| {
            let source = layer.encoder_attn.keys_values(encoded);
            layer.forward(&x, source, |x| layer.self_attn.forward(x))
        }))
    }

    /// The logits `[n, vocab]` of what follows tokens `[n, l]`, which follow those that the state has seen
    /// and are added to them.
    ///
    /// Invalid where the state is of another model, and as
    /// [`attend_cached`](MultiheadAttention::attend_cached) is.
    ///
    /// # Examples
    /// ```
    /// use kiln::nn::Layer;
    /// use kiln::prelude::*;
    /// use kiln_models::{Config, Whisper};
    /// let config = Config::parse("config.json", r#"{
    ///     "model_type": "whisper", "vocab_size": 32, "d_model": 16, "num_mel_bins": 8,
    ///     "encoder_layers": 1, "encoder_attention_heads": 2, "encoder_ffn_dim": 24,
    ///     "decoder_layers": 1, "decoder_attention_heads": 2, "decoder_ffn_dim": 24
    /// }"#)?;
    /// let model = Whisper::new(&config, ())?;
    /// let encoded = model.encoder.forward(&Tensor::ones([1, 8, 40], ()));
    /// let state = model.decoder.state(&encoded, 16);
    /// let logits = model.decoder.next(&Tensor::from([[1i64, 5]]), &state);
    /// assert_eq!((logits.dims()?, state.len()), ([1, 32], 2));
    /// # Ok::<(), kiln_models::Error>(())
    /// ```
    #[track_caller]
    pub fn next(&self, tokens: &Tensor, state: &WhisperState) -> Tensor {
        let (layers, found) = (self.layers.len(), state.caches.len());
        let Some(first) = state.caches.first().filter(|_| layers == found) else {
            let [expected, found] = [layers, found].map(|count| format!("a state of {count} layers"));
            let (call, span) = ("WhisperDecoder::next", Span::caller());
            return Tensor::build(|| Err(kiln::Error::Argument { call, expected, found, span }));
        };
        let (position, length) = (first.position(), tokens.shape().get(1).copied().unwrap_or(0));
        let place = (position.device(), DType::I64);
        let positions = Tensor::arange(0, length as i64, 1, place) + &position;
        let x = self.embed_tokens.forward(tokens) + self.embed_positions.forward(&positions);
        let held = self.layers.iter().zip(state.caches.iter().zip(&state.sources));
        let x = held.fold(x, |x, (layer, (cache, source))| {
            let attend = |x: &Tensor| layer.self_attn.attend_cached_at(x, cache, &position);
            layer.forward(&x, source.clone(), attend)
        });
        self.logits(&x.narrow(1, -1, 1)).squeeze(1)
    }

    #[track_caller]
    fn logits(&self, x: &Tensor) -> Tensor {
        self.layer_norm.forward(x).linear(&self.embed_tokens.weight.get(), None)
    }
}

impl WhisperDecoderLayer {
    #[track_caller]
    fn new(config: &WhisperConfig, place: Place) -> WhisperDecoderLayer {
        let (width, inner) = (config.width, config.decoder.inner);
        let norm = || LayerNorm::new([width], place);
        WhisperDecoderLayer {
            self_attn: attention(width, config.decoder, true, place),
            self_attn_layer_norm: norm(),
            encoder_attn: attention(width, config.decoder, false, place),
            encoder_attn_layer_norm: norm(),
            fc1: Linear::new(width, inner, place),
            fc2: Linear::new(inner, width, place),
            final_layer_norm: norm(),
            activation: config.activation,
        }
    }

    #[track_caller]
    fn forward(&self, x: &Tensor, source: [Tensor; 2], attend: impl FnOnce(&Tensor) -> Tensor) -> Tensor {
        let x = x + attend(&self.self_attn_layer_norm.forward(x));
        let input = AttentionInput::default().keys_values(source);
        let x = &x + self.encoder_attn.attend(&self.encoder_attn_layer_norm.forward(&x), input);
        let inner = self.activation.apply(&self.fc1.forward(&self.final_layer_norm.forward(&x)));
        &x + self.fc2.forward(&inner)
    }
}
