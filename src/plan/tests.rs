//! Realize against the oracle, by hand-built cases.

use crate::base::{DType, Span};
use crate::ir::op::{PadAxis, WindowAxis};
use crate::ir::{AluOp, Monoid, Op, ScatterMode};
use crate::plan::context::{Context, with_context};
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;
use crate::tensor::control;
use crate::tensor::testing::{i64s, pattern};

mod attention;
mod compile;
pub(crate) mod joint;
mod liveness;
mod pieces;

/// Realizes the tensors together and compares each with the oracle; gives
/// the number of kernels launched.
#[track_caller]
fn agrees(tensors: &[&Tensor]) -> u64 {
    let expected = Tensor::oracle(tensors).expect("the oracle runs");
    let context = Context::new();
    with_context(&context, || {
        crate::tensor::read::realize(tensors).expect("realize runs");
        for (tensor, expected) in tensors.iter().zip(&expected) {
            let bytes = tensor.read("test", Span::caller()).expect("readable");
            let found = crate::ir::oracle::Value::from_bytes(expected.ty.clone(), &bytes).to_f64();
            let expected = expected.to_f64();
            assert_eq!(found.len(), expected.len());
            for (i, (a, b)) in found.iter().zip(&expected).enumerate() {
                let close = (a - b).abs() <= 1e-5 * b.abs().max(1.0) || a == b || (a.is_nan() && b.is_nan());
                assert!(close, "element {i}: {a} for {b}\n{found:?}\n{expected:?}");
            }
        }
    });
    context.counters().kernels_launched
}

fn site() -> CallSite {
    CallSite::here("test")
}

fn softmax(x: &Tensor, axis: usize) -> Tensor {
    let s = site();
    let e = s.unary(AluOp::Exp, &s.sub(x, s.reduce_keepdim(Monoid::Max, x, &[axis])));
    s.div(&e, s.reduce_keepdim(Monoid::Sum, &e, &[axis]))
}

#[test]
fn elementwise_chain_is_one_kernel() {
    let (a, b) = (pattern(&[4, 6], 1), pattern(&[4, 6], 2));
    let y = ((&a * 2.0 + &b) / (&a * &a + 1.0)) - &b;
    assert_eq!(agrees(&[&y]), 1);
}

#[test]
fn softmax_is_one_kernel_on_any_axis() {
    for axis in 0..3 {
        let x = pattern(&[3, 4, 5], axis);
        assert_eq!(agrees(&[&softmax(&x, axis)]), 1);
    }
}

#[test]
fn layer_norm_with_affine_is_one_kernel() {
    let s = site();
    let (x, g, b) = (pattern(&[6, 8], 1), pattern(&[8], 2), pattern(&[8], 3));
    let mean = s.mean_keepdim(&x, &[1]);
    let d = &x - &mean;
    let var = s.mean_keepdim(&(&d * &d), &[1]);
    let y = &d / &s.unary(AluOp::Sqrt, &(var + 1e-5)) * &g + &b;
    assert_eq!(agrees(&[&y]), 1);
}

#[test]
fn mean_and_deviations_of_one_input_are_one_kernel() {
    let s = site();
    let x = pattern(&[6, 8], 1);
    let (mean, m2) = (s.mean_keepdim(&x, &[1]), s.reduce(Monoid::M2, &x, &[1]));
    assert_eq!(agrees(&[&mean, &m2]), 1);
}

/// Each the deviations from means over other axes than the result has.
#[test]
fn rows_are_the_axes_that_a_reduction_joins_or_splits() {
    let deviations = |shape: &[usize], split: &[usize], kept: &[usize]| {
        let s = site();
        let x = pattern(shape, 1);
        let axes: Vec<usize> = (0..split.len()).filter(|&axis| split[axis] != kept[axis]).collect();
        let mean = s.mean_keepdim(&s.reshape(&x, split), &axes);
        let wide = s.sub(s.reshape(&x, split), &mean);
        agrees(&[&(s.reshape(&wide, shape) * pattern(&shape[1..], 2))])
    };
    // Channels in groups, as a group's elements or as channels of elements.
    assert_eq!(deviations(&[4, 6, 3, 5], &[4, 2, 45], &[4, 2, 1]), 1);
    assert_eq!(deviations(&[4, 6, 3, 5], &[4, 2, 3, 15], &[4, 2, 1, 1]), 1);
    // An axis that belongs to two.
    assert_eq!(deviations(&[8, 12], &[8, 3, 4], &[8, 1, 1]), 1);
    assert_eq!(deviations(&[8, 10, 6], &[8, 5, 12], &[8, 1, 1]), 1);
    // Axes that divide nowhere.
    assert_eq!(deviations(&[4, 2, 5], &[4, 5, 2], &[4, 1, 1]), 2);
}

#[test]
fn results_of_one_input_in_several_shapes_are_one_kernel() {
    let s = site();
    let x = pattern(&[6, 8], 1);
    let flat = s.reshape(&x, &[48]);
    let apart = s.reshape(&x, &[2, 3, 8]);
    assert_eq!(agrees(&[&(&x * 2.0), &(&flat + 1.0), &(&apart * &apart)]), 1);
}

#[test]
fn matmul_takes_bias_activation_and_residual() {
    let s = site();
    let (a, b, bias, r) = (pattern(&[4, 6], 1), pattern(&[6, 5], 2), pattern(&[5], 3), pattern(&[4, 5], 4));
    let y = s.unary(AluOp::Tanh, &(s.contract(&a, &b, &[], &[(1, 0)]) + &bias)) + &r;
    assert_eq!(agrees(&[&y]), 1);
}

#[test]
fn reshapes_split_axes_instead_of_dividing() {
    let s = site();
    let x = pattern(&[4, 6], 1);
    let y = s.reshape(&s.transpose(&s.reshape(&x, &[2, 2, 6]), 0, 1), &[4, 6]);
    assert_eq!(agrees(&[&(&y + &x)]), 1);
    let odd = s.reshape(&s.transpose(&x, 0, 1), &[3, 8]);
    assert_eq!(agrees(&[&(&odd * 2.0)]), 1);
}

#[test]
fn padding_windows_and_their_adjoint() {
    let s = site();
    let x = pattern(&[2, 7], 1);
    let axes = vec![PadAxis::default(), PadAxis { lo: 2, hi: 1, interior: 1 }];
    let padded = s.pad(&(&x + 1.0), axes, 3.0);
    agrees(&[&padded]);
    for (stride, dilation) in [(1, 1), (2, 1), (1, 2), (3, 2)] {
        let window = WindowAxis { axis: 1, size: 3, stride, dilation };
        let windows = s.window(&padded, window);
        agrees(&[&windows]);
        agrees(&[&s.unwindow(&windows, window, 16)]);
    }
}

#[test]
fn gather_and_scatter() {
    let s = site();
    let (x, index) = (pattern(&[5, 3], 1), i64s(&[4, 3], &[0, 1, 2, 4, 4, 4, 3, 0, 1, 2, 2, 2]));
    agrees(&[&s.gather(&(&x * 2.0), 0, &index)]);
    let updates = pattern(&[4, 3], 2);
    for mode in [ScatterMode::Set, ScatterMode::Add, ScatterMode::Mul, ScatterMode::Max, ScatterMode::Min] {
        let op = Op::Scatter(0, mode);
        let y = Tensor::apply("scatter", Span::caller(), op.clone(), &[&x, &index, &(&updates + 1.0)]);
        agrees(&[&(&y + 1.0)]);
        let base = &x * 2.0;
        agrees(&[&Tensor::apply("scatter", Span::caller(), op, &[&base, &index, &updates])]);
    }
}

#[test]
fn sorts_scans_and_loops() {
    let s = site();
    let x = pattern(&[4, 6], 3);
    for count in [6, 2] {
        let op = Op::Sort { axis: 1, descending: true, count };
        let sort = Tensor::apply("sort", Span::caller(), op, &[&x]);
        agrees(&[&s.gather(&x, 1, &sort)]);
    }
    for axis in 0..2 {
        let scan = |m| Tensor::apply("scan", Span::caller(), Op::Scan(m, axis), &[&(&x * 0.5)]);
        agrees(&[&(scan(Monoid::Sum) + 1.0), &scan(Monoid::LogSumExp)]);
    }
    let out = control::fori_loop(3, std::slice::from_ref(&x), |i, c| {
        vec![&c[0] * 0.5 + &x + i.clone().cast_as("cast", DType::F32, Span::caller())]
    });
    agrees(&[&out[0]]);
}

#[test]
fn a_shared_product_is_computed_once() {
    let s = site();
    let (a, b) = (pattern(&[4, 6], 1), pattern(&[6, 5], 2));
    let p = s.contract(&a, &b, &[], &[(1, 0)]);
    assert_eq!(agrees(&[&(&p + 1.0), &softmax(&p, 1)]), 2);
}

#[test]
fn reductions_share_and_nest() {
    let s = site();
    let x = pattern(&[6, 8], 1);
    let total = s.reduce(Monoid::Sum, &softmax(&x, 1), &[0, 1]);
    agrees(&[&total]);
    let logp = s.unary(AluOp::Log, &softmax(&x, 1));
    let target = i64s(&[6, 1], &[0, 3, 1, 7, 2, 2]);
    let nll = s.mean_keepdim(&s.gather(&logp, 1, &target), &[0, 1]) * -1.0;
    assert_eq!(agrees(&[&nll]), 1);
}

#[test]
fn a_reduction_of_one_element_shares_no_kernel_with_a_product() {
    let s = site();
    let reduced = s.reduce(Monoid::M2, &pattern(&[1], 1), &[0]);
    let product = s.contract(&pattern(&[], 2), &reduced, &[], &[]);
    assert_eq!(agrees(&[&s.contract(&reduced, &product, &[], &[])]), 3);
}

#[test]
fn movement_of_data_in_memory_is_a_view() {
    let s = site();
    let x = pattern(&[4, 6], 1);
    let y = s.slice(&s.transpose(&s.reshape(&x, &[2, 2, 6]), 1, 2), 1, 1, 6, 2);
    assert_eq!(agrees(&[&s.expand(&s.unsqueeze(&y, 0), &[3, 2, 3, 2])]), 0);
    assert_eq!(agrees(&[&s.window(&x, WindowAxis { axis: 1, size: 2, stride: 2, dilation: 3 })]), 0);
    assert_eq!(agrees(&[&s.reshape(&s.transpose(&x, 0, 1), &[24])]), 1);
    assert_eq!(agrees(&[&(&y * 2.0)]), 1);
}

#[test]
fn windows_summed_back_under_slices_and_padding() {
    let s = site();
    for seed in 0..6 {
        let x = s.expand(&pattern(&[1, 2], seed), &[4, 2]);
        let y = &x * &s.unary(AluOp::Floor, &x);
        let product = s.contract(&y, &x, &[(1, 1)], &[]);
        let window = WindowAxis { axis: 0, size: 4, stride: 1, dilation: 1 };
        let summed = s.unwindow(&product, window, 5);
        let row = s.slice(&s.slice(&summed, 0, 3, 5, 3), 1, 0, 4, 2);
        let padded = s.pad(
            &s.expand(&-(row + 4.0), &[2, 2]),
            vec![PadAxis { lo: 0, hi: 2, interior: 0 }, PadAxis { lo: 2, hi: -1, interior: 0 }],
            0.0,
        );
        agrees(&[&padded]);
    }
}

#[test]
fn loops_of_any_length_share_the_plan_of_their_body() {
    let context = Context::new();
    with_context(&context, || {
        let body_of = |length: usize, factor: f64| {
            let xs = pattern(&[length, 3], 1);
            let start = [pattern(&[3], 2)];
            let (sums, _) = control::scan(&start, &[xs], |sum, x| (vec![&sum[0] + &x[0] * factor], vec![]));
            let node = sums[0].node().expect("a valid loop").clone();
            let plan = crate::plan::realize::planned(&context, &[node]);
            plan.bodies.values().next().cloned().expect("a loop has a body")
        };
        let first = body_of(4, 0.5);
        assert!(std::sync::Arc::ptr_eq(&first, &body_of(7, 0.5)), "another length planned the body again");
        assert!(!std::sync::Arc::ptr_eq(&first, &body_of(4, 0.25)), "another body has the same plan");
    });
    let counters = context.counters();
    assert_eq!((counters.plans_built, counters.plans_resized), (1, 2));
}
