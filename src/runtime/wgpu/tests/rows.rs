//! Reductions by teams, and rows that stay in registers, as GPUs and software drivers run them.

use std::sync::Arc;

use super::{device, eager, is_software, taken_for_a_gpu};
use crate::base::{DType, Device};
use crate::plan::context::{Context, with_context};
use crate::render::target::Adapter;
use crate::runtime::Backend;
use crate::tensor::Tensor;
use crate::tensor::norm::NormOpts;

fn waves<const N: usize>(dims: [usize; N], device: Device) -> Tensor {
    let count: usize = dims.iter().product();
    let x = Tensor::from_vec((0..count).map(|i| (i as f32 * 0.37).sin() * 3.0).collect(), dims, device);
    x.realize().expect("a leaf");
    x
}

/// What is computed, loads of the input in the kernel's text, and whether
/// subgroups exchange states.
type Rows = (&'static str, fn(Device) -> Tensor, usize, bool);

const ROWS: &[Rows] = &[
    ("softmax of short rows", |d| waves([40, 48], d).softmax(-1), 1, false),
    ("softmax", |d| waves([5, 2048], d).softmax(-1), 1, true),
    ("softmax of rows that teams do not divide", |d| waves([5, 1000], d).softmax(-1), 1, true),
    ("softmax of odd rows", |d| waves([5, 1023], d).softmax(-1), 1, true),
    // More than registers hold.
    ("softmax of doubles", |d| waves([5, 12_000], d).to_dtype(DType::F64).softmax(-1), 3, false),
    ("layer norm", |d| waves([7, 512], d).layer_norm([512], NormOpts::default()), 1, true),
    ("largest", |d| waves([7, 512], d).max(-1), 1, true),
    ("place of the largest", |d| waves([7, 512], d).argmax(-1).to_dtype(DType::F32), 1, true),
    ("log of a sum of exponentials", |d| waves([7, 512], d).logsumexp(-1), 1, true),
    ("variance", |d| waves([7, 512], d).var(-1), 1, true),
    // Values of 64 bits are not exchanged.
    ("sum of doubles", |d| waves([7, 512], d).to_dtype(DType::F64).sum(-1), 1, false),
];

#[test]
fn teams_exchange_states_and_rows_are_read_once() {
    let Some(backend) = taken_for_a_gpu() else { return };
    let (name, context) = (backend.device(), Context::new());
    context.install(Arc::new(backend));
    for &(title, rows, loads, exchanged) in ROWS {
        let widest = |x: Tensor| x.to_dtype(DType::F64).to_vec::<f64>().expect("values");
        let want = widest(rows(Device::cpu()));
        with_context(&context, || {
            let have = rows(name);
            let report = have.plan().expect("a plan");
            assert_eq!(report.kernels.len(), 1, "{title}");
            let source = report.kernels[0].source().expect("a text");
            let (_, main) = source.split_once("fn main(").expect("an entry point");
            assert_eq!(main.matches("in0(").count(), loads, "{title}:\n{source}");
            assert_eq!(main.contains("subgroupShuffleDown"), exchanged, "{title}:\n{source}");
            let have = widest(have);
            let wrong = want
                .iter()
                .zip(&have)
                .position(|(want, have)| !((want - have).abs() <= 1e-5 * want.abs().max(1.0)));
            assert_eq!(wrong.map(|at| (at, want[at], have[at])), None, "{title}:\n{source}");
        });
    }
}

/// What is computed, and how many invocations of a software driver hold a row together, if
/// they do.
type Held = (&'static str, fn(Device) -> Tensor, Option<usize>);

const HELD: &[Held] = &[
    ("softmax", |d| waves([6, 1024], d).softmax(-1), Some(32)),
    ("softmax of rows that turns do not divide", |d| waves([6, 1000], d).softmax(-1), Some(32)),
    ("softmax of rows in three turns", |d| waves([6, 768], d).softmax(-1), Some(32)),
    ("softmax of rows read by fours", |d| waves([6, 300], d).softmax(-1), Some(32)),
    ("softmax that is quickly compiled", |d| waves([6, 128], d).softmax(-1), Some(8)),
    ("softmax of sixteen turns by four subgroups", |d| waves([3, 4096], d).softmax(-1), Some(32)),
    ("softmax of rows too long to hold", |d| waves([3, 5000], d).softmax(-1), None),
    ("softmax of rows too short to share", |d| waves([3, 40], d).softmax(-1), None),
    ("softmax of odd rows", |d| waves([6, 1023], d).softmax(-1), None),
    (
        "softmax that starts at a four",
        |d| waves([6148], d).narrow(0, 4, 6144).reshape([6, 1024]).softmax(-1),
        Some(32),
    ),
    (
        "softmax that starts anywhere",
        |d| waves([6147], d).narrow(0, 3, 6144).reshape([6, 1024]).softmax(-1),
        Some(32),
    ),
    ("layer norm", |d| waves([7, 512], d).layer_norm([512], NormOpts::default()), Some(8)),
    (
        "distances from the largest",
        |d| {
            let x = waves([6, 4, 256], d);
            &x - x.amax_keepdim([1, 2])
        },
        Some(8),
    ),
    (
        "integers",
        |d| {
            let x = (waves([6, 512], d) * 10.0).to_dtype(DType::I32);
            (&x - x.amax_keepdim([1])).to_dtype(DType::F32)
        },
        Some(16),
    ),
    ("a sum alone", |d| waves([64, 512], d).sum(-1), None),
];

#[test]
fn subgroups_of_software_drivers_hold_rows() {
    let Some(backend) = eager() else { return };
    if backend.gpu.target.subgroup < 4 {
        return;
    }
    let is_software = is_software(&backend);
    let (name, context) = (backend.device(), Context::new());
    context.install(Arc::new(backend));
    for &(title, rows, invocations) in HELD {
        let want = rows(Device::cpu()).to_vec::<f32>().expect("values");
        with_context(&context, || {
            let have = rows(name);
            let report = have.plan().expect("a plan");
            assert!(!is_software || report.kernels.len() == 1, "{title}");
            let source = report.kernels[0].source().expect("a text");
            let holds = source.contains("cached_");
            let size = source.split_once("workgroup_size(").and_then(|(_, rest)| rest.split_once(')'));
            let size = size.and_then(|(size, _)| size.parse().ok()).filter(|_| holds);
            // Elsewhere another table says how many share a row: the numbers are the same.
            assert!(!is_software || size == invocations, "{title}: {size:?}\n{source}");
            let have = have.to_vec::<f32>().expect("values");
            let close = |(want, have): (&f32, &f32)| (want - have).abs() <= 1e-5 * want.abs().max(1.0);
            let wrong = want.iter().zip(&have).position(|pair| !close(pair));
            assert_eq!(wrong.map(|at| (at, want[at], have[at])), None, "{title}:\n{source}");
        });
    }
}

#[test]
fn software_drivers_unroll_no_loop() {
    let Some(backend) = device() else { return };
    if backend.gpu.target.adapter != Adapter::Software {
        return;
    }
    let loops: [fn(Device) -> Tensor; 4] = [
        |d| waves([16, 65_536], d).sum(0),
        |d| waves([65_536, 16], d).sum(1),
        |d| waves([10, 6], d).sum(0),
        |d| waves([256, 10], d).matmul(&waves([10, 512], d)),
    ];
    let (name, context) = (backend.device(), Context::new());
    context.install(Arc::new(backend));
    with_context(&context, || {
        for call in loops {
            let result = call(name);
            let report = result.plan().expect("a plan");
            let source = report.kernels.last().expect("a kernel").source().expect("a text");
            let heads: Vec<&str> = source.lines().filter(|line| line.contains("for (var")).collect();
            assert!(!heads.is_empty(), "{source}");
            assert!(heads.iter().all(|head| head.contains(" * one;")), "{heads:?}");
        }
    });
}
