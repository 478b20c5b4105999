//! Planned peaks on an adapter against what wgpu's own allocator holds. A plan
//! takes its memory before it runs and keeps it until it has run, and the pool
//! then keeps the blocks: so what the allocator holds afterwards is the peak.
#![cfg(feature = "wgpu")]

use std::sync::Arc;

use kiln::nn::{BatchNorm, Conv2d, Layer, Linear, ModuleExt, Sequential};
use kiln::nn::{TransformerEncoderLayer, TransformerOpts};
use kiln::prelude::*;
use kiln::unstable::runtime::wgpu::gpu::WgpuGpu;
use kiln::{Context, with_context};

#[path = "support/adapter.rs"]
mod adapter;
#[path = "support/blocks.rs"]
mod blocks;

use blocks::blocks;

const DEVICE: Device = Device::wgpu(0);

/// Bytes that wgpu's allocator has given out.
fn held(gpu: &WgpuGpu) -> u64 {
    let report = gpu.device.generate_allocator_report().expect("a native backend has an allocator");
    report.allocations.iter().map(|allocation| allocation.size).sum()
}

/// A model and what it takes in.
type Case = (Box<dyn Layer>, Tensor);

fn mlp(checkpointed: bool) -> Case {
    let hidden = |(from, to)| {
        let wide = Sequential::new().push(Linear::new(from, 512, DEVICE)).then(Tensor::gelu);
        wide.push(Linear::new(512, to, DEVICE)).then(Tensor::tanh)
    };
    let model = blocks(checkpointed, [(256, 256), (256, 256), (256, 128)].map(hidden));
    (Box::new(model), Tensor::randn([2048, 256], DEVICE))
}

fn cnn(checkpointed: bool) -> Case {
    let block = |(from, to)| {
        let conv = Conv2d::new(from, to, [3, 3], ConvOpts::default().padding(1), DEVICE);
        Sequential::new().push(conv).push(BatchNorm::new(to, DEVICE)).then(Tensor::relu)
    };
    let model = blocks(checkpointed, [(3, 8), (8, 16)].map(block));
    (Box::new(model), Tensor::randn([32, 3, 48, 48], DEVICE))
}

fn transformer(checkpointed: bool) -> Case {
    let opts = TransformerOpts::default().feed_forward(256).dropout(0.0);
    let block = |_| TransformerEncoderLayer::new(64, 4, opts.clone(), DEVICE);
    (Box::new(blocks(checkpointed, (0..2).map(block))), Tensor::randn([64, 64, 64], DEVICE))
}

fn autoencoder(checkpointed: bool) -> Case {
    let block = |(from, to)| Sequential::new().push(Linear::new(from, to, DEVICE)).then(Tensor::relu);
    let model = blocks(checkpointed, [(512, 128), (128, 32), (32, 128), (128, 512)].map(block));
    (Box::new(model), Tensor::randn([1024, 512], DEVICE))
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
fn peaks(make: fn(bool) -> Case, checkpointed: bool, training: bool) -> Option<(u64, u64)> {
    let backend = adapter::own_backend()?;
    let gpu = backend.gpu().clone();
    let context = Context::new();
    context.install(Arc::new(backend));
    Some(with_context(&context, || {
        kiln::manual_seed(0);
        let empty = held(&gpu);
        let (model, x) = make(checkpointed);
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
    let models = [("mlp", mlp as fn(bool) -> Case), ("cnn", cnn), ("transformer", transformer)];
    let models = models.into_iter().chain([("autoencoder", autoencoder as fn(bool) -> Case)]);
    let ways =
        [("inference", false, false), ("training", true, false), ("training, checkpointed", true, true)];
    let mut wrong = Vec::new();
    for (name, make) in models {
        for (way, training, checkpointed) in ways {
            let Some((planned, measured)) = peaks(make, checkpointed, training) else { return };
            let error = planned as f64 / measured as f64 - 1.0;
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
