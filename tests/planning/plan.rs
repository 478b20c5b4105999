//! How many kernels things take, and how many bytes they move: on the CPU, on
//! the null device and on a wgpu adapter, at the shapes named. A row kernel needs twice as many
//! rows as the device has workers; all shapes here have enough for machines
//! of up to 128.

use std::collections::HashSet;

use crate::adapter;
use kiln::opts::ConvOpts;
use kiln::opts::NllLossOpts;
use kiln::opts::VarOpts;
use kiln::prelude::*;
use kiln::{Context, Device, assert_bytes_moved, assert_kernels, assert_peak_bytes, context, with_context};

const F32: u64 = 4;

/// Runs the body once a device, each time with caches and counters of its own.
fn on_each_device(body: impl Fn(Device)) {
    for device in [Device::cpu(), Device::null()].into_iter().chain(adapter::narrow_adapter()) {
        with_context(&Context::new(), || body(device));
    }
}

/// A tensor in the device's memory.
fn leaf<const N: usize>(dims: [usize; N], device: Device) -> Tensor {
    let count: usize = dims.iter().product();
    let values: Vec<f32> = (0..count).map(|i| (i % 17) as f32 / 8.0 - 1.0).collect();
    let x = Tensor::from_vec(values, dims, device);
    x.realize().expect("memory for a test");
    x
}

/// Plans, then computes, and checks that running does what the plan said and
/// found the plan in the cache. Gives the plan.
#[track_caller]
fn runs_as_planned(tensors: &[&Tensor]) -> PlanReport {
    let report = kiln::plan(tensors).expect("a plan");
    let before = context().counters();
    realize(tensors).expect("running it");
    let after = context().counters();
    assert_eq!(after.plans_built, before.plans_built, "the plan was not found again\n{report}");
    assert_eq!(after.cache_hits, before.cache_hits + 1);
    assert_eq!(after.kernels_launched - before.kernels_launched, report.launches(), "{report}");
    assert_eq!(after.bytes_moved - before.bytes_moved, report.bytes_moved(), "{report}");
    report
}

#[test]
fn a_chain_of_eight_elementwise_operations_is_one_kernel() {
    on_each_device(|device| {
        let (a, b) = (leaf([512, 256], device), leaf([512, 256], device));
        let y = ((((&a * 2.0 + &b).tanh() - &b) * &a).exp() + 1.0).sqrt() / &b;
        let plan = runs_as_planned(&[&y]);
        assert_kernels!(plan, 1);
        assert_bytes_moved!(plan, == 3 * 512 * 256 * F32);
        assert_peak_bytes!(plan, == 3 * 512 * 256 * F32);
    });
}

#[test]
fn a_hundred_dependent_adds_are_one_kernel() {
    on_each_device(|device| {
        let (x, y) = (leaf([1000], device), leaf([1000], device));
        let sum = (0..100).fold(x, |sum, _| sum + &y);
        let plan = runs_as_planned(&[&sum]);
        assert_kernels!(plan, 1);
        assert_bytes_moved!(plan, == 3 * 1000 * F32);
    });
}

#[test]
fn softmax_is_one_kernel_that_reads_its_input_once() {
    on_each_device(|device| {
        let plan = runs_as_planned(&[&leaf([512, 1000], device).softmax(-1)]);
        assert_kernels!(plan, 1);
        assert_bytes_moved!(plan, == 2 * 512 * 1000 * F32);
    });
}

#[test]
fn layer_norm_with_weight_and_bias_is_one_kernel() {
    on_each_device(|device| {
        let x = leaf([512, 768], device);
        let opts = NormOpts::default().weight(&leaf([768], device)).bias(&leaf([768], device));
        let plan = runs_as_planned(&[&x.layer_norm([768], opts)]);
        assert_kernels!(plan, 1);
        assert_bytes_moved!(plan, == (2 * 512 * 768 + 2 * 768) * F32);
    });
}

#[test]
fn variance_and_mean_of_one_input_are_one_kernel() {
    on_each_device(|device| {
        let x = leaf([512, 1024], device);
        let (var, mean) = (x.var(-1), x.mean(-1));
        let plan = runs_as_planned(&[&var, &mean]);
        assert_kernels!(plan, 1);
        assert_bytes_moved!(plan, == (512 * 1024 + 2 * 512) * F32);
        let y = leaf([512, 1024], device);
        let (var, mean) = y.var_mean(-1, VarOpts::default());
        assert_kernels!([&var, &mean], 1);
    });
}

#[test]
fn matmul_with_bias_gelu_and_residual_is_one_kernel() {
    on_each_device(|device| {
        let (x, w) = (leaf([128, 64], device), leaf([64, 64], device));
        let (bias, residual) = (leaf([64], device), leaf([128, 64], device));
        let plan = runs_as_planned(&[&((x.matmul(&w) + &bias).gelu() + &residual)]);
        assert_kernels!(plan, 1);
        assert_bytes_moved!(plan, == (3 * 128 * 64 + 64 * 64 + 64) * F32);
    });
}

#[test]
fn an_activation_between_products_is_the_one_value_stored() {
    on_each_device(|device| {
        let (x, w, bias) = (leaf([256, 128], device), leaf([128, 512], device), leaf([512], device));
        let back = leaf([512, 128], device);
        let plan = runs_as_planned(&[&(x.matmul(&w) + &bias).gelu_tanh().matmul(&back)]);
        assert_kernels!(plan, 2);
        assert_bytes_moved!(plan, == (2 * 256 * 128 + 2 * 128 * 512 + 512 + 2 * 256 * 512) * F32);
    });
}

#[test]
fn a_norm_before_a_product_stores_what_the_product_reads() {
    on_each_device(|device| {
        let (x, weight, bias) = (leaf([256, 128], device), leaf([128], device), leaf([128], device));
        let w = leaf([128, 512], device);
        let norm = x.layer_norm([128], NormOpts::default().weight(&weight).bias(&bias));
        let plan = runs_as_planned(&[&norm.matmul(&w)]);
        assert_kernels!(plan, 2);
        assert_bytes_moved!(plan, == (3 * 256 * 128 + 2 * 128 + 128 * 512 + 256 * 512) * F32);
    });
}

#[test]
fn a_value_stored_for_others_is_read_by_the_product_that_continues_it() {
    on_each_device(|device| {
        let (x, w, back) = (leaf([256, 128], device), leaf([128, 512], device), leaf([512, 128], device));
        let hidden = x.matmul(&w);
        let plan = runs_as_planned(&[&hidden, &hidden.relu().matmul(&back)]);
        assert_kernels!(plan, 2);
        assert_bytes_moved!(plan, == (2 * 256 * 128 + 2 * 128 * 512 + 2 * 256 * 512) * F32);
    });
}

#[test]
fn gradients_compute_an_activation_again_from_its_argument() {
    on_each_device(|device| {
        let (x, seed) = (leaf([256, 128], device), leaf([256, 128], device));
        let (w, back) =
            (leaf([128, 512], device).with_requires_grad(), leaf([512, 128], device).with_requires_grad());
        let loss = (x.matmul(&w).gelu().matmul(&back) * &seed).sum(..);
        let gradients = kiln::grad(&loss, &[&w, &back]);
        let plan = runs_as_planned(&[&gradients[0], &gradients[1]]);
        assert_kernels!(plan, 4);
        // Of the hidden values, the product and the activation are stored, the product's
        // cotangent is, and each is read once.
        assert_bytes_moved!(plan, == (4 * 256 * 128 + 4 * 128 * 512 + 6 * 256 * 512) * F32);
    });
}

#[test]
fn gradients_of_convolutions_store_no_windows() {
    on_each_device(|device| {
        let x = leaf([4, 8, 16, 16], device).with_requires_grad();
        let weight = leaf([8, 8, 3, 3], device).with_requires_grad();
        let seed = leaf([4, 8, 16, 16], device);
        let loss = (x.conv2d(&weight, None, ConvOpts::default().padding(1)) * &seed).sum(..);
        let gradients = kiln::grad(&loss, &[&x, &weight]);
        let plan = runs_as_planned(&[&gradients[0], &gradients[1]]);
        assert_kernels!(plan, 2);
        assert_bytes_moved!(plan, == (4 * 4 * 8 * 256 + 2 * 8 * 8 * 9) * F32);
    });
}

#[test]
fn log_softmax_and_the_mean_of_the_targets_are_one_kernel() {
    on_each_device(|device| {
        let scores = leaf([256, 100], device);
        let targets = Tensor::from_vec((0..256i64).map(|i| i % 100).collect(), [256], device);
        targets.realize().expect("memory for a test");
        let loss = scores.log_softmax(-1).nll_loss(&targets, NllLossOpts::default());
        let plan = runs_as_planned(&[&loss]);
        assert_kernels!(plan, 1);
        assert_bytes_moved!(plan, == (256 * 100 + 1) * F32 + 256 * 8);
    });
}

#[test]
fn movement_followed_by_an_add_is_one_kernel() {
    on_each_device(|device| {
        let (x, y) = (leaf([64, 96], device), leaf([96, 64], device));
        let moved = x.t().flip(0).reshape([32, 3, 64]).permute([2, 0, 1]).reshape([64, 96]).t();
        let plan = runs_as_planned(&[&(moved + &y)]);
        assert_kernels!(plan, 1);
        assert_bytes_moved!(plan, == 3 * 64 * 96 * F32);
    });
}

#[test]
fn a_product_used_twice_is_computed_once() {
    on_each_device(|device| {
        let (a, b) = (leaf([128, 64], device), leaf([64, 128], device));
        let product = a.matmul(&b);
        let (first, second) = (product.tanh(), product.sum(-1) * 2.0);
        let plan = runs_as_planned(&[&first, &second]);
        assert!(plan.recomputed.is_empty(), "{plan}");
        assert_kernels!(plan, 2);
        assert_bytes_moved!(plan, == (2 * 128 * 64 + 3 * 128 * 128 + 128) * F32);
    });
}

/// How many kernels a plan holds, however often it launches them.
fn distinct(report: &PlanReport) -> usize {
    report.kernels.iter().map(|kernel| std::ptr::from_ref(kernel.work())).collect::<HashSet<_>>().len()
}

#[test]
fn equal_kernels_of_a_plan_are_one() {
    on_each_device(|device| {
        let (x, w) = (leaf([8, 8], device), leaf([8, 8], device));
        let report = runs_as_planned(&[&(0..50).fold(x.clone(), |x, _| x.matmul(&w).tanh())]);
        assert_eq!((report.launches(), distinct(&report)), (50, 1), "{report}");
        // Each with a number of its own.
        let report = runs_as_planned(&[&(0..5).fold(x, |x, i| (x.matmul(&w) + 0.5 * f64::from(i)).tanh())]);
        assert_eq!((report.launches(), distinct(&report)), (5, 5), "{report}");
    });
}

#[test]
fn a_deeper_model_of_equal_layers_has_no_more_kernels() {
    let plan_of = |depth: usize, device: Device| {
        let weights: Vec<Tensor> = (0..depth).map(|_| leaf([16, 16], device).with_requires_grad()).collect();
        let layer = |x: Tensor, w: &Tensor| (x.layer_norm([16], Default::default()).matmul(w)).gelu() + x;
        let loss = weights.iter().fold(leaf([256, 16], device), layer).square().mean(..);
        let gradients = kiln::grad(&loss, &weights.iter().collect::<Vec<_>>());
        kiln::plan(&gradients.iter().collect::<Vec<_>>()).expect("a plan")
    };
    on_each_device(|device| {
        let (shallow, deep) = (plan_of(6, device), plan_of(12, device));
        assert!(deep.launches() > 3 * shallow.launches() / 2, "{shallow}\n{deep}");
        assert_eq!(distinct(&deep), distinct(&shallow), "{deep}");
    });
}

#[test]
fn from_the_third_value_of_a_scalar_on_nothing_is_planned_or_compiled() {
    on_each_device(|device| {
        let x = leaf([100], device);
        let run = |factor: f64| (&x * factor + 1.0).tanh().realize().map(|_| ()).expect("running it");
        run(0.5);
        run(0.25);
        let before = context().counters();
        for i in 0..10 {
            run(f64::from(i) + 2.5);
        }
        let after = context().counters();
        assert_eq!(after.plans_built, before.plans_built);
        assert_eq!(after.kernels_compiled, before.kernels_compiled);
        assert_eq!(after.kernels_launched, before.kernels_launched + 10);
    });
}

#[test]
fn a_value_and_the_sums_of_its_rows_are_one_kernel() {
    on_each_device(|device| {
        let y = leaf([256, 100], device).exp();
        let plan = runs_as_planned(&[&y, &y.sum(-1)]);
        assert_kernels!(plan, 1);
        assert_bytes_moved!(plan, == (2 * 256 * 100 + 256) * F32);
    });
}

#[test]
fn an_empty_gather_below_a_sum_checks_no_index() {
    on_each_device(|device| {
        let x = -leaf([3], device);
        let none = x.i(0..0);
        let index = Tensor::from_vec(Vec::<i64>::new(), [0], device);
        let sum = none.gather(0, &index).sum(0);
        assert_eq!(sum.to_vec::<f32>().expect("nothing is out of range"), [0.0]);
    });
}

/// The CPU cuts a kernel where conditions are decided, which it cannot where a product is in it: what a large
/// product's result is added to under conditions is read by a kernel of its own, and a GPU's reads it there.
#[test]
fn a_large_product_is_not_followed_by_reads_under_conditions() {
    on_each_device(|device| {
        for (rows, together) in [(32usize, true), (512, device != Device::cpu())] {
            let (x, w, short) =
                (leaf([rows, 64], device), leaf([64, 256], device), leaf([rows - 2, 256], device));
            let padded = short.pad(&[0, 0, 1, 1], 0.0);
            let product = x.matmul(&w);
            let y = &product + &padded;
            let report = runs_as_planned(&[&y]);
            assert_eq!(report.kernels.len(), if together { 1 } else { 2 }, "{device}, {rows} rows: {report}");
            if device != Device::null() {
                let apart = &product.realize().expect("a product").clone()
                    + &padded.realize().expect("zeros").clone();
                let values = |y: &Tensor| y.to_vec::<f32>().expect("values");
                assert_eq!(values(&y), values(&apart), "{device}, {rows} rows");
            }
        }
    });
}

/// Nor can it cut a kernel within its rows: a concatenation that a normalization reads several times is stored,
/// whether operations are between them or not.
#[test]
fn rows_read_several_times_are_not_read_under_conditions() {
    on_each_device(|device| {
        let (a, b) = (leaf([2, 20, 30, 30], device), leaf([2, 28, 30, 30], device));
        let cat = Tensor::cat(&[&a, &b], 1);
        let norm = |x: &Tensor| x.group_norm(4, NormOpts::default());
        for (name, y) in [
            ("read at once", norm(&cat)),
            ("an operation between", norm(&cat.abs())),
            ("two operations between", norm(&cat.abs().sqrt())),
            ("concatenated along rows", Tensor::cat(&[&a, &a.exp(), &a], 3).softmax(-1)),
            ("in short rows", Tensor::cat(&[&a.flatten(0, 2), &a.flatten(0, 2).exp()], 1).softmax(-1)),
        ] {
            let report = runs_as_planned(&[&y]);
            let expected = if device == Device::cpu() { 2 } else { 1 };
            assert_eq!(report.kernels.len(), expected, "{device}, {name}: {report}");
        }
        if device != Device::null() {
            let apart = norm(&cat.realize().expect("a concatenation").clone());
            assert_eq!(norm(&cat).to_vec::<f32>().expect("values"), apart.to_vec::<f32>().expect("values"));
        }
    });
}

/// The phases of a strided convolution's gradient follow their periods in memory, so that what normalizes its
/// channels reads runs that are long.
#[test]
fn a_strided_convolutions_gradient_lies_in_the_order_of_its_positions() {
    let device = Device::cpu();
    let (x, w) = (leaf([2, 8, 72, 70], device).with_requires_grad(), leaf([8, 8, 3, 3], device));
    let y = x.exp().conv2d(&w, None, ConvOpts::default().stride(2).padding(1));
    let gradient = kiln::grad(&y.square().sum(..), &[&x]).remove(0);
    let report = runs_as_planned(&[&gradient.group_norm(4, NormOpts::default())]);
    let stored = Shape::from([2, 8, 36, 2, 70]);
    assert!(report.kernels.iter().any(|kernel| kernel.shape == stored), "{report}");
}
