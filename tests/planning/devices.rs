//! Discovery, defaults and placement, on devices simulated by the CPU.

use std::sync::Arc;

use kiln::prelude::*;
use kiln::{Context, Error, default_device, with_context};

/// Four CPUs and two CUDA devices; no wgpu adapter.
fn machine() -> Arc<Context> {
    let simulated =
        [(DeviceKind::Cpu, 4), (DeviceKind::Cuda, 2), (DeviceKind::Null, 2), (DeviceKind::Wgpu, 0)];
    Context::with_virtual_devices(&simulated)
}

/// `0, 1, 2, ...` in the memory of a device.
fn counting(n: i64, device: Device) -> Tensor {
    let x = Tensor::from_vec((0..n).map(|i| i as f32).collect(), [n as usize], device);
    x.realize().expect("memory for a test");
    x
}

#[test]
fn families_are_counted_and_listed() {
    with_context(&machine(), || {
        assert_eq!((DeviceKind::Cpu.count(), DeviceKind::Cuda.count(), DeviceKind::Null.count()), (4, 2, 2));
        assert!(DeviceKind::Cuda.is_available() && !DeviceKind::Wgpu.is_available());
        assert_eq!(Device::all(DeviceKind::Cuda), [Device::cuda(0), Device::cuda(1)]);
        assert_eq!(Device::all(DeviceKind::Wgpu), []);
        assert_eq!(Device::all_or_cpu(DeviceKind::Wgpu), [Device::cpu()]);
        assert_eq!(Device::all_or_cpu(DeviceKind::Cuda).len(), 2);
    });
    with_context(&Context::with_virtual_devices(&[]), || {
        assert_eq!((DeviceKind::Cpu.count(), DeviceKind::Meta.count()), (1, 1));
    });
}

#[test]
fn a_gpu_is_given_if_there_is_one_of_that_number() {
    with_context(&machine(), || {
        assert_eq!(Device::try_gpu(0), Device::cuda(0));
        assert_eq!(Device::try_gpu(1), Device::cuda(1));
        assert_eq!(Device::try_gpu(2), Device::cpu());
        assert_eq!(Device::best(), Device::cuda(0), "simulated GPUs stand in for real ones");
    });
    let none = [(DeviceKind::Cuda, 0), (DeviceKind::Wgpu, 0)];
    with_context(&Context::with_virtual_devices(&none), || assert_eq!(Device::try_gpu(0), Device::cpu()));
    // An adapter that the host processor emulates is none.
    if Device::wgpu(0).properties().is_ok_and(|properties| properties.simulated) {
        assert_ne!(Device::try_gpu(0).kind, DeviceKind::Wgpu);
    }
}

#[test]
fn an_absent_device_says_what_is_missing() {
    with_context(&machine(), || {
        let absent = DeviceKind::Cpu.device(4).probe().unwrap_err().to_string();
        assert!(absent.contains("cpu:4 is not available") && absent.contains("there are 4"), "{absent}");
        assert!(absent.contains("KILN_VIRTUAL_DEVICES=cpu=5"), "{absent}");
        let lazy = Tensor::ones([2], Device::cuda(7)) + 1.0;
        lazy.check().expect("a name cannot fail to exist");
        assert!(matches!(lazy.realize(), Err(Error::DeviceUnavailable { .. })));
        if Device::mps() != Device::wgpu(0) {
            let metal = Device::mps().probe().unwrap_err().to_string();
            assert!(metal.contains("no Metal"), "{metal}");
        }
        Device::meta().probe().expect("always there");
    });
}

#[test]
fn properties_tell_what_a_device_is() {
    with_context(&machine(), || {
        let cpu = Device::cpu().properties().unwrap();
        assert!(!cpu.simulated && cpu.compute_units >= 1 && cpu.dtypes.len() == DType::ALL.len());
        assert!(cpu.to_string().contains("compute units"), "{cpu}");
        assert!(!cpu.capability.is_empty() && cpu.dtypes.contains(&DType::BF16));
        let cuda = Device::cuda(1).properties().unwrap();
        assert!(cuda.simulated && cuda.name.contains("virtual"), "{cuda}");
        assert_eq!(Device::cuda(1).name().unwrap(), cuda.name);
        assert!(Device::cuda(2).name().is_err());
    });
}

#[test]
fn the_current_device_is_what_the_familys_name_means() {
    with_context(&machine(), || {
        assert_eq!(DeviceKind::Cuda.current(), 0);
        DeviceKind::Cuda.set_current(1).unwrap();
        assert_eq!("cuda".parse::<Device>().unwrap(), Device::cuda(1));
        assert!(DeviceKind::Cuda.set_current(2).is_err());
        assert_eq!(DeviceKind::Cuda.current(), 1, "a failure changes nothing");
    });
}

#[test]
fn the_innermost_scope_is_the_default_device() {
    let outside = default_device();
    with_device(Device::meta(), || {
        assert_eq!(Tensor::zeros([2], ()).device(), Device::meta());
        with_device(Device::null(), || assert_eq!(default_device(), Device::null()));
        assert_eq!(Tensor::zeros([2], Device::cpu()).device(), Device::cpu());
        let elsewhere = std::thread::spawn(default_device).join().unwrap();
        assert_eq!(elsewhere, outside, "scopes are per thread");
    });
    assert_eq!(default_device(), outside);
}

#[test]
fn a_moved_tensor_computes_where_it_is() {
    with_context(&machine(), || {
        for device in [Device::cuda(1), DeviceKind::Cpu.device(3), Device::cpu()] {
            let x = counting(5, Device::cpu()).to(device);
            let y = (&x * 2.0).softmax(-1) + x.sum(0);
            assert_eq!(y.device(), device);
            assert!(y.plan().unwrap().kernels.iter().all(|kernel| kernel.device == device));
            let there = y.to_vec::<f32>().unwrap();
            let x = counting(5, Device::cpu());
            assert_eq!(there, ((&x * 2.0).softmax(-1) + x.sum(0)).to_vec::<f32>().unwrap());
        }
        assert_eq!(counting(3, Device::cuda(0)).cpu().device(), Device::cpu());
        assert_eq!(counting(3, Device::cpu()).cuda(1).device(), Device::cuda(1));
        let moved = counting(3, Device::cpu()).to(DeviceKind::Cpu.device(2));
        moved.realize().unwrap();
        let shown = moved.to_string();
        assert!(shown.contains("cpu:2"), "{shown}");
    });
}

#[test]
fn moving_to_where_it_is_gives_the_same_node() {
    let x = counting(3, Device::cpu()) + 1.0;
    assert!(std::ptr::eq(&**x.node().unwrap(), &**x.cpu().node().unwrap()));
}

#[test]
fn mixing_devices_names_both_and_their_lines() {
    let a = Tensor::ones([2, 3], Device::cuda(0)); // LINE A
    let b = Tensor::ones([3], Device::cpu()); // LINE B
    let line = |mark: &str| 1 + include_str!("devices.rs").lines().position(|l| l.ends_with(mark)).unwrap();
    let error = (&a + &b).check().unwrap_err().to_string();
    let expected = format!(
        "add: expected all tensors on the same device, found cuda:0 (made at {0}:{1}) and cpu (made at {0}:{2})",
        file!(),
        line("// LINE A"),
        line("// LINE B")
    );
    assert!(error.starts_with(&expected), "{error}\n{expected}");
}

#[test]
fn numbers_and_constants_of_rank_0_mix_with_any_device() {
    let x = Tensor::ones([2], Device::cuda(0));
    for sum in [&x + 1.0, 2.0 * &x, &x + Tensor::scalar(3.0, Device::cpu()), Tensor::scalar(3, ()) * &x] {
        sum.check().expect("constants have no place of their own");
        assert_eq!(sum.device(), Device::cuda(0));
    }
    let computed = counting(3, Device::cpu()).sum(0);
    assert!((&x + computed).check().is_err(), "a computed number is somewhere");
}

#[test]
fn likes_follow_their_tensor() {
    let x = Tensor::ones([2, 3], (Device::cuda(1), DType::F16));
    let all = [
        x.zeros_like(),
        x.ones_like(),
        x.full_like(2),
        x.empty_like(),
        x.rand_like(),
        x.randn_like(),
        x.new_zeros([4]),
        x.new_ones([4]),
        x.new_full([4], 1),
        x.new_empty([4]),
        Tensor::zeros([4], &x),
    ];
    for like in all {
        like.check().unwrap();
        assert_eq!((like.device(), like.dtype()), (x.device(), x.dtype()));
    }
}
