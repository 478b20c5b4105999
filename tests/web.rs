//! kiln in a page of Chromium: the CPU device and WebGPU replay a part of the corpus, run random programs, load
//! weights by address, train a network and talk with a language model.
//!
//! `KILN_WEB` names the folder that `bash examples/web/build.sh --tests FOLDER` has made. Without it this is
//! skipped. `KILN_WEB_EVERY=1` replays every recorded call, not each fifteenth.

#[path = "web/alphabet.rs"]
mod alphabet;
#[path = "pages/browser.rs"]
#[allow(dead_code)] // pages are clicked at elsewhere
mod browser;
#[path = "web/server.rs"]
mod server;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use browser::Browser;
use serde_json::{Value, json};
use server::Server;

/// A browser at the page of tests.
struct Page(Browser);

impl Page {
    fn open(path: &str, more: &[&str]) -> Option<Page> {
        let Some(built) = std::env::var_os("KILN_WEB").map(PathBuf::from) else {
            println!("skipped: KILN_WEB names no folder made by examples/web/build.sh --tests");
            return None;
        };
        let own = |path: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        let folders = [
            ("page/pkg/", built.join("pkg")),
            ("page/chat/", built.join("pkg")),
            ("page/data/", own("examples/data")),
            ("page/", own("examples/web")),
            ("pkg/", built.join("pkg")),
            ("corpus/", own("tests/corpus")),
            ("files/", own("tests/files/recorded")),
            ("models/", std::env::temp_dir()),
            ("data/", own("examples/data")),
            ("", own("tests/web")),
        ];
        let server = Server::of(&folders);
        let Some(browser) = Browser::open_with(&[&["--enable-unsafe-webgpu"], more].concat()) else {
            assert!(
                std::env::var_os("KILN_REQUIRE_BROWSER").is_none(),
                "chromium and chromedriver are required"
            );
            println!("skipped: chromium and chromedriver are not installed");
            return None;
        };
        browser.visit_address(&format!("http://127.0.0.1:{}/{path}", server.port));
        Some(Page(browser))
    }

    /// What a test of the page gives.
    fn run(&self, arguments: &Value) -> Value {
        let result = self.result(arguments);
        assert!(result["failed"].is_null(), "{arguments}: {}\n{}", result["failed"], self.0.log());
        result["found"].clone()
    }

    /// What a test of the page gives, or its error.
    fn result(&self, arguments: &Value) -> Value {
        let arguments: Vec<String> =
            arguments.as_array().expect("a list").iter().map(Value::to_string).collect();
        self.0.run(&format!("start({})", arguments.join(", ")));
        let started = Instant::now();
        loop {
            let result = self.0.run("return window.result ?? null");
            if !result.is_null() {
                return result;
            }
            assert!(started.elapsed() < Duration::from_secs(300), "{arguments:?}: {}", self.0.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Waits until a script in the page gives true.
fn until(browser: &Browser, condition: &str) {
    let started = Instant::now();
    while browser.run(&format!("return Boolean({condition})")) != true {
        let state = || browser.text("return document.body.innerText");
        assert!(started.elapsed() < Duration::from_secs(60), "{condition}: {}\n{}", state(), browser.log());
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Keeps a picture of the window, where `KILN_SCREENSHOTS` names a folder.
fn picture(browser: &Browser, name: &str) {
    if let Some(folder) = std::env::var_os("KILN_SCREENSHOTS") {
        std::fs::write(Path::new(&folder).join(name), browser.screenshot()).expect("a picture");
    }
}

/// The share of the calls that kiln has an answer to, gradients of calls, and calls to be rejected which pass.
fn corpus(page: &Page, device: &str) -> [f64; 3] {
    let every: u64 = std::env::var("KILN_WEB_EVERY").ok().and_then(|every| every.parse().ok()).unwrap_or(15);
    let mut counts = [0.0; 9];
    let mut reasons = Vec::new();
    // In parts, each of which the driver waits for.
    const PARTS: usize = 8;
    for part in 0..PARTS {
        let found = page.run(&json!(["corpus", device, every, part, PARTS]));
        for (sum, count) in counts.iter_mut().zip(found["counts"].as_array().expect("counts")) {
            *sum += count.as_f64().expect("a count");
        }
        let told = found["reasons"].as_array().expect("reasons").iter();
        reasons.extend(told.map(|reason| reason.as_str().unwrap_or_default().to_string()));
    }
    // What an adapter without 64-bit floats refuses is no failure.
    let lacking = |reason: &&String| reason.contains("SHADER_F64");
    let lacks =
        |what: &str| reasons.iter().filter(lacking).filter(|reason| reason.contains(what)).count() as f64;
    let kinds = [lacks(": gradient of "), lacks(": rejected ")];
    let refused = [reasons.iter().filter(lacking).count() as f64 - kinds[0] - kinds[1], kinds[0], kinds[1]];
    reasons
        .iter()
        .filter(|reason| !lacking(reason))
        .for_each(|reason| println!("{device}: {}", &reason[..reason.len().min(300)]));
    println!(
        "corpus {device}: passed, failed, not in kiln: {counts:?}; of the failed for want of 64-bit floats: {refused:?}"
    );
    std::array::from_fn(|kind| {
        let (passed, failed) = (counts[3 * kind], counts[3 * kind + 1] - refused[kind]);
        if passed + failed == 0.0 { 1.0 } else { passed / (passed + failed) }
    })
}

fn trains(page: &Page, device: &str) {
    let found = page.run(&json!(["training", device, 20]));
    let losses: Vec<f64> =
        found["losses"].as_array().expect("losses").iter().filter_map(Value::as_f64).collect();
    let (accuracy, all) =
        (found["accuracy"].as_f64().expect("a share"), found["milliseconds"].as_f64().unwrap_or(0.0));
    let first = found["first"].as_f64().unwrap_or(0.0);
    println!(
        "training {device}: loss {:.3}, accuracy {accuracy:.4}, first epoch {first:.0} ms, step {:.2} ms",
        losses[19],
        (all - first) / 190.0
    );
    assert!(losses[19] < 0.4 * losses[0] && accuracy > 0.8, "{device}: {accuracy} {losses:?}");
    assert!(found["plan"].as_str().is_some_and(|plan| plan.lines().count() > 1));
}

#[test]
fn kiln_computes_in_a_page() {
    let Some(page) = Page::open("test.html", &[]) else { return };
    for (device, required) in [("cpu", 0.98), ("wgpu:0", 0.97)] {
        trains(&page, device);
        let facts = page.run(&json!(["facts", device]));
        println!("{}", facts.as_str().unwrap_or_default());
        let differences = page.run(&json!(["programs", device, 20]));
        assert_eq!(differences, json!([]), "{device}");
        let shares = corpus(&page, device);
        assert!(shares.iter().all(|&share| share >= required), "{device}: {shares:?}");
    }
    let log = page.0.log().to_string();
    assert!(!log.contains("panicked"), "{log}");
    let blocked = page.run(&json!(["blocking", "wgpu:0"]));
    assert!(blocked.as_str().is_some_and(|error| error.contains("await item_async")), "{blocked}");
}

/// The sums of the numbers of each tensor of a file.
fn sums(name: &str) -> Vec<(String, f32)> {
    let path = Path::new("tests/files/recorded").join(name);
    let state = match name.ends_with(".gguf") {
        true => kiln::StateDict::open_gguf(path),
        false => kiln::StateDict::open(path),
    };
    let state = state.expect("a file");
    let sum = |tensor: &kiln::tensor::Tensor| tensor.to_dtype(kiln::DType::F32).sum(..).item::<f32>();
    state.iter().map(|(name, tensor)| (name.into(), sum(tensor).expect("a number"))).collect()
}

#[test]
fn weights_load_by_address_with_ranges_and_without() {
    let Some(page) = Page::open("test.html", &[]) else { return };
    for name in ["blocks.safetensors", "small.gguf"] {
        let expected = sums(name);
        for (folder, device) in [("", "cpu"), ("whole/", "cpu"), ("", "wgpu:0")] {
            let found = page.run(&json!(["sums", device, format!("{folder}files/{name}")]));
            let found: Vec<&str> =
                found.as_array().expect("a list").iter().filter_map(Value::as_str).collect();
            assert_eq!(found.len(), expected.len(), "{folder}{name}");
            for (line, (name, sum)) in found.iter().zip(&expected) {
                let (told, number) = line.split_once(' ').expect("a name and a number");
                let error = (number.parse::<f32>().expect("a number") - sum).abs();
                assert!(told == name && error <= 1e-4 * sum.abs().max(1.0), "{line} is not {name} {sum}");
            }
        }
        for (address, expected) in
            [(format!("cut/files/{name}"), ""), (format!("files/no-{name}"), "404 Not Found")]
        {
            let error = page.result(&json!(["sums", "cpu", address]))["failed"].to_string();
            assert!(error.contains(&address) && error.contains(expected), "{error}");
        }
        let error = page.result(&json!(["sums", "cpu", "http://127.0.0.1:1/a"]))["failed"].to_string();
        assert!(error.contains("http://127.0.0.1:1/a"), "{error}");
    }
    let log = page.0.log().to_string();
    assert!(!log.contains("panicked"), "{log}");
}

#[test]
fn a_language_model_by_address_or_chosen_answers_on_both_devices() {
    let name = format!("kiln-alphabet-{}.gguf", std::process::id());
    let file = std::env::temp_dir().join(&name);
    alphabet::save(&file);
    let address = format!("page/index.html?model=/models/{name}");
    let Some(Page(browser)) = Page::open(&address, &[]) else { return };
    for device in ["wgpu:0", "cpu"] {
        let choose = format!("device.value = '{device}'; device.dispatchEvent(new Event('change'))");
        if device == "cpu" {
            browser.write("#chat-file", &file.display().to_string());
            until(&browser, "!document.querySelector('#chat-device').disabled");
            browser.run(&format!("const device = document.querySelector('#chat-device'); {choose}"));
        }
        until(
            &browser,
            &format!("document.querySelector('#chat-state').textContent.includes('on {device}')"),
        );
        until(&browser, "!document.querySelector('#chat-send').disabled");
        browser.write("#chat-prompt", "abc\n");
        until(&browser, "document.querySelector('#chat-state').textContent === 'Done.'");
        let said = browser.text("return document.querySelector('#chat-said').lastChild.textContent");
        assert_eq!(said, "defghijklmnopqrstuvwxyz", "{device}");
        let rate = browser.number("return parseFloat(document.querySelector('#chat-rate').textContent)");
        assert!(rate > 0.0, "{device}: {rate} tokens a second");
    }
    std::fs::remove_file(file).expect("a file");
    // One that is dropped, and is none.
    browser.run(
        "const dataTransfer = new DataTransfer();
        dataTransfer.items.add(new File(['no model'], 'dropped.gguf'));
        document.querySelector('#chat-panel').dispatchEvent(new DragEvent('drop', { dataTransfer }))",
    );
    until(&browser, "document.querySelector('#chat-state').className === 'wrong'");
    let told = browser.text("return document.querySelector('#chat-state').textContent");
    assert!(told.contains("dropped.gguf: it does not begin with GGUF"), "{told}");
    let log = browser.log().to_string();
    assert!(!log.contains("SEVERE"), "{log}");
}

#[test]
fn the_page_learns_to_read_and_reads_what_is_drawn() {
    let Some(Page(browser)) = Page::open("page/index.html", &["--force-prefers-reduced-motion"]) else {
        return;
    };
    until(&browser, "!document.querySelector('#train').disabled");
    browser.click("#train");
    until(&browser, "parseFloat(document.querySelector('#accuracy').textContent) > 85");
    browser.click("#sample");
    until(
        &browser,
        "document.querySelector('#bars .best') && document.querySelector('#answer').textContent.startsWith('It reads')",
    );
    assert!(browser.number("return document.querySelectorAll('#kernels details').length") > 1.0);
    assert!(browser.text("return document.querySelector('#kernels').textContent").contains("fn main"));
    assert!(browser.text("return document.querySelector('#facts').textContent").contains("wgpu:0"));
    // By keyboard: the pen goes down and draws a stroke.
    browser.click("#clear");
    browser.write("#pad", " \u{e015}\u{e015}\u{e015}\u{e015}\u{e015}\u{e015} ");
    until(&browser, "document.querySelector('#pad').ariaLabel.endsWith('with a drawing')");
    browser.click("#sample");
    for (width, height, name) in [(1440, 900, "wide"), (820, 1180, "tablet"), (390, 844, "phone")] {
        browser.resize(width, height);
        let wider = browser
            .number("return document.documentElement.scrollWidth - document.documentElement.clientWidth");
        assert_eq!(wider, 0.0, "{name} scrolls sideways");
        std::thread::sleep(Duration::from_millis(300));
        picture(&browser, &format!("digits-{name}.png"));
    }
    browser.click("#train");
    let log = browser.log().to_string();
    assert!(!log.contains("SEVERE"), "{log}");
}
