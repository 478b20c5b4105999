//! Planned peaks on an adapter against what wgpu's own allocator holds. A plan
//! takes its memory before it runs and keeps it until it has run, and the pool
//! then keeps the blocks: so what the allocator holds afterwards is the peak.
#![cfg(feature = "wgpu")]

use std::sync::Arc;

use kiln::nn::{BatchNorm, Conv2d, Layer, Linear, ModuleExt, Sequential};
use kiln::nn::{TransformerEncoderLayer, TransformerOpts};
use kiln::prelude::*;
use kiln::runtime::wgpu::gpu::Gpu;
use kiln::{Context, with_context};

#[path = "support/adapter.rs"]
mod adapter;

const DEVICE: Device = Device::wgpu(0);

/// Bytes that wgpu's allocator has given out.
fn held(gpu: &Gpu) -> u64 {
    let report = gpu.device.generate_allocator_report().expect("a native backend has an allocator");
    report.allocations.iter().map(|allocation| allocation.size).sum()
}

fn mlp() -> (Box<dyn Layer>, Tensor) {
    let hidden = |from, to| Sequential::new().push(Linear::new(from, to, DEVICE)).then(Tensor::gelu);
    let model = Sequential::new().push(hidden(256, 512)).push(hidden(512, 512)).push(hidden(512, 128));
    (Box::new(model), Tensor::randn([2048, 256], DEVICE))
}

fn cnn() -> (Box<dyn Layer>, Tensor) {
    let block = |from, to| {
        let conv = Conv2d::new(from, to, [3, 3], ConvOpts::default().padding(1), DEVICE);
        Sequential::new().push(conv).push(BatchNorm::new(to, DEVICE)).then(Tensor::relu)
    };
    (Box::new(Sequential::new().push(block(3, 8)).push(block(8, 16))), Tensor::randn([32, 3, 48, 48], DEVICE))
}

fn transformer() -> (Box<dyn Layer>, Tensor) {
    let opts = TransformerOpts::default().feed_forward(256).dropout(0.0);
    let model = TransformerEncoderLayer::new(64, 4, opts, DEVICE);
    (Box::new(Sequential::new().push(model)), Tensor::randn([64, 64, 64], DEVICE))
}

/// What is to be computed together: the output, or the loss and gradients.
fn wanted(model: &dyn Layer, x: &Tensor, training: bool) -> Vec<Tensor> {
    if !training {
        let _guard = kiln::no_grad();
        return vec![model.forward(x)];
    }
    let loss = model.forward(x).square().mean(..);
    let parameters: Vec<Tensor> = model.parameters().iter().map(|param| param.get()).collect();
    let gradients = kiln::grad(&loss, &parameters.iter().collect::<Vec<_>>());
    std::iter::once(loss).chain(gradients).collect()
}

/// Bytes at most, as planned and as the allocator has them.
fn peaks(make: fn() -> (Box<dyn Layer>, Tensor), training: bool) -> Option<(u64, u64)> {
    let backend = adapter::own_backend()?;
    let gpu = backend.gpu().clone();
    let context = Context::new();
    context.install(Arc::new(backend));
    Some(with_context(&context, || {
        kiln::manual_seed(0);
        let empty = held(&gpu);
        let (model, x) = make();
        let parts: Vec<Tensor> = model.parameters().iter().map(|param| param.get()).collect();
        kiln::realize(&parts.iter().chain([&x]).collect::<Vec<_>>()).expect("memory for a test");
        drop(parts);
        DEVICE.synchronize().expect("nothing failed");
        DEVICE.empty_cache().expect("the device is there");
        let wanted = wanted(&*model, &x, training);
        let wanted: Vec<&Tensor> = wanted.iter().collect();
        let planned =
            kiln::plan(&wanted).expect("a plan").memory.iter().find(|m| m.device == DEVICE).map(|m| m.peak());
        kiln::realize(&wanted).expect("memory for a test");
        DEVICE.synchronize().expect("nothing failed");
        (planned.expect("memory on the adapter"), held(&gpu) - empty)
    }))
}

#[test]
fn plans_know_the_peak_of_an_adapters_memory() {
    let models = [("mlp", mlp as fn() -> _), ("cnn", cnn), ("transformer", transformer)];
    let mut wrong = Vec::new();
    for (name, make) in models {
        for training in [false, true] {
            let Some((planned, measured)) = peaks(make, training) else { return };
            let error = planned as f64 / measured as f64 - 1.0;
            let way = if training { "training" } else { "inference" };
            let line =
                format!("{name}, {way}: planned {planned}, measured {measured}, {:+.1} %", 100.0 * error);
            println!("{line}");
            if !(-0.01..=0.05).contains(&error) {
                wrong.push(line);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
