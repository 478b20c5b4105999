//! Builds a small graph, shows what will run, runs it, reads the result.

use clap::Parser;
use kiln::prelude::*;

/// Builds a graph, prints its plan before anything runs, then runs it.
#[derive(Parser)]
struct Arguments {
    /// Device to run on: cpu, cuda:0, wgpu:0; the best one there is if absent.
    #[arg(long, env = "KILN_DEVICE")]
    device: Option<Device>,
}

fn main() {
    if let Err(error) = run(&Arguments::parse()) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn run(arguments: &Arguments) -> kiln::Result<()> {
    let device = arguments.device.unwrap_or_else(Device::best);
    println!("device: {device}\n");

    kiln::manual_seed(0);
    let x = Tensor::randn([4096, 1024], device);
    let y = (&x * 2.0 + 1.0).gelu().softmax(-1);
    println!(
        "x is {} {} on {}; y is {}; nothing has run yet.\n",
        x.dtype(),
        x.shape(),
        x.device(),
        y.shape()
    );

    println!("{}", y.plan()?);

    let values: Vec<f32> = y.to_vec()?;
    println!("first row: {:?} ...", &values[..4]);
    let rows = y.sum(-1);
    println!(
        "each row sums to one: {:.6} .. {:.6}",
        rows.amin(..).item::<f64>()?,
        rows.amax(..).item::<f64>()?
    );

    let wrong = x.matmul(&Tensor::ones([1000, 3], device));
    if let Err(error) = wrong.check() {
        println!("\na mistake is a value, not a panic:\n  {error}");
    }
    let counters = kiln::context().counters();
    println!("\n{} kernels ran, of {} plans", counters.kernels_launched, counters.plans_built);
    Ok(())
}
