//! WebGPU's rule, on an adapter that has another: what a kernel writes is bound for nothing else. The driver
//! refuses a launch that binds a buffer for reading and for writing.

use super::*;
use crate::ir::AluOp;
use crate::kernel::{Access, Affine, AxisId, ExprId, KernelInput, KernelStore, LoopAxis};
use crate::nn::{Layer, Linear, ModuleExt, Sequential};
use crate::optim::{Adam, AdamOpts, Optimizer};
use crate::runtime::InPlace;

/// The adapter as a page would have it, in a context.
fn separate() -> Option<Arc<Context>> {
    let context = Context::new();
    context.install(Arc::new(backend()?));
    Some(context)
}

fn backend() -> Option<WgpuBackend> {
    device()?;
    let gpu = WgpuGpu::open_with(Device::wgpu(0), wgpu::Features::empty()).expect("it opens again");
    let mut gpu = Arc::into_inner(gpu).expect("nobody else has it");
    gpu.target.separate_buffers = true;
    gpu.placeholder = None;
    let backend = WgpuBackend::of(Arc::new(gpu));
    assert_eq!(backend.capabilities().in_place, InPlace::Never);
    Some(backend)
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
    let near = |(x, y): &(&f32, &f32)| (*x - *y).abs() <= 1e-4 * y.abs().max(1.0);
    let off = there.iter().zip(&here).find(|pair| !near(pair));
    assert_eq!((off, there.len()), (None, here.len()));
}

/// `-x` of 64 elements from the start of a buffer, written to its 64 from there on: parts of a pack lie so.
#[test]
fn what_is_read_in_a_buffer_that_is_written_is_copied() {
    let Some(backend) = backend() else { return };
    let (dtype, count, address) = (DType::F32, 64, Affine::axis(AxisId(0)));
    let access = Access { affine: address.clone(), ..Access::default() };
    let exprs = [Expr::Load(0, access.into()), Expr::Alu(AluOp::Neg, [ExprId(0); 3])];
    let kernel = Kernel {
        name: "negate".to_string().into(),
        axes: vec![LoopAxis { extent: count, level: 0 }].into(),
        exprs: exprs.map(|expr| ExprNode { expr, dtype, level: 0 }).into(),
        inputs: vec![KernelInput { dtype, numel: count }].into(),
        stores: vec![KernelStore { dtype, value: ExprId(1), level: 0, address, numel: count }].into(),
        ..Kernel::default()
    };
    let data: Vec<f32> = (0..128).map(|i| i as f32).collect();
    let memory = backend.upload(bytemuck::cast_slice(&data)).expect("memory");
    let program = backend.compile(&Workload::Kernel(kernel)).expect("a shader");
    let at = |offset| Binding { buffer: &memory, offset };
    let bindings =
        Bindings { inputs: &[at(0)], outputs: &[at(256)], scalars: &[], status: &IndexStatus::default() };
    program.launch(&bindings).expect("a launch");
    backend.sync().expect("the driver takes it");
    let mut found = vec![0f32; 128];
    backend.download(&memory, 0, bytemuck::cast_slice_mut(&mut found)).expect("a download");
    let expected = data.iter().enumerate().map(|(i, x)| if i < 64 { *x } else { -(*x - 64.0) });
    assert_eq!(found, expected.collect::<Vec<f32>>());
}
