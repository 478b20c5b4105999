//! Where the memory of a training step goes: block by block as text, and as a page; and what a checkpoint
//! saves of it.

use std::path::PathBuf;

use clap::Parser;
use kiln::nn::{Layer, Linear, Module, ModuleExt};
use kiln::optim::{Adam, AdamOpts, Optimizer};
use kiln::prelude::*;
use kiln::{PlanReport, checkpoint, log_memory};

/// Plans a training step of a small network, lists what is in memory at its peak, and runs it.
#[derive(Parser)]
struct Arguments {
    /// Device to run on: cpu, cuda:0, wgpu:0.
    #[arg(long, env = "KILN_DEVICE", default_value = "cpu")]
    device: Device,
    /// Rows of a batch.
    #[arg(long, default_value_t = 512)]
    batch: usize,
    /// Width of the network.
    #[arg(long, default_value_t = 256)]
    width: usize,
    /// Blocks of the network.
    #[arg(long, default_value_t = 4)]
    blocks: usize,
    /// Writes a page for a browser to this file: the step as it is beside the step with checkpoints.
    #[arg(long)]
    page: Option<PathBuf>,
}

/// `x + down(gelu(up(x)))`.
struct Block {
    up: Linear,
    down: Linear,
}
kiln::module!(Block { up, down });

impl Layer for Block {
    fn forward(&self, x: &Tensor) -> Tensor {
        x + self.down.forward(&self.up.forward(x).gelu())
    }
}

/// Blocks, one after the other.
struct Net(Vec<Block>);

impl Module for Net {
    fn visit(&self, visitor: &mut dyn kiln::nn::Visitor) {
        self.0.iter().enumerate().for_each(|(number, block)| visitor.child(&number.to_string(), block));
    }
}

impl Net {
    fn loss(&self, x: &Tensor, with_checkpoints: bool) -> Tensor {
        let forward = |x: Tensor, block: &Block| {
            if with_checkpoints { checkpoint(|x| block.forward(x), &x) } else { block.forward(&x) }
        };
        (self.0.iter().fold(x.clone(), forward) - x).square().mean(..)
    }

    /// What a loss and its gradients take.
    fn plan(&self, x: &Tensor, with_checkpoints: bool) -> kiln::Result<PlanReport> {
        let loss = self.loss(x, with_checkpoints);
        loss.backward()?;
        let plan = loss.plan()?;
        self.zero_grad();
        Ok(plan)
    }
}

fn main() {
    if let Err(error) = run(&Arguments::parse()) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn run(arguments: &Arguments) -> kiln::Result<()> {
    let Arguments { device, batch, width, blocks, .. } = *arguments;
    device.probe()?;
    kiln::manual_seed(0);
    let block = |_| Block { up: Linear::new(width, 4 * width, ()), down: Linear::new(4 * width, width, ()) };
    let net = with_device(device, || Net((0..blocks).map(block).collect()));
    let x = Tensor::randn([batch, width], device);
    let parameters: Vec<Tensor> = net.parameters().iter().map(|parameter| parameter.get()).collect();
    kiln::realize(&parameters.iter().chain([&x]).collect::<Vec<_>>())?;
    drop(parameters);
    log_memory("with parameters and a batch");

    let plan = net.plan(&x, false)?;
    let lighter = net.plan(&x, true)?;
    println!("\nat the peak of a step, the largest blocks:");
    for block in plan.blocks_at_peak(device).iter().take(12) {
        println!("{block}");
    }
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!("\nplanned peak: {:.1} MiB", mib(plan.peak_bytes()));
    println!("with checkpoints: {:.1} MiB\n", mib(lighter.peak_bytes()));

    let mut adam = Adam::new(net.parameters(), AdamOpts::default());
    net.loss(&x, false).backward()?;
    adam.step()?;
    log_memory("after a step: Adam's state has come, the activations are gone");
    // Last, since it measures what the device can do.
    if let Some(path) = &arguments.page {
        lighter.write_html_against(&plan, path)?;
        println!("wrote {}: open it in a browser", path.display());
    }
    Ok(())
}
