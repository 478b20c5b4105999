//! A server of files, for pages that load some.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};

/// Folders by the first part of the addresses below them; serves until the program ends.
///
/// It answers requests for what follows a byte. Below `whole/` it gives whole files all the same, and below `cut/`
/// it hangs up in their middle.
pub struct Server {
    pub port: u16,
}

impl Server {
    pub fn of(folders: &[(&'static str, PathBuf)]) -> Server {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let folders = folders.to_vec();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let folders = folders.clone();
                // Who closes the connection early wants no more.
                std::thread::spawn(move || _ = answer(stream, &folders));
            }
        });
        Server { port }
    }
}

fn answer(mut stream: TcpStream, folders: &[(&str, PathBuf)]) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    let mut start = None;
    for line in lines {
        let line = line?.to_lowercase();
        if line.is_empty() {
            break;
        }
        let range = line.strip_prefix("range: bytes=").and_then(|range| range.strip_suffix('-'));
        start = start.or_else(|| range?.parse::<usize>().ok());
    }
    let path = request.split(' ').nth(1).unwrap_or("/");
    let path = path.split('?').next().unwrap_or(path).trim_start_matches('/');
    let (whole, cut) = (path.strip_prefix("whole/"), path.strip_prefix("cut/"));
    let path = whole.or(cut).unwrap_or(path);
    let file = folders.iter().find_map(|(name, folder)| Some(folder.join(path.strip_prefix(name)?)));
    match file.filter(|_| !path.contains("..")).and_then(|file| Some((std::fs::read(&file).ok()?, file))) {
        Some((bytes, file)) => {
            let start = start.filter(|&start| start <= bytes.len() && whole.is_none());
            let (status, rest) =
                start.map_or(("200 OK", &bytes[..]), |start| ("206 Partial Content", &bytes[start..]));
            write!(stream, "HTTP/1.1 {status}\r\nContent-Type: {}\r\n", kind(&file))?;
            if let Some(start) = start {
                let (last, size) = (bytes.len().saturating_sub(1), bytes.len());
                write!(stream, "Content-Range: bytes {start}-{last}/{size}\r\n")?;
            }
            write!(stream, "Content-Length: {}\r\nConnection: close\r\n\r\n", rest.len())?;
            stream.write_all(&rest[..if cut.is_some() { rest.len() / 2 } else { rest.len() }])
        }
        None => write!(stream, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
    }
}

fn kind(file: &Path) -> &'static str {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript",
        Some("wasm") => "application/wasm",
        Some("css") => "text/css",
        _ => "application/octet-stream",
    }
}
