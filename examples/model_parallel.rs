//! A model whose halves are on two devices, and a pipeline: while the second device works on one part of a
//! batch, the first works on the next.
//!
//! ```text
//! KILN_VIRTUAL_DEVICES=cpu=2 cargo run --release --example model_parallel -- --devices cpu:0,cpu:1
//! ```

use clap::Parser;
use kiln::nn::{Layer, Linear, Module, ModuleExt, Relu, Sequential};
use kiln::optim::{Adam, AdamOpts, Optimizer};
use kiln::prelude::*;

/// Trains a model on two devices.
#[derive(Parser)]
struct Arguments {
    /// The devices of the two halves.
    #[arg(long, value_delimiter = ',', num_args = 1, default_value = "cpu,cpu")]
    devices: Vec<Device>,
    /// Parts of a batch that follow each other through the halves.
    #[arg(long, default_value_t = 4)]
    parts: usize,
    /// Steps to train.
    #[arg(long, default_value_t = 20)]
    steps: u64,
    /// Samples of a step.
    #[arg(long, default_value_t = 64)]
    batch: usize,
}

const FEATURES: usize = 32;

/// Two blocks, each on a device of its own.
#[derive(Debug)]
struct TwoBlocks {
    first: Sequential,
    second: Sequential,
    devices: [Device; 2],
}

impl Module for TwoBlocks {
    fn visit(&self, visitor: &mut dyn kiln::nn::Visitor) {
        visitor.child("first", &self.first);
        visitor.child("second", &self.second);
    }
}

impl TwoBlocks {
    fn new(devices: [Device; 2]) -> TwoBlocks {
        let block = |from, to| {
            Sequential::new().push(Linear::new(from, 128, ())).push(Relu).push(Linear::new(128, to, ()))
        };
        let first = with_device(devices[0], || block(FEATURES, 128));
        TwoBlocks { first, second: with_device(devices[1], || block(128, 1)), devices }
    }
}

impl Layer for TwoBlocks {
    /// The activations cross once; gradients cross back by themselves.
    fn forward(&self, x: &Tensor) -> Tensor {
        self.second.forward(&self.first.forward(&x.to(self.devices[0])).to(self.devices[1]))
    }
}

fn main() -> kiln::Result<()> {
    let arguments = Arguments::parse();
    let devices = [arguments.devices[0], *arguments.devices.last().unwrap_or(&Device::cpu())];
    let whole = train(&arguments, devices, 1)?;
    let piped = train(&arguments, devices, arguments.parts)?;
    println!("last loss {whole:.6} in one part, {piped:.6} in {}", arguments.parts);
    println!("{}", if (whole - piped).abs() < 1e-4 { "the same" } else { "not the same" });
    Ok(())
}

/// The last loss.
fn train(arguments: &Arguments, devices: [Device; 2], parts: usize) -> kiln::Result<f32> {
    kiln::manual_seed(0);
    let model = TwoBlocks::new(devices);
    let mut optimizer = Adam::new(model.parameters(), AdamOpts::default().lr(3e-3));
    let mut last = f32::NAN;
    for step in 0..arguments.steps {
        let x = Tensor::randn([arguments.batch, FEATURES], Device::cpu());
        let y = x.square().mean(1).unsqueeze(1);
        optimizer.zero_grad();
        // Parts do not depend on each other, so a device need not wait for the other's.
        let loss_of = |(x, y): (Tensor, Tensor)| (model.forward(&x) - y.to(devices[1])).square().mean(..);
        let pairs = x.chunk(parts, 0).into_iter().zip(y.chunk(parts, 0));
        let losses: Vec<Tensor> = pairs.map(loss_of).collect();
        let loss = Tensor::stack(&losses, 0).mean(..);
        loss.backward()?;
        if step == 0 {
            order(&loss, devices)?;
        }
        optimizer.step()?;
        last = loss.item()?;
    }
    Ok(last)
}

/// Prints which device each kernel of the forward pass runs on, in the order of their launches: a device goes on
/// with what it was given while the next launches reach the other.
fn order(loss: &Tensor, devices: [Device; 2]) -> kiln::Result<()> {
    let plan = kiln::plan(&[loss])?;
    let number = |device| if device == devices[0] { '1' } else { '2' };
    let order: String = plan.kernels.iter().map(|kernel| number(kernel.device)).collect();
    println!("device of each kernel: {order}, {} copies", plan.transfers.len());
    Ok(())
}
