//! Golden files: what is built, scheduled, fused and where it is put, for
//! typical graphs, on the null device (which is the same on every machine).
//!
//! `KILN_BLESS=1 cargo test --test golden` rewrites them; read the changes
//! before committing them.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use kiln::opts::InterpolateOpts;
use kiln::opts::NllLossOpts;
use kiln::opts::TopkOpts;
use kiln::opts::VarOpts;
use kiln::prelude::*;
use kiln::unstable::render::{GpuTarget, wgsl};
use kiln::unstable::runtime::Capabilities;
use kiln::unstable::runtime::null::{CAPABILITIES, NullBackend};
use kiln::{Context, Device, with_context};

#[cfg(feature = "cuda")]
#[path = "support/machine_code.rs"]
mod machine_code;

const DEVICE: Device = Device::null();

/// Data in the null device's memory.
fn leaf<const N: usize>(dims: [usize; N]) -> Tensor {
    leaf_of(vec![0f32; dims.iter().product()], dims)
}

/// Indices in the null device's memory.
fn indices<const N: usize>(dims: [usize; N]) -> Tensor {
    leaf_of(vec![0i64; dims.iter().product()], dims)
}

fn leaf_of<T: kiln::Element + bytemuck::Pod, const N: usize>(data: Vec<T>, dims: [usize; N]) -> Tensor {
    let x = Tensor::from_vec(data, dims, DEVICE);
    x.realize().expect("memory of the null device");
    x
}

/// Compares the plan of some tensors with the files of that name.
#[track_caller]
fn golden(name: &str, build: impl Fn() -> Vec<Tensor>) {
    let kernels = golden_in(&Context::new(), name, &build);
    #[cfg(feature = "cuda")]
    for_cuda(kernels, build);
    #[cfg(not(feature = "cuda"))]
    let _ = kernels;
}

/// What CUDA devices run: no more kernels than others, accepted by NVIDIA's
/// compiler where that is there.
#[cfg(feature = "cuda")]
#[track_caller]
fn for_cuda(kernels: usize, build: impl Fn() -> Vec<Tensor>) {
    const PROCESSORS: usize = 132;
    let context = Context::new();
    let capabilities = kiln::unstable::runtime::cuda::capabilities(PROCESSORS);
    context.install(Arc::new(NullBackend::new(capabilities)));
    with_context(&context, || {
        let outputs = build();
        let report = kiln::plan(&outputs.iter().collect::<Vec<_>>()).expect("a plan");
        assert!(report.kernels.len() <= kernels, "{} kernels, {kernels} elsewhere", report.kernels.len());
        if machine_code::is_there() {
            for kernel in &report.kernels {
                machine_code::compile(kernel.work()).unwrap_or_else(|error| panic!("{error}"));
            }
        }
    });
}

#[track_caller]
fn golden_in(context: &Arc<Context>, name: &str, build: impl FnOnce() -> Vec<Tensor>) -> usize {
    with_context(context, || {
        let outputs = build();
        let report = kiln::plan(&outputs.iter().collect::<Vec<_>>()).expect("a plan");
        compare(name, "ir", &report.graph_text());
        compare(name, "plan", &format!("{}\n{}", totals(&report), report.steps_text()));
        compare(name, "wgsl", &shaders(&report));
        report.kernels.len()
    })
}

/// The WGSL of the plan's kernels, for Mesa's software driver (if none of them
/// were small); valid, and
/// accepted by the writers for Vulkan, Metal and DirectX.
fn shaders(report: &PlanReport) -> String {
    let mut text = String::new();
    for kernel in &report.kernels {
        // What GPUs run is validated, but not kept.
        for subgroup in [0, 32] {
            let target = GpuTarget { subgroup, ..GpuTarget::webgpu_default() };
            if let Ok(shader) = wgsl::render_work(kernel.work(), &target) {
                shader.iter().flat_map(|shader| &shader.passes).for_each(|pass| portable(&pass.text()));
            }
        }
        let target = GpuTarget { compile_bound_elements: 0, ..GpuTarget::software() };
        let shader =
            wgsl::render_work(kernel.work(), &target).expect("a kernel that the software driver runs");
        for pass in shader.iter().flat_map(|shader| &shader.passes) {
            portable(&pass.text());
            text += &pass.text();
            text += "\n";
        }
    }
    text
}

fn portable(source: &str) {
    let fail = |what: &str, error: String| -> ! { panic!("{what}: {error}\n{source}") };
    let module =
        naga::front::wgsl::parse_str(source).unwrap_or_else(|e| fail("WGSL", e.emit_to_string(source)));
    let mut validator =
        naga::valid::Validator::new(naga::valid::ValidationFlags::all(), naga::valid::Capabilities::all());
    let info = validator.validate(&module).unwrap_or_else(|e| fail("validation", e.emit_to_string(source)));
    let spv = naga::back::spv::Options { lang_version: (1, 3), ..Default::default() };
    naga::back::spv::write_vec(&module, &info, &spv, None).unwrap_or_else(|e| fail("SPIR-V", e.to_string()));
    // Metal and DirectX have no 64-bit floats.
    if source.contains("f64") {
        return;
    }
    let msl =
        naga::back::msl::Options { lang_version: (2, 4), fake_missing_bindings: true, ..Default::default() };
    naga::back::msl::write_string(&module, &info, &msl, &Default::default())
        .unwrap_or_else(|e| fail("MSL", e.to_string()));
    // DirectX has no matrices of subgroups.
    if source.contains("coop_mat") {
        return;
    }
    let hlsl = naga::back::hlsl::Options {
        shader_model: naga::back::hlsl::ShaderModel::V6_0,
        fake_missing_bindings: true,
        ..Default::default()
    };
    let pipeline = naga::back::hlsl::PipelineOptions::default();
    let mut out = String::new();
    let mut writer = naga::back::hlsl::Writer::new(&mut out, &hlsl, &pipeline);
    writer.write(&module, &info, None).unwrap_or_else(|e| fail("HLSL", e.to_string()));
}

/// Templates are whole shaders, with an example in the place of what kernels
/// put before them.
#[test]
fn templates_are_valid_by_themselves() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("shaders");
    let files = fs::read_dir(folder).expect("the folder of shaders").map(|file| file.expect("a file").path());
    let texts: Vec<String> = files.map(|path| fs::read_to_string(path).expect("a text")).collect();
    assert!(!texts.is_empty());
    texts.iter().for_each(|text| portable(text));
}

/// On a device that has a template for it.
#[test]
fn attention_by_a_template() {
    let context = Context::new();
    let attention = kiln::unstable::render::attention::range(&GpuTarget {
        compile_bound_elements: 0,
        ..GpuTarget::software()
    });
    context.install(Arc::new(NullBackend::new(Capabilities { attention, ..CAPABILITIES })));
    golden_in(&context, "attention_by_a_template", || {
        // Heads side by side, as a projection gives them.
        let packed = leaf([2, 40, 3 * 32]);
        let head = |i: usize| packed.narrow(2, i * 32, 32).reshape([2, 40, 4, 8]).transpose(1, 2);
        let opts = AttentionOpts::default().mask(&leaf([40, 40]).gt(0.0));
        let y = head(0).scaled_dot_product_attention(&head(1), &head(2), opts);
        vec![y.transpose(1, 2).reshape([2, 40, 32])]
    });
}

/// The texts of some tensors' kernels for a GPU whose subgroups multiply
/// matrices; all are valid.
fn for_matrices(side: u32, output: &Tensor) -> String {
    let target = GpuTarget { matrix: Some(side), workgroup_bytes: 32 << 10, ..GpuTarget::webgpu_default() };
    let report = kiln::plan(&[output]).expect("a plan");
    let mut text = String::new();
    for kernel in &report.kernels {
        let shader = wgsl::render_work(kernel.work(), &target).expect("a kernel that every GPU runs");
        for pass in shader.iter().flat_map(|shader| &shader.passes) {
            portable(&pass.text());
            text += &pass.text();
        }
    }
    text
}

#[test]
fn products_of_halves_are_matrices_products_where_there_are_such() {
    with_context(&Context::new(), || {
        let product = |dtype: DType| {
            let operand = |rows, columns| leaf([rows, columns]).to_dtype(dtype);
            operand(200, 96).matmul(&operand(96, 300)).relu()
        };
        for side in [8, 16] {
            let text = for_matrices(side, &product(DType::F16));
            assert!(text.contains(&format!("alias MatrixA = coop_mat{side}x{side}<f16, A>;")), "{text}");
            for dtype in [DType::F32, DType::BF16] {
                let text = for_matrices(side, &product(dtype));
                assert!(!text.contains("coop_mat") && text.contains("var<workgroup> a_part"), "{text}");
            }
        }
    });
}

fn totals(report: &PlanReport) -> String {
    format!(
        "{} kernels, {} transfers, {} bytes loaded, {} stored, {} operations, {} bytes at most",
        report.kernels.len(),
        report.transfers.len(),
        report.bytes_loaded(),
        report.bytes_stored(),
        report.flops(),
        report.peak_bytes()
    )
}

#[track_caller]
fn compare(name: &str, kind: &str, text: &str) {
    // Nearly everything is on one device, whose name would only be noise.
    let text = text.replace("@null", "");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.{kind}"));
    if std::env::var_os("KILN_BLESS").is_some() {
        fs::write(&path, text).expect("a writable folder tests/golden");
        return;
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    let differs = text.lines().zip(expected.lines()).position(|(a, b)| a != b);
    let line = differs.unwrap_or_else(|| text.lines().count().min(expected.lines().count()));
    assert!(
        text == expected,
        "{name}.{kind} differs from line {} on:\n  now: {}\n  was: {}\nKILN_BLESS=1 cargo test --test golden rewrites it",
        line + 1,
        text.lines().nth(line).unwrap_or("(the end)"),
        expected.lines().nth(line).unwrap_or("(the end)"),
    );
}

macro_rules! cases {
    ($($(#[$doc:meta])* $name:ident => $outputs:expr;)*) => {$(
        $(#[$doc])*
        #[test]
        fn $name() {
            golden(stringify!($name), || $outputs.into_iter().collect());
        }
    )*};
}

cases! {
    elementwise_chain => {
        let (a, b) = (leaf([32, 64]), leaf([32, 64]));
        [((&a * 2.0 + &b).tanh() - &b) / (&a * &a + 1.0)]
    };
    broadcasting => [leaf([8, 1, 16]) * leaf([4, 1]) + leaf([16])];
    f16_chain => {
        let x = leaf([64, 64]).to_dtype(DType::F16);
        [(&x * 3.0 + 1.0).exp() * &x]
    };
    softmax => [leaf([64, 128]).softmax(-1)];
    softmax_of_columns => [leaf([64, 128]).softmax(0)];
    log_softmax_nll => {
        let loss = leaf([64, 10]).log_softmax(-1).nll_loss(&indices([64]), NllLossOpts::default());
        [loss]
    };
    layer_norm => {
        let opts = NormOpts::default().weight(&leaf([96])).bias(&leaf([96]));
        [leaf([64, 96]).layer_norm([96], opts)]
    };
    batch_norm_in_training => {
        let x = leaf([8, 4, 6, 6]);
        [x.batch_norm(RunningNormOpts::training())]
    };
    variance_and_mean => {
        let (var, mean) = leaf([64, 128]).var_mean(-1, VarOpts::default());
        [var, mean]
    };
    sum_of_everything => [leaf([512, 512]).sum(..)];
    sums_of_rows_and_columns => {
        let x = leaf([64, 128]).exp();
        [x.sum(0), x.sum(1)]
    };
    matmul_epilogue => {
        let (x, w, bias, residual) = (leaf([64, 32]), leaf([32, 48]), leaf([48]), leaf([64, 48]));
        [(x.matmul(&w) + &bias).gelu() + &residual]
    };
    two_matmuls => [leaf([64, 32]).matmul(&leaf([32, 128])).relu().matmul(&leaf([128, 16]))];
    product_used_twice => {
        let product = leaf([32, 32]).matmul(&leaf([32, 32]));
        [product.tanh(), product.sum(-1)]
    };
    attention => {
        let (q, k, v) = (leaf([2, 4, 16, 8]), leaf([2, 4, 16, 8]), leaf([2, 4, 16, 8]));
        [q.scaled_dot_product_attention(&k, &v, AttentionOpts::default().causal(true))]
    };
    convolution => {
        let y = leaf([2, 3, 16, 16]).conv2d(&leaf([8, 3, 3, 3]), Some(&leaf([8])), ConvOpts::default().padding(1));
        [y.relu()]
    };
    max_pooling => [leaf([2, 4, 16, 16]).max_pool2d(2, MaxPoolOpts::default())];
    bilinear_interpolation => [leaf([1, 2, 8, 8]).interpolate(InterpolateOpts::default().size([16, 16]))];
    embedding => [indices([4, 16]).embedding(&leaf([100, 32])) * 0.5];
    scatter_add => [leaf([10, 8]).scatter_add(0, &indices([6, 8]), leaf([6, 8]))];
    running_sum => [leaf([32, 64]).cumsum(-1) * 2.0];
    /// On GPUs a workgroup shares each row.
    long_running_sum => [leaf([2, 4096]).cumsum(-1) * 2.0];
    largest_five => {
        let (values, places) = leaf([16, 100]).topk(5, TopkOpts::default());
        [values, places]
    };
    nearest_neighbours => {
        let (queries, known) = (leaf([40, 64]), leaf([100, 64]));
        let squares = known.square().sum(-1);
        [(squares - queries.matmul(&known.t()) * 2.0).argmin(-1)]
    };
    concatenation => [Tensor::cat(&[leaf([4, 8]) + 1.0, leaf([6, 8])], 0) * 2.0];
    movement_then_add => {
        let moved = leaf([16, 24]).t().flip(0).reshape([8, 3, 16]).permute([2, 0, 1]).reshape([16, 24]);
        [moved + leaf([16, 24])]
    };
    causal_mask => [leaf([16, 16]).tril(0).softmax(-1)];
    recurrence => {
        let (h, xs, w) = (leaf([4, 8]), leaf([10, 4, 8]), leaf([8, 8]));
        let (last, all) = kiln::scan(&[h], &[xs], |h, x| {
            let next = (h[0].matmul(&w) + &x[0]).tanh();
            (vec![next.clone()], vec![next])
        });
        last.into_iter().chain(all).collect::<Vec<_>>()
    };
    update_in_place => {
        let w = Var::new(leaf([1000]));
        w.set(w.get() * 0.9 + leaf([1000])).expect("one shape");
        [w.get()]
    };
    across_devices => [(leaf([8, 8]).exp().to(Device::cpu()) + 1.0).to(DEVICE).sum(0)];
}
