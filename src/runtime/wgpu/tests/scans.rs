//! Scans that a workgroup shares against the CPU's: rows shorter and longer than
//! a block, results and elements of every kind.

use std::sync::Arc;

use super::{is_software, taken_for_a_gpu};
use crate::base::{DType, Device};
use crate::plan::context::{Context, with_context};
use crate::runtime::Backend;
use crate::runtime::wgpu::WgpuBackend;
use crate::tensor::Tensor;

/// Small integers, so that sums are exact in any order.
fn small<const N: usize>(dims: [usize; N], device: Device) -> Tensor {
    let value = |i: usize| ((i * 7919 + i / 13 * 31) % 7) as f32 - 3.0;
    let x = Tensor::from_vec((0..dims.iter().product()).map(value).collect::<Vec<f32>>(), dims, device);
    x.realize().expect("a leaf");
    x
}

type Scanned = fn(Device) -> Tensor;

/// Rows long enough for a workgroup.
const SCANS: &[(&str, Scanned)] = &[
    ("by fours", |d| small([3, 1024], d).cumsum(-1)),
    ("odd", |d| small([3, 1601], d).cumsum(-1)),
    ("one row", |d| small([5003], d).cumsum(-1)),
    ("columns", |d| small([1030, 5], d).cumsum(0)),
    ("flipped", |d| small([3, 1024], d).flip(1).cumsum(-1).flip(1)),
    ("with what comes before and after", |d| {
        let x = small([3, 1027], d);
        ((&x * 2.0).cumsum(-1) + &x) * 0.5
    }),
    ("read where it is written", |d| small([2, 2048], d).cumsum(-1) + small([2048], d)),
    ("gathered", |d| {
        let places = Tensor::arange(0, 1100, 1, d).flip(0);
        small([2, 1100], d).index_select(1, &places).cumsum(-1)
    }),
    ("largest", |d| (small([3, 1100], d) * Tensor::arange(0, 1100, 1, d)).cummax(-1).0),
    ("products", |d| (small([3, 1100], d).sign() + 0.5).clamp(-1.5, 1.0).cumprod(-1)),
    ("exponentials", |d| small([3, 1100], d).logcumsumexp(-1)),
    ("integers", |d| small([3, 1100], d).to_dtype(DType::I32).cumsum(-1).to_dtype(DType::F32)),
    ("long integers", |d| small([3, 1100], d).to_dtype(DType::I64).cumsum(-1).to_dtype(DType::F32)),
    ("halves", |d| small([3, 1100], d).to_dtype(DType::F16).cumsum(-1).to_dtype(DType::F32)),
    ("bytes", |d| {
        let bytes = (small([3, 1100], d) + 3.0).to_dtype(DType::U8);
        bytes.cumsum(-1).to_dtype(DType::F32)
    }),
];

/// Checks scans on an adapter; gives those that the template did not compute.
fn agree(backend: Option<WgpuBackend>, scans: &[(&'static str, Scanned)]) -> Vec<&'static str> {
    let Some(backend) = backend else { return Vec::new() };
    // GPUs may make zeros of subnormal numbers, and wgpu cannot ask them not to.
    let keeps_subnormal = is_software(&backend);
    let (name, context) = (backend.device(), Context::new());
    context.install(Arc::new(backend));
    let mut others = Vec::new();
    for (title, scanned) in scans {
        let want = scanned(Device::cpu()).to_vec::<f32>().expect("the CPU's results");
        let (have, text) = with_context(&context, || {
            let y = scanned(name);
            let report = y.plan().expect("a plan");
            let text: String = report.kernels.iter().map(|kernel| kernel.source().expect("a text")).collect();
            (y.to_vec::<f32>().expect("the adapter's results"), text)
        });
        others.extend((!text.contains("alias Result")).then_some(*title));
        let near = |a: f32, b: f32| {
            a == b || (a - b).abs() <= 1e-5 * a.abs() || (a.is_subnormal() && b == 0.0 && !keeps_subnormal)
        };
        let wrong = want.iter().zip(&have).position(|(a, b)| !near(*a, *b));
        assert_eq!(wrong.map(|at| (at, want[at], have[at])), None, "{title}\n{text}");
    }
    others
}

#[test]
fn scans_agree_with_the_cpu() {
    assert_eq!(agree(taken_for_a_gpu(), SCANS), [""; 0]);
}

#[test]
fn a_row_in_parts_agrees_with_the_cpu() {
    const LONG: &[(&str, Scanned)] = &[("long", |d| (small([70_001], d) * 2.0).cumsum(0) + 1.0)];
    assert_eq!(agree(taken_for_a_gpu(), LONG), [""; 0]);
}

#[test]
fn a_third_length_compiles_nothing() {
    let Some(backend) = taken_for_a_gpu() else { return };
    let (name, context) = (backend.device(), Context::new());
    context.install(Arc::new(backend));
    with_context(&context, || {
        let scan = |n: usize| {
            small([3, n], name).cumsum(-1).realize().expect("sums");
        };
        [2000, 3000].into_iter().for_each(scan);
        let before = context.counters().kernels_compiled;
        scan(5000);
        assert_eq!(context.counters().kernels_compiled, before);
    });
}
