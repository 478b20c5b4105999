//! Products by templates on a device against the CPU's: on small integers, so that
//! every order of summing gives the same.

use std::sync::Arc;

use super::{device, tiles};
use crate::base::{DType, Device};
use crate::kernel::Kernel;
use crate::plan::context::{Context, with_context};
use crate::render::cuda::tiles::CudaProductTile;
use crate::render::{GpuTarget, TemplateChoice, cuda};
use crate::runtime::Backend;
use crate::runtime::cuda::CudaBackend;
use crate::tensor::Tensor;
use crate::tensor::conv::ConvOpts;

/// A tensor of integers from -2 to 2.
fn small<const N: usize>(dims: [usize; N], seed: usize, dtype: DType, device: Device) -> Tensor {
    let count = dims.iter().product();
    let value = |i: usize| ((i * 7 + i / 11 * 3 + seed) % 5) as f32 - 2.0;
    let x = Tensor::from_vec((0..count).map(value).collect::<Vec<f32>>(), dims, device).to_dtype(dtype);
    x.realize().expect("a leaf");
    x
}

fn half<const N: usize>(dims: [usize; N], seed: usize, device: Device) -> Tensor {
    small(dims, seed, DType::F16, device)
}

fn brain<const N: usize>(dims: [usize; N], seed: usize, device: Device) -> Tensor {
    small(dims, seed, DType::BF16, device)
}

/// Title, what the text must hold, the product.
type Case = (&'static str, &'static [&'static str], fn(Device) -> Tensor);

/// How operands come to shared memory.
const COPIED: &[&str] = &["A_IS_ASYNC = true", "B_IS_ASYNC = true", "A_K_MAJOR = true", "B_K_MAJOR = false"];
const TURNED: &[&str] = &["A_IS_ASYNC = true", "B_IS_ASYNC = true", "A_K_MAJOR = false", "B_K_MAJOR = true"];
const COMPUTED: &[&str] = &["A_IS_ASYNC = false", "B_IS_ASYNC = false"];
const BY_MAP: &[&str] = &["A_BY_TMA = true", "B_BY_TMA = true"];
const SKINNY: &[&str] = &["gather_sums("];
const SHARED: &[&str] = &["typedef vec4<Element> Vec4"];

/// Products of 16-bit floats.
const HALVES: &[Case] = &[
    ("even", COPIED, |d| half([64, 64], 1, d).matmul(&half([64, 128], 2, d))),
    ("ragged", COPIED, |d| brain([77, 72], 1, d).matmul(&brain([72, 136], 2, d))),
    ("both turned", TURNED, |d| brain([72, 80], 1, d).t().matmul(&brain([96, 72], 2, d).t())),
    ("odd", COMPUTED, |d| brain([37, 29], 1, d).matmul(&brain([29, 45], 2, d))),
    ("odd and turned", &["A_K_MAJOR = false", "A_IS_ASYNC = false"], |d| {
        half([29, 37], 1, d).t().matmul(&half([29, 45], 2, d))
    }),
    ("several tiles", COPIED, |d| half([300, 136], 1, d).matmul(&half([136, 264], 2, d))),
    ("batched", COPIED, |d| half([3, 33, 24], 1, d).matmul(&half([3, 24, 64], 2, d))),
    ("bias, gelu and residual", COPIED, |d| {
        let sum = brain([64, 40], 1, d).matmul(&brain([40, 48], 2, d)) + brain([48], 3, d);
        (sum * 0.0).gelu() + brain([64, 48], 4, d)
    }),
    ("computed operand", &["A_IS_ASYNC = false", "B_IS_ASYNC = true"], |d| {
        (half([40, 64], 1, d).relu() * 2.0).matmul(&half([64, 72], 2, d))
    }),
    ("masked operand", &["A_IS_ASYNC = false", "B_IS_ASYNC = true"], |d| {
        half([48, 48], 1, d).tril(0).matmul(&half([48, 40], 2, d))
    }),
    ("widened operands", COPIED, |d| {
        let wide = |x: Tensor| x.to_dtype(DType::F32);
        wide(half([48, 48], 1, d)).matmul(&wide(half([48, 40], 2, d)))
    }),
    ("view of a leaf", COMPUTED, |d| half([41, 31], 1, d).i((1..38, 3..27)).matmul(&half([24, 44], 2, d))),
    ("memory that is not aligned", COPIED, |d| {
        let stretch = half([4097], 1, d).i(1..);
        stretch.realize().expect("a leaf within another");
        stretch.reshape([64, 64]).matmul(&half([64, 64], 2, d))
    }),
    ("convolution", COMPUTED, |d| {
        let opts = ConvOpts::default().padding(1).stride(2);
        brain([2, 5, 17, 19], 1, d).conv2d(&brain([7, 5, 3, 3], 2, d), Some(&brain([7], 3, d)), opts)
    }),
    ("dilated convolution of groups", COMPUTED, |d| {
        let opts = ConvOpts::default().padding(2).dilation(2).groups(2);
        half([2, 8, 12, 12], 1, d).conv2d(&half([32, 4, 3, 3], 2, d), None, opts)
    }),
];

/// Products so deep for their size that they are summed in parts.
const DEEP: &[Case] = &[
    ("deep", COPIED, |d| half([16, 4096], 1, d).matmul(&half([4096, 72], 2, d)) + half([72], 3, d)),
    ("deep, computed, with a rest", COMPUTED, |d| {
        (brain([20, 1801], 1, d) * 2.0).matmul(&brain([1801, 36], 2, d)).relu()
    }),
    ("deep convolution", COMPUTED, |d| {
        half([1, 300, 5, 5], 1, d).conv2d(&half([16, 300, 3, 3], 2, d), None, ConvOpts::default())
    }),
];

/// Other products: extents that are no multiples of a tile's, operands in any
/// order, of several types.
const OTHERS: &[Case] = &[
    ("odd", SHARED, |d| small([37, 29], 1, DType::F32, d).matmul(&small([29, 45], 2, DType::F32, d))),
    ("large", SHARED, |d| small([300, 130], 1, DType::F32, d).matmul(&small([130, 260], 2, DType::F32, d))),
    ("turned", SHARED, |d| {
        small([36, 70], 1, DType::F32, d).t().matmul(&small([52, 36], 2, DType::F32, d).t())
    }),
    ("batched", SHARED, |d| {
        small([3, 33, 20], 1, DType::F32, d).matmul(&small([3, 20, 65], 2, DType::F32, d))
    }),
    ("two rows", SHARED, |d| small([2, 100], 1, DType::F32, d).matmul(&small([100, 300], 2, DType::F32, d))),
    ("result turned", SHARED, |d| {
        let product = small([40, 30], 1, DType::F32, d).matmul(&small([30, 50], 2, DType::F32, d));
        product.t() + small([50, 40], 3, DType::F32, d)
    }),
    ("64-bit floats", SHARED, |d| {
        small([70, 40], 1, DType::F64, d).matmul(&small([40, 66], 2, DType::F64, d))
    }),
    ("integers", SHARED, |d| small([34, 21], 1, DType::I64, d).matmul(&small([21, 35], 2, DType::I64, d))),
    ("one is a half", SHARED, |d| {
        small([34, 21], 1, DType::F32, d).matmul(&half([21, 35], 2, d).to_dtype(DType::F32))
    }),
    ("convolution", SHARED, |d| {
        let opts = ConvOpts::default().padding(1).stride(2);
        let (x, w) = (small([2, 5, 17, 19], 1, DType::F32, d), small([7, 5, 3, 3], 2, DType::F32, d));
        x.conv2d(&w, Some(&small([7], 3, DType::F32, d)), opts)
    }),
    ("deep", SHARED, |d| small([8, 40_000], 1, DType::F32, d).matmul(&small([40_000, 32], 2, DType::F32, d))),
];

/// Products of few rows or columns, of which the other matrix is read once.
const FEW: &[Case] = &[
    ("one row", SKINNY, |d| small([1, 600], 1, DType::F32, d).matmul(&small([600, 100], 2, DType::F32, d))),
    ("one column", SKINNY, |d| small([100, 600], 1, DType::F32, d).mv(&small([600], 2, DType::F32, d))),
    ("odd", SKINNY, |d| small([3, 529], 1, DType::F32, d).matmul(&small([529, 45], 2, DType::F32, d))),
    ("sixteen rows", SKINNY, |d| {
        small([16, 512], 1, DType::F32, d).matmul(&small([512, 96], 2, DType::F32, d))
    }),
    ("turned", SKINNY, |d| {
        small([300, 13], 1, DType::F32, d).t().matmul(&small([96, 300], 2, DType::F32, d).t())
    }),
    ("casts", SKINNY, |d| {
        let brain = |x: Tensor| x.to_dtype(DType::BF16);
        brain(small([9, 300], 1, DType::F32, d)).matmul(&brain(small([300, 64], 2, DType::F32, d)))
    }),
    ("64-bit floats", SKINNY, |d| {
        small([6, 300], 1, DType::F64, d).matmul(&small([300, 41], 2, DType::F64, d))
    }),
    ("integers", SKINNY, |d| small([7, 257], 1, DType::I64, d).matmul(&small([257, 36], 2, DType::I64, d))),
    ("batched", SKINNY, |d| {
        small([3, 2, 300], 1, DType::F32, d).matmul(&small([3, 300, 36], 2, DType::F32, d))
    }),
    ("bias and residual", SKINNY, |d| {
        let sum = small([4, 256], 1, DType::F32, d).matmul(&small([256, 72], 2, DType::F32, d));
        (sum + small([72], 3, DType::F32, d)).relu() + small([4, 72], 4, DType::F32, d)
    }),
    ("halves", SKINNY, |d| half([1, 512], 1, d).matmul(&half([512, 64], 2, d))),
    ("halves, turned", SKINNY, |d| brain([2, 512], 1, d).matmul(&brain([64, 512], 2, d).t())),
    ("masked operand", SKINNY, |d| {
        small([5, 320], 1, DType::F32, d).matmul(&small([320, 320], 2, DType::F32, d).tril(0))
    }),
    ("in parts", SKINNY, |d| {
        small([2, 20_001], 1, DType::F32, d).matmul(&small([20_001, 24], 2, DType::F32, d))
    }),
    ("one element", SKINNY, |d| {
        small([1, 5000], 1, DType::F32, d).matmul(&small([5000, 1], 2, DType::F32, d))
    }),
];

/// Large products of operands that are computed, and so are stored before.
const STORED: &[Case] = &[
    ("casts", COPIED, |d| {
        let brain = |x: Tensor| x.to_dtype(DType::BF16);
        brain(small([256, 512], 1, DType::F32, d)).matmul(&brain(small([512, 256], 2, DType::F32, d)))
    }),
    ("turned", TURNED, |d| {
        let half = |x: Tensor| x.to_dtype(DType::F16).t();
        half(small([512, 256], 1, DType::F32, d)).matmul(&half(small([250, 512], 2, DType::F32, d)))
    }),
    ("batched, and the second for all", COPIED, |d| {
        let b = small([512, 264], 2, DType::F32, d).to_dtype(DType::BF16).reshape([1, 512, 264]);
        brain([3, 130, 512], 1, d).matmul(&b.expand([3, 512, 264]))
    }),
    ("one of them, with an epilogue, in parts", COPIED, |d| {
        let sum = (brain([64, 8192], 1, d) * 2.0).matmul(&brain([8192, 72], 2, d));
        (sum + brain([72], 3, d)).relu()
    }),
];

/// Holds products on the device against the CPU's, each by one of the tiles that are
/// wanted and suit it, another for each; their texts must be as they should be.
fn agree(
    capability: (u32, u32),
    cases: &[Case],
    wanted: fn(&CudaProductTile) -> bool,
    is_right: fn(&str) -> bool,
) {
    let Some(plain) = device() else { return };
    let target = GpuTarget::cuda_device(capability, 4);
    let kernels = planned(plain, cases);
    for (number, ((title, marks, product), kernels)) in cases.iter().zip(kernels).enumerate() {
        let choices: Vec<TemplateChoice> =
            kernels.iter().flat_map(|kernel| cuda::choices(kernel, &target)).collect();
        let tiles: Vec<CudaProductTile> = tiles(&choices).filter(wanted).collect();
        assert!(!tiles.is_empty(), "{title}");
        let choice = Some(TemplateChoice::CudaProduct(tiles[number % tiles.len()]));
        let Some(mut backend) = device() else { return };
        backend.target = GpuTarget { choice, ..target.clone() };
        let (name, context) = (backend.device(), Context::new());
        context.install(Arc::new(backend));
        let values = |device| product(device).to_dtype(DType::F32).to_vec::<f32>();
        let want = values(Device::cpu()).expect("the CPU's product");
        with_context(&context, || {
            let report = product(name).plan().expect("a plan");
            let source: String =
                report.kernels.iter().map(|kernel| kernel.source().expect("a text")).collect();
            let absent = marks.iter().find(|&&mark| !source.contains(mark));
            assert!(absent.is_none() && is_right(&source), "{title}: {absent:?}\n{source}");
            let have = values(name).expect(title);
            let wrong = want.iter().zip(&have).position(|(want, have)| want != have);
            assert_eq!(wrong.map(|at| (at, want[at], have[at])), None, "{title}:\n{source}");
        });
    }
}

/// The kernels of products as a device plans them.
fn planned(backend: CudaBackend, cases: &[Case]) -> Vec<Vec<Kernel>> {
    let (name, context) = (backend.device(), Context::new());
    context.install(Arc::new(backend));
    with_context(&context, || {
        let kernels = |(_, _, product): &Case| {
            let report = product(name).plan().expect("a plan");
            report.kernels.iter().filter_map(|kernel| kernel.work().kernel().cloned()).collect()
        };
        cases.iter().map(kernels).collect()
    })
}

fn is_mma(tile: &CudaProductTile) -> bool {
    matches!(tile, CudaProductTile::Mma { .. })
}

fn is_wgmma(tile: &CudaProductTile) -> bool {
    matches!(tile, CudaProductTile::Wgmma { .. })
}

fn is_skinny(tile: &CudaProductTile) -> bool {
    matches!(tile, CudaProductTile::Skinny { .. })
}

fn is_simt(tile: &CudaProductTile) -> bool {
    matches!(tile, CudaProductTile::Simt { .. })
}

#[test]
fn products_on_tensor_cores_agree_with_the_cpu() {
    agree((8, 0), HALVES, is_mma, |source| source.contains("load_fragment_a("));
}

#[test]
fn products_by_groups_of_warps_agree_with_the_cpu() {
    agree((9, 0), HALVES, is_wgmma, |source| source.contains("wgmma_commit();"));
}

/// Products of which the device itself copies operands.
const DESCRIBED: &[Case] = &[
    ("even", BY_MAP, |d| half([64, 64], 1, d).matmul(&half([64, 128], 2, d))),
    ("ragged", BY_MAP, |d| brain([77, 72], 1, d).matmul(&brain([72, 136], 2, d))),
    ("both turned", BY_MAP, |d| brain([72, 80], 1, d).t().matmul(&brain([96, 72], 2, d).t())),
    ("many steps", BY_MAP, |d| half([300, 1000], 1, d).matmul(&half([1000, 264], 2, d))),
    ("batched", BY_MAP, |d| half([3, 33, 24], 1, d).matmul(&half([3, 24, 64], 2, d))),
    ("one operand", &["A_BY_TMA = false", "B_BY_TMA = true"], |d| {
        // More elements than it is computed from, so it is not stored before.
        (half([40, 1], 1, d) + half([640], 3, d)).matmul(&half([640, 72], 2, d))
    }),
    ("view of a leaf", BY_MAP, |d| brain([90, 480], 1, d).i((3..70, 8..424)).matmul(&brain([416, 72], 2, d))),
    ("bias", BY_MAP, |d| brain([64, 400], 1, d).matmul(&brain([400, 48], 2, d)) + brain([48], 3, d)),
];

#[test]
fn products_of_operands_that_the_device_copies_agree_with_the_cpu() {
    agree((9, 0), DESCRIBED, is_wgmma, |source| source.contains("__grid_constant__"));
}

#[test]
fn products_in_parts_of_their_depth_agree_with_the_cpu() {
    let is_in_parts: fn(&str) -> bool = |source| source.matches("__global__").count() > 1;
    agree((8, 0), DEEP, is_mma, is_in_parts);
    agree((9, 0), DEEP, is_wgmma, is_in_parts);
}

#[test]
fn other_products_agree_with_the_cpu() {
    agree((12, 0), OTHERS, is_simt, |_| true);
}

#[test]
fn products_of_few_rows_agree_with_the_cpu() {
    agree((8, 0), FEW, is_skinny, |_| true);
}

#[test]
fn products_of_stored_operands_agree_with_the_cpu() {
    let is_stored: fn(&str) -> bool = |source| source.matches("__global__").count() > 1;
    agree((8, 0), STORED, is_mma, is_stored);
    agree((9, 0), STORED, is_wgmma, is_stored);
}

/// Products of one row and little depth, which are sums of each element's own.
const SUMS: &[Case] = &[
    ("a convolution of each channel", &[], |d| {
        let opts = ConvOpts::default().padding(1).groups(6);
        small([2, 6, 10, 12], 1, DType::F32, d).conv2d(&small([6, 1, 3, 3], 2, DType::F32, d), None, opts)
    }),
    ("the same of halves", &[], |d| {
        let opts = ConvOpts::default().padding(1).groups(5);
        brain([2, 5, 9, 7], 1, d).conv2d(&brain([5, 1, 3, 3], 2, d), None, opts).relu()
    }),
    ("a matrix by a vector", &[], |d| {
        small([100, 40], 1, DType::F32, d).mv(&small([40], 2, DType::F32, d)) + small([100], 3, DType::F32, d)
    }),
    ("a vector by a matrix", &[], |d| half([1, 90], 1, d).matmul(&half([90, 70], 2, d))),
];

#[test]
fn products_without_anything_to_share_are_sums() {
    let Some(backend) = device() else { return };
    let (name, context) = (backend.device(), Context::new());
    context.install(Arc::new(backend));
    for (title, _, product) in SUMS {
        let values = |device| product(device).to_dtype(DType::F32).to_vec::<f32>().expect(title);
        let want = values(Device::cpu());
        with_context(&context, || {
            let report = product(name).plan().expect("a plan");
            let sources = report.kernels.iter().map(|kernel| kernel.source().expect("a text"));
            assert!(sources.into_iter().all(|source| !source.contains("struct Product")), "{title}");
            assert_eq!(values(name), want, "{title}");
        });
    }
}

/// Real numbers: the error of a sum of rounded products is that of the sum alone.
#[test]
fn sums_of_halves_keep_the_digits_of_32_bits() {
    let Some(backend) = device() else { return };
    let (name, context) = (backend.device(), Context::new());
    context.install(Arc::new(backend));
    let real = |dims: [usize; 2], device: Device, dtype: DType| {
        let value = |i: usize| ((i * 7919 + 13) % 2003) as f32 / 1001.0 - 1.0;
        let values: Vec<f32> = (0..dims[0] * dims[1]).map(value).collect();
        Tensor::from_vec(values, dims, device).to_dtype(dtype)
    };
    for dtype in [DType::F16, DType::BF16] {
        let operands = |device| (real([48, 200], device, dtype), real([200, 64], device, dtype));
        let (a, b) = operands(Device::cpu());
        let want = a.to_dtype(DType::F64).matmul(&b.to_dtype(DType::F64)).to_vec::<f64>().expect("exact");
        with_context(&context, || {
            let (a, b) = operands(name);
            let product = a.to_dtype(DType::F32).matmul(&b.to_dtype(DType::F32));
            let have = product.to_vec::<f32>().expect("the device's product");
            let error = want.iter().zip(&have).map(|(want, &have)| (want - f64::from(have)).abs());
            // Half a unit of each of 200 additions of sums below 32 at most.
            let most = error.fold(0f64, f64::max);
            assert!(most < 200.0 * 32.0 * f64::from(f32::EPSILON) / 2.0, "{dtype}: {most}");
        });
    }
}
