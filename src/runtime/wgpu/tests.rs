//! Random kernels on an adapter against the point-by-point reference.

use proptest::prelude::*;

use crate::base::{DType, Device, Error, Scalar};
use crate::ir::Buffer;
use crate::kernel::{Kernel, Work};
use crate::runtime::cpu::tests::random::Case;
use crate::runtime::cpu::tests::{By, Outcome, buffer, close, elements, run};
use crate::runtime::wgpu::WgpuBackend;
use crate::runtime::{Backend, Binding, Bindings, IndexStatus, host};

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

/// What a kernel leaves on the adapter; `None` if it lacks a type.
fn run_there(
    backend: &WgpuBackend,
    kernel: &Kernel,
    inputs: &[Buffer],
    overwritten: Option<u32>,
) -> Option<Outcome> {
    let program = match backend.compile(&Work::Kernel(kernel.clone())) {
        Ok(program) => program,
        Err(Error::Kernel { message, .. }) if message.contains("needs the feature") => return None,
        Err(error) => panic!("{error}\n{}", crate::kernel::print::text(kernel)),
    };
    let outs: Vec<(usize, DType)> = match &kernel.scatter {
        Some(scatter) => vec![(scatter.numel, scatter.dtype)],
        None => kernel.stores.iter().map(|store| (store.numel, store.dtype)).collect(),
    };
    let start = |dtype: DType, i: usize| {
        Scalar::Int(if kernel.scatter.is_some() { i as i64 % 3 } else { 77 }).cast(dtype)
    };
    let upload = |bytes: &[u8]| backend.upload(bytes).expect("memory for a test");
    let there: Vec<Buffer> = inputs.iter().map(|input| upload(host::bytes(input))).collect();
    let outputs: Vec<Buffer> = (outs.iter())
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
    let read = |(buffer, (_, dtype)): (&Buffer, &(usize, DType))| {
        let mut bytes = vec![0; buffer.bytes];
        backend.download(buffer, 0, &mut bytes).expect("a download");
        elements(&bytes, *dtype)
    };
    Some(Outcome { outputs: outputs.iter().zip(&outs).map(read).collect(), bad_index })
}

/// The first difference between the reference and the adapter.
fn difference(backend: &WgpuBackend, case: &Case) -> Option<String> {
    let inputs: Vec<Buffer> = case.data.iter().map(|(dtype, values)| buffer(values, *dtype)).collect();
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

fn check(case: &Case) -> Result<(), TestCaseError> {
    if case.kernel.stores.is_empty() && case.kernel.scatter.is_none() {
        return Ok(());
    }
    let Some(backend) = device() else { return Ok(()) };
    match difference(&backend, case) {
        None => Ok(()),
        Some(difference) => {
            let program = backend.compile(&Work::Kernel(case.kernel.clone())).expect("it was compiled");
            let text = crate::kernel::print::text(&case.kernel);
            Err(TestCaseError::fail(format!("{difference}\n{text}\n{}", program.source())))
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
        max_shrink_iters: 300,
        ..ProptestConfig::default()
    })]

    #[test]
    fn rows_agree_with_the_reference(numbers in numbers()) {
        check(&Case::rows(numbers))?;
    }

    #[test]
    fn scatters_agree_with_the_reference(numbers in numbers()) {
        check(&Case::scatter(numbers))?;
    }

    #[test]
    fn contractions_agree_with_the_reference(numbers in numbers()) {
        check(&Case::contraction(numbers))?;
    }
}
