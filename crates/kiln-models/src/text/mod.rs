//! Text: tokenizers, chat templates, and models with both.

mod completions;
mod gguf_tokenizer;
mod guesses;
mod language_model;
mod pre_tokenizer;
mod sentence_encoder;
mod sentence_piece;
mod session;
mod template;
mod token_stream;
mod tokenizer;

pub use language_model::LanguageModel;
pub use sentence_encoder::SentenceEncoder;
pub use session::{Session, TextOpts, TextStream};
pub use template::{ChatTemplate, Message};
pub use tokenizer::Tokenizer;
