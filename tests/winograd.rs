//! Convolutions with windows of 3 by 3, which the CPU computes after Winograd where that
//! pays. Each test has the process's setting of precision to itself for a while.

use std::sync::{Mutex, MutexGuard};

use kiln::opts::{ConvOpts, ConvTransposeOpts};
use kiln::prelude::*;
use kiln::{Precision, set_float32_matmul_precision};

static SETTING: Mutex<()> = Mutex::new(());

fn setting() -> MutexGuard<'static, ()> {
    SETTING.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// What `body` makes of tensors built under a setting.
fn under<R>(precision: Precision, body: impl FnOnce() -> R) -> R {
    set_float32_matmul_precision(precision);
    let result = body();
    set_float32_matmul_precision(Precision::Highest);
    result
}

fn padded() -> ConvOpts {
    ConvOpts::default().padding(1)
}

#[path = "support/leaves.rs"]
mod leaves;
use leaves::{leaves, values};

type Convolution = fn(&[Tensor]) -> Tensor;

/// A name, the operands' shapes, and what is computed.
const CASES: &[(&str, &[&[usize]], Convolution)] = &[
    ("padded", &[&[4, 32, 16, 16], &[24, 32, 3, 3]], |x| x[0].conv2d(&x[1], None, padded())),
    ("odd, not padded", &[&[7, 40, 17, 13], &[33, 40, 3, 3]], |x| {
        x[0].conv2d(&x[1], None, ConvOpts::default())
    }),
    ("one image of odd size", &[&[48, 29, 31], &[16, 48, 3, 3]], |x| x[0].conv2d(&x[1], None, padded())),
    ("wide", &[&[1, 24, 5, 420], &[24, 24, 3, 3]], |x| x[0].conv2d(&x[1], None, padded()).relu()),
    ("wide and odd", &[&[4, 24, 5, 421], &[24, 24, 3, 3]], |x| x[0].conv2d(&x[1], None, padded())),
    ("an odd row", &[&[1, 24, 41, 40], &[24, 24, 3, 3]], |x| x[0].conv2d(&x[1], None, padded())),
    ("small images", &[&[30, 64, 7, 7], &[64, 64, 3, 3]], |x| x[0].conv2d(&x[1], None, padded())),
    ("groups", &[&[6, 64, 14, 14], &[64, 32, 3, 3]], |x| {
        x[0].conv2d(&x[1], None, ConvOpts::default().padding(1).groups(2))
    }),
    ("bias, residual, activation", &[&[6, 32, 15, 15], &[32, 32, 3, 3], &[32]], |x| {
        (x[0].conv2d(&x[1], Some(&x[2]), padded()) + &x[0]).relu()
    }),
    ("wide, with an activation", &[&[1, 32, 6, 300], &[32, 32, 3, 3], &[32]], |x| {
        x[0].conv2d(&x[1], Some(&x[2]), padded()).relu()
    }),
    ("of what is computed", &[&[4, 32, 16, 16], &[32, 32, 3, 3], &[32, 1, 1]], |x| {
        (&x[0] * &x[2]).relu().conv2d(&(&x[1] * 2.0), None, padded())
    }),
    ("transposed", &[&[7, 32, 12, 12], &[32, 32, 3, 3]], |x| {
        x[0].conv_transpose2d(&x[1], None, ConvTransposeOpts::default().padding(1))
    }),
    ("windows upside down and mirrored", &[&[9, 32, 12, 14], &[32, 32, 3, 3]], |x| {
        let windows = x[0].unfold(2, 3, 1).unfold(3, 3, 1).flip([4, 5]);
        kiln::einsum("ncyxij,ocij->noyx", &[&windows, &x[1]])
    }),
];

/// Some bits that look like chance.
fn bits(i: usize) -> u64 {
    let x = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (x ^ (x >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 20
}

fn integer(i: usize) -> f32 {
    (bits(i) % 7) as f32 - 3.0
}

/// About normally distributed.
fn real(i: usize) -> f32 {
    let uniform = |j: usize| (bits(12 * i + j) % 65_536) as f32 / 65_536.0;
    (0..12).map(uniform).sum::<f32>() - 6.0
}

fn transforms(x: &Tensor) -> bool {
    let plan = x.plan().expect("a plan");
    plan.kernels.iter().filter_map(|kernel| kernel.source().ok()).any(|text| text.starts_with("winograd"))
}

#[test]
fn results_are_those_of_sums_over_windows() {
    let _setting = setting();
    for (name, shapes, call) in CASES {
        let single = call(&leaves(shapes, DType::F32, integer));
        assert!(transforms(&single), "{name} is computed from windows");
        let double = call(&leaves(shapes, DType::F64, integer));
        assert!(!transforms(&double), "{name} in 64 bits is transformed");
        assert_eq!(values(&single), values(&double), "{name}");
        let strict = under(Precision::Strict, || call(&leaves(shapes, DType::F32, integer)));
        assert!(!transforms(&strict), "{name} is transformed though products are to be strict");
        assert_eq!(values(&strict), values(&double), "{name}");
    }
}

#[test]
fn sixteen_bits_and_strides_and_few_channels() {
    let _setting = setting();
    let shapes: &[&[usize]] = &[&[6, 32, 14, 14], &[32, 32, 3, 3]];
    let half = |call: Convolution| call(&leaves(shapes, DType::F16, integer));
    let y = half(|x| x[0].conv2d(&x[1], None, padded()));
    assert!(transforms(&y));
    let double = leaves(shapes, DType::F64, integer);
    assert_eq!(values(&y), values(&double[0].conv2d(&double[1], None, padded())));
    let single = leaves(shapes, DType::F32, integer);
    let [x, w] = [&single[0], &single[1]];
    assert!(!transforms(&x.conv2d(w, None, ConvOpts::default().stride(2))));
    assert!(!transforms(&x.conv2d(w, None, ConvOpts::default().dilation(2))));
    assert!(!transforms(&x.narrow(1, 0, 2).conv2d(&w.narrow(1, 0, 2), None, ConvOpts::default())));
}

/// To transform filters, and to read them again, takes longer than few places save.
#[test]
fn many_filters_over_few_places_are_not_transformed() {
    let _setting = setting();
    let over = |images: usize, size: usize| {
        let x = leaves(&[&[images, 256, size, size], &[256, 256, 3, 3]], DType::F32, integer);
        transforms(&x[0].conv2d(&x[1], None, padded()))
    };
    assert!(!over(2, 8) && !over(1, 14) && over(8, 14));
}

/// The largest difference, and the largest that PyTorch's tolerances for 32-bit floats
/// would allow there.
fn error(found: &[f64], exact: &[f64]) -> (f64, f64) {
    let pairs = || found.iter().zip(exact);
    let beyond = pairs().map(|(a, b)| (a - b).abs() / (1e-5 + 1.3e-6 * b.abs())).fold(0.0, f64::max);
    (pairs().map(|(a, b)| (a - b).abs()).fold(0.0, f64::max), beyond)
}

#[test]
fn errors_are_about_those_of_sums_over_windows() {
    let _setting = setting();
    for (name, shapes, call) in CASES {
        let exact = values(&call(&leaves(shapes, DType::F64, real)));
        let found = error(&values(&call(&leaves(shapes, DType::F32, real))), &exact);
        let strict = under(Precision::Strict, || call(&leaves(shapes, DType::F32, real)));
        let strict = error(&values(&strict), &exact);
        println!("{name}: {found:.3?}, by windows {strict:.3?}");
        assert!(found.0 <= 4.0 * strict.0, "{name}: {found:?}, by windows {strict:?}");
    }
}

#[test]
fn what_is_not_finite_stays_in_its_windows() {
    let _setting = setting();
    const SPECIAL: [f32; 3] = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
    let value = |i: usize| {
        let b = bits(i);
        if b.is_multiple_of(1501) { SPECIAL[b as usize / 1501 % 3] } else { integer(i) }
    };
    for (name, shapes, call) in CASES {
        let found = values(&call(&leaves(shapes, DType::F32, value)));
        let strict = under(Precision::Strict, || values(&call(&leaves(shapes, DType::F32, value))));
        assert!(strict.iter().any(|x| x.is_nan()) && strict.iter().any(|x| x.is_finite()), "{name}");
        for (i, (a, b)) in found.iter().zip(&strict).enumerate() {
            assert!(a == b || (a.is_nan() && b.is_nan()), "{name}, element {i}: {a}, by windows {b}");
        }
    }
}

/// What is not finite is computed from windows, whose last bits differ.
#[test]
fn images_do_not_change_what_others_give() {
    let _setting = setting();
    for (name, shapes, call) in CASES.iter().filter(|(_, shapes, _)| shapes[0].len() == 4) {
        let plain = values(&call(&leaves(shapes, DType::F32, real)));
        let [image, of_image] =
            [shapes[0].iter().product(), plain.len()].map(|all: usize| all / shapes[0][0]);
        // Every other one.
        for first in 0..2 {
            let is_spoilt = |i: usize, image: usize| (i / image + first).is_multiple_of(2);
            let value = |i: usize| {
                let (number, element) = (i % shapes.len(), i / shapes.len());
                if number == 0 && is_spoilt(element, image) { f32::NAN } else { real(i) }
            };
            let spoilt = values(&call(&leaves(shapes, DType::F32, value)));
            for (i, (plain, found)) in plain.iter().zip(&spoilt).enumerate() {
                let expected = if is_spoilt(i, of_image) { found.is_nan() } else { found == plain };
                assert!(expected, "{name}, element {i}: {found}, of finite images {plain}");
            }
        }
    }
}
