//! Budgets: plans that fit, and errors that say why none does. Peaks measured
//! by an allocator are in `peaks.rs`.

use std::sync::Arc;

use crate::adapter;
use kiln::prelude::*;
use kiln::{Budget, Context, Error, PlanReport, context, plan_with, with_budget, with_context};

/// Layers one after another, and the gradients of all weights: what each layer
/// gives is kept for its gradient.
fn chain(layers: usize) -> Vec<Tensor> {
    let x = host([64, 256], 1);
    let weights: Vec<Tensor> = (0..layers).map(|i| host([256, 256], i + 2)).collect();
    let weights: Vec<Tensor> = weights.into_iter().map(|w| w.with_requires_grad()).collect();
    let y = weights.iter().fold(x.tile([16, 1]), |h, w| (h.matmul(w) * 0.05).tanh());
    let loss = y.square().mean(..);
    let gradients = kiln::grad(&loss, &weights.iter().collect::<Vec<_>>());
    std::iter::once(loss).chain(gradients).collect()
}

/// A device whose memory no other test uses, in contexts of their own.
const OWN: Device = DeviceKind::Cpu.device(1);

fn host<const N: usize>(dims: [usize; N], seed: usize) -> Tensor {
    let count: usize = dims.iter().product();
    // A hash: what repeats is rounded in one direction by sums in one order.
    let hash = |i: usize| ((i * 64 + seed) as u32).wrapping_mul(2_654_435_761);
    let numbers = (0..count).map(|i| ((hash(i) ^ hash(i) >> 15) % 17) as f32 / 8.0 - 1.0);
    let x = Tensor::from_vec(numbers.collect(), dims, OWN);
    x.realize().expect("memory for a test");
    x
}

fn bits(tensors: &[Tensor]) -> Vec<Vec<u32>> {
    realize(&refs(tensors)).expect("to be computed together");
    let bits = |x: &Tensor| x.to_vec::<f32>().expect("values").into_iter().map(f32::to_bits).collect();
    tensors.iter().map(bits).collect()
}

fn refs(tensors: &[Tensor]) -> Vec<&Tensor> {
    tensors.iter().collect()
}

fn fresh() -> Arc<Context> {
    Context::with_virtual_devices(&[(DeviceKind::Cpu, 2)])
}

#[test]
fn a_plan_within_a_budget_computes_again_what_it_does_not_keep() {
    with_context(&fresh(), || {
        let free = chain(8);
        let before = kiln::plan(&refs(&free)).unwrap();
        let expected = bits(&free);
        let compiled = context().counters().kernels_compiled;
        let kept = chain(8);
        let budget = Budget::bytes(before.peak_bytes() * 3 / 4);
        let after = plan_with(&refs(&kept), budget).unwrap();
        assert!(after.peak_bytes() <= before.peak_bytes() * 3 / 4, "{after}");
        assert!(before.rematerialized.is_empty() && !after.rematerialized.is_empty(), "{after}");
        let lines = after.rematerialized.iter().map(|again| again.at.file());
        assert!(lines.into_iter().all(|file| file == file!()), "{after}");
        with_budget(budget, || realize(&refs(&kept))).unwrap();
        assert_eq!(bits(&kept), expected);
        assert_eq!(context().counters().kernels_compiled, compiled, "the same kernels run again");
    });
}

#[test]
fn a_plan_that_fits_is_left_alone() {
    with_context(&fresh(), || {
        let tensors = chain(3);
        let free = kiln::plan(&refs(&tensors)).unwrap();
        let built = context().counters().plans_built;
        let kept = plan_with(&refs(&tensors), Budget::bytes(free.peak_bytes())).unwrap();
        assert_eq!(kept.to_string(), free.to_string());
        assert_eq!(context().counters().plans_built, built);
    });
}

#[test]
fn a_plan_within_a_budget_is_cached() {
    with_context(&fresh(), || {
        let budget = Budget::bytes(kiln::plan(&refs(&chain(6))).unwrap().peak_bytes() * 4 / 5);
        let first = chain(6);
        with_budget(budget, || realize(&refs(&first))).unwrap();
        let built = context().counters().plans_built;
        let second = chain(6);
        with_budget(budget, || realize(&refs(&second))).unwrap();
        assert_eq!(context().counters().plans_built, built);
        assert_eq!(bits(&first), bits(&second));
    });
}

#[test]
fn an_impossible_budget_is_an_error_before_anything_runs() {
    with_context(&fresh(), || {
        let tensors = chain(4);
        let before = context().counters();
        let error = with_budget(Budget::bytes(700_000), || realize(&refs(&tensors))).unwrap_err();
        let Error::OverBudget { device, budget, least, causes, .. } = &error else { panic!("{error}") };
        assert_eq!((*device, *budget), (OWN, 700_000));
        let after = context().counters();
        assert_eq!(
            (after.kernels_launched, after.kernels_compiled),
            (before.kernels_launched, before.kernels_compiled)
        );
        // The list is as short as it can be, and names lines of this file.
        let sum: u64 = causes.iter().map(|cause| cause.bytes).sum();
        let smallest = causes.last().expect("a cause").bytes;
        assert!(sum >= least - budget && sum - smallest < least - budget, "{error}");
        assert!(causes.iter().all(|cause| cause.at.is_some_and(|at| at.file() == file!())), "{error}");
        // What it calls the least does.
        with_budget(Budget::bytes(*least), || realize(&refs(&tensors))).expect("the least budget does");
    });
}

#[test]
fn budgets_hold_where_they_are_in_scope() {
    with_context(&fresh(), || {
        let tensors = chain(2);
        let tight = Budget::bytes(1000);
        let wide = Budget::bytes(u64::MAX);
        assert!(plan_with(&refs(&tensors), tight).is_err());
        assert!(with_budget(tight, || plan_with(&refs(&tensors), wide)).is_err(), "all in scope hold");
        assert!(plan_with(&refs(&tensors), tight.on(Device::cuda(0))).is_ok(), "another device's");
        assert!(with_budget(tight, || std::thread::scope(|s| s.spawn(|| tensors[0].plan()).join())).is_ok());
        realize(&refs(&tensors)).expect("no budget");
        assert!(with_budget(tight, || realize(&refs(&tensors))).is_ok(), "nothing to run");
    });
}

#[test]
fn models_on_the_meta_device_are_planned_within_budgets() {
    let wide = || {
        let x = Tensor::empty([1 << 16, 4096], Device::meta());
        let weights = (0..6).map(|_| Tensor::empty([4096, 4096], Device::meta()).with_requires_grad());
        let weights: Vec<Tensor> = weights.collect();
        let loss = weights.iter().fold(x, |h, w| h.matmul(w).tanh()).square().mean(..);
        kiln::grad(&loss, &refs(&weights))
    };
    let free = kiln::plan(&refs(&wide())).unwrap().peak_bytes();
    let kept = plan_with(&refs(&wide()), Budget::bytes(free * 7 / 10)).unwrap();
    assert!(kept.peak_bytes() <= free * 7 / 10, "{kept}");
    let Err(Error::OverBudget { least, .. }) = plan_with(&refs(&wide()), Budget::bytes(1 << 30)) else {
        panic!("a parameter's gradients alone need more")
    };
    assert!(least < free * 7 / 10);
}

#[test]
fn an_optimizer_steps_within_a_budget() {
    use kiln::nn::{Layer, Linear, ModuleExt, Sequential};
    use kiln::optim::{Adam, AdamOpts, Optimizer};
    let train = |limited: bool| {
        with_context(&fresh(), || {
            kiln::manual_seed(0);
            let layer = || Linear::new(128, 128, OWN);
            let model = (0..3).fold(Sequential::new(), |model, _| model.push(layer()).then(Tensor::gelu));
            let mut opt = Adam::new(model.parameters(), AdamOpts::default());
            let x = host([2048, 128], 3);
            let mut step = || {
                opt.zero_grad();
                let loss = model.forward(&x).square().mean(..);
                loss.backward().unwrap();
                if limited {
                    // One that fails changes nothing, and says what would do.
                    let error = with_budget(Budget::bytes(1 << 19), || opt.step()).unwrap_err();
                    let Error::OverBudget { least, .. } = error else { panic!("{error}") };
                    with_budget(Budget::bytes(least), || opt.step()).unwrap();
                } else {
                    opt.step().unwrap();
                }
                loss.item::<f32>().unwrap()
            };
            [step(), step(), step()]
        })
    };
    // Gradients of parts, added up, may differ in the last bits.
    let close = |(a, b): (f32, f32)| (a - b).abs() <= 1e-5 * b.abs();
    assert!(train(true).into_iter().zip(train(false)).all(close));
}

/// Rows of a network with a head over many classes, and what a step of training
/// asks for: the loss, the gradients of the head and of what it reads.
fn many_classes(rows: usize, width: usize, classes: usize) -> Vec<Tensor> {
    let x = host([rows, width], 5).with_requires_grad();
    let head = (host([classes, width], 7) * 0.1).materialize();
    head.realize().unwrap();
    let head = head.with_requires_grad();
    let targets = Tensor::arange(0, rows as i64, 1, OWN).to_dtype(DType::I64);
    targets.realize().unwrap();
    let loss = x.matmul(&head.t()).cross_entropy(&targets, Default::default());
    let gradients = kiln::grad(&loss, &[&x, &head]);
    std::iter::once(loss).chain(gradients).collect()
}

/// What a realize takes at most beyond what was there, as the pool counts it.
fn measured(tensors: &[Tensor], budget: Budget) -> u64 {
    OWN.reset_peak_memory_stats().unwrap();
    let before = OWN.memory_allocated().unwrap();
    with_budget(budget, || realize(&refs(tensors))).unwrap();
    OWN.max_memory_allocated().unwrap() - before
}

/// Tensors within a budget: what is planned and what the pool counts are within
/// it, some of them in chunks; and the same within rounding as without a budget.
/// Gives the plan.
#[track_caller]
fn fits_in_chunks(build: impl Fn() -> Vec<Tensor>, bytes: u64) -> PlanReport {
    with_context(&fresh(), || {
        let (whole, chunks) = (build(), build());
        assert!(kiln::plan(&refs(&whole)).unwrap().peak_bytes() > bytes);
        let before = context().counters().kernels_launched;
        let plan = plan_with(&refs(&chunks), Budget::bytes(bytes)).unwrap_or_else(|e| panic!("{e}"));
        assert!(plan.peak_bytes() <= bytes && !plan.in_chunks.is_empty(), "{plan}");
        assert!(plan.in_chunks.iter().all(|c| c.chunks > 1 && c.at.file() == file!()), "{plan}");
        assert_eq!(context().counters().kernels_launched, before, "planning runs nothing");
        let most = measured(&chunks, Budget::bytes(bytes));
        assert!(most <= bytes, "{most} of {bytes}\n{plan}");
        measured(&whole, Budget::bytes(u64::MAX));
        for (a, b) in whole.iter().zip(&chunks) {
            let (a, b) = (a.to_vec::<f32>().unwrap(), b.to_vec::<f32>().unwrap());
            let largest = a.iter().fold(0f32, |most, x| most.max(x.abs()));
            let worst = a.iter().zip(&b).fold(0f32, |worst, (a, b)| worst.max((a - b).abs()));
            assert!(a.len() == b.len() && worst <= 1e-5 * largest, "{worst} of {largest}");
        }
        plan
    })
}

#[test]
fn a_step_of_training_with_logits_too_large_by_themselves_fits() {
    let logits = 256 * 4096 * 4;
    fits_in_chunks(|| many_classes(256, 16, 4096), logits / 2);
}

#[test]
fn a_hidden_layer_too_wide_by_itself_fits() {
    let layer = || {
        let (x, up, down) = (host([512, 16], 3), host([16, 2048], 5), host([2048, 16], 7));
        vec![x.matmul(&up).relu().matmul(&down)]
    };
    fits_in_chunks(layer, 512 * 2048 * 4 / 4);
}

#[test]
fn scores_of_attention_too_large_by_themselves_fit() {
    let attention = || {
        let [q, k, v] = [3, 5, 7].map(|seed| host([2, 2, 256, 8], seed));
        let scores = q.matmul(&k.transpose(-1, -2)) * 0.1;
        vec![scores.softmax(-1).matmul(&v)]
    };
    fits_in_chunks(attention, 4 * 256 * 256 * 4 / 4);
}

#[test]
fn a_step_of_training_on_a_batch_too_large_adds_up_gradients_of_parts() {
    fits_in_chunks(|| chain(4), 3_000_000);
}

/// What is kept for gradients is computed again, the logits are in chunks.
#[test]
fn what_chunks_leave_is_computed_again() {
    let step = || {
        let layers: Vec<Tensor> = (0..6).map(|i| host([32, 32], i + 2).with_requires_grad()).collect();
        let hidden = layers.iter().fold(host([1024, 32], 1), |h, w| {
            let h = h.matmul(w).tanh();
            &h - h.square().mean(..)
        });
        let head = (host([32, 2048], 7) * 0.1).materialize();
        head.realize().unwrap();
        let loss = hidden.matmul(&head).logsumexp(-1).mean(..);
        let gradients = kiln::grad(&loss, &layers.iter().collect::<Vec<_>>());
        std::iter::once(loss).chain(gradients).collect()
    };
    // Chunks alone need twice that, and what is computed again five times.
    let plan = fits_in_chunks(step, 1_500_000);
    assert!(!plan.rematerialized.is_empty(), "{plan}");
}

#[test]
fn what_has_to_be_whole_is_an_error_that_names_it() {
    with_context(&fresh(), || {
        let (x, up) = (host([512, 16], 3), host([16, 2048], 5));
        let wide = x.matmul(&up).relu();
        let Err(Error::OverBudget { causes, .. }) = plan_with(&[&wide], Budget::bytes(1 << 20)) else {
            panic!("a result does not fit")
        };
        assert_eq!(causes[0].shape, [512, 2048].into());
    });
}

/// Where outputs start at multiples of many bytes, chunks have many rows.
#[test]
fn logits_fit_in_chunks_on_an_adapter() {
    let Some(gpu) = adapter::adapter() else { return };
    with_context(&fresh(), || {
        let step = |device: Device| {
            let (x, head) = (host([256, 16], 5).to(device), (host([4096, 16], 7) * 0.1).to(device));
            let targets = Tensor::arange(0, 256, 1, device).to_dtype(DType::I64);
            realize(&[&x, &head, &targets]).unwrap();
            let (x, head) = (x.detach().with_requires_grad(), head.detach().with_requires_grad());
            let loss = x.matmul(&head.t()).cross_entropy(&targets, Default::default());
            let gradients = kiln::grad(&loss, &[&x, &head]);
            std::iter::once(loss).chain(gradients).collect::<Vec<_>>()
        };
        let (whole, chunks) = (step(gpu), step(gpu));
        assert!(kiln::plan(&refs(&chunks)).unwrap().peak_bytes() > 8 << 20);
        let budget = Budget::bytes(4 << 20).on(gpu);
        let plan = plan_with(&refs(&chunks), budget).unwrap_or_else(|e| panic!("{e}"));
        assert!(plan.peak_bytes() <= 4 << 20 && !plan.in_chunks.is_empty(), "{plan}");
        with_budget(budget, || realize(&refs(&chunks))).unwrap();
        for (a, b) in whole.iter().zip(&chunks) {
            let (a, b) = (a.to_vec::<f32>().unwrap(), b.to_vec::<f32>().unwrap());
            let largest = a.iter().fold(0f32, |most, x| most.max(x.abs()));
            let worst = a.iter().zip(&b).fold(0f32, |worst, (a, b)| worst.max((a - b).abs()));
            assert!(worst <= 1e-5 * largest, "{worst} of {largest}");
        }
    });
}
