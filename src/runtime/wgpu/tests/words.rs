//! 64-bit integers as pairs of words, on an adapter taken for one without others: as in a page.

use std::sync::{Arc, LazyLock};

use super::{as_a_gpu, device};
use crate::base::{DType, Device};
use crate::plan::context::{Context, with_context};
use crate::runtime::Backend;
use crate::runtime::wgpu::WgpuBackend;
use crate::runtime::wgpu::gpu::WgpuGpu;
use crate::tensor::Tensor;

/// The adapter without 64-bit numbers.
pub fn without_int64() -> Option<WgpuBackend> {
    static GPU: LazyLock<Option<Arc<WgpuGpu>>> = LazyLock::new(|| {
        device()?;
        let mut gpu = WgpuGpu::open(Device::wgpu(0)).expect("a second device of one adapter");
        limit(Arc::get_mut(&mut gpu).expect("the only handle"));
        Some(gpu)
    });
    GPU.clone().map(WgpuBackend::of)
}

/// The same, taken for a GPU.
pub fn gpu_without_int64() -> Option<WgpuBackend> {
    static GPU: LazyLock<Option<Arc<WgpuGpu>>> = LazyLock::new(|| as_a_gpu(limit));
    GPU.clone().map(WgpuBackend::of)
}

fn limit(gpu: &mut WgpuGpu) {
    (gpu.target.int64, gpu.target.float64) = (false, false);
}

/// Numbers around every carry, sign and power of two.
fn numbers() -> Vec<i64> {
    let powers =
        [0, 1, 7, 15, 16, 23, 24, 25, 31, 32, 33, 40, 53, 62, 63].map(|digit| 1i64.wrapping_shl(digit));
    let near = powers.into_iter().flat_map(|x| [x.wrapping_sub(1), x, x.wrapping_add(1)]);
    let others =
        [10, 1_000_003, 0x1234_5678_9abc_def0, 3_000_000_001, 16_777_217 << 20, (1 << 40) + (1 << 16)];
    let mut all: Vec<i64> = near.chain(others).flat_map(|x| [x, x.wrapping_neg()]).collect();
    all.sort_unstable();
    all.dedup();
    all
}

type Computed = fn(&Tensor, &Tensor) -> Tensor;

/// Of a column and a row of numbers.
const OPERATIONS: &[(&str, Computed)] = &[
    ("add", |x, y| x + y),
    ("sub", |x, y| x - y),
    ("mul", |x, y| x * y),
    ("remainder", |x, y| x % y),
    ("floor_divide", |x, y| x.floor_divide(y)),
    ("maximum", |x, y| x.maximum(y)),
    ("minimum", |x, y| x.minimum(y)),
    ("pow", |x, y| x.pow(y)),
    ("neg", |x, _| -x),
    ("abs", |x, _| x.abs()),
    ("lt", |x, y| x.lt(y)),
    ("le", |x, y| x.le(y)),
    ("eq", |x, y| x.eq(y)),
    ("and", |x, y| x.bitwise_and(y)),
    ("or", |x, y| x.bitwise_or(y)),
    ("xor", |x, y| x.bitwise_xor(y)),
    ("not", |x, _| x.bitwise_not()),
    ("shift_left", |x, y| x.bitwise_left_shift(y)),
    ("shift_right", |x, y| x.bitwise_right_shift(y)),
    ("where", |x, y| x.gt(y).select(x, y)),
    ("sign", |x, _| x.sign()),
    ("bool", |x, _| x.to_dtype(DType::Bool)),
    ("u8", |x, _| x.to_dtype(DType::U8)),
    ("u32", |x, _| x.to_dtype(DType::U32)),
    ("i32", |x, _| x.to_dtype(DType::I32)),
    ("f32", |x, _| x.to_dtype(DType::F32)),
    ("f16", |x, _| x.to_dtype(DType::F16)),
    ("bf16", |x, _| x.to_dtype(DType::BF16)),
    ("from bool", |x, y| x.lt(y).to_dtype(DType::I64)),
    ("from u8", |x, _| x.to_dtype(DType::U8).to_dtype(DType::I64)),
    ("from u32", |x, _| x.to_dtype(DType::U32).to_dtype(DType::I64)),
    ("from i32", |x, _| x.to_dtype(DType::I32).to_dtype(DType::I64)),
    ("from f32", |x, _| (x.to_dtype(DType::F32) / 7.0).to_dtype(DType::I64)),
    ("sum", |x, y| (x + y).sum(1)),
    ("sum of columns", |x, y| (x ^ y).sum(0)),
    ("prod", |x, y| (x | y).prod(1)),
    ("max", |x, y| (x ^ y).max(1)),
    ("argmax", |x, y| (x ^ y).argmax(1)),
    ("argmin", |x, y| (x ^ y).argmin(0)),
    ("cumsum", |x, y| (x ^ y).cumsum(1)),
    ("cummax", |x, y| (x ^ y).cummax(1).0),
    ("product", |x, y| (x ^ y).matmul(&(x - y))),
    ("argsort", |x, y| (x ^ y).argsort(1, false)),
    ("sort, descending", |x, y| (x ^ y).sort(0, true).0),
    ("topk", |x, y| (x ^ y).topk(5, Default::default()).0),
    ("scatter_add", |x, y| {
        let index = (x ^ y).remainder(7);
        (x & y).zeros_like().scatter_add(1, &index, &(x + y))
    }),
    ("gather", |x, y| (x ^ y).gather(1, &(x ^ y).remainder(11))),
    ("cat", |x, y| Tensor::cat(&[&(x + y), &(x - y)], 0)),
    ("argument", |x, _| x * Tensor::full([1], (1i64 << 40) + 3, (x.device(), DType::I64))),
];

fn agree(backend: Option<WgpuBackend>) {
    let Some(backend) = backend else { return };
    assert!(!backend.capabilities().missing.contains(&DType::I64));
    let (name, context) = (backend.device(), Context::new());
    context.install(Arc::new(backend));
    let all = numbers();
    let compute = |operation: Computed, device: Device| {
        let side = |dims: [usize; 2]| Tensor::from_vec(all.clone(), dims, device);
        let result = operation(&side([all.len(), 1]), &side([1, all.len()]));
        let result = if result.dtype().is_float() { result.to_dtype(DType::F32) } else { result };
        match result.dtype().is_float() {
            true => result.to_vec::<f32>().map(|x| x.iter().map(|x| i64::from(x.to_bits())).collect()),
            false => result.to_dtype(DType::I64).to_vec::<i64>(),
        }
    };
    for (title, operation) in OPERATIONS {
        let want: Vec<i64> = compute(*operation, Device::cpu()).expect(title);
        let have = with_context(&context, || compute(*operation, name)).expect(title);
        assert_eq!(have.len(), want.len(), "{title}");
        let wrong = want.iter().zip(&have).position(|(want, have)| want != have);
        let told = wrong.map(|at| {
            let (row, column) = (at / all.len(), at % all.len());
            (at, all.get(row), all[column], have[at], want[at])
        });
        assert_eq!(told, None, "{title}: place, row, column, found, expected");
    }
}

#[test]
fn integers_of_two_words_are_those_of_the_cpu() {
    agree(without_int64());
}

#[test]
fn integers_of_two_words_are_those_of_the_cpu_as_gpus_compute_them() {
    agree(gpu_without_int64());
}
