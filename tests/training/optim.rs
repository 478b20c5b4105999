//! Optimizers, schedules and clipping against PyTorch, as recorded by
//! `tests/training/optim/record.py`.

use std::path::Path;

use kiln::nn::Param;
use kiln::optim::{
    Adagrad, AdagradOpts, Adam, AdamOpts, AdamW, AdamWOpts, Cosine, Lion, LionOpts, OneCycle, Optimizer,
    Plateau, RmsProp, RmsPropOpts, Schedule, Scheduler, Sgd, SgdOpts, StepDecay, WarmUp, clip_grad_norm,
    clip_grad_value,
};
use kiln::prelude::*;
use kiln::{Context, with_context};
use serde_json::Value;

fn recorded(part: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/training/optim/recorded.json");
    let text = std::fs::read_to_string(path).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()[part].take()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

#[track_caller]
fn assert_close(what: &str, found: &[f64], expected: &[f64], bound: f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let close = (found - expected).abs() <= bound * expected.abs().max(1.0);
        assert!(close, "{what}: element {i} is {found}, recorded {expected}");
    }
}

/// The two parameters of the script.
fn start(dtype: DType) -> [Param; 2] {
    let a = Tensor::from([[1.5f64, -0.7, 0.2], [-2.0, 0.9, 3.1]]);
    [Param::new(a.to_dtype(dtype)), Param::new(Tensor::from([0.3f64, -1.1]).to_dtype(dtype))]
}

/// The gradients of the script, as the parameters' own.
fn set_gradients([a, b]: &[Param; 2], step: u64) {
    let (x, y) = (a.get().detach(), b.get().detach());
    let row = Tensor::linspace(1.0, 6.0, 6, x.dtype()).reshape([2, 3]);
    let wave = Tensor::full((), (0.7 * step as f64).sin(), x.dtype());
    a.set_grad(Some(&(0.3 * row * &x + (3.0 * &x).sin() + 0.2 * &wave))).unwrap();
    b.set_grad(Some(&(&y * &y * &y - 0.5 * &y + 0.1 * &wave * x.sum(1)))).unwrap();
}

/// Moves the parameters 100 steps and compares where they are on the way.
#[track_caller]
fn check(name: &str, make: impl FnOnce(Vec<Param>) -> Box<dyn Optimizer>) {
    let recorded = recorded("optimizers")[name].take();
    let params = start(DType::F64);
    let mut optimizer = make(params.to_vec());
    for step in 1..=100 {
        set_gradients(&params, step);
        optimizer.step().unwrap();
        let Some(kept) = recorded.as_array().unwrap().iter().find(|kept| kept["step"] == step) else {
            continue;
        };
        for (param, part) in params.iter().zip(["a", "b"]) {
            let found = param.get().to_vec::<f64>().unwrap();
            assert_close(&format!("{name}, {part} after {step}"), &found, &numbers(&kept[part]), 1e-9);
        }
    }
}

#[test]
fn sgd_is_pytorchs() {
    check("sgd", |p| Box::new(Sgd::new(p, SgdOpts::default().lr(0.05))));
    let opts = SgdOpts::default().lr(0.02).weight_decay(0.01);
    let momentum = opts.clone().momentum(0.9).dampening(0.1);
    check("sgd_momentum", |p| Box::new(Sgd::new(p, momentum)));
    check("sgd_nesterov", |p| Box::new(Sgd::new(p, opts.momentum(0.8).nesterov(true))));
}

#[test]
fn adam_is_pytorchs() {
    check("adam", |p| Box::new(Adam::new(p, AdamOpts::default().lr(0.03))));
    let opts = AdamOpts::default().lr(0.03).betas((0.8, 0.99)).weight_decay(0.05).amsgrad(true);
    check("adam_decay_amsgrad", |p| Box::new(Adam::new(p, opts)));
    check("adamw", |p| Box::new(AdamW::new(p, AdamWOpts::default().lr(0.03).weight_decay(0.1))));
    check("adamw_amsgrad", |p| Box::new(AdamW::new(p, AdamWOpts::default().lr(0.03).amsgrad(true))));
}

#[test]
fn rmsprop_is_pytorchs() {
    check("rmsprop", |p| Box::new(RmsProp::new(p, RmsPropOpts::default().lr(0.02))));
    let opts = RmsPropOpts::default().lr(0.005).alpha(0.9).momentum(0.7).centered(true);
    let opts = opts.weight_decay(0.02).eps(1e-3);
    check("rmsprop_centered_momentum", |p| Box::new(RmsProp::new(p, opts)));
}

#[test]
fn adagrad_is_pytorchs() {
    check("adagrad", |p| Box::new(Adagrad::new(p, AdagradOpts::default().lr(0.1))));
    let opts = AdagradOpts::default().lr(0.1).lr_decay(0.02).weight_decay(0.03).initial_accumulator(0.1);
    check("adagrad_decay", |p| Box::new(Adagrad::new(p, opts)));
}

#[test]
fn lion_follows_its_paper() {
    check("lion", |p| Box::new(Lion::new(p, LionOpts::default().lr(1e-2).weight_decay(0.1))));
}

#[test]
fn single_precision_agrees_within_its_own_accuracy() {
    let expected = recorded("optimizers")["adam"].take();
    let params = start(DType::F32);
    let mut optimizer = Adam::new(params.to_vec(), AdamOpts::default().lr(0.03));
    for step in 1..=100 {
        set_gradients(&params, step);
        optimizer.step().unwrap();
    }
    let found: Vec<f64> = params[1].get().to_vec::<f32>().unwrap().into_iter().map(f64::from).collect();
    assert_close("adam in f32", &found, &numbers(&expected[4]["b"]), 2e-5);
}

#[test]
fn a_parameter_without_a_gradient_stays_and_groups_have_their_own_rules() {
    let [a, b] = start(DType::F64);
    let mut optimizer = Sgd::new([a.clone(), a.clone()], SgdOpts::default().lr(1.0));
    assert!(optimizer.add_group([a.clone()], SgdOpts::default()).is_err());
    optimizer.add_group([b.clone()], SgdOpts::default().lr(0.5)).unwrap();
    assert_eq!((optimizer.groups(), optimizer.parameters().len()), (2, 2));
    let before = a.get().to_vec::<f64>().unwrap();
    b.set_grad(Some(&Tensor::from([1.0f64, 2.0]))).unwrap();
    optimizer.step().unwrap();
    assert_eq!(a.get().to_vec::<f64>().unwrap(), before);
    assert_eq!(b.get().to_vec::<f64>().unwrap(), [0.3 - 0.5, -1.1 - 1.0]);
    optimizer.set_lr(1, 0.25);
    optimizer.step().unwrap();
    assert_close("after another rate", &b.get().to_vec::<f64>().unwrap(), &[-0.45, -2.6], 1e-12);
    optimizer.zero_grad();
    assert!(b.grad().is_none());
}

#[test]
fn a_step_that_fails_changes_nothing() {
    let [a, b] = start(DType::F32);
    let mut optimizer = Adam::new([a.clone(), b.clone()], AdamOpts::default());
    set_gradients(&[a.clone(), b.clone()], 1);
    let out_of_range = Tensor::from([7i64, 7]);
    let bad = Tensor::from([1.0f32, 2.0]).take_along_dim(&out_of_range, 0);
    b.set_grad(Some(&bad)).unwrap();
    let before = a.get().to_vec::<f32>().unwrap();
    let error = optimizer.step().unwrap_err().to_string();
    assert!(error.contains('7'), "{error}");
    assert_eq!(a.get().to_vec::<f32>().unwrap(), before);
    set_gradients(&[a.clone(), b.clone()], 1);
    optimizer.step().unwrap();
    // The first step of Adam is one learning rate along the sign.
    let moved = a.get().to_vec::<f32>().unwrap();
    assert!(moved.iter().zip(&before).all(|(x, y)| ((x - y).abs() - 1e-3).abs() < 1e-5), "{moved:?}");
}

#[test]
fn state_follows_its_parameter() {
    let [a, b] = start(DType::F64);
    let mut optimizer = Adam::new([a.clone(), b.clone()], AdamOpts::default());
    set_gradients(&[a.clone(), b.clone()], 1);
    optimizer.step().unwrap();
    let module = Pair { a: a.clone(), b: b.clone() };
    kiln::nn::ModuleExt::to_dtype(&module, DType::F32).unwrap();
    set_gradients(&[a.clone(), b.clone()], 2);
    optimizer.step().unwrap();
    assert_eq!(a.dtype(), DType::F32);
    assert!(a.get().to_vec::<f32>().unwrap().iter().all(|x| x.is_finite()));
}

struct Pair {
    a: Param,
    b: Param,
}
kiln::module!(Pair { a, b });

#[test]
fn rates_and_step_counts_are_arguments() {
    let context = Context::new();
    with_context(&context, || {
        let [a, b] = start(DType::F32);
        let mut optimizer = AdamW::new([a.clone(), b.clone()], AdamWOpts::default());
        let mut built = Vec::new();
        for step in 0..20 {
            // The same tensors again, so that only the optimizer's numbers differ.
            a.set_grad(Some(&Tensor::ones([2, 3], ()))).unwrap();
            b.set_grad(Some(&Tensor::ones([2], ()))).unwrap();
            optimizer.set_lr(0, 0.1 / (step + 1) as f64);
            optimizer.step().unwrap();
            built.push(context.counters().plans_built);
        }
        assert_eq!(built.last(), Some(&2), "{built:?}");
    });
}

#[track_caller]
fn check_schedule(name: &str, lr: f64, schedule: impl Schedule) {
    let mut optimizer = Sgd::new([], SgdOpts::default().lr(lr));
    let mut scheduler = Scheduler::new(&mut optimizer, schedule);
    let rates: Vec<f64> = (0..60)
        .map(|_| {
            let rate = optimizer.lr(0);
            scheduler.step(&mut optimizer);
            rate
        })
        .collect();
    assert_close(name, &rates, &numbers(&recorded("schedules")[name]), 1e-12);
}

#[test]
fn schedules_are_pytorchs() {
    check_schedule("step", 0.4, StepDecay { every: 7, factor: 0.5 });
    check_schedule("cosine", 0.4, Cosine { steps: 60, floor: 0.02 });
    let cosine = Cosine { steps: 60, floor: 0.0 };
    check_schedule("warm_up_cosine", 0.4, WarmUp { steps: 8, factor: 0.1, then: cosine });
    check_schedule("one_cycle", 0.4, OneCycle::new(0.3, 60));

    let mut optimizer = Sgd::new([], SgdOpts::default().lr(0.4));
    let mut plateau = Plateau::default();
    (plateau.factor, plateau.patience, plateau.floor) = (0.3, 3, 0.01);
    let rates: Vec<f64> = (0..60)
        .map(|step| {
            let step = f64::from(step);
            plateau.step((1.0 - 0.1 * step).max(0.4) + 0.00001 * step.cos(), &mut optimizer);
            optimizer.lr(0)
        })
        .collect();
    assert_close("plateau", &rates, &numbers(&recorded("plateau")), 1e-12);
}

#[test]
fn clipping_is_pytorchs() {
    for kept in recorded("clipping").as_array().unwrap() {
        let params = start(DType::F64);
        set_gradients(&params, 1);
        let norm = clip_grad_norm(&params, kept["most"].as_f64().unwrap()).unwrap();
        assert_close("norm", &[norm.item().unwrap()], &[kept["norm"].as_f64().unwrap()], 1e-12);
        for (param, part) in params.iter().zip(["a", "b"]) {
            let found = param.grad().unwrap().to_vec::<f64>().unwrap();
            assert_close(part, &found, &numbers(&kept[part]), 1e-12);
        }
    }
    let params = start(DType::F64);
    params[1].set_grad(Some(&Tensor::from([-3.0f64, 0.25]))).unwrap();
    clip_grad_value(&params, 0.5).unwrap();
    assert_eq!(params[1].grad().unwrap().to_vec::<f64>().unwrap(), [-0.5, 0.25]);
    assert!(params[0].grad().is_none());
    assert!(clip_grad_norm(&params[..1], 1.0).is_err());
}

#[test]
fn a_cycle_turns_momentum_as_pytorchs() {
    let expected = |step: u64| {
        let (from, to, share) = match step {
            0..=17 => (0.95, 0.85, step as f64 / 17.0),
            _ => (0.85, 0.95, (step - 17) as f64 / 42.0),
        };
        to + (from - to) / 2.0 * (1.0 + (std::f64::consts::PI * share).cos())
    };
    let optimizers: [Box<dyn Optimizer>; 4] = [
        Box::new(Sgd::new([], SgdOpts::default().momentum(0.5))),
        Box::new(Adam::new([], AdamOpts::default())),
        Box::new(AdamW::new([], AdamWOpts::default())),
        Box::new(RmsProp::new([], RmsPropOpts::default())),
    ];
    for mut optimizer in optimizers {
        let mut scheduler = Scheduler::new(&mut *optimizer, OneCycle::new(0.3, 60));
        for step in 0..60 {
            assert_close("momentum", &[optimizer.momentum(0).unwrap()], &[expected(step)], 1e-12);
            scheduler.step(&mut *optimizer);
        }
    }
    let mut still = Sgd::new([], SgdOpts::default().momentum(0.5));
    Scheduler::new(&mut still, OneCycle { momentum: None, ..OneCycle::new(0.3, 60) });
    assert_eq!(still.momentum(0), Some(0.5));
    assert_eq!(Adagrad::new([], AdagradOpts::default()).momentum(0), None);
}

#[test]
fn what_is_remembered_follows_options_that_change() {
    let params = start(DType::F64);
    let mut optimizer = RmsProp::new(params.clone(), RmsPropOpts::default());
    for (step, momentum) in [0.0, 0.9, 0.0, 0.5].into_iter().enumerate() {
        optimizer.set_momentum(0, momentum);
        set_gradients(&params, step as u64 + 1);
        optimizer.step().unwrap();
    }
    let state = optimizer.state_dict().unwrap();
    let mut again = RmsProp::new(params.clone(), RmsPropOpts::default().momentum(0.1));
    again.load_state_dict(&state).unwrap();
    assert_eq!(again.momentum(0), Some(0.5), "what a schedule has set is part of the state");
}

#[test]
fn a_plateau_begins_with_nan_and_goes_on() {
    let mut optimizer = Sgd::new([], SgdOpts::default().lr(1.0));
    let mut plateau = Plateau::default();
    (plateau.patience, plateau.factor) = (1, 0.5);
    let rates: Vec<f64> = [f64::NAN, f64::NAN, 3.0, 2.0, f64::NAN, f64::NAN, 1.0, 1.0]
        .into_iter()
        .map(|number| {
            plateau.step(number, &mut optimizer);
            optimizer.lr(0)
        })
        .collect();
    assert_eq!(rates, [1.0, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25]);
}

#[test]
fn what_a_plateau_reduces_a_schedule_leaves_reduced() {
    let schedule = || StepDecay { every: 2, factor: 0.1 };
    let run = |state: bool| {
        let mut optimizer = Sgd::new([], SgdOpts::default().lr(1.0));
        let mut scheduler = Scheduler::new(&mut optimizer, schedule());
        let mut plateau = Plateau::default();
        (plateau.patience, plateau.factor) = (0, 0.5);
        let mut rates = Vec::new();
        for step in 0..5 {
            // The second number is no fall, nor is the fifth.
            plateau.step([5.0, 5.0, 4.0, 3.0, 3.0][step], &mut optimizer);
            scheduler.step(&mut optimizer);
            rates.push(optimizer.lr(0));
            if state && step == 2 {
                let (kept, place) = (optimizer.state_dict().unwrap(), scheduler.state_dict().unwrap());
                optimizer = Sgd::new([], SgdOpts::default().lr(1.0));
                scheduler = Scheduler::new(&mut optimizer, schedule());
                optimizer.load_state_dict(&kept).unwrap();
                scheduler.load_state_dict(&place).unwrap();
            }
        }
        rates
    };
    let expected = [1.0, 0.05, 0.05, 0.005, 0.0025];
    assert_close("rates", &run(false), &expected, 1e-12);
    assert_close("rates of a run that was saved", &run(true), &expected, 1e-12);
    let mut optimizer = Sgd::new([], SgdOpts::default().lr(1.0));
    optimizer.reduce_lr(0, 0.5, 0.8);
    assert_eq!(optimizer.lr(0), 0.8, "not below the floor");
    optimizer.reduce_lr(0, 0.5, 2.0);
    assert_eq!(optimizer.lr(0), 0.8, "nor up to it");
    let scheduler = Scheduler::new(&mut optimizer, Cosine { steps: 10, floor: 0.0 });
    assert_eq!(optimizer.lr(0), 0.8, "a schedule begins where the rate is: {scheduler:?}");
}

#[test]
fn a_step_with_options_of_no_sense_moves_nothing_and_recovers() {
    let params = start(DType::F64);
    let before = params[0].get().to_vec::<f64>().unwrap();
    let (mut optimizer, line) = (Sgd::new(params.clone(), SgdOpts::default().lr(f64::NAN)), line!());
    set_gradients(&params, 1);
    let error = optimizer.step().unwrap_err().to_string();
    assert!(error.contains("a learning rate of at least 0, found NaN"), "{error}");
    assert!(error.ends_with(&format!("{}:{line}", file!())), "{error}");
    assert_eq!(params[0].get().to_vec::<f64>().unwrap(), before);
    optimizer.set_lr(0, 0.1);
    optimizer.step().unwrap();
    let line = line!() + 1;
    optimizer.set_lr(0, -1.0);
    let error = optimizer.step().unwrap_err().to_string();
    assert!(error.ends_with(&format!("{}:{line}", file!())), "{error}");
}
