//! Plans that run again, as CUDA graphs: what they compute is what the launches
//! one by one compute, whatever has changed since.

use super::device;
use crate::base::Device;
use crate::plan::context::{Context, Counters, with_context};
use crate::tensor::Tensor;

/// Three kernels or more.
fn work(x: &Tensor, w: &Tensor, scale: f64) -> Tensor {
    let hidden = (x.matmul(w) * scale).softmax(-1);
    hidden.matmul(&w.t()).sum(0)
}

fn numbers(rows: usize, columns: usize, seed: usize, device: Device) -> Tensor {
    let values = (0..rows * columns).map(|i| ((i * 7 + seed * 13) % 23) as f32 / 8.0 - 1.0).collect();
    Tensor::from_vec(values, [rows, columns], device)
}

fn run(rows: usize, seed: usize, scale: f64, device: Device) -> (Vec<f32>, Vec<Tensor>) {
    let (x, w) = (numbers(rows, 8, seed, device), numbers(8, 8, seed + 1, device));
    let y = work(&x, &w, scale);
    (y.to_vec().expect("values"), vec![x, w, y])
}

fn check(rows: usize, seed: usize, scale: f64) -> Vec<Tensor> {
    let (want, _) = run(rows, seed, scale, Device::cpu());
    let (have, held) = run(rows, seed, scale, Device::cuda(0));
    let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-4 * b.abs().max(1.0);
    assert!(have.iter().zip(&want).all(close), "run {seed}: {have:?} instead of {want:?}");
    held
}

fn counted<R>(context: &Context, body: impl FnOnce() -> R) -> (R, Counters) {
    let before = context.counters();
    let result = body();
    let after = context.counters();
    let change = Counters {
        kernels_launched: after.kernels_launched - before.kernels_launched,
        graphs_launched: after.graphs_launched - before.graphs_launched,
        launches_saved: after.launches_saved - before.launches_saved,
        ..Counters::default()
    };
    (result, change)
}

#[test]
fn a_plan_that_runs_again_is_one_launch_with_other_addresses_and_scalars() {
    if device().is_none() {
        return;
    }
    let context = Context::new();
    with_context(&context, || {
        // Whatever is held has its memory for itself, so that addresses change.
        let mut held = vec![check(6, 0, 1.0), check(6, 1, 2.0)];
        let (_, first) = counted(&context, || held.push(check(6, 2, 3.0)));
        for seed in 3..8 {
            let ((), counts) = counted(&context, || held.push(check(6, seed, seed as f64)));
            assert_eq!(counts.kernels_launched, first.kernels_launched, "as many kernels as before");
            assert_eq!(counts.graphs_launched, 1);
            assert!(counts.launches_saved >= 2, "{counts:?}");
        }
        // Nothing held: memory comes back at the same addresses.
        held.clear();
        for seed in [8, 9, 8] {
            check(6, seed, 0.5);
        }
    });
}

#[test]
fn other_sizes_have_graphs_of_their_own() {
    if device().is_none() {
        return;
    }
    let context = Context::new();
    with_context(&context, || {
        for trip in 0..4 {
            for rows in [3, 6, 40] {
                check(rows, trip, 0.5);
            }
        }
        assert!(context.counters().graphs_launched >= 6, "{:?}", context.counters());
    });
}

#[test]
fn a_graph_reports_bad_indices_of_its_own_run_only() {
    let Some(backend) = device() else { return };
    let (context, there) = (Context::new(), Device::cuda(0));
    context.install(std::sync::Arc::new(backend));
    with_context(&context, || {
        let table = numbers(5, 4, 0, there);
        let pick = |index: i64| {
            let index = Tensor::from_vec(vec![index, 1], [2], there);
            let scores = table.matmul(&table.t()).softmax(-1).matmul(&table);
            scores.softmax(0).index_select(1, &index).sum(0).to_vec::<f32>()
        };
        let first = pick(2).expect("inside");
        (0..3).for_each(|_| assert_eq!(pick(2).expect("inside"), first));
        let refusal = pick(9).expect_err("outside").to_string();
        assert!(refusal.contains('9') && refusal.contains("graphs.rs"), "{refusal}");
        assert_eq!(pick(2).expect("inside again"), first);
        assert!(context.counters().graphs_launched > 0);
    });
}

#[test]
fn loops_replay_their_bodies() {
    if device().is_none() {
        return;
    }
    let context = Context::new();
    with_context(&context, || {
        let looped = |device: Device| {
            let (x, w) = (numbers(4, 8, 1, device), numbers(8, 8, 2, device));
            let trip = |_: &Tensor, carried: &[Tensor]| vec![carried[0].matmul(&w).softmax(-1)];
            crate::fori_loop(5, std::slice::from_ref(&x), trip)[0].to_vec::<f32>().expect("values")
        };
        let (want, have) = (looped(Device::cpu()), looped(Device::cuda(0)));
        assert!(have.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-5), "{have:?} instead of {want:?}");
        assert_eq!(context.counters().graphs_launched, 4, "all trips but the first");
    });
}

/// Threads that run one plan at the same time use its graph one at a time.
#[test]
fn threads_replay_one_plan() {
    if device().is_none() {
        return;
    }
    let context = Context::new();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let context = &context;
            scope.spawn(move || {
                with_context(context, || (0..6).for_each(|trip| drop(check(6, thread * 6 + trip, 0.25))))
            });
        }
    });
    assert!(context.counters().graphs_launched > 0);
}
