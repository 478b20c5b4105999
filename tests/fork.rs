//! A forked process has neither threads nor drivers: what would need them is an error there, and
//! nothing waits for them.
#![cfg(target_os = "linux")]

#[path = "support/adapter.rs"]
mod adapter;

use std::time::{Duration, Instant};

use kiln::data::{DataLoader, Items, LoaderOpts};
use kiln::prelude::*;
use kiln::{Error, MemoryTracker, Result};

/// How long a child may take for what fails at once.
const LIMIT: Duration = Duration::from_secs(20);

/// Runs the closure in a forked process; whether it said yes within the limit.
fn in_child(body: impl FnOnce() -> bool) -> Option<bool> {
    // SAFETY: the child runs the closure and ends without unwinding into the harness.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "no process to be had");
    if child == 0 {
        let said = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or(false);
        // SAFETY: ends the process without handlers of the parent's.
        unsafe { libc::_exit(i32::from(!said)) };
    }
    let begun = Instant::now();
    loop {
        let mut status = 0;
        // SAFETY: waits for the child made above, without blocking.
        if unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == child {
            return Some(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0);
        }
        if begun.elapsed() > LIMIT {
            // SAFETY: the child is ours and has not been waited for.
            unsafe {
                libc::kill(child, libc::SIGKILL);
                libc::waitpid(child, &mut status, 0);
            }
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn refused<T>(result: Result<T>) -> bool {
    match result {
        Err(Error::DeviceUnavailable { reason, .. }) => reason.contains("forked"),
        Err(_) | Ok(_) => false,
    }
}

/// Enough elements that all threads take part.
fn work(device: Device) -> Tensor {
    (Tensor::arange(0, 1 << 20, 1, device).to_dtype(DType::F32) * 2.0).exp().sum(..)
}

fn fails_there(device: Device) {
    let there = Tensor::ones([4], device) + 1.0;
    there.realize().expect("a device");
    work(device).realize().expect("a device");
    let calls: [(&str, &dyn Fn() -> bool); 7] = [
        ("a plan that is known", &|| refused(work(device).realize().map(|_| ()))),
        ("a plan that is new", &|| refused((Tensor::ones([3], device) * 3.0).to_vec::<f32>())),
        ("a value in memory", &|| refused(there.to_vec::<f32>())),
        ("more memory", &|| refused(Tensor::from_vec(vec![1.0f32; 5], [5], device).to_vec::<f32>())),
        ("waiting", &|| refused(device.synchronize())),
        ("figures", &|| refused(MemoryTracker::new(device).map(|_| ()))),
        ("dropping", &|| {
            drop(there.clone());
            drop(work(device));
            true
        }),
    ];
    for (what, call) in calls {
        assert_eq!(in_child(call), Some(true), "{what} on {device} in a forked process");
    }
    assert_eq!(there.to_vec::<f32>().expect("the parent goes on"), [2.0; 4]);
}

// One test: a fork copies what other tests are in the middle of.
#[test]
fn a_forked_process_gets_errors_and_does_not_wait() {
    // Nothing has been started so far, so a child has all it needs.
    let sum = || Tensor::ones([5], Device::cpu()).sum(..).item::<f32>().is_ok_and(|sum| sum == 5.0);
    assert_eq!(in_child(sum), Some(true), "a process forked before kiln is used");
    fails_there(Device::cpu());
    batches_do_not_come();
    if let Some(device) = adapter::adapter() {
        fails_there(device);
    }
}

/// A loader's threads are not there either.
fn batches_do_not_come() {
    let items = Items::new(64, |i: usize| Ok(Tensor::from_vec(vec![i as f32], [1], Device::cpu())));
    let loader = DataLoader::new(items, LoaderOpts::default().batch_size(2)).expect("a loader");
    let mut batches = loader.epoch(0);
    drop(batches.next().expect("a batch").expect("a good one"));
    assert_eq!(in_child(|| batches.next().is_some_and(|batch| batch.is_err())), Some(true));
}
