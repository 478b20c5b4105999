//! One value is computed once, whoever asks; what is put somewhere stays there; state follows the step, wholly or
//! not at all.

#[path = "sound/late.rs"]
mod late;
#[path = "sound/places.rs"]
mod places;
#[path = "sound/steps.rs"]
mod steps;
#[path = "sound/threads.rs"]
mod threads;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use kiln::nn::{BatchNorm, Embedding, Layer, Linear, ModuleExt, MultiheadAttention, Param, Sequential};
use kiln::optim::{Adam, AdamOpts, Optimizer, Sgd, SgdOpts, clip_grad_norm};
use kiln::prelude::*;
use kiln::{Context, DeviceKind, Error, Var, with_context};

/// The devices that are there, of those whose memory is told apart.
fn devices() -> Vec<Device> {
    [Device::cpu(), Device::wgpu(0), Device::cuda(0)]
        .into_iter()
        .filter(|device| device.probe().is_ok())
        .collect()
}

fn realized(values: Vec<f32>, device: Device) -> Tensor {
    let extent = values.len();
    let x = Tensor::from_vec(values, [extent], device);
    x.realize().expect("memory");
    x
}

/// Runs `body` on several threads at once, with their numbers.
fn at_once(threads: usize, body: impl Fn(usize) + Sync) {
    let barrier = Barrier::new(threads);
    std::thread::scope(|scope| {
        for number in 0..threads {
            let (barrier, body) = (&barrier, &body);
            scope.spawn(move || {
                barrier.wait();
                body(number);
            });
        }
    });
}
