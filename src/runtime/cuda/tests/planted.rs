//! Bugs planted in the text of a product must be found out by the simulated device:
//! tests of the tests.

use std::process::Command;

use super::{device, run_there};
use crate::base::{DType, Scalar};
use crate::ir::Buffer;
use crate::kernel::{Kernel, Work};
use crate::plan::context::{Context, with_context};
use crate::render::Target;
use crate::render::cuda::product::choices;
use crate::render::cuda::tiles::Tile;
use crate::render::target::Nvidia;
use crate::runtime::Backend;
use crate::runtime::cpu::tests::{By, buffer, run};
use crate::runtime::cuda::program::CudaProgram;
use crate::tensor::Tensor;

/// Names the bug that a process of its own plants.
const VARIABLE: &str = "KILN_PLANTED_BUG";

/// What is wrong, what the text says, what it says instead; in the text for
/// single warps.
const BUGS: &[(&str, &str, &str)] = &[
    (
        "nobody waits for the others' copies",
        "cp_async_wait<STAGES - 2>();\n        __syncthreads();",
        "cp_async_wait<STAGES - 2>();",
    ),
    ("nobody waits for its own copies", "cp_async_wait<STAGES - 2>();", "cp_async_wait<STAGES>();"),
    ("sums overwrite parts that others read", "    __syncthreads();\n    store_sums", "    store_sums"),
    ("a warp does not wait for its sums", "__syncwarp();\n#pragma unroll 1", "#pragma unroll 1"),
    ("a wrong address of ldmatrix", "depth / PIECE + lane / 16));", "depth / PIECE + lane / 8 % 2));"),
    ("a wrong address of ldmatrix.trans", "depth + lane % 16, column", "depth + lane % 8, column"),
    ("a row too many", "to_row < M", "to_row <= M"),
    ("a column too many", "to_column < N", "to_column <= N"),
    ("a piece of depths too many", "depth < 328", "depth <= 328"),
    ("a step too few", "step < STEPS; step++", "step < STEPS - 1; step++"),
];

/// The same in the text for groups of warps.
const BUGS_OF_GROUPS: &[(&str, &str, &str)] = &[
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

fn leaf(dims: [usize; 3], device: crate::base::Device) -> Tensor {
    let x = Tensor::zeros(dims, device).to_dtype(DType::BF16);
    x.realize().expect("a leaf");
    x
}

/// A target that computes a kernel by a tile of the size that several blocks share.
fn tiled(kernel: &Kernel, of_groups: bool) -> Target {
    let target = Target::nvidia(if of_groups { (9, 0) } else { (8, 0) }, 4);
    let choices = choices(kernel, &target);
    let is_wanted = |tile: &Tile| match tile {
        Tile::Wgmma { columns, .. } => of_groups && *columns == 128,
        Tile::Mma { columns, rows, .. } => !of_groups && [*rows, *columns] == [64, 64],
        Tile::Simt { .. } => false,
    };
    let tile = choices.iter().map(|choice| choice.tile).find(is_wanted);
    assert!(tile.is_some(), "{choices:?}");
    let nvidia = target.nvidia.map(|nvidia| Nvidia { tile, ..nvidia });
    Target { nvidia, ..target }
}

/// The product of random integers as the text with the bug that the environment names,
/// if one, computes it; against the reference.
#[test]
fn the_text_agrees_with_the_reference() {
    let Ok(wanted) = std::env::var(VARIABLE) else { return };
    let Some(backend) = device() else { return };
    let context = Context::new();
    let name = backend.device();
    context.install(std::sync::Arc::new(backend));
    let work = with_context(&context, || {
        let product = leaf([2, 40, 328], name).matmul(&leaf([2, 328, 72], name));
        product.to_dtype(DType::F32).plan().expect("a plan").kernels[0].work().clone()
    });
    let Work::Kernel(kernel) = &work else { panic!("a product is a kernel") };
    let backend = device().expect("it was there");
    let bug = BUGS.iter().chain(BUGS_OF_GROUPS).find(|(title, ..)| *title == wanted);
    let of_groups = wanted == "none of groups" || BUGS_OF_GROUPS.iter().any(|(title, ..)| *title == wanted);
    let rewrite = |source: &str| match bug {
        Some((title, from, to)) => {
            assert!(source.contains(from), "{title}: not in\n{source}");
            source.replace(from, to)
        }
        None => source.to_string(),
    };
    let (gpu, reports) = (backend.gpu.clone(), backend.reports.clone());
    let target = tiled(kernel, of_groups);
    let program =
        CudaProgram::with_text(gpu, reports, work.clone(), target, rewrite).expect("a text that compiles");
    let value = |i: usize| Scalar::Int((i * 7 + i / 11 * 3) as i64 % 5 - 2);
    let input = |numel: usize, dtype: DType| -> Buffer {
        buffer(&(0..numel).map(|i| value(i).cast(dtype)).collect::<Vec<_>>(), dtype)
    };
    let inputs: Vec<Buffer> = kernel.inputs.iter().map(|own| input(own.numel, own.dtype)).collect();
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
    for sound in ["none", "none of groups"] {
        let (passes, text) = verdict(sound);
        assert!(passes, "{text}");
    }
    for (title, ..) in BUGS.iter().chain(BUGS_OF_GROUPS) {
        let (passes, text) = verdict(title);
        assert!(!passes, "{title} goes unnoticed");
        let found = ["simulated device:", "another product"];
        assert!(found.iter().any(|reason| text.contains(reason)), "{title}: {text}");
    }
}
