//! Sizes that change from call to call: what is compiled for them.

#[path = "support/adapter.rs"]
mod adapter;

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
        let empty = || leaf([HEADS, 1, WIDTH], 1, device);
        Decoder { keys: empty(), values: empty(), weight: leaf([WIDTH, WIDTH], 2, device), device }
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

#[test]
fn a_growing_sequence_compiles_few_texts_of_each_kernel() {
    let Some(device) = adapter::narrow_adapter() else { return };
    let (mut here, elsewhere) = (Decoder::new(Device::cpu()), Context::new());
    with_context(&Context::new(), || {
        let mut there = Decoder::new(device);
        let mut launched = 0;
        for length in 0..200 {
            let before = context().counters().kernels_launched;
            let y = there.step(length);
            launched = context().counters().kernels_launched - before;
            let have = y.to_vec::<f32>().expect("values");
            let want = with_context(&elsewhere, || here.step(length).to_vec::<f32>()).expect("values");
            let close = have.iter().zip(&want).all(|(have, want)| (have - want).abs() < 1e-5);
            assert!(close, "length {length}: {have:?} for {want:?}");
        }
        let counters = context().counters();
        assert!(counters.kernels_compiled <= 4 * launched, "{counters:?}, {launched} kernels a step");
        assert!(counters.plans_built <= 8, "{counters:?}");
    });
}
