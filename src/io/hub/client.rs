//! Requests to the hub.

use std::io::{self, Read};
use std::sync::LazyLock;
use std::time::Duration;

use ureq::http::Response;
use ureq::typestate::WithoutBody;
use ureq::{Agent, Body, RequestBuilder};

use crate::base::HubProblem;

/// How often a hub may send elsewhere.
const REDIRECTS: usize = 5;

/// Connections that stay open for the next file.
static AGENT: LazyLock<Agent> = LazyLock::new(|| {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .user_agent(concat!("kiln/", env!("CARGO_PKG_VERSION")))
        // Sizes are those of the file.
        .accept_encoding("identity")
        // The token goes to the hub, and not where it sends the client for the content.
        .redirect_auth_headers(ureq::config::RedirectAuthHeaders::SameHost);
    config.build().into()
});

/// Who asks the hub.
#[derive(Debug)]
pub struct Client {
    pub token: Option<String>,
    /// How long the hub may be silent.
    pub timeout: Duration,
}

/// What the hub says of a file.
#[derive(Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// The commit that the revision is.
    pub commit: String,
    /// What the content is called in the cache.
    pub etag: String,
    /// In bytes.
    pub size: u64,
    /// The hash of a large file, in hexadecimal digits.
    pub sha256: Option<String>,
}

/// What the hub says to a question about a file.
#[derive(Debug)]
pub enum Found {
    File(FileInfo),
    /// There is none in this commit.
    Absent {
        commit: String,
    },
}

/// A file's content from some byte on.
pub struct Content {
    pub start: u64,
    pub body: Box<dyn Read>,
}

impl Client {
    /// Asks about a file.
    ///
    /// # Errors
    /// What keeps the answer away, or is wrong with it.
    pub fn look(&self, url: &str) -> Result<Found, HubProblem> {
        let mut url = url.to_string();
        for _ in 0..=REDIRECTS {
            let response = self.send(AGENT.head(&url).config().max_redirects(0).build())?;
            if response.status().is_redirection()
                && let Some(next) = header(&response, "location").and_then(|next| same_host(&url, next))
            {
                // A model that was renamed. Another host has the content, and this answer says all of it.
                url = next;
                continue;
            }
            return self.found(&response);
        }
        Err(HubProblem::Answer { message: format!("more than {REDIRECTS} redirections") })
    }

    /// A file's content, from this byte on where the server can, else from its first.
    ///
    /// # Errors
    /// What keeps it away.
    pub fn read(&self, url: &str, from: u64) -> Result<Content, HubProblem> {
        let request = AGENT.get(url);
        let range = |request: RequestBuilder<_>| request.header("range", format!("bytes={from}-"));
        let response = self.send(if from > 0 { range(request) } else { request })?;
        let start = match response.status().as_u16() {
            200 => 0,
            206 => range_start(&response).ok_or_else(|| HubProblem::Answer {
                message: "a part of a file that does not say which".into(),
            })?,
            416 if from > 0 => return self.read(url, 0),
            _ => return Err(self.refusal(&response)),
        };
        Ok(Content { start, body: Box::new(response.into_body().into_reader()) })
    }

    fn send(&self, request: RequestBuilder<WithoutBody>) -> Result<Response<Body>, HubProblem> {
        let limit = Some(self.timeout);
        let request = request.config();
        let request = request.timeout_resolve(limit).timeout_connect(limit).timeout_send_request(limit);
        let mut request = request.timeout_recv_response(limit).timeout_per_read(limit).build();
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        request.call().map_err(|error| unreachable(&error))
    }

    fn found(&self, response: &Response<Body>) -> Result<Found, HubProblem> {
        let commit = header(response, "x-repo-commit").filter(|commit| is_plain(commit));
        let status = response.status();
        if !(status.is_success() || status.is_redirection()) {
            let is_file = header(response, "x-error-code") == Some("EntryNotFound");
            return match commit.filter(|_| status == 404 && is_file) {
                Some(commit) => Ok(Found::Absent { commit: commit.into() }),
                None => Err(self.refusal(response)),
            };
        }
        let linked = header(response, "x-linked-etag").map(bare);
        let etag = linked.or_else(|| header(response, "etag").map(bare)).filter(|etag| is_plain(etag));
        let length = if status.is_redirection() { None } else { header(response, "content-length") };
        let size = header(response, "x-linked-size").or(length).and_then(|size| size.parse().ok());
        let lacks = |name| HubProblem::Answer { message: format!("status {status} without {name}") };
        Ok(Found::File(FileInfo {
            commit: commit.ok_or_else(|| lacks("x-repo-commit"))?.into(),
            etag: etag.ok_or_else(|| lacks("etag"))?.into(),
            size: size.ok_or_else(|| lacks("a size"))?,
            sha256: linked.filter(|etag| is_sha256(etag)).map(str::to_ascii_lowercase),
        }))
    }

    /// What an answer that is no success says.
    fn refusal(&self, response: &Response<Body>) -> HubProblem {
        match response.status().as_u16() {
            404 => HubProblem::Missing {
                what: match header(response, "x-error-code") {
                    Some("RepoNotFound") => "model",
                    Some("RevisionNotFound") => "revision of the model",
                    Some("EntryNotFound") => "file in this revision of the model",
                    _ => "model, revision or file",
                },
            },
            status @ (401 | 403) => HubProblem::Denied { status, with_token: self.token.is_some() },
            status => HubProblem::Status { status },
        }
    }
}

/// What kept an answer away.
pub fn unreachable(error: &ureq::Error) -> HubProblem {
    let message = match error {
        ureq::Error::Io(error) => error.to_string(),
        error => error.to_string(),
    };
    HubProblem::Unreachable { message }
}

/// What ended a connection.
pub fn broken(error: io::Error) -> HubProblem {
    unreachable(&ureq::Error::from(error))
}

fn header<'a>(response: &'a Response<Body>, name: &str) -> Option<&'a str> {
    response.headers().get(name)?.to_str().ok()
}

/// The first byte of `bytes 5-9/10`.
fn range_start(response: &Response<Body>) -> Option<u64> {
    header(response, "content-range")?.strip_prefix("bytes ")?.split('-').next()?.trim().parse().ok()
}

/// An entity tag without its quotes.
fn bare(etag: &str) -> &str {
    etag.strip_prefix("W/").unwrap_or(etag).trim_matches('"')
}

/// Whether this can be a file's name anywhere.
fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 128
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

fn is_sha256(etag: &str) -> bool {
    etag.len() == 64 && etag.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Where a redirection leads, if it stays on the host.
fn same_host(url: &str, location: &str) -> Option<String> {
    let host = url.match_indices('/').nth(2).map_or(url, |(end, _)| &url[..end]);
    if location.starts_with('/') && !location.starts_with("//") {
        return Some(format!("{host}{location}"));
    }
    location.strip_prefix(host)?.starts_with('/').then(|| location.into())
}
