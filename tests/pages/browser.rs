//! A browser without a window, driven by Chromium's driver over HTTP.
//!
//! Source: "WebDriver", W3C; the log is an extension of the driver's.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// The name of a reference to an element in the protocol.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A browser with one window; closed when it is dropped.
pub struct Browser {
    driver: Child,
    /// Held open: the driver ends when it cannot write there.
    _output: BufReader<ChildStdout>,
    port: u16,
    session: String,
}

impl Browser {
    /// Opens one, in a light or dark theme; `None` where Chromium or its driver is not installed.
    pub fn open(dark: bool) -> Option<Browser> {
        Browser::open_with(if dark { &["--blink-settings=preferredColorScheme=0"] } else { &[] })
    }

    /// Opens one with arguments of its own; `None` where Chromium or its driver is not installed.
    pub fn open_with(own: &[&str]) -> Option<Browser> {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut output = BufReader::new(driver.stdout.take()?);
        let port = port(&mut output).expect("the driver tells its port");
        let mut browser = Browser { driver, _output: output, port, session: String::new() };
        let mut arguments =
            vec!["--headless=new", "--no-sandbox", "--window-size=1440,900", "--hide-scrollbars"];
        arguments.extend(own);
        let options =
            json!({"goog:loggingPrefs": {"browser": "ALL"}, "goog:chromeOptions": {"args": arguments}});
        let wanted = json!({"capabilities": {"alwaysMatch": options}});
        let session = browser.ask("POST", "/session", &wanted).expect("a session");
        browser.session = format!("/session/{}", session["sessionId"].as_str()?);
        Some(browser)
    }

    /// Opens a file.
    pub fn visit(&self, page: &Path) {
        self.visit_address(&format!("file://{}", page.display()));
    }

    /// Opens an address.
    pub fn visit_address(&self, address: &str) {
        self.command("/url", &json!({"url": address}));
    }

    /// Sets the size of the window.
    pub fn resize(&self, width: u32, height: u32) {
        self.command("/window/rect", &json!({"width": width, "height": height}));
    }

    /// What a script in the page returns.
    pub fn run(&self, script: &str) -> Value {
        self.command("/execute/sync", &json!({"script": script, "args": []}))
    }

    /// The number that a script in the page returns.
    pub fn number(&self, script: &str) -> f64 {
        let found = self.run(script);
        found.as_f64().unwrap_or_else(|| panic!("{script}: {found}"))
    }

    /// The text that a script in the page returns.
    pub fn text(&self, script: &str) -> String {
        let found = self.run(script);
        found.as_str().unwrap_or_else(|| panic!("{script}: {found}")).into()
    }

    /// The first element of a selector.
    fn element(&self, selector: &str) -> Value {
        self.command("/element", &json!({"using": "css selector", "value": selector}))
    }

    pub fn click(&self, selector: &str) {
        self.act(selector, "click", &json!({}));
    }

    /// Types into an element.
    pub fn write(&self, selector: &str, text: &str) {
        self.act(selector, "value", &json!({"text": text}));
    }

    fn act(&self, selector: &str, action: &str, body: &Value) {
        let element = self.element(selector);
        let id = element[ELEMENT].as_str().unwrap_or_else(|| panic!("{selector}: {element}"));
        self.command(&format!("/element/{id}/{action}"), body);
    }

    /// Moves the pointer to the middle of an element.
    pub fn hover(&self, selector: &str) {
        let to =
            json!({"type": "pointerMove", "duration": 0, "origin": self.element(selector), "x": 0, "y": 0});
        self.perform(&json!({"type": "pointer", "id": "mouse", "actions": [to]}));
    }

    /// Turns the wheel over an element.
    pub fn wheel(&self, selector: &str, by: i32) {
        let turn = json!({"type": "scroll", "duration": 0, "origin": self.element(selector), "x": 0, "y": 0,
            "deltaX": 0, "deltaY": by});
        self.perform(&json!({"type": "wheel", "id": "wheel", "actions": [turn]}));
    }

    fn perform(&self, device: &Value) {
        self.command("/actions", &json!({"actions": [device]}));
    }

    /// What the page has said on the console since it was last asked, errors included.
    pub fn log(&self) -> Value {
        self.command("/se/log", &json!({"type": "browser"}))
    }

    /// The window as a PNG.
    pub fn screenshot(&self) -> Vec<u8> {
        let found = self.ask("GET", &format!("{}/screenshot", self.session), &Value::Null);
        decoded(found.expect("a picture").as_str().expect("a text"))
    }

    fn command(&self, path: &str, body: &Value) -> Value {
        let found = self.ask("POST", &format!("{}{path}", self.session), body);
        found.unwrap_or_else(|error| panic!("{path} {body}: {error}"))
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = self.exchange(method, path, &body).map_err(|error| error.to_string())?;
        let answer: Value = serde_json::from_str(&answer).map_err(|error| format!("{error}: {answer}"))?;
        match answer["value"]["error"].as_str() {
            Some(error) => Err(format!("{error}: {}", answer["value"]["message"])),
            None => Ok(answer["value"].clone()),
        }
    }

    fn exchange(&self, method: &str, path: &str, body: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        let (port, length) = (self.port, body.len());
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        )?;
        write!(stream, "Connection: close\r\nContent-Length: {length}\r\n\r\n{body}")?;
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().unwrap_or(0);
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut answer = vec![0; length];
        reader.read_exact(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into())
    }
}

/// The port that a driver says it listens on.
fn port(output: &mut impl BufRead) -> Option<u16> {
    let mut lines = output.lines().map_while(Result::ok);
    let port = lines.find_map(|line| Some(line.split_once("successfully on port ")?.1.to_string()))?;
    port.trim_end_matches('.').parse().ok()
}

/// What a text in base 64 stands for.
fn decoded(text: &str) -> Vec<u8> {
    let sextet = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let sextets: Vec<u8> = text.bytes().filter_map(sextet).collect();
    let bytes = |four: &[u8]| {
        let bits =
            four.iter().enumerate().fold(0u32, |bits, (at, &six)| bits | u32::from(six) << (18 - 6 * at));
        bits.to_be_bytes()[1..four.len()].to_vec()
    };
    sextets.chunks(4).flat_map(bytes).collect()
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            _ = self.ask("DELETE", &self.session, &Value::Null);
        }
        _ = self.driver.kill();
        _ = self.driver.wait();
    }
}
