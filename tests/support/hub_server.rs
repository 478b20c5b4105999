//! A server that answers as the Hugging Face hub does, for models with files of few bytes.
// Each test program uses a part of it.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// The commit that `main` is at.
pub const COMMIT: &str = "c0ffee0000000000000000000000000000000000";

/// What the server was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub method: String,
    pub path: String,
    /// The first byte of the range.
    pub from: Option<usize>,
    pub token: Option<String>,
}

impl Request {
    /// `GET /path` and, of a range, its first byte.
    pub fn line(&self) -> String {
        let from = self.from.map(|from| format!(" from {from}"));
        format!("{} {}{}", self.method, self.path, from.unwrap_or_default())
    }
}

/// How an answer differs from the hub's.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// This status, and what the hub's `x-error-code` says.
    Status(u16, &'static str),
    /// The connection ends after so many bytes of the content.
    Cut(usize),
    /// The content is so long, as the hub says.
    Announce(usize),
    /// This is the content's name.
    Etag(&'static str),
    /// The range is not heeded.
    Whole,
    /// There is no answer.
    Silence,
}

/// What goes wrong with a request.
type Faults = Box<dyn FnMut(&Request) -> Option<Fault> + Send>;

struct State {
    commit: String,
    files: BTreeMap<String, Vec<u8>>,
    requests: Vec<Request>,
    faults: Faults,
}

/// The server, on a port of its own. Files whose names end in `.safetensors` or `.gguf` come from another host.
#[derive(Clone)]
pub struct HubServer {
    port: u16,
    state: Arc<Mutex<State>>,
}

impl HubServer {
    /// A hub that has these files in the model `org/net`, which was `old/net` before.
    pub fn start(files: &[(&str, &[u8])]) -> HubServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let files = files.iter().map(|(name, content)| (name.to_string(), content.to_vec())).collect();
        let (requests, faults) = (Vec::new(), Box::new(|_: &Request| None));
        let state = State { commit: COMMIT.into(), files, requests, faults };
        let server = HubServer { port, state: Arc::new(Mutex::new(state)) };
        let answering = server.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (server, stream) = (answering.clone(), stream.unwrap());
                // Whoever asked may have gone.
                thread::spawn(move || _ = server.answer(stream));
            }
        });
        server
    }

    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
    /// From now on requests fail as this says.
    pub fn fail(&self, faults: impl FnMut(&Request) -> Option<Fault> + Send + 'static) {
        self.state.lock().unwrap().faults = Box::new(faults);
    }
    /// `main` is at another commit, with this file instead.
    pub fn commit(&self, commit: &str, name: &str, content: &[u8]) {
        let mut state = self.state.lock().unwrap();
        state.commit = commit.into();
        state.files.insert(name.into(), content.into());
    }
    /// What it was asked since this was read.
    pub fn requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.state.lock().unwrap().requests)
    }
    pub fn lines(&self) -> Vec<String> {
        self.requests().iter().map(Request::line).collect()
    }

    fn answer(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let request = read(&stream)?;
        let mut state = self.state.lock().unwrap();
        state.requests.push(request.clone());
        let fault = (state.faults)(&request);
        let content = state.content(&request.path);
        let commit = state.commit.clone();
        drop(state);
        if let Some(Fault::Silence) = fault {
            // Until the other side has had enough.
            return stream.peek(&mut [0]).map(drop);
        }
        let (head, body) = self.reply(&request, content.as_deref(), &commit, fault);
        stream.write_all(head.as_bytes())?;
        if request.method == "GET" { stream.write_all(&body) } else { Ok(()) }
    }

    /// Head and body of an answer.
    fn reply(
        &self,
        request: &Request,
        content: Option<&[u8]>,
        commit: &str,
        fault: Option<Fault>,
    ) -> (String, Vec<u8>) {
        if let Some(rest) = request.path.strip_prefix("/old/net/") {
            let moved =
                format!("location: /org/net/{rest}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
            return (format!("HTTP/1.1 307 Temporary Redirect\r\n{moved}"), vec![]);
        }
        let (status, code) = match (fault, content) {
            (Some(Fault::Status(status, code)), _) => (status, code),
            (_, None) => (404, "EntryNotFound"),
            (_, Some(_)) => (200, ""),
        };
        let head = format!("x-repo-commit: {commit}\r\nconnection: close\r\n");
        let Some(content) = content.filter(|_| status == 200) else {
            return (
                format!("HTTP/1.1 {status} no\r\nx-error-code: {code}\r\n{head}content-length: 0\r\n\r\n"),
                vec![],
            );
        };
        let size = if let Some(Fault::Announce(size)) = fault { size } else { content.len() };
        let own = etag(content);
        let etag = if let Some(Fault::Etag(etag)) = fault { etag } else { &own };
        if request.path.starts_with("/cdn/") {
            return part(request, content, fault);
        }
        if request.path.ends_with(".safetensors") || request.path.ends_with(".gguf") {
            let name = request.path.rsplit("/resolve/").next().unwrap_or_default();
            let to = format!("http://localhost:{}/cdn/{name}", self.port);
            let linked = format!("x-linked-etag: \"{etag}\"\r\nx-linked-size: {size}\r\nlocation: {to}\r\n");
            return (format!("HTTP/1.1 302 Found\r\n{head}{linked}content-length: 0\r\n\r\n"), vec![]);
        }
        let head = format!("HTTP/1.1 200 OK\r\n{head}etag: W/\"{etag}\"\r\ncontent-length: {size}\r\n\r\n");
        (head, content.to_vec())
    }
}

impl State {
    /// The content at `/org/net/resolve/REVISION/FILE` or `/cdn/REVISION/FILE`.
    fn content(&self, path: &str) -> Option<Vec<u8>> {
        let inside = path.strip_prefix("/org/net/resolve/").or_else(|| path.strip_prefix("/cdn/"))?;
        let (revision, file) = inside.split_once('/')?;
        let is_known = revision == "main" || revision == self.commit;
        self.files.get(file).filter(|_| is_known).cloned()
    }
}

/// What a content is called.
pub fn etag(content: &[u8]) -> String {
    let hash = content.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// The content from the byte on that was asked for, or less.
fn part(request: &Request, content: &[u8], fault: Option<Fault>) -> (String, Vec<u8>) {
    let from = request.from.filter(|_| !matches!(fault, Some(Fault::Whole)));
    let rest = content.get(from.unwrap_or(0)..).unwrap_or_default();
    let mut head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n", rest.len());
    if let Some(from) = from {
        head = head.replace("200 OK", "206 Partial Content");
        let size = content.len();
        let _ = write!(head, "content-range: bytes {from}-{}/{size}\r\n", size.saturating_sub(1));
    }
    let sent = if let Some(Fault::Cut(most)) = fault { most.min(rest.len()) } else { rest.len() };
    (head + "\r\n", rest[..sent].to_vec())
}

fn read(stream: &TcpStream) -> std::io::Result<Request> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    let mut words = first.split(' ').map(String::from);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut request = Request { method, path, from: None, token: None };
    for line in lines {
        let line = line?;
        let Some((name, value)) = line.split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "range" => request.from = value.trim_start_matches("bytes=").trim_end_matches('-').parse().ok(),
            "authorization" => request.token = Some(value.trim_start_matches("Bearer ").into()),
            _ => {}
        }
    }
    Ok(request)
}
