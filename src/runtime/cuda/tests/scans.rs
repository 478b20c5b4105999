//! Scans and sorts by templates on a device against the CPU's. On the simulated device
//! each launch runs in several orders of threads, and bugs planted in the templates are
//! found.

use std::process::Command;
use std::sync::Arc;

use super::device;
use crate::base::{DType, Device};
use crate::plan::context::{Context, with_context};
use crate::runtime::cuda::program::CudaProgram;
use crate::runtime::{Backend, Binding, Bindings, IndexStatus, Program};
use crate::tensor::Tensor;
use crate::tensor::sort::TopkOpts;

/// Integers from -2 to 2, or fractions of them.
fn numbers<const N: usize>(dims: [usize; N], unit: f32, dtype: DType, device: Device) -> Tensor {
    let count: usize = dims.iter().product();
    let value = |i: usize| (((i * 7 + i / 11 * 3) % 5) as f32 - 2.0) * unit;
    let x = Tensor::from_vec((0..count).map(value).collect::<Vec<f32>>(), dims, device).to_dtype(dtype);
    x.realize().expect("a leaf");
    x
}

fn floats<const N: usize>(dims: [usize; N], device: Device) -> Tensor {
    numbers(dims, 1.0, DType::F32, device)
}

/// Scans of rows long enough for the template.
pub const SCANS: &[(&str, fn(Device) -> Tensor)] = &[
    ("one warp", |d| floats([3, 257], d).cumsum(-1)),
    ("several warps", |d| floats([2, 2052], d).cumsum(-1)),
    ("a ragged end", |d| floats([2, 5001], d).cumsum(-1)),
    ("columns", |d| floats([1500, 3], d).cumsum(0)),
    ("computed before and after", |d| {
        let x = floats([2, 1600], d);
        (&x * 2.0 + 1.0).cumsum(-1).relu() + x
    }),
    ("64-bit integers", |d| numbers([2, 1601], 1.0, DType::I64, d).cumsum(-1)),
    ("64-bit floats", |d| numbers([2, 1601], 1.0, DType::F64, d).cumsum(-1)),
    ("16-bit floats", |d| numbers([2, 1032], 0.25, DType::F16, d).to_dtype(DType::F32).cumsum(-1)),
    ("products", |d| ((floats([2, 1200], d) * 0.5 + 0.25).abs() + 0.375).cumprod(-1)),
    ("maxima", |d| (floats([2, 1500], d) * 3.7).sin().cummax(-1).0),
    ("minima of integers", |d| numbers([2, 1500], 100.0, DType::I32, d).cummin(-1).0),
    ("logarithms of sums of powers", |d| floats([2, 1100], d).logcumsumexp(-1)),
];

/// The device with a context of its own.
fn there() -> Option<(Device, Arc<Context>)> {
    let backend = device()?;
    let (name, context) = (backend.device(), Context::new());
    context.install(Arc::new(backend));
    Some((name, context))
}

#[test]
fn scans_by_the_template_agree_with_the_cpu() {
    let Some((name, context)) = there() else { return };
    for (title, scan) in SCANS {
        let values = |device| scan(device).to_dtype(DType::F64).to_vec::<f64>().expect(title);
        let want = values(Device::cpu());
        with_context(&context, || {
            let report = scan(name).plan().expect("a plan");
            let text: String = report.kernels.iter().map(|kernel| kernel.source().expect("a text")).collect();
            assert!(text.contains("scan(Scan{"), "{title}:\n{text}");
            let have = values(name);
            let differs = |(want, have): (&f64, &f64)| !((want - have).abs() <= 1e-5 * want.abs().max(1.0));
            let wrong = want.iter().zip(&have).position(differs);
            assert_eq!(wrong.map(|at| (at, want[at], have[at])), None, "{title}:\n{text}");
        });
    }
}

#[test]
fn sorts_by_the_template_agree_with_the_cpu() {
    let Some((name, context)) = there() else { return };
    let lengths = [1, 2, 33, 64, 1000, 1025, 5000, 9000];
    for (number, length) in lengths.into_iter().enumerate() {
        for (other, dtype) in [DType::F32, DType::I64, DType::U8, DType::BF16].into_iter().enumerate() {
            let descending = (number + other) % 2 == 0;
            let along = |device| numbers([3, length], 0.5, dtype, device).argsort(-1, descending);
            let across = |device| numbers([length, 2], 0.5, dtype, device).argsort(0, descending);
            let first = |device, count| {
                let opts = TopkOpts::default().axis(0).largest(descending);
                numbers([length, 2], 0.5, dtype, device).topk(count, opts).1
            };
            let values = |x: Tensor| x.to_vec::<i64>().expect("places");
            // A third of them, and so few that stretches keep no more, once and again.
            let counts = [length / 3, length.min(3), length.min(100)];
            let few = |device| counts.map(|count| values(first(device, count)));
            let all = |device| ([along(device), across(device)].map(values), few(device));
            let have = with_context(&context, || all(name));
            assert!(all(Device::cpu()) == have, "{dtype} by {length}");
        }
    }
}

/// What the environment names for a process of these tests: a bug, or nothing.
const VARIABLE: &str = "KILN_PLANTED_SCAN";

/// Title, what stands in a template, and what takes its place.
const BUGS: &[(&str, &str, &str)] = &[
    (
        "totals read before they are there",
        "totals[warp] = state;\n        __syncthreads();",
        "totals[warp] = state;",
    ),
    ("totals written while they are read", "        }\n        __syncthreads();\n    }", "        }\n    }"),
    ("a lane too far", "(lane - reach) % 32", "(lane - reach - 1) % 32"),
    ("the first neighbour twice", "if (lane > 0) first", "first"),
    ("one warp forgotten", "if (i < warp)", "if (i + 1 < warp)"),
    (
        "a stage without a barrier",
        "            __syncthreads();\n            for (i32 pair",
        "            for (i32 pair",
    ),
    ("a stretch stored early", "        }\n    }\n    __syncthreads();\n}", "        }\n    }\n}"),
    (
        "half the distance",
        "lower(pair, distance);\n                exchange",
        "lower(pair, distance) / 2;\n                exchange",
    ),
    ("the last entry of a line", "position < COUNT) own.store", "position < COUNT - 1) own.store"),
    ("entries left where others read", "launch % 2 == 0 ? BEHIND : 0", "0"),
    ("entries too few kept", "at < SELECTED)", "at < SELECTED / 8)"),
    ("a run too few", "runs - 1, sorted", "runs - 2, sorted"),
];

/// Two lines of integers, few of which are equal.
fn varied(device: Device) -> Tensor {
    let values: Vec<f32> = (0..2 * 5001).map(|i| (i * 7919 % 1009) as f32 - 504.0).collect();
    let x = Tensor::from_vec(values, [2, 5001], device);
    x.realize().expect("a leaf");
    x
}

/// Runs a scan and a sort with the bug that the environment names.
#[test]
fn the_templates_agree_with_the_cpu() {
    let Ok(wanted) = std::env::var(VARIABLE) else { return };
    let bug = BUGS.iter().find(|(title, ..)| *title == wanted);
    let build = |d: Device| {
        let x = varied(d);
        let few = x.topk(8, TopkOpts::default().largest(false)).1;
        [x.cumsum(-1).to_dtype(DType::F32), x.argsort(-1, false), few]
    };
    let Some((name, context)) = there() else { return };
    let works =
        with_context(&context, || build(name).map(|y| y.plan().expect("a plan").kernels[0].work().clone()));
    let want = build(Device::cpu());
    let want = want.map(|y| y.to_dtype(DType::I64).to_vec::<i64>().expect("values"));
    let rewrite = |source: &str| bug.map_or(source.into(), |(_, from, to)| source.replace(from, to));
    let mut planted = 0;
    for (number, (work, want)) in works.into_iter().zip(&want).enumerate() {
        let backend = device().expect("it was there");
        let (gpu, reports, target) = (backend.gpu.clone(), backend.reports.clone(), backend.target.clone());
        let sound = CudaProgram::new(gpu.clone(), reports.clone(), work.clone(), target.clone());
        let sound = sound.expect("a text").source();
        planted += usize::from(rewrite(&sound) != sound);
        let program =
            CudaProgram::with_text(gpu, reports, work, target, rewrite).expect("a text that compiles");
        let values: Vec<f32> = varied(Device::cpu()).to_vec().expect("values");
        let input = backend.upload(bytemuck::cast_slice(&values)).expect("memory");
        let bytes = want.len() * if number == 0 { 4 } else { 8 };
        let output = backend.upload(&vec![0; bytes]).expect("memory");
        let bind = |buffer| Binding { buffer, offset: 0 };
        let status = IndexStatus::default();
        let (inputs, outputs) = ([bind(&input)], [bind(&output)]);
        let bindings = Bindings { inputs: &inputs, outputs: &outputs, scalars: &[], status: &status };
        program.launch(&bindings).expect("a launch");
        let mut out = vec![0; bytes];
        backend.download(&output, 0, &mut out).expect("a download");
        let have: Vec<i64> = match number {
            0 => out.chunks_exact(4).map(|x| f32::from_ne_bytes(x.try_into().expect("4")) as i64).collect(),
            _ => out.chunks_exact(8).map(|x| i64::from_ne_bytes(x.try_into().expect("8"))).collect(),
        };
        assert!(*want == have, "another result");
    }
    assert_eq!(planted > 0, bug.is_some(), "a bug is in a template");
}

#[test]
fn planted_bugs_of_scans_and_sorts_are_found() {
    let Some(backend) = device() else { return };
    if !backend.describe().contains("simulated") {
        return println!("skipped: a GPU need not notice");
    }
    let verdict = |bug: &str| {
        let mut run = Command::new(std::env::current_exe().expect("this program"));
        run.args(["--exact", "runtime::cuda::tests::scans::the_templates_agree_with_the_cpu", "--nocapture"]);
        let run = run.env(VARIABLE, bug).output().expect("this program");
        let text = String::from_utf8_lossy(&run.stdout) + String::from_utf8_lossy(&run.stderr);
        assert!(text.contains("running 1 test"), "{text}");
        (run.status.success(), text.into_owned())
    };
    let (passes, text) = verdict("nothing");
    assert!(passes, "{text}");
    for (title, ..) in BUGS {
        let (passes, text) = verdict(title);
        assert!(!passes, "{title} goes unnoticed");
        let found = ["simulated device:", "another result"];
        assert!(found.iter().any(|reason| text.contains(reason)), "{title}: {text}");
    }
}
