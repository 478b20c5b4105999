//! NVIDIA's compiler on random kernels: machine code for every generation,
//! without registers spilled to memory.

use proptest::prelude::*;

use super::{is_required, numbers};
use crate::base::{DType, Device, Shape};
use crate::kernel::{Sort, Work};
use crate::render::{Target, cuda};
use crate::runtime::cpu::tests::random::Case;
use crate::runtime::cuda::nvrtc;
use crate::tensor::Tensor;

/// The generations: Ampere, Hopper, Blackwell.
const GENERATIONS: [&str; 3] = ["80", "90", "120"];

/// Whether the compiler is there. The simulated device's does not count: it
/// makes no machine code.
fn is_there() -> bool {
    let empty = format!("extern \"C\" __global__ void {}() {{}}", cuda::ENTRY);
    let found =
        nvrtc::cubin(&empty, GENERATIONS[0], &[]).and_then(|code| match code.starts_with(b"\x7fELF") {
            true => Ok(()),
            false => Err("libnvrtc is the simulated device's".to_string()),
        });
    if let Err(reason) = &found {
        assert!(!is_required("nvrtc"), "KILN_REQUIRE asks for nvrtc: {reason}");
        println!("skipped: {reason}");
    }
    found.is_ok()
}

/// Compiles every pass of some work for every generation.
fn compiles(work: &Work) -> Result<(), String> {
    let shader = cuda::render_work(work, &Target::cuda()).map_err(|reason| reason.to_string())?;
    for pass in shader.iter().flat_map(|shader| &shader.passes) {
        let unit = cuda::translation_unit(&pass.source);
        for arch in GENERATIONS {
            nvrtc::cubin(&unit, arch, &nvrtc::SPILLS_ARE_ERRORS)
                .map_err(|message| format!("sm_{arch}: {message}\n{}", pass.source))?;
        }
    }
    Ok(())
}

fn check(case: &Case) -> Result<(), TestCaseError> {
    if !is_there() {
        return Ok(());
    }
    compiles(&Work::Kernel(case.kernel.clone())).map_err(TestCaseError::fail)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("CASES").map_or(12, |n| n.parse().expect("CASES is a number")),
        failure_persistence: None,
        max_shrink_iters: 30,
        ..ProptestConfig::default()
    })]

    #[test]
    fn rows_compile(numbers in numbers()) {
        check(&Case::rows(numbers))?;
    }

    #[test]
    fn scatters_compile(numbers in numbers()) {
        check(&Case::scatter(numbers))?;
    }

    #[test]
    fn contractions_compile(numbers in numbers()) {
        check(&Case::contraction(numbers))?;
    }
}

#[test]
fn sorts_compile() {
    if !is_there() {
        return;
    }
    for (number, dtype) in DType::ALL.into_iter().enumerate() {
        let sort = Sort { shape: Shape::from([3, 100, 2]), dtype, axis: 1, descending: number % 2 == 0 };
        compiles(&Work::Sort(sort)).expect("machine code");
    }
}

#[test]
fn a_kernel_that_spills_is_refused() {
    if !is_there() {
        return;
    }
    // 300 products, all different, live at once in 255 registers at most.
    let mut text = format!("extern \"C\" __global__ void {}(float* x, int n) {{\n", cuda::ENTRY);
    (0..300).for_each(|i| text += &format!("float v{i} = x[{i} * n];\n"));
    text += "__syncthreads();\n";
    (0..300).for_each(|i| text += &format!("x[{i}] = v{i} * v{};\n", (i + 7) % 300));
    text += "}\n";
    assert!(nvrtc::cubin(&text, "90", &[]).is_ok());
    let refusal = nvrtc::cubin(&text, "90", &nvrtc::SPILLS_ARE_ERRORS).unwrap_err();
    assert!(refusal.contains("spill"), "{refusal}");
}

#[test]
fn a_softmax_reads_its_input_once_into_registers() {
    let x = Tensor::from_vec(vec![0f32; 64 * 1024], [64, 1024], Device::null());
    x.realize().expect("a leaf");
    let report = x.softmax(-1).plan().expect("a plan");
    let shader = cuda::render_work(report.kernels[0].work(), &Target::cuda()).expect("a kernel");
    let source = &shader.expect("CUDA C").passes[0].source;
    assert_eq!(source.matches("(in0, ").count(), 1, "{source}");
    if is_there() {
        let options = ["--ptxas-options=--warn-on-local-memory-usage", "--ptxas-options=-Werror"];
        for arch in GENERATIONS {
            nvrtc::cubin(&cuda::translation_unit(source), arch, &options).expect("arrays in registers");
        }
    }
}

/// Loads and stores of memory in a kernel's PTX.
fn moves(text: &str) -> Vec<&str> {
    let of_memory = |line: &&str| line.starts_with("ld.global") || line.starts_with("st.global");
    text.lines().map(str::trim).filter(of_memory).collect()
}

/// By four elements, so that those of 4 and 8 bytes move 16 bytes at a time.
#[test]
fn elementwise_kernels_move_sixteen_bytes_at_a_time() {
    let cases = [
        (DType::F32, [".v4.f32", ".v4.b32"]),
        (DType::I32, [".v4.u32", ".v4.b32"]),
        (DType::I64, [".v2.u64", ".v2.b64"]),
        // Half as much, four elements being 8 bytes.
        (DType::F16, [".v4.u16", ".v4.b16"]),
        (DType::BF16, [".v4.u16", ".v4.b16"]),
    ];
    for (dtype, wide) in cases {
        let leaf = || {
            let x = Tensor::from_vec(vec![1f32; 1 << 16], [1 << 16], Device::null()).to_dtype(dtype);
            x.realize().expect("a leaf");
            x
        };
        let (x, y) = (leaf(), leaf());
        let report = (&x * 3 + &y).plan().expect("a plan");
        let shader = cuda::render_work(report.kernels[0].work(), &Target::cuda()).expect("a kernel");
        let source = &shader.expect("CUDA C").passes[0].source;
        if !is_there() {
            return;
        }
        for arch in GENERATIONS {
            let text = nvrtc::ptx(&cuda::translation_unit(source), arch).expect("PTX");
            let moves = moves(&text);
            let all = moves.iter().all(|line| wide.iter().any(|width| line.contains(width)));
            assert!(moves.len() >= 3 && all, "{dtype}: {moves:#?}\n{source}");
        }
    }
}
