//! Layers: parameters with names, and what is made of them.
//!
//! A module is a struct of parameters, buffers and other modules;
//! [`module!`](crate::module!) lists its fields once, without a derive. A
//! [`Param`] is a cell with an identity: clones share weights. Building under
//! `with_device(Device::meta(), ..)` takes no memory; layers made by `lazy`
//! take their number of inputs from the first input. They start as PyTorch's.

pub mod activation;
pub mod attention;
mod attention_mask;
mod beam_search;
pub mod cache;
mod cache_state;
mod cached_rows;
mod cells;
pub mod conv;
mod draft;
pub mod dropout;
pub mod generate;
mod generate_batch;
pub mod init;
pub mod linear;
pub mod lora;
pub mod module;
mod module_region;
pub mod norm;
pub mod param;
pub mod pool;
pub mod quantize;
pub mod recurrent;
pub(crate) mod replica;
pub mod rotary;
mod rotary_factors;
pub mod sampling;
pub mod sequential;
pub mod spectral_norm;
mod speculate;
pub mod transformer;
pub mod tree;

pub use activation::{
    Celu, Elu, Flatten, Gelu, GeluTanh, Glu, Hardshrink, Hardsigmoid, Hardswish, Hardtanh, LeakyRelu,
    LogSigmoid, LogSoftmax, Mish, Prelu, Relu, Relu6, Selu, Sigmoid, Silu, Softmax, Softmin, Softplus,
    Softshrink, Softsign, Tanh, Tanhshrink,
};
pub use attention::{AttentionInput, AttentionLayerOpts, MultiheadAttention};
pub use beam_search::{Beam, BeamOpts, beam_search};
pub use cache::{CachedKeys, KvCache};
pub use cache_state::KvState;
pub use conv::{Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d};
pub use draft::Draft;
pub use dropout::Dropout;
pub use generate::{GenerateOpts, StopText, Tokens, generate};
pub use generate_batch::{BatchTokens, generate_batch, pad_left};
pub use linear::{Bilinear, Embedding, Linear};
pub use lora::{LoraOpts, adapter_state, add_lora, merge_lora};
pub use module::{Found, Layer, Module, ModuleExt, Part, Visitor};
pub use norm::{BatchNorm, GroupNorm, InstanceNorm, LayerNorm, RMSNorm};
pub use param::{Buffer, Param, Training};
pub use pool::{
    AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d, AdaptiveMaxPool1d, AdaptiveMaxPool2d,
    AdaptiveMaxPool3d, AvgPool1d, AvgPool2d, AvgPool3d, MaxPool1d, MaxPool2d, MaxPool3d,
};
pub use quantize::{QuantizeOpts, QuantizeReport, QuantizedWeight};
pub use recurrent::{Gru, Lstm, Rnn};
pub use rotary::{Rotary, RotaryScaling};
pub use sampling::Sampling;
pub use sequential::Sequential;
pub use spectral_norm::SpectralNorm;
pub use speculate::{Speculation, lookup, speculate};
pub use transformer::{TransformerDecoderLayer, TransformerEncoderLayer, TransformerOpts};
pub use tree::Tree;
