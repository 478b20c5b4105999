//! What can go wrong with a published model.

use std::path::PathBuf;

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a model, its files or its text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Tensors, or a file of them.
    #[error(transparent)]
    Kiln(#[from] kiln::Error),
    /// A file that cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file that is no JSON.
    #[error("{}: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// An address on the Hugging Face hub that cannot be used.
    #[error("{address}: expected {expected}")]
    Address {
        /// The address.
        address: String,
        /// What it must be, or what must be there.
        expected: &'static str,
    },
    /// An entry of a configuration that is missing or wrong.
    #[error("{file}: expected {key} to be {expected}, found {found}")]
    Config {
        /// The file.
        file: String,
        /// The entry's name.
        key: String,
        /// What it must be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// A file of sound or of an image that is not as it must be.
    #[error("{}: expected {expected}, found {found}", path.display())]
    Media {
        /// The file.
        path: PathBuf,
        /// What it must be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// A text that is longer than a session holds.
    #[error("expected a text of at most {most} tokens, found {found}")]
    TooLong {
        /// Its tokens.
        found: usize,
        /// Those that there is room for.
        most: usize,
    },
    /// A tokenizer that cannot be read, or text that it cannot take.
    #[error("tokenizer: {message}")]
    Tokenizer {
        /// Why.
        message: String,
    },
    /// A chat template that cannot be read or filled.
    #[cfg(feature = "text")]
    #[error("chat template: {0}")]
    Template(#[from] minijinja::Error),
}
