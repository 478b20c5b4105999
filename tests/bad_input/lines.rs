//! Errors of calls outside the graph, of devices and of memory name the line of the call too.

use kiln::io::StateDict;
use kiln::nn::Linear;
use kiln::prelude::*;
use kiln::{Budget, Context, Device, DeviceKind, MemoryTracker, Result, with_budget, with_context};

/// Asserts that a call fails, and that its error names this file and line.
macro_rules! names_its_line {
    ($($call:expr),+ $(,)?) => {$(
        let result: Result<()> = $call.map(|_| ());
        let line = line!();
        let error = result.expect_err(stringify!($call));
        let (near, text) = (format!("{}:", file!()), error.to_string());
        let found = text.rsplit_once(&near).and_then(|(_, rest)| {
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            digits.parse::<u32>().ok()
        });
        assert!(found.is_some_and(|found| line.abs_diff(found) <= 40), "{}: {text}", stringify!($call));
    )+};
}

#[test]
fn calls_of_a_device_that_is_not_there() {
    let (device, null) = (Device::cuda(7), Device::null());
    names_its_line!(
        device.probe(),
        device.synchronize(),
        device.name(),
        device.properties(),
        device.memory_allocated(),
        device.memory_reserved(),
        device.max_memory_allocated(),
        device.memory_stats(),
        device.reset_peak_memory_stats(),
        device.empty_cache(),
        device.mem_get_info(),
        device.set_memory_limit(1),
        device.set_memory_fraction(0.5),
        device.memory_summary(),
        device.record_memory_history(true),
        device.memory_history(),
        device.peak_throughput(),
        DeviceKind::Cuda.set_current(9),
        MemoryTracker::new(device),
        Tensor::ones([2], device).realize(),
        (Tensor::ones([2], device) + 1.0).to_vec::<f32>(),
        Linear::new(2, 2, device).weight.get().realize(),
        null.mem_get_info(),
        null.set_memory_fraction(2.0),
        Device::cpu().dump_memory_timeline("never.html"),
        kiln::context().memory(device),
    );
}

#[test]
fn memory_that_is_not_there() {
    let context = Context::with_virtual_devices(&[(DeviceKind::Cpu, 2)]);
    with_context(&context, || {
        let device = DeviceKind::Cpu.device(1);
        device.set_memory_limit(1 << 10).expect("a device");
        names_its_line!(
            Tensor::from_vec(vec![0.0f32; 1 << 10], [1 << 10], device).realize(),
            Tensor::ones([1 << 10], device).materialize().realize(),
            with_budget(Budget::bytes(8), || Tensor::ones([1 << 8], device)
                .materialize()
                .realize()
                .map(drop)),
        );
    });
}

#[test]
fn names_that_are_taken() {
    let mut state = StateDict::new();
    let x = Tensor::ones([2], ());
    state.insert("x", &x).expect("a new name");
    let other = state.clone();
    state.extend("other", other.clone()).expect("new names");
    names_its_line!(
        state.insert("x", &x),
        state.insert("__metadata__", &x),
        state.extend("other", other.clone()),
    );
}
