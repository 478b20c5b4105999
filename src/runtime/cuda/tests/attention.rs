//! Attention by the template against the interpreter of its body, and through
//! NVIDIA's compiler.

mod planted;

use std::sync::Arc;

use super::{compiler, device};
use crate::base::{DType, Device};
use crate::kernel::Workload;
use crate::kernel::lower::attention::AttentionLimits;
use crate::plan::context::{Context, with_context};
use crate::render::cuda::attention::{CudaAttentionTile, LIMITS};
use crate::render::target::CudaFeatures;
use crate::render::{GpuTarget, TemplateChoice, cuda};
use crate::runtime::Backend;
use crate::runtime::Capabilities;
use crate::runtime::cpu::tests::attention::{
    self as cases, Attended, BACKWARD, BRAIN_FLOATS, EVEN, FEW, FEW_HALVES, HALVES, ODD, numbers, opts,
};
use crate::runtime::cuda::CudaBackend;
use crate::runtime::null::{CAPABILITIES, NullBackend};
use crate::tensor::Tensor;

/// A call of the template.
const TEMPLATE: &str = "attention<Extents, i32>(block";

/// Few queries are worth it too.
const ANY: AttentionLimits = AttentionLimits { least_rows: 1, ..LIMITS };

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

/// Kernels that groups compute of an attention and its gradients: of few keys none that has
/// these for rows.
const PARTS_BY_GROUPS: [usize; 3] = [5, 5, 3];

/// A device that multiplies by groups of warps, if one is there or the simulated one is.
fn grouped(height: usize) -> Option<CudaBackend> {
    let mut backend = device()?;
    let cuda = backend.target.cuda?;
    if cuda.compute_capability.0 != 9 && !backend.describe().contains("simulated") {
        return None;
    }
    backend.capabilities.attention = Some(ANY);
    backend.target.cuda = Some(CudaFeatures { compute_capability: (9, 0), ..cuda });
    backend.target.choice =
        Some(TemplateChoice::CudaAttention(CudaAttentionTile { rows: height, uses_wgmma: true }));
    Some(backend)
}

#[test]
fn attention_by_groups_agrees_with_the_interpreter() {
    for height in [64, 128] {
        let Some(backend) = grouped(height) else { return };
        cases::agree(Arc::new(backend), "ATTENTION_BY_WARPGROUPS = true", WIDE, 8e-3);
    }
}

/// Gradients wide enough for groups of warps, over several blocks of theirs.
const WIDE_BACKWARD: &[cases::Backward] = &[
    ("causal, in groups", |d| cases::heads([1, 2], [200, 200, 128, 128], d), |_| opts().causal(true)),
    (
        "causal, shared heads, of odd widths, in groups",
        |d| [numbers([1, 4, 150, 40], 1, d), numbers([1, 2, 205, 40], 2, d), numbers([1, 2, 205, 72], 3, d)],
        |_| opts().causal(true).enable_gqa(true),
    ),
    (
        "few keys, hidden, in groups",
        |d| cases::heads([2, 1], [200, 20, 64, 128], d),
        |d| opts().mask(&numbers([200, 20], 4, d).gt(0.0)),
    ),
];

#[test]
fn gradients_by_groups_agree_with_the_interpreter() {
    for (height, dtype) in [(64, DType::BF16), (128, DType::F16)] {
        let Some(backend) = grouped(height) else { return };
        cases::gradients_agree(Arc::new(backend), dtype, WIDE_BACKWARD, 2e-2);
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
fn attention_of_few_queries_agrees_with_the_interpreter() {
    let Some(backend) = device() else { return };
    let backend: Arc<dyn Backend> = Arc::new(backend);
    cases::agree(backend.clone(), "attention_query<Extents, i32>(block", FEW, 2e-5);
    cases::agree(backend, "attention_query<Extents, i32>(block", FEW_HALVES, 1e-3);
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
            backend.target.choice =
                Some(TemplateChoice::CudaAttention(CudaAttentionTile { rows: height, uses_wgmma: false }));
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
            for work in works.filter(|work| work.kernel().is_some_and(|kernel| kernel.attention().is_some()))
            {
                let choices =
                    work.kernel().map_or(Vec::new(), |kernel| cuda::choices(kernel, &GpuTarget::cuda()));
                assert_eq!(choices.len(), 3, "{}: {choices:?}", case.0);
                for &choice in &choices[1..] {
                    let target = GpuTarget { choice: Some(choice), ..GpuTarget::cuda() };
                    let compiled = compiler::compiles_for(work, &target);
                    compiled.unwrap_or_else(|error| panic!("{}, {choice:?}: {error}", case.0));
                }
            }
        }
    });
}

/// Compiles what of a plan is attention for groups of warps: so many kernels.
fn compile_by_groups(title: &str, results: &[Tensor], height: usize) -> usize {
    let choice = TemplateChoice::CudaAttention(CudaAttentionTile { rows: height, uses_wgmma: true });
    let target = GpuTarget { choice: Some(choice), ..GpuTarget::cuda_device((9, 0), 132) };
    let report = crate::plan(&results.iter().collect::<Vec<_>>()).expect("a plan");
    let is_by_groups = |work: &&Workload| {
        let attention = work.kernel().filter(|kernel| kernel.attention().is_some());
        attention.is_some_and(|kernel| cuda::choices(kernel, &target).contains(&choice))
    };
    let works: Vec<&Workload> =
        report.kernels.iter().map(|kernel| kernel.work()).filter(is_by_groups).collect();
    for work in &works {
        let compiled = compiler::compiles_on(work, &target, "90a");
        compiled.unwrap_or_else(|error| panic!("{title}, {height}: {error}"));
    }
    works.len()
}

#[test]
fn attention_by_groups_compiles_without_spills() {
    where_attention_is_planned(|| {
        for height in [64, 128] {
            for (title, attended) in WIDE {
                assert_eq!(compile_by_groups(title, &[attended(Device::null())], height), 1, "{title}");
            }
            for (case, parts) in WIDE_BACKWARD.iter().zip(PARTS_BY_GROUPS) {
                let all = cases::backward(case, DType::BF16, Device::null());
                assert_eq!(compile_by_groups(case.0, &all, height), parts, "{}", case.0);
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
        let all =
            EVEN.iter().chain(ODD).chain(FEW).chain(FEW_HALVES).chain(LONG).chain(HALVES).chain(BRAIN_FLOATS);
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
