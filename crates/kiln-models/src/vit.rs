//! Vision transformer.

use kiln::LoadOpts;
use kiln::nn::{AttentionLayerOpts, Conv2d, Layer, LayerNorm, Linear, MultiheadAttention, Param};
use kiln::prelude::ConvOpts;
use kiln::tensor::{Place, Tensor};

use crate::activation::Activation;
use crate::config::Config;
use crate::error::Result;

/// A transformer over patches of images (Dosovitskiy et al. 2020) that classifies them: `[n, 3, h, w]` to
/// `[n, classes]`.
///
/// # Examples
/// ```
/// use kiln::nn::Layer;
/// use kiln::prelude::*;
/// use kiln_models::{Config, Vit};
/// let config = Config::parse("config.json", r#"{
///     "model_type": "vit", "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
///     "num_attention_heads": 4, "image_size": 32, "patch_size": 8, "num_labels": 10
/// }"#)?;
/// let model = Vit::new(&config, ())?;
/// assert_eq!(model.forward(&Tensor::zeros([2, 3, 32, 32], ())).dims()?, [2, 10]);
/// # Ok::<(), kiln_models::Error>(())
/// ```
#[derive(Debug)]
pub struct Vit {
    /// Goes before the patches, `[1, 1, width]`; the scores are made of what becomes of it.
    pub cls_token: Param,
    /// `[1, 1 + patches, width]`.
    pub position_embeddings: Param,
    /// A vector of each patch.
    pub projection: Conv2d,
    /// The layers, first to last.
    pub layers: Vec<VitLayer>,
    /// Before the scores.
    pub layernorm: LayerNorm,
    /// The scores.
    pub classifier: Linear,
}
kiln::module!(Vit { cls_token, position_embeddings, projection, layers, layernorm, classifier });

/// A layer of [`Vit`].
#[derive(Debug)]
pub struct VitLayer {
    /// Before attention.
    pub layernorm_before: LayerNorm,
    /// Attention among all positions.
    pub attention: MultiheadAttention,
    /// Before the perceptron.
    pub layernorm_after: LayerNorm,
    /// Into the perceptron.
    pub intermediate: Linear,
    /// Out of it.
    pub output: Linear,
    activation: Activation,
}
kiln::module!(VitLayer {
    layernorm_before, attention, layernorm_after, intermediate, output; skip activation
});

impl Vit {
    /// A model of new weights. On [`Device::meta`](kiln::Device::meta) it takes no memory until weights are
    /// loaded.
    ///
    /// # Errors
    /// An entry that is missing or wrong, or another kind of model.
    #[track_caller]
    pub fn new(config: &Config, place: impl Into<Place>) -> Result<Vit> {
        config.check_kind("vit")?;
        let (place, width) = (place.into(), config.count_or("hidden_size", 768)?);
        let (image, patch) = (config.count_or("image_size", 224)?, config.count_or("patch_size", 16)?);
        if patch == 0 || patch > image {
            return Err(config.wrong("patch_size", format!("from 1 to {image}"), patch));
        }
        let positions = (image / patch).saturating_mul(image / patch).saturating_add(1);
        let normal = |count| Param::new(Tensor::randn([1, count, width], place) * 0.02);
        let channels = config.count_or("num_channels", 3)?;
        let cut = ConvOpts::default().stride(patch);
        let layers = (0..config.layers("num_hidden_layers")?).map(|_| VitLayer::new(config, width, place));
        Ok(Vit {
            cls_token: normal(1),
            position_embeddings: normal(positions),
            projection: Conv2d::new(channels, width, [patch, patch], cut, place),
            layers: layers.collect::<Result<_>>()?,
            layernorm: norm(config, width, place)?,
            classifier: Linear::new(width, config.classes()?, place),
        })
    }

    /// How to load files with the names of `transformers`.
    ///
    /// # Examples
    /// ```
    /// let opts = kiln_models::Vit::load_opts();
    /// let name = opts.renamed("vit.encoder.layer.3.attention.attention.query.weight");
    /// assert_eq!(name, "layers.3.attention.q_proj.weight");
    /// assert_eq!(opts.renamed("vit.layers.3.attention.q_proj.weight"), name);
    /// ```
    pub fn load_opts() -> LoadOpts {
        LoadOpts::default()
            .strip_prefix("vit")
            .rename_all([
                ("embeddings.patch_embeddings.projection", "projection"),
                ("embeddings", ""),
                ("encoder.layer.{}.attention.attention.query", "layers.{}.attention.q_proj"),
                ("encoder.layer.{}.attention.attention.key", "layers.{}.attention.k_proj"),
                ("encoder.layer.{}.attention.attention.value", "layers.{}.attention.v_proj"),
                ("encoder.layer.{}.attention.output.dense", "layers.{}.attention.out_proj"),
                ("encoder.layer.{}.intermediate.dense", "layers.{}.intermediate"),
                ("encoder.layer.{}.output.dense", "layers.{}.output"),
                ("encoder.layer", "layers"),
                // Since version 5.
                ("layers.{}.attention.o_proj", "layers.{}.attention.out_proj"),
                ("layers.{}.mlp.fc1", "layers.{}.intermediate"),
                ("layers.{}.mlp.fc2", "layers.{}.output"),
            ])
            .ignore("pooler")
    }
}

impl Layer for Vit {
    /// Scores `[n, classes]` of images `[n, 3, h, w]`.
    #[track_caller]
    fn forward(&self, images: &Tensor) -> Tensor {
        let patches = self.projection.forward(images).flatten(2, 3).transpose(1, 2);
        let (count, token) = (images.shape().first().copied().unwrap_or(0), self.cls_token.get());
        let width = token.shape().last().copied().unwrap_or(0);
        let x =
            Tensor::cat(&[&token.expand([count, 1, width]), &patches], 1) + self.position_embeddings.get();
        let x = self.layers.iter().fold(x, |x, layer| layer.forward(&x));
        self.classifier.forward(&self.layernorm.forward(&x).narrow(1, 0, 1).squeeze(1))
    }
}

impl VitLayer {
    #[track_caller]
    fn new(config: &Config, width: usize, place: Place) -> Result<VitLayer> {
        let (heads, inner) =
            (config.layers("num_attention_heads")?, config.count_or("intermediate_size", 3072)?);
        let mut attention = MultiheadAttention::new(width, heads, AttentionLayerOpts::default(), place);
        if !config.flag_or("qkv_bias", true)? {
            for projection in [&mut attention.q_proj, &mut attention.k_proj, &mut attention.v_proj] {
                projection.bias = None;
            }
        }
        Ok(VitLayer {
            layernorm_before: norm(config, width, place)?,
            attention,
            layernorm_after: norm(config, width, place)?,
            intermediate: Linear::new(width, inner, place),
            output: Linear::new(inner, width, place),
            activation: Activation::read(config, "hidden_act", "gelu")?,
        })
    }
}

impl Layer for VitLayer {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = x + self.attention.forward(&self.layernorm_before.forward(x));
        let inner = self.activation.apply(&self.intermediate.forward(&self.layernorm_after.forward(&x)));
        &x + self.output.forward(&inner)
    }
}

#[track_caller]
fn norm(config: &Config, width: usize, place: Place) -> Result<LayerNorm> {
    Ok(LayerNorm::new([width], place).eps(config.number_or("layer_norm_eps", 1e-12)?))
}
