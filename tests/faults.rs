//! Faults at every call of a device: nothing panics, nothing that was there
//! is lost, and the same graph runs once the device is well again.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use kiln::prelude::*;
use kiln::unstable::runtime::Backend;
use kiln::unstable::runtime::cpu::CpuBackend;
use kiln::{Context, Error, Result, with_context};

#[cfg(feature = "wgpu")]
#[path = "support/adapter.rs"]
mod adapter;
#[path = "support/watched.rs"]
mod watched;

use watched::Watched;

/// Calls until one fails; below 0, none will.
#[derive(Default)]
struct Fuse {
    left: AtomicI64,
    /// What happens then at a launch, instead of an error: the device is lost.
    lose: Option<Box<dyn Fn() + Send + Sync>>,
}

impl Fuse {
    fn burn(&self, call: &str) -> Result<()> {
        if self.lose.is_some() && call != "launch" || self.left.fetch_sub(1, Ordering::Relaxed) != 0 {
            return Ok(());
        }
        if let Some(lose) = &self.lose {
            lose();
            return Ok(());
        }
        let (kernel, message) = (call.into(), "the device is lost".into());
        Err(Error::Kernel { kernel, device: Device::cuda(0), message, span: None })
    }
    fn set(&self, calls: i64) {
        self.left.store(calls, Ordering::Relaxed);
    }
    /// Whether it has failed since it was set.
    fn is_burnt(&self) -> bool {
        self.left.load(Ordering::Relaxed) < 0
    }
}

/// A device whose calls burn a fuse.
fn watched(inner: Arc<dyn Backend>, fuse: Arc<Fuse>) -> Arc<Watched> {
    Arc::new(Watched { inner, watch: Arc::new(move |call| fuse.burn(call)) })
}

/// Kernels, a scan, a sort, a repetition and transfers both ways.
fn work(x: &Tensor, w: &Tensor) -> Tensor {
    let there = x.to(w.device());
    let hidden = there.matmul(w).softmax(-1);
    let sorted = hidden.sort(-1, false).0.cumsum(0);
    let looped = kiln::fori_loop(3, std::slice::from_ref(&sorted), |_, carried| vec![&carried[0] * 0.5 + w]);
    (looped[0].cpu() + x).sum(0)
}

/// Fails every call of a device in turn.
fn fail_each_call(inner: Arc<dyn Backend>) {
    let device = inner.device();
    let fuse = Arc::new(Fuse::default());
    let context = Context::with_virtual_devices(&[]);
    context.install(watched(inner, fuse.clone()));
    with_context(&context, || {
        fuse.set(-1);
        let x = numbers();
        let w = (&x * 0.25).to(device);
        kiln::realize(&[&x, &w]).expect("nothing fails yet");
        let expected = work(&x, &w).to_vec::<f32>().expect("nothing fails yet");
        let (inputs, held) = (x.to_vec::<f32>().unwrap(), device.memory_allocated().unwrap());
        let mut failures = 0;
        for calls in 0.. {
            context.clear_caches();
            let y = work(&x, &w);
            fuse.set(calls);
            let outcome = y.to_vec::<f32>();
            let failed = fuse.is_burnt();
            fuse.set(-1);
            assert_eq!(outcome.is_err(), failed, "call {calls}: {outcome:?}");
            assert_eq!(x.to_vec::<f32>().unwrap(), inputs, "call {calls} lost the input");
            assert_eq!(y.to_vec::<f32>().unwrap(), expected, "call {calls}: the device is well again");
            drop(y);
            assert_eq!(device.memory_allocated().unwrap(), held, "call {calls} left memory behind");
            if !failed {
                break;
            }
            failures += 1;
        }
        assert!(failures > 15, "only {failures} calls could fail");
    });
}

fn numbers() -> Tensor {
    Tensor::from_vec((0..64).map(|i| i as f32 / 8.0).collect(), [8, 8], Device::cpu())
}

#[test]
fn any_call_may_fail_and_nothing_is_lost() {
    fail_each_call(Arc::new(CpuBackend::named(Device::cuda(0))));
}

#[cfg(feature = "wgpu")]
#[test]
fn any_call_of_an_adapter_may_fail_and_nothing_is_lost() {
    if let Some(backend) = adapter::own_backend() {
        fail_each_call(Arc::new(backend));
    }
}

#[cfg(feature = "cuda")]
#[test]
fn any_call_of_a_cuda_device_may_fail_and_nothing_is_lost() {
    match kiln::unstable::runtime::cuda::CudaBackend::open(Device::cuda(0)) {
        Ok(backend) => fail_each_call(Arc::new(backend)),
        Err(error) => println!("skipped: {error}"),
    }
}

/// An adapter that is lost at a launch.
#[cfg(feature = "wgpu")]
#[test]
fn an_adapter_lost_amid_a_plan_is_an_error_and_another_goes_on() {
    let x = numbers();
    let w = &x * 0.25;
    kiln::realize(&[&x, &w]).unwrap();
    let expected = with_context(&Context::new(), || work(&x, &w).to_vec::<f32>().unwrap());
    for launches in [0, 1, 3] {
        let (Some(lost), Some(well)) = (adapter::own_backend(), adapter::own_backend()) else { return };
        let gpu = lost.gpu().clone();
        let lose = move || gpu.device.destroy();
        let fuse = Arc::new(Fuse { left: launches.into(), lose: Some(Box::new(lose)) });
        let context = Context::new();
        context.install(watched(Arc::new(lost), fuse));
        let device = Device::wgpu(0);
        let y = with_context(&context, || {
            let y = work(&x, &w.to(device));
            assert!(y.realize().is_err(), "the device is lost at launch {launches}");
            assert!(y.realize().is_err(), "and stays so");
            y
        });
        let again = Context::new();
        again.install(Arc::new(well));
        with_context(&again, || {
            let found = y.to_vec::<f32>().expect("the same graph on a device that is well");
            let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-4 * b.abs().max(1.0);
            assert!(found.iter().zip(&expected).all(close), "{found:?} {expected:?}");
        });
    }
}

/// A test of this program in a process of its own, whose environment is set
/// and whose shell says what comes before it.
#[cfg(unix)]
fn in_a_process(test: &str, before: &str, variable: (&str, &str)) {
    let program = std::env::current_exe().expect("this program");
    let script = format!("{before} exec \"$0\" --exact {test} --nocapture");
    let mut run = std::process::Command::new("sh");
    run.arg("-c").arg(script).arg(program).env(variable.0, variable.1);
    let run = run.output().expect("a shell");
    let text = String::from_utf8_lossy(&run.stdout) + String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && text.contains("1 passed"), "{test} under {variable:?}:\n{text}");
}

/// The driver itself fails; of the simulated device, at the call that
/// `KILN_CUDA_SIM_FAULT` names.
#[cfg(all(unix, feature = "cuda"))]
#[test]
fn failures_of_a_cuda_driver_are_errors() {
    let x = numbers();
    let expected = work(&x, &(&x * 0.25)).to_vec::<f32>().unwrap();
    let Some(fault) = std::env::var_os("KILN_CUDA_SIM_FAULT") else {
        if Device::cuda(0).name().is_ok_and(|name| name == "simulated device") {
            for fault in [
                "allocate:2:2",
                "allocate:2:1",
                "allocate:1:719",
                "write:1:700",
                "launch:1:700",
                "launch:4:719",
                "wait:1:700",
            ] {
                in_a_process("failures_of_a_cuda_driver_are_errors", "", ("KILN_CUDA_SIM_FAULT", fault));
            }
        }
        return;
    };
    let fault = fault.to_string_lossy();
    let device = Device::cuda(0);
    let run = || work(&x, &(&x * 0.25).to(device)).to_vec::<f32>();
    let first = run();
    // Out of memory, the cache goes back to the driver and it is asked once more.
    assert_eq!(first.is_err(), !fault.ends_with(":2"), "{first:?}");
    // Some failures are the device's last.
    assert_eq!(run().is_err(), fault.contains(":7"), "after {first:?}");
    // What is in the host's memory is whole, and another device computes.
    assert_eq!(work(&x, &(&x * 0.25)).to_vec::<f32>().unwrap(), expected);
}

/// The driver fails at a graph: while it is made, changed, launched, or amid its
/// launches.
#[cfg(all(unix, feature = "cuda"))]
#[test]
fn failures_of_a_replay_are_errors() {
    const TEST: &str = "failures_of_a_replay_are_errors";
    let Some(fault) = std::env::var_os("KILN_CUDA_SIM_FAULT") else {
        if Device::cuda(0).name().is_ok_and(|name| name == "simulated device") {
            let refused = ["graph:1:2", "graph:1:1", "change:1:2", "change:2:1", "replay:1:2", "replay:2:1"];
            for fault in refused.into_iter().chain(["replay:1:700", "replay:2:719", "launch:9:719"]) {
                in_a_process(TEST, "", ("KILN_CUDA_SIM_FAULT", fault));
            }
        }
        return;
    };
    let context = Context::new();
    let run = |device: Device| {
        let x = numbers();
        let there = x.to(device);
        there.realize()?;
        there.matmul(&there.t()).softmax(-1).matmul(&there).softmax(0).to_vec::<f32>()
    };
    let is_last = fault.to_string_lossy().contains(":7");
    with_context(&context, || {
        let expected = run(Device::cpu()).unwrap();
        let outcomes: Vec<Result<Vec<f32>>> = (0..8).map(|_| run(Device::cuda(0))).collect();
        let Some(first) = outcomes.iter().position(Result::is_err) else {
            assert!(!is_last, "no run failed");
            assert!(outcomes.iter().flatten().all(|values| close(values, &expected)), "{outcomes:?}");
            // A refusal costs a graph, not more.
            assert!(context.counters().graphs_launched >= 4, "{:?}", context.counters());
            return;
        };
        assert!(is_last, "{:?}", outcomes[first]);
        let message = outcomes[first].as_ref().unwrap_err().to_string();
        assert!(first > 0 && message.contains("lost in kernel contract"), "run {first}: {message}");
        assert!(outcomes[first..].iter().all(Result::is_err), "the device stays lost");
        assert_eq!(run(Device::cpu()).unwrap(), expected);
    });
}

/// Without the driver, or with it and without the compiler, the error names the
/// library that is missing and the user's line.
#[cfg(all(unix, feature = "cuda"))]
#[test]
fn a_missing_cuda_library_is_named() {
    const TEST: &str = "a_missing_cuda_library_is_named";
    const MISSING: &str = "KILN_TEST_MISSING";
    if let Ok(missing) = std::env::var(MISSING) {
        let error = numbers().to(Device::cuda(0)).realize().expect_err("it is missing").to_string();
        let (fault, line) = error.split_once('\n').expect("what is missing, and where it was asked for");
        assert!(fault.contains(&format!("{missing} was not found")), "{error}");
        assert!(line.trim().starts_with("at tests/faults.rs:"), "{error}");
        // And nothing else is the worse for it.
        assert_eq!((numbers() + 1.0).to_vec::<f32>().unwrap()[8], 2.0);
        return;
    }
    if !Device::cuda(0).name().is_ok_and(|name| name == "simulated device") {
        return;
    }
    let folder = std::env::temp_dir().join(format!("kiln-libraries-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = format!("export LD_LIBRARY_PATH={};", folder.display());
    in_a_process(TEST, &path, (MISSING, "libcuda"));
    let folders = std::env::var("LD_LIBRARY_PATH").expect("the simulated device is there");
    let driver = folders.split(':').map(|it| std::path::Path::new(it).join("libcuda.so.1"));
    let driver = driver.into_iter().find(|file| file.exists()).expect("its driver");
    std::fs::copy(driver, folder.join("libcuda.so.1")).unwrap();
    in_a_process(TEST, &path, (MISSING, "libnvrtc"));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Two simulated devices hand data on without the host, each in its own order;
/// through the host where neither reads the other's memory.
#[cfg(all(unix, feature = "cuda"))]
#[test]
fn cuda_devices_copy_to_each_other() {
    const TEST: &str = "cuda_devices_copy_to_each_other";
    let Some(peers) = std::env::var_os("KILN_CUDA_SIM_PEERS") else {
        if Device::cuda(1).name().is_ok_and(|name| name == "simulated device") {
            ["0", "1"].iter().for_each(|peers| in_a_process(TEST, "", ("KILN_CUDA_SIM_PEERS", peers)));
        }
        return;
    };
    let context = Context::new();
    with_context(&context, || {
        let x = numbers();
        let expected = (&(&x * 0.25 + 1.0).exp() * 2.0).softmax(-1).to_vec::<f32>().unwrap();
        for trip in 0..4 {
            let there = x.to(Device::cuda(0));
            there.realize().unwrap();
            let before = context.counters();
            let moved = (&there * 0.25 + 1.0).exp().to(Device::cuda(1));
            let y = (&moved * 2.0).softmax(-1);
            y.realize().unwrap();
            let after = context.counters();
            let waits = after.host_waits - before.host_waits;
            assert_eq!(waits == 0, peers == "1", "{waits} waits of the host");
            assert_eq!(after.bytes_between_devices - before.bytes_between_devices, 256);
            // The source's memory goes while the copy may still be under way.
            drop((there, moved));
            assert!(close(&y.to_vec::<f32>().unwrap(), &expected), "trip {trip}");
        }
        // A bad index on one device is an error where its result is read.
        let index = Tensor::from_vec(vec![99i64], [1], Device::cuda(0));
        let bad = x.to(Device::cuda(0)).index_select(0, &index).to(Device::cuda(1)) * 2.0;
        let refusal = bad.to_vec::<f32>().expect_err("there is no row 99").to_string();
        assert!(refusal.contains("99"), "{refusal}");
    });
}

#[cfg(all(unix, feature = "cuda"))]
fn close(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-4 * b.abs().max(1.0))
}

/// A file system that takes no more bytes amid a file: a limit on files' sizes
/// does what a full disk does.
#[cfg(unix)]
#[test]
fn a_full_disk_leaves_old_files_and_what_was_recorded() {
    const LIMITED: &str = "KILN_TEST_LIMITED";
    let folder = std::env::temp_dir().join(format!("kiln-full-{}", std::process::id()));
    let Some(folder) = std::env::var_os(LIMITED).map(std::path::PathBuf::from) else {
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("snapshot.json"), "old").unwrap();
        // Blocks of 512 bytes; a write beyond fails, instead of ending the process.
        let limited = "ulimit -f 8; trap '' XFSZ;";
        let test = "a_full_disk_leaves_old_files_and_what_was_recorded";
        in_a_process(test, limited, (LIMITED, folder.to_str().expect("a plain name")));
        std::fs::remove_dir_all(&folder).unwrap();
        return;
    };
    let device = Device::cpu();
    device.record_memory_history(true).unwrap();
    for i in 0..200 {
        (numbers() + i as f64).realize().unwrap();
    }
    let events = device.memory_history().unwrap().expect("it is being recorded").len();
    let path = folder.join("snapshot.json");
    for written in [device.dump_memory_snapshot(&path), device.dump_memory_timeline(&path)] {
        assert!(matches!(written, Err(Error::File { .. })), "{written:?}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "no half files");
    assert!(device.memory_history().unwrap().expect("still").len() >= events, "what was recorded stays");
    assert_eq!((numbers() * 2.0).to_vec::<f32>().unwrap()[8], 2.0);
}
