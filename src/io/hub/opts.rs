//! How files of the hub are downloaded.

use std::env;
use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::io::hub::cache;
use crate::io::hub::progress::DownloadProgress;
use crate::tensor::options::options;

options! {
    /// How [`hub_download`](crate::io::hub_download) gets a file.
    ///
    /// # Examples
    /// ```
    /// use kiln::io::{DownloadLine, HubOpts};
    /// let opts = HubOpts::default().progress(DownloadLine::default()).token("hf_secret");
    /// assert!(!format!("{opts:?}").contains("secret"));
    /// ```
    HubOpts {
        /// Who asks. If `None`, the token in `HF_TOKEN`, or that of `hf auth login`, or nobody.
        token: Option<HubToken> = None, impl Into<String> => secret;
        /// The hub's address. If `None`, that in `HF_ENDPOINT`, or `https://huggingface.co`.
        endpoint: Option<String> = None, impl Into<String> => text;
        /// The folder of the cache. If `None`, the one of [`hub_file`](crate::io::hub_file).
        cache: Option<PathBuf> = None, impl Into<PathBuf> => folder;
        /// Take files from the cache only, as with `HF_HUB_OFFLINE=1`.
        offline: bool = false;
        /// Ask the hub whether a branch has moved, although the file is in the cache.
        refresh: bool = false;
        /// How long the hub may be silent, and how long another process that downloads the file.
        timeout: Duration = Duration::from_secs(30);
        /// What shows how far a download is.
        progress: Option<Arc<dyn DownloadProgress>> = None, impl DownloadProgress + 'static => shown;
    }
}

/// What shows the hub who asks. It is not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct HubToken(String);

impl fmt::Debug for HubToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HubToken")
    }
}

fn secret(token: impl Into<String>) -> Option<HubToken> {
    Some(HubToken(token.into()))
}
fn text(text: impl Into<String>) -> Option<String> {
    Some(text.into())
}
fn folder(folder: impl Into<PathBuf>) -> Option<PathBuf> {
    Some(folder.into())
}
fn shown(progress: impl DownloadProgress + 'static) -> Option<Arc<dyn DownloadProgress>> {
    Some(Arc::new(progress))
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().map(|value| value.trim().to_string()).filter(|value| !value.is_empty())
}

impl HubOpts {
    /// The token to send, if there is one.
    ///
    /// # Errors
    /// What is expected, if it cannot be sent.
    pub(super) fn token_to_send(&self) -> Result<Option<String>, &'static str> {
        let file = || {
            let path = variable("HF_TOKEN_PATH").map(PathBuf::from);
            fs::read_to_string(path.or_else(|| Some(cache::home()?.join("token")))?).ok()
        };
        let own = self.token.as_ref().map(|token| token.0.clone());
        let token = own.or_else(|| variable("HF_TOKEN")).or_else(file).map(|token| token.trim().to_string());
        match token.filter(|token| !token.is_empty()) {
            Some(token) if !token.bytes().all(|byte| byte.is_ascii_graphic()) => {
                Err("a token of letters, digits and signs of ASCII")
            }
            token => Ok(token),
        }
    }

    /// The hub's address, without a slash at its end.
    ///
    /// # Errors
    /// The address that is none.
    pub(super) fn address(&self) -> Result<String, String> {
        let known = self.endpoint.clone().or_else(|| variable("HF_ENDPOINT"));
        let address = known.unwrap_or_else(|| "https://huggingface.co".into());
        let host = address.strip_prefix("https://").or_else(|| address.strip_prefix("http://"));
        let is_address = host.is_some_and(|host| {
            !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#@".contains(&byte))
        });
        if is_address { Ok(address.trim_end_matches('/').into()) } else { Err(address) }
    }

    /// Whether the network is not to be asked.
    pub(super) fn is_offline(&self) -> bool {
        let asked = variable("HF_HUB_OFFLINE").map(|value| value.to_ascii_lowercase());
        self.offline || asked.is_some_and(|value| matches!(value.as_str(), "1" | "true" | "yes" | "on"))
    }
}
