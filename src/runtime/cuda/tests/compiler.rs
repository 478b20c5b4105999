//! NVIDIA's compiler on random kernels: machine code for every generation,
//! without registers spilled to memory.

use std::sync::Arc;

use proptest::prelude::*;

use super::{is_required, numbers, tiles as tiles_of};
use crate::base::{DType, Device, Precision, Shape};
use crate::kernel::{JointAlias, JointSlot, JointWork, Kernel, Sort, Workload};
use crate::render::cuda::tiles::{self, CudaProductTile};
use crate::render::{GpuTarget, TemplateChoice, cuda};
use crate::runtime::cpu::tests::random::Case;
use crate::runtime::cuda::nvrtc;
use crate::tensor::Tensor;

/// The generations: Ampere, Hopper, Blackwell.
const GENERATIONS: [&str; 3] = ["80", "90", "120"];

/// The generation that a text is compiled for where many are: texts of a kind are alike, so that each
/// generation has its share of every kind.
fn share(source: &str) -> &'static str {
    let sum = source.bytes().map(usize::from).sum::<usize>();
    GENERATIONS[sum % GENERATIONS.len()]
}

/// Whether the compiler is there. The simulated device's does not count: it
/// makes no machine code.
pub fn is_there() -> bool {
    let empty = format!("extern \"C\" __global__ void {}() {{}}", cuda::ENTRY);
    let found =
        nvrtc::cubin(&empty, GENERATIONS[0]).and_then(|cubin| match cubin.code.starts_with(b"\x7fELF") {
            true => Ok(()),
            false => Err("libnvrtc is the simulated device's".to_string()),
        });
    if let Err(reason) = &found {
        assert!(!is_required("nvrtc"), "KILN_REQUIRE asks for nvrtc: {reason}");
        println!("skipped: {reason}");
    }
    found.is_ok()
}

/// Compiles a text, of which no register may be spilled.
fn machine_code(source: &str, arch: &str) -> Result<(), String> {
    let cubin = nvrtc::cubin(&cuda::translation_unit(source), arch).and_then(nvrtc::Cubin::unspilled);
    cubin.map(|_| ()).map_err(|message| format!("sm_{arch}: {message}\n{source}"))
}

/// Compiles every pass of some work for a generation of its share.
pub fn compiles(work: &Workload) -> Result<(), String> {
    compiles_for(work, &GpuTarget::cuda())
}

/// The same in the text for a target.
pub fn compiles_for(work: &Workload, target: &GpuTarget) -> Result<(), String> {
    each_pass(work, target, |source| machine_code(source, share(source)))
}

/// The same for one generation.
pub fn compiles_on(work: &Workload, target: &GpuTarget, arch: &str) -> Result<(), String> {
    each_pass(work, target, |source| machine_code(source, arch))
}

fn each_pass(
    work: &Workload,
    target: &GpuTarget,
    compile: impl Fn(&str) -> Result<(), String>,
) -> Result<(), String> {
    let shader = cuda::render_work(work, target).map_err(|reason| reason.to_string())?;
    let mut passes = shader.iter().flat_map(|shader| &shader.passes);
    passes.try_for_each(|pass| compile(&pass.source))
}

fn check(case: &Case) -> Result<(), TestCaseError> {
    if !is_there() {
        return Ok(());
    }
    compiles(&Workload::Kernel(case.kernel.clone())).map_err(TestCaseError::fail)
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

/// Kernels that spilled 8 bytes and used 72 registers where 255 were to be had: small tiles
/// of tensor cores, whose operands are computed. At the first attempt.
#[test]
fn blocks_have_the_registers_they_need() {
    if !is_there() {
        return;
    }
    let of_batches = [
        28795, 5925, 0, 0, 79, 0, 0, 0, 431, 77336, 0, 0, 9, 0, 0, 46, 567, 0, 0, 9, 0, 31, 92, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 68, 90, 0, 0, 34, 0, 0, 0, 0, 0, 0, 0, 96, 169, 0, 0, 0, 9, 71, 0, 0, 0,
        0, 78, 0, 53, 36, 0, 0, 0, 95, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 78, 0, 0, 0, 0, 81, 0,
        25, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    let guarded = [
        0, 43366, 25, 0, 0, 106, 9, 0, 0, 82604, 53337, 0, 0, 7, 0, 0, 41, 0, 72, 0, 56, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 66, 0, 0, 52, 0, 0, 0, 0, 0, 76, 3, 7, 0, 0, 42, 0, 0, 0, 0, 0, 0, 46, 0, 0, 0, 0, 0, 87,
        0, 0, 94, 1, 0, 0, 0, 673, 53, 0, 0, 0, 88, 0, 26, 0, 0, 0, 0, 0, 0, 91, 1, 0, 81, 0, 0, 6, 0, 0, 0,
        0, 75, 0, 25, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    for numbers in [of_batches.to_vec(), guarded.to_vec()] {
        let kernel = Case::contraction(numbers).kernel;
        let suits = kernel.contraction().map(|c| tiles::suitable(&kernel, c, &GpuTarget::cuda()));
        let tile = suits.iter().flatten().next().map(|it| it.tile);
        assert_eq!(tile.map(|tile| tile.threads()), Some(128), "{tile:?}");
        let shader = cuda::render(&kernel, &GpuTarget::cuda()).expect("CUDA C");
        for arch in GENERATIONS {
            let unit = cuda::translation_unit(&shader.passes[0].source);
            let cubin = nvrtc::cubin_with(&unit, arch, &[nvrtc::TELL_SPILLS]).expect("machine code");
            assert_eq!(cubin.spilled_bytes(), 0, "sm_{arch}: {}", cubin.log);
        }
    }
}

#[test]
fn scans_compile() {
    if !is_there() {
        return;
    }
    for (title, scan) in super::scans::SCANS {
        let report = scan(Device::null()).plan().expect("a plan");
        for kernel in &report.kernels {
            compiles(kernel.work()).unwrap_or_else(|message| panic!("{title}: {message}"));
        }
    }
}

#[test]
fn sorts_compile() {
    if !is_there() {
        return;
    }
    for (number, dtype) in DType::ALL.into_iter().enumerate() {
        let (shape, descending) = (Shape::from([3, 100, 2]), number % 2 == 0);
        let sort = Sort { shape, dtype, axis: 1, descending, count: 100 - number };
        compiles(&Workload::Sort(sort)).expect("machine code");
    }
}

/// The kernel of a product with an epilogue, of operands of a type.
fn product(dtype: DType, [m, k, n]: [usize; 3]) -> Kernel {
    let leaf = |dims: [usize; 2]| {
        let x = Tensor::zeros(dims, Device::null()).to_dtype(dtype);
        x.realize().expect("a leaf");
        x
    };
    let sum = leaf([m, k]).matmul(&leaf([k, n])) + leaf([1, n]);
    let report = sum.gelu().plan().expect("a plan");
    let Workload::Kernel(kernel) = report.kernels[0].work() else { panic!("a product is a kernel") };
    kernel.clone()
}

/// The sizes of the tiles that suit a kernel on a generation, each compiled for it.
fn compiled_tiles(kernel: &Kernel, arch: &str) -> Vec<[usize; 2]> {
    let (major, minor) = arch.split_at(arch.len() - 1);
    let capability = (major.parse().expect("a number"), minor.parse().expect("a number"));
    let target = GpuTarget::cuda_device(capability, 132);
    let choices = cuda::choices(kernel, &target);
    for &choice in &choices {
        let target = GpuTarget { choice: Some(choice), ..target.clone() };
        let shader = cuda::render(kernel, &target).expect("CUDA C");
        let own = if let TemplateChoice::CudaProduct(CudaProductTile::Wgmma { .. }) = choice {
            "90a"
        } else {
            arch
        };
        for pass in &shader.passes {
            machine_code(&pass.source, own).unwrap_or_else(|message| panic!("{choice:?}: {message}"));
        }
    }
    tiles_of(&choices).map(|tile| tile.size()).collect()
}

#[test]
fn products_of_a_row_compile_as_one_launch_without_spills() {
    if !is_there() {
        return;
    }
    let alias = JointAlias { slot: JointSlot::Input(5), output: 0 };
    let cases = [
        (576, vec![576, 192, 192], Vec::new()),
        (8192, vec![64, 32], Vec::new()),
        (576, vec![1536, 1536], vec![alias]),
    ];
    for (dtype, (k, widths, aliases)) in
        [DType::F32, DType::BF16].into_iter().flat_map(|dtype| cases.iter().map(move |case| (dtype, case)))
    {
        let works = widths.iter().map(|&n| Arc::new(Workload::Kernel(product(dtype, [1, *k, n]))));
        let joint = Workload::Joint(JointWork::new(works.collect(), aliases.clone()));
        for (arch, capability) in [("80", (8, 0)), ("90", (9, 0)), ("120", (12, 0))] {
            let target = GpuTarget::cuda_device(capability, 132);
            compiles_on(&joint, &target, arch)
                .unwrap_or_else(|message| panic!("{dtype}, {widths:?}: {message}"));
        }
    }
}

#[test]
fn tiles_of_tensor_cores_compile_without_spills() {
    if !is_there() {
        return;
    }
    let copied = product(DType::BF16, [1024, 1024, 1024]);
    // A result of more elements than 32-bit positions reach.
    let large = product(DType::BF16, [1 << 16, 64, 40_000]);
    // Nothing is aligned, so that all goes through registers.
    let computed = product(DType::F16, [1023, 1021, 1019]);
    for arch in GENERATIONS {
        let sizes = compiled_tiles(&copied, arch);
        let wanted = sizes.iter().filter(|&&size| size == [128, 128]).count();
        // By mma.sync everywhere, on 9.0 by wgmma too.
        assert_eq!(wanted, if arch == "90" { 2 } else { 1 }, "sm_{arch}: {sizes:?}");
        assert!(compiled_tiles(&computed, arch).len() > 1);
    }
    assert!(compiled_tiles(&large, "90").contains(&[128, 256]));
}

#[test]
fn tiles_of_few_rows_compile_without_spills() {
    if !is_there() {
        return;
    }
    let few = [
        product(DType::F32, [1, 4096, 4096]),
        product(DType::F32, [16, 4096, 4096]),
        product(DType::F64, [8, 4096, 4096]),
        // Of few columns, which take the place of rows, the other matrix lies along the depth.
        product(DType::F32, [4096, 4096, 7]),
    ];
    for arch in GENERATIONS {
        for kernel in &few {
            let sizes = compiled_tiles(kernel, arch);
            assert!(sizes[0][0] <= 16 && sizes.len() > 2, "sm_{arch}: {sizes:?}");
        }
    }
}

#[test]
fn tiles_of_rounded_32_bit_floats_compile_without_spills() {
    if !is_there() {
        return;
    }
    let mut kernel = product(DType::F32, [1024, 1024, 1024]);
    let Some(c) = kernel.contraction_mut() else { panic!("a product") };
    c.precision = Precision::High;
    for arch in GENERATIONS {
        assert!(compiled_tiles(&kernel, arch).contains(&[128, 128]));
    }
}

#[test]
fn tiles_of_other_numbers_compile_without_spills() {
    if !is_there() {
        return;
    }
    for arch in [GENERATIONS[0], GENERATIONS[2]] {
        assert!(compiled_tiles(&product(DType::F32, [1024, 1021, 1024]), arch).contains(&[128, 128]));
        assert!(compiled_tiles(&product(DType::F64, [1024, 1021, 1024]), arch).contains(&[64, 64]));
    }
}

/// A template's file with its example header is a program.
#[test]
fn templates_are_valid_by_themselves() {
    if !is_there() {
        return;
    }
    let stages = cuda::product::STAGES;
    let templates = [
        (include_str!("../../../../kernels/product_simt.cuh"), "const f32* a, const f32* b", ""),
        (include_str!("../../../../kernels/product_mma.cuh"), "const u16* a, const u16* b", stages),
        (include_str!("../../../../kernels/product_wgmma.cuh"), "const u16* a, const u16* b", stages),
    ];
    let others = [
        (include_str!("../../../../kernels/scan.cuh"), "const f32* a, f32* b", "scan(Scan{a, b})"),
        (
            include_str!("../../../../kernels/sort.cuh"),
            "u32* keys, u32* places, const u32* a, i64* b",
            "sort(Sort{keys, places, a, b})",
        ),
    ];
    for (text, parameters, call) in others {
        let unit = format!("{text}extern \"C\" __global__ void {}({parameters}) {{ {call}; }}", cuda::ENTRY);
        for arch in GENERATIONS {
            machine_code(&unit, arch).expect("machine code");
        }
    }
    for (text, operands, between) in templates {
        let text = cuda::product::HOPPER.to_string() + &text.replace("// TEMPLATE\n", between);
        let entry = format!(
            "extern \"C\" __global__ void {}({operands}, f32* c) {{ product(Product{{a, b, c}}); }}",
            cuda::ENTRY
        );
        machine_code(&(text + &entry), "90a").expect("machine code");
    }
}

#[test]
fn a_kernel_that_spills_however_it_is_compiled_is_noticed() {
    if !is_there() {
        return;
    }
    // 300 products, all different, live at once in 255 registers at most.
    let mut text = format!("extern \"C\" __global__ void {}(float* x, int n) {{\n", cuda::ENTRY);
    (0..300).for_each(|i| text += &format!("float v{i} = x[{i} * n];\n"));
    text += "__syncthreads();\n";
    (0..300).for_each(|i| text += &format!("x[{i}] = v{i} * v{};\n", (i + 7) % 300));
    text += "}\n";
    let refusal = nvrtc::cubin(&text, "90").expect("machine code").unspilled().err();
    assert!(refusal.as_ref().is_some_and(|log| log.contains("spill")), "{refusal:?}");
}

/// A kernel that spills where the compiler guesses how many registers a thread should have.
#[test]
fn a_kernel_that_spills_is_compiled_with_more_registers() {
    if !is_there() {
        return;
    }
    let of_floats = [
        61729, 36035, 36758, 65746, 29471, 35219, 11837, 39216, 50378, 41380, 96880, 62813, 87712, 13339,
        12653, 33227, 58281, 53172, 96335, 67228, 53319, 8867, 86638, 35746, 11891, 51019, 58663, 56027,
        38213, 88631, 48020, 20330, 59943, 48270, 69073, 14321, 94962, 29405, 18237, 84153, 20513, 87692,
        53631, 55742, 65949, 67061, 2335, 62852, 46245, 37816, 47186, 6683, 49514, 1671, 25600, 87975, 69661,
        72555, 70592, 5491, 26536, 38589, 43655, 17864, 25551, 64483, 13824, 70138, 99949, 88703, 35002,
        91458, 85740, 71946, 19219, 3619, 78867, 39494, 20175, 24245, 90686, 75960, 19595, 95428, 22748,
        92344, 87056, 6596, 62898, 45742, 79840, 21149, 32073, 78886, 78224, 81044, 67054, 25182, 45541,
        57032, 64313, 34298, 8979, 74203, 38786, 7568, 80623, 45249, 71116, 88388, 91659, 61699, 85652,
        48149, 84379, 45922, 979, 15088, 24770, 26120, 74937, 33908, 7331, 71820, 63092, 39126, 8073, 23568,
        33063, 65029,
    ];
    let work = Workload::Kernel(Case::contraction(of_floats.to_vec()).kernel);
    GENERATIONS.iter().for_each(|arch| compiles_on(&work, &GpuTarget::cuda(), arch).expect("no spills"));
}

#[test]
fn a_softmax_reads_its_input_once_into_registers() {
    let x = Tensor::from_vec(vec![0f32; 64 * 1024], [64, 1024], Device::null());
    x.realize().expect("a leaf");
    let report = x.softmax(-1).plan().expect("a plan");
    let shader = cuda::render_work(report.kernels[0].work(), &GpuTarget::cuda()).expect("a kernel");
    let source = &shader.expect("CUDA C").passes[0].source;
    assert_eq!(source.matches("(in0, ").count(), 1, "{source}");
    if is_there() {
        for arch in GENERATIONS {
            let options = ["--ptxas-options=--warn-on-local-memory-usage"];
            let cubin = nvrtc::cubin_with(&cuda::translation_unit(source), arch, &options).expect("a cubin");
            assert!(!cubin.log.contains("ocal memory"), "{}", cubin.log);
        }
    }
}

/// Loads and stores of memory in a kernel's PTX.
fn moves(text: &str) -> Vec<&str> {
    let of_memory = |line: &&str| line.starts_with("ld.global") || line.starts_with("st.global");
    text.lines().map(str::trim).filter(of_memory).collect()
}

/// By four elements of 4 bytes or more, eight of 2.
#[test]
fn elementwise_kernels_move_sixteen_bytes_at_a_time() {
    let cases = [
        (DType::F32, [".v4.f32", ".v4.b32"]),
        (DType::I32, [".v4.u32", ".v4.b32"]),
        (DType::I64, [".v2.u64", ".v2.b64"]),
        (DType::F16, [".v4.u32", ".v4.b32"]),
        (DType::BF16, [".v4.u32", ".v4.b32"]),
    ];
    for (dtype, wide) in cases {
        let leaf = || {
            let x = Tensor::from_vec(vec![1f32; 1 << 16], [1 << 16], Device::null()).to_dtype(dtype);
            x.realize().expect("a leaf");
            x
        };
        let (x, y) = (leaf(), leaf());
        let report = (&x * 3 + &y).plan().expect("a plan");
        let shader = cuda::render_work(report.kernels[0].work(), &GpuTarget::cuda()).expect("a kernel");
        let source = &shader.expect("CUDA C").passes[0].source;
        if !is_there() {
            return;
        }
        for arch in GENERATIONS {
            let text = nvrtc::ptx(&cuda::translation_unit(source), arch).expect("PTX");
            let moves = moves(&text);
            let all = moves.iter().all(|line| wide.iter().any(|width| line.contains(width)));
            // Two operands and a result, of four or eight elements.
            let count = if dtype == DType::I64 { 6 } else { 3 };
            assert!(moves.len() == count && all, "{dtype}: {moves:#?}\n{source}");
        }
    }
}
