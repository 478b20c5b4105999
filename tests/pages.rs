//! The pages of plans and profiles, in a browser: they draw, answer, and say what the reports say.
//!
//! Where Chromium and its driver are not installed, this is skipped, unless `KILN_REQUIRE_BROWSER` is set.
//! `KILN_SCREENSHOTS` names a folder for pictures of the views.

#[path = "pages/browser.rs"]
mod browser;

use std::path::{Path, PathBuf};

use browser::Browser;
use kiln::nn::{Layer, Linear, ModuleExt, Sequential};
use kiln::prelude::*;
use kiln::{Context, PlanReport, with_context};

/// A browser, unless none is installed.
fn browser() -> Option<Browser> {
    let browser = Browser::open(false);
    if browser.is_none() {
        assert!(std::env::var_os("KILN_REQUIRE_BROWSER").is_none(), "chromium and chromedriver are required");
        println!("skipped: chromium and chromedriver are not installed");
    }
    browser
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn network() -> Sequential {
    Sequential::new().push(Linear::new(16, 32, ())).then(Tensor::gelu).push(Linear::new(32, 10, ()))
}

/// The plan of a loss and its gradients.
fn training_step(net: &Sequential) -> PlanReport {
    let x = Tensor::randn([8, 16], ());
    let labels = Tensor::zeros([8], ()).to_dtype(DType::I64);
    let loss = net.forward(&x).cross_entropy(&labels, Default::default());
    loss.backward().expect("gradients");
    loss.plan().expect("a plan")
}

fn planned() -> PlanReport {
    kiln::manual_seed(0);
    let net = network();
    kiln::realize(
        &net.parameters().iter().map(|param| param.get()).collect::<Vec<_>>().iter().collect::<Vec<_>>(),
    )
    .expect("parameters");
    training_step(&net)
}

/// Keeps a picture of the window, where somebody asks for them.
fn picture(browser: &Browser, name: &str) {
    if let Some(folder) = std::env::var_os("KILN_SCREENSHOTS") {
        std::fs::write(Path::new(&folder).join(name), browser.screenshot()).expect("a picture");
    }
}

fn total(browser: &Browser, name: &str) -> f64 {
    browser.number(&format!("return Number(document.querySelector('[data-total={name}]').dataset.value)"))
}

fn assert_quiet(browser: &Browser) {
    let (log, loaded) =
        (browser.log(), browser.number("return performance.getEntriesByType('resource').length"));
    assert_eq!((log.to_string().as_str(), loaded), ("[]", 0.0), "errors, or something loaded");
}

#[test]
fn a_plans_page_says_what_the_report_says() {
    let Some(browser) = browser() else { return };
    with_context(&Context::new(), || {
        let (report, page) = (planned(), file("plan.html"));
        report.write_html(&page).expect("a page");
        browser.visit(&page);
        let boxes =
            browser.number("return document.querySelectorAll('.graph .box[data-kind=kernel]').length");
        assert_eq!(boxes, report.kernels.len() as f64);
        let expected = [
            ("kernels", report.kernels.len() as u64),
            ("launches", report.launches()),
            ("loaded", report.bytes_loaded()),
            ("stored", report.bytes_stored()),
            ("flops", report.flops()),
            ("transferred", report.bytes_transferred()),
            ("peak", report.peak_bytes()),
        ];
        for (name, value) in expected {
            assert_eq!(total(&browser, name), value as f64, "{name}");
        }
        answers(&browser, &report);
        shows_memory(&browser, &report);
        assert_quiet(&browser);
    });
}

/// Hovering, zooming, searching, selecting.
fn answers(browser: &Browser, report: &PlanReport) {
    let first = &report.kernels[0].name;
    browser.click("#fit");
    browser.hover(".graph .box[data-kind=kernel] .back");
    let tip = browser.text(
        "return document.querySelector('#tip').hidden ? '' : document.querySelector('#tip').textContent",
    );
    assert!(tip.contains(first.as_str()) && tip.contains("read"), "{tip}");

    let scale = || {
        browser.number("return document.querySelector('.graph > g').transform.baseVal.consolidate().matrix.a")
    };
    let before = scale();
    browser.wheel(".graph", -400);
    assert!(scale() > before * 1.2, "{before} to {}", scale());
    browser.click("#fit");

    browser.write("#search", "gelu");
    let gelus = report.kernels.iter().filter(|kernel| kernel.name.contains("gelu")).count();
    let found = browser.number("return document.querySelectorAll('.graph .box.match').length");
    assert!(gelus > 0 && found >= gelus as f64 && found < report.kernels.len() as f64, "{gelus}, {found}");
    browser.run(
        "const s = document.querySelector('#search'); s.value = ''; s.dispatchEvent(new Event('input'))",
    );

    browser.click(".graph .box[data-kind=kernel] .back");
    let panel = browser.text("return document.querySelector('#detail').innerText");
    for text in [first.as_str(), "tests/pages.rs:", "let loss = net.forward(&x)", "predicted", "FLOP"] {
        assert!(panel.contains(text), "{text} in {panel}");
    }
    picture(browser, "graph.png");
    let program = browser.text("return document.querySelector('#text').textContent");
    assert_eq!(program, report.kernels[0].source().expect("a program"));
    browser.click(".choices button:nth-child(2)");
    assert_eq!(browser.text("return document.querySelector('#text').textContent"), report.kernels[0].text());
}

/// Blocks with their kinds; as many bytes as the report has.
fn shows_memory(browser: &Browser, report: &PlanReport) {
    browser.click("[data-tab=Memory]");
    let bytes = |filter: &str| {
        browser.number(&format!(
            "return NOW.plans[0].blocks.filter({filter}).reduce((sum, block) => sum + block.bytes, 0)"
        ))
    };
    let memory = &report.memory[0];
    assert_eq!(bytes("block => block.offset === null"), (memory.peak() - memory.intermediates) as f64);
    // 16 by 32 and 32 by 10 weights with their biases.
    assert_eq!(bytes("block => block.kind === 'parameter'"), 4.0 * (16 * 32 + 32 + 32 * 10 + 10) as f64);
    assert!(bytes("block => block.kind === 'gradient' && block.offset === null") > 0.0);
    let named = browser
        .number("return NOW.plans[0].blocks.filter(block => block.name && block.line !== null).length");
    assert_eq!(named, browser.number("return NOW.plans[0].blocks.length"), "blocks without a name or a line");
    let blocks = browser.number("return document.querySelectorAll('.chart .block').length");
    assert_eq!(blocks, named);
    let axes = browser.text("return document.querySelector('.chart').textContent");
    assert!(axes.contains("step of the plan") && axes.contains("bytes") && axes.contains("KiB"), "{axes}");
    browser.hover(".chart .block");
    assert!(browser.text("return document.querySelector('#tip').textContent").contains("parameter"));
    picture(browser, "memory.png");
}
