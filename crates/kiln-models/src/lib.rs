//! Published models for kiln: built from the configurations, weights and tokenizers that they come with.
//!
//! A [`Checkpoint`] is what people download: a folder as `transformers` saves it, or a GGUF file of
//! llama.cpp. [`Llama`] reads the decoders of the Llama family from either, [`Bert`] encoders such as
//! MiniLM, [`ResNet`] and [`Vit`] classifiers of images, [`Whisper`] speech; [`UNet2d`] and [`UNet`] take
//! noise off images, [`ActionExpert`] moves robots. With the feature `text`, [`LanguageModel`] adds
//! the tokenizer and the chat template and gives text as it is generated. [`locate`] takes a path or an
//! address on the Hugging Face hub, and downloads what is not there (feature `hub`).
//!
//! ```no_run
//! use kiln_models::{LanguageModel, LoadModelOpts, Message, TextOpts};
//! let model = LanguageModel::open("SmolLM2-135M-Instruct.Q4_1.gguf", LoadModelOpts::default())?;
//! let mut session = model.session();
//! let question = [Message::new("user", "What is the capital of France?")];
//! for piece in session.reply(&question, TextOpts::default())? {
//!     print!("{}", piece?);
//! }
//! # Ok::<(), kiln_models::Error>(())
//! ```
#![deny(missing_docs)]

mod action_expert;
mod activation;
mod bert;
mod checkpoint;
mod config;
mod error;
mod hub;
mod image;
mod llama;
mod llama_config;
mod llama_decoder;
mod load;
mod resnet;
mod rope;
mod sound;
#[cfg(feature = "text")]
mod text;
mod unet;
mod unet2d;
mod vit;
mod waves;
mod whisper;

pub use action_expert::{ActionExpert, ActionExpertLayer};
pub use activation::Activation;
pub use bert::{Bert, BertLayer};
pub use checkpoint::Checkpoint;
pub use config::Config;
pub use error::{Error, Result};
pub use hub::locate;
pub use image::Image;
pub use llama::{Llama, LlamaLayer, LlamaMlp};
pub use llama_config::LlamaConfig;
pub use llama_decoder::LlamaDecoder;
pub use load::LoadModelOpts;
pub use resnet::{ConvNorm, ResNet, ResNetBlock};
pub use sound::Sound;
#[cfg(feature = "text")]
pub use text::{
    ChatTemplate, LanguageModel, Message, SentenceEncoder, Session, TextOpts, TextStream, Tokenizer,
};
pub use unet::{TimeEmbedding, UNet, UNetAttention, UNetBlock};
pub use unet2d::{
    UNet2d, UNet2dBlock, UNet2dEmbedding, UNet2dInput, UNet2dSampler, UNet2dTransformer,
    UNet2dTransformerLayer,
};
pub use vit::{Vit, VitLayer};
pub use whisper::{
    Whisper, WhisperConfig, WhisperDecoder, WhisperDecoderLayer, WhisperEncoder, WhisperEncoderLayer,
    WhisperStack, WhisperState, log_mel,
};
