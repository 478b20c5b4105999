//! Recorded calls of PyTorch, replayed in the page.

#[path = "../../../tests/corpus_runner/mod.rs"]
#[allow(dead_code)] // the native program uses more of it
mod corpus_runner;

use corpus_runner::manifest::{self, Manifest};
use corpus_runner::report::{OpReport, Tally, Verdict};
use corpus_runner::run;
use corpus_runner::safetensors;
use corpus_runner::target::Target;
use wasm_bindgen::JsError;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::Result;

/// The calls that were recorded.
#[wasm_bindgen]
pub struct Corpus(Manifest);

#[wasm_bindgen]
impl Corpus {
    /// Those that a manifest lists, of each operation every so many-th.
    ///
    /// # Errors
    /// What is wrong with the text.
    #[wasm_bindgen(constructor)]
    pub fn new(manifest: &str, every: usize) -> Result<Corpus> {
        let mut manifest = manifest::parse(manifest).map_err(|error| JsError::new(&error))?;
        for op in &mut manifest.ops {
            op.cases = std::mem::take(&mut op.cases).into_iter().step_by(every).collect();
            op.refusals = std::mem::take(&mut op.refusals).into_iter().step_by(every).collect();
        }
        Ok(Corpus(manifest))
    }

    /// How many operations there are.
    pub fn count(&self) -> usize {
        self.0.ops.len()
    }

    /// The file of an operation's tensors.
    pub fn file(&self, number: usize) -> String {
        self.0.ops[number].file.clone()
    }

    /// Runs the cases of an operation on a device that is open. Gives how many calls passed, failed and are not in
    /// kiln, then the same of gradients and of calls to be rejected; then why those failed that did.
    ///
    /// # Errors
    /// The device has no such name.
    pub async fn run(&self, number: usize, device: String, file: Vec<u8>) -> Result<Vec<String>> {
        let op = &self.0.ops[number];
        let arrays = safetensors::parse(&file).ok_or_else(|| format!("{}: not a safetensors file", op.file));
        let report = run::run(op, &self.0, arrays, Target::parse(&device)?).await;
        Ok(told(&report))
    }
}

fn told(report: &OpReport) -> Vec<String> {
    let all = [("", &report.forward), ("gradient of ", &report.gradients), ("rejected ", &report.refusals)];
    let mut told: Vec<String> = Vec::new();
    for (_, verdicts) in all {
        let Tally { passed, failed, unsupported, .. } = Tally::of(verdicts);
        told.extend([passed, failed, unsupported].map(|count| count.to_string()));
    }
    for (what, verdicts) in all {
        for (case, verdict) in verdicts {
            if let Verdict::Failed(why) | Verdict::Panicked(why) = verdict {
                told.push(format!("{}: {what}{case}: {why}", report.name));
            }
        }
    }
    told
}
