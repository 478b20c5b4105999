//! Attention by the template against the interpreter of its body, and through
//! NVIDIA's compiler.

use std::sync::Arc;

use super::{compiler, device, run_there};
use crate::base::{DType, Device, Scalar};
use crate::ir::Buffer;
use crate::kernel::Work;
use crate::kernel::lower::attention::Range;
use crate::plan::context::{Context, with_context};
use crate::render::cuda::attention::RANGE;
use crate::runtime::Capabilities;
use crate::runtime::cpu::tests::attention::{
    self as cases, Attended, BRAIN_FLOATS, EVEN, HALVES, ODD, numbers, opts,
};
use crate::runtime::null::{CAPABILITIES, NullBackend};
use crate::runtime::{Backend, cpu::tests::buffer, cuda::program::CudaProgram};

/// A call of the template.
const TEMPLATE: &str = "attention<Extents, i32>(block";

/// Few queries are worth it too.
const ANY: Range = Range { least_rows: 1, ..RANGE };

/// Several blocks of queries and of keys, in this template's sizes.
const LONG: &[(&str, Attended)] = &[
    ("causal over blocks", |d| {
        let (q, k) = (numbers([1, 2, 150, 20], 1, d), numbers([1, 2, 150, 20], 2, d));
        q.scaled_dot_product_attention(&k, &numbers([1, 2, 150, 12], 3, d), opts().causal(true))
    }),
    ("shared heads, hidden, in halves", |d| {
        let q = numbers([1, 4, 70, 24], 1, d).to_dtype(DType::F16);
        let (k, v) = (numbers([1, 2, 130, 24], 2, d), numbers([1, 2, 130, 16], 3, d));
        let (k, v) = (k.to_dtype(DType::F16), v.to_dtype(DType::F16));
        let mask = numbers([70, 130], 4, d).gt(0.0);
        let y = q.scaled_dot_product_attention(&k, &v, opts().mask(&mask).enable_gqa(true));
        y.to_dtype(DType::F32)
    }),
];

fn agree(cases: &[(&str, Attended)], tolerance: f64) {
    let Some(mut backend) = device() else { return };
    backend.capabilities.attention = Some(ANY);
    cases::agree(Arc::new(backend), TEMPLATE, cases, tolerance);
}

#[test]
fn attention_agrees_with_the_interpreter() {
    agree(EVEN, 2e-5);
    agree(LONG, 1e-3);
}

#[test]
fn attention_of_odd_extents_types_and_masks_agrees_with_the_interpreter() {
    agree(ODD, 2e-5);
    agree(HALVES, 1e-3);
    agree(BRAIN_FLOATS, 8e-3);
}

#[test]
fn attention_compiles_without_spills() {
    if !compiler::is_there() {
        return;
    }
    let context = Context::new();
    let capabilities = Capabilities { attention: Some(ANY), ..CAPABILITIES };
    context.install(Arc::new(NullBackend::new(capabilities)));
    with_context(&context, || {
        for (title, attended) in EVEN.iter().chain(ODD).chain(LONG).chain(HALVES).chain(BRAIN_FLOATS) {
            let report = attended(Device::null()).plan().expect("a plan");
            for kernel in &report.kernels {
                compiler::compiles(kernel.work()).unwrap_or_else(|error| panic!("{title}: {error}"));
            }
        }
    });
}

/// Names the bug that a process of its own plants.
const VARIABLE: &str = "KILN_PLANTED_IN_ATTENTION";

/// What is wrong, what the template says, what it says instead.
const BUGS: &[(&str, &str, &str)] = &[
    (
        "keys are overwritten while others read them",
        "// What was there has been read.\n            __syncthreads();",
        "",
    ),
    (
        "keys are read before they are there",
        "            __syncthreads();\n#pragma unroll\n            for (i32 d",
        "#pragma unroll\n            for (i32 d",
    ),
    (
        "values are overwritten while others read them",
        "// Powers are there, and values have been read.\n            __syncthreads();",
        "",
    ),
    (
        "values are read before they are there",
        "            __syncthreads();\n#pragma unroll 4",
        "#pragma unroll 4",
    ),
    ("a key too many", "place < Extents::KEYS && row", "place <= Extents::KEYS && row"),
    ("a query looks ahead", "place > row", "place > row + 1"),
    ("a row too many", "(row < Extents::ROWS && column", "(row <= Extents::ROWS && column"),
    ("a wrong key", "block.keys[j * ATTENTION_SHARERS + sharer]", "block.keys[j * ATTENTION_SHARERS]"),
    ("half of the sharers are not asked", "by < ATTENTION_SHARERS;", "by < ATTENTION_SHARERS / 2;"),
];

/// Attention in the template's text, and in that with the bug that the environment
/// names.
#[test]
fn the_text_agrees_with_the_template() {
    let Ok(wanted) = std::env::var(VARIABLE) else { return };
    let (Some(backend), Some(installed)) = (device(), device()) else { return };
    let (context, name) = (Context::new(), backend.device());
    context.install(Arc::new(installed));
    let work = with_context(&context, || {
        // Fewer keys than queries, so that the end of both matters.
        let (q, k) = (numbers([2, 70, 20], 1, name), numbers([2, 66, 20], 2, name));
        let y = q.scaled_dot_product_attention(&k, &numbers([2, 66, 12], 3, name), opts().causal(true));
        y.plan().expect("a plan").kernels[0].work().clone()
    });
    let Work::Kernel(kernel) = &work else { panic!("attention is a kernel") };
    let rewritten = |bug: Option<&(&str, &str, &str)>| {
        let (gpu, reports) = (backend.gpu.clone(), backend.reports.clone());
        let rewrite = |source: &str| match bug {
            Some((title, from, to)) => {
                assert!(source.contains(from), "{title}: not in\n{source}");
                source.replace(from, to)
            }
            None => source.to_string(),
        };
        let program = CudaProgram::with_text(gpu, reports, work.clone(), backend.gpu.target(), rewrite);
        let inputs: Vec<Buffer> = (kernel.inputs.iter())
            .map(|input| {
                let value = |i: usize| Scalar::Float(((i * 37 + i / 11 * 53) % 101) as f64 / 50.0 - 1.0);
                buffer(&(0..input.numel).map(value).collect::<Vec<_>>(), input.dtype)
            })
            .collect();
        let program = program.expect("a text that compiles");
        run_there(&backend, &program, kernel, &inputs, None).expect("a launch").outputs
    };
    let want = rewritten(None);
    let have = rewritten(BUGS.iter().find(|(title, ..)| *title == wanted));
    let same = |(want, have): (&Scalar, &Scalar)| want.as_f64() == have.as_f64();
    assert!(want[0].iter().zip(&have[0]).all(same), "another attention");
}

#[test]
fn planted_bugs_are_found() {
    let Some(backend) = device() else { return };
    if !backend.describe().contains("simulated") {
        return println!("skipped: a GPU need not notice");
    }
    for title in std::iter::once("none").chain(BUGS.iter().map(|(title, ..)| *title)) {
        // In a process of its own, since a failure of the device is its last.
        let mut run = std::process::Command::new(std::env::current_exe().expect("this program"));
        run.args(["--exact", "runtime::cuda::tests::attention::the_text_agrees_with_the_template"]);
        let run = run.arg("--nocapture").env(VARIABLE, title).output().expect("this program");
        let text = String::from_utf8_lossy(&run.stdout) + String::from_utf8_lossy(&run.stderr);
        assert!(text.contains("running 1 test"), "{text}");
        assert_eq!(run.status.success(), title == "none", "{title}:\n{text}");
        let found = ["simulated device:", "another attention"];
        assert!(title == "none" || found.iter().any(|it| text.contains(it)), "{title}:\n{text}");
    }
}
