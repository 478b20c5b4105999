//! Files that a page reads by ranges: by address, and those that its visitor chose.

use std::io::{Error, ErrorKind, Result};

use js_sys::{Reflect, Uint8Array};
use kiln::io::RangeReader;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{Blob, Headers, ReadableStreamDefaultReader, RequestInit, Response};

#[wasm_bindgen]
extern "C" {
    /// The page's, or that of a worker.
    #[wasm_bindgen(catch, js_name = fetch)]
    async fn fetch(address: &str, options: &RequestInit) -> std::result::Result<JsValue, JsValue>;
}

/// An error of the browser.
fn told(error: JsValue) -> Error {
    let message = Reflect::get(&error, &"message".into()).ok().and_then(|message| message.as_string());
    Error::other(message.unwrap_or_else(|| format!("{error:?}")))
}

/// Fewer bytes than these are read to be skipped, rather than asked for anew.
const NEAR: u64 = 1 << 20;
/// Bytes of a chosen file that are in memory beside what they are read into.
const PIECE: usize = 4 << 20;

/// A file by address. It is asked for from a byte on, and what comes is taken as it is needed. Where the server
/// answers with the whole file instead, what is before that byte is skipped.
pub struct Address {
    address: String,
    answer: Option<Answer>,
}

impl Address {
    pub fn new(address: String) -> Address {
        Address { address, answer: None }
    }
}

impl RangeReader for Address {
    fn name(&self) -> String {
        self.address.clone()
    }

    async fn size(&mut self) -> Result<u64> {
        let answer = Answer::ask(&self.address, 0).await?;
        let size = answer.size;
        self.answer = Some(answer);
        size.ok_or_else(|| Error::other("the server does not tell how long it is"))
    }

    async fn read(&mut self, start: u64, into: &mut [u8]) -> Result<()> {
        let open = self.answer.take().filter(|answer| answer.leads_to(start));
        let mut answer = match open {
            Some(answer) => answer,
            None => Answer::ask(&self.address, start).await?,
        };
        while answer.at < start {
            let mut skipped = vec![0; usize::try_from(NEAR.min(start - answer.at)).unwrap_or_default()];
            answer.fill(&mut skipped).await?;
        }
        answer.fill(into).await?;
        self.answer = Some(answer);
        Ok(())
    }
}

/// An answer of a server, as far as it was read.
struct Answer {
    reader: ReadableStreamDefaultReader,
    /// What has come and was not taken yet.
    chunk: Uint8Array,
    /// The byte of the file that is next.
    at: u64,
    /// Whether it began where it was to.
    ranges: bool,
    size: Option<u64>,
}

impl Answer {
    /// Asks for a file from a byte on.
    async fn ask(address: &str, start: u64) -> Result<Answer> {
        let (headers, options) = (Headers::new().map_err(told)?, RequestInit::new());
        headers.set("Range", &format!("bytes={start}-")).map_err(told)?;
        options.set_headers(&headers);
        let answer: Response = fetch(address, &options).await.map_err(told)?.unchecked_into();
        if !answer.ok() {
            return Err(Error::other(format!("{} {}", answer.status(), answer.status_text())));
        }
        let ranges = answer.status() == 206;
        let at = if ranges { start } else { 0 };
        let length = answer.headers().get("Content-Length").map_err(told)?;
        let size = length.and_then(|length| length.parse::<u64>().ok()).map(|length| at + length);
        let body = answer.body().ok_or_else(|| Error::other("the answer is empty"))?;
        let reader = body.get_reader().unchecked_into();
        Ok(Answer { reader, chunk: Uint8Array::new_with_length(0), at, ranges, size })
    }

    /// Whether reading on is the way to a byte.
    fn leads_to(&self, start: u64) -> bool {
        self.at <= start && (!self.ranges || start - self.at <= NEAR)
    }

    /// Fills a part of memory with the bytes that are next.
    async fn fill(&mut self, mut into: &mut [u8]) -> Result<()> {
        while !into.is_empty() {
            if self.chunk.length() == 0 {
                let next = JsFuture::from(self.reader.read()).await.map_err(told)?;
                let chunk = Reflect::get(&next, &"value".into()).map_err(told)?;
                self.chunk = chunk.dyn_into().map_err(|_| Error::from(ErrorKind::UnexpectedEof))?;
            }
            let count = into.len().min(self.chunk.length() as usize);
            let (now, rest) = std::mem::take(&mut into).split_at_mut(count);
            self.chunk.subarray(0, count as u32).copy_to(now);
            self.chunk = self.chunk.subarray(count as u32, self.chunk.length());
            self.at += count as u64;
            into = rest;
        }
        Ok(())
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        // The browser stops loading; nobody waits until it has.
        let _ = self.reader.cancel();
    }
}

/// A file that the visitor chose or dropped.
pub struct Chosen {
    pub name: String,
    pub file: Blob,
}

impl RangeReader for Chosen {
    fn name(&self) -> String {
        self.name.clone()
    }

    async fn size(&mut self) -> Result<u64> {
        Ok(self.file.size() as u64)
    }

    async fn read(&mut self, start: u64, into: &mut [u8]) -> Result<()> {
        let mut at = start as f64;
        for piece in into.chunks_mut(PIECE) {
            let end = at + piece.len() as f64;
            let part = self.file.slice_with_f64_and_f64(at, end).map_err(told)?;
            let bytes = Uint8Array::new(&JsFuture::from(part.array_buffer()).await.map_err(told)?);
            if bytes.length() as usize != piece.len() {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            bytes.copy_to(piece);
            at = end;
        }
        Ok(())
    }
}
