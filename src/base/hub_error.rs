//! What can go wrong with a file of the Hugging Face hub.

use std::fmt;
use std::time::Duration;

use crate::base::span::Span;

/// A file of the Hugging Face hub that could not be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubError {
    /// The file's address.
    pub url: String,
    /// What happened.
    pub problem: HubProblem,
    /// The user's line that asked for the file.
    pub span: Span,
}

/// What keeps a file of the hub away.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HubProblem {
    /// The hub does not have it (status 404).
    Missing {
        /// What there is not: a model, a revision of it, or a file in that.
        what: &'static str,
    },
    /// The hub does not give it to whoever asks (status 401 or 403).
    Denied {
        /// The status.
        status: u16,
        /// Whether a token was sent.
        with_token: bool,
    },
    /// Another status that is no success.
    Status {
        /// The status.
        status: u16,
    },
    /// It is not in the cache, and the network is not to be asked.
    Offline {
        /// Where it would be.
        path: String,
    },
    /// No answer.
    Unreachable {
        /// Why.
        message: String,
    },
    /// An answer that is not a hub's.
    Answer {
        /// What is wrong with it.
        message: String,
    },
    /// The connection ended early, each time. What has arrived stays for the next download.
    Incomplete {
        /// Bytes that have arrived.
        arrived: u64,
        /// Bytes of the file.
        size: u64,
        /// What ended the last connection.
        message: String,
    },
    /// What has arrived is not what was announced, and is thrown away.
    Corrupt {
        /// The SHA-256 of the file, in hexadecimal digits.
        expected: String,
        /// That of what has arrived.
        found: String,
    },
    /// Another process that downloads the file gets nothing.
    Busy {
        /// The lock that it holds.
        lock: String,
        /// For how long.
        after: Duration,
    },
    /// A file of the cache that cannot be read or written.
    Cache {
        /// The file.
        path: String,
        /// Why.
        message: String,
    },
}

/// What to do about a status.
fn advice(status: u16, with_token: bool) -> &'static str {
    match (status, with_token) {
        (401, true) => {
            "the hub does not accept the token, or has no such model; \
             a token is made at https://huggingface.co/settings/tokens"
        }
        (401, false) => {
            "there is no such model, or it is private or gated; for one that you may read, set HF_TOKEN \
             to a token from https://huggingface.co/settings/tokens or run `hf auth login`"
        }
        (403, true) => {
            "the token may not read it; accept the terms on the model's page with the token's account, \
             or take a token that may read gated models"
        }
        (403, false) => {
            "it is not for everybody; accept the terms on the model's page, \
             and set HF_TOKEN or run `hf auth login`"
        }
        (429, true) => "too many requests; wait a few minutes",
        (429, false) => "too many requests; wait a few minutes, or set HF_TOKEN, with which more are allowed",
        (500.., _) => "the hub has trouble; try again later",
        _ => "expected the file",
    }
}

impl fmt::Display for HubProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HubProblem::Missing { what } => write!(f, "status 404: the hub has no such {what}"),
            HubProblem::Denied { status, with_token } => {
                write!(f, "status {status}: {}", advice(*status, *with_token))
            }
            HubProblem::Status { status } => write!(f, "status {status}: {}", advice(*status, false)),
            HubProblem::Offline { path } => {
                write!(f, "expected it in the cache at {path}, since downloads are off (HF_HUB_OFFLINE)")
            }
            HubProblem::Unreachable { message } => {
                write!(f, "no answer: {message}; check the network, HTTPS_PROXY and HF_ENDPOINT")
            }
            HubProblem::Answer { message } => {
                write!(f, "expected a hub's answer, found {message}; check HF_ENDPOINT")
            }
            HubProblem::Incomplete { arrived, size, message } => write!(
                f,
                "{arrived} of {size} bytes arrived: {message}; the next download continues behind them"
            ),
            HubProblem::Corrupt { expected, found } => {
                write!(f, "expected SHA-256 {expected}, found {found}; it was thrown away, download it again")
            }
            HubProblem::Busy { lock, after } => {
                write!(f, "another process that downloads it got nothing for {after:?}; it holds {lock}")
            }
            HubProblem::Cache { path, message } => write!(f, "{path}: {message}"),
        }
    }
}

impl fmt::Display for HubError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HubError { url, problem, span } = self;
        write!(f, "{url}: {problem}\n  at {span}")
    }
}
