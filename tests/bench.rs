//! The timer measures what a closure computes, and says what disturbed it.

use std::time::Duration;

use kiln::bench::{Compare, Disturbance, Timer};
use kiln::prelude::*;
use kiln::{Context, context, with_context};

const BRIEF: Duration = Duration::from_millis(3);

fn input(n: usize) -> Tensor {
    let x = Tensor::from_vec((0..n * n).map(|i| (i % 7) as f32).collect(), [n, n], ());
    x.realize().expect("an input");
    x
}

#[test]
fn every_run_computes_the_expression_once() {
    with_context(&Context::new(), || {
        let x = input(8);
        let before = context().counters().kernels_launched;
        let found = Timer::new(|| x.softmax(-1)).timeit(10).expect("a measurement");
        // Two to warm up.
        assert_eq!(context().counters().kernels_launched - before, 12);
        assert_eq!((found.runs_per_block, found.seconds.len()), (10, 1));
        assert_eq!(found.bytes, 2 * 4 * 64);
        assert!(found.median() > 0.0 && found.gigabytes_per_second().is_some_and(|rate| rate > 0.0));
    });
}

#[test]
fn more_work_takes_longer_and_the_clock_does_not_matter() {
    let (small, large) = (input(8), input(256));
    let mut times = [&small, &large].map(|x| {
        let found = Timer::new(|| x.matmul(x)).blocked_autorange(BRIEF).expect("a measurement");
        assert!(found.seconds.len() >= 5 && found.seconds.iter().sum::<f64>() > 0.0, "{found}");
        found
    });
    assert!(times[1].median() > times[0].median(), "{} {}", times[0], times[1]);
    // A thousandth of the time at least.
    assert!(times[0].runs_per_block as f64 * times[0].quantile(1.0) >= 3e-6, "{}", times[0]);
    times[1].sub_label = "large".into();
    println!("{}", Compare::new(times));
}

#[test]
fn several_tensors_results_and_nothing_can_be_returned() {
    let x = input(8);
    let time = |found: kiln::Result<kiln::bench::Measurement>| found.expect("a measurement");
    assert_eq!(time(Timer::new(|| (x.exp(), [x.sin(), x.cos()])).timeit(2)).bytes, 4 * 4 * 64);
    assert!(time(Timer::new(|| Ok::<_, kiln::Error>(vec![x.exp()])).timeit(2)).bytes > 0);
    let nothing = time(Timer::new(|| x.exp().realize().map(|_| ())).timeit(2));
    assert_eq!((nothing.bytes, nothing.gigabytes_per_second()), (0, None));
}

#[test]
fn a_value_in_memory_is_told() {
    let x = input(8).exp();
    x.realize().expect("a value");
    let found = Timer::new(|| x.clone()).timeit(3).expect("a measurement");
    assert!(found.disturbances.contains(&Disturbance::NothingRun), "{found}");
    assert!(found.to_string().contains("nothing was computed"), "{found}");
}

#[test]
fn a_varying_time_is_told() {
    let (mut run, x) = (0, input(4));
    let mut uneven = Timer::new(|| {
        run += 1;
        std::thread::sleep(Duration::from_micros(if run % 3 == 0 { 3000 } else { 100 }));
        x.exp()
    });
    let found = uneven.blocked_autorange(Duration::from_millis(30)).expect("a measurement");
    assert!(!found.is_steady(), "{found}");
    assert!(found.to_string().contains("of the median, over 10 %"), "{found}");
    assert!(uneven.adaptive_autorange(0.1, BRIEF, BRIEF).is_ok(), "it ends all the same");
}

#[test]
fn devices_and_threads_are_as_set() {
    let x = input(16);
    let found = Timer::new(|| x.exp()).threads(3).timeit(2).expect("a measurement");
    assert_eq!((found.device, found.threads), (Device::cpu(), 3));
    let found = Timer::new(|| Tensor::ones([8], ()).exp()).device(Device::null()).timeit(2);
    assert_eq!(found.expect("a measurement").device, Device::null());
}

#[test]
fn errors_come_out() {
    let x = input(4);
    assert!(Timer::new(|| x.reshape([3])).timeit(2).is_err());
    assert!(Timer::new(|| x.exp()).timeit(0).is_err());
    assert!(Timer::new(|| x.exp()).threads(0).timeit(2).is_err());
    assert!(Timer::new(|| Tensor::empty([2], Device::meta()).exp()).timeit(2).is_err());
}

#[test]
fn a_tensor_that_requires_gradients_says_so() {
    let x = Tensor::ones([2], ());
    assert!(!format!("{x:?}").contains("grad"), "{x:?}");
    let w = x.with_requires_grad();
    assert!(format!("{w:?}").ends_with(", requires_grad)"), "{w:?}");
    assert_eq!(format!("{:?}", w.exp()), "Tensor(f32 [2] on cpu, exp, tracked)");
}
