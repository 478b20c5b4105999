//! Attention by a device's template against the interpreter of its body, in
//! 64-bit floats.

use std::sync::Arc;

use crate::base::{DType, Device};
use crate::plan::context::{Context, with_context};
use crate::plan::report::KernelReport;
use crate::runtime::Backend;
use crate::tensor::Tensor;
use crate::tensor::attention::AttentionOpts;

/// A tensor of numbers from -1 to 1.
pub fn numbers<const N: usize>(dims: [usize; N], seed: usize, device: Device) -> Tensor {
    let count = dims.iter().product();
    let value = |i: usize| ((i * 37 + i / 11 * 53 + seed * 29) % 101) as f32 / 50.0 - 1.0;
    let x = Tensor::from_vec((0..count).map(value).collect::<Vec<f32>>(), dims, device);
    x.realize().expect("a leaf");
    x
}

/// Queries, keys and values of `[batch, heads, _, _]`.
pub fn heads([batch, heads]: [usize; 2], extents: [usize; 4], d: Device) -> [Tensor; 3] {
    let [rows, keys, depth, columns] = extents;
    [
        numbers([batch, heads, rows, depth], 1, d) * 3.0,
        numbers([batch, heads, keys, depth], 2, d),
        numbers([batch, heads, keys, columns], 3, d),
    ]
}

pub fn plain(extents: [usize; 4], d: Device) -> Tensor {
    let [q, k, v] = heads([2, 3], extents, d);
    q.scaled_dot_product_attention(&k, &v, opts())
}

pub fn opts() -> AttentionOpts {
    AttentionOpts::default()
}

pub type Attended = fn(Device) -> Tensor;

pub const EVEN: &[(&str, Attended)] = &[
    ("even", |d| plain([64, 64, 32, 32], d)),
    ("wide", |d| plain([40, 70, 128, 128], d)),
    ("64 wide", |d| plain([32, 96, 64, 64], d)),
    ("values wider than keys", |d| plain([33, 32, 8, 100], d)),
    ("causal", |d| {
        let [q, k, v] = heads([2, 2], [100, 100, 16, 16], d);
        q.scaled_dot_product_attention(&k, &v, opts().causal(true))
    }),
    ("causal with more keys", |d| {
        let [q, k, v] = heads([1, 2], [40, 90, 16, 16], d);
        q.scaled_dot_product_attention(&k, &v, opts().causal(true))
    }),
    ("causal with fewer keys", |d| {
        let [q, k, v] = heads([1, 2], [90, 40, 16, 16], d);
        q.scaled_dot_product_attention(&k, &v, opts().causal(true))
    }),
    ("heads side by side", |d| {
        let packed = numbers([2, 48, 3 * 64], 1, d);
        let head = |i: usize| packed.narrow(2, i * 64, 64).reshape([2, 48, 4, 16]).transpose(1, 2);
        let y = head(0).scaled_dot_product_attention(&head(1), &head(2), opts());
        y.transpose(1, 2).reshape([2, 48, 64]) * 2.0 + 1.0
    }),
    ("shared heads", |d| {
        let q = numbers([2, 6, 40, 8], 1, d);
        let (k, v) = (numbers([2, 2, 50, 8], 2, d), numbers([2, 2, 50, 8], 3, d));
        q.scaled_dot_product_attention(&k, &v, opts().enable_gqa(true))
    }),
];

pub const ODD: &[(&str, Attended)] = &[
    ("odd", |d| plain([37, 45, 13, 27], d)),
    ("narrow", |d| plain([19, 3, 1, 1], d)),
    ("a few keys", |d| plain([50, 6, 5, 40], d)),
    ("one key", |d| plain([16, 1, 8, 8], d)),
    ("hidden", |d| {
        let [q, k, v] = heads([2, 2], [40, 50, 8, 8], d);
        let mask = numbers([2, 1, 40, 50], 4, d).gt(0.5) & numbers([40, 1], 7, d).gt(-0.9);
        q.scaled_dot_product_attention(&k, &v, opts().mask(&mask))
    }),
    ("the same keys hidden from all", |d| {
        let [q, k, v] = heads([2, 2], [40, 50, 8, 8], d);
        q.scaled_dot_product_attention(&k, &v, opts().mask(&numbers([50], 4, d).gt(-0.5)))
    }),
    ("a number added to all", |d| {
        let [q, k, v] = heads([2, 2], [40, 50, 8, 8], d);
        q.scaled_dot_product_attention(&k, &v, opts().mask(&numbers([], 4, d)))
    }),
    ("hidden everywhere", |d| {
        let [q, k, v] = heads([1, 1], [20, 40, 8, 8], d);
        let mask = numbers([20, 40], 4, d).gt(2.0);
        q.scaled_dot_product_attention(&k, &v, opts().mask(&mask))
    }),
    ("added", |d| {
        let [q, k, v] = heads([2, 2], [33, 50, 8, 8], d);
        q.scaled_dot_product_attention(&k, &v, opts().mask(&(numbers([2, 33, 50], 4, d) * 4.0)))
    }),
    ("added minus infinity", |d| {
        let [q, k, v] = heads([1, 2], [33, 50, 8, 8], d);
        let mask = numbers([33, 50], 4, d);
        let mask = mask.gt(0.0).select(&mask, f32::NEG_INFINITY);
        q.scaled_dot_product_attention(&k, &v, opts().mask(&mask))
    }),
    ("no number", |d| {
        let [q, k, v] = heads([1, 1], [20, 40, 8, 8], d);
        let k = numbers([40, 1], 5, d).gt(0.9).select(f32::NAN, &k);
        q.scaled_dot_product_attention(&k, &v, opts())
    }),
    ("infinite scores", |d| {
        let [q, k, v] = heads([1, 1], [20, 40, 8, 8], d);
        (q * f32::INFINITY).scaled_dot_product_attention(&k, &v, opts())
    }),
    ("large scores", |d| {
        let [q, k, v] = heads([1, 1], [20, 70, 8, 8], d);
        (q * 1e3).scaled_dot_product_attention(&(k * 1e3), &v, opts())
    }),
];

/// Few queries, of fewer keys than teams share out and of more.
pub const FEW: &[(&str, Attended)] = &[
    ("one query", |d| plain([1, 40, 8, 8], d)),
    ("one query of one key", |d| plain([1, 1, 8, 8], d)),
    ("one query of many keys", |d| plain([1, 515, 64, 64], d)),
    ("one wide query", |d| plain([1, 300, 128, 128], d)),
    ("two queries, odd", |d| plain([2, 45, 13, 27], d)),
    ("four queries", |d| plain([4, 64, 32, 100], d)),
    ("three queries, causal", |d| {
        let [q, k, v] = heads([2, 2], [3, 7, 16, 16], d);
        q.scaled_dot_product_attention(&k, &v, opts().causal(true))
    }),
    ("shared heads of a cache", |d| {
        let q = numbers([2, 6, 1, 64], 1, d) * 3.0;
        let (k, v) = (numbers([2, 2, 256, 64], 2, d), numbers([2, 2, 256, 64], 3, d));
        let held = Tensor::arange(0, 256, 1, d).lt(77);
        let y = q.scaled_dot_product_attention(&k, &v, opts().enable_gqa(true).mask(&held));
        y.transpose(1, 2).reshape([2, 1, 6 * 64]) * 2.0 + 1.0
    }),
    ("four queries, hidden by position", |d| {
        let [q, k, v] = heads([2, 3], [4, 150, 24, 24], d);
        let mask = numbers([2, 1, 4, 150], 4, d).gt(0.5) & numbers([4, 1], 7, d).gt(-0.9);
        q.scaled_dot_product_attention(&k, &v, opts().mask(&mask))
    }),
    ("few queries, hidden everywhere", |d| {
        let [q, k, v] = heads([1, 2], [3, 70, 8, 8], d);
        q.scaled_dot_product_attention(&k, &v, opts().mask(&numbers([3, 70], 4, d).gt(2.0)))
    }),
    ("few queries, added minus infinity", |d| {
        let [q, k, v] = heads([1, 2], [2, 300, 8, 8], d);
        let mask = numbers([2, 300], 4, d);
        let mask = mask.gt(0.0).select(&mask, f32::NEG_INFINITY);
        q.scaled_dot_product_attention(&k, &v, opts().mask(&mask))
    }),
    ("few queries, no number", |d| {
        let [q, k, v] = heads([1, 1], [2, 40, 8, 8], d);
        let k = numbers([40, 1], 5, d).gt(0.9).select(f32::NAN, &k);
        q.scaled_dot_product_attention(&k, &v, opts())
    }),
    ("few queries, infinite and large scores", |d| {
        let [q, k, v] = heads([1, 2], [2, 170, 8, 8], d);
        let factor = Tensor::from([[[[1e3f32], [f32::INFINITY]]]]).to(d);
        (q * factor).scaled_dot_product_attention(&(k * 1e3), &v, opts())
    }),
];
/// Of these, results are rounded to the type.
pub const FEW_HALVES: &[(&str, Attended)] = &[("one query in halves", |d| {
    let [q, k, v] = heads([1, 2], [1, 140, 48, 40], d).map(|x| x.to_dtype(DType::F16));
    q.scaled_dot_product_attention(&k, &v, opts().scale(0.5)).to_dtype(DType::F32)
})];

/// Results are rounded to the type.
pub const HALVES: &[(&str, Attended)] = &[("halves", |d| {
    let [q, k, v] = heads([1, 2], [40, 40, 16, 16], d).map(|x| x.to_dtype(DType::F16));
    q.scaled_dot_product_attention(&k, &v, opts().scale(0.5)).to_dtype(DType::F32)
})];
pub const BRAIN_FLOATS: &[(&str, Attended)] = &[("brain floats", |d| {
    let [q, k, v] = heads([1, 2], [40, 40, 15, 17], d).map(|x| x.to_dtype(DType::BF16));
    q.scaled_dot_product_attention(&k, &v, opts()).to_dtype(DType::F32)
})];

/// Holds attention on a device against the interpreter; its kernel's text holds
/// `template`.
pub fn agree(backend: Arc<dyn Backend>, template: &str, cases: &[(&str, Attended)], tolerance: f64) {
    let (name, context) = (backend.device(), Context::new());
    context.install(backend);
    for (title, attended) in cases {
        let want = Tensor::oracle(&[&attended(Device::cpu())]).expect("the interpreter")[0].to_f64();
        with_context(&context, || {
            let have = attended(name);
            let report = have.plan().expect("a plan");
            let is_attention = |kernel: &&KernelReport| kernel.text().contains("  attention %");
            let kernel = report.kernels.iter().find(is_attention).expect("one kernel for all of it");
            let source = kernel.source().expect("a text");
            assert!(source.contains(template), "{title}:\n{source}");
            let have = have.to_vec::<f32>().expect("the device's attention");
            let near = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance;
            let wrong = want.iter().zip(&have).position(|(a, b)| !near(*a, f64::from(*b)));
            assert_eq!(wrong.map(|at| (at, want[at], have[at])), None, "{title}");
        });
    }
}

/// Queries, keys and values, from the size of numbers, and what is made of them.
#[cfg(feature = "cuda")]
pub type Backward = (&'static str, fn(Device) -> [Tensor; 3], fn(Device) -> AttentionOpts);

/// Attentions whose gradients are held against the interpreter.
#[cfg(feature = "cuda")]
pub const BACKWARD: &[Backward] = &[
    ("even", |d| heads([1, 2], [64, 64, 32, 32], d), |_| opts()),
    ("odd", |d| heads([1, 2], [37, 45, 13, 27], d), |_| opts()),
    ("one of each", |d| heads([2, 1], [1, 1, 1, 1], d), |_| opts()),
    ("wide", |d| heads([1, 1], [40, 70, 128, 128], d), |_| opts()),
    ("values wider than keys", |d| heads([1, 1], [33, 32, 8, 100], d), |_| opts()),
    ("causal over blocks", |d| heads([1, 2], [150, 150, 12, 20], d), |_| opts().causal(true)),
    ("causal with more keys", |d| heads([1, 2], [40, 90, 16, 16], d), |_| opts().causal(true)),
    ("causal with fewer keys", |d| heads([1, 2], [90, 40, 16, 16], d), |_| opts().causal(true)),
    (
        "causal, shared heads",
        |d| [numbers([2, 6, 50, 8], 1, d), numbers([2, 2, 70, 8], 2, d), numbers([2, 2, 70, 12], 3, d)],
        |_| opts().causal(true).enable_gqa(true),
    ),
    (
        "causal, one head and one batch",
        |d| [numbers([2, 3, 80, 8], 1, d), numbers([1, 1, 80, 8], 2, d), numbers([2, 1, 80, 8], 3, d)],
        |_| opts().causal(true).enable_gqa(true),
    ),
    (
        "shared queries",
        |d| [numbers([1, 3, 30, 8], 1, d), numbers([2, 3, 90, 8], 2, d), numbers([2, 3, 90, 8], 3, d)],
        |_| opts().causal(true),
    ),
    (
        "hidden",
        |d| heads([2, 2], [40, 50, 8, 8], d),
        |d| opts().mask(&(numbers([2, 1, 40, 50], 4, d).gt(0.5) & numbers([40, 1], 7, d).gt(-0.9))),
    ),
    (
        "hidden everywhere",
        |d| heads([1, 1], [20, 40, 8, 8], d),
        |d| opts().mask(&numbers([20, 40], 4, d).gt(2.0)),
    ),
    ("added", |d| heads([2, 2], [33, 50, 8, 8], d), |d| opts().mask(&(numbers([2, 33, 50], 4, d) * 4.0))),
    (
        "added minus infinity",
        |d| heads([1, 2], [33, 50, 8, 8], d),
        |d| {
            let mask = numbers([33, 50], 4, d);
            opts().mask(&mask.gt(0.0).select(&mask, f32::NEG_INFINITY))
        },
    ),
    (
        "large scores",
        |d| {
            let [q, k, v] = heads([1, 1], [20, 70, 8, 8], d);
            [q * 10.0, k * 10.0, v]
        },
        |_| opts(),
    ),
];

/// What attention of some operands, in a type, gives, and the operands' gradients.
#[cfg(feature = "cuda")]
pub fn backward((_, operands, opts): &Backward, dtype: DType, d: Device) -> Vec<Tensor> {
    let [q, k, v] = operands(d).map(|x| {
        let x = x.to_dtype(dtype);
        x.realize().expect("a leaf");
        x.with_requires_grad()
    });
    let y = q.scaled_dot_product_attention(&k, &v, opts(d));
    let g = numbers([y.shape().numel()], 8, d).reshape(y.shape().to_vec()).to_dtype(dtype);
    let gradients = crate::vjp(&[(&y, &g)], &[&q, &k, &v]);
    std::iter::once(y.to_dtype(DType::F32)).chain(gradients.iter().map(|x| x.to_dtype(DType::F32))).collect()
}

/// Holds attention and its gradients on a device against the interpreter, up to a part of
/// the greatest element; no kernel stores as many elements as there are scores.
#[cfg(feature = "cuda")]
pub fn gradients_agree(backend: Arc<dyn Backend>, dtype: DType, cases: &[Backward], tolerance: f64) {
    let (name, context) = (backend.device(), Context::new());
    context.install(backend);
    for case in cases {
        let (title, ..) = case;
        let plain = backward(case, dtype, Device::cpu());
        let want = Tensor::oracle(&plain.iter().collect::<Vec<_>>()).expect("the interpreter");
        with_context(&context, || {
            let have = backward(case, dtype, name);
            let report = crate::plan(&have.iter().collect::<Vec<_>>()).expect("a plan");
            let parts = report.kernels.iter().filter(|kernel| kernel.text().contains("  attention")).count();
            assert_eq!(parts, 5, "{title}: {report}");
            for ((have, want), of) in have.iter().zip(&want).zip(["result", "q", "k", "v"]) {
                let (have, want) = (have.to_vec::<f32>().expect("the device's attention"), want.to_f64());
                let most = want.iter().fold(1.0, |most: f64, x| most.max(x.abs()));
                let near = |a: f64, b: f64| (a - b).abs() <= tolerance * most;
                let wrong = want.iter().zip(&have).position(|(a, b)| !near(*a, f64::from(*b)));
                assert_eq!(wrong.map(|at| (at, want[at], have[at])), None, "{title}: {of}");
            }
        });
    }
}
