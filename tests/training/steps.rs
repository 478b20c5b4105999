//! What a training step computes: everything once, in one plan, in memory
//! that stays the same.

use kiln::nn::{BatchNorm, Layer, Linear, ModuleExt, Sequential};
use kiln::optim::{Adam, AdamOpts, Optimizer, Sgd, SgdOpts, clip_grad_norm};
use kiln::prelude::*;
use kiln::{Context, with_context};

fn model() -> Sequential {
    kiln::manual_seed(7);
    Sequential::new()
        .push(Linear::new(12, 16, ()))
        .push(BatchNorm::new(16, ()))
        .then(Tensor::relu)
        .push(Linear::new(16, 3, ()))
}

fn batch(seed: usize) -> (Tensor, Tensor) {
    let pixel = |i: usize| ((i * 31 + seed * 17) % 29) as f32 / 14.0 - 1.0;
    let x = Tensor::from_vec((0..8 * 12).map(pixel).collect(), [8, 12], ());
    let y = Tensor::from_vec((0..8).map(|i| ((i * 5 + seed) % 3) as i64).collect(), [8], ());
    (x, y)
}

fn loss_of(model: &Sequential, seed: usize) -> Tensor {
    let (x, y) = batch(seed);
    model.forward(&x).cross_entropy(&y, Default::default())
}

/// Kernels and plans of each of a few steps.
fn trained(look: impl Fn(&Tensor, &mut dyn FnMut())) -> (Vec<f64>, Vec<(u64, u64)>) {
    let context = Context::new();
    with_context(&context, || {
        let model = model();
        let mut optimizer = Adam::new(model.parameters(), AdamOpts::default().lr(0.01));
        let mut counts = Vec::new();
        let mut losses = Vec::new();
        for seed in 0..6 {
            let before = context.counters();
            optimizer.zero_grad();
            let loss = loss_of(&model, seed);
            loss.backward().unwrap();
            look(&loss, &mut || optimizer.step().unwrap());
            losses.push(loss.item::<f64>().unwrap());
            let after = context.counters();
            counts.push((
                after.kernels_launched - before.kernels_launched,
                after.plans_built - before.plans_built,
            ));
        }
        (losses, counts)
    })
}

#[test]
fn a_loss_read_before_or_after_the_step_is_computed_once() {
    let (expected, alone) = trained(|_, step| step());
    let (after, with_loss) = trained(|loss, step| {
        step();
        loss.item::<f64>().unwrap();
    });
    let (before, loss_first) = trained(|loss, step| {
        loss.item::<f64>().unwrap();
        step();
    });
    assert_eq!(expected, after);
    assert_eq!(expected, before);
    assert_eq!(alone, with_loss);
    // Nothing of the forward and backward pass runs again: at most, each of the
    // six parameters' updates is now a kernel of its own.
    assert!(loss_first[5].0 <= alone[5].0 + 6, "{loss_first:?} {alone:?}");
    // The first step starts from random parameters, the others from memory.
    assert_eq!(alone.iter().map(|(_, plans)| plans).sum::<u64>(), 2, "{alone:?}");
    assert_eq!(loss_first.iter().map(|(_, plans)| plans).sum::<u64>(), 4, "{loss_first:?}");
}

#[test]
fn running_statistics_are_computed_by_the_step() {
    let context = Context::new();
    with_context(&context, || {
        let model = model();
        let mut optimizer = Sgd::new(model.parameters(), SgdOpts::default().lr(0.01));
        let loss = loss_of(&model, 0);
        loss.backward().unwrap();
        optimizer.step().unwrap();
        let launched = context.counters().kernels_launched;
        for (name, buffer) in model.named_buffers() {
            assert!(buffer.get().to_vec::<f32>().unwrap().iter().all(|x| x.is_finite()), "{name}");
        }
        loss.item::<f64>().unwrap();
        assert_eq!(context.counters().kernels_launched, launched);
    });
}

#[test]
fn the_clipped_norm_is_computed_by_the_step() {
    let context = Context::new();
    with_context(&context, || {
        let model = model();
        let mut optimizer = Sgd::new(model.parameters(), SgdOpts::default().lr(0.01));
        loss_of(&model, 0).backward().unwrap();
        let norm = clip_grad_norm(&model.parameters(), 0.01).unwrap();
        optimizer.step().unwrap();
        let launched = context.counters().kernels_launched;
        assert!(norm.item::<f64>().unwrap() > 0.01);
        let squares =
            model.parameters().iter().map(|p| p.grad().unwrap().square().sum(..)).reduce(|a, b| a + b);
        assert!((squares.unwrap().sqrt().item::<f64>().unwrap() - 0.01).abs() < 1e-6);
        assert!(context.counters().kernels_launched > launched);
    });
}

#[test]
fn what_shares_no_work_is_left_alone() {
    let context = Context::new();
    with_context(&context, || {
        let model = model();
        let loss = loss_of(&model, 0);
        loss.backward().unwrap();
        assert_eq!((Tensor::ones([2], ()) + 1.0).to_vec::<f32>().unwrap(), [2.0, 2.0]);
        assert!(!loss.is_realized());
        assert!(model.parameters().iter().all(|param| !param.grad().unwrap().is_realized()));
    });
}

#[test]
fn a_hundred_parameters_are_updated_beside_their_gradients() {
    let context = Context::new();
    with_context(&context, || {
        kiln::manual_seed(5);
        let mut model = Sequential::new();
        for _ in 0..50 {
            model = model.push(Linear::new(8, 8, ())).then(Tensor::tanh);
        }
        assert_eq!(model.parameters().len(), 100);
        let mut optimizer = Adam::new(model.parameters(), AdamOpts::default());
        let x = Tensor::linspace(-1.0, 1.0, 32, ()).reshape([4, 8]);
        let mut launched = |update: bool| {
            optimizer.zero_grad();
            let before = context.counters().kernels_launched;
            let loss = model.forward(&x).square().mean(..);
            loss.backward().unwrap();
            if update {
                optimizer.step().unwrap()
            } else {
                loss.item::<f64>().map(|_| ()).unwrap()
            }
            context.counters().kernels_launched - before
        };
        launched(true);
        let (alone, with_update) = (launched(false), launched(true));
        assert!(
            with_update <= alone + 4,
            "{alone} kernels for loss and gradients, {with_update} with the update"
        );
    });
}
