//! Values as futures: any executor polls them, several are pending at once, and they give what blocking calls do.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context as Polled, Poll, Wake};

use crate::adapter::adapter;
use kiln::nn::{Layer, Linear, ModuleExt};
use kiln::optim::{Optimizer, Sgd, SgdOpts};
use kiln::prelude::*;
use kiln::{Context, Result, deny_sync, with_context};

/// An executor of one thread that polls when it is woken.
struct Woken(AtomicBool, std::thread::Thread);

impl Wake for Woken {
    fn wake(self: Arc<Woken>) {
        self.0.store(true, Ordering::Release);
        self.1.unpark();
    }
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let woken = Arc::new(Woken(AtomicBool::new(true), std::thread::current()));
    let waker = woken.clone().into();
    let mut future = pin!(future);
    loop {
        if !woken.0.swap(false, Ordering::AcqRel) {
            std::thread::park();
        } else if let Poll::Ready(value) = future.as_mut().poll(&mut Polled::from_waker(&waker)) {
            return value;
        }
    }
}

/// Both futures, polled in turns.
async fn both<T>(a: impl Future<Output = T>, b: impl Future<Output = T>) -> (T, T) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut first, mut second) = (None, None);
    poll_fn(|polled| {
        let mut step = |future: Pin<&mut dyn Future<Output = T>>, found: &mut Option<T>| {
            if found.is_none()
                && let Poll::Ready(value) = future.poll(polled)
            {
                *found = Some(value);
            }
        };
        step(a.as_mut(), &mut first);
        step(b.as_mut(), &mut second);
        match (first.take(), second.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            (a, b) => {
                (first, second) = (a, b);
                Poll::Pending
            }
        }
    })
    .await
}

fn devices() -> Vec<Device> {
    let wgpu = adapter().map(|_| Device::wgpu(0));
    [Device::cpu()].into_iter().chain(wgpu).collect()
}

#[test]
fn values_are_those_of_blocking_calls_with_any_executor() -> Result<()> {
    for device in devices() {
        let x = Tensor::arange(0, 6, 1, device).reshape([2, 3]).to_dtype(DType::F32);
        let y = x.matmul(&x.t()).softmax(1);
        let expected = y.to_vec::<f32>()?;
        let again = x.matmul(&x.t()).softmax(1);
        assert_eq!(run(again.to_vec_async::<f32>())?, expected, "{device}");
        // A view, whose elements do not lie behind each other.
        assert_eq!(pollster::block_on(y.t().to_vec_async::<f32>())?, y.t().to_vec::<f32>()?);
        assert_eq!(run(x.sum(..).item_async::<f64>())?, 15.0);
        assert!(run(Tensor::zeros([0, 3], device).to_vec_async::<f32>())?.is_empty());
        run(device.synchronize_async())?;
        assert_eq!(run(device.open_async())?, device);
    }
    Ok(())
}

#[test]
fn plans_that_cross_devices_in_the_middle_are_pending_there() -> Result<()> {
    if adapter().is_none() {
        return Ok(());
    }
    let on = |device| Tensor::arange(0, 1000, 1, device).to_dtype(DType::F32);
    let crossing = |by: f64| (on(Device::wgpu(0)) * by).to(Device::cpu()).sqrt().to(Device::wgpu(0)) + 1.0;
    let (a, b) = (crossing(4.0), crossing(9.0));
    let (x, y) = run(both(a.to_vec_async::<f32>(), b.to_vec_async::<f32>()));
    assert_eq!((x?, y?), (crossing(4.0).to_vec::<f32>()?, crossing(9.0).to_vec::<f32>()?));
    // Two futures of one value: the second finds it computed.
    let shared = crossing(2.0);
    let (x, y) = run(both(shared.to_vec_async::<f32>(), (&shared + 1.0).to_vec_async::<f32>()));
    let (x, y) = (x?, y?);
    assert!(x.iter().zip(&y).all(|(x, y)| x + 1.0 == *y));
    Ok(())
}

/// Begins to compute what a cell holds, and gives up.
fn give_up(var: &Var) {
    let now = var.get();
    let mut future = pin!(now.realize_async());
    let waker = Arc::new(Woken(AtomicBool::new(false), std::thread::current())).into();
    // Pending, unless the device is done with it already.
    _ = future.as_mut().poll(&mut Polled::from_waker(&waker));
}

#[test]
fn a_future_that_is_dropped_leaves_everything_as_it_was() -> Result<()> {
    if adapter().is_none() {
        return Ok(());
    }
    const COUNT: i64 = 1 << 20;
    let (gpu, host) = (Device::wgpu(0), Device::cpu());
    let x = Tensor::arange(0, COUNT, 1, gpu).to_dtype(DType::F32);
    x.realize()?;
    let var = Var::new(x);
    var.set((var.get() * 2.0).to(host).sqrt().to(gpu))?;
    give_up(&var);
    let expected: Vec<f32> = (0..COUNT).map(|i| (2.0 * i as f32).sqrt()).collect();
    assert_eq!(var.get().to_vec::<f32>()?, expected);
    // The cell knows as before what it held before, if it cannot be computed.
    let beyond = Tensor::from([COUNT]);
    var.set((var.get() * 2.0).to(host).index_select(0, &beyond).expand([COUNT]).to(gpu))?;
    give_up(&var);
    assert!(var.get().realize().is_err());
    assert_eq!(var.get().to_vec::<f32>()?, expected);
    Ok(())
}

#[test]
fn errors_are_those_of_blocking_calls() -> Result<()> {
    for device in devices() {
        let rows =
            Tensor::arange(0, 4, 1, device).index_select(0, &Tensor::from_vec(vec![1i64, 9], [2], device));
        let error = run(rows.to_vec_async::<i64>()).expect_err("there is no row 9").to_string();
        assert!(
            error.contains("index 9 out of range for an axis of 4") && error.contains("asynchronous.rs"),
            "{error}"
        );
        // The next read is not to blame.
        assert_eq!(run(Tensor::ones([2], device).to_vec_async::<f32>())?, [1.0, 1.0]);
        let denied = {
            let _denial = deny_sync();
            run(Tensor::ones([2], device).to_vec_async::<f32>())
        };
        assert!(denied.is_err(), "{device}");
        let error = run(Tensor::ones([2], device).item_async::<f32>()).expect_err("two elements").to_string();
        assert!(error.contains("item_async: expected a tensor of one element"), "{error}");
    }
    Ok(())
}

#[test]
fn the_context_is_that_of_the_call() -> Result<()> {
    let context = Context::new();
    let x = Tensor::arange(0, 4, 1, ()) + 1;
    let future = with_context(&context, || x.to_vec_async::<i64>());
    assert_eq!(run(future)?, [1, 2, 3, 4]);
    assert_eq!(context.counters().plans_built, 1);
    Ok(())
}

/// A step submits; only its loss is waited for.
#[test]
fn training_waits_for_nothing_but_the_loss() -> Result<()> {
    for device in devices() {
        kiln::manual_seed(0);
        let net = Linear::new(4, 2, device);
        let mut optimizer = Sgd::new(net.parameters(), SgdOpts::default().lr(0.1));
        let x = Tensor::arange(0, 12, 1, device).reshape([3, 4]).to_dtype(DType::F32) / 12.0;
        let mut losses = Vec::new();
        for _ in 0..5 {
            let loss = net.forward(&x).square().mean(..);
            {
                let _denial = deny_sync();
                loss.backward()?;
                optimizer.step()?;
            }
            losses.push(run(loss.item_async::<f32>())?);
        }
        assert!(losses.last() < losses.first(), "{device}: {losses:?}");
    }
    Ok(())
}
