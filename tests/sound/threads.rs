//! One value is computed once, whoever asks.

use super::*;

#[test]
fn all_read_what_one_computes() {
    for device in devices() {
        let rounds = if device == Device::cpu() { 100 } else { 20 };
        for n in [10, 30_000] {
            for _ in 0..rounds {
                let y = realized(vec![0.0; n], device) + 1.0;
                at_once(4, |_| assert!(y.to_vec::<f32>().unwrap().iter().all(|&v| v == 1.0), "{device} {n}"));
            }
        }
    }
}

#[test]
fn it_is_computed_once() {
    with_context(&Context::new(), || {
        let context = kiln::plan::context::current();
        let y = realized(vec![0.0; 1000], Device::cpu()) + 1.0;
        let before = context.counters().kernels_launched;
        at_once(4, |_| with_context(&context, || _ = y.to_vec::<f32>().unwrap()));
        assert_eq!(context.counters().kernels_launched - before, 1);
    });
}

#[test]
fn overlapping_graphs_do_not_disturb_each_other() {
    for device in devices() {
        for _ in 0..if device == Device::cpu() { 100 } else { 10 } {
            let x = realized(vec![1.0; 5000], device);
            let a = x + 1.0;
            let (b, c) = (&a * 3.0, &a + 5.0);
            drop(a);
            let (d, e) = (&b + &c, &b * &c);
            let expected = [6.0, 7.0, 13.0, 42.0];
            let all = [b, c, d, e];
            at_once(4, |number| {
                for step in 0..4 {
                    let k = (number + step) % 4;
                    let values = all[k].to_vec::<f32>().unwrap();
                    assert!(values.iter().all(|&v| v == expected[k]), "{device}: {k} is {}", values[0]);
                }
            });
        }
    }
}

/// Readers see the state between two steps, and the training is what it is without them.
#[test]
fn readers_do_not_disturb_training() {
    for device in devices() {
        let steps = if device == Device::cpu() { 400 } else { 40 };
        let param = Param::new(realized(vec![0.0; 512], device));
        let done = AtomicBool::new(false);
        at_once(4, |number| {
            if number > 0 {
                while !done.load(Ordering::Relaxed) {
                    let values = param.get().to_vec::<f32>().unwrap();
                    assert!(values.iter().all(|&v| v == values[0]), "{device}: torn");
                }
                return;
            }
            let mut optimizer = Sgd::new([param.clone()], SgdOpts::default().lr(1.0));
            for _ in 0..steps {
                optimizer.zero_grad();
                param.get().sum(..).backward().unwrap();
                optimizer.step().unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
        assert_eq!(param.get().to_vec::<f32>().unwrap()[0], -(steps as f32), "{device}");
    }
}

#[test]
fn readers_of_adam_see_whole_steps() {
    let (one, two) = (
        Param::new(realized(vec![0.0; 64], Device::cpu())),
        Param::new(realized(vec![0.0; 64], Device::cpu())),
    );
    let done = AtomicBool::new(false);
    at_once(3, |number| {
        if number > 0 {
            while !done.load(Ordering::Relaxed) {
                let values = [&one, &two][number - 1].get().to_vec::<f32>().unwrap();
                assert!(values.iter().all(|&v| v == values[0]), "torn: {values:?}");
            }
            return;
        }
        let mut optimizer = Adam::new([one.clone(), two.clone()], AdamOpts::default());
        for _ in 0..300 {
            optimizer.zero_grad();
            (one.get().sum(..) + two.get().sum(..)).backward().unwrap();
            optimizer.step().unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(one.get().to_vec::<f32>().unwrap(), two.get().to_vec::<f32>().unwrap());
}

#[test]
fn what_one_thread_sets_others_read_whole() {
    let param = Param::new(realized(vec![0.0; 256], Device::cpu()));
    let done = AtomicBool::new(false);
    at_once(3, |number| {
        if number > 0 {
            while !done.load(Ordering::Relaxed) {
                let values = param.get().to_vec::<f32>().unwrap();
                assert!(values.iter().all(|&v| v == values[0]), "torn");
            }
            return;
        }
        for _ in 0..400 {
            param.set(&(param.get() + 1.0)).unwrap();
            param.get().realize().unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(param.get().to_vec::<f32>().unwrap()[0], 400.0);
}

#[test]
fn gradients_add_up() {
    for device in devices() {
        for rounds in [1, 50] {
            let param = Param::new(realized(vec![1.0; 8], device));
            at_once(8, |number| {
                for round in 0..rounds {
                    let k = (number * rounds + round) as f64;
                    (param.get() * k).sum(..).backward().unwrap();
                }
            });
            let count = 8 * rounds;
            let expected = (count * (count - 1) / 2) as f32;
            assert_eq!(param.grad().unwrap().to_vec::<f32>().unwrap(), [expected; 8], "{device}");
        }
    }
}

/// Gradients forgotten or set beside passes and steps are whole, whichever comes first.
#[test]
fn gradients_may_be_forgotten_and_set_meanwhile() {
    let param = Param::new(realized(vec![0.0; 8], Device::cpu()));
    let ones = realized(vec![1.0; 8], Device::cpu());
    at_once(4, |number| {
        let mut optimizer = Sgd::new([param.clone()], SgdOpts::default().lr(0.0));
        for _ in 0..100 {
            match number {
                0 | 1 => param.get().sum(..).backward().unwrap(),
                2 => param.set_grad((param.requires_grad()).then_some(&ones)).unwrap(),
                _ => {
                    optimizer.step().unwrap();
                    param.zero_grad();
                }
            }
            if let Some(grad) = param.grad() {
                let values = grad.to_vec::<f32>().unwrap();
                assert!(values.iter().all(|&v| v == values[0] && (1.0..=201.0).contains(&v)), "{values:?}");
            }
        }
    });
    assert_eq!(param.get().to_vec::<f32>().unwrap(), [0.0; 8]);
}

/// A thread is told of the bad indices of its own launches, and of no other's.
#[test]
fn bad_indices_are_told_to_the_thread_that_used_them() {
    for device in devices() {
        let rows = Tensor::arange(0.0, 12.0, 1.0, device).reshape([4, 3]);
        rows.realize().unwrap();
        at_once(4, |thread| {
            for round in 0..8 {
                let bad = thread % 2 == 1 && round % 3 == 0;
                let index = Tensor::from_vec(vec![if bad { 100 + thread as i64 } else { 2i64 }], [1], device);
                let read = rows.index_select(0, &index).to_vec::<f32>();
                match read {
                    Ok(row) => assert!(!bad && row == [6.0, 7.0, 8.0], "{device} {thread} {round}: {row:?}"),
                    Err(error) => assert!(
                        bad && error.to_string().contains(&format!("{}", 100 + thread)),
                        "{device} {thread} {round}: {error}"
                    ),
                }
            }
        });
    }
}
