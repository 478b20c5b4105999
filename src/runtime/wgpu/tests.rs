//! Random kernels on an adapter against the point-by-point reference.

mod angles;
mod attention;
mod choices;
mod copies;
mod joint;
mod matrices;
mod memory;
mod products;
mod quotients;
mod rows;
mod scans;
mod separate;
mod sorts;
mod uploads;
mod words;

use std::sync::{Arc, LazyLock};

use proptest::prelude::*;

use crate::base::{DType, Device, Error, Scalar};
use crate::ir::{DeviceBuffer, Monoid};
use crate::kernel::{Expr, ExprNode, Kernel, Workload};
use crate::plan::context::{Context, with_context};
use crate::render::{Adapter, GpuTarget};
use crate::runtime::cpu::tests::random::Case;
use crate::runtime::cpu::tests::{By, Outcome, buffer, close, elements, run};
use crate::runtime::wgpu::WgpuBackend;
use crate::runtime::wgpu::gpu::WgpuGpu;
use crate::runtime::{Backend, Binding, Bindings, IndexStatus, host};
use crate::tensor::Tensor;

/// The first adapter. Without one the test is skipped, unless `KILN_REQUIRE`
/// asks for wgpu.
pub fn device() -> Option<WgpuBackend> {
    match WgpuBackend::open(Device::wgpu(0)) {
        Ok(backend) => Some(backend),
        Err(error) => {
            let required =
                std::env::var("KILN_REQUIRE").is_ok_and(|list| list.split(',').any(|it| it == "wgpu"));
            assert!(!required, "KILN_REQUIRE asks for wgpu: {error}");
            println!("skipped: {error}");
            None
        }
    }
}

/// Whether an adapter is a software driver, whatever a test takes it for.
fn is_software(backend: &WgpuBackend) -> bool {
    backend.gpu().info.device_type == wgpu::DeviceType::Cpu
}

/// Text of the templates that compute in registers, which software drivers run; elsewhere,
/// where other templates do, what any text holds.
fn in_registers(backend: Option<&WgpuBackend>) -> &'static str {
    if backend.is_none_or(is_software) { "subgroupBroadcast" } else { "" }
}

/// What a kernel leaves on the adapter; `None` if it lacks a type.
fn run_there(
    backend: &WgpuBackend,
    kernel: &Kernel,
    inputs: &[DeviceBuffer],
    overwritten: Option<u32>,
) -> Option<Outcome> {
    let program = match backend.compile(&Workload::Kernel(kernel.clone())) {
        Ok(program) => program,
        Err(Error::Kernel { message, .. })
            if message.contains(", which ") || message.contains(" buffers, more than ") =>
        {
            return None;
        }
        Err(Error::Kernel { message, .. }) if message.contains(" iterations of ") && is_dear(kernel) => {
            return None;
        }
        Err(error) => panic!("{error}\n{}", crate::kernel::print::text(kernel)),
    };
    let outs: Vec<(usize, DType)> = match kernel.scatter() {
        Some(scatter) => vec![(scatter.numel, scatter.dtype)],
        None => kernel.stores.iter().map(|store| (store.numel, store.dtype)).collect(),
    };
    let start = |dtype: DType, i: usize| {
        Scalar::Int(if kernel.scatter().is_some() { i as i64 % 3 } else { 77 }).cast(dtype)
    };
    let upload = |bytes: &[u8]| backend.upload(bytes).expect("memory for a test");
    let there: Vec<DeviceBuffer> = inputs.iter().map(|input| upload(host::bytes(input))).collect();
    let outputs: Vec<DeviceBuffer> = (outs.iter())
        .map(|&(numel, dtype)| {
            let values: Vec<Scalar> = (0..numel).map(|i| start(dtype, i)).collect();
            upload(host::bytes(&buffer(&values, dtype)))
        })
        .collect();
    let mut outputs = outputs;
    let bind = |buffer| Binding { buffer, offset: 0 };
    if let Some(input) = overwritten {
        outputs[0] = upload(host::bytes(&inputs[input as usize]));
    }
    let mut bound: Vec<Binding<'_>> = there.iter().map(bind).collect();
    if let Some(input) = overwritten {
        bound[input as usize] = bind(&outputs[0]);
    }
    let status = IndexStatus::default();
    program
        .launch(&Bindings {
            inputs: &bound,
            outputs: &outputs.iter().map(bind).collect::<Vec<_>>(),
            scalars: &[],
            status: &status,
        })
        .expect("a launch");
    let bad_index = backend.sync().is_err();
    let read = |(buffer, (_, dtype)): (&DeviceBuffer, &(usize, DType))| {
        let mut bytes = vec![0; buffer.bytes];
        backend.download(buffer, 0, &mut bytes).expect("a download");
        elements(&bytes, *dtype)
    };
    Some(Outcome { outputs: outputs.iter().zip(&outs).map(read).collect(), bad_index })
}

/// Whether a kernel may take more iterations in any pieces than a cramped device carries out, 300:
/// pieces have two rows at least, of which a scan of 64-bit exponentials takes 161 each, and
/// a sum of them 257 where there are four lanes.
fn is_dear(kernel: &Kernel) -> bool {
    let sums = |node: &ExprNode| {
        matches!(node.expr, Expr::Scan(Monoid::LogSumExp, ..) | Expr::Reduce(Monoid::LogSumExp, _))
    };
    kernel.exprs.iter().any(|node| node.dtype == DType::F64 && sums(node))
}

/// The first difference between the reference and the adapter.
fn difference(backend: &WgpuBackend, case: &Case) -> Option<String> {
    let inputs: Vec<DeviceBuffer> = case.data.iter().map(|(dtype, values)| buffer(values, *dtype)).collect();
    let tolerance = if case.rounds { 1e-2 } else { 1e-5 };
    let have = run_there(backend, &case.kernel, &inputs, case.overwritten)?;
    let want = run(&case.kernel, &inputs, By::Reference);
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

fn check(backend: Option<WgpuBackend>, case: &Case) -> Result<(), TestCaseError> {
    if case.kernel.stores.is_empty() && case.kernel.scatter().is_none() {
        return Ok(());
    }
    let Some(backend) = backend else { return Ok(()) };
    match difference(&backend, case) {
        None => Ok(()),
        Some(difference) => {
            let program = backend.compile(&Workload::Kernel(case.kernel.clone())).expect("it was compiled");
            let text = crate::kernel::print::text(&case.kernel);
            Err(TestCaseError::fail(format!("{difference}\n{text}\n{}", program.source())))
        }
    }
}

/// A device of its own with less of everything, so that kernels meet limits:
/// small bindings, few workgroups a dimension, few iterations.
fn with_less(adapter: Option<Adapter>) -> Option<Arc<WgpuGpu>> {
    device()?;
    let mut gpu = WgpuGpu::open(Device::wgpu(0)).expect("a second device of one adapter");
    let own = Arc::get_mut(&mut gpu).expect("the only handle");
    if let Some(adapter) = adapter {
        (own.target.adapter, own.target.compile_bound_elements, own.times_choices) = (adapter, 0, false);
    }
    let target = own.target.clone();
    // GPUs have a workgroup for each point where rows are long.
    let max_groups = if target.adapter == Adapter::Software { 40 } else { 400 };
    own.target = GpuTarget { max_binding: 64 << 10, max_groups, max_iterations: 300, ..target };
    Some(gpu)
}

/// Such a device, of the adapter's own class.
fn cramped() -> Option<WgpuBackend> {
    static GPU: LazyLock<Option<Arc<WgpuGpu>>> = LazyLock::new(|| with_less(None));
    GPU.clone().map(WgpuBackend::of)
}

/// Such a device, taken for a GPU.
fn cramped_gpu() -> Option<WgpuBackend> {
    static GPU: LazyLock<Option<Arc<WgpuGpu>>> = LazyLock::new(|| with_less(Some(Adapter::Discrete)));
    GPU.clone().map(WgpuBackend::of)
}

/// A device of its own that is taken for a GPU, so that kernels are those
/// that a GPU runs.
fn taken_for_a_gpu() -> Option<WgpuBackend> {
    static GPU: LazyLock<Option<Arc<WgpuGpu>>> = LazyLock::new(|| as_a_gpu(|_| {}));
    GPU.clone().map(WgpuBackend::of)
}

/// The same anew, and changed.
fn as_a_gpu(change: impl FnOnce(&mut WgpuGpu)) -> Option<Arc<WgpuGpu>> {
    device()?;
    let mut gpu = WgpuGpu::open(Device::wgpu(0)).expect("a second device of one adapter");
    let own = Arc::get_mut(&mut gpu).expect("the only handle");
    own.target.adapter = Adapter::Discrete;
    own.target.compile_bound_elements = 0;
    own.times_choices = false;
    change(own);
    Some(gpu)
}

/// A device of its own on which no kernel is too small for lanes and tiles.
fn eager() -> Option<WgpuBackend> {
    static GPU: LazyLock<Option<Arc<WgpuGpu>>> = LazyLock::new(|| {
        device()?;
        let mut gpu = WgpuGpu::open(Device::wgpu(0)).expect("a second device of one adapter");
        Arc::get_mut(&mut gpu).expect("the only handle").target.compile_bound_elements = 0;
        Some(gpu)
    });
    GPU.clone().map(WgpuBackend::of)
}

/// A device of its own that times the tiles of products.
fn timing_tiles() -> Option<WgpuBackend> {
    static GPU: LazyLock<Option<Arc<WgpuGpu>>> = LazyLock::new(|| {
        device()?;
        let mut gpu = WgpuGpu::open(Device::wgpu(0)).expect("a second device of one adapter");
        let own = Arc::get_mut(&mut gpu).expect("the only handle");
        own.times_choices = true;
        own.target.compile_bound_elements = 0;
        Some(gpu)
    });
    GPU.clone().map(WgpuBackend::of)
}

fn numbers() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(0u32..100_000, 40..240)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("CASES").map_or(60, |n| n.parse().expect("CASES is a number")),
        failure_persistence: None,
        max_shrink_iters: 300,
        ..ProptestConfig::default()
    })]

    #[test]
    fn rows_agree_with_the_reference(numbers in numbers()) {
        check(device(), &Case::rows(numbers))?;
    }

    #[test]
    fn rows_in_lanes_agree_with_the_reference(numbers in numbers()) {
        check(eager(), &Case::rows(numbers))?;
    }

    #[test]
    fn rows_for_gpus_agree_with_the_reference(numbers in numbers()) {
        check(taken_for_a_gpu(), &Case::rows(numbers))?;
    }

    #[test]
    fn a_cramped_device_runs_rows_all_the_same(numbers in numbers()) {
        check(cramped(), &Case::rows(numbers))?;
    }

    #[test]
    fn a_cramped_gpu_runs_rows_all_the_same(numbers in numbers()) {
        check(cramped_gpu(), &Case::rows(numbers))?;
    }

    #[test]
    fn a_cramped_device_scatters_all_the_same(numbers in numbers()) {
        check(cramped(), &Case::scatter(numbers))?;
    }

    #[test]
    fn scatters_agree_with_the_reference(numbers in numbers()) {
        check(device(), &Case::scatter(numbers))?;
    }

    #[test]
    fn contractions_agree_with_the_reference(numbers in numbers()) {
        check(device(), &Case::contraction(numbers))?;
    }

    #[test]
    fn contractions_for_gpus_agree_with_the_reference(numbers in numbers()) {
        check(taken_for_a_gpu(), &Case::contraction(numbers))?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rows_of_words_agree_with_the_reference(numbers in numbers()) {
        check(words::without_int64(), &Case::rows(numbers.clone()))?;
        check(words::gpu_without_int64(), &Case::rows(numbers))?;
    }

    #[test]
    fn scatters_of_words_agree_with_the_reference(numbers in numbers()) {
        check(words::without_int64(), &Case::scatter(numbers))?;
    }

    #[test]
    fn contractions_of_words_agree_with_the_reference(numbers in numbers()) {
        check(words::gpu_without_int64(), &Case::contraction(numbers))?;
    }
}

/// A device that only one test uses.
fn own_device() -> Option<WgpuBackend> {
    device()?;
    Some(WgpuBackend::of(WgpuGpu::open(Device::wgpu(0)).expect("another device of one adapter")))
}

#[test]
fn a_lost_device_is_an_error_and_leaves_others_alone() {
    let (Some(lost), Some(other)) = (own_device(), device()) else { return };
    let buffer = lost.upload(&[1, 2, 3, 4]).expect("memory");
    lost.gpu().device.destroy();
    let mut out = [0; 4];
    assert!(lost.download(&buffer, 0, &mut out).is_err());
    assert!(matches!(lost.allocate(16), Err(Error::DeviceUnavailable { .. })));
    assert!(lost.upload(&[0; 10_000]).is_err());
    assert!(lost.sync().is_err());
    drop(buffer);
    let buffer = other.upload(&[5, 6, 7, 8]).expect("memory of another device");
    other.download(&buffer, 0, &mut out).expect("another device");
    assert_eq!(out, [5, 6, 7, 8]);
}

#[test]
fn the_budget_refuses_and_leaves_the_rest_usable() {
    let Some(backend) = own_device() else { return };
    backend.set_memory_limit(10_000);
    let held = backend.allocate(8_000).expect("within the budget");
    let refused = backend.allocate(4_000);
    assert!(
        matches!(refused, Err(Error::OutOfMemory { requested: 4_000, limit: 10_000, .. })),
        "{refused:?}"
    );
    drop(held);
    assert!(backend.allocate(4_000).is_ok());
    // What no driver gives is refused before it is asked.
    backend.set_memory_limit(u64::MAX);
    assert!(matches!(backend.allocate(1 << 45), Err(Error::OutOfMemory { .. })));
    assert_eq!(backend.memory().allocated, 0);
}

#[test]
fn a_shader_that_does_not_compile_is_an_error_with_its_text() {
    let Some(backend) = device() else { return };
    let text = "// whole\n\n\n\n\nfn main( {";
    let error = backend
        .gpu()
        .pipeline("broken", text, &[super::pipeline::Access::Write])
        .expect_err("no such syntax");
    let Error::Kernel { kernel, message, .. } = &error else { panic!("{error:?}") };
    assert_eq!(kernel, "broken");
    assert!(message.contains(text), "{message}");
    assert!(backend.upload(&[1; 64]).is_ok());
}

/// wgpu panics at such errors unless they are listened to.
#[test]
fn an_error_outside_any_call_comes_out_of_the_next() {
    let Some(backend) = own_device() else { return };
    let source = wgpu::ShaderSource::Wgsl("fn main( {".into());
    let _ = backend.gpu().device.create_shader_module(wgpu::ShaderModuleDescriptor { label: None, source });
    let error = backend.sync().expect_err("it was not told yet");
    assert!(error.to_string().contains("fn main( {"), "{error}");
    assert!(backend.sync().is_ok(), "it was told");
}

#[test]
fn bytes_are_copied_wherever_they_lie() {
    let Some(backend) = device() else { return };
    let data: Vec<u8> = (0..1000u32).map(|i| (i * 7) as u8).collect();
    let from = backend.upload(&data).expect("memory");
    for (start, at, count) in [(0, 0, 1000), (3, 0, 10), (5, 6, 301), (4, 1, 4), (1, 3, 1), (8, 12, 400)] {
        let to = backend.upload(&[9; 1000]).expect("memory");
        let bind = |buffer, offset| Binding { buffer, offset };
        backend.copy(bind(&from, start), bind(&to, at), count.min(1000 - start.max(at))).expect("a copy");
        let mut out = [0; 1000];
        backend.download(&to, 0, &mut out).expect("a download");
        let count = count.min(1000 - start.max(at));
        assert_eq!(out[at..at + count], data[start..start + count], "{start} {at} {count}");
        assert!(out[..at].iter().chain(&out[at + count..]).all(|&byte| byte == 9), "{start} {at} {count}");
    }
}

/// An element of three, gathered but not read.
fn gathered(context: &Arc<Context>, device: Device, index: i64) -> Result<Tensor, Error> {
    with_context(context, || {
        let x = Tensor::from_vec(vec![1f32, 2.0, 3.0], [3], device);
        let y = x.gather(0, &Tensor::from_vec(vec![index], [1], device));
        y.realize()?;
        Ok(y)
    })
}

#[test]
fn a_thread_hears_of_its_own_bad_indices_only() {
    let Some(backend) = device() else { return };
    let context = Context::new();
    let gather = |index| gathered(&context, backend.device(), index);
    // Launched, not read: nothing is known yet.
    let bad = gather(7).expect("a launch");
    std::thread::scope(|scope| {
        let other = scope.spawn(|| gather(2).and_then(|y| y.to_vec::<f32>()));
        assert_eq!(other.join().expect("no panic").expect("a good index"), [3.0]);
    });
    let error = with_context(&context, || bad.to_vec::<f32>());
    assert!(matches!(error, Err(Error::IndexOutOfRange { index: 7, extent: 3, .. })), "{error:?}");
}

/// WgpuReports are moved to the host while other threads record launches that may report.
#[test]
fn no_bad_index_is_lost_among_threads() {
    let Some(backend) = device() else { return };
    let context = Context::new();
    let gather = &|index| {
        let y = gathered(&context, backend.device(), index)?;
        with_context(&context, || y.to_vec::<f32>())
    };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for round in 0..300 {
                    let wanted = 10 + thread;
                    let found = gather(if round % 3 == 0 { wanted } else { round % 3 });
                    match (round % 3, found) {
                        (0, Err(Error::IndexOutOfRange { index, .. })) => assert_eq!(index, wanted),
                        (0, found) => panic!("round {round} of thread {thread}: {found:?}"),
                        (good, found) => assert_eq!(found.expect("a good index"), [1.0 + good as f32]),
                    }
                }
            });
        }
    });
}

/// A device that only one test uses, in a context of its own.
fn own_context(features: wgpu::Features) -> Option<Arc<Context>> {
    device()?;
    let gpu = WgpuGpu::open_with(Device::wgpu(0), features).expect("another device of one adapter");
    let context = Context::new();
    context.install(Arc::new(WgpuBackend::of(gpu)));
    Some(context)
}

/// Kibibytes on the adapter.
#[track_caller]
fn kib(count: usize) -> Tensor {
    let x = Tensor::from_vec(vec![1.0f32; count * 256], [count, 256], Device::wgpu(0));
    x.realize().expect("memory for a test");
    x
}

#[test]
fn a_type_that_the_adapter_lacks_is_an_error_that_names_it_and_what_to_use_instead() {
    let Some(context) = own_context(wgpu::Features::empty()) else { return };
    with_context(&context, || {
        let name = Device::wgpu(0).properties().unwrap().name;
        let x = kib(1);
        let Err(error) = (&x.to_dtype(DType::F64) * 2.0).realize() else { panic!("it has no such numbers") };
        let text = error.to_string();
        let all = [name.as_str(), "SHADER_F64", "f32", "cpu"].iter().all(|part| text.contains(part));
        assert!(all, "{text}");
        // 64-bit integers are pairs of words.
        let y = Tensor::from_vec(vec![i64::from(u32::MAX), 2], [2], Device::wgpu(0));
        assert_eq!((&y + 1).to_vec::<i64>().unwrap(), [1 << 32, 3]);
        // 16-bit floats are computed in 32 bits, and need no feature.
        let half = (x.to_dtype(DType::F16) * 3.0).to_dtype(DType::F32);
        assert_eq!(half.to_vec::<f32>().unwrap()[5], 3.0);
    });
}
