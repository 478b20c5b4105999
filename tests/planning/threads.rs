//! Many threads on the same devices, caches and pools at once: right results,
//! and no thread waits for ever.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use crate::adapter;
use kiln::prelude::*;
use kiln::{Context, with_context};

/// Threads.
const THREADS: usize = 8;
/// Long enough for any machine: only a deadlock takes longer.
const FOR_EVER: Duration = Duration::from_secs(300);

/// One of several programs, with a size and a constant of its own.
fn program(number: usize, device: Device) -> Tensor {
    let rows = 8 + number % 5;
    let x = Tensor::arange(0, rows as i64 * 16, 1, device).to_dtype(DType::F32).reshape([rows, 16]) / 64.0;
    let scaled = &x * (1.0 + (number % 7) as f64);
    match number % 4 {
        0 => scaled.matmul(&x.t()).sum(0),
        1 => (&scaled - x.mean_keepdim(1)).square().max(1),
        2 => scaled.cumsum(1).flip(1).sum(1),
        _ => kiln::fori_loop(3, &[scaled], |_, carried| vec![&carried[0] * 0.5 + &x]).remove(0).sum(0),
    }
}

fn bits(x: &Tensor) -> Vec<u32> {
    x.to_vec::<f32>().expect("values").into_iter().map(f32::to_bits).collect()
}

/// What a thread does: programs on devices in turn, results sent on to another
/// device, caches emptied now and then.
fn run(context: &Arc<Context>, devices: &[Device], expected: &[Vec<Vec<u32>>], seed: usize) {
    with_context(context, || {
        for round in 0..40 {
            let number = (seed * 13 + round * 5) % expected.len();
            let (place, next) = ((seed + round) % devices.len(), (seed + 2 * round + 1) % devices.len());
            let y = program(number, devices[place]);
            let sent = if round % 3 == 0 { y.to(devices[next]).cpu() } else { y.cpu() };
            assert_eq!(bits(&sent), expected[number][place], "program {number} on {}", devices[place]);
            if round % 16 == seed {
                context.clear_caches();
                devices[place].empty_cache().expect("the device is there");
            }
        }
    });
}

#[test]
fn eight_threads_share_devices_and_caches() {
    let context = Context::with_virtual_devices(&[(DeviceKind::Cuda, 2)]);
    let mut devices = vec![Device::cpu(), Device::cuda(0), Device::cuda(1)];
    devices.extend(adapter::adapter());
    let expected: Vec<Vec<Vec<u32>>> = with_context(&context, || {
        let alone = |number| devices.iter().map(|&device| bits(&program(number, device).cpu())).collect();
        (0..20).map(alone).collect()
    });
    let held = || with_context(&context, || Device::cuda(0).memory_allocated().expect("it is there"));
    let before = held();
    let shared = Arc::new((devices, expected));
    let (sender, done) = mpsc::channel();
    let threads: Vec<_> = (0..THREADS)
        .map(|seed| {
            let (context, shared, sender) = (context.clone(), shared.clone(), sender.clone());
            std::thread::spawn(move || {
                run(&context, &shared.0, &shared.1, seed);
                sender.send(()).expect("the test waits");
            })
        })
        .collect();
    drop(sender);
    // A thread that panics hangs up, so only one that hangs lets time run out.
    let finished = (0..THREADS).take_while(|_| done.recv_timeout(FOR_EVER).is_ok()).count();
    if finished == THREADS || threads.iter().all(|thread| thread.is_finished()) {
        threads.into_iter().for_each(|thread| thread.join().expect("every thread is right"));
    }
    assert_eq!(finished, THREADS, "threads that came to an end");
    assert_eq!(held(), before, "memory left behind");
}

/// The sum of a tensor on a device made in one context, asked for in another.
#[cfg(feature = "wgpu")]
fn across(made: &Arc<Context>, asked: &Arc<Context>, device: Device) -> kiln::Result<f32> {
    let x = with_context(made, || -> kiln::Result<Tensor> {
        let x = Tensor::full([64], 0.5, device);
        x.realize()?;
        Ok(x)
    })?;
    with_context(asked, || x.sum(..).item::<f32>())
}

#[cfg(feature = "wgpu")]
#[test]
fn contexts_share_memory_whoever_opens_an_adapter_first() {
    let Some(device) = adapter::adapter() else { return };
    let contexts: Vec<Arc<Context>> = (0..4).map(|_| Context::new()).collect();
    std::thread::scope(|scope| {
        for number in 0..contexts.len() {
            let (made, asked) = (&contexts[number], &contexts[(number + 1) % contexts.len()]);
            scope.spawn(move || assert_eq!(across(made, asked, device).expect("shared memory"), 32.0));
        }
    });
}

#[cfg(feature = "wgpu")]
#[test]
fn memory_of_an_adapter_opened_apart_is_an_error() {
    let Some(own) = adapter::own_backend() else { return };
    let (shared, apart) = (Context::new(), Context::new());
    apart.install(Arc::new(own));
    for (made, asked) in [(&shared, &apart), (&apart, &shared)] {
        let error = across(made, asked, Device::wgpu(0)).expect_err("memory of another opening");
        assert!(error.to_string().contains("another opening of the adapter"), "{error}");
        assert_eq!(across(asked, asked, Device::wgpu(0)).expect("nothing is lost"), 32.0);
    }
}
