//! Writing to an adapter whose memory the host cannot map.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::device;
use crate::base::Device;
use crate::plan::context::{Context, with_context};
use crate::runtime::wgpu::WgpuBackend;
use crate::runtime::wgpu::gpu::WgpuGpu;
use crate::runtime::wgpu::staging::CHUNK;
use crate::runtime::{Backend, Binding};
use crate::tensor::Tensor;
use crate::tensor::read::realize;

#[test]
fn uploads_pass_through_a_few_blocks_used_again() {
    if device().is_none() {
        return;
    }
    let gpu = WgpuGpu::open_with(Device::wgpu(0), wgpu::Features::empty()).expect("another device");
    let backend = WgpuBackend::of(gpu.clone());
    let data: Vec<u8> = (0..3 * CHUNK + 4093).map(|i| (i * 7 % 251) as u8).collect();
    let mut out = vec![0; data.len()];
    for round in 0..12 {
        let buffer = backend.upload(&data[round..]).expect("memory");
        backend.download(&buffer, 0, &mut out[round..]).expect("a download");
        assert!(out[round..] == data[round..], "round {round}");
    }
    assert!(gpu.staging.made() <= 8, "{} blocks for 4 pieces", gpu.staging.made());
    // More than may be under way at once.
    let target = backend.allocate(20 * CHUNK).expect("memory");
    let long = vec![3; 20 * CHUNK];
    for _ in 0..3 {
        backend.write(Binding { buffer: &target, offset: 0 }, &long).expect("an upload");
    }
    assert!(gpu.staging.made() <= 32, "{} blocks", gpu.staging.made());
    backend.empty_cache();
}

#[test]
fn an_upload_runs_beside_what_the_device_computes() {
    if device().is_none() {
        return;
    }
    let name = Device::wgpu(0);
    let gpu = WgpuGpu::open_with(name, wgpu::Features::empty()).expect("another device");
    let backend = Arc::new(WgpuBackend::of(gpu.clone()));
    let context = Context::new();
    context.install(backend.clone());
    with_context(&context, || {
        let x = Tensor::ones([1024, 1024], name).materialize();
        let product = || (0..3).fold(x.clone(), |y, _| y.matmul(&x) * 1e-3);
        let data: Vec<u8> = (0..2 * CHUNK).map(|i| (i * 7 % 251) as u8).collect();
        let target = backend.allocate(data.len()).expect("memory");
        let upload = || backend.write(Binding { buffer: &target, offset: 0 }, &data).expect("an upload");
        let compute = || product().realize().map(drop).expect("launches");
        let time = |work: &dyn Fn()| {
            let start = Instant::now();
            work();
            name.synchronize().expect("nothing failed");
            start.elapsed()
        };
        // Compiled and in memory, so that only running is left.
        realize(&[&x]).expect("memory for a test");
        time(&compute);
        // A GPU has made the products before the host has copied the bytes: enough of them take
        // ten times as long.
        let uploading = time(&upload).as_secs_f64();
        let products = (10.0 * uploading / time(&compute).as_secs_f64()).ceil() as usize;
        let computed = Arc::new(AtomicBool::new(false));
        (0..products.clamp(1, 5_000)).for_each(|_| compute());
        let done = computed.clone();
        gpu.queue.on_submitted_work_done(move || done.store(true, Ordering::Relaxed));
        upload();
        // The bytes have left the host's hands, and the products are not done.
        gpu.device.poll(wgpu::PollType::Poll).expect("nothing failed");
        assert!(!computed.load(Ordering::Relaxed), "the upload waited for the products");
        let mut out = vec![0; data.len()];
        backend.download(&target, 0, &mut out).expect("a download");
        assert!(out == data && computed.load(Ordering::Relaxed), "commands keep their order");
    });
}
