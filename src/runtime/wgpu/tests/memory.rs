//! What memory an adapter's tensors take, how data get there, and when commands
//! are submitted.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{device, kib, own_context, own_device};
use crate::base::{Device, Error};
use crate::plan::context::{Context, with_context};
use crate::render::Adapter;
use crate::runtime::Backend;
use crate::runtime::wgpu::WgpuBackend;
use crate::runtime::wgpu::adapter;
use crate::runtime::wgpu::gpu::{WgpuGpu, lock};
use crate::tensor::Tensor;

#[test]
fn the_books_follow_what_is_alive() {
    let Some(context) = own_context(adapter::WANTED) else { return };
    with_context(&context, || {
        let device = Device::wgpu(0);
        assert_eq!(device.memory_allocated().unwrap(), 0);
        let (a, b) = (kib(64), kib(32));
        assert_eq!(device.memory_allocated().unwrap(), 96 << 10);
        let text = device.memory_summary().unwrap();
        assert!(text.contains("65536 bytes: copy[64, 256]") && text.contains(file!()), "{text}");
        drop(a);
        let stats = device.memory_stats().unwrap();
        assert_eq!((stats.allocated, stats.peak, stats.allocations), (32 << 10, 96 << 10, 2));
        assert!(stats.reserved >= 96 << 10, "cached");
        device.reset_peak_memory_stats().unwrap();
        device.empty_cache().unwrap();
        let stats = device.memory_stats().unwrap();
        assert_eq!((stats.peak, stats.reserved), (32 << 10, 32 << 10));
        device.record_memory_history(true).unwrap();
        drop(b);
        let events = device.memory_history().unwrap().expect("it is being recorded");
        assert_eq!(events.iter().map(|event| event.allocated).collect::<Vec<_>>(), [true, false]);
    });
}

#[test]
fn memory_that_came_back_serves_the_next_request_of_its_size() {
    let Some(context) = own_context(adapter::WANTED) else { return };
    with_context(&context, || {
        let device = Device::wgpu(0);
        drop(kib(64));
        let reserved = device.memory_stats().unwrap().reserved;
        for _ in 0..5 {
            drop(kib(64));
        }
        assert_eq!(device.memory_stats().unwrap().reserved, reserved);
    });
}

/// A device of its own on which compiling a kernel launches nothing.
fn untimed() -> Option<Arc<WgpuGpu>> {
    device()?;
    let mut gpu = WgpuGpu::open(Device::wgpu(0)).expect("a second device of one adapter");
    Arc::get_mut(&mut gpu).expect("the only handle").times_choices = false;
    Some(gpu)
}

#[test]
fn a_plan_is_one_submission() {
    let Some(gpu) = untimed() else { return };
    let context = Context::new();
    context.install(Arc::new(WgpuBackend::of(gpu.clone())));
    with_context(&context, || {
        let x = kib(64);
        let y = x.matmul(&x.t()).softmax(-1).argsort(1, true);
        assert!(y.plan().unwrap().kernels.len() >= 3);
        let submissions = || gpu.submissions.load(Ordering::Relaxed);
        let before = submissions();
        y.realize().unwrap();
        assert_eq!(submissions(), before + 1);
    });
}

#[test]
fn a_long_run_holds_little_more_than_the_most_in_use() {
    let Some(context) = own_context(adapter::WANTED) else { return };
    with_context(&context, || {
        let mut kept: Vec<Tensor> = Vec::new();
        for round in 0..60usize {
            kept.push(kib(1 + round * 37 % 600));
            if kept.len() > 4 {
                drop(kept.remove(round % 4));
            }
            let stats = Device::wgpu(0).memory_stats().unwrap();
            let bound = (stats.peak as f64 * 1.2).max((stats.peak + (1 << 20)) as f64);
            assert!(stats.reserved as f64 <= bound, "{stats:?}");
        }
    });
}

#[test]
fn over_the_budget_an_error_names_the_largest_tensors_and_all_stays_usable() {
    let Some(context) = own_context(adapter::WANTED) else { return };
    with_context(&context, || {
        let device = Device::wgpu(0);
        device.set_memory_limit(100 << 10).unwrap();
        let x = kib(60);
        let sum = &x + 1.0;
        let Err(Error::OutOfMemory { requested, in_use, limit, largest, .. }) = sum.realize() else {
            panic!("over the limit")
        };
        assert_eq!((requested, in_use, limit), (60 << 10, 60 << 10, 100 << 10));
        assert!(largest[0].bytes == 60 << 10 && largest[0].shape == x.shape());
        assert_eq!(x.to_vec::<f32>().unwrap()[0], 1.0, "nothing is lost");
        device.set_memory_limit(u64::MAX).unwrap();
        assert_eq!(sum.to_vec::<f32>().unwrap()[0], 2.0);
    });
}

#[test]
fn memory_used_again_is_full_of_nan() {
    let Some(context) = own_context(adapter::WANTED) else { return };
    if !cfg!(debug_assertions) {
        return;
    }
    let backend = context.backend(Device::wgpu(0)).expect("it was installed");
    drop(backend.upload(&[7; 70_000]).expect("memory"));
    let buffer = backend.allocate(70_000).expect("memory");
    let mut out = vec![0; 70_000];
    backend.download(&buffer, 0, &mut out).expect("a download");
    assert!(out.iter().all(|&byte| byte == 0xff));
}

#[test]
fn data_arrive_whether_the_host_maps_memory_or_copies() {
    for features in [adapter::WANTED, wgpu::Features::empty()] {
        let Some(context) = own_context(features) else { return };
        let backend = context.backend(Device::wgpu(0)).expect("it was installed");
        for count in [1, 6, 4096, 4097, 100_003] {
            let data: Vec<u8> = (0..count).map(|i| (i * 7 % 251) as u8).collect();
            let buffer = backend.upload(&data).expect("memory");
            for start in [0, 3, 9, count / 2] {
                let start = start.min(count - 1);
                let mut out = vec![0; count - start];
                backend.download(&buffer, start, &mut out).expect("a download");
                assert!(out == data[start..], "{count} bytes from {start} on");
            }
        }
    }
}

/// Where the device's memory is the host's, nothing is copied twice.
#[test]
fn a_software_drivers_memory_is_written_directly() {
    let Some(backend) = own_device() else { return };
    let gpu = backend.gpu();
    let offered = adapter::adapters()[0].features();
    if gpu.target.adapter != Adapter::Software || !offered.contains(wgpu::Features::MAPPABLE_PRIMARY_BUFFERS)
    {
        return println!("skipped: the host maps none of {}'s memory", backend.describe());
    }
    drop(backend.upload(&[7; 100_000]).expect("memory"));
    assert!(lock(&gpu.blocks).are_mappable() && gpu.staging.made() == 0);
}
