//! What a profile says of programs whose time and memory are known to go somewhere.

#[path = "profile/modules.rs"]
mod modules;
#[path = "profile/trace_format.rs"]
mod trace_format;
#[path = "profile/workers.rs"]
mod workers;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kiln::prelude::*;
use kiln::profile::{
    ActiveProfiler, Activity, GroupBy, Profile, Profiler, Row, RowKind, Schedule, SortBy, record_function,
};
use kiln::{Context, with_context};

/// A profiler records all threads of the process, and so one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start() -> ActiveProfiler {
    Profiler::builder().predict(false).start()
}

/// Runs in a context of its own, twice: what is compiled and planned the first time is not profiled.
#[track_caller]
fn profiled(body: impl Fn()) -> Profile {
    with_context(&Context::new(), || {
        body();
        let profiler = start();
        body();
        profiler.stop().expect("a profile")
    })
}

fn ones(extent: usize) -> Tensor {
    let x = Tensor::ones([extent, extent], ());
    x.realize().expect("ones");
    x
}

/// The first row of a table.
fn first(profile: &Profile, by: GroupBy, sort: SortBy) -> Row {
    let averages = profile.key_averages().by(by);
    averages.sorted(sort).first().copied().cloned().expect("a row")
}

/// Whether a row is of a line of this file that contains a text.
#[track_caller]
fn assert_line(row: &Row, text: &str) {
    let at = row.at.unwrap_or_else(|| panic!("{row:?} has no line"));
    let source = include_str!("profile.rs").lines().nth(at.line() as usize - 1).expect("a line");
    assert!(at.file().ends_with("profile.rs") && source.contains(text), "{at}: {source}");
}

#[test]
fn a_slow_kernel_is_the_first_row() {
    let _alone = alone();
    let (x, y) = (ones(8), ones(320));
    let profile = profiled(|| {
        for _ in 0..3 {
            (&x + 1.0).sum(..).item::<f32>().expect("a sum");
            y.matmul(&y).realize().expect("the slow one");
        }
    });
    let row = first(&profile, GroupBy::Kernel, SortBy::DeviceTime);
    assert_eq!((row.name.as_str(), row.calls, row.kind), ("matmul[320, 320]", 3, RowKind::Device));
    assert_eq!(row.flops, 3 * 2 * 320 * 320 * 320);
    assert_line(&row, "the slow one");
    assert_line(&first(&profile, GroupBy::Line, SortBy::DeviceTime), "the slow one");
    assert_eq!(first(&profile, GroupBy::Operation, SortBy::DeviceTime).name, "matmul");
    let table = profile.key_averages().table(SortBy::DeviceTime, 5);
    let line = table.lines().find(|line| line.contains("matmul[320, 320]")).expect("its line");
    assert!(
        table.lines().position(|other| other == line) < table.lines().position(|l| l.contains("sum")),
        "{table}"
    );
}

#[test]
fn kernels_fill_the_time_that_the_device_is_busy() {
    let _alone = alone();
    let x = ones(320);
    let profile = profiled(|| {
        (0..6).fold(x.clone(), |y, _| y.matmul(&x)).realize().expect("products");
    });
    let cpu = profile.device(Device::cpu()).expect("it was busy");
    let (busy, sum) = (cpu.busy.as_secs_f64(), cpu.kernels.as_secs_f64());
    assert!((sum / busy - 1.0).abs() < 0.05, "{sum} of {busy}");
    // One plan keeps it busy.
    assert!(busy > 0.7 * profile.span.as_secs_f64(), "{busy} of {:?}", profile.span);
    assert_eq!(profile.kernels().count(), 6);
}

#[test]
fn waiting_in_the_loop_is_the_users_code_between_two_lines() {
    let _alone = alone();
    let x = ones(8);
    let profile = profiled(|| {
        for _ in 0..3 {
            (&x + 1.0).realize().expect("before the wait");
            std::thread::sleep(Duration::from_millis(20));
            (&x + 2.0).realize().expect("after the wait");
        }
    });
    let row = first(&profile, GroupBy::Kernel, SortBy::HostTime);
    assert_eq!((row.kind, row.calls), (RowKind::UserCode, 3));
    assert!(row.host_time >= Duration::from_millis(60), "{row:?}");
    assert_line(&row, "before the wait");
    let until = row.until.map(|until| (until.file(), until.line()));
    let from = row.at.map(|at| (at.file(), at.line() + 2));
    assert_eq!(until, from, "it led to the second line after");
    let table = profile.key_averages().table(SortBy::HostTime, 3);
    assert!(table.lines().nth(4).is_some_and(|line| line.contains("your code")), "{table}");
}

#[test]
fn a_wait_inside_a_label_is_that_labels() {
    let _alone = alone();
    let x = ones(8);
    let profile = profiled(|| {
        (&x + 1.0).realize().expect("a sum");
        record_function("load", || std::thread::sleep(Duration::from_millis(20)));
        (&x + 1.0).realize().expect("a sum");
    });
    let row = first(&profile, GroupBy::Kernel, SortBy::HostTime);
    assert_eq!((row.kind, row.name.as_str()), (RowKind::UserCode, "your code in load"));
    assert_eq!(first(&profile, GroupBy::Label, SortBy::HostTime).name, "load");
}

#[test]
fn a_transfer_in_the_loop_is_the_first_row() {
    let _alone = alone();
    let context = Context::with_virtual_devices(&[(DeviceKind::Cpu, 2)]);
    let profile = with_context(&context, || {
        let x = ones(2048);
        let there = Device { kind: DeviceKind::Cpu, index: 1 };
        let run = || {
            for _ in 0..3 {
                let sent = x.to(there); // planted
                sent.slice(0, 0..1).sum(..).item::<f32>().expect("a sum");
            }
        };
        run();
        let profiler = start();
        run();
        profiler.stop().expect("a profile")
    });
    let row = first(&profile, GroupBy::Kernel, SortBy::DeviceTime);
    assert_eq!((row.kind, row.name.as_str(), row.calls), (RowKind::Transfer, "copy cpu -> cpu:1", 3));
    assert_line(&row, "planted");
}

#[test]
fn a_leak_is_the_first_row_of_what_grows() {
    let _alone = alone();
    let profile = with_context(&Context::new(), || {
        let x = ones(64);
        let mut kept = Vec::new();
        let profiler = Profiler::builder().predict(false).profile_memory(true).start();
        for step in 0..5 {
            let y = &x + step as f32; // leaked
            y.realize().expect("a sum");
            kept.push(y);
            (&x * step as f32).sum(0).realize().expect("another sum");
        }
        profiler.stop().expect("a profile")
    });
    for by in [GroupBy::Kernel, GroupBy::Line] {
        let row = first(&profile, by, SortBy::Growth);
        assert_eq!(row.growth, 5 * 64 * 64 * 4, "{row:?}");
        assert_line(&row, "leaked");
    }
    let table = profile.key_averages().table(SortBy::Growth, 3);
    assert!(table.contains("+80.0 KiB"), "{table}");
}

#[test]
fn labels_reach_kernels_that_are_read_outside() {
    let _alone = alone();
    let x = ones(16).with_requires_grad();
    let profile = profiled(|| {
        let y = record_function("outer", || {
            let y = x.matmul(&x);
            record_function("inner", || y.softmax(1))
        });
        kiln::grad(&y.square().sum(..), &[&x]).remove(0).realize().expect("a gradient");
    });
    let labels: Vec<&str> = profile.kernels().filter_map(|run| run.kernel.label.as_deref()).collect();
    assert!(labels.contains(&"outer") && labels.contains(&"outer/inner"), "{labels:?}");
    let gradient = |name: &str| name.starts_with("grad_");
    let of_gradients: Vec<Option<&str>> = profile
        .kernels()
        .filter(|run| gradient(&run.kernel.name))
        .map(|run| run.kernel.label.as_deref())
        .collect();
    assert!(of_gradients.contains(&Some("outer")), "{of_gradients:?}");
    let rows = profile.key_averages().by(GroupBy::Label).rows;
    let row = |name: &str| rows.iter().find(|row| row.name == name).expect("a row");
    assert!(row("outer").device_time >= row("outer").self_device_time + row("outer/inner").device_time);
}

#[test]
fn layers_of_a_sequence_label_what_they_build() {
    let _alone = alone();
    use kiln::nn::{Layer, Linear, Sequential};
    let net =
        Sequential::new().push(Linear::new(8, 8, ())).then(|x| x.softmax(1)).push(Linear::new(8, 4, ()));
    let x = ones(8);
    let profile = profiled(|| {
        record_function("net", || net.forward(&x)).realize().expect("an output");
    });
    let labels: Vec<&str> = profile.kernels().filter_map(|run| run.kernel.label.as_deref()).collect();
    assert!(labels.contains(&"net/0") && labels.contains(&"net/2"), "{labels:?}");
}

#[test]
fn profiles_are_of_the_active_steps() {
    let _alone = alone();
    let counts = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let seen = counts.clone();
    let schedule = Schedule { skip_first: 1, wait: 1, warmup: 1, active: 2, repeat: 2 };
    let mut profiler = Profiler::builder()
        .predict(false)
        .schedule(schedule)
        .on_trace_ready(move |profile| {
            seen.borrow_mut().push((profile.steps, profile.kernels().count()));
            Ok(())
        })
        .start();
    let x = ones(8);
    for _ in 0..12 {
        (&x + 1.0).realize().expect("a sum");
        profiler.step();
    }
    let last = profiler.stop().expect("the last profile");
    assert_eq!(*counts.borrow(), [((3, 5), 2), ((7, 9), 2)]);
    assert_eq!(last.steps, (7, 9));
    let steps: Vec<_> = last.host_events().filter(|event| event.activity == Activity::Step).collect();
    let names: Vec<&str> = steps.iter().filter_map(|step| step.name.as_deref()).collect();
    assert_eq!(names, ["step 7", "step 8"]);
}

#[test]
fn a_cycle_that_is_cut_short_is_a_profile_too() {
    let _alone = alone();
    let schedule = Schedule { skip_first: 0, wait: 1, warmup: 0, active: 3, repeat: 0 };
    let mut profiler = Profiler::builder().predict(false).schedule(schedule).start();
    let x = ones(8);
    for _ in 0..2 {
        (&x + 1.0).realize().expect("a sum");
        profiler.step();
    }
    let profile = profiler.stop().expect("what there is");
    assert_eq!((profile.steps, profile.kernels().count()), ((1, 2), 1));
}

#[test]
fn nothing_is_recorded_where_nobody_profiles() {
    let _alone = alone();
    let x = ones(8);
    let schedule = Schedule { skip_first: 9, wait: 0, warmup: 0, active: 1, repeat: 1 };
    let profiler = Profiler::builder().schedule(schedule).start();
    record_function("unseen", || (&x + 1.0).realize().map(|_| ())).expect("a sum");
    let profile = profiler.stop().expect("an empty profile");
    assert!(profile.events().is_empty() && profile.span.is_zero(), "{profile:?}");
    assert!(profile.key_averages().rows.is_empty());
    let after = start();
    let profile = after.stop().expect("a profile of nothing");
    assert_eq!(profile.kernels().count(), 0);
}

#[test]
fn threads_have_tracks_of_their_own() {
    let _alone = alone();
    let profile = profiled(|| {
        let work = |extent: usize| {
            move || ones(extent).matmul(&ones(extent)).realize().map(|_| ()).expect("a product")
        };
        std::thread::scope(|scope| {
            scope.spawn(work(24));
            scope.spawn(work(40));
        });
    });
    let thread = |extent: usize| {
        let of = |run: &&kiln::profile::KernelEvent| run.kernel.shape[..] == [extent, extent];
        profile.kernels().filter(of).map(|run| run.thread).collect::<Vec<_>>()
    };
    let (one, other) = (thread(24), thread(40));
    assert!(!one.is_empty() && !other.is_empty() && one[0] != other[0], "{one:?} {other:?}");
    assert!(one.iter().all(|thread| *thread == one[0]), "{one:?}");
}

#[test]
fn loaders_show_their_workers_and_the_wait_for_them() {
    use kiln::data::{DataLoader, Dataset, LoadError, LoaderOpts};
    struct Slow;
    impl Dataset for Slow {
        type Batch = Tensor;
        fn len(&self) -> usize {
            2
        }
        fn batch(&self, samples: &[usize]) -> Result<Tensor, LoadError> {
            std::thread::sleep(Duration::from_millis(20));
            Ok(Tensor::ones([samples.len()], ()))
        }
    }
    let _alone = alone();
    let loader = DataLoader::new(Slow, LoaderOpts::default().workers(1)).expect("a loader");
    let profiler = start();
    for batch in loader.epoch(0) {
        drop(batch.expect("a batch"));
    }
    let profile = profiler.stop().expect("a profile");
    let row = first(&profile, GroupBy::Kernel, SortBy::HostTime);
    assert!(row.name == "make a batch" || row.name == "wait for a batch", "{row:?}");
    let made: Vec<_> = profile.host_events().filter(|event| event.activity == Activity::Batch).collect();
    assert_eq!(made.len(), 2);
    let mut waits = profile.host_events().filter(|event| event.activity == Activity::Wait);
    assert!(waits.next().is_some_and(|wait| wait.thread != made[0].thread));
}

#[test]
fn only_the_devices_asked_for_are_kept() {
    let _alone = alone();
    let x = ones(8);
    let profiler = Profiler::builder().predict(false).devices([Device::null()]).host(false).start();
    (&x + 1.0).realize().expect("a sum");
    (Tensor::ones([4], Device::null()) + 1.0).realize().expect("nothing");
    let profile = profiler.stop().expect("a profile");
    assert!(
        profile.kernels().all(|run| run.kernel.device == Device::null()) && profile.kernels().count() == 1
    );
    assert_eq!(profile.host_events().count(), 0);
}

#[test]
fn predictions_stand_beside_measurements() {
    let _alone = alone();
    let x = ones(256);
    let profiler = Profiler::builder().start();
    x.matmul(&x).realize().expect("a product");
    let profile = profiler.stop().expect("a profile");
    let row = first(&profile, GroupBy::Kernel, SortBy::DeviceTime);
    let ratio = row.ratio().expect("peaks were measured");
    assert!(ratio > 0.05 && ratio < 1000.0, "{ratio}");
    assert!(profile.key_averages().table(SortBy::Ratio, 5).contains("predicted"));
}

/// The devices besides the CPU that are there; an adapter must be where `KILN_REQUIRE` says so.
fn others() -> Vec<Device> {
    let required = std::env::var("KILN_REQUIRE").is_ok_and(|kinds| kinds.contains("wgpu"));
    let there = |device: &Device| match device.probe() {
        Err(error) if required && device.kind == DeviceKind::Wgpu => panic!("{error}"),
        found => found.is_ok(),
    };
    [Device::wgpu(0), Device::cuda(0)].into_iter().filter(there).collect()
}

#[test]
fn devices_tell_the_times_of_their_kernels() {
    let _alone = alone();
    for device in others() {
        let x = Tensor::ones([256, 256], device);
        x.realize().expect("ones");
        let run = || {
            for _ in 0..4 {
                (0..4).fold(x.clone(), |y, _| y.matmul(&x)).realize().expect("products");
            }
            device.synchronize().expect("they are done");
        };
        run();
        let profiler = start();
        run();
        let profile = profiler.stop().expect("a profile");
        let own = profile.device(device).expect("it was busy");
        let (busy, sum) = (own.busy.as_secs_f64(), own.kernels.as_secs_f64());
        assert!((sum / busy - 1.0).abs() < 0.05, "{device}: kernels {sum} s, busy {busy} s");
        assert!(busy > 0.7 * profile.span.as_secs_f64(), "{device}: busy {busy} s of {:?}", profile.span);
        assert_eq!(profile.kernels().count(), 16);
        for run in profile.kernels() {
            assert!(
                run.time > Duration::ZERO && run.end <= profile.span + Duration::from_millis(1),
                "{run:?}"
            );
            assert!(run.end >= run.launched, "{run:?}");
        }
    }
}

#[test]
fn copies_of_the_queue_have_times_too() {
    let _alone = alone();
    for device in others() {
        let x = Tensor::ones([1 << 16], device);
        x.realize().expect("ones");
        let profiler = start();
        // A clear needs no shader.
        Tensor::zeros([1 << 16], device).contiguous().realize().expect("zeros");
        (&x * 2.0).to_vec::<f32>().expect("values");
        let profile = profiler.stop().expect("a profile");
        assert!(profile.kernels().all(|run| run.time > Duration::ZERO), "{:?}", profile.events());
        let back = profile.transfers().find(|one| one.from == device).expect("values were read");
        assert_eq!((back.to, back.bytes), (Device::cpu(), 4 << 16));
        assert!(
            profile
                .host_events()
                .any(|event| event.activity == Activity::Wait && event.device == Some(device))
        );
    }
}

/// The trace of a profile as a file has it.
fn trace(profile: &Profile) -> serde_json::Value {
    let path = std::env::temp_dir().join(format!("kiln-profile-{}.json", std::process::id()));
    profile.write_chrome_trace(&path).expect("a file");
    let text = std::fs::read_to_string(&path).expect("that file");
    std::fs::remove_file(&path).expect("it is there");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn traces_are_in_the_trace_event_format() {
    let _alone = alone();
    for device in [Device::cpu()].into_iter().chain(others()) {
        let (x, host) = (Tensor::ones([64, 64], device), ones(64));
        x.realize().expect("ones");
        let mut profiler = Profiler::builder().profile_memory(true).start();
        for _ in 0..3 {
            let y = record_function("product", || x.matmul(&host.to(device)).softmax(1));
            std::thread::scope(|scope| {
                scope.spawn(|| y.realize().map(|_| ()));
                y.sum(0).to_vec::<f32>().expect("values");
            });
            profiler.step();
        }
        let profile = profiler.stop().expect("a profile");
        let trace = trace(&profile);
        let wrong = trace_format::violations(&trace);
        assert!(wrong.is_empty(), "{device}:\n{}", wrong.join("\n"));
        let events = trace["traceEvents"].as_array().expect("events");
        let count = |key: &str, value: &str| events.iter().filter(|event| event[key] == value).count();
        let kernels = profile.kernels().count();
        assert!(kernels > 0);
        assert_eq!([count("ph", "s"), count("ph", "f"), count("cat", "predicted")], [kernels; 3]);
        assert_eq!(count("ph", "C"), profile.memory_events().count());
        assert!(count("name", "ProfilerStep#1") == 1 && count("name", "product") == 3);
        let crossings = profile.transfers().count();
        assert_eq!(count("cat", "gpu_memcpy"), crossings);
        assert_eq!(crossings > 0, device != Device::cpu());
        // Microseconds.
        let last = events.iter().filter_map(|event| Some(event["ts"].as_f64()? + event["dur"].as_f64()?));
        let (last, span) = (last.fold(0.0, f64::max), profile.span.as_secs_f64() * 1e6);
        assert!(last > 0.5 * span && last < 1.5 * span + 1e3, "{last} of {span}");
    }
}

#[test]
fn the_trace_checker_finds_what_is_wrong() {
    let check = |events: &str| {
        let trace = format!(r#"{{"displayTimeUnit": "ms", "traceEvents": [{events}]}}"#);
        trace_format::violations(&serde_json::from_str(&trace).expect("JSON")).join("\n")
    };
    let slice = |start: u32, dur: u32| {
        format!(r#"{{"ph": "X", "name": "a", "cat": "b", "pid": 1, "tid": 1, "ts": {start}, "dur": {dur}}}"#)
    };
    assert!(check(&format!("{}, {}", slice(0, 5), slice(3, 5))).contains("ends after what it is inside"));
    assert!(check(&format!("{}, {}", slice(3, 1), slice(0, 9))).contains("times go back"));
    assert!(check(&slice(0, 1)).contains("has no name"));
    assert!(
        check(r#"{"ph": "s", "name": "a", "cat": "b", "id": 1, "pid": 1, "tid": 1, "ts": 0}"#)
            .contains("flow 1")
    );
    assert!(check(r#"{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 0}"#).contains("no duration"));
}

#[test]
fn a_trace_that_cannot_be_written_is_an_error() {
    let _alone = alone();
    let folder = std::env::temp_dir().join(format!("kiln-profile-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("file");
    std::fs::write(&file, "not a folder").expect("a file");
    let handler = kiln::profile::tensorboard_trace_handler(&file);
    let error =
        Profiler::builder().predict(false).on_trace_ready(handler).start().stop().expect_err("no folder");
    assert!(error.to_string().contains("file") && error.to_string().contains("profile.rs"), "{error}");
    let profile = start().stop().expect("a profile");
    let error = profile.write_chrome_trace(&folder).expect_err("a folder is no file").to_string();
    assert!(error.contains("profile.rs"), "{error}");
    std::fs::remove_dir_all(folder).expect("the folder");
}
