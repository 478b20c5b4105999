//! Sizes that change from call to call: what is compiled for them.

use crate::adapter;
use kiln::nn::Param;
use kiln::optim::{Adam, AdamOpts, Optimizer};
use kiln::prelude::*;
use kiln::{Context, Device, context, with_context};

const HEADS: usize = 2;
const WIDTH: usize = 16;

/// Values that differ, in a device's memory.
fn leaf<const N: usize>(dims: [usize; N], seed: usize, device: Device) -> Tensor {
    let count: usize = dims.iter().product();
    let value = |i: usize| ((i * 7 + seed * 13) % 23) as f32 / 11.0 - 1.0;
    let x = Tensor::from_vec((0..count).map(value).collect::<Vec<_>>(), dims, device);
    x.realize().expect("memory for a test");
    x
}

/// One step of attention over what came before and a new position.
struct Decoder {
    keys: Tensor,
    values: Tensor,
    weight: Tensor,
    device: Device,
}

impl Decoder {
    fn new(device: Device) -> Decoder {
        Decoder::after(1, device)
    }

    fn after(length: usize, device: Device) -> Decoder {
        let cache = || leaf([HEADS, length, WIDTH], 1, device);
        Decoder { keys: cache(), values: cache(), weight: leaf([WIDTH, WIDTH], 2, device), device }
    }

    fn step(&mut self, number: usize) -> Tensor {
        let x = leaf([HEADS, 1, WIDTH], number + 3, self.device);
        let next = x.matmul(&self.weight);
        self.keys = Tensor::cat(&[&self.keys, &next], 1);
        self.values = Tensor::cat(&[&self.values, &x], 1);
        let scores = next.matmul(&self.keys.transpose(-1, -2)) * 0.25;
        let y = scores.softmax(-1).matmul(&self.values);
        kiln::realize(&[&y, &self.keys, &self.values]).expect("a step");
        y
    }
}

/// Takes steps on a device and compares each with the same on the CPU.
fn grows(device: Device, lengths: usize) {
    let (mut here, elsewhere) = (Decoder::new(Device::cpu()), Context::new());
    with_context(&Context::new(), || {
        let mut there = Decoder::new(device);
        let mut launched = 0;
        for length in 0..lengths {
            let before = context().counters().kernels_launched;
            let y = there.step(length);
            launched = context().counters().kernels_launched - before;
            if device == Device::null() {
                continue;
            }
            let have = y.to_vec::<f32>().expect("values");
            let want = with_context(&elsewhere, || here.step(length).to_vec::<f32>()).expect("values");
            let close = have.iter().zip(&want).all(|(have, want)| (have - want).abs() < 1e-5);
            assert!(close, "{device}, length {length}: {have:?} for {want:?}");
        }
        let counters = context().counters();
        assert!(counters.kernels_compiled <= 5 * launched, "{counters:?}, {launched} kernels a step");
        assert!(counters.plans_built <= 8, "{counters:?}");
        let alone = with_context(&Context::new(), || {
            let mut decoder = Decoder::after(lengths, device);
            let before = context().counters().kernels_launched;
            let _ = decoder.step(lengths);
            context().counters().kernels_launched - before
        });
        assert_eq!(launched, alone, "kernels of a step after others, and alone");
    });
}

#[test]
fn a_growing_sequence_compiles_few_texts_of_each_kernel() {
    if let Some(device) = adapter::narrow_adapter() {
        grows(device, 200);
    }
}

#[test]
fn sizes_are_data_where_kernels_are_interpreted() {
    [Device::cpu(), Device::null()].into_iter().for_each(|device| grows(device, 512));
}

/// Compiled kernels after each of some steps of a kind.
fn compiled(mut step: impl FnMut(u32)) -> Vec<u64> {
    with_context(&Context::new(), || {
        let count = |number| {
            step(number);
            context().counters().kernels_compiled
        };
        (0..8).map(count).collect()
    })
}

/// Training in which the rate, the number of the step and the key of a dropout
/// change.
fn trains(device: Device) -> Vec<u64> {
    let parameter = Param::new(leaf([16, 4], 1, device));
    let mut optimizer = Adam::new([parameter.clone()], AdamOpts::default());
    let x = leaf([8, 16], 2, device);
    compiled(|number| {
        optimizer.set_lr(0, 0.1 / f64::from(number + 1));
        optimizer.zero_grad();
        let y = x.dropout(0.5).matmul(&parameter.get());
        y.square().mean(..).backward().expect("gradients");
        optimizer.step().expect("a step");
    })
}

/// OptimizerCore by hand, whose rate is a number in the program.
fn descends(device: Device) -> Vec<u64> {
    let (x, mut parameter) = (leaf([8, 16], 2, device), leaf([16, 4], 1, device));
    compiled(|number| {
        let gradient = x.t().matmul(&x.matmul(&parameter));
        parameter = &parameter - gradient * (0.1 / f64::from(number + 2));
        parameter.realize().expect("a step");
    })
}

#[test]
fn scalars_that_change_every_step_compile_nothing_after_the_second() {
    for device in [Some(Device::cpu()), Some(Device::null()), adapter::narrow_adapter()] {
        for training in [trains, descends] {
            let counts = device.map_or_else(|| vec![0; 2], training);
            assert!(counts[2..].iter().all(|&count| count == counts[1]), "{device:?}: {counts:?}");
        }
    }
}
