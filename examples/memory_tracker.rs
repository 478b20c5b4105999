//! How much memory a training step's worth of work takes: planned, then
//! measured, with a page that shows each block over time.

use std::path::PathBuf;

use clap::Parser;
use kiln::MemoryTracker;
use kiln::prelude::*;

/// Plans and runs a small network, and tells what its memory did.
#[derive(Parser)]
struct Arguments {
    /// Device to run on: cpu, or another whose pool keeps books.
    #[arg(long, env = "KILN_DEVICE", default_value = "cpu")]
    device: Device,
    /// Rows of the batch.
    #[arg(long, default_value_t = 512)]
    rows: usize,
    /// Where to write the timeline; nowhere if absent.
    #[arg(long)]
    timeline: Option<PathBuf>,
}

fn main() {
    if let Err(error) = run(&Arguments::parse()) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn run(arguments: &Arguments) -> kiln::Result<()> {
    let device = arguments.device;
    kiln::manual_seed(0);
    let x = Tensor::randn([arguments.rows, 256], device);
    let (up, down) = (Tensor::randn([256, 1024], device), Tensor::randn([1024, 256], device));
    kiln::realize(&[&x, &up, &down])?;

    device.record_memory_history(true)?;
    let tracker = MemoryTracker::new(device)?;
    let hidden = x.matmul(&up).gelu();
    let y = (hidden.matmul(&down) + &x).softmax(-1);
    println!("built:    {}", tracker.report()?);
    let plan = y.plan()?;
    y.realize()?;
    println!("realized: {}", tracker.report()?);
    println!("planned peak {} bytes, inputs included\n", plan.peak_bytes());
    print!("{}", device.memory_summary()?);
    if let Some(path) = &arguments.timeline {
        device.dump_memory_timeline(path)?;
        println!("timeline in {}", path.display());
    }
    Ok(())
}
