//! The work items that other libraries run too: one JSON line each, with
//! times, CPU time and checksums.
//!
//! `cargo bench --bench peers -- --device cpu`; `ITEMS=2,5a` picks items,
//! `BUDGET_S` the seconds of timed calls per item.

mod support;

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use kiln::nn::Param;
use kiln::optim::{Optimizer, Sgd, SgdOpts};
use kiln::prelude::*;
use support::report::{self, Timing};
use support::spec;

/// Runs the work items that other libraries run too.
#[derive(Parser)]
struct Arguments {
    /// Device to run on.
    #[arg(long, default_value = "cpu")]
    device: Device,
    /// Accepted because `cargo bench` passes it.
    #[arg(long, hide = true)]
    bench: bool,
}

const ITEMS: &[(&str, fn(&[Tensor]) -> Tensor)] = &[
    ("1_elementwise", |x| (&x[0] * &x[1] + &x[2]).tanh() * x[0].sigmoid() - &x[2]),
    ("2_softmax", |x| x[0].softmax(-1)),
    ("3_layernorm", |x| layer_norm(&x[0], &x[1], &x[2])),
    ("4a_sum_axis0", |x| x[0].sum(0)),
    ("4b_sum_axis1", |x| x[0].sum(1)),
    ("5a_matmul_1024", |x| x[0].matmul(&x[1])),
    ("5b_matmul_512x4096x4096", |x| x[0].matmul(&x[1])),
    ("5c_bmm_32x128x64x128", |x| x[0].matmul(&x[1])),
    ("6_attention", |x| attention(&x[0], &x[1], &x[2])),
    ("7_conv2d", |x| x[0].conv2d(&x[1], None, ConvOpts::default().padding(1))),
    ("9_block", block),
    ("10a_100_adds", |x| (0..100).fold(x[0].clone(), |sum, _| sum + &x[1])),
];

fn layer_norm(x: &Tensor, gain: &Tensor, bias: &Tensor) -> Tensor {
    let width = gain.shape();
    x.layer_norm(width, NormOpts::default().weight(gain).bias(bias).eps(1e-5))
}

fn attention(q: &Tensor, k: &Tensor, v: &Tensor) -> Tensor {
    q.scaled_dot_product_attention(k, v, AttentionOpts::default())
}

/// A transformer block that normalizes first.
fn block(x: &[Tensor]) -> Tensor {
    let [x, g1, be1, wqkv, bqkv, wo, bo, g2, be2, w1, b1, w2, b2] = x else {
        panic!("the block takes 13 inputs")
    };
    let qkv = layer_norm(x, g1, be1).matmul(wqkv) + bqkv;
    let heads = qkv.reshape([4, 256, 3, 8, 64]).permute([2, 0, 3, 1, 4]).unbind(0);
    let mixed = attention(&heads[0], &heads[1], &heads[2]).transpose(1, 2).reshape([4, 256, 512]);
    let x = x + (mixed.matmul(wo) + bo);
    let hidden = (layer_norm(&x, g2, be2).matmul(w1) + b1).gelu_tanh();
    &x + (hidden.matmul(w2) + b2)
}

fn main() -> ExitCode {
    let device = Arguments::parse().device;
    let start = Instant::now();
    if let Err(error) = Tensor::ones([4], device).realize() {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    let init_ms = start.elapsed().as_secs_f64() * 1e3;
    let mut agree = true;
    for (item, call) in ITEMS.iter().filter(|item| report::wanted(item.0)) {
        agree &= run(device, item, *call);
    }
    if report::wanted("8_mlp_train") {
        agree &= training(device);
    }
    if report::wanted("10b_host_overhead") {
        host_overhead(device);
    }
    report::process_line(&device.to_string(), init_ms);
    if agree { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn inputs(item: &str, device: Device) -> Vec<Tensor> {
    let make = |input: &spec::Input| {
        let tensor = Tensor::from_vec(input.values(), input.shape, device);
        // Update to the device before anything is timed.
        tensor.realize().cloned().unwrap_or(tensor)
    };
    spec::inputs(item).iter().map(make).collect()
}

/// Times one item; whether its checksums are right.
fn run(device: Device, item: &str, call: fn(&[Tensor]) -> Tensor) -> bool {
    let inputs = inputs(item, device);
    let mut sums = (f64::NAN, f64::NAN);
    let timing = report::time(
        || {
            let result = call(&inputs);
            // A call ends when the result is there, not when it is under way.
            if let Err(error) = result.realize().and_then(|_| device.synchronize()) {
                eprintln!("{item}: {error}");
            }
            result
        },
        |result| sums = result.to_vec().map_or(sums, |values| report::sums(&values)),
    );
    report::line(&device.to_string(), item, &timing, sums);
    agrees(item, sums)
}

/// Whether checksums are right; says so if they are not.
fn agrees(item: &str, sums: (f64, f64)) -> bool {
    let expected = spec::checksums(item);
    let close = |a: f64, b: f64| (a - b).abs() < 1e-3 * expected.0;
    let agrees = close(sums.0, expected.0) && close(sums.1, expected.1);
    if !agrees {
        eprintln!("{item}: checksums {sums:?}, expected {expected:?}");
    }
    agrees
}

/// Steps whose losses make the checksum.
const CHECKED_STEPS: usize = 5;

/// A step of training: loss, gradients, new parameters.
fn training(device: Device) -> bool {
    let item = "8_mlp_train";
    let mut inputs = inputs(item, device).into_iter();
    let x = inputs.next().unwrap_or_else(|| panic!("the item has inputs"));
    let labels: Vec<i64> = (0..256).map(|i| (7 * i + 3) % 10).collect();
    let labels = Tensor::from_vec(labels, [256], device);
    let params: Vec<Param> = inputs.map(Param::new).collect();
    let mut sgd = Sgd::new(params.clone(), SgdOpts::default().lr(0.01));
    let mut step = || -> kiln::Result<Tensor> {
        sgd.zero_grad();
        let layer = |x: &Tensor, number: usize| x.matmul(&params[number].get()) + params[number + 1].get();
        let hidden = layer(&layer(&x, 0).relu(), 2).relu();
        let loss = layer(&hidden, 4).cross_entropy(&labels, Default::default());
        loss.backward()?;
        sgd.step()?;
        device.synchronize()?;
        Ok(loss)
    };
    let mut losses = Vec::new();
    let mut call = || -> kiln::Result<()> {
        let loss = step()?;
        if losses.len() < CHECKED_STEPS {
            losses.push(loss.item::<f32>()?);
        }
        Ok(())
    };
    let timing = report::time(|| call().unwrap_or_else(|error| eprintln!("{item}: {error}")), drop);
    let sums = report::sums(&losses);
    report::line(&device.to_string(), item, &timing, sums);
    agrees(item, sums)
}

/// Builds the block's graph and looks its plan up, without running it.
fn host_overhead(device: Device) {
    let item = "10b_host_overhead";
    let inputs = inputs(item, device);
    let timing: Timing = report::time(
        || {
            let result = block(&inputs);
            if let Err(error) = result.plan() {
                eprintln!("{item}: {error}");
            }
            result
        },
        drop,
    );
    report::line(&device.to_string(), item, &timing, (0.0, 0.0));
}
