//! How many kernels the layers of neural networks become, at the shapes
//! named; and on the CPU and on a wgpu adapter the same values as the unfused
//! graph.

use crate::support::adapter;
use kiln::opts::AttentionOpts;
use kiln::opts::ConvOpts;
use kiln::opts::CrossEntropyOpts;
use kiln::opts::GridSampleOpts;
use kiln::opts::{AvgPoolOpts, MaxPoolOpts};
use kiln::opts::{InterpolateMode, InterpolateOpts};
use kiln::opts::{NormOpts, RunningNormOpts};
use kiln::tensor::Tensor;
use kiln::{Context, DType, Device, assert_kernels, with_context, with_device};

fn leaf<const N: usize>(dims: [usize; N]) -> Tensor {
    let count: usize = dims.iter().product();
    let values: Vec<f32> = (0..count).map(|i| ((i * 7) % 23) as f32 / 8.0 - 1.25).collect();
    Tensor::from_slice(&values, dims, kiln::default_device())
}

/// Asserts how many kernels `layer` is on the null device, whose number of
/// workers is fixed, and on an adapter; and that the CPU and the adapter
/// compute what the oracle does.
#[track_caller]
fn kernels(expected: usize, layer: impl Fn() -> Vec<Tensor>) {
    with_context(&Context::new(), || {
        for device in std::iter::once(Device::null()).chain(adapter::narrow_adapter()) {
            with_device(device, || {
                let made = layer();
                let tensors: Vec<&Tensor> = made.iter().collect();
                assert_kernels!(tensors[..], expected);
            });
        }
        let made = layer();
        let reference = Tensor::oracle(&made.iter().collect::<Vec<_>>()).expect("the oracle runs");
        for device in std::iter::once(Device::cpu()).chain(adapter::adapter()) {
            let made = with_device(device, &layer);
            let tensors: Vec<&Tensor> = made.iter().collect();
            kiln::realize(&tensors).expect("the plan runs");
            for (tensor, reference) in tensors.iter().zip(&reference) {
                let found = tensor.to(Device::cpu()).to_dtype(DType::F64).to_vec::<f64>().expect("readable");
                for (i, (a, b)) in found.iter().zip(reference.to_f64()).enumerate() {
                    assert!((a - b).abs() <= 1e-4 * b.abs().max(1.0), "{device}, element {i}: {a} for {b}");
                }
            }
        }
    });
}

#[test]
fn normalizations_are_one_kernel() {
    let (x, w) = (|| leaf([4, 6, 5, 5]), || leaf([6]));
    kernels(1, || vec![x().rms_norm([5], NormOpts::default())]);
    kernels(1, || vec![x().instance_norm(RunningNormOpts::training().weight(&w()))]);
    kernels(1, || vec![x().batch_norm(RunningNormOpts::training().weight(&w()).bias(&w()))]);
    kernels(1, || vec![x().batch_norm(RunningNormOpts::running(&w(), &(w() * w())).weight(&w()))]);
    kernels(1, || vec![x().group_norm(2, NormOpts::default().weight(&w()).bias(&w())).silu()]);
}

#[test]
fn convolutions_take_bias_and_activation() {
    let (x, b) = (|| leaf([2, 4, 8, 8]), || leaf([6]));
    let padded = || ConvOpts::default().padding(1);
    kernels(1, || vec![x().conv2d(&leaf([6, 4, 3, 3]), Some(&b()), padded()).relu()]);
    kernels(1, || vec![x().conv2d(&leaf([4, 1, 3, 3]), None, ConvOpts::default().groups(4))]);
}

#[test]
fn pools_and_resampling_are_one_kernel() {
    let x = || leaf([2, 3, 9, 9]);
    kernels(1, || {
        let (max, position) = x().max_pool2d_with_indices(3, MaxPoolOpts::default().stride(2).padding(1));
        vec![max, position]
    });
    kernels(1, || vec![x().avg_pool2d(3, AvgPoolOpts::default().padding(1).count_include_pad(false))]);
    kernels(1, || vec![x().adaptive_avg_pool2d(4)]);
    let linear = || InterpolateOpts::default().scale_factor([2.0]).mode(InterpolateMode::Linear);
    kernels(1, || vec![x().interpolate(linear())]);
    kernels(1, || vec![x().grid_sample(&leaf([2, 4, 4, 2]), GridSampleOpts::default())]);
}

#[test]
fn a_loss_of_classes_is_one_kernel() {
    let target = || Tensor::from_slice(&[3i64; 16], [16], kiln::default_device());
    kernels(1, || vec![leaf([16, 10]).cross_entropy(&target(), CrossEntropyOpts::default())]);
}

#[test]
fn attention_without_a_template_is_two_products_around_a_softmax() {
    let causal = || AttentionOpts::default().causal(true);
    let q = || leaf([2, 2, 6, 4]);
    kernels(3, || vec![q().scaled_dot_product_attention(&q(), &q(), causal())]);
}
