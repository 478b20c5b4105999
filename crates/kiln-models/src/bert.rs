//! BERT, and what is built like it.

use kiln::LoadOpts;
use kiln::nn::{AttentionInput, AttentionLayerOpts, Embedding, Layer, LayerNorm, Linear, MultiheadAttention};
use kiln::tensor::{Place, Tensor};

use crate::activation::Activation;
use crate::config::Config;
use crate::error::Result;

/// An encoder (Devlin et al. 2018): token numbers `[n, l]` to vectors `[n, l, width]`.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln_models::{Bert, Config};
/// let config = Config::parse("config.json", r#"{
///     "model_type": "bert", "vocab_size": 32, "hidden_size": 16, "intermediate_size": 24,
///     "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 8
/// }"#)?;
/// let model = Bert::new(&config, ())?;
/// // The second text is shorter; its last place counts for nothing.
/// let tokens = Tensor::from([[1i64, 5, 3], [1, 4, 0]]);
/// let mask = Tensor::from([[true, true, true], [true, true, false]]);
/// let vectors = model.encode(&tokens, Some(&mask));
/// let alone = model.encode(&tokens.narrow(0, 1, 1).narrow(1, 0, 2), None);
/// let difference = vectors.narrow(0, 1, 1).narrow(1, 0, 2) - alone;
/// assert!(difference.abs().max(..).item::<f32>()? < 1e-5);
/// # Ok::<(), kiln_models::Error>(())
/// ```
#[derive(Debug)]
pub struct Bert {
    /// Of tokens, `[vocab, width]`.
    pub word_embeddings: Embedding,
    /// Of places, `[positions, width]`.
    pub position_embeddings: Embedding,
    /// Of the first and the second text, `[2, width]`.
    pub token_type_embeddings: Embedding,
    /// Of the embeddings' sum.
    pub norm: LayerNorm,
    /// The layers, first to last.
    pub layers: Vec<BertLayer>,
}
kiln::module!(Bert { word_embeddings, position_embeddings, token_type_embeddings, norm, layers });

/// A layer of [`Bert`].
#[derive(Debug)]
pub struct BertLayer {
    /// Attention among all positions.
    pub attention: MultiheadAttention,
    /// After attention.
    pub attention_norm: LayerNorm,
    /// Into the perceptron.
    pub intermediate: Linear,
    /// Out of it.
    pub output: Linear,
    /// After the perceptron.
    pub output_norm: LayerNorm,
    activation: Activation,
}
kiln::module!(BertLayer { attention, attention_norm, intermediate, output, output_norm; skip activation });

impl Bert {
    /// A model of new weights. On [`Device::meta`](kiln::Device::meta) it takes no memory until weights are
    /// loaded.
    ///
    /// # Errors
    /// An entry that is missing or wrong, or another kind of model.
    #[track_caller]
    pub fn new(config: &Config, place: impl Into<Place>) -> Result<Bert> {
        config.check_kind("bert")?;
        let (place, width) = (place.into(), config.count("hidden_size")?);
        let embedding = |entries| Embedding::new(entries, width, place);
        let layer = |_| BertLayer::new(config, width, place);
        Ok(Bert {
            word_embeddings: embedding(config.count("vocab_size")?),
            position_embeddings: embedding(config.count_or("max_position_embeddings", 512)?),
            token_type_embeddings: embedding(config.count_or("type_vocab_size", 2)?),
            norm: norm(config, width, place)?,
            layers: (0..config.layers("num_hidden_layers")?).map(layer).collect::<Result<_>>()?,
        })
    }

    /// How to load files with the names of `transformers`, with or without the layers of a task.
    ///
    /// # Examples
    /// ```
    /// let name = kiln_models::Bert::load_opts().renamed("bert.encoder.layer.3.attention.self.query.weight");
    /// assert_eq!(name, "layers.3.attention.q_proj.weight");
    /// ```
    pub fn load_opts() -> LoadOpts {
        LoadOpts::default()
            .strip_prefix("bert")
            .rename_all([
                ("embeddings.LayerNorm", "norm"),
                ("embeddings", ""),
                ("encoder.layer.{}.attention.self.query", "layers.{}.attention.q_proj"),
                ("encoder.layer.{}.attention.self.key", "layers.{}.attention.k_proj"),
                ("encoder.layer.{}.attention.self.value", "layers.{}.attention.v_proj"),
                ("encoder.layer.{}.attention.output.dense", "layers.{}.attention.out_proj"),
                ("encoder.layer.{}.attention.output.LayerNorm", "layers.{}.attention_norm"),
                ("encoder.layer.{}.intermediate.dense", "layers.{}.intermediate"),
                ("encoder.layer.{}.output.dense", "layers.{}.output"),
                ("encoder.layer.{}.output.LayerNorm", "layers.{}.output_norm"),
            ])
            .ignore("position_ids")
            .ignore("pooler")
            .ignore("cls")
    }

    /// Vectors `[n, l, width]` of tokens `[n, l]`. `mask`, `Bool` `[n, l]`, says which of them count.
    #[track_caller]
    pub fn encode(&self, tokens: &Tensor, mask: Option<&Tensor>) -> Tensor {
        let length = tokens.shape().get(1).copied().unwrap_or(0);
        let places = self.position_embeddings.weight.get().narrow(0, 0, length);
        let first = self.token_type_embeddings.weight.get().narrow(0, 0, 1);
        let x = self.norm.forward(&(self.word_embeddings.forward(tokens) + places + first));
        let mut input = AttentionInput::default();
        input.mask = mask.map(|mask| mask.unsqueeze(1).unsqueeze(1));
        self.layers.iter().fold(x, |x, layer| layer.forward(&x, input.clone()))
    }
}

impl BertLayer {
    #[track_caller]
    fn new(config: &Config, width: usize, place: Place) -> Result<BertLayer> {
        let (heads, inner) = (config.layers("num_attention_heads")?, config.count("intermediate_size")?);
        Ok(BertLayer {
            attention: MultiheadAttention::new(width, heads, AttentionLayerOpts::default(), place),
            attention_norm: norm(config, width, place)?,
            intermediate: Linear::new(width, inner, place),
            output: Linear::new(inner, width, place),
            output_norm: norm(config, width, place)?,
            activation: Activation::read(config, "hidden_act", "gelu")?,
        })
    }

    #[track_caller]
    fn forward(&self, x: &Tensor, input: AttentionInput) -> Tensor {
        let x = self.attention_norm.forward(&(x + self.attention.attend(x, input)));
        let inner = self.activation.apply(&self.intermediate.forward(&x));
        self.output_norm.forward(&(&x + self.output.forward(&inner)))
    }
}

#[track_caller]
fn norm(config: &Config, width: usize, place: Place) -> Result<LayerNorm> {
    Ok(LayerNorm::new([width], place).eps(config.number_or("layer_norm_eps", 1e-12)?))
}
