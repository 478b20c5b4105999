//! Gradient checkpointing: the same gradients in less memory.

use kiln::nn::{BatchNorm, Layer, Linear, ModuleExt, Param, TransformerEncoderLayer, TransformerOpts};
use kiln::prelude::*;
use kiln::{Context, checkpoint, checkpoint_many, fori_loop, grad, with_context};

fn blocks(count: usize, width: usize, device: Device) -> Vec<TransformerEncoderLayer> {
    kiln::manual_seed(11);
    let opts = TransformerOpts::default().feed_forward(4 * width).norm_first(true).dropout(0.1);
    let block = |_| TransformerEncoderLayer::new(width, 4, opts.clone(), device);
    let blocks: Vec<_> = (0..count).map(block).collect();
    let params: Vec<Tensor> = blocks.iter().flat_map(ModuleExt::parameters).map(|p| p.get()).collect();
    kiln::realize(&params.iter().collect::<Vec<_>>()).unwrap();
    blocks
}

/// The loss of a stack of blocks, after `backward`.
fn loss_of(blocks: &[TransformerEncoderLayer], x: &Tensor, checkpointed: bool) -> Tensor {
    kiln::manual_seed(5);
    let out = blocks.iter().fold(x.clone(), |x, block| {
        if checkpointed { checkpoint(|x| block.forward(x), &x) } else { block.forward(&x) }
    });
    let loss = out.square().mean(..);
    loss.backward().unwrap();
    loss
}

fn gradients(blocks: &[TransformerEncoderLayer]) -> Vec<Vec<f32>> {
    let params = blocks.iter().flat_map(ModuleExt::parameters);
    let found = params.map(|p| {
        let values = p.grad().expect("a gradient").to_vec::<f32>().unwrap();
        p.zero_grad();
        values
    });
    found.collect()
}

#[track_caller]
fn assert_close(found: &[Vec<f32>], expected: &[Vec<f32>]) {
    assert_eq!(found.len(), expected.len());
    let scale = expected.iter().flatten().fold(0f32, |most, x| most.max(x.abs()));
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() <= 1e-6 * scale, "{found} instead of {expected}");
        }
    }
}

#[test]
fn a_deep_transformer_needs_a_third_of_the_memory() {
    with_context(&Context::new(), || {
        let blocks = blocks(24, 64, Device::cpu());
        let x = Tensor::zeros([32, 128, 64], ());
        x.realize().unwrap();
        let peak = |checkpointed| {
            let loss = loss_of(&blocks, &x, checkpointed);
            let plan = loss.plan().unwrap();
            blocks.iter().flat_map(ModuleExt::parameters).for_each(|p| p.zero_grad());
            (plan.peak_bytes(), plan)
        };
        let ((kept, _), (recomputed, plan)) = (peak(false), peak(true));
        println!("planned peak: {kept} bytes, {recomputed} with checkpoints");
        assert!(3 * recomputed <= kept, "{recomputed} bytes instead of {kept}\n{plan}");
        let text = plan.to_string();
        assert!(
            text.contains("recomputed, first run at") && text.contains("at tests/training/checkpoint.rs:"),
            "{text}"
        );
    });
}

#[test]
fn the_measured_peak_is_the_planned_one_and_gradients_stay_the_same() {
    const DEV: Device = DeviceKind::Cpu.device(1);
    with_context(&Context::with_virtual_devices(&[(DeviceKind::Cpu, 2)]), || {
        let blocks = blocks(6, 16, DEV);
        let x = Tensor::linspace(-1.0, 1.0, 4 * 16 * 16, ()).reshape([4, 16, 16]).to(DEV);
        x.realize().unwrap();
        let mut peaks = Vec::new();
        let mut results = Vec::new();
        for checkpointed in [false, true] {
            let loss = loss_of(&blocks, &x, checkpointed);
            let planned = loss.plan().unwrap().peak_bytes();
            DEV.reset_peak_memory_stats().unwrap();
            let value = loss.item::<f64>().unwrap();
            let measured = DEV.max_memory_allocated().unwrap();
            assert!(measured.abs_diff(planned) * 20 <= planned, "planned {planned}, measured {measured}");
            peaks.push(measured);
            results.push((value, gradients(&blocks)));
        }
        assert!(2 * peaks[1] <= peaks[0], "{peaks:?}");
        assert_eq!(results[0].0, results[1].0);
        assert_close(&results[1].1, &results[0].1);
    });
}

fn values(x: &Tensor) -> Vec<f64> {
    x.to_vec::<f64>().unwrap()
}

fn input(shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    Tensor::from_vec((0..count).map(|i| (i as f64 * 0.37).sin()).collect(), shape, ()).with_requires_grad()
}

/// First and second derivatives of a function are those of its checkpoint.
#[track_caller]
fn check(inputs: &[Tensor], f: &dyn Fn(&[Tensor]) -> Tensor) {
    let refs: Vec<&Tensor> = inputs.iter().collect();
    let slopes = |y: Tensor| {
        let first = grad(&y.square().sum(..), &refs);
        let curved = first.iter().map(|g| g.square().sum(..)).reduce(|a, b| a + b).unwrap();
        let second = grad(&curved, &refs);
        first.iter().chain(&second).map(values).collect::<Vec<_>>()
    };
    let (found, expected) = (slopes(checkpoint_many(f, &refs)), slopes(f(inputs)));
    for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
        assert!((found - expected).abs() <= 1e-9 * (1.0 + expected.abs()), "{found} instead of {expected}");
    }
}

#[test]
fn derivatives_of_any_order_pass() {
    let (x, w) = (input(&[3, 4]), input(&[4, 4]));
    check(&[x.clone(), w.clone()], &|x| x[0].matmul(&x[1]).tanh().softmax(1));
    check(&[x.clone()], &|x| fori_loop(3, x, |i, c| vec![(c[0].matmul(&w) + i).sin()]).remove(0));
    check(&[x.clone()], &|x| checkpoint(|x| checkpoint(|x| x.exp(), &x.matmul(&w)).sin(), &x[0]).cumsum(1));
    check(&[x], &|x| x[0].clone());
}

#[test]
fn what_a_function_uses_gets_its_gradient() {
    let (x, w) = (input(&[3, 4]), input(&[4, 4]));
    let outside = x.cos();
    let f = |x: &Tensor| (x.matmul(&w) * &outside).tanh();
    let sources = [&x, &w];
    let plain = grad(&f(&x).sum(..), &sources);
    let again = grad(&checkpoint(f, &x).sum(..), &sources);
    for (plain, again) in plain.iter().zip(&again) {
        assert_eq!(values(plain), values(again));
    }
    // Parameters that are not computed yet are parameters.
    let layer = Linear::new(4, 4, DType::F64);
    checkpoint(|x| layer.forward(x), &x).sum(..).backward().unwrap();
    assert!(layer.parameters().iter().all(|p| p.grad().is_some()));
    // Without anything to train, a checkpoint is its function.
    let x = x.detach();
    assert!(!checkpoint(|x| x * 2.0, &x).is_tracked());
}

#[test]
fn the_function_runs_once() {
    let norm = BatchNorm::new(4, DType::F64);
    let (x, mut runs) = (input(&[3, 4]), 0);
    let y = checkpoint(
        |x| {
            runs += 1;
            norm.forward(x)
        },
        &x,
    );
    assert_eq!(runs, 1);
    let means = |norm: &BatchNorm| values(&norm.named_buffers()[0].1.get());
    y.square().sum(..).backward().unwrap();
    let once = means(&norm);
    let other = BatchNorm::new(4, DType::F64);
    let _ = other.forward(&x);
    assert_eq!(once, means(&other));
}

#[test]
fn mistakes_pass() {
    let x = input(&[3, 4]);
    let bad = checkpoint(|x| x.matmul(&x.detach()), &x);
    assert!(bad.check().unwrap_err().to_string().contains("matmul"));
    let bad = checkpoint(|x| x * 2.0, &bad);
    assert!(bad.check().is_err());
}

#[test]
fn the_interior_is_computed_again_after_the_gradient_arrives() {
    with_context(&Context::new(), || {
        let (x, w) = (input(&[64, 64]), input(&[64, 64]));
        kiln::realize(&[&x, &w]).unwrap();
        let net = |keep: bool| {
            let f = |x: &Tensor| x.matmul(&w).tanh().matmul(&w).tanh();
            let block = |x: &Tensor| if keep { f(x) } else { checkpoint(f, x) };
            let loss = block(&block(&x)).sum(..);
            (grad(&loss, &[&x]).remove(0), loss)
        };
        let contractions = |keep| {
            let (gradient, loss) = net(keep);
            let plan = kiln::plan(&[&gradient, &loss]).unwrap();
            plan.kernels
                .iter()
                .filter(|kernel| kernel.name.contains("contract") || kernel.name.contains("matmul"))
                .count()
        };
        // Of each block, what its last operation needs is computed again.
        assert_eq!(contractions(true), 8);
        assert_eq!(contractions(false), 8 + 4);
    });
}

/// Runs on a thread whose stack is as small as those of a pool.
fn on_a_small_stack(body: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(2 << 20).spawn(body).unwrap().join().unwrap();
}

fn nested(depth: usize, x: &Tensor) -> Tensor {
    if depth == 0 { x.tanh() } else { kiln::checkpoint(|x| nested(depth - 1, x) * 1.001, x) }
}

#[test]
fn a_thousand_checkpoints_within_each_other() {
    on_a_small_stack(|| {
        let param = Param::new(Tensor::from([0.5f64, -0.25]));
        nested(1000, &param.get()).sum(..).backward().unwrap();
        let found = param.grad().unwrap().to_vec::<f64>().unwrap();
        for (x, found) in [0.5f64, -0.25].into_iter().zip(found) {
            let expected = 1.001f64.powi(1000) * (1.0 - x.tanh().powi(2));
            assert!((found - expected).abs() < 1e-9, "{found} for {expected}");
        }
    });
}

#[test]
fn bodies_within_each_other_as_deep_as_they_may_be() {
    fn named(depth: usize, x: &Tensor) -> Tensor {
        let body = |i: &[Tensor]| vec![named(depth - 1, &i[0]) * 1.5];
        if depth == 0 { x.tanh() } else { kiln::composite("mine", &[], &[x.clone()], body).remove(0) }
    }
    on_a_small_stack(|| {
        let param = Param::new(Tensor::from([0.0f64]));
        let y = named(60, &param.get());
        y.sum(..).backward().unwrap();
        let found = param.grad().unwrap().item::<f64>().unwrap();
        assert!((found / 1.5f64.powi(60) - 1.0).abs() < 1e-9, "{found}");
        let error = named(1000, &param.get()).check().unwrap_err().to_string();
        assert!(error.contains("at most 64 deep"), "{error}");
    });
}

#[test]
fn long_chains_are_printed_planned_and_let_go_on_a_small_stack() {
    on_a_small_stack(|| {
        let chain = (0..20_000).fold(Tensor::from([1f32]), |x, i| if i % 2 == 0 { x + 1.0 } else { x * 0.5 });
        assert!(chain.plan().unwrap().graph_text().lines().count() > 10_000);
        assert!(chain.to_text().unwrap().contains('1'));
    });
}

#[test]
fn modules_within_modules() {
    use kiln::nn::Sequential;
    on_a_small_stack(|| {
        let inner = Sequential::new().push(Linear::new(2, 2, ()));
        let model = (0..200).fold(inner, |inner, _| Sequential::new().push(inner));
        assert_eq!(model.parameters().len(), 2);
        model.forward(&Tensor::ones([1, 2], ())).realize().unwrap();
    });
}
