//! Products of 16-bit floats by matrices that subgroups multiply, against the
//! CPU's. Few adapters within reach of tests have such matrices, so plain WGSL
//! stands in for them: it keeps to the template's addresses, and to how work
//! is shared between subgroups of any size.

use super::products::{PRODUCTS, Product, agree, small};
use super::{device, taken_for_a_gpu};
use crate::base::{DType, Device};
use crate::render::product::WgslProductTile;
use crate::render::{Adapter, GpuTarget, TemplateChoice};
use crate::runtime::Backend;
use crate::runtime::wgpu::WgpuBackend;
use crate::runtime::wgpu::gpu::WgpuGpu;
use crate::tensor::Tensor;
use crate::tensor::conv::ConvOpts;

/// 16-bit integers from -2 to 2.
fn half<const N: usize>(dims: [usize; N], seed: usize, device: Device) -> Tensor {
    let x = small(dims, seed, device).to_dtype(DType::F16);
    x.realize().expect("a leaf");
    x
}

/// Products of 16-bit floats; few extents are multiples of any matrix's.
const HALVES: &[(&str, Product)] = &[
    ("odd", |d| half([37, 29], 1, d).matmul(&half([29, 45], 2, d)).to_dtype(DType::F32)),
    ("even", |d| half([64, 64], 1, d).matmul(&half([64, 128], 2, d)).to_dtype(DType::F32)),
    ("large", |d| half([300, 130], 1, d).matmul(&half([130, 260], 2, d)).to_dtype(DType::F32)),
    ("first turned", |d| half([36, 70], 1, d).t().matmul(&half([36, 52], 2, d)).to_dtype(DType::F32)),
    ("batched", |d| half([3, 33, 20], 1, d).matmul(&half([3, 20, 65], 2, d)).to_dtype(DType::F32)),
    ("bias and relu", |d| {
        let sum = half([33, 18], 1, d).matmul(&half([18, 41], 2, d)) + half([41], 3, d);
        sum.relu().to_dtype(DType::F32)
    }),
    ("convolution", |d| {
        let opts = ConvOpts::default().padding(1).stride(2);
        half([2, 5, 17, 19], 1, d).conv2d(&half([7, 5, 3, 3], 2, d), None, opts).to_dtype(DType::F32)
    }),
];

/// The text of a shader with plain WGSL for the operations on matrices, as if
/// subgroups were of `LANES` invocations. Operands stay in shared memory; of
/// sums each invocation has its share.
fn stand_in<const LANES: u32>(source: &str) -> String {
    if !source.contains("coop_mat") {
        return source.into();
    }
    let enters = format!(
        ") {{\n    let subgroups = u32(THREADS) / {LANES};\n    let own_subgroup = local / {LANES};\n    \
         lane = i32(local % {LANES});\n"
    );
    let changes = [
        ("enable wgpu_cooperative_matrix;\n", ""),
        ("    @builtin(num_subgroups) subgroups: u32,\n", ""),
        ("    @builtin(subgroup_id) own_subgroup: u32,\n) {\n", enters.as_str()),
        ("coopLoadT<MatrixA>(&a_part[", "operand("),
        ("], A_STRIDE)", ", A_STRIDE)"),
        ("coopLoadT<MatrixB>(&b_part[", "operand("),
        ("], B_STRIDE)", ", B_STRIDE)"),
        ("coopLoadT<MatrixC>(&c_part[", "load_sums("),
        ("coopStoreT(", "store_sums("),
        (", &c_part[", ", "),
        ("], C_STRIDE)", ", C_STRIDE)"),
        ("coopMultiplyAdd(", "multiply_add("),
    ];
    let aliases = |line: &&str| !line.starts_with("alias Matrix");
    let mut text: String = source.split_inclusive('\n').filter(aliases).collect();
    for (own, plain) in changes {
        assert!(text.contains(own), "{own} is nowhere in\n{text}");
        text = text.replace(own, plain);
    }
    assert!(!text.contains("coop"), "{text}");
    text + &STAND_IN.replace("LANES", &LANES.to_string())
}

/// Its loops end where the compiler does not see it, since lavapipe takes many
/// seconds to compile them written out.
const STAND_IN: &str = "
// Where an operand lies, and how far its rows are apart.
alias MatrixA = vec2<i32>;
alias MatrixB = vec2<i32>;
const SHARE = SIDE * SIDE / LANES;
alias MatrixC = array<f32, SHARE>;
var<private> lane: i32;
fn hidden(count: i32) -> i32 {
    return count + min(subgroup_count.y, 0);
}
fn operand(at: i32, stride: i32) -> vec2<i32> {
    return vec2<i32>(at, stride);
}
fn load_sums(at: i32, stride: i32) -> MatrixC {
    var x: MatrixC;
    let end = hidden(SHARE);
    for (var i = 0; i < end; i++) {
        let own = lane + i * LANES;
        x[i] = c_part[at + own / SIDE * stride + own % SIDE];
    }
    return x;
}
fn store_sums(x: MatrixC, at: i32, stride: i32) {
    var own = x;
    let end = hidden(SHARE);
    for (var i = 0; i < end; i++) {
        let to = lane + i * LANES;
        c_part[at + to / SIDE * stride + to % SIDE] = own[i];
    }
}
fn multiply_add(a: MatrixA, b: MatrixB, c: MatrixC) -> MatrixC {
    var sums = c;
    let end = hidden(SHARE);
    let depths = hidden(SIDE);
    for (var i = 0; i < end; i++) {
        let own = lane + i * LANES;
        for (var k = 0; k < depths; k++) {
            sums[i] += f32(a_part[a.x + own / SIDE * a.y + k]) * f32(b_part[b.x + k * b.y + own % SIDE]);
        }
    }
    return sums;
}
";

/// A device that is taken for a GPU with matrices. `None`: there is none that
/// knows 16-bit floats.
fn with_stand_ins(
    side: u32,
    rewrite: fn(&str) -> String,
    tile: Option<WgslProductTile>,
) -> Option<WgpuBackend> {
    let known = device()?;
    if !known.gpu().device.features().contains(wgpu::Features::SHADER_F16) {
        println!("skipped: {} has no 16-bit floats", known.describe());
        return None;
    }
    let mut gpu = WgpuGpu::open(Device::wgpu(0)).expect("a second device of one adapter");
    let own = std::sync::Arc::get_mut(&mut gpu).expect("the only handle");
    let target = own.target.clone();
    own.target = GpuTarget {
        adapter: Adapter::Discrete,
        matrix: Some(side),
        compile_bound_elements: 0,
        choice: tile.map(TemplateChoice::Product),
        ..target
    };
    own.times_choices = false;
    own.rewrite = Some(rewrite);
    Some(WgpuBackend::of(gpu))
}

#[test]
fn products_by_matrices_of_16_agree_with_the_cpu() {
    let tile = WgslProductTile::Matrix { side: 16, rows: 128, columns: 128, part_rows: 64, part_columns: 32 };
    agree(with_stand_ins(16, stand_in::<32>, Some(tile)), &HALVES[..3], "const PART_ROWS = 64;");
}

#[test]
fn fewer_subgroups_than_parts_take_turns() {
    let tile = WgslProductTile::Matrix { side: 8, rows: 64, columns: 64, part_rows: 32, part_columns: 32 };
    agree(with_stand_ins(8, stand_in::<64>, Some(tile)), HALVES, "const PART_ROWS = 32;");
    // All of a workgroup is one subgroup.
    let tile = WgslProductTile::Matrix { side: 16, rows: 64, columns: 64, part_rows: 32, part_columns: 32 };
    agree(with_stand_ins(16, stand_in::<128>, Some(tile)), &HALVES[..2], "const PART_ROWS = 32;");
}

#[test]
fn more_subgroups_than_parts_do_no_harm() {
    agree(with_stand_ins(16, stand_in::<16>, None), &HALVES[..2], "coop_mat16x16<f16, A>");
    agree(with_stand_ins(8, stand_in::<8>, None), &HALVES[..1], "coop_mat8x8<f16, A>");
}

#[test]
fn other_numbers_keep_their_digits() {
    let others = PRODUCTS.iter().filter(|(title, _)| ["odd", "brain floats", "integers"].contains(title));
    let others: Vec<(&str, Product)> = others.copied().collect();
    assert_eq!(others.len(), 3);
    let shared = "var<workgroup> a_part: array<vec4<Element>";
    agree(with_stand_ins(16, stand_in::<32>, None), &others, shared);
}

#[test]
fn products_by_the_adapters_own_matrices_agree_with_the_cpu() {
    let Some(gpu) = taken_for_a_gpu() else { return };
    match gpu.gpu().target.matrix {
        Some(side) => agree(Some(gpu), HALVES, &format!("coop_mat{side}x{side}<f16, A>")),
        None => println!("skipped: {} has no matrices", gpu.describe()),
    }
}
