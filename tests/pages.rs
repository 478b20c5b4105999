//! The pages of plans and profiles, in a browser: they draw, answer, and say what the reports say.
//!
//! Where Chromium and its driver are not installed, this is skipped, unless `KILN_REQUIRE_BROWSER` is set.
//! `KILN_SCREENSHOTS` names a folder for pictures of the views.

#[path = "pages/browser.rs"]
#[allow(dead_code)] // pages that compute use more of it
mod browser;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use browser::Browser;
use kiln::nn::{Layer, Linear, ModuleExt, Sequential};
use kiln::optim::{Adam, AdamOpts, Optimizer};
use kiln::prelude::*;
use kiln::profile::{Profile, Profiler, Schedule, record_function};
use kiln::{Context, PlanReport, with_context};

/// A profiler records every thread, so one test runs at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// A browser, unless none is installed; nobody else has one meanwhile.
fn browser() -> Option<(Browser, MutexGuard<'static, ()>)> {
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let browser = Browser::open(false);
    if browser.is_none() {
        assert!(std::env::var_os("KILN_REQUIRE_BROWSER").is_none(), "chromium and chromedriver are required");
        println!("skipped: chromium and chromedriver are not installed");
    }
    Some((browser?, alone))
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
    let Some((browser, _alone)) = browser() else { return };
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
    browser.click(".chart .block[data-block='gradients of 4 parameters, packed']");
    let parts = browser.text("return document.querySelector('#parts').innerText");
    let shapes = [
        ("0.weight", "f32[32, 16]"),
        ("0.bias", "f32[32]"),
        ("2.weight", "f32[10, 32]"),
        ("2.bias", "f32[10]"),
    ];
    for (name, shape) in shapes {
        let named = |line: &str| line.starts_with(shape) && line.contains(&format!("gradient of {name}"));
        assert!(parts.lines().any(named), "{name} in {parts}");
    }
    picture(browser, "memory.png");
}

/// A label that would end the page's data, were it written as it is.
const HOSTILE: &str = "</script><b>\"batch\"</b>";

/// Two steps of training, memory included.
fn profiled() -> Profile {
    kiln::manual_seed(0);
    let net = network();
    let mut adam = Adam::new(net.parameters(), AdamOpts::default());
    let schedule = Schedule { skip_first: 0, wait: 0, warmup: 2, active: 2, repeat: 1 };
    let mut profiler = Profiler::builder().profile_memory(true).schedule(schedule).start();
    for _ in 0..4 {
        let x = record_function(HOSTILE, || Tensor::randn([8, 16], ()));
        let labels = Tensor::zeros([8], ()).to_dtype(DType::I64);
        let loss = record_function("net", || net.forward(&x)).cross_entropy(&labels, Default::default());
        adam.zero_grad();
        loss.backward().expect("gradients");
        adam.step().expect("a step");
        profiler.step();
    }
    profiler.stop().expect("a profile")
}

#[test]
fn a_profiles_page_says_what_the_profile_says() {
    let Some((browser, _alone)) = browser() else { return };
    with_context(&Context::new(), || {
        let (profile, page) = (profiled(), file("profile.html"));
        profile.write_html(&page).expect("a page");
        browser.visit(&page);
        assert_eq!(total(&browser, "runs"), profile.kernels().count() as f64);
        let measured: f64 = profile.kernels().map(|run| run.time.as_secs_f64()).sum();
        let predicted: f64 =
            profile.kernels().filter_map(|run| Some(run.kernel.predicted?.time.as_secs_f64())).sum();
        for (name, value) in
            [("measured", measured), ("predicted", predicted), ("ratio", measured / predicted)]
        {
            let shown = total(&browser, name);
            assert!((shown - value).abs() < 1e-3 * value, "{name}: {shown}, {value}");
        }
        browser.click(".graph .box[data-kind=kernel] .back");
        let panel = browser.text("return document.querySelector('#detail').innerText");
        assert!(panel.contains("mean of 2 runs") && panel.contains("measured / predicted"), "{panel}");
        assert!(panel.contains(HOSTILE), "{panel}");
        picture(&browser, "profile.png");

        // Asked in the same script, so before the next frame.
        let tracks = browser.text(
            "document.querySelector('[data-tab=Timeline]').click();
             return document.querySelector('[data-view=Timeline] .chart').textContent",
        );
        for name in ["cpu: kernels", "cpu: predicted", "host: ", "time", "step 2"] {
            assert!(tracks.contains(name), "{name} in {tracks}");
        }
        picture(&browser, "timeline.png");
        profile_shows_memory(&browser, &profile);
        assert_quiet(&browser);
    });
}

/// Parameters and state that were there before, and what the steps took: each activation by itself.
fn profile_shows_memory(browser: &Browser, profile: &Profile) {
    browser.click("[data-tab=Memory]");
    let count = |kind: &str| {
        browser.number(&format!(
            "return document.querySelectorAll('.chart .block[fill=\"var(--{kind})\"]').length"
        ))
    };
    for kind in ["parameter", "optimizer", "gradient", "activation", "arena"] {
        assert!(count(kind) > 0.0, "{kind}");
    }
    let labeled = browser.number(
        "return NOW.profile.memory.blocks.filter(block => block.kind === 'activation' && block.label.startsWith('net/')).length",
    );
    assert!(labeled > 0.0, "no activation has the label of its layer");
    let most = profile.memory_events().map(|event| event.in_use).max().unwrap_or(0);
    let shown =
        browser.number("return Number(document.querySelector('[data-view=Memory] .note').dataset.most)");
    assert_eq!(shown, most as f64);
    picture(browser, "profile_memory.png");
}

#[test]
fn a_loop_is_drawn_with_its_kernels_inside() {
    let Some((browser, _alone)) = browser() else { return };
    with_context(&Context::new(), || {
        let (x, w) = (Tensor::ones([12, 8, 8], ()), Tensor::ones([8, 8], ()));
        kiln::realize(&[&x, &w]).expect("inputs");
        let (last, all) = kiln::scan(&[Tensor::zeros([8, 8], ())], &[x], |carries, slice| {
            let next = (carries[0].matmul(&w) + &slice[0]).tanh();
            (vec![next.clone()], vec![next])
        });
        let (report, page) =
            (kiln::plan(&[&last[0].exp(), &all[0].sum(0)]).expect("a plan"), file("loop.html"));
        report.write_html(&page).expect("a page");
        browser.visit(&page);
        assert_eq!(total(&browser, "kernels"), report.kernels.len() as f64);
        assert_eq!(total(&browser, "launches"), report.launches() as f64);
        assert_eq!(total(&browser, "peak"), report.peak_bytes() as f64);
        let drawn = browser.text("return document.querySelector('.graph .loop') ? document.querySelector('.graph').textContent : ''");
        assert!(drawn.contains("× 12") && drawn.contains("loop"), "{drawn}");
        // What reads the loop's results reads its kernel's.
        let read = browser.number("return NOW.nodes.filter(node => node.group === null && node.reads.some(read => read.from.length)).length");
        assert!(read >= 2.0, "{read}");
        assert_quiet(&browser);
    });
}

#[test]
fn a_page_that_cannot_be_written_is_an_error() {
    let plan = Tensor::ones([4], ()).exp().plan().expect("a plan");
    let error = plan.write_html(env!("CARGO_TARGET_TMPDIR")).expect_err("a folder is no file").to_string();
    assert!(error.contains(env!("CARGO_TARGET_TMPDIR")) && error.contains("tests/pages.rs"), "{error}");
}

#[test]
fn a_comparison_lists_what_changed() {
    let Some((browser, _alone)) = browser() else { return };
    with_context(&Context::new(), || {
        let (x, w) = (Tensor::ones([64, 64], ()), Tensor::ones([64, 64], ()));
        kiln::realize(&[&x, &w]).expect("inputs");
        let y = |activation: fn(&Tensor) -> Tensor| activation(&x.matmul(&w)).softmax(-1);
        let before = y(Tensor::gelu).plan().expect("a plan");
        let after = y(Tensor::relu).matmul(&w).plan().expect("a plan");
        let page = file("comparison.html");
        after.write_html_against(&before, &page).expect("a page");
        browser.visit(&page);
        let rows = |what: &str| {
            browser.text(&format!("return [...document.querySelectorAll('tr[data-change={what}]')].map(row => row.innerText).join('; ')"))
        };
        assert!(rows("changed").contains("gelu_softmax → relu_softmax"), "{}", rows("changed"));
        assert!(rows("added").contains("matmul"), "{}", rows("added"));
        assert_eq!(rows("removed"), "");
        let kernels = browser.text("return document.querySelector('[data-compared=kernels]').innerText");
        let expected = [before.kernels.len(), after.kernels.len()].map(|count| count.to_string());
        assert_eq!(kernels.split_whitespace().skip(1).take(2).collect::<Vec<_>>(), expected);
        browser.click("tr[data-change=changed]");
        let panel = browser.text("return document.querySelector('#detail').innerText");
        assert!(
            panel.contains("changed, before gelu_softmax") && panel.contains("another kernel IR"),
            "{panel}"
        );
        picture(&browser, "changes.png");

        browser.click("[data-tab=Graph]");
        let boxes =
            |class: &str| browser.number(&format!("return document.querySelectorAll('.box.{class}').length"));
        let all = (before.kernels.len() + after.kernels.len()) as f64;
        assert_eq!(browser.number("return document.querySelectorAll('.box').length"), all);
        assert!(boxes("added") >= 1.0 && boxes("changed") >= 2.0 && boxes("removed") == 0.0);
        browser.click("[data-tab=Memory]");
        assert_eq!(browser.number("return document.querySelectorAll('.compared .chart').length"), 2.0);
        picture(&browser, "compared_memory.png");
        assert_quiet(&browser);
    });
}
