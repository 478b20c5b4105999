//! Products by templates against the CPU's, on small integers, so that every
//! order of summing gives the same.

use std::sync::Arc;

use super::{device, eager, in_registers, taken_for_a_gpu, timing_tiles};
use crate::base::{DType, Device};
use crate::plan::context::{Context, with_context};
use crate::render::Adapter;
use crate::runtime::Backend;
use crate::runtime::wgpu::WgpuBackend;
use crate::tensor::Tensor;
use crate::tensor::conv::ConvOpts;

/// A tensor of integers from -2 to 2.
pub fn small<const N: usize>(dims: [usize; N], seed: usize, device: Device) -> Tensor {
    let count = dims.iter().product();
    let value = |i: usize| ((i * 7 + i / 11 * 3 + seed) % 5) as f32 - 2.0;
    let x = Tensor::from_vec((0..count).map(value).collect::<Vec<f32>>(), dims, device);
    x.realize().expect("a leaf");
    x
}

pub type Product = fn(Device) -> Tensor;

/// Products whose extents are no multiples of any tile's, operands in any
/// order, of several types, with something before and after the sum.
pub const PRODUCTS: &[(&str, Product)] = &[
    ("odd", |d| small([37, 29], 1, d).matmul(&small([29, 45], 2, d))),
    ("even", |d| small([64, 48], 1, d).matmul(&small([48, 96], 2, d))),
    ("large", |d| small([300, 130], 1, d).matmul(&small([130, 260], 2, d))),
    ("second turned", |d| small([70, 36], 1, d).matmul(&small([33, 36], 2, d).t())),
    ("first turned", |d| small([36, 70], 1, d).t().matmul(&small([36, 52], 2, d))),
    ("batched", |d| small([3, 33, 20], 1, d).matmul(&small([3, 20, 65], 2, d))),
    ("one row", |d| small([1, 100], 1, d).matmul(&small([100, 300], 2, d))),
    ("one column", |d| small([300, 100], 1, d).matmul(&small([100, 1], 2, d))),
    ("result turned", |d| small([40, 30], 1, d).matmul(&small([30, 50], 2, d)).t() + small([50, 40], 3, d)),
    ("bias and relu", |d| (small([33, 18], 1, d).matmul(&small([18, 41], 2, d)) + small([41], 3, d)).relu()),
    ("masked", |d| small([48, 48], 1, d).tril(0).matmul(&small([48, 40], 2, d))),
    ("view of a leaf", |d| small([41, 31], 1, d).i((1..38, 3..27)).matmul(&small([24, 44], 2, d))),
    ("halves", |d| {
        let half = |x: Tensor| x.to_dtype(DType::F16);
        half(small([34, 24], 1, d)).matmul(&half(small([24, 36], 2, d))).to_dtype(DType::F32)
    }),
    ("brain floats", |d| {
        let half = |x: Tensor| x.to_dtype(DType::BF16);
        half(small([34, 21], 1, d)).matmul(&half(small([21, 35], 2, d))).to_dtype(DType::F32)
    }),
    ("integers", |d| {
        let whole = |x: Tensor| x.to_dtype(DType::I32);
        whole(small([34, 21], 1, d)).matmul(&whole(small([21, 35], 2, d))).to_dtype(DType::F32)
    }),
    ("convolution", |d| {
        let opts = ConvOpts::default().padding(1).stride(2);
        small([2, 5, 17, 19], 1, d).conv2d(&small([7, 5, 3, 3], 2, d), Some(&small([7], 3, d)), opts)
    }),
    ("convolution of fours", |d| {
        let opts = ConvOpts::default().padding(1);
        small([2, 8, 12, 12], 1, d).conv2d(&small([16, 8, 3, 3], 2, d), None, opts)
    }),
    // Infinity, minus infinity and infinity are no number, though 1 - 1 + 1 times infinity is one.
    ("infinite", |d| {
        let ones = Tensor::from_vec(vec![1f32, -1.0, 1.0], [1, 3], d).expand([16, 3]);
        let infinite = Tensor::from_vec(vec![f32::INFINITY; 64], [1, 64], d);
        (ones + small([16, 1], 1, d) * 0.0).matmul(&infinite.expand([3, 64]))
    }),
    // More iterations than lavapipe carries out, were inner loops counted.
    ("deep", |d| small([8, 40_000], 1, d).matmul(&small([40_000, 32], 2, d))),
];

/// Holds products on a device against the CPU's; its kernels' texts hold `template`.
pub fn agree(backend: Option<WgpuBackend>, products: &[(&str, Product)], template: &str) {
    let Some(backend) = backend else { return };
    let (name, context) = (backend.device(), Context::new());
    context.install(Arc::new(backend));
    for (title, product) in products {
        let want = product(Device::cpu()).to_vec::<f32>().expect("the CPU's product");
        with_context(&context, || {
            let have = product(name);
            let report = have.plan().expect("a plan");
            let source: String =
                report.kernels.iter().map(|kernel| kernel.source().expect("a text")).collect();
            assert!(source.contains(template), "{title}:\n{source}");
            let have = have.to_vec::<f32>().expect("the adapter's product");
            let wrong = want
                .iter()
                .zip(&have)
                .position(|(want, have)| want != have && !(want.is_nan() && have.is_nan()));
            assert_eq!(wrong.map(|at| (at, want[at], have[at])), None, "{title}:\n{source}");
        });
    }
}

#[test]
fn products_in_registers_agree_with_the_cpu() {
    let backend = eager();
    let template = in_registers(backend.as_ref());
    agree(backend, PRODUCTS, template);
}

#[test]
fn products_in_shared_memory_agree_with_the_cpu() {
    agree(taken_for_a_gpu(), PRODUCTS, "var<workgroup> a_part");
}

#[test]
fn products_with_the_tile_found_fastest_agree_with_the_cpu() {
    let backend = timing_tiles();
    let template = in_registers(backend.as_ref());
    agree(backend, &PRODUCTS[2..10], template);
}

/// Pipelines compiled after each of some calls on an adapter.
fn compiled(backend: WgpuBackend, calls: &[&dyn Fn(Device) -> Tensor]) -> Vec<u64> {
    let (name, context) = (backend.device(), Context::new());
    context.install(Arc::new(backend));
    with_context(&context, || {
        let count = |call: &&dyn Fn(Device) -> Tensor| {
            call(name).realize().expect("a result");
            context.counters().kernels_compiled
        };
        calls.iter().map(count).collect()
    })
}

#[test]
fn products_that_differ_in_sizes_only_share_a_pipeline_from_the_first_on() {
    let Some(backend) = device() else { return };
    if backend.gpu.target.subgroup < 4 || backend.gpu.target.adapter != Adapter::Software {
        return;
    }
    let product = |m: usize, k: usize, n: usize| {
        move |d: Device| (small([m, k], 1, d).matmul(&small([k, n], 2, d)) + small([n], 3, d)).relu()
    };
    // Extents that are equal in the first only do not count as one.
    let calls = [product(512, 512, 512), product(256, 784, 512), product(192, 256, 640)];
    let calls: Vec<&dyn Fn(Device) -> Tensor> = calls.iter().map(|call| call as _).collect();
    assert_eq!(compiled(backend, &calls), [1, 1, 1]);
}
