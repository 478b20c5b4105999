//! Data parallelism in one process: each batch is divided among devices, beside the same training on one.
//!
//! ```text
//! KILN_VIRTUAL_DEVICES=cpu=2 cargo run --release --example data_parallel -- --devices cpu:0,cpu:1
//! ```

use clap::Parser;
use kiln::dist::DataParallel;
use kiln::nn::{Layer, Linear, ModuleExt, Relu, Sequential};
use kiln::optim::{Adam, AdamOpts, Optimizer};
use kiln::prelude::*;

/// Trains on one device and on several, and compares.
#[derive(Parser)]
struct Arguments {
    /// Devices, the first of which holds the model.
    #[arg(long, value_delimiter = ',', default_value = "cpu")]
    devices: Vec<Device>,
    /// Steps to train.
    #[arg(long, default_value_t = 50)]
    steps: u64,
    /// Samples of a step, all devices together.
    #[arg(long, default_value_t = 256)]
    batch: usize,
}

const FEATURES: usize = 16;

fn main() -> kiln::Result<()> {
    let arguments = Arguments::parse();
    let one = train(&arguments, &arguments.devices[..1])?;
    let several = train(&arguments, &arguments.devices)?;
    println!("last loss {one:.6} on one device, {several:.6} on {}", arguments.devices.len());
    println!("{}", if (one - several).abs() < 1e-4 { "the same" } else { "not the same" });
    Ok(())
}

/// The last loss.
fn train(arguments: &Arguments, devices: &[Device]) -> kiln::Result<f32> {
    kiln::manual_seed(0);
    let network =
        || Sequential::new().push(Linear::new(FEATURES, 64, ())).push(Relu).push(Linear::new(64, 1, ()));
    let model = DataParallel::new(with_device(devices[0], network), devices)?;
    let mut optimizer = Adam::new(model.parameters(), AdamOpts::default().lr(3e-3));
    let mut last = f32::NAN;
    for step in 0..arguments.steps {
        let x = Tensor::randn([arguments.batch, FEATURES], ()).to(devices[0]);
        let y = x.square().mean(1).unsqueeze(1);
        optimizer.zero_grad();
        let loss = (model.forward(&x) - y).square().mean(..);
        loss.backward()?;
        if step == 0 {
            let plan = kiln::plan(&[&loss])?;
            let (kernels, copies) = (plan.kernels.len(), plan.transfers.len());
            println!("{} device(s): {kernels} kernels a step, {copies} copies between them", devices.len());
        }
        optimizer.step()?;
        last = loss.item()?;
    }
    Ok(last)
}
