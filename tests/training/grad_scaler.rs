//! Loss scaling against PyTorch's `GradScaler`, as recorded by `tests/training/grad_scaler/record.py`, and what a
//! skipped step leaves.

use std::path::Path;

use crate::adapter;
use kiln::nn::{Embedding, Layer, Linear, ModuleExt, Param};
use kiln::optim::{
    Adagrad, AdagradOpts, Adam, AdamOpts, AdamW, AdamWOpts, Cosine, GradScaler, GradScalerOpts, Optimizer,
    RmsProp, RmsPropOpts, Schedule, Scheduler, Sgd, SgdOpts, clip_grad_norm,
};
use kiln::prelude::*;
use kiln::{Context, deny_sync, with_autocast, with_context};
use serde_json::Value;

fn recorded() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/training/grad_scaler/recorded.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

/// The script's.
fn opts() -> GradScalerOpts {
    GradScalerOpts::default().init_scale(1024.0).backoff_factor(0.25).growth_interval(7)
}

fn start() -> [Param; 2] {
    let a = Tensor::from([[1.5f64, -0.7, 0.2], [-2.0, 0.9, 3.1]]);
    [Param::new(a), Param::new(Tensor::from([0.3f64, -1.1]))]
}

/// Sets the script's gradients times `scale`, with the overflow of the step.
fn set_gradients([a, b]: &[Param; 2], step: u64, scale: &Tensor, bad: &Value) {
    let (x, y) = (a.get().detach(), b.get().detach());
    let row = Tensor::linspace(1.0, 6.0, 6, DType::F64).reshape([2, 3]);
    let wave = Tensor::full((), (0.7 * step as f64).sin(), DType::F64);
    let gradients =
        [0.3 * row * &x + (3.0 * &x).sin() + 0.2 * &wave, &y * &y * &y - 0.5 * &y + 0.1 * &wave * x.sum(1)];
    let bad = bad.as_array().unwrap().iter().find(|bad| bad[0] == step);
    for ((param, gradient), name) in [a, b].into_iter().zip(gradients).zip(["a", "b"]) {
        let mut gradient = gradient * scale;
        if let Some(bad) = bad.filter(|bad| bad[1] == name) {
            let positions = Tensor::arange(0.0, gradient.numel() as f64, 1.0, DType::I64);
            let value: f64 = bad[3].as_str().unwrap().parse().unwrap();
            let here = positions.reshape(gradient.shape()).eq(bad[2].as_f64().unwrap());
            gradient = here.select(value, &gradient);
        }
        param.set_grad(Some(&gradient)).unwrap();
    }
}

/// A run of the script that can be stopped and resumed.
struct Run {
    params: [Param; 2],
    optimizers: Vec<Box<dyn Optimizer>>,
    scaler: GradScaler,
    clip: Option<f64>,
}

type Make = fn(&Param, &Param) -> Vec<Box<dyn Optimizer>>;

impl Run {
    fn new(make: Make, clip: Option<f64>) -> Run {
        let params = start();
        let optimizers = make(&params[0], &params[1]);
        Run { params, optimizers, scaler: GradScaler::new(opts()), clip }
    }

    fn step(&mut self, step: u64, bad: &Value) {
        let scale = self.scaler.scale(&Tensor::ones((), DType::F64));
        set_gradients(&self.params, step, &scale, bad);
        for optimizer in &mut self.optimizers {
            if let Some(clip) = self.clip {
                self.scaler.unscale(&**optimizer).unwrap();
                let _norm = clip_grad_norm(&self.params, clip).unwrap();
            }
            self.scaler.step(&mut **optimizer).unwrap();
        }
        self.scaler.update().unwrap();
    }

    fn values(&self) -> [Vec<f64>; 2] {
        [0, 1].map(|at: usize| self.params[at].get().to_vec().unwrap())
    }
}

#[track_caller]
fn check(name: &str, clip: Option<f64>, make: Make) {
    let recorded = recorded();
    let expected = &recorded["runs"][name];
    let scales = numbers(&expected["scales"]);
    let mut run = Run::new(make, clip);
    for step in 1..=200 {
        let before = run.values();
        run.step(step, &recorded["bad"]);
        assert_eq!(run.scaler.get_scale().unwrap(), scales[step as usize - 1], "{name}, scale after {step}");
        let after = run.values();
        let kept = expected["params"].as_array().unwrap().iter().find(|kept| kept["step"] == step);
        for (at, part) in ["a", "b"].into_iter().enumerate() {
            let skipped = expected["skipped"][part].as_array().unwrap().iter().any(|other| other == step);
            assert_eq!(before[at] == after[at], skipped, "{name}, {part} at {step}");
            let Some(kept) = kept else { continue };
            for (found, expected) in after[at].iter().zip(numbers(&kept[part])) {
                let close = (found - expected).abs() <= 1e-9 * expected.abs().max(1.0);
                assert!(close, "{name}, {part} after {step}: {found}, recorded {expected}");
            }
        }
    }
}

fn adam(a: &Param, b: &Param) -> Vec<Box<dyn Optimizer>> {
    vec![Box::new(Adam::new([a.clone(), b.clone()], AdamOpts::default().lr(0.03)))]
}

#[test]
fn scales_steps_and_parameters_are_pytorchs() {
    check("sgd", None, |a, b| {
        let opts = SgdOpts::default().lr(0.02).momentum(0.9).dampening(0.1);
        vec![Box::new(Sgd::new([a.clone(), b.clone()], opts))]
    });
    check("adam", None, adam);
    check("adamw_amsgrad", None, |a, b| {
        let opts = AdamWOpts::default().lr(0.03).amsgrad(true);
        vec![Box::new(AdamW::new([a.clone(), b.clone()], opts))]
    });
    check("adagrad", None, |a, b| {
        vec![Box::new(Adagrad::new([a.clone(), b.clone()], AdagradOpts::default().lr(0.1).lr_decay(0.02)))]
    });
    check("rmsprop", None, |a, b| {
        vec![Box::new(RmsProp::new([a.clone(), b.clone()], RmsPropOpts::default().lr(0.02)))]
    });
}

#[test]
fn clipping_between_unscaling_and_the_step_is_pytorchs() {
    check("adam_clipped", Some(0.5), adam);
}

#[test]
fn an_overflow_skips_its_optimizer_and_lowers_the_scale_of_all() {
    check("two_optimizers", None, |a, b| {
        vec![
            Box::new(Adam::new([a.clone()], AdamOpts::default().lr(0.03))),
            Box::new(Sgd::new([b.clone()], SgdOpts::default().lr(0.02))),
        ]
    });
}

#[test]
fn a_resumed_run_is_the_same_bit_by_bit() {
    let bad = &recorded()["bad"];
    let mut whole = Run::new(adam, None);
    (1..=64).for_each(|step| whole.step(step, bad));
    let mut resumed = Run::new(adam, None);
    for (param, from) in resumed.params.iter().zip(&whole.params) {
        param.set(&Tensor::from_vec(from.get().to_vec::<f64>().unwrap(), param.shape(), ())).unwrap();
    }
    resumed.optimizers[0].load_state_dict(&whole.optimizers[0].state_dict().unwrap()).unwrap();
    resumed.scaler = GradScaler::new(());
    resumed.scaler.load_state_dict(&whole.scaler.state_dict().unwrap()).unwrap();
    for step in 65..=100 {
        whole.step(step, bad);
        resumed.step(step, bad);
        assert_eq!(whole.values(), resumed.values(), "after {step}");
    }
    assert_eq!(whole.scaler.get_scale().unwrap(), resumed.scaler.get_scale().unwrap());
    let steps = |run: &Run| {
        let state = run.optimizers[0].state_dict().unwrap();
        state.get("groups.0.params.1.steps").unwrap().item::<i64>().unwrap()
    };
    assert_eq!((steps(&whole), steps(&resumed)), (90, 90), "100 but for the ten that are skipped");
}

/// After the third, each step is one plan that is there already, and nobody waits.
#[test]
fn a_step_plans_and_compiles_nothing_and_waits_for_nothing() {
    for device in std::iter::once(Device::cpu()).chain(adapter::adapter()) {
        with_context(&Context::new(), || {
            let context = kiln::context();
            let model = Linear::new(8, 4, device);
            let mut optimizer = Adam::new(model.parameters(), AdamOpts::default().lr(1e-3));
            let mut scaler = GradScaler::new(GradScalerOpts::default().init_scale(f64::from(1u32 << 24)));
            let x = Tensor::rand([16, 8], device);
            x.realize().unwrap();
            let (mut launched, mut skipped) = (Vec::new(), Vec::new());
            for step in 0..12 {
                let before = context.counters();
                let _denied = (step >= 3).then(deny_sync);
                optimizer.set_lr(0, 1e-3 / (step + 1) as f64);
                optimizer.zero_grad();
                let loss = with_autocast(DType::F16, || model.forward(&x)).square().sum(..);
                scaler.scale(&loss).backward().unwrap();
                scaler.unscale(&optimizer).unwrap();
                let _norm = clip_grad_norm(&model.parameters(), 1.0).unwrap();
                scaler.step(&mut optimizer).unwrap();
                skipped.push(scaler.skipped());
                scaler.update().unwrap();
                let made = context.counters();
                launched.push(made.kernels_launched - before.kernels_launched);
                if step >= 3 {
                    assert_eq!(made.plans_built, before.plans_built, "{device}, step {step}");
                    assert_eq!(made.kernels_compiled, before.kernels_compiled, "{device}, step {step}");
                }
            }
            let skipped: Vec<bool> = skipped.iter().map(|skipped| skipped.item().unwrap()).collect();
            assert!(skipped[0] && !skipped[11], "{skipped:?}");
            println!("{device}: kernels {launched:?}, skipped {skipped:?}");
        });
    }
}

/// On every device a step that is skipped leaves the state and the count of steps as they were.
#[test]
fn a_skipped_step_leaves_no_trace() {
    for device in std::iter::once(Device::cpu()).chain(adapter::adapter()) {
        let train = |gradients: &[f32]| {
            let weight = Param::new(Tensor::full([2, 3], 0.5, device));
            let bias = Param::new(Tensor::full([3], 0.5, device));
            let mut optimizer = Adam::new([weight.clone(), bias.clone()], AdamOpts::default().lr(0.1));
            let mut scaler = GradScaler::new(GradScalerOpts::default().init_scale(4.0));
            for &gradient in gradients {
                let gradient = scaler.scale(&Tensor::full((), gradient, device));
                weight.set_grad(Some(&gradient.expand([2, 3]))).unwrap();
                bias.set_grad(Some(&Tensor::ones([3], device))).unwrap();
                scaler.step(&mut optimizer).unwrap();
                scaler.update().unwrap();
            }
            let state = optimizer.state_dict().unwrap();
            let steps = state.get("groups.0.params.0.steps").unwrap().item::<i64>().unwrap();
            let average = state.get("groups.0.params.0.exp_avg_sq").unwrap().to_vec::<f32>().unwrap();
            let values = [weight, bias].map(|param| param.get().to_vec::<f32>().unwrap());
            (steps, average, values[0].clone())
        };
        let good = train(&[1.0, -2.0, 0.5]);
        assert_eq!(train(&[f32::NAN, 1.0, f32::INFINITY, -2.0, 0.5, f32::NEG_INFINITY]), good, "{device}");
    }
}

/// A schedule goes on by the steps that were made, however many nobody has looked at, and nobody waits before.
#[test]
fn a_schedule_takes_back_what_was_skipped() {
    let rates = |skipped: &[bool], device| {
        let weight = Param::new(Tensor::full([2], 0.5, device));
        let mut optimizer = Sgd::new([weight.clone()], SgdOpts::default().lr(1.0));
        let mut scheduler = Scheduler::new(&mut optimizer, Cosine { steps: 900, floor: 0.0 });
        // Two good steps after each bad one keep the scale where it is.
        let mut scaler = GradScaler::new(GradScalerOpts::default().growth_interval(2));
        let step = |(i, &skipped): (usize, &bool)| {
            let quiet = deny_sync();
            let gradient = scaler.scale(&Tensor::full((), if skipped { f32::NAN } else { 0.5 }, device));
            weight.set_grad(Some(&gradient.expand([2]))).unwrap();
            scaler.step(&mut optimizer).unwrap();
            scaler.update().unwrap();
            scheduler.step_unless(&mut optimizer, &scaler.skipped()).unwrap();
            drop(quiet);
            // Who saves and goes on from there goes on the same.
            let state = scheduler.state_dict().unwrap();
            let [counted, late] =
                ["step", "skipped"].map(|name| state.get(name).unwrap().item::<i64>().unwrap());
            let saved = counted - late;
            if i % 5 == 0 {
                let before = optimizer.lr(0);
                scheduler = Scheduler::new(&mut optimizer, Cosine { steps: 900, floor: 0.0 });
                scheduler.load_state_dict(&state).unwrap();
                optimizer.set_lr(0, before);
            }
            if i % 301 == 0 {
                scheduler.settle(&mut optimizer).unwrap();
            }
            (saved, optimizer.lr(0))
        };
        skipped.iter().enumerate().map(step).collect::<Vec<_>>()
    };
    for device in std::iter::once(Device::cpu()).chain(adapter::adapter()) {
        let skipped: Vec<bool> = (0..603).map(|i| i % 3 == 0).collect();
        let found = rates(&skipped, device);
        let made = |i: usize| skipped[..=i].iter().filter(|skipped| !**skipped).count();
        for (i, &(saved, rate)) in found.iter().enumerate().step_by(301) {
            let expected = Cosine { steps: 900, floor: 0.0 }.lr(1.0, made(i) as u64);
            assert_eq!((saved, rate), (made(i) as i64, expected), "{device}, step {i}");
        }
        assert_eq!(found.last().unwrap().0, made(602) as i64, "{device}");
    }
    let mut optimizer = Sgd::new([], SgdOpts::default());
    let mut scheduler = Scheduler::new(&mut optimizer, Cosine { steps: 9, floor: 0.0 });
    let error = scheduler.step_unless(&mut optimizer, &Tensor::from([true])).unwrap_err().to_string();
    assert!(error.contains("a truth value of rank 0") && error.contains(file!()), "{error}");
}

#[test]
fn without_scaling_a_step_is_the_optimizers() {
    let weight = Param::new(Tensor::ones([2], ()));
    let mut optimizer = Sgd::new([weight.clone()], SgdOpts::default().lr(0.5));
    let mut scaler = GradScaler::new(GradScalerOpts::default().enabled(false));
    let loss = scaler.scale(&weight.get().sum(..));
    assert_eq!(loss.item::<f32>().unwrap(), 2.0);
    loss.backward().unwrap();
    scaler.unscale(&optimizer).unwrap();
    scaler.step(&mut optimizer).unwrap();
    assert!(!scaler.skipped().item::<bool>().unwrap());
    scaler.update().unwrap();
    assert_eq!(weight.get().to_vec::<f32>().unwrap(), [0.5; 2]);
    assert_eq!(scaler.get_scale().unwrap(), 1.0);
    assert!(scaler.state_dict().unwrap().is_empty());
}

#[test]
fn calls_out_of_order_are_refused() {
    let weight = Param::new(Tensor::ones([2], ()));
    let mut optimizer = Sgd::new([weight.clone()], SgdOpts::default());
    let mut scaler = GradScaler::new(());
    let error = |result: kiln::Result<()>| result.unwrap_err().to_string();
    assert!(error(scaler.update()).contains("a step since the last update"));
    assert!(error(scaler.unscale(&optimizer)).contains("parameters with gradients"));
    scaler.scale(&weight.get().sum(..)).backward().unwrap();
    scaler.unscale(&optimizer).unwrap();
    let twice = error(scaler.unscale(&optimizer));
    assert!(twice.contains("gradients that are scaled") && twice.contains("grad_scaler.rs"), "{twice}");
    scaler.step(&mut optimizer).unwrap();
    assert!(error(scaler.step(&mut optimizer)).contains("before update()"));
    scaler.update().unwrap();
    let half = Param::new(Tensor::ones([2], DType::F16));
    half.get().to_dtype(DType::F32).sum(..).backward().unwrap();
    let refused = error(scaler.unscale(&Sgd::new([half], SgdOpts::default())));
    assert!(refused.contains("keep parameters in f32"), "{refused}");
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let given = GradScalerOpts::default;
    for opts in [
        given().init_scale(0.0),
        given().init_scale(f64::NAN),
        given().growth_factor(1.0),
        given().growth_factor(f64::INFINITY),
        given().backoff_factor(1.0),
        given().backoff_factor(f64::NAN),
        given().growth_interval(0),
    ] {
        let error = GradScaler::new(opts).unscale(&Sgd::new([], SgdOpts::default())).unwrap_err().to_string();
        assert!(error.contains("GradScaler") && error.contains("grad_scaler.rs"), "{error}");
    }
    let empty = kiln::io::StateDict::new();
    assert!(GradScaler::new(()).load_state_dict(&empty).unwrap_err().to_string().contains("growth_tracker"));
}

/// A step that fails is none: the scaler goes on with the next.
#[test]
fn a_step_that_fails_is_not_counted() {
    let embedding = Embedding::new(10, 4, ());
    let mut optimizer = Adam::new(embedding.parameters(), AdamOpts::default());
    let mut scaler = GradScaler::new(());
    let mut step = |id: i64| {
        optimizer.zero_grad();
        let loss = embedding.forward(&Tensor::from([id])).square().sum(..);
        scaler.scale(&loss).backward()?;
        scaler.step(&mut optimizer)?;
        scaler.update()
    };
    step(1).unwrap();
    assert!(step(99).is_err());
    step(2).unwrap();
    assert_eq!(scaler.state_dict().unwrap().get("growth_tracker").unwrap().item::<i32>().unwrap(), 2);
}
