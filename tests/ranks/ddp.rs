//! Data parallelism: ranks that train on parts of a batch take the steps of one process that trains on all
//! of it.

use std::ops::Range;
use std::time::Duration;

use kiln::dist::{self, BufferSync, DataParallel, Ddp, DdpOpts, Group, SpawnOpts};
use kiln::nn::{BatchNorm, Layer, Linear, Module, ModuleExt, Relu, Sequential, Tanh};
use kiln::optim::{Adam, AdamOpts, GradScaler, Optimizer, Sgd, SgdOpts, clip_grad_norm};
use kiln::prelude::*;
use kiln::{Context, Result, StateDict, manual_seed, with_autocast, with_context};

const FEATURES: usize = 6;

/// What each rank returns, in a context of their own.
#[track_caller]
pub fn ranks<R: Send>(count: usize, body: impl Fn(&Group) -> Result<R> + Sync) -> Vec<R> {
    let opts = SpawnOpts::default().timeout(Duration::from_secs(60));
    with_context(&Context::new(), || dist::spawn_with(count, opts, |group| body(&group))).expect("ranks")
}

fn network() -> Sequential {
    Sequential::new().push(Linear::new(FEATURES, 16, ())).push(Tanh).push(Linear::new(16, 3, ()))
}

/// The rows `from..to` of the batch of a step.
fn batch(step: usize, from: usize, to: usize) -> (Tensor, Tensor) {
    let x = |row: usize, i: usize| ((step * 31 + row * 7 + i * 3) % 17) as f32 / 8.0 - 1.0;
    let xs = (from..to).flat_map(|row| (0..FEATURES).map(move |i| x(row, i))).collect();
    let ys = (from..to).flat_map(|row| (0..3).map(move |i| (x(row, i) * x(row, i + 1)).sin())).collect();
    (Tensor::from_vec(xs, [to - from, FEATURES], ()), Tensor::from_vec(ys, [to - from, 3], ()))
}

fn loss(model: &impl Layer, (x, y): &(Tensor, Tensor)) -> Tensor {
    (model.forward(x) - y).square().mean(..)
}

/// All parameters and buffers, as bits.
fn bits(model: &impl Module) -> Result<Vec<u32>> {
    let parts = model.named_parameters().into_iter().map(|(_, param)| param.get());
    let parts = parts.chain(model.named_buffers().into_iter().map(|(_, buffer)| buffer.get()));
    let values = parts.map(|x| x.to_dtype(DType::F32).to_vec::<f32>()).collect::<Result<Vec<_>>>()?;
    Ok(values.concat().into_iter().map(f32::to_bits).collect())
}

const ROWS: usize = 8;
const STEPS: usize = 50;

/// The losses of one process.
fn alone(optimizer: &dyn Fn(&Sequential) -> Box<dyn Optimizer>) -> Vec<f32> {
    with_context(&Context::new(), || {
        manual_seed(7);
        let model = network();
        let mut optimizer = optimizer(&model);
        let step = |step| -> Result<f32> {
            optimizer.zero_grad();
            let loss = loss(&model, &batch(step, 0, ROWS));
            loss.backward()?;
            optimizer.step()?;
            loss.item::<f32>()
        };
        (0..STEPS).map(step).collect::<Result<_>>().expect("a step")
    })
}

/// The mean of the ranks' losses by step, and their parameters at the end.
fn together(
    count: usize,
    opts: &DdpOpts,
    optimizer: &(dyn Fn(&Sequential) -> Box<dyn Optimizer> + Sync),
) -> (Vec<f32>, Vec<Vec<u32>>) {
    let rows = ROWS / count;
    let found = ranks(count, |group| {
        // Ranks begin with different numbers, and take those of rank 0.
        manual_seed(7 + group.rank() as u64);
        let model = Ddp::new(network(), group, opts.clone())?;
        let mut optimizer = optimizer(model.module());
        let mut losses = Vec::new();
        for step in 0..STEPS {
            optimizer.zero_grad();
            let loss = loss(&model, &batch(step, group.rank() * rows, (group.rank() + 1) * rows));
            loss.backward()?;
            // A loss may be read before the step, on one rank.
            if step % 3 == 0 && group.rank() == 0 {
                loss.item::<f32>()?;
            }
            optimizer.step()?;
            losses.push(loss.item::<f32>()?);
        }
        Ok((losses, bits(&model)?))
    });
    let (losses, bits): (Vec<Vec<f32>>, Vec<Vec<u32>>) = found.into_iter().unzip();
    let mean = |step: usize| losses.iter().map(|rank| rank[step]).sum::<f32>() / count as f32;
    ((0..STEPS).map(mean).collect(), bits)
}

#[track_caller]
pub fn close(found: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(found.len(), expected.len());
    for (step, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= tolerance * b.abs().max(1e-3), "step {step}: {a}, not {b}");
    }
}

#[track_caller]
fn same(bits: &[Vec<u32>]) {
    assert!(bits.iter().all(|rank| *rank == bits[0]), "parameters differ between ranks");
}

fn sgd(model: &Sequential) -> Box<dyn Optimizer> {
    Box::new(Sgd::new(model.parameters(), SgdOpts::default().lr(0.2).momentum(0.9)))
}

fn adam(model: &Sequential) -> Box<dyn Optimizer> {
    Box::new(Adam::new(model.parameters(), AdamOpts::default().lr(0.01)))
}

#[test]
fn ranks_take_the_steps_of_one_process() {
    let (by_sgd, by_adam) = (alone(&sgd), alone(&adam));
    assert!(by_sgd[STEPS - 1] < 0.5 * by_sgd[0], "it learns");
    for count in [2, 4] {
        let (losses, bits) = together(count, &DdpOpts::default(), &sgd);
        close(&losses, &by_sgd, 1e-5);
        same(&bits);
        let (losses, bits) = together(count, &DdpOpts::default(), &adam);
        close(&losses, &by_adam, 1e-5);
        same(&bits);
    }
}

/// Some steps from where a state was saved, clipped, one of them skipped; Adam's own state may be divided. What
/// each rank has then, and the state that one of them saves.
fn continued(
    count: usize,
    steps: Range<usize>,
    from: Option<&StateDict>,
    divided: bool,
) -> (Vec<Vec<u32>>, StateDict) {
    let found = ranks(count, |group| {
        manual_seed(7);
        let model = Ddp::new(network(), group, ())?;
        let mut optimizer = adam_of(model.parameters());
        if divided {
            optimizer = optimizer.divided_among(group);
        }
        if let Some(state) = from {
            model.load_state_dict(&state.part("model"), Device::cpu())?;
            optimizer.load_state_dict(&state.part("optimizer"))?;
        }
        let rows = ROWS / group.size();
        for step in steps.clone() {
            optimizer.zero_grad();
            loss(&model, &batch(step, group.rank() * rows, (group.rank() + 1) * rows)).backward()?;
            _ = clip_grad_norm(&model.parameters(), 0.5)?;
            match step % 4 {
                2 => optimizer.step_unless(&Tensor::full((), true, ()))?,
                _ => optimizer.step()?,
            }
        }
        let mut state = StateDict::new();
        state.extend("model", model.state_dict()?)?;
        state.extend("optimizer", optimizer.state_dict()?)?;
        Ok((bits(&model)?, state))
    });
    let (bits, mut states): (Vec<_>, Vec<_>) = found.into_iter().unzip();
    (bits, states.remove(count - 1))
}

#[test]
fn an_optimizer_whose_state_is_divided_takes_the_steps_of_a_whole_one() {
    for count in [2, 4] {
        let whole = continued(count, 0..6, None, false);
        let divided = continued(count, 0..6, None, true);
        same(&divided.0);
        assert_eq!(divided.0, whole.0);
        for (name, tensor) in whole.1.iter() {
            let values = |x: &Tensor| x.to_dtype(DType::F64).to_vec::<f64>().expect("numbers");
            assert_eq!(values(divided.1.get(name).expect(name)), values(tensor), "{name}");
        }
        // Another number of ranks resumes from it.
        let (resumed, expected) =
            (continued(2, 6..9, Some(&divided.1), true), continued(2, 6..9, Some(&whole.1), false));
        assert_eq!(resumed.0, expected.0);
    }
}

#[test]
fn the_size_of_buckets_changes_nothing() {
    let whole = together(2, &DdpOpts::default(), &sgd);
    // A bucket for each parameter.
    let cut = together(2, &DdpOpts::default().bucket_bytes(1).first_bucket_bytes(1), &sgd);
    assert_eq!(whole, cut);
}

#[test]
fn gradients_may_go_in_16_bits() {
    let (losses, bits) = together(2, &DdpOpts::default().compress(DType::BF16), &sgd);
    close(&losses, &alone(&sgd), 0.1);
    same(&bits);
}

#[test]
fn a_step_of_several_batches_meets_once() {
    let found = ranks(2, |group| {
        manual_seed(7);
        let model = Ddp::new(network(), group, ())?;
        let mut optimizer = sgd(model.module());
        let own = |part: usize| batch(0, (2 * group.rank() + part) * 2, (2 * group.rank() + part) * 2 + 2);
        group.barrier()?;
        let before = kiln::context().counters().collectives;
        group.barrier()?;
        model.no_sync(|| (loss(&model, &own(0)) / 2.0).backward())?;
        (loss(&model, &own(1)) / 2.0).backward()?;
        optimizer.step()?;
        let bits = bits(&model)?;
        group.barrier()?;
        assert_eq!(kiln::context().counters().collectives - before, 2, "one for each rank");
        Ok(bits)
    });
    same(&found);
    let whole = with_context(&Context::new(), || {
        manual_seed(7);
        let model = network();
        let mut optimizer = sgd(&model);
        loss(&model, &batch(0, 0, ROWS)).backward()?;
        optimizer.step()?;
        bits(&model)
    });
    let floats = |bits: &[u32]| bits.iter().map(|&bits| f32::from_bits(bits)).collect::<Vec<f32>>();
    close(&floats(&found[0]), &floats(&whole.expect("a step")), 1e-4);
}

#[test]
fn an_infinite_gradient_on_one_rank_skips_the_step_on_all() {
    let found = ranks(2, |group| {
        manual_seed(7);
        let model = Ddp::new(network(), group, ())?;
        let (mut optimizer, mut scaler) = (sgd(model.module()), GradScaler::new(()));
        let mut skipped = Vec::new();
        for step in 0..3 {
            optimizer.zero_grad();
            let (x, y) = batch(step, group.rank() * 4, group.rank() * 4 + 4);
            let x = if step == 1 && group.rank() == 1 { x * f32::INFINITY } else { x };
            let y = &(with_autocast(DType::F16, || model.forward(&x)).to_dtype(DType::F32) - y);
            scaler.scale(&y.square().mean(..)).backward()?;
            scaler.unscale(&*optimizer)?;
            let _norm = clip_grad_norm(&model.parameters(), 0.5)?;
            scaler.step(&mut *optimizer)?;
            scaler.update()?;
            skipped.push(scaler.skipped().item::<bool>()?);
        }
        Ok((skipped, scaler.get_scale()?.to_bits() as u32, bits(&model)?))
    });
    assert_eq!(found[0].0, [false, true, false]);
    assert!(found[0] == found[1]);
}

#[test]
fn buffers_become_the_same() {
    let model = || {
        let norm = BatchNorm::new(4, ());
        Sequential::new().push(Linear::new(FEATURES, 4, ())).push(norm).push(Relu).push(Linear::new(4, 3, ()))
    };
    let run = |buffers: BufferSync| {
        ranks(2, |group| {
            manual_seed(7 + group.rank() as u64);
            let model = Ddp::new(model(), group, DdpOpts::default().buffers(buffers))?;
            let mut optimizer = Sgd::new(model.parameters(), SgdOpts::default().lr(0.1));
            for step in 0..4 {
                optimizer.zero_grad();
                loss(&model, &batch(step, group.rank() * 4, group.rank() * 4 + 4)).backward()?;
                optimizer.step()?;
            }
            model.sync_buffers()?;
            bits(&model)
        })
    };
    let (first, mean, own) = (run(BufferSync::Broadcast), run(BufferSync::Average), run(BufferSync::Keep));
    same(&first);
    same(&mean);
    assert_ne!(first[0], mean[0]);
    assert_ne!(own[0], own[1]);
    // Parameters are the same in any case.
    let params = |rank: &[u32]| rank[..rank.len() - 8].to_vec();
    assert_eq!(params(&own[0]), params(&own[1]));
}

#[test]
fn what_a_rank_does_not_use_has_a_gradient_of_zero_there() {
    let gradients = ranks(2, |group| {
        manual_seed(7);
        let (used, other) = (Linear::new(2, 1, ()), Linear::new(2, 1, ()));
        let model = Ddp::new(Sequential::new().push(used).push(other), group, ())?;
        let params = model.parameters();
        // Rank 1 uses the first layer only.
        let last = if group.rank() == 0 { 2 } else { 0 };
        (params[0].get().sum(..) + params[last].get().sum(..)).backward()?;
        params
            .iter()
            .map(|param| param.grad().expect("a gradient").to_vec::<f32>())
            .collect::<Result<Vec<_>>>()
    });
    assert_eq!(gradients[1], [vec![1.5; 2], vec![0.0], vec![0.5; 2], vec![0.0]]);
    assert_eq!(gradients[0], gradients[1]);
}

#[test]
fn models_that_differ_are_refused_on_all_ranks() {
    let said = ranks(2, |group| {
        let width = 8 + group.rank();
        let model = Sequential::new().push(Linear::new(2, width, ())).push(Linear::new(width, 2, ()));
        let refused = Ddp::new(model, group, ()).expect_err("another shape").to_string();
        let fewer = Sequential::new().push(Linear::new(2, 2, ()));
        let model = if group.rank() == 0 { fewer.push(Linear::new(2, 2, ())) } else { fewer };
        let missing = Ddp::new(model, group, ()).expect_err("fewer layers").to_string();
        let compress = Ddp::new(network(), group, DdpOpts::default().compress(DType::I64));
        assert!(compress.is_err() && Ddp::new(network(), group, DdpOpts::default().bucket_bytes(0)).is_err());
        Ok((refused, missing))
    });
    for (refused, missing) in said {
        let expected = "0.weight f32[8, 2] on rank 0 and 0.weight f32[9, 2] on rank 1";
        assert!(refused.contains(expected) && refused.contains("tests/ranks/ddp.rs"), "{refused}");
        assert!(missing.contains("1.weight f32[2, 2] on rank 0 and nothing on rank 1"), "{missing}");
    }
}

/// The losses of a training on two devices, or on one, and the running mean at its end.
fn on_devices(names: &[&str]) -> (Vec<f32>, Vec<f32>) {
    let context = Context::with_virtual_devices(&[(DeviceKind::Cpu, 2)]);
    with_context(&context, || {
        manual_seed(7);
        let devices: Vec<Device> = names.iter().map(|name| name.parse().expect("a device")).collect();
        let normal = BatchNorm::new(FEATURES, ());
        let inner = Sequential::new().push(network()).push(Linear::new(3, 3, ()));
        let model = DataParallel::new(inner, &devices).expect("devices");
        let mut optimizer = adam_of(model.parameters());
        let step = |step| -> Result<f32> {
            optimizer.zero_grad();
            let (x, y) = batch(step, 0, ROWS);
            let loss = (model.forward(&normal.forward(&x)) - y).square().mean(..);
            loss.backward()?;
            if devices.len() == 2 && step == STEPS - 1 {
                let gradients: Vec<Tensor> = model.parameters().iter().filter_map(|p| p.grad()).collect();
                let plan = kiln::plan(&gradients.iter().collect::<Vec<_>>())?;
                let on = |device| plan.kernels.iter().filter(|kernel| kernel.device == device).count();
                assert!(on(devices[0]) > 0 && on(devices[1]) > 0, "{plan}");
                // The parameters and a part of the batch there; predictions and gradients back.
                assert!(plan.transfers.iter().any(|transfer| transfer.to == devices[1]), "{plan}");
            }
            optimizer.step()?;
            loss.item::<f32>()
        };
        let losses = (0..STEPS).map(step).collect::<Result<_>>().expect("a step");
        (losses, normal.named_buffers()[0].1.get().to_vec().expect("a mean"))
    })
}

fn adam_of(params: Vec<kiln::nn::Param>) -> Adam {
    Adam::new(params, AdamOpts::default().lr(0.01))
}

#[test]
fn a_model_on_two_devices_takes_the_steps_of_one() {
    let (one, two) = (on_devices(&["cpu:0"]), on_devices(&["cpu:0", "cpu:1"]));
    close(&two.0, &one.0, 1e-5);
    assert_eq!(one.1, two.1);
}

#[test]
fn replicas_leave_the_buffers_of_the_first_device() {
    let context = Context::with_virtual_devices(&[(DeviceKind::Cpu, 3)]);
    with_context(&context, || {
        let devices: Vec<Device> = ["cpu:0", "cpu:1", "cpu:2"].map(|name| name.parse().unwrap()).into();
        let model = DataParallel::new(BatchNorm::new(1, ()), &devices).unwrap();
        // Three parts of two rows: the mean of the first is 1.
        let x = Tensor::from([[0.0f32], [2.0], [10.0], [20.0], [30.0], [40.0]]);
        model.forward(&x).realize().unwrap();
        let mean = model.named_buffers().into_iter().find(|(name, _)| name.contains("mean")).unwrap().1;
        assert_eq!(mean.get().to_vec::<f32>().unwrap(), [0.1]);
        // Fewer rows than devices, and none.
        model.eval();
        assert_eq!(model.forward(&Tensor::ones([2, 1], ())).shape()[..], [2, 1]);
        assert_eq!(model.forward(&Tensor::ones([0, 1], ())).shape()[..], [0, 1]);
        assert!(model.forward(&Tensor::ones((), ())).check().is_err());
        let uneven = (Tensor::ones([2, 1], ()), Tensor::ones([3, 1], ()));
        let error = model.map(&uneven, |_, (x, _)| x.clone()).check().unwrap_err().to_string();
        assert!(
            error.contains("a first axis of one extent") && error.contains("tests/ranks/ddp.rs"),
            "{error}"
        );
    });
}

#[test]
fn devices_that_make_no_sense_are_errors() {
    let context = Context::with_virtual_devices(&[(DeviceKind::Cpu, 2)]);
    with_context(&context, || {
        let message = |devices: &[&str]| {
            let devices: Vec<Device> = devices.iter().map(|name| name.parse().unwrap()).collect();
            DataParallel::new(Linear::new(2, 2, ()), &devices).unwrap_err().to_string()
        };
        assert!(message(&[]).contains("expected different devices, at least one"));
        assert!(message(&["cpu:0", "cpu:0"]).contains("expected different devices"));
        assert!(message(&["cpu:1", "cpu:0"]).contains("expected numbers on cpu:1, found weight, cpu"));
        assert!(message(&["cpu:0", "cpu:7"]).contains("cpu:7 is not available"));
    });
}
