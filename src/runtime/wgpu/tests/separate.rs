//! WebGPU's rule, on an adapter that has another: what a kernel writes is bound for nothing else. The driver
//! refuses a launch that binds a buffer for reading and for writing.

use super::*;
use crate::nn::{Layer, Linear, ModuleExt, Sequential};
use crate::optim::{Adam, AdamOpts, Optimizer};
use crate::runtime::InPlace;

/// The adapter as a page would have it.
fn separate() -> Option<Arc<Context>> {
    device()?;
    let gpu = WgpuGpu::open_with(Device::wgpu(0), wgpu::Features::empty()).expect("it opens again");
    let mut gpu = Arc::into_inner(gpu).expect("nobody else has it");
    gpu.target.separate_buffers = true;
    gpu.placeholder = None;
    let backend = WgpuBackend::of(Arc::new(gpu));
    assert_eq!(backend.capabilities().in_place, InPlace::Never);
    let context = Context::new();
    context.install(Arc::new(backend));
    Some(context)
}

/// The losses of some steps.
fn trained(device: Device) -> Vec<f32> {
    crate::manual_seed(3);
    let net = Sequential::new()
        .push(Linear::new(16, 32, device))
        .then(Tensor::gelu)
        .push(Linear::new(32, 10, device));
    let mut optimizer = Adam::new(net.parameters(), AdamOpts::default().lr(0.05));
    let x = Tensor::arange(0, 128, 1, Device::cpu()).reshape([8, 16]).to_dtype(DType::F32).sin().to(device);
    let step = |_| {
        let loss = net.forward(&x).log_softmax(1).square().mean(..);
        loss.backward().expect("gradients");
        optimizer.step().expect("a step");
        loss.item::<f32>().expect("a loss")
    };
    (0..6).map(step).collect()
}

#[test]
fn a_network_trains_as_on_the_cpu() {
    let Some(context) = separate() else { return };
    let (there, here) = (with_context(&context, || trained(Device::wgpu(0))), trained(Device::cpu()));
    assert!(there.iter().zip(&here).all(|(x, y)| (x - y).abs() < 1e-4), "{there:?} {here:?}");
}

/// Values between kernels, parts of one buffer, views of one buffer.
#[test]
fn values_of_a_plan_lie_in_buffers_of_their_own() {
    let Some(context) = separate() else { return };
    let compute = |device: Device| {
        let x = (Tensor::arange(0, 4096, 1, Device::cpu()).to_dtype(DType::F32) / 4096.0).to(device);
        x.realize().expect("memory");
        let (head, tail) = (x.narrow(0, 0, 2000), x.narrow(0, 1, 2000));
        let square = x.reshape([64, 64]);
        let product = square.matmul(&square).softmax(1).matmul(&square.t());
        let results = [&head + &tail, product.sum(0), x.cumsum(0), Tensor::cat(&[&head, &tail], 0) * 2.0];
        crate::realize(&results.iter().collect::<Vec<_>>()).expect("results");
        results.iter().flat_map(|result| result.to_vec::<f32>().expect("values")).collect::<Vec<f32>>()
    };
    let (there, here) = (with_context(&context, || compute(Device::wgpu(0))), compute(Device::cpu()));
    let off = there.iter().zip(&here).find(|(x, y)| (*x - *y).abs() > 1e-4 * y.abs().max(1.0));
    assert_eq!((off, there.len()), (None, here.len()));
}
