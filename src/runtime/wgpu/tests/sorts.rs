//! Sorting permutations against the CPU's: lines shorter and longer than what a
//! workgroup sorts by itself, along any axis, of every type.

use std::sync::Arc;

use super::{device, taken_for_a_gpu};
use crate::base::{DType, Device};
use crate::plan::context::{Context, with_context};
use crate::runtime::Backend;
use crate::runtime::wgpu::WgpuBackend;
use crate::tensor::Tensor;
use crate::tensor::sort::TopkOpts;

/// Numbers with many ties.
fn ties<const N: usize>(dims: [usize; N], device: Device) -> Tensor {
    let value = |i: usize| ((i * 7919 + i / 13 * 31) % 97) as f32 - 48.0;
    let numbers: Vec<f32> = (0..dims.iter().product()).map(value).collect();
    Tensor::from_vec(numbers, dims, device)
}

type Sorted = fn(Device) -> Tensor;

const SORTS: &[(&str, Sorted)] = &[
    ("one element", |d| ties([1], d).argsort(0, false)),
    ("two lines of one", |d| ties([2, 1], d).argsort(1, false)),
    ("short lines", |d| ties([33, 5], d).argsort(1, false)),
    ("a block", |d| ties([2, 1024], d).argsort(1, true)),
    ("a little more than a block", |d| ties([3, 1025], d).argsort(1, false)),
    ("many blocks", |d| ties([2, 5000], d).argsort(1, true)),
    ("columns", |d| ties([700, 3], d).argsort(0, false)),
    ("the middle", |d| ties([2, 300, 5], d).argsort(1, true)),
    ("the first few", |d| ties([3, 1025], d).topk(100, TopkOpts::default()).1),
    ("the first rows", |d| ties([300, 5], d).topk(299, TopkOpts::default().axis(0).largest(false)).1),
    ("unaligned", |d| ties([1001], d).narrow(0, 3, 900).argsort(0, false)),
];

fn agree(backend: Option<WgpuBackend>, sorts: &[(&str, Sorted)]) {
    let Some(backend) = backend else { return };
    let (name, context) = (backend.device(), Context::new());
    context.install(Arc::new(backend));
    for (title, sorted) in sorts {
        let want = sorted(Device::cpu()).to_vec::<i64>().expect("the CPU's order");
        let have = with_context(&context, || sorted(name).to_vec::<i64>().expect("the adapter's order"));
        assert_eq!(have, want, "{title}");
    }
}

#[test]
fn sorts_agree_with_the_cpu() {
    agree(device(), SORTS);
}

#[test]
fn sorts_as_gpus_make_them_agree_with_the_cpu() {
    agree(taken_for_a_gpu(), SORTS);
}

#[test]
fn sorts_of_every_type_agree_with_the_cpu() {
    const TYPES: &[(&str, Sorted)] = &[
        ("bool", |d| ties([2, 300], d).gt(0.0).argsort(1, false)),
        ("u8", |d| ties([2, 300], d).to_dtype(DType::U8).argsort(1, true)),
        ("i32", |d| ties([2, 300], d).to_dtype(DType::I32).argsort(1, false)),
        ("i64", |d| (ties([2, 300], d).to_dtype(DType::I64) * (1i64 << 33)).argsort(1, true)),
        ("f16", |d| ties([2, 300], d).to_dtype(DType::F16).argsort(1, false)),
        ("f64", |d| (ties([2, 300], d).to_dtype(DType::F64) / 3.0).argsort(1, true)),
        ("no numbers", |d| ties([2, 300], d).sqrt().argsort(1, true)),
        ("zeros of both signs", |d| (ties([300], d) * 0.0).argsort(0, true)),
    ];
    agree(device(), TYPES);
}

/// One text serves lines of many lengths.
#[test]
fn a_third_length_compiles_nothing() {
    let Some(backend) = device() else { return };
    let (name, context) = (backend.device(), Context::new());
    context.install(Arc::new(backend));
    with_context(&context, || {
        let sort = |n: usize| {
            ties([3, n], name).argsort(1, false).realize().expect("an order");
        };
        [300, 1500].into_iter().for_each(sort);
        let before = context.counters().kernels_compiled;
        sort(3000);
        assert_eq!(context.counters().kernels_compiled, before);
    });
}
