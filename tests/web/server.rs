//! A server of files, for pages that load some.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};

/// Folders by the first part of the addresses below them; serves until the program ends.
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
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let path = request.split(' ').nth(1).unwrap_or("/");
    let path = path.split('?').next().unwrap_or(path).trim_start_matches('/');
    let file = folders.iter().find_map(|(name, folder)| Some(folder.join(path.strip_prefix(name)?)));
    match file.filter(|_| !path.contains("..")).and_then(|file| Some((std::fs::read(&file).ok()?, file))) {
        Some((bytes, file)) => {
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: {}\r\n", kind(&file))?;
            write!(stream, "Content-Length: {}\r\nConnection: close\r\n\r\n", bytes.len())?;
            stream.write_all(&bytes)
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
