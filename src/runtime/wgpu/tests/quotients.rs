//! Quotients, products, logarithms and powers as GPUs compute them, on an adapter and on one whose division is
//! as rough as a GPU's may be.

use std::sync::Arc;

use super::{as_a_gpu, is_software};
use crate::base::DType;
use crate::plan::context::{Context, with_context};
use crate::runtime::Backend;
use crate::runtime::wgpu::WgpuBackend;
use crate::tensor::Tensor;

/// A device of its own that is taken for a GPU, with its shaders' texts rewritten.
fn dividing(rewrite: Option<fn(&str) -> String>) -> Option<WgpuBackend> {
    as_a_gpu(|own| own.rewrite = rewrite).map(WgpuBackend::of)
}

/// Division by a product with the reciprocal, which is a unit too small and makes zeros of
/// subnormal numbers; and a multiplication that is fused with an addition, which lavapipe's is not.
const ROUGH: &str = "
fn flushed(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    return bitcast<f32>(select(bits, bits & 0x80000000u, (bits & 0x7f800000u) == 0u));
}
fn rough(x: f32, y: f32) -> f32 {
    let r = bitcast<u32>(flushed(1.0 / flushed(y)));
    let finite = (r & 0x7f800000u) != 0x7f800000u && (r & 0x7fffffffu) != 0u;
    return flushed(flushed(x) * flushed(bitcast<f32>(select(r, r - 1u, finite))));
}
fn fused(x: f32, y: f32, z: f32) -> f32 {
    return flushed(f32(f64(x) * f64(y) + f64(z)));
}
";

/// A text with rough division, if it divides.
fn roughly(text: &str) -> String {
    if !text.contains("fn divide_f32(") {
        return text.into();
    }
    let own = [("(a / b)", "(rough(a, b))"), ("rest / b", "rough(rest, b)"), ("fma(-q", "fused(-q")];
    own.iter().fold(text.into(), |text: String, (from, to)| {
        assert!(text.contains(from), "{text}");
        text.replace(from, to)
    }) + ROUGH
}

/// The same without what `divide_f32` does against one or the other.
fn unscaled(text: &str) -> String {
    roughly(text).replace("select(1.0, 0.25, large)", "1.0")
}
fn unmended(text: &str) -> String {
    roughly(text).replace("select(q, nearer, known)", "q")
}
fn unguarded(text: &str) -> String {
    roughly(text).replace("select(q, nearer, known)", "nearer")
}

/// Numbers of every size but subnormal ones, and what is none.
fn numbers() -> Vec<f32> {
    let special = [0.0, f32::INFINITY, f32::NAN, f32::MAX, f32::MIN_POSITIVE, 2f32.powi(126), 3e38, 1.2e-38];
    let whole = (1..80).map(|i| i as f32);
    let spread = (-12..13).map(|i| 1.37 * 1e3f32.powi(i));
    let all: Vec<f32> = special.into_iter().chain(whole).chain(spread).collect();
    all.iter().flat_map(|&x| [x, -x]).collect()
}

/// Whether a quotient is near enough: exact where a number is a multiple; where `flushes`,
/// below 2^-126 anything is.
fn is_right(x: f32, y: f32, have: f32, flushes: bool) -> bool {
    let want = x / y;
    if want.is_nan() || want == 0.0 || want.is_infinite() {
        return have.to_bits() == want.to_bits() || want.is_nan() && have.is_nan();
    }
    if flushes && want.abs() < 1.001 * f32::MIN_POSITIVE {
        return have.abs() < 1.001 * f32::MIN_POSITIVE;
    }
    // What is missing of smaller ones is flushed itself.
    let is_mended = x.abs().min(want.abs()) > 1e-30;
    let is_multiple = f64::from(want) * f64::from(y) == f64::from(x);
    have == want || !(is_mended && is_multiple) && (have - want).abs() <= 2.0 * f32::EPSILON * want.abs()
}

/// The first quotient that a device gets wrong.
fn wrong(backend: WgpuBackend, flushes: bool) -> Option<(f32, f32, f32)> {
    let (name, context) = (backend.device(), Context::new());
    context.install(Arc::new(backend));
    let all = numbers();
    let leaf = |dims: [usize; 2]| Tensor::from_vec(all.clone(), dims, name);
    let have: Vec<f32> =
        with_context(&context, || (leaf([all.len(), 1]) / leaf([1, all.len()])).to_vec().expect("quotients"));
    let pairs = (0..have.len()).map(|i| (all[i / all.len()], all[i % all.len()], have[i]));
    pairs.into_iter().find(|&(x, y, have)| !is_right(x, y, have, flushes))
}

#[test]
fn quotients_of_numbers_of_every_size_are_right() {
    let Some(backend) = dividing(None) else { return };
    let flushes = !is_software(&backend);
    assert_eq!(wrong(backend, flushes), None);
}

#[test]
fn quotients_by_a_rough_reciprocal_are_right() {
    let Some(backend) = dividing(Some(roughly)) else { return };
    if !backend.gpu().target.float64 {
        return println!("skipped: {} has no numbers wide enough", backend.describe());
    }
    assert_eq!(wrong(backend, true), None);
    for planted in [unscaled, unmended, unguarded] {
        let Some(backend) = dividing(Some(planted)) else { return };
        assert!(wrong(backend, true).is_some());
    }
}

/// A compiler that knows of no NaN makes 1 of it.
#[test]
fn what_is_divided_by_itself_is_not_always_one() {
    let Some(backend) = dividing(None) else { return };
    let doubles = backend.gpu().target.float64 && backend.gpu().target.int64;
    let (name, context) = (backend.device(), Context::new());
    context.install(Arc::new(backend));
    with_context(&context, || {
        let x = Tensor::from_vec(vec![0.0f32, -0.0, f32::INFINITY, f32::NAN, 3.0, f32::MAX], [6], name);
        let wide = x.to_dtype(DType::F64);
        let narrow = (&x / &x).to_vec::<f32>().expect("quotients");
        let mut all = vec![narrow];
        if doubles {
            all.push((&wide / &wide).to_dtype(DType::F32).to_vec().expect("quotients"));
        }
        for have in all {
            assert!(have[..4].iter().all(|y| y.is_nan()) && have[4..] == [1.0, 1.0], "{have:?}");
        }
    });
}

/// A compiler that sees that a position is zero drops the product with it.
#[test]
fn an_infinity_times_a_position_that_is_zero_is_no_number() {
    let Some(backend) = dividing(None) else { return };
    let (name, context) = (backend.device(), Context::new());
    context.install(Arc::new(backend));
    with_context(&context, || {
        let infinities = Tensor::from_vec(vec![f32::INFINITY; 3], [3, 1], name);
        // One position that is 0, and one of two that is.
        for count in [1, 2] {
            let positions = Tensor::arange(0, count, 1, name).to_dtype(DType::F32);
            let have = (&infinities * positions).to_vec::<f32>().expect("products");
            let is_right = |(at, y): (usize, &f32)| match at as i64 % count {
                0 => y.is_nan(),
                _ => *y == f32::INFINITY,
            };
            assert!(have.iter().enumerate().all(is_right), "{have:?}");
        }
    });
}

/// Of which a multiplication may make zeros.
#[test]
fn logarithms_and_powers_of_subnormal_numbers_are_right() {
    let Some(backend) = dividing(None) else { return };
    let (name, context) = (backend.device(), Context::new());
    context.install(Arc::new(backend));
    let numbers = [1e-45f32, 3e-42, 1e-39, 1.1e-38, 1.2e-38, 1e-37, 0.5, 3e38];
    let logs = with_context(&context, || {
        let x = || Tensor::from_vec(numbers.to_vec(), [numbers.len()], name);
        [x().log(), x().log2(), x().pow(0.375)].map(|y| y.to_vec::<f32>().expect("logarithms"))
    });
    for (i, x) in numbers.iter().map(|&x| f64::from(x)).enumerate() {
        let all = [(x.ln(), logs[0][i]), (x.log2(), logs[1][i]), (x.powf(0.375), logs[2][i])];
        for (want, have) in all {
            let have = f64::from(have);
            assert!((want - have).abs() <= 2e-6 * want.abs(), "of {x}: {have}, not {want}");
        }
    }
}
