//! Bugs planted in attention's templates, which the simulated device or a comparison must find.

use std::sync::Arc;

use super::{grouped, numbers, opts};
use crate::base::{DType, Device, Scalar};
use crate::ir::DeviceBuffer;
use crate::kernel::Workload;
use crate::plan::context::{Context, with_context};
use crate::runtime::Backend;
use crate::runtime::cpu::tests::buffer;
use crate::runtime::cuda::CudaBackend;
use crate::runtime::cuda::program::CudaProgram;
use crate::runtime::cuda::tests::{device, run_there};

/// Names the bug that a process of its own plants.
const VARIABLE: &str = "KILN_PLANTED_IN_ATTENTION";

/// What is wrong, what the templates say, what they say instead.
type Bug = (&'static str, &'static str, &'static str);

const BUGS: &[Bug] = &[
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
    ("shares that do not add to one", "gradients[i][j] - deltas[n]", "gradients[i][j]"),
];

/// The same for gradients on tensor cores.
const BUGS_OF_GRADIENTS: &[Bug] = &[
    (
        "a tile is read before it is there",
        "// This tile is there for all, and own rows and tiles before have been read by all.\n        __syncthreads();",
        "",
    ),
    ("own rows are read before they are there", "// Own rows are there for all.\n    __syncthreads();", ""),
    ("nobody waits for a tile", "cp_async_wait<0>();\n        attention_copied();", "attention_copied();"),
    ("nobody waits for own rows", "cp_async_wait<0>();\n    // Own rows", "// Own rows"),
    (
        "a tile is overwritten by results while others read it",
        "// Tiles have been read: their place is for results.\n    __syncthreads();",
        "",
    ),
    ("a gradient's key that is not asked about", "least + SIDE <= top + 1", "least + SIDE <= top + 32"),
    ("a gradient's query that is not asked about", "top + 16 <= least + 1", "top + 16 <= least + 32"),
    ("a gradient of the key ahead", "it % EACH > own", "it % EACH > own + 1"),
    ("a gradient of the query before", "own > it % EACH", "own > it % EACH + 1"),
    ("a gradient's tile is left out", "least_key <= last_row) break", "least_key + 63 <= last_row) break"),
    ("sums of other queries", "others[i / 4 * 8", "others[i / 4 * 4"),
    ("sums of another row", "own[i % 4 / 2]", "own[i % 2]"),
    ("gradients of shares that do not add to zero", " - of_query(deltas", " + of_query(deltas"),
    ("sums that are a tile late", "store_queries((tile + 1) % 2)", "store_queries(tile % 2)"),
    (
        "a gradient's own row too many",
        "row < ATTENTION_OWN<Extents> && column",
        "row <= ATTENTION_OWN<Extents> && column",
    ),
    (
        "a tile's other lines",
        "lane % 8 + lane / 16 * 8, d * 16 + lane / 8 % 2 * 8",
        "lane % 16, d * 16 + lane / 16 * 8",
    ),
    (
        "other columns of a tile",
        "n * 8 + lane / 16 * 8));\n            const u32 b",
        "n * 8));\n            const u32 b",
    ),
    ("gradients without their scale", "OF_VALUES ? 1.0f : scale", "1.0f"),
];

/// The same for groups of warps.
const BUGS_OF_GROUPS: &[Bug] = &[
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
    ("scores are read before they are there", "wgmma_wait<Extents::LOG_SUM ? 0 : 1>(scores);", ""),
    (
        "powers change while they are multiplied",
        "wgmma_wait<0>(sums);\n        attention_rescale",
        "attention_rescale",
    ),
    (
        "sums are stored while groups add to them",
        "start_sums(tiles - 1);\n    wgmma_wait<0>(sums);",
        "start_sums(tiles - 1);",
    ),
    ("results overwrite what others multiply", "their place is for results.\n    __syncthreads();", ""),
    ("keys of another depth", "+ d % ATTENTION_LINE;", "+ d / 2 % ATTENTION_LINE;"),
    ("values of other keys", "t * 16 * ATTENTION_LINE;", "t * 8 * ATTENTION_LINE;"),
    ("a wrong distance between columns", "ATTENTION_TILE_OTHERS * 128", "ATTENTION_TILE_OTHERS * 64"),
    ("a tile too few", "tile = 1; tile < tiles;", "tile = 1; tile + 1 < tiles;"),
    (
        "a gradient's scores are read before they are there",
        "attention_wait<(OF_VALUES ? 0 : 1) + LAST>(scores);",
        "",
    ),
    ("gradients of shares are read before they are there", "attention_wait<LAST>(gradients);", ""),
    ("weights change while they are multiplied", "if constexpr (LAST) attention_wait<0>(sums);", ""),
    (
        "a gradient's results are stored while groups add to them",
        "start_sums(tile - 1);\n        attention_wait<0>(sums);",
        "start_sums(tile - 1);",
    ),
    ("a gradient's copies are not visible to groups", "        attention_copied();\n", ""),
];

/// The bugs, and the first work that may find them.
const ALL: [(&[Bug], usize); 3] = [(BUGS, 0), (BUGS_OF_GRADIENTS, 5), (BUGS_OF_GROUPS, 10)];

/// Attention of operands of a type, so many queries, keys, and as wide as these and values
/// are, and its gradients.
fn parts(dtype: DType, [rows, keys, depth, columns]: [usize; 4], name: Device) -> Vec<Workload> {
    let operands = [([2, rows, depth], 1), ([2, keys, depth], 2), ([2, keys, columns], 3)];
    let [q, k, v] = operands.map(|(shape, seed)| {
        let x = numbers(shape, seed, name);
        let x = x.to_dtype(dtype);
        x.realize().expect("a leaf");
        x.with_requires_grad()
    });
    let y = q.scaled_dot_product_attention(&k, &v, opts().causal(true));
    let g = numbers([2, rows, columns], 4, name).to_dtype(dtype);
    g.realize().expect("a leaf");
    let mut all = crate::vjp(&[(&y, &g)], &[&q, &k, &v]);
    all.push(y);
    let report = crate::plan(&all.iter().collect::<Vec<_>>()).expect("a plan");
    let is_part = |work: &&Workload| work.kernel().is_some_and(|kernel| kernel.attention().is_some());
    report.kernels.iter().map(|kernel| kernel.work()).filter(is_part).cloned().collect()
}

/// What a part gives on the device, in the template's text or another.
fn outcome(backend: &CudaBackend, work: &Workload, rewrite: &dyn Fn(&str) -> String) -> Vec<Scalar> {
    let Workload::Kernel(kernel) = work else { panic!("attention is a kernel") };
    let (gpu, reports) = (backend.gpu.clone(), backend.reports.clone());
    let program = CudaProgram::with_text(gpu, reports, work.clone(), backend.target.clone(), rewrite);
    let inputs: Vec<DeviceBuffer> = (kernel.inputs.iter())
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
    // Fewer keys than queries, so that the end of both matters.
    let few = [70, 66, 24, 32];
    let works =
        with_context(&context, || [parts(DType::F32, few, name), parts(DType::BF16, few, name)].concat());
    assert_eq!(works.len(), 10);
    // Three tiles of keys, so that results would be written where the last one's values are.
    let wide = with_context(&context, || parts(DType::BF16, [200, 150, 72, 128], name));
    assert_eq!(wide.len(), 5);
    let bug_of = |(bugs, first): &(&'static [Bug], usize)| {
        bugs.iter().find(|(title, ..)| *title == wanted).map(|bug| (bug, *first))
    };
    let (bug, first) = ALL.iter().find_map(bug_of).unzip();
    let rewritten = std::cell::Cell::new(bug.is_none());
    let grouped = grouped(128).expect("it was there");
    let works = works.iter().map(|work| (&backend, work)).chain(wide.iter().map(|work| (&grouped, work)));
    for (backend, work) in works.skip(first.unwrap_or(0)) {
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
    let bugs = ALL.iter().flat_map(|(bugs, _)| *bugs).map(|(title, ..)| *title);
    for title in std::iter::once("none").chain(bugs) {
        // In a process of its own, since a failure of the device is its last.
        let mut run = std::process::Command::new(std::env::current_exe().expect("this program"));
        run.args(["--exact", "runtime::cuda::tests::attention::planted::the_text_agrees_with_the_template"]);
        let run = run.arg("--nocapture").env(VARIABLE, title).output().expect("this program");
        let text = String::from_utf8_lossy(&run.stdout) + String::from_utf8_lossy(&run.stderr);
        assert!(text.contains("running 1 test"), "{text}");
        assert_eq!(run.status.success(), title == "none", "{title}:\n{text}");
        let found = ["simulated device:", "another attention"];
        assert!(title == "none" || found.iter().any(|it| text.contains(it)), "{title}:\n{text}");
    }
}
