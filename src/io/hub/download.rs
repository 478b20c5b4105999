//! Downloads into the cache of the hub.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::base::{Error, HubError, HubProblem, Result, Span};
use crate::io::hub::cache::{self, ModelCache};
use crate::io::hub::client::{self, Client, FileInfo, Found};
use crate::io::hub::name::{self, HubName};
use crate::io::hub::opts::HubOpts;
use crate::io::hub::partial::{PartialBlob, failed};
use crate::io::hub::progress::Download;

/// How many connections in a row may end without a byte more.
const TRIES: u32 = 3;

/// The pause after the first of them; each one after is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// Bytes of a read.
const CHUNK: usize = 1 << 17;

/// The path of a file of a model of the Hugging Face hub, downloaded if it is not in the cache (feature `hub`).
///
/// Names and cache are those of [`hub_file`](crate::io::hub_file), and the hub's own tools find what was
/// downloaded. A download that was broken off continues where it stopped. A file that is in the cache is
/// returned without a request, unless [`HubOpts::refresh`] asks whether the branch has moved.
///
/// Python: `huggingface_hub.hf_hub_download`.
///
/// # Errors
/// A name that leads out of the cache; an endpoint or a token that is none; [`Error::Hub`] with what keeps the
/// file away.
///
/// # Examples
/// ```no_run
/// use kiln::io::{DownloadLine, HubOpts, hub_download};
/// let opts = HubOpts::default().progress(DownloadLine::default());
/// let path = hub_download("HuggingFaceTB/SmolLM2-135M", "main", "model.safetensors", opts)?;
/// let state = kiln::StateDict::open(path)?;
/// # Ok::<(), kiln::Error>(())
/// ```
#[track_caller]
pub fn hub_download(model: &str, revision: &str, file: &str, opts: HubOpts) -> Result<PathBuf> {
    let span = Span::caller();
    let wrong = |expected: &str, found: &str| Error::Argument {
        call: "hub_download",
        expected: expected.into(),
        found: found.into(),
        span,
    };
    let Some(name) = HubName::new(model, revision, file) else {
        return Err(wrong(name::EXPECTED, &format!("{model:?}, {revision:?} and {file:?}")));
    };
    let root = opts.cache.clone().or_else(cache::folder).ok_or_else(|| wrong(cache::NO_FOLDER, "none"))?;
    let token = opts.token_to_send().map_err(|expected| wrong(expected, "other characters"))?;
    let address =
        opts.address().map_err(|found| wrong("an endpoint such as https://huggingface.co", &found))?;
    let client = Client { token, timeout: opts.timeout };
    let fetch = Fetch { name, cache: ModelCache::of(&root, name), client, address, opts };
    fetch.path().map_err(|problem| {
        let url = fetch.url(revision);
        Error::Hub(Arc::new(HubError { url, problem, span }))
    })
}

/// One file, and what is needed to get it.
struct Fetch<'a> {
    name: HubName<'a>,
    cache: ModelCache,
    client: Client,
    address: String,
    opts: HubOpts,
}

impl Fetch<'_> {
    fn path(&self) -> Result<PathBuf, HubProblem> {
        let path = self.cache.path(self.name);
        let absent = || HubProblem::Missing { what: "file in this revision of the model" };
        let is_offline = self.opts.is_offline();
        if is_offline || !self.opts.refresh {
            if path.exists() {
                return Ok(path);
            }
            if self.cache.is_absent(self.name) {
                return Err(absent());
            }
        }
        if is_offline {
            return Err(HubProblem::Offline { path: path.display().to_string() });
        }
        match self.client.look(&self.url(self.name.revision))? {
            Found::Absent { commit } => {
                self.cache.set_absent(&commit, self.name.file).map_err(failed(&path))?;
                Err(absent())
            }
            Found::File(info) => self.file(&info),
        }
    }

    /// The file that was found, downloaded unless the cache has its content.
    fn file(&self, info: &FileInfo) -> Result<PathBuf, HubProblem> {
        let (blob, lock) = (self.cache.blob(&info.etag), self.cache.lock(&info.etag));
        if !(blob.exists() || self.cache.snapshot(&info.commit, self.name.file).exists()) {
            let waiting = |length| self.report(length, info.size);
            if let Some(partial) = PartialBlob::open(&blob, &lock, self.opts.timeout, waiting)? {
                self.receive(partial, info)?.finish(&blob, info.sha256.as_deref())?;
            }
        }
        let link = self.cache.link(&info.etag, &info.commit, self.name.file).map_err(failed(&blob))?;
        self.cache.set_commit(self.name.revision, &info.commit).map_err(failed(&link))?;
        Ok(link)
    }

    /// Downloads what is missing of a blob, by as many connections as it takes.
    fn receive(&self, mut blob: PartialBlob, info: &FileInfo) -> Result<PartialBlob, HubProblem> {
        let keep = if blob.length() > info.size { 0 } else { blob.length() };
        blob.cut(keep)?;
        self.report(keep, info.size);
        let (mut longest, mut tries) = (keep, 0);
        while blob.length() < info.size {
            let message = match self.append(&mut blob, info) {
                Ok(()) => "the connection ended".to_string(),
                Err(HubProblem::Unreachable { message }) => message,
                Err(problem) => return Err(problem),
            };
            let arrived = blob.length();
            tries = if arrived > longest { 0 } else { tries + 1 };
            longest = longest.max(arrived);
            if arrived < info.size && tries == TRIES {
                return Err(HubProblem::Incomplete { arrived, size: info.size, message });
            }
            if arrived < info.size {
                thread::sleep(FIRST_PAUSE * (1 << tries));
            }
        }
        Ok(blob)
    }

    /// Appends what one connection gives.
    fn append(&self, blob: &mut PartialBlob, info: &FileInfo) -> Result<(), HubProblem> {
        let mut content = self.client.read(&self.url(&info.commit), blob.length())?;
        if content.start > blob.length() {
            let message = format!("bytes from {} on instead of {}", content.start, blob.length());
            return Err(HubProblem::Answer { message });
        }
        blob.cut(content.start)?;
        let mut chunk = vec![0; CHUNK];
        loop {
            let count = content.body.read(&mut chunk).map_err(client::broken)?;
            if count == 0 {
                return Ok(());
            }
            if blob.length() + count as u64 > info.size {
                blob.cut(0)?;
                return Err(HubProblem::Answer {
                    message: format!("more than the {} bytes announced", info.size),
                });
            }
            blob.append(&chunk[..count])?;
            self.report(blob.length(), info.size);
        }
    }

    fn report(&self, done: u64, total: u64) {
        if let Some(progress) = &self.opts.progress {
            progress.report(&Download { file: self.name.file, done, total });
        }
    }

    /// Where the hub has the file in a revision.
    fn url(&self, revision: &str) -> String {
        let HubName { model, file, .. } = self.name;
        let mut url = format!("{}/{}/resolve/", self.address, Escaped(model, true));
        let _ = write!(url, "{}/{}", Escaped(revision, false), Escaped(file, true));
        url
    }
}

/// A part of an address; whether slashes stay.
struct Escaped<'a>(&'a str, bool);

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.bytes().try_for_each(|byte| match byte {
            b'/' if self.1 => f.write_char('/'),
            b'-' | b'.' | b'_' | b'~' => f.write_char(byte.into()),
            _ if byte.is_ascii_alphanumeric() => f.write_char(byte.into()),
            _ => write!(f, "%{byte:02X}"),
        })
    }
}
