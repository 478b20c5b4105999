//! Layers: parameters with names, and what is made of them.
//!
//! A module is a struct of parameters, buffers and other modules;
//! [`module!`](crate::module!) lists its fields once, without a derive. A
//! [`Param`] is a cell with an identity: clones share weights. Building under
//! `with_device(Device::meta(), ..)` takes no memory.

pub mod attention;
pub mod conv;
pub mod dropout;
pub mod init;
pub mod linear;
pub mod module;
pub mod norm;
pub mod param;
pub mod recurrent;
pub mod sequential;
pub mod transformer;

pub use attention::{AttentionInput, AttentionLayerOpts, MultiheadAttention};
pub use conv::{Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d};
pub use dropout::Dropout;
pub use linear::{Bilinear, Embedding, Linear};
pub use module::{Found, Layer, Module, ModuleExt, Part, Visitor};
pub use norm::{BatchNorm, GroupNorm, LayerNorm, RMSNorm};
pub use param::{Buffer, Param, Training};
pub use recurrent::{Gru, Lstm, Rnn};
pub use sequential::Sequential;
pub use transformer::{TransformerDecoderLayer, TransformerEncoderLayer, TransformerOpts};
