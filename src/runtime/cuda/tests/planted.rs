//! Bugs planted in the text of a product must be found out by the simulated device:
//! tests of the tests.

use std::process::Command;

use super::{device, run_there, tiles};
use crate::base::{DType, Scalar};
use crate::ir::DeviceBuffer;
use crate::kernel::{Kernel, Workload};
use crate::plan::context::{Context, with_context};
use crate::render::cuda::tiles::CudaProductTile;
use crate::render::target::CudaFeatures;
use crate::render::{GpuTarget, TemplateChoice, cuda};
use crate::runtime::Backend;
use crate::runtime::cpu::tests::{By, buffer, run};
use crate::runtime::cuda::program::CudaProgram;
use crate::tensor::Tensor;

/// Names the bug that a process of its own plants.
const VARIABLE: &str = "KILN_PLANTED_BUG";

/// What is wrong, what the text says, what it says instead.
type Bug = (&'static str, &'static str, &'static str);

/// Bugs in the text for single warps.
const BUGS: &[Bug] = &[
    (
        "nobody waits for the others' copies",
        "cp_async_wait<STAGES - 2>();\n        __syncthreads();",
        "cp_async_wait<STAGES - 2>();",
    ),
    ("nobody waits for its own copies", "cp_async_wait<STAGES - 2>();", "cp_async_wait<STAGES>();"),
    ("sums overwrite parts that others read", "    __syncthreads();\n    store_sums", "    store_sums"),
    ("a warp does not wait for its sums", "__syncwarp();\n#pragma unroll 1", "#pragma unroll 1"),
    ("a wrong address of ldmatrix", "depth / CHUNK + lane / 16));", "depth / CHUNK + lane / 8 % 2));"),
    ("a wrong address of ldmatrix.trans", "depth + lane % 16, column", "depth + lane % 8, column"),
    ("a row too many", "to_row < M", "to_row <= M"),
    ("a column too many", "to_column < N", "to_column <= N"),
    ("a piece of depths too many", "depth < 328", "depth <= 328"),
    ("a step too few", "step < STEPS; step++", "step < STEPS - 1; step++"),
];

/// The same in the text for groups of warps.
const BUGS_OF_GROUPS: &[Bug] = &[
    (
        "a group does not wait for the others' copies",
        "__syncthreads();\n        wgmma_fence();",
        "wgmma_fence();",
    ),
    ("copies are not visible to groups", "        fence_async();\n", ""),
    ("a stage is written while a group reads it", "AHEAD = STAGES - 2", "AHEAD = STAGES - 1"),
    ("sums are read while a group adds to them", "wgmma_wait<0>(sums[0]);", ""),
    ("a wrong distance between lines", "EIGHT_LINES = 1024", "EIGHT_LINES = 2048"),
    ("a wrong distance between blocks", "L::LINES * 128", "L::LINES * 64"),
    ("a wrong depth of an operand", "first * STEP + depth :", "first * STEP + depth / 2 :"),
];

/// The same where the device itself copies the operands of groups.
const BUGS_OF_DESCRIPTIONS: &[Bug] = &[
    (
        "nobody waits for the device's copies",
        "mbarrier_wait(mbarriers + step % STAGES, step / STAGES % 2);",
        ";",
    ),
    ("a wait for another phase", "step / STAGES % 2", "(step / STAGES + 1) % 2"),
    (
        "fewer bytes are expected than come",
        "mbarrier_expect(mbarrier, BY_TMA)",
        "mbarrier_expect(mbarrier, BY_TMA / 2)",
    ),
    ("all threads have the device copy", "BY_TMA == 0 || threadIdx.x != 0", "BY_TMA == 0"),
    ("a copy to a stage that is read", "AHEAD = STAGES - 2", "AHEAD = STAGES"),
    ("a piece of another depth", "depth = step * STEP;", "depth = step * STEP / 2;"),
    ("a piece of other rows", "first + i * 64, depth", "first, depth"),
];

/// The same in the text for numbers that tensor cores do not multiply.
const BUGS_OF_THREADS: &[Bug] = &[
    ("a thread does not wait for the others' parts", "blocks);\n        __syncthreads();", "blocks);"),
    ("a part is written where others read", "(step + 1) % 2 * STAGE", "step % 2 * STAGE"),
    ("a wrong address of fours", "const Vec4 x = stage[place<HIGH>", "const Vec4 x = stage[place<WIDE>"),
    ("a depth too many", "depth + 0 < 328", "depth + 0 <= 328"),
];

/// The same in the text for few rows.
const BUGS_OF_FEW_ROWS: &[Bug] = &[
    ("rows are multiplied before they are there", "row, depth);\n        __syncthreads();", "row, depth);"),
    ("rows are overwritten while others multiply them", "shared + step % 2 * STAGE", "shared"),
    ("sums are written where others multiply", "half /= 2) {\n        __syncthreads();", "half /= 2) {"),
    (
        "sums are added before they are there",
        "        __syncthreads();\n        if (deep < half)",
        "        if (deep < half)",
    ),
    (
        "sums are stored before they are there",
        "    __syncthreads();\n#pragma unroll 1\n    for (i32 i",
        "    for (i32 i",
    ),
    ("half of the sums are left out", "half > 0; half /= 2", "half > 1; half /= 2"),
    ("depths of another turn", "stage + iteration * DEEP + deep", "stage + deep"),
    ("a row too many in the result", "to_row < M", "to_row <= M"),
    ("a depth beyond the last", "depth + 0 < 328", "depth + 0 <= 328"),
];

/// The texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Text {
    Warps,
    Groups,
    TensorMap,
    Threads,
    Skinny,
}

/// Texts, what names them as they are, what is planted in them.
const TEXTS: [(Text, &str, &[Bug]); 5] = [
    (Text::Warps, "nothing, of warps", BUGS),
    (Text::Groups, "nothing, of groups", BUGS_OF_GROUPS),
    (Text::TensorMap, "nothing, of descriptions", BUGS_OF_DESCRIPTIONS),
    (Text::Threads, "nothing, of threads", BUGS_OF_THREADS),
    (Text::Skinny, "nothing, of few rows", BUGS_OF_FEW_ROWS),
];

fn leaf(dims: [usize; 3], dtype: DType, device: crate::base::Device) -> Tensor {
    let x = Tensor::zeros(dims, device).to_dtype(dtype);
    x.realize().expect("a leaf");
    x
}

/// A target that computes a kernel by a tile that several blocks share, in a text.
fn target_for(kernel: &Kernel, text: Text) -> GpuTarget {
    let is_grouped = matches!(text, Text::Groups | Text::TensorMap);
    let target = GpuTarget::cuda_device(if is_grouped { (9, 0) } else { (8, 0) }, 4);
    let choices = cuda::choices(kernel, &target);
    let is_wanted = |tile: &CudaProductTile| match tile {
        CudaProductTile::Wgmma { columns, .. } => is_grouped && *columns == 128,
        CudaProductTile::Mma { .. } => text == Text::Warps && tile.size() == [64, 64],
        CudaProductTile::Simt { .. } => text == Text::Threads && tile.size() == [32, 64],
        CudaProductTile::Skinny { .. } => text == Text::Skinny && tile.size()[1] == 32,
    };
    let tile = tiles(&choices).find(is_wanted);
    assert!(tile.is_some(), "{choices:?}");
    let cuda = target.cuda.map(|cuda| CudaFeatures { tensor_maps: text == Text::TensorMap, ..cuda });
    GpuTarget { choice: tile.map(TemplateChoice::CudaProduct), cuda, ..target }
}

/// The product of random integers as the text that the environment names, with a bug
/// perhaps, computes it; against the reference.
#[test]
fn the_text_agrees_with_the_reference() {
    let Ok(wanted) = std::env::var(VARIABLE) else { return };
    let Some(backend) = device() else { return };
    let is_here = |(_, own, bugs): &&(Text, &str, &[Bug])| {
        *own == wanted || bugs.iter().any(|(title, ..)| *title == wanted)
    };
    let (text, _, bugs) = TEXTS.iter().find(is_here).expect("a text");
    let bug = bugs.iter().find(|(title, ..)| *title == wanted);
    let dtype = if let Text::Threads | Text::Skinny = text { DType::F32 } else { DType::BF16 };
    let rows = if *text == Text::Skinny { 12 } else { 40 };
    let context = Context::new();
    let name = backend.device();
    context.install(std::sync::Arc::new(backend));
    let work = with_context(&context, || {
        let product = leaf([2, rows, 328], dtype, name).matmul(&leaf([2, 328, 72], dtype, name));
        product.to_dtype(DType::F32).plan().expect("a plan").kernels[0].work().clone()
    });
    let Workload::Kernel(kernel) = &work else { panic!("a product is a kernel") };
    let backend = device().expect("it was there");
    let rewrite = |source: &str| match bug {
        Some((title, from, to)) => {
            assert!(source.contains(from), "{title}: not in\n{source}");
            source.replace(from, to)
        }
        None => source.to_string(),
    };
    let (gpu, reports) = (backend.gpu.clone(), backend.reports.clone());
    let target = target_for(kernel, *text);
    let program =
        CudaProgram::with_text(gpu, reports, work.clone(), target, rewrite).expect("a text that compiles");
    let value = |i: usize| Scalar::Int((i * 7 + i / 11 * 3) as i64 % 5 - 2);
    let input = |numel: usize, dtype: DType| -> DeviceBuffer {
        buffer(&(0..numel).map(|i| value(i).cast(dtype)).collect::<Vec<_>>(), dtype)
    };
    let inputs: Vec<DeviceBuffer> = kernel.inputs.iter().map(|own| input(own.numel, own.dtype)).collect();
    let have = run_there(&backend, &program, kernel, &inputs, None).expect("a launch");
    let want = run(kernel, &inputs, By::Reference);
    let same = |(want, have): (&Scalar, &Scalar)| want.as_f64() == have.as_f64();
    assert!(want.outputs[0].iter().zip(&have.outputs[0]).all(same), "another product");
}

/// What [`the_text_agrees_with_the_reference`] says of a bug, in a process of its own,
/// since a failure of the device is its last.
fn verdict(bug: &str) -> (bool, String) {
    let mut run = Command::new(std::env::current_exe().expect("this program"));
    run.args(["--exact", "runtime::cuda::tests::planted::the_text_agrees_with_the_reference", "--nocapture"]);
    let run = run.env(VARIABLE, bug).output().expect("this program");
    let text = String::from_utf8_lossy(&run.stdout) + String::from_utf8_lossy(&run.stderr);
    assert!(text.contains("running 1 test"), "{text}");
    (run.status.success(), text.into_owned())
}

#[test]
fn planted_bugs_are_found() {
    let Some(backend) = device() else { return };
    if !backend.describe().contains("simulated") {
        return println!("skipped: a GPU need not notice");
    }
    for (_, sound, bugs) in TEXTS {
        let (passes, text) = verdict(sound);
        assert!(passes, "{text}");
        for (title, ..) in bugs {
            let (passes, text) = verdict(title);
            assert!(!passes, "{title} goes unnoticed");
            let found = ["simulated device:", "another product"];
            assert!(found.iter().any(|reason| text.contains(reason)), "{title}: {text}");
        }
    }
}
