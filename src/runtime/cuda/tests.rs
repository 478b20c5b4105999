//! Random kernels on a device against the point-by-point reference: on a GPU,
//! or on the simulated device of `tests/cuda_sim` where that is on the library
//! path.

mod attention;
mod choices;
mod compiler;
mod graphs;
mod joint;
mod planted;
mod products;
mod scans;
mod scatters;

use std::sync::Arc;

use proptest::prelude::*;

use crate::base::{DType, Device, Scalar};
use crate::ir::DeviceBuffer;
use crate::kernel::{Expr, ExprId, ExprNode, Kernel, Workload};
use crate::render::cuda::tiles::CudaProductTile;
use crate::render::shader::Pass;
use crate::render::{GpuTarget, TemplateChoice, cuda};
use crate::runtime::cpu::tests::random::Case;
use crate::runtime::cpu::tests::{By, Outcome, buffer, close, elements, run};
use crate::runtime::cuda::CudaBackend;
use crate::runtime::{Backend, Binding, Bindings, IndexStatus, Program, host};

/// Whether `KILN_REQUIRE` names a proof, so that it must not be skipped.
fn is_required(proof: &str) -> bool {
    std::env::var("KILN_REQUIRE").is_ok_and(|list| list.split(',').any(|it| it == proof))
}

/// The first device. Without one the test is skipped, unless `KILN_REQUIRE`
/// asks for one.
fn device() -> Option<CudaBackend> {
    match CudaBackend::open(Device::cuda(0)) {
        Ok(backend) => Some(backend),
        Err(error) => {
            assert!(!is_required("cudasim"), "KILN_REQUIRE asks for a CUDA device: {error}");
            println!("skipped: {error}");
            None
        }
    }
}

/// A sum over the first axis is made in parts, by threads that have their columns for
/// themselves: a block that shared them would read pieces of many lines.
#[test]
fn sums_across_memory_read_whole_lines() {
    let x = crate::Tensor::zeros([1024, 1024], Device::null());
    x.realize().expect("a leaf");
    for (axis, passes) in [(0, 2), (1, 1)] {
        let report = x.sum(axis).plan().expect("a plan");
        let shader = cuda::render_work(report.kernels[0].work(), &GpuTarget::cuda()).expect("a text");
        let shader = shader.expect("no work of a user's");
        assert_eq!(shader.passes.len(), passes, "over axis {axis}");
        assert_eq!(shader.passes[0].source.contains("lane_above"), axis == 1, "over axis {axis}");
    }
}

/// Sums over the first axis beside what is stored for each of its positions: they are made
/// apart, though numbers that all columns share lie along the rows.
#[test]
fn sums_across_memory_beside_stores_are_made_apart() {
    let build = |device| {
        let x: Vec<f32> = (0..1024 * 256).map(|i| (i % 13) as f32 - 6.0).collect();
        let x = crate::Tensor::from_vec(x, [1024, 256], device);
        let means: Vec<f32> = (0..1024).map(|i| (i % 7) as f32).collect();
        let means = crate::Tensor::from_vec(means, [1024, 1], device);
        for leaf in [&x, &means] {
            leaf.realize().expect("a leaf");
        }
        let y = (x - means) * 0.5;
        [y.sum(0), y]
    };
    let [sum, y] = build(Device::null());
    let report = crate::tensor::plan::plan(&[&sum, &y]).expect("a plan");
    let work = report.kernels.last().expect("a kernel").work();
    let shader = cuda::render_work(work, &GpuTarget::cuda()).expect("a text").expect("no work of a user's");
    let invocations = |pass: &&Pass| pass.workgroups * u64::from(pass.workgroup_size);
    let stores = shader.passes.iter().max_by_key(invocations).expect("passes");
    assert!(shader.passes.len() > 1 && invocations(&stores) >= 1024 * 256 / 4, "{}", stores.source);
    assert!(stores.source.contains("store4<"), "pieces of lines are stored: {}", stores.source);
    if device().is_none() {
        return;
    }
    let values = |device| build(device).map(|x| x.to_vec::<f32>().expect("values"));
    assert_eq!(values(Device::cuda(0)), values(Device::cpu()));
}

/// Casts of a large product's operands are stored, so that tensor cores' tiles are copied from
/// memory; those of a small product are not, nor what is read once.
#[test]
fn casts_before_large_products_are_stored() {
    let passes = |m: usize, size: usize| {
        let leaf = |dims: [usize; 2]| {
            let x = crate::Tensor::zeros(dims, Device::null());
            x.realize().expect("a leaf");
            x.to_dtype(DType::BF16)
        };
        let report = leaf([m, size]).matmul(&leaf([size, size])).plan().expect("a plan");
        let target = GpuTarget::cuda_device((9, 0), 132);
        let shader = cuda::render_work(report.kernels[0].work(), &target).expect("a text");
        shader.expect("no work of a user's").passes
    };
    let large = passes(4096, 4096);
    assert_eq!(large.len(), 3);
    assert!(large[2].source.contains("A_BY_TMA = true") && large[2].source.contains("B_BY_TMA = true"));
    assert_eq!(passes(96, 96).len(), 1);
    let skinny = passes(4, 4096);
    assert!(skinny.iter().all(|pass| !pass.source.contains("_BY_MAP")), "each element is read once");
}

/// A convolution's gradient by its filters reads images along their lines: a window's lines are
/// of three elements, and threads that took one each would read as many pieces of memory. The
/// results are few and the sums long, so these are in parts, of whole images or lines.
#[test]
fn gradients_by_filters_read_lines_of_images() {
    let leaf = |dims: [usize; 4], dtype: DType| {
        let x = crate::Tensor::zeros(dims, Device::null()).to_dtype(dtype);
        x.realize().expect("a leaf");
        x
    };
    for dtype in [DType::F32, DType::BF16] {
        let filters = leaf([64, 64, 3, 3], dtype).with_requires_grad();
        let opts = crate::tensor::conv::ConvOpts::default().padding(1);
        let loss = leaf([4, 64, 28, 28], dtype).conv2d(&filters, None, opts).square().sum(..);
        let gradient = crate::grad(&loss, &[&filters])[0].clone();
        let report = gradient.plan().expect("a plan");
        let works = report.kernels.iter().map(|kernel| kernel.work());
        let shaders =
            works.map(|work| cuda::render_work(work, &GpuTarget::cuda_device((9, 0), 132)).expect("a text"));
        let texts: Vec<String> =
            shaders.flatten().flat_map(|shader| shader.passes).map(|pass| pass.source).collect();
        // The convolution itself comes first.
        let last = texts.iter().rfind(|text| text.contains("B_K_MAJOR")).expect("a product");
        assert!(last.contains("B_K_MAJOR = true") && !last.contains("BATCHES = 1,"), "{last}");
    }
}

/// The tiles among ways to compute a kernel.
fn tiles(choices: &[TemplateChoice]) -> impl Iterator<Item = CudaProductTile> {
    choices.iter().filter_map(|choice| match *choice {
        TemplateChoice::CudaProduct(tile) => Some(tile),
        TemplateChoice::Product(_)
        | TemplateChoice::Attention(_)
        | TemplateChoice::CudaAttention(_)
        | TemplateChoice::Invocation(_) => None,
    })
}

/// What a program leaves on the device.
fn run_there(
    backend: &CudaBackend,
    program: &dyn Program,
    kernel: &Kernel,
    inputs: &[DeviceBuffer],
    overwritten: Option<u32>,
) -> Result<Outcome, String> {
    let outs: Vec<(usize, DType)> = match kernel.scatter() {
        Some(scatter) => vec![(scatter.numel, scatter.dtype)],
        None => kernel.stores.iter().map(|store| (store.numel, store.dtype)).collect(),
    };
    let start = |dtype: DType, i: usize| {
        Scalar::Int(if kernel.scatter().is_some() { i as i64 % 3 } else { 77 }).cast(dtype)
    };
    let upload = |bytes: &[u8]| backend.upload(bytes).expect("memory for a test");
    let there: Vec<DeviceBuffer> = inputs.iter().map(|input| upload(host::bytes(input))).collect();
    let mut outputs: Vec<DeviceBuffer> = (outs.iter())
        .map(|&(numel, dtype)| {
            let values: Vec<Scalar> = (0..numel).map(|i| start(dtype, i)).collect();
            upload(host::bytes(&buffer(&values, dtype)))
        })
        .collect();
    let bind = |buffer| Binding { buffer, offset: 0 };
    if let Some(input) = overwritten {
        outputs[0] = upload(host::bytes(&inputs[input as usize]));
    }
    let mut bound: Vec<Binding<'_>> = there.iter().map(bind).collect();
    if let Some(input) = overwritten {
        bound[input as usize] = bind(&outputs[0]);
    }
    let status = IndexStatus::default();
    let launched = program.launch(&Bindings {
        inputs: &bound,
        outputs: &outputs.iter().map(bind).collect::<Vec<_>>(),
        scalars: &[],
        status: &status,
    });
    launched.map_err(|error| error.to_string())?;
    let bad_index = backend.sync().is_err();
    let read = |(buffer, (_, dtype)): (&DeviceBuffer, &(usize, DType))| {
        let mut bytes = vec![0; buffer.bytes];
        backend.download(buffer, 0, &mut bytes).expect("a download");
        elements(&bytes, *dtype)
    };
    Ok(Outcome { outputs: outputs.iter().zip(&outs).map(read).collect(), bad_index })
}

/// The first difference between the reference and the device.
fn difference(backend: &CudaBackend, program: &dyn Program, case: &Case) -> Option<String> {
    let inputs: Vec<DeviceBuffer> = case.data.iter().map(|(dtype, values)| buffer(values, *dtype)).collect();
    let tolerance = if case.rounds { 1e-2 } else { 1e-5 };
    let have = match run_there(backend, program, &case.kernel, &inputs, case.overwritten) {
        Ok(outcome) => outcome,
        Err(error) => return Some(error),
    };
    let differs = |kernel: &Kernel| compare(&run(kernel, &inputs, By::Reference), &have, tolerance);
    let found = differs(&case.kernel)?;
    rounded(&case.kernel).map_or(Some(found), |kernel| differs(&kernel))
}

/// The first difference between outcomes.
fn compare(want: &Outcome, have: &Outcome, tolerance: f64) -> Option<String> {
    if want.bad_index != have.bad_index {
        return Some(format!("bad index {} instead of {}", have.bad_index, want.bad_index));
    }
    for (number, (want, have)) in want.outputs.iter().zip(&have.outputs).enumerate() {
        let wrong = want.iter().zip(have).position(|(&w, &h)| !close(w, h, tolerance));
        if let Some(at) = wrong {
            return Some(format!("output {number} at {at}: {} instead of {}", have[at], want[at]));
        }
    }
    None
}

/// The kernel whose product takes 16-bit floats as they would be in memory: what is
/// computed in such a type may be held with more digits, but tensor cores round it.
fn rounded(kernel: &Kernel) -> Option<Kernel> {
    let c = kernel.contraction()?;
    cuda::tiles::MmaType::of(kernel, c)?;
    let mut kernel = kernel.clone();
    let mut operand = |id: ExprId| {
        let (own, level) = (&kernel.exprs[id.index()], kernel.exprs[id.index()].level);
        let (wide, narrow) = (own.dtype, kernel.exprs[cuda::tiles::unwidened(&kernel, id).index()].dtype);
        let mut from = id;
        // Casts round; those to a type that a value has already do not.
        for dtype in [DType::F32, narrow, wide] {
            kernel.exprs.push(ExprNode { expr: Expr::Cast(from), dtype, level });
            from = ExprId(kernel.exprs.len() as u32 - 1);
        }
        from
    };
    let operands = (operand(c.a), operand(c.b));
    let c = kernel.contraction_mut()?;
    (c.a, c.b) = operands;
    Some(kernel)
}

fn check(case: &Case) -> Result<(), TestCaseError> {
    device().map_or(Ok(()), |backend| check_on(&backend, case))
}

fn check_on(backend: &CudaBackend, case: &Case) -> Result<(), TestCaseError> {
    if case.kernel.stores.is_empty() && case.kernel.scatter().is_none() {
        return Ok(());
    }
    let text = || crate::kernel::print::text(&case.kernel);
    let program = backend
        .compile(&Workload::Kernel(case.kernel.clone()))
        .map_err(|error| TestCaseError::fail(format!("{error}\n{}", text())))?;
    match difference(backend, program.as_ref(), case) {
        None => Ok(()),
        Some(difference) => {
            Err(TestCaseError::fail(format!("{difference}\n{}\n{}", text(), program.source())))
        }
    }
}

fn numbers() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(0u32..100_000, 40..240)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("CASES").map_or(60, |n| n.parse().expect("CASES is a number")),
        failure_persistence: None,
        max_shrink_iters: 60,
        ..ProptestConfig::default()
    })]

    #[test]
    fn rows_agree_with_the_reference(numbers in numbers()) {
        check(&Case::rows(numbers))?;
    }

    #[test]
    fn outputs_written_over_inputs_agree_with_the_reference(numbers in numbers()) {
        check(&Case::in_place(numbers))?;
    }

    #[test]
    fn scatters_agree_with_the_reference(numbers in numbers()) {
        check(&Case::scatter(numbers))?;
    }

    #[test]
    fn contractions_agree_with_the_reference(numbers in numbers(), generation in 0usize..3) {
        if let Some(mut backend) = device() {
            backend.target = GpuTarget::cuda_device([(8, 0), (9, 0), (12, 0)][generation], 4);
            check_on(&backend, &Case::contraction(numbers))?;
        }
    }
}

/// What a GPU may do late, the simulated device does as late as it can.
#[test]
fn pinned_memory_is_kept_until_it_is_copied() {
    let Some(backend) = device() else { return };
    let pinned = |value: u8| {
        let mut block = backend.allocate_pinned(5000).expect("pinned memory");
        host::fill(&mut block, |bytes| bytes.fill(value));
        Arc::new(block)
    };
    let targets: Vec<DeviceBuffer> = (0..6u8)
        .map(|number| {
            let filled = number % 2 == 0;
            let target = if filled { backend.allocate_to_fill(5000) } else { backend.allocate(5000) };
            let target = target.expect("memory");
            let source = pinned(number);
            backend.write_from(Binding { buffer: &target, offset: 0 }, &source, 0, 5000).expect("a copy");
            // Dropped here, perhaps before it is copied.
            assert!(source.is_pinned());
            target
        })
        .collect();
    for (number, target) in targets.iter().enumerate() {
        let mut out = vec![99; 5000];
        backend.download(target, 0, &mut out).expect("a download");
        assert!(out.iter().all(|&byte| usize::from(byte) == number), "target {number}");
    }
    // Once copied, the blocks serve again.
    backend.sync().expect("nothing failed");
    let address = pinned(1).handle;
    assert_eq!(pinned(2).handle, address);
    backend.empty_cache();
}

#[test]
fn plain_memory_is_copied_through_pinned_pieces() {
    let Some(backend) = device() else { return };
    for bytes in [100, super::pinned::PIECE + 70_000, 2 * super::pinned::PIECE + 1] {
        let blocks = backend.gpu.pinned.blocks();
        let mut data: Vec<u8> = (0..bytes).map(|i| (i * 7 % 251) as u8).collect();
        let want = data.clone();
        let buffer = backend.upload(&data).expect("memory");
        assert_eq!(backend.gpu.pinned.blocks() > blocks, bytes > super::pinned::PIECE, "{bytes} bytes");
        // Perhaps before the device has come to it.
        data.fill(0);
        backend.write(Binding { buffer: &buffer, offset: 50 }, &data[..20]).expect("a copy");
        let mut out = vec![99; bytes];
        backend.download(&buffer, 0, &mut out).expect("a download");
        assert!(
            out[50..70].iter().all(|&byte| byte == 0) && out[..50] == want[..50] && out[70..] == want[70..]
        );
        backend.empty_cache();
    }
}

/// Other tests use the device too, so only what is this one's is looked for.
#[test]
fn the_books_name_what_is_in_memory() {
    let Some(backend) = device() else { return };
    const BYTES: usize = 123_457;
    let listed = || {
        let mut found = false;
        let kept = backend.with_ledger(&mut |ledger| {
            found = ledger.largest(usize::MAX).iter().any(|tensor| tensor.bytes == BYTES as u64);
        });
        assert!(kept, "no books");
        found
    };
    let block = backend.allocate(BYTES).expect("memory");
    assert!(listed() && backend.memory().peak >= BYTES as u64);
    let (free, total) = backend.driver_memory().expect("the driver tells");
    assert!(free < total, "{free} of {total} bytes are free");
    drop(block);
    assert!(!listed());
}
