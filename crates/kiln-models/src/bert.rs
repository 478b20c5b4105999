//! BERT, and what is built like it.

use kiln::LoadOpts;
use kiln::nn::{AttentionInput, AttentionLayerOpts, Embedding, Layer, LayerNorm, Linear, MultiheadAttention};
use kiln::tensor::{Place, Tensor};

use crate::activation::Activation;
use crate::config::Config;
use crate::error::Result;

/// An encoder (Devlin et al. 2018): token numbers `[n, l]` to vectors `[n, l, width]`. RoBERTa, XLM-RoBERTa,
/// CamemBERT and DistilBERT are such encoders too.
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
    /// Of the first and the second text, `[2, width]`; DistilBERT has none.
    pub token_type_embeddings: Option<Embedding>,
    /// Of the embeddings' sum.
    pub norm: LayerNorm,
    /// The layers, first to last.
    pub layers: Vec<BertLayer>,
    first_position: usize,
}
kiln::module!(Bert {
    word_embeddings, position_embeddings, token_type_embeddings, norm, layers;
    skip first_position
});

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

/// What a kind of encoder calls the entries of its configuration, and where it differs.
struct Kind {
    width: &'static str,
    inner: &'static str,
    layers: &'static str,
    heads: &'static str,
    activation: &'static str,
    /// Entries of the table of texts' numbers.
    types: usize,
    /// Whether positions are counted from the one after that of padding.
    padded: bool,
}

const BERT: Kind = Kind {
    width: "hidden_size",
    inner: "intermediate_size",
    layers: "num_hidden_layers",
    heads: "num_attention_heads",
    activation: "hidden_act",
    types: 2,
    padded: false,
};
const ROBERTA: Kind = Kind { padded: true, ..BERT };
const DISTILBERT: Kind = Kind {
    width: "dim",
    inner: "hidden_dim",
    layers: "n_layers",
    heads: "n_heads",
    activation: "activation",
    types: 0,
    padded: false,
};

impl Kind {
    fn of(config: &Config) -> Result<Kind> {
        match config.text("model_type")?.as_str() {
            "bert" => Ok(BERT),
            "roberta" | "xlm-roberta" | "camembert" => Ok(ROBERTA),
            "distilbert" => Ok(DISTILBERT),
            other => {
                let known = "bert, roberta, xlm-roberta, camembert or distilbert";
                Err(config.wrong("model_type", known, other))
            }
        }
    }

    fn first_position(&self, config: &Config, positions: usize) -> Result<usize> {
        let padding = if self.padded { Some(config.count_or("pad_token_id", 1)?) } else { None };
        let first = padding.map_or(0, |padding| padding.saturating_add(1));
        let expected = || config.wrong("max_position_embeddings", format!("more than {first}"), positions);
        if first < positions { Ok(first) } else { Err(expected()) }
    }
}

impl Bert {
    /// A model of new weights. On [`Device::meta`](kiln::Device::meta) it takes no memory until weights are
    /// loaded.
    ///
    /// # Errors
    /// An entry that is missing or wrong, or another kind of model.
    #[track_caller]
    pub fn new(config: &Config, place: impl Into<Place>) -> Result<Bert> {
        let kind = Kind::of(config)?;
        let (place, width) = (place.into(), config.count(kind.width)?);
        let embedding = |entries| Embedding::new(entries, width, place);
        let layer = |_| BertLayer::new(config, &kind, width, place);
        let positions = config.count_or("max_position_embeddings", 512)?;
        let types = config.count_or("type_vocab_size", kind.types)?;
        Ok(Bert {
            word_embeddings: embedding(config.count("vocab_size")?),
            position_embeddings: embedding(positions),
            token_type_embeddings: (types > 0).then(|| embedding(types)),
            norm: norm(config, width, place)?,
            layers: (0..config.layers(kind.layers)?).map(layer).collect::<Result<_>>()?,
            first_position: kind.first_position(config, positions)?,
        })
    }

    /// The longest text it was made for, in tokens.
    pub fn positions(&self) -> usize {
        let all = self.position_embeddings.weight.shape().first().copied().unwrap_or(0);
        all.saturating_sub(self.first_position)
    }

    /// How to load files with the names of `transformers`, with or without the layers of a task.
    ///
    /// # Examples
    /// ```
    /// let name = kiln_models::Bert::load_opts().renamed("bert.encoder.layer.3.attention.self.query.weight");
    /// assert_eq!(name, "layers.3.attention.q_proj.weight");
    /// ```
    pub fn load_opts() -> LoadOpts {
        let heads = HEADS.iter().fold(LoadOpts::default(), |opts, head| opts.ignore(head));
        heads
            // Files that came from TensorFlow.
            .rename_with(|name| name.replace("LayerNorm.gamma", "LayerNorm.weight"))
            .rename_with(|name| name.replace("LayerNorm.beta", "LayerNorm.bias"))
            .strip_prefix("bert")
            .strip_prefix("roberta")
            .strip_prefix("distilbert")
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
                ("transformer.layer.{}.attention.q_lin", "layers.{}.attention.q_proj"),
                ("transformer.layer.{}.attention.k_lin", "layers.{}.attention.k_proj"),
                ("transformer.layer.{}.attention.v_lin", "layers.{}.attention.v_proj"),
                ("transformer.layer.{}.attention.out_lin", "layers.{}.attention.out_proj"),
                ("transformer.layer.{}.sa_layer_norm", "layers.{}.attention_norm"),
                ("transformer.layer.{}.ffn.lin1", "layers.{}.intermediate"),
                ("transformer.layer.{}.ffn.lin2", "layers.{}.output"),
                ("transformer.layer.{}.output_layer_norm", "layers.{}.output_norm"),
            ])
            .ignore("position_ids")
    }

    /// Vectors `[n, l, width]` of tokens `[n, l]`. `mask`, `Bool` `[n, l]`, says which of them count.
    #[track_caller]
    pub fn encode(&self, tokens: &Tensor, mask: Option<&Tensor>) -> Tensor {
        let length = tokens.shape().get(1).copied().unwrap_or(0);
        let places = self.position_embeddings.weight.get().narrow(0, self.first_position as i64, length);
        let x = self.word_embeddings.forward(tokens) + places;
        let x = match &self.token_type_embeddings {
            Some(types) => x + types.weight.get().narrow(0, 0, 1),
            None => x,
        };
        let x = self.norm.forward(&x);
        let mut input = AttentionInput::default();
        input.mask = mask.map(|mask| mask.unsqueeze(1).unsqueeze(1));
        self.layers.iter().fold(x, |x, layer| layer.forward(&x, input.clone()))
    }
}

/// Layers of tasks, and what makes one vector of a text.
const HEADS: [&str; 9] = [
    "pooler",
    "cls",
    "classifier",
    "pre_classifier",
    "qa_outputs",
    "lm_head",
    "vocab_transform",
    "vocab_layer_norm",
    "vocab_projector",
];

impl BertLayer {
    #[track_caller]
    fn new(config: &Config, kind: &Kind, width: usize, place: Place) -> Result<BertLayer> {
        let (heads, inner) = (config.layers(kind.heads)?, config.count(kind.inner)?);
        Ok(BertLayer {
            attention: MultiheadAttention::new(width, heads, AttentionLayerOpts::default(), place),
            attention_norm: norm(config, width, place)?,
            intermediate: Linear::new(width, inner, place),
            output: Linear::new(inner, width, place),
            output_norm: norm(config, width, place)?,
            activation: Activation::read(config, kind.activation, "gelu")?,
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
