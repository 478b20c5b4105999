//! Attention by the template against the interpreter of its body, and through
//! NVIDIA's compiler.

use std::sync::Arc;

use super::{compiler, device, run_there};
use crate::base::{DType, Device, Scalar};
use crate::ir::Buffer;
use crate::kernel::Work;
use crate::kernel::lower::attention::Range;
use crate::plan::context::{Context, with_context};
use crate::render::cuda::attention::{Block, RANGE};
use crate::render::target::Nvidia;
use crate::render::{Choice, Target, cuda};
use crate::runtime::Capabilities;
use crate::runtime::cpu::tests::attention::{
    self as cases, Attended, BACKWARD, BRAIN_FLOATS, EVEN, HALVES, ODD, numbers, opts,
};
use crate::runtime::cuda::CudaBackend;
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

/// Wide enough for groups of warps, in their types, over several blocks of theirs.
const WIDE: &[(&str, Attended)] = &[
    ("causal, in groups", |d| {
        let [q, k, v] = [1, 2, 3].map(|seed| numbers([1, 2, 300, 128], seed, d).to_dtype(DType::BF16));
        q.scaled_dot_product_attention(&k, &v, opts().causal(true)).to_dtype(DType::F32)
    }),
    ("shared heads, hidden, of odd widths, in groups", |d| {
        let (q, k) = (numbers([1, 4, 150, 40], 1, d), numbers([1, 2, 205, 40], 2, d));
        let v = (numbers([1, 2, 205, 72], 3, d) * 2.0).to_dtype(DType::F16);
        let mask = numbers([150, 205], 4, d).gt(0.0);
        let opts = opts().mask(&mask).enable_gqa(true);
        let (q, k) = (q.to_dtype(DType::F16), k.to_dtype(DType::F16));
        q.scaled_dot_product_attention(&k, &v, opts).to_dtype(DType::F32)
    }),
    ("few keys, in groups", |d| {
        let (q, k) = (numbers([2, 130, 64], 1, d), numbers([2, 20, 64], 2, d));
        let v = numbers([2, 20, 64], 3, d).to_dtype(DType::BF16);
        q.to_dtype(DType::BF16)
            .scaled_dot_product_attention(&k.to_dtype(DType::BF16), &v, opts())
            .to_dtype(DType::F32)
    }),
];

/// A device that multiplies by groups of warps, if one is there or the simulated one is.
fn grouped(height: usize) -> Option<CudaBackend> {
    let mut backend = device()?;
    let nvidia = backend.target.nvidia?;
    if nvidia.capability.0 != 9 && !backend.describe().contains("simulated") {
        return None;
    }
    backend.capabilities.attention = Some(ANY);
    backend.target.nvidia = Some(Nvidia { capability: (9, 0), ..nvidia });
    backend.target.choice = Some(Choice::CudaAttention(Block { height, by_groups: true }));
    Some(backend)
}

#[test]
fn attention_by_groups_agrees_with_the_interpreter() {
    for height in [64, 128] {
        let Some(backend) = grouped(height) else { return };
        cases::agree(Arc::new(backend), "multiply<true, true>(sums", WIDE, 8e-3);
    }
}

fn agree(template: &str, cases: &[(&str, Attended)], tolerance: f64) {
    let Some(mut backend) = device() else { return };
    backend.capabilities.attention = Some(ANY);
    cases::agree(Arc::new(backend), template, cases, tolerance);
}

#[test]
fn attention_agrees_with_the_interpreter() {
    agree(TEMPLATE, EVEN, 2e-5);
    agree(TEMPLATE, LONG, 1e-3);
}

#[test]
fn attention_of_odd_extents_types_and_masks_agrees_with_the_interpreter() {
    agree("typedef AttentionExact Shares;", ODD, 2e-5);
    agree("typedef AttentionF16 Shares;", HALVES, 1e-3);
    agree("typedef AttentionBF16 Shares;", BRAIN_FLOATS, 8e-3);
}

#[test]
fn gradients_agree_with_the_interpreter() {
    for (dtype, tolerance) in [(DType::F32, 2e-5), (DType::F16, 2e-3), (DType::BF16, 2e-2)] {
        let Some(mut backend) = device() else { return };
        backend.capabilities.attention = Some(ANY);
        let all = if dtype == DType::F16 { &NARROW[..2] } else { &NARROW[..] };
        let narrow = |(title, ..): &&cases::Backward| dtype == DType::F32 || all.contains(title);
        let cases: Vec<cases::Backward> = BACKWARD.iter().filter(narrow).copied().collect();
        cases::gradients_agree(Arc::new(backend), dtype, &cases, tolerance);
    }
}

/// Attentions of more rows than any block has, for blocks of other heights.
const OVER_BLOCKS: &[cases::Backward] = &[
    ("wide over blocks", |d| cases::heads([1, 1], [130, 140, 128, 128], d), |_| opts()),
    ("causal over blocks", |d| cases::heads([1, 2], [150, 150, 12, 20], d), |_| opts().causal(true)),
    (
        "shared heads, hidden",
        |d| [numbers([1, 4, 70, 24], 1, d), numbers([1, 2, 140, 24], 2, d), numbers([1, 2, 140, 16], 3, d)],
        |d| opts().mask(&numbers([70, 140], 4, d).gt(0.0)).enable_gqa(true),
    ),
];

#[test]
fn blocks_of_every_height_agree_with_the_interpreter() {
    for (dtype, tolerance) in [(DType::F32, 2e-5), (DType::BF16, 2e-2)] {
        for height in [128, 32] {
            let Some(mut backend) = device() else { return };
            backend.capabilities.attention = Some(ANY);
            backend.target.choice = Some(Choice::CudaAttention(Block { height, by_groups: false }));
            cases::gradients_agree(Arc::new(backend), dtype, &OVER_BLOCKS[1..], tolerance);
        }
    }
}

/// Runs a test in a context whose null device plans attentions as a GPU does, where
/// NVIDIA's compiler is there.
fn where_attention_is_planned(test: impl FnOnce()) {
    if !compiler::is_there() {
        return;
    }
    let context = Context::new();
    let capabilities = Capabilities { attention: Some(ANY), ..CAPABILITIES };
    context.install(Arc::new(NullBackend::new(capabilities)));
    with_context(&context, test);
}

#[test]
fn attention_compiles_without_spills_in_blocks_of_every_height() {
    where_attention_is_planned(|| {
        // Wide ones, and ones that read a mask beside all scores.
        let most = [&OVER_BLOCKS[0], &OVER_BLOCKS[2]];
        for (case, dtype) in most.into_iter().flat_map(|case| [(case, DType::F32), (case, DType::BF16)]) {
            let all = cases::backward(case, dtype, Device::null());
            let report = crate::plan(&all.iter().collect::<Vec<_>>()).expect("a plan");
            let works = report.kernels.iter().map(|kernel| kernel.work());
            for work in works.filter(|work| work.kernel().is_some_and(|kernel| kernel.attention.is_some())) {
                let choices =
                    work.kernel().map_or(Vec::new(), |kernel| cuda::choices(kernel, &Target::cuda()));
                assert_eq!(choices.len(), 3, "{}: {choices:?}", case.0);
                for &choice in &choices[1..] {
                    let target = Target { choice: Some(choice), ..Target::cuda() };
                    let compiled = compiler::compiles_for(work, &target);
                    compiled.unwrap_or_else(|error| panic!("{}, {choice:?}: {error}", case.0));
                }
            }
        }
    });
}

#[test]
fn attention_by_groups_compiles_without_spills() {
    where_attention_is_planned(|| {
        for (title, attended) in WIDE {
            let report = attended(Device::null()).plan().expect("a plan");
            for height in [64, 128] {
                let choice = Choice::CudaAttention(Block { height, by_groups: true });
                let target = Target { choice: Some(choice), ..Target::nvidia((9, 0), 132) };
                let works = report.kernels.iter().map(|kernel| kernel.work());
                for work in works.filter(|work| work.kernel().is_some_and(|it| it.attention.is_some())) {
                    assert!(
                        cuda::choices(work.kernel().expect("it is"), &target).contains(&choice),
                        "{title}"
                    );
                    let compiled = compiler::compiles_on(work, &target, "90a");
                    compiled.unwrap_or_else(|error| panic!("{title}, {height}: {error}"));
                }
            }
        }
    });
}

/// Gradients on tensor cores, too.
const NARROW: [&str; 6] = ["even", "odd", "wide", "causal over blocks", "causal, shared heads", "hidden"];

/// Attentions that differ from others only in extents or in their operands' elements.
const SAME_TEXT: [&str; 6] = [
    "a few keys",
    "one key",
    "hidden everywhere",
    "infinite scores",
    "large scores",
    "causal with fewer keys",
];

#[test]
fn attention_compiles_without_spills() {
    where_attention_is_planned(|| {
        let all = EVEN.iter().chain(ODD).chain(LONG).chain(HALVES).chain(BRAIN_FLOATS);
        for (title, attended) in all.filter(|(title, _)| !SAME_TEXT.contains(title)) {
            let report = attended(Device::null()).plan().expect("a plan");
            for kernel in &report.kernels {
                compiler::compiles(kernel.work()).unwrap_or_else(|error| panic!("{title}: {error}"));
            }
        }
        // The text of a mask by itself is a part of that with shared heads.
        let some = BACKWARD.iter().filter(|(title, ..)| NARROW[2..5].contains(title));
        let some = some.chain(&OVER_BLOCKS[2..]);
        for (case, dtype) in some.flat_map(|case| [(case, DType::F32), (case, DType::BF16)]) {
            let all = cases::backward(case, dtype, Device::null());
            let report = crate::plan(&all.iter().collect::<Vec<_>>()).expect("a plan");
            let parts = report.kernels.iter().filter(|kernel| kernel.text().contains("  attention"));
            for kernel in parts {
                compiler::compiles(kernel.work()).unwrap_or_else(|error| panic!("{}: {error}", case.0));
            }
        }
    });
}

/// Names the bug that a process of its own plants.
const VARIABLE: &str = "KILN_PLANTED_IN_ATTENTION";

/// What is wrong, what the templates say, what they say instead.
const BUGS: &[(&str, &str, &str)] = &[
    (
        "rows are overwritten while others read them",
        "// What was there has been read.\n        __syncthreads();",
        "",
    ),
    ("rows are read before they are there", "// All of it is there.\n        __syncthreads();", ""),
    (
        "values are overwritten while others read them",
        "// Weights are there, and values have been read.\n        __syncthreads();",
        "",
    ),
    ("values are read before they are there", "// All values are there.\n        __syncthreads();", ""),
    ("a key too many", "place < Extents::KEYS && row", "place <= Extents::KEYS && row"),
    ("a query looks ahead", "place > row", "place > row + 1"),
    ("a row too many", "(row < Extents::ROWS && column", "(row <= Extents::ROWS && column"),
    ("a wrong key", "block.others[S::along(j)]", "block.others[j * S::SHARERS]"),
    ("a wrong one of four columns", "* 4 + c % 4 : along", "* 4 + c % 4 / 2 : along"),
    (
        "keys are read before they are there",
        "// Keys are there for all, and values (or queries, where they were) have been read.\n        __syncthreads();",
        "",
    ),
    (
        "keys are overwritten while others read them",
        "// Values are there for all, and keys have been read.\n        __syncthreads();",
        "",
    ),
    ("queries are read before they are there", "// Queries are there for all.\n        __syncthreads();", ""),
    (
        "values are overwritten while others read them, at the end",
        "// Values have been read: their place is for results.\n    __syncthreads();",
        "",
    ),
    ("sums are read before they are there", "// The warp's sums are there.\n        __syncwarp();", ""),
    ("nobody waits for copies", "cp_async_wait<0>();\n        // Keys", "// Keys"),
    ("a key that is not asked about", "key + SIDE > top + 1)", "key + SIDE > top + 32)"),
    ("a key that is not there counts", "key + SIDE <= Extents::KEYS &&", "key < Extents::KEYS &&"),
    (
        "values of another column",
        "n * 8 + lane / 16 * 8));\n                const u32 b",
        "n * 8));\n                const u32 b",
    ),
    ("powers in another order", "words[i / 4][i % 4]", "words[i / 4][i % 4 ^ 1]"),
    ("a wrong place of a matrix", "lane % 8 + lane / 16 * 8][lane / 8 % 2 * 8]", "lane % 16][lane / 16 * 8]"),
    ("half of the sharers are not asked", "by < S::SHARERS;", "by < S::SHARERS / 2;"),
    ("a gradient of what is ahead", "own > it % EACH", "own > it % EACH + 1"),
    ("a block of queries is left out", "least_key > last_row", "least_key + SIDE > last_row"),
    ("another query's sum", "log_sums[n]", "log_sums[among]"),
    ("a gradient's row too many", "(row < OWN && column", "(row <= OWN && column"),
    (
        "the first query has no sum",
        "inside ? load_log_sum(batch, query)",
        "query > 0 ? load_log_sum(batch, query)",
    ),
    ("shares that do not add to one", "gradients[i][j] - slopes[n]", "gradients[i][j]"),
];

/// The same for groups of warps.
const BUGS_OF_GROUPS: &[(&str, &str, &str)] = &[
    (
        "a tile is overwritten while others multiply it",
        "multiplied by all.\n        __syncthreads();\n        if (tile + 1",
        "multiplied by all.\n        if (tile + 1",
    ),
    (
        "the last values are multiplied before they are there",
        "// The last values are there for all.\n    __syncthreads();",
        "",
    ),
    (
        "the last values are not waited for",
        "cp_async_wait<0>();\n    fence_async();\n    // The last",
        "fence_async();\n    // The last",
    ),
    ("copies are not visible to groups", "        fence_async();\n", ""),
    (
        "queries are overwritten while others read them",
        "// Queries have been read.\n    __syncthreads();",
        "",
    ),
    ("scores are read before they are there", "wgmma_wait<1>(scores);", ""),
    (
        "powers change while they are multiplied",
        "wgmma_wait<0>(sums);\n        attention_shrink",
        "attention_shrink",
    ),
    (
        "sums are stored while groups add to them",
        "start_sums(tiles - 1);\n    wgmma_wait<0>(sums);",
        "start_sums(tiles - 1);",
    ),
    ("results overwrite what others multiply", "their place is for results.\n    __syncthreads();", ""),
    ("keys of another depth", "+ d % ATTENTION_LINE;", "+ d / 2 % ATTENTION_LINE;"),
    ("values of other keys", "t * 16 * ATTENTION_LINE;", "t * 8 * ATTENTION_LINE;"),
    ("a wrong distance between columns", "wgmma_operand(from, SIDE * 128", "wgmma_operand(from, SIDE * 64"),
    ("a tile too few", "tile = 1; tile < tiles;", "tile = 1; tile + 1 < tiles;"),
];

/// Attention that suits groups of warps: of three tiles of keys, so that results would be
/// written where the last one's values are.
fn wide(name: Device) -> Vec<Work> {
    let [q, k, v] = [([2, 200, 72], 1), ([2, 150, 72], 2), ([2, 150, 128], 3)].map(|(shape, seed)| {
        let x = numbers(shape, seed, name).to_dtype(DType::BF16);
        x.realize().expect("a leaf");
        x
    });
    let y = q.scaled_dot_product_attention(&k, &v, opts());
    let report = y.plan().expect("a plan");
    report.kernels.iter().map(|kernel| kernel.work().clone()).collect()
}

/// Attention of operands of a type, and its gradients.
fn parts(dtype: DType, name: Device) -> Vec<Work> {
    // Fewer keys than queries, so that the end of both matters.
    let operands =
        [numbers([2, 70, 24], 1, name), numbers([2, 66, 24], 2, name), numbers([2, 66, 32], 3, name)];
    let [q, k, v] = operands.map(|x| {
        let x = x.to_dtype(dtype);
        x.realize().expect("a leaf");
        x.requires_grad()
    });
    let y = q.scaled_dot_product_attention(&k, &v, opts().causal(true));
    let g = numbers([2, 70, 32], 4, name).to_dtype(dtype);
    g.realize().expect("a leaf");
    let mut all = crate::vjp(&[(&y, &g)], &[&q, &k, &v]);
    all.push(y);
    let report = crate::plan(&all.iter().collect::<Vec<_>>()).expect("a plan");
    let is_part = |work: &&Work| work.kernel().is_some_and(|kernel| kernel.attention.is_some());
    report.kernels.iter().map(|kernel| kernel.work()).filter(is_part).cloned().collect()
}

/// What a part gives on the device, in the template's text or another.
fn outcome(backend: &CudaBackend, work: &Work, rewrite: &dyn Fn(&str) -> String) -> Vec<Scalar> {
    let Work::Kernel(kernel) = work else { panic!("attention is a kernel") };
    let (gpu, reports) = (backend.gpu.clone(), backend.reports.clone());
    let program = CudaProgram::with_text(gpu, reports, work.clone(), backend.target.clone(), rewrite);
    let inputs: Vec<Buffer> = (kernel.inputs.iter())
        .map(|input| {
            let value = |i: usize| Scalar::Float(((i * 37 + i / 11 * 53) % 101) as f64 / 50.0 - 1.0);
            buffer(&(0..input.numel).map(value).collect::<Vec<_>>(), input.dtype)
        })
        .collect();
    let program = program.expect("a text that compiles");
    run_there(backend, &program, kernel, &inputs, None).expect("a launch").outputs.remove(0)
}

/// Attention in the templates' text, and in that with the bug that the environment
/// names.
#[test]
fn the_text_agrees_with_the_template() {
    let Ok(wanted) = std::env::var(VARIABLE) else { return };
    let (Some(backend), Some(installed)) = (device(), device()) else { return };
    let (context, name) = (Context::new(), backend.device());
    context.install(Arc::new(installed));
    let works = with_context(&context, || [parts(DType::F32, name), parts(DType::BF16, name)].concat());
    assert_eq!(works.len(), 10);
    let wide = with_context(&context, || wide(name));
    assert_eq!(wide.len(), 1);
    let bug = BUGS.iter().chain(BUGS_OF_GROUPS).find(|(title, ..)| *title == wanted);
    let rewritten = std::cell::Cell::new(bug.is_none());
    let grouped = grouped(128).expect("it was there");
    let works = works.iter().map(|work| (&backend, work)).chain(wide.iter().map(|work| (&grouped, work)));
    let of_groups = BUGS_OF_GROUPS.iter().any(|(title, ..)| *title == wanted);
    for (backend, work) in works.skip(if of_groups { 10 } else { 0 }) {
        let want = outcome(backend, work, &str::to_string);
        let have = outcome(backend, work, &|source| {
            let Some((_, from, to)) = bug else { return source.to_string() };
            rewritten.set(rewritten.get() | source.contains(from));
            source.replace(from, to)
        });
        let same = |(want, have): (&Scalar, &Scalar)| want.as_f64() == have.as_f64();
        assert!(want.iter().zip(&have).all(same), "another attention");
    }
    assert!(rewritten.get(), "no text has what {wanted} replaces");
}

#[test]
fn planted_bugs_are_found() {
    let Some(backend) = device() else { return };
    if !backend.describe().contains("simulated") {
        return println!("skipped: a GPU need not notice");
    }
    let bugs = BUGS.iter().chain(BUGS_OF_GROUPS).map(|(title, ..)| *title);
    for title in std::iter::once("none").chain(bugs) {
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
