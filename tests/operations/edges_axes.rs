//! Values and gradients of operations over axes where their formulas degenerate: at zeros, ties,
//! infinities and the ends of the types' ranges.

use kiln::opts::{HeadProjections, HuberLossOpts, MaxPoolOpts, MultiHeadOpts, MultiMarginLossOpts};
use kiln::opts::{MatrixNorm, PairwiseDistanceOpts};
use kiln::prelude::*;
use kiln::{Device, grad};

use crate::support::adapter::adapter;

const INF: f64 = f64::INFINITY;

fn devices() -> Vec<Device> {
    [Device::cpu()].into_iter().chain(adapter()).collect()
}

fn f32s(shape: &[usize], values: &[f64], device: Device) -> Tensor {
    let values: Vec<f32> = values.iter().map(|&v| v as f32).collect();
    Tensor::from_vec(values, shape, device)
}

/// Equal to a ten thousandth; NaN only to NaN.
fn assert_close(what: &str, found: &Tensor, expected: &[f64]) {
    let found = found.to(Device::cpu()).to_dtype(DType::F64).to_vec::<f64>().unwrap();
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(expected) {
        let bound = if *expected == 0.0 { 1e-5 } else { 1e-4 * expected.abs() };
        let same =
            found == expected || found.is_nan() && expected.is_nan() || (found - expected).abs() <= bound;
        assert!(same, "{what}: {found}, expected {expected}");
    }
}

/// The gradient of the sum of `f(x)`, on every device.
fn assert_slope(what: &str, x: &[f64], shape: &[usize], f: impl Fn(&Tensor) -> Tensor, expected: &[f64]) {
    for device in devices() {
        let x = f32s(shape, x, device).with_requires_grad();
        let slope = &grad(&f(&x).sum(..), &[&x])[0];
        assert_close(&format!("{what} on {device}"), slope, expected);
    }
}

#[test]
fn distances_of_equal_points_have_no_slope() {
    for (p, expected) in [(2.0, [-4.0, 0.0, 4.0]), (3.0, [-4.0, 0.0, 4.0]), (1.5, [-4.0, 0.0, 4.0])] {
        assert_slope("cdist", &[0.0, 1.0, 3.0], &[3, 1], |x| x.cdist(x, p), &expected);
    }
    let exact = || PairwiseDistanceOpts::default().eps(0.0);
    assert_slope(
        "pairwise",
        &[1.0, 2.0],
        &[1, 2],
        |x| x.pairwise_distance(&Tensor::from([[1.0f32, 2.0]]).to(x.device()), exact()),
        &[0.0; 2],
    );
    let along = |x: &Tensor| x.cosine_similarity(&Tensor::from([[1.0f32, 1.0]]).to(x.device()), 1, 1e-8);
    assert_slope("cosine", &[0.0, 0.0], &[1, 2], along, &[0.5f64.sqrt() * 1e8; 2]);
}

#[test]
fn norms_keep_their_slope_in_small_and_large() {
    for x in [0.0, 1e-25] {
        assert_slope("normalize", &[x; 2], &[1, 2], |x| x.normalize(2.0, 1, 1e-12), &[1e12; 2]);
    }
    for p in [0.5, 1.5, 2.0, 3.0] {
        assert_slope("norm", &[0.0; 2], &[2], |x| x.norm(p, ..), &[0.0; 2]);
        assert_slope("norm", &[0.0, -2.0], &[2], |x| x.norm(p, ..), &[0.0, -1.0]);
    }
    assert_slope(
        "frobenius",
        &[0.0; 4],
        &[2, 2],
        |x| x.matrix_norm(MatrixNorm::Frobenius, [0, 1]),
        &[0.0; 4],
    );
    for device in devices() {
        let x = f32s(&[2], &[INF, -INF], device);
        assert_close("negative order", &x.norm(-2.0, ..), &[INF]);
        let none = Tensor::zeros([2, 0], device);
        for p in [INF, -INF, -1.0] {
            assert!(none.norm(p, 1).to_vec::<f32>().unwrap_err().to_string().contains("norm"));
        }
        assert_close("an empty axis", &none.norm(2.0, 1), &[0.0; 2]);
        assert_close("no distance", &none.cdist(&none, INF), &[0.0; 4]);
    }
}

#[test]
fn second_derivatives_of_norms_and_deviations() {
    // Of a norm: (1 - u u') / y; of a deviation: as of a norm of what is centred.
    let x = Tensor::from([3.0f64, 4.0]).with_requires_grad();
    let slope = &grad(&x.norm(2.0, ..), &[&x])[0];
    let curvature = &grad(&slope.i(0), &[&x])[0];
    assert_close("norm", curvature, &[(1.0 - 0.36) / 5.0, -0.48 / 5.0]);
    let cubic = &grad(&grad(&x.norm(3.0, ..), &[&x])[0].i(0), &[&x])[0];
    let y = 91f64.cbrt();
    assert_close("norm 3", cubic, &[6.0 / y.powi(2) - 2.0 * 81.0 / y.powi(5), -2.0 * 144.0 / y.powi(5)]);
    let x = Tensor::from([1.0f64, 2.0, 4.0]).with_requires_grad();
    let rooted = |x: &Tensor| x.var(..).sqrt();
    let second = |f: &dyn Fn(&Tensor) -> Tensor| grad(&grad(&f(&x), &[&x])[0].i(0), &[&x])[0].clone();
    let expected = second(&rooted).to_vec::<f64>().unwrap();
    assert_close("std", &second(&|x| x.std(..)), &expected);
    let zeros = Tensor::from([0.0f64, 0.0]).with_requires_grad();
    let slope = &grad(&zeros.norm(2.0, ..), &[&zeros])[0];
    assert_close("norm at 0", &grad(&slope.sum(..), &[&zeros])[0], &[0.0; 2]);
}

#[test]
fn deviations_in_all_of_a_types_range() {
    assert_slope("std", &[2.0; 3], &[3], |x| x.std(0), &[0.0; 3]);
    assert_slope("std_mean", &[2.0; 3], &[3], |x| x.std_mean(0, VarOpts::default()).0, &[0.0; 3]);
    let root = 0.5f64.sqrt();
    for scale in [1e-40, 1e-25, 1.0, 1e18, 1e20, 1e38] {
        assert_slope("std", &[0.0, scale, 2.0 * scale], &[3], |x| x.std(0), &[-0.5, 0.0, 0.5]);
        for device in devices() {
            let x = f32s(&[2], &[-scale, scale], device);
            // Subnormal results are zeros on some devices.
            if scale > 1e-37 {
                assert_close("std", &x.std(0), &[scale / root]);
            }
        }
    }
    let x = Tensor::from([-1e200f64, 1e200]);
    assert_close("std of f64", &x.std(0), &[1e200 / root]);
}

#[test]
fn losses_have_finite_slopes() {
    let targets = |x: &Tensor| f32s(&[4], &[0.0, 1.0, 1.0, 0.0], x.device());
    let entropy = |x: &Tensor| {
        x.binary_cross_entropy(
            &targets(x),
            kiln::opts::BinaryCrossEntropyOpts::default().reduction(Reduction::Sum),
        )
    };
    assert_slope("bce", &[0.0, 1.0, 0.0, 1.0], &[4], entropy, &[0.0, 0.0, -1e12, 1e12]);
    let zero = |x: &Tensor| Tensor::zeros([3], x.device());
    let huber =
        |x: &Tensor| x.huber_loss(&zero(x), HuberLossOpts::default().delta(2.0).reduction(Reduction::Sum));
    assert_slope("huber", &[INF, -INF, 1.0], &[3], huber, &[2.0, -2.0, 1.0]);
    let smooth = |x: &Tensor| {
        x.smooth_l1_loss(
            &zero(x),
            kiln::opts::SmoothL1LossOpts::default().beta(2.0).reduction(Reduction::Sum),
        )
    };
    assert_slope("smooth_l1", &[INF, -INF, 1.0], &[3], smooth, &[1.0, -1.0, 0.5]);
    let margin = |x: &Tensor| {
        let target = Tensor::from([0i64]).to(x.device());
        x.multi_margin_loss(&target, MultiMarginLossOpts::default().p(2))
    };
    assert_slope("multi_margin", &[INF, 1.0, 2.0], &[1, 3], margin, &[0.0; 3]);
    // Below eps, the slope in the variance is that at eps.
    let gauss = |var: &Tensor| {
        let (x, y) = (Tensor::ones([1], var.device()), Tensor::zeros([1], var.device()));
        x.gaussian_nll_loss(&y, var, kiln::opts::GaussianNllLossOpts::default().eps(0.5))
    };
    assert_slope("gaussian_nll", &[0.1], &[1], gauss, &[0.5 * (2.0 - 4.0)]);
}

#[test]
fn pools_of_nothing_but_the_least_value_keep_their_gradient() {
    let opts = || MaxPoolOpts::default().stride(1).padding(1);
    let pool = |x: &Tensor| x.unsqueeze(0).unsqueeze(0).max_pool1d(3, opts());
    assert_slope("max_pool1d", &[-INF; 4], &[4], pool, &[2.0, 1.0, 1.0, 0.0]);
    let wide = |x: &Tensor| x.unsqueeze(0).unsqueeze(0).max_pool1d(3, opts().dilation(2));
    assert_slope("max_pool1d", &[-INF; 4], &[4], wide, &[1.0, 1.0, 0.0, 0.0]);
    let plane = |x: &Tensor| x.unsqueeze(0).unsqueeze(0).max_pool2d(3, opts());
    assert_slope("max_pool2d", &[-INF; 4], &[2, 2], plane, &[4.0, 0.0, 0.0, 0.0]);
    for device in devices() {
        let x = f32s(&[1, 1, 4], &[-INF; 4], device);
        let (_, position) = x.max_pool1d_with_indices(3, opts());
        assert_close("positions", &position, &[0.0, 0.0, 1.0, 2.0]);
    }
}

#[test]
fn determinants_of_singular_matrices_have_their_adjugate() {
    let a = [1.0, 2.0, 2.0, 4.0];
    assert_slope("det", &a, &[2, 2], Tensor::det, &[4.0, -2.0, -2.0, 1.0]);
    assert_slope("det of nothing", &[0.0; 4], &[2, 2], Tensor::det, &[0.0; 4]);
    assert_slope("det of a zero", &[0.0], &[1, 1], Tensor::det, &[1.0]);
    let rank1 = [1.0, 2.0, 3.0, 2.0, 4.0, 6.0, -1.0, -2.0, -3.0];
    assert_slope("rank 1 of 3", &rank1, &[3, 3], Tensor::det, &[0.0; 9]);
    let both = [a, [1.0, 2.0, 3.0, 4.0]].concat();
    assert_slope("a batch", &both, &[2, 2, 2], Tensor::det, &[4.0, -2.0, -2.0, 1.0, 4.0, -3.0, -2.0, 1.0]);
    // The cofactor of the first element is the last.
    let x = Tensor::from([[1.0f64, 2.0], [2.0, 4.0]]).with_requires_grad();
    let slope = &grad(&x.det(), &[&x])[0];
    let second = grad(&slope.reshape([4]).i(0), &[&x])[0].to_vec::<f64>().unwrap();
    for (found, expected) in second.iter().zip([0.0, 0.0, 0.0, 1.0]) {
        assert!((found - expected).abs() < 1e-9, "second derivative: {second:?}");
    }
}

#[test]
fn quantiles_beside_infinities() {
    for device in devices() {
        let x = f32s(&[4], &[-INF, 1.0, INF, INF], device);
        for (q, expected) in [(0.0, -INF), (0.4, INF), (0.9, INF), (1.0, INF)] {
            assert_close("quantile", &x.quantile(q, .., Default::default()), &[expected]);
        }
    }
}

#[test]
fn attention_without_weights_gives_zeros_where_all_is_hidden() {
    for device in devices() {
        let ones = |shape: &[usize]| Tensor::ones(shape.to_vec(), device);
        let projections = HeadProjections {
            input_weight: ones(&[12, 4]),
            input_bias: None,
            output_weight: ones(&[4, 4]),
            output_bias: None,
        };
        let x = ones(&[3, 1, 4]).with_requires_grad();
        let hide = Tensor::from([[true, true, true]]).to(device);
        let opts = |wanted| MultiHeadOpts::default().key_padding_mask(&hide).need_weights(wanted);
        let attend = |wanted| x.multi_head_attention_forward(&x, &x, 2, &projections, opts(wanted)).0;
        assert_close("without weights", &attend(false), &[0.0; 12]);
        assert_close("its slope", &grad(&attend(false).sum(..), &[&x])[0], &[0.0; 12]);
        assert_close("with weights", &attend(true), &[f64::NAN; 12]);
    }
}
