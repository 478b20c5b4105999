//! Loading of models' weights.

use kiln::nn::{Module, ModuleExt, QuantizeOpts};
use kiln::{DType, Device, LoadOpts, Quantization, StateDict};

use crate::checkpoint::Checkpoint;
use crate::config::Config;
use crate::error::Result;
use crate::{ActionExpert, Bert, Llama, ResNet, UNet, UNet2d, Vit, Whisper};

/// Where and how a model's weights are to be kept.
///
/// # Examples
/// ```
/// use kiln::{DType, Device, Quantization};
/// use kiln_models::LoadModelOpts;
/// let opts = LoadModelOpts::default().device(Device::cpu()).dtype(DType::F32).quantize(Quantization::Q8_0);
/// assert_eq!(opts.quantize, Some(Quantization::Q8_0));
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LoadModelOpts {
    /// Where to; the default device if `None`.
    pub device: Option<Device>,
    /// The type of weights that are not quantized; the file's if `None`.
    pub dtype: Option<DType>,
    /// Quantizes the matrices. Those that the file has quantized stay as they are.
    pub quantize: Option<Quantization>,
}

impl LoadModelOpts {
    /// With this `device`.
    #[must_use]
    pub fn device(mut self, device: Device) -> Self {
        self.device = Some(device);
        self
    }
    /// With this `dtype`.
    #[must_use]
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.dtype = Some(dtype);
        self
    }
    /// With this `quantize`.
    #[must_use]
    pub fn quantize(mut self, quantization: Quantization) -> Self {
        self.quantize = Some(quantization);
        self
    }

    /// A model of a checkpoint: built without memory, then given the file's weights.
    #[track_caller]
    fn load<M: Module>(
        self,
        checkpoint: &Checkpoint,
        names: LoadOpts,
        build: impl FnOnce(&Config, (Device, DType)) -> Result<M>,
    ) -> Result<M> {
        let dtype = self.dtype.unwrap_or_else(|| main_type(checkpoint.state()));
        let model = build(checkpoint.config(), (Device::meta(), dtype))?;
        let device = self.device.unwrap_or_else(kiln::default_device);
        model.load_state_dict_with(checkpoint.state(), names.convert(true).device(device))?;
        if let Some(quantization) = self.quantize.filter(|_| checkpoint.gguf().is_none()) {
            model.quantize(quantization, QuantizeOpts::default())?;
        }
        Ok(model)
    }
}

impl Llama {
    /// The model of a checkpoint.
    ///
    /// # Errors
    /// Another kind of model; weights that do not fit; those of reading and moving them.
    #[track_caller]
    pub fn load(checkpoint: &Checkpoint, opts: LoadModelOpts) -> Result<Llama> {
        let config = checkpoint.config();
        let names = match checkpoint.gguf() {
            Some(_) => gguf_names(&config.text("model_type")?),
            None => Llama::load_opts(),
        };
        // A tied head may be written all the same.
        let tied = config.flag_or("tie_word_embeddings", false)?;
        let names = if tied { names.ignore("lm_head") } else { names };
        opts.load(checkpoint, names, |config, place| Llama::new(config, place))
    }
}

/// Loading of models whose files have one set of names.
macro_rules! load {
    ($($model:ident),*) => {$(
        impl $model {
            /// The model of a checkpoint.
            ///
            /// # Errors
            /// Another kind of model; weights that do not fit; those of reading and moving them.
            #[track_caller]
            pub fn load(checkpoint: &Checkpoint, opts: LoadModelOpts) -> Result<$model> {
                opts.load(checkpoint, $model::load_opts(), |config, place| $model::new(config, place))
            }
        }
    )*};
}
load!(ActionExpert, Bert, ResNet, UNet, UNet2d, Vit, Whisper);

/// The floating type of most tensors; `F32` where the numbers are packed.
fn main_type(state: &StateDict) -> DType {
    let mut bytes = [(DType::F32, 0), (DType::F16, 0), (DType::BF16, 0), (DType::F64, 0)];
    for (_, tensor) in state.iter() {
        let known = bytes.iter_mut().find(|(dtype, _)| *dtype == tensor.dtype());
        known.into_iter().for_each(|(_, numel)| *numel += tensor.numel());
    }
    let packed = state.raw_tensors().next().is_some();
    bytes
        .into_iter()
        .max_by_key(|(_, numel)| *numel)
        .filter(|_| !packed)
        .map_or(DType::F32, |(dtype, _)| dtype)
}

/// How llama.cpp names the weights of a kind of model.
fn gguf_names(kind: &str) -> LoadOpts {
    let opts = LoadOpts::default().ignore("rope_freqs").quantized(true);
    let around = matches!(kind, "gemma2" | "gemma3");
    let opts =
        if around { opts.rename("blk.{}.ffn_norm", "layers.{}.pre_feedforward_layernorm") } else { opts };
    opts.rename_all(GGUF_LLAMA)
}

/// Names of llama.cpp's files, and of [`Llama`].
const GGUF_LLAMA: [(&str, &str); 16] = [
    ("token_embd", "embed_tokens"),
    ("output_norm", "norm"),
    ("output", "lm_head"),
    ("blk.{}.attn_norm", "layers.{}.input_layernorm"),
    ("blk.{}.attn_q", "layers.{}.self_attn.q_proj"),
    ("blk.{}.attn_k", "layers.{}.self_attn.k_proj"),
    ("blk.{}.attn_v", "layers.{}.self_attn.v_proj"),
    ("blk.{}.attn_output", "layers.{}.self_attn.out_proj"),
    ("blk.{}.attn_q_norm", "layers.{}.self_attn.q_norm"),
    ("blk.{}.attn_k_norm", "layers.{}.self_attn.k_norm"),
    ("blk.{}.post_attention_norm", "layers.{}.post_attention_layernorm"),
    ("blk.{}.ffn_norm", "layers.{}.post_attention_layernorm"),
    ("blk.{}.post_ffw_norm", "layers.{}.post_feedforward_layernorm"),
    ("blk.{}.ffn_gate", "layers.{}.mlp.gate_proj"),
    ("blk.{}.ffn_up", "layers.{}.mlp.up_proj"),
    ("blk.{}.ffn_down", "layers.{}.mlp.down_proj"),
];
