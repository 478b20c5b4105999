//! The memory of devices: books, limits, errors that name what is in the
//! way, recorded history. On virtual devices, whose memory is their own.

use std::sync::Arc;

use kiln::prelude::*;
use kiln::{Context, Error, MemoryTracker, with_context};

const DEV: Device = DeviceKind::Cpu.device(1);
const KIB: u64 = 1024;

fn machine() -> Arc<Context> {
    Context::with_virtual_devices(&[(DeviceKind::Cpu, 2), (DeviceKind::Null, 2)])
}

/// A tensor of `KIB` kibibytes on the virtual device.
fn kib(count: usize) -> Tensor {
    let x = Tensor::from_vec(vec![1.0f32; count * 256], [count, 256], Device::cpu()).to(DEV);
    x.realize().expect("memory for a test");
    x
}

#[test]
fn the_books_follow_what_is_alive() {
    with_context(&machine(), || {
        assert_eq!(DEV.memory_allocated().unwrap(), 0);
        let a = kib(64);
        let b = kib(32);
        assert_eq!(DEV.memory_allocated().unwrap(), 96 * KIB);
        drop(a);
        assert_eq!(
            (DEV.memory_allocated().unwrap(), DEV.max_memory_allocated().unwrap()),
            (32 * KIB, 96 * KIB)
        );
        assert!(DEV.memory_reserved().unwrap() >= 96 * KIB, "cached");
        DEV.reset_peak_memory_stats().unwrap();
        assert_eq!(DEV.max_memory_allocated().unwrap(), 32 * KIB);
        DEV.empty_cache().unwrap();
        assert_eq!(DEV.memory_reserved().unwrap(), 32 * KIB);
        drop(b);
        assert!(DeviceKind::Cpu.device(2).memory_allocated().is_err());
    });
}

#[test]
fn a_summary_names_tensors_and_what_is_lazy() {
    with_context(&machine(), || {
        let x = kib(16);
        let lazy = (&x * 2.0).tanh();
        let text = DEV.memory_summary().unwrap();
        assert!(text.contains("in tensors") && text.contains("16.0 KiB"), "{text}");
        assert!(text.contains("copy[16, 256]") && text.contains("memory.rs:"), "{text}");
        assert!(text.contains("not realized yet"), "{text}");
        drop(lazy);
    });
}

#[test]
fn the_driver_tells_more_than_the_pool() {
    with_context(&machine(), || {
        if let Ok((free, total)) = Device::cpu().mem_get_info() {
            assert!(free <= total && total > KIB);
            DEV.set_memory_fraction(0.5).unwrap();
            assert_eq!(DEV.memory_stats().unwrap().limit, total / 2);
        }
        assert!(matches!(DEV.set_memory_fraction(1.5), Err(Error::Argument { .. })));
        assert!(matches!(Device::null().mem_get_info(), Err(Error::Argument { .. })));
    });
}

#[test]
fn out_of_memory_names_the_largest_tensors_and_leaves_all_usable() {
    with_context(&machine(), || {
        DEV.set_memory_limit(100 * KIB).unwrap();
        let (a, b) = (kib(60), kib(20));
        let sum = &a + 1.0;
        let Err(error) = sum.realize() else { panic!("over the limit") };
        let Error::OutOfMemory { device, requested, in_use, limit, largest, .. } = &error else {
            panic!("{error}")
        };
        assert_eq!((*device, *requested, *in_use, *limit), (DEV, 60 * KIB, 80 * KIB, 100 * KIB));
        assert_eq!(largest.iter().map(|t| t.bytes).collect::<Vec<_>>(), [60 * KIB, 20 * KIB]);
        assert_eq!(largest[0].shape, a.shape());
        assert!(largest[0].at.is_some_and(|at| at.file() == file!()));
        let text = error.to_string();
        assert!(text.contains("20480 bytes would fit: split it in 3, or free 40960"), "{text}");
        assert_eq!(a.to_vec::<f32>().unwrap()[0], 1.0, "nothing is lost");
        drop(b);
        assert!(sum.realize().is_err());
        DEV.set_memory_limit(u64::MAX).unwrap();
        assert_eq!(sum.to_vec::<f32>().unwrap()[0], 2.0);
    });
}

#[test]
fn a_tracker_sees_the_peak_and_what_is_left() {
    with_context(&machine(), || {
        let x = kib(40);
        let tracker = MemoryTracker::new(DEV).unwrap();
        let y = &x * 2.0;
        let before = tracker.report().unwrap();
        assert_eq!((before.net, before.peak), (0, 0), "lazy");
        assert!(before.lazy >= 1 && before.to_string().contains("not realized yet"), "{before}");
        y.realize().unwrap();
        drop(kib(100));
        let after = tracker.report().unwrap();
        assert_eq!((after.net, after.peak), (40 * KIB as i64, 140 * KIB));
        drop((x, y));
        assert_eq!(tracker.report().unwrap().net, -40 * KIB as i64);
    });
}

#[test]
fn a_recorded_history_is_written_as_json_and_as_a_page() {
    with_context(&machine(), || {
        let folder = std::env::temp_dir().join(format!("kiln-memory-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (json, page) = (folder.join("memory.json"), folder.join("memory.html"));
        assert!(matches!(DEV.dump_memory_snapshot(&json), Err(Error::Argument { .. })), "nothing recorded");
        let held = kib(8);
        DEV.record_memory_history(true).unwrap();
        let (y, line) = (&held * 3.0, line!());
        y.realize().unwrap();
        drop(y);
        DEV.dump_memory_snapshot(&json).unwrap();
        DEV.dump_memory_timeline(&page).unwrap();
        let snapshot: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
        let events = snapshot["events"].as_array().unwrap();
        let actions: Vec<_> =
            events.iter().map(|e| (e["action"].as_str().unwrap(), e["in_use"].as_u64().unwrap())).collect();
        assert_eq!(actions, [("alloc", 8192), ("alloc", 16384), ("free", 8192)], "{snapshot}");
        assert_eq!(events[1]["name"], "mul");
        assert_eq!(events[1]["line"], format!("{}:{line}", file!()));
        let page = std::fs::read_to_string(&page).unwrap();
        assert!(page.contains("<svg") && page.contains("\"mul\"") && !page.contains("\"DATA\""));
        assert!(!page.contains("http://") || !page.contains("src="), "self-contained");
        let nowhere = DEV.dump_memory_snapshot(folder.join("missing/memory.json"));
        assert!(matches!(nowhere, Err(Error::File { .. })));
        assert_eq!(DEV.memory_history().unwrap().unwrap().len(), 3, "a failure loses nothing");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2, "no half files");
        std::fs::remove_dir_all(&folder).unwrap();
    });
}

#[test]
fn a_long_run_holds_little_more_than_the_most_in_use() {
    with_context(&machine(), || {
        let mut kept: Vec<Tensor> = Vec::new();
        for round in 0..2000usize {
            kept.push(Tensor::full([256 * (1 + round * 37 % 1500)], 2.0, DEV).materialize());
            kept[kept.len() - 1].realize().unwrap();
            if kept.len() > 24 {
                drop(kept.remove(round * 7 % 24));
            }
            let stats = DEV.memory_stats().unwrap();
            // Small pools may hold a megabyte more.
            let bound = (stats.peak as f64 * 1.2).max((stats.peak + 1024 * KIB) as f64);
            assert!(stats.reserved as f64 <= bound, "{stats:?}");
        }
        let stats = DEV.memory_stats().unwrap();
        assert!(stats.peak > 8 * 1024 * KIB, "large enough for the 20 % to count");
    });
}

#[test]
fn threads_share_a_device_and_its_books() {
    let context = machine();
    let work = &|seed: usize| {
        with_context(&context, || {
            for round in 0..50 {
                let x = kib(1 + (seed * 7 + round) % 20);
                let y = (&x + seed as f64).sum(..).to_dtype(DType::F64);
                assert_eq!(y.item::<f64>().unwrap(), x.numel() as f64 * (1.0 + seed as f64));
            }
        });
    };
    std::thread::scope(|scope| {
        (0..8).for_each(|seed| {
            scope.spawn(move || work(seed));
        });
    });
    with_context(&context, || assert_eq!(DEV.memory_allocated().unwrap(), 0));
}

#[test]
fn statistics_print_as_one_line() {
    with_context(&Context::new(), || {
        let null = Device::null();
        let x = Tensor::ones([1024], null).exp();
        x.realize().expect("memory of the null device");
        null.set_memory_limit(1 << 20).expect("a limit");
        let text = null.memory_stats().expect("statistics").to_string();
        assert!(text.starts_with("4.0 KiB in tensors, 4.0 KiB at most so far"), "{text}");
        assert!(text.ends_with(", limit 1.0 MiB"), "{text}");
        assert!(kiln::log_memory("now").contains(&format!("  null: {text}")));
    });
}
