//! Replays recorded PyTorch calls on kiln and compares the results.
//!
//! `KILN_CORPUS` names the folder (default `tests/corpus`; any folder of its
//! format will do), `KILN_CORPUS_DEVICE` a device or `oracle`, `KILN_CORPUS_EVERY=3`
//! keeps every third case of each operation. An argument
//! keeps only the operations whose name contains it; then, or with
//! `KILN_CORPUS_VERBOSE=1`, every case that did not pass is printed with its
//! reason. The exit status is not zero if kiln panicked, or if too few of the
//! cases that kiln has an answer to passed.

mod corpus_runner;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use corpus_runner::manifest::{self, Op};
use corpus_runner::report::{OpReport, Tally, Verdict, print_op};
use corpus_runner::run;
use corpus_runner::safetensors;
use corpus_runner::target::Target;
use rayon::prelude::*;

/// The device when `KILN_CORPUS_DEVICE` names none.
const DEFAULT_DEVICE: &str = "cpu";

/// The least fraction of the answered cases that must pass, over all
/// operations that kiln implements, and by which each operation is listed.
fn required(_target: Target) -> f64 {
    0.98
}

fn main() -> ExitCode {
    match conform() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("corpus: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the corpus; whether the result suffices.
fn conform() -> Result<bool, String> {
    if std::env::args().any(|arg| arg == "--list") {
        return Ok(true);
    }
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let device = std::env::var("KILN_CORPUS_DEVICE").unwrap_or_else(|_| DEFAULT_DEVICE.into());
    let target = Target::parse(&device).map_err(|error| error.to_string())?;
    let folder = folder();
    // Panics are caught and reported with their case.
    std::panic::set_hook(Box::new(|_| {}));
    let mut manifest = manifest::read(&folder)?;
    manifest.ops.iter_mut().for_each(|op| thin(op, every()));
    let chosen: Vec<&Op> =
        manifest.ops.iter().filter(|op| filter.as_ref().is_none_or(|f| op.name.contains(f))).collect();
    let run = |op: &&Op| {
        let arrays = safetensors::read(&folder.join(&op.file));
        pollster::block_on(run::run(op, &manifest, arrays, target))
    };
    let reports: Vec<OpReport> = chosen.par_iter().map(run).collect();
    let verbose = filter.is_some() || std::env::var("KILN_CORPUS_VERBOSE").is_ok_and(|v| v == "1");
    reports.iter().for_each(|report| print_op(report, verbose));
    Ok(summarize(&reports, &device, required(target)))
}

/// Of how many cases one is taken (`KILN_CORPUS_EVERY`).
fn every() -> usize {
    std::env::var("KILN_CORPUS_EVERY").ok().and_then(|n| n.parse().ok()).unwrap_or(1).max(1)
}

/// Keeps the first and from there on every so many-th of an operation's calls.
fn thin(op: &mut Op, every: usize) {
    op.cases = std::mem::take(&mut op.cases).into_iter().step_by(every).collect();
    op.refusals = std::mem::take(&mut op.refusals).into_iter().step_by(every).collect();
}

/// `KILN_CORPUS`, or the copy beside this file.
fn folder() -> PathBuf {
    let own = || Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join("corpus");
    std::env::var_os("KILN_CORPUS").map_or_else(own, PathBuf::from)
}

/// Prints the operations below `required` and the totals.
fn summarize(reports: &[OpReport], device: &str, required: f64) -> bool {
    let all = |verdicts: fn(&OpReport) -> &Vec<(u64, Verdict)>| Tally::of(reports.iter().flat_map(verdicts));
    let (forward, gradients, refusals) = (all(|r| &r.forward), all(|r| &r.gradients), all(|r| &r.refusals));
    let conventions = all(|r| &r.conventions);
    let percent = |rate: f64| format!("{:.1} %", 100.0 * rate);
    println!();
    for report in reports {
        let tally = Tally::of(&report.forward);
        if tally.rate() < required {
            println!("below {}: {} ({}, {tally})", percent(required), report.name, percent(tally.rate()));
        }
    }
    let implemented =
        reports.iter().filter(|r| Tally::of(&r.forward).total() > Tally::of(&r.forward).unsupported);
    println!(
        "{} of {} operations implemented; of their answered cases {} passed; {} panicked",
        implemented.count(),
        reports.len(),
        percent(forward.rate()),
        forward.panicked + gradients.panicked + refusals.panicked + conventions.panicked,
    );
    println!(
        "corpus {device}: {forward} of {}; gradients: {gradients} of {}; rejected: {} of {}",
        forward.total(),
        gradients.total(),
        refusals.passed,
        refusals.total(),
    );
    if conventions.total() > 0 {
        println!("conventions {device}: {conventions} of {}", conventions.total());
    }
    let panicked = forward.panicked + gradients.panicked + refusals.panicked + conventions.panicked;
    forward.rate() >= required && gradients.rate() >= required && panicked == 0
}
