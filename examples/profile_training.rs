//! Where the time and memory of a training loop go: tables, a page, and a trace.

use std::path::PathBuf;

use clap::Parser;
use kiln::nn::{Layer, Linear, ModuleExt, Sequential};
use kiln::optim::{Adam, AdamOpts, Optimizer};
use kiln::prelude::*;
use kiln::profile::{GroupBy, Profiler, Schedule, SortBy, record_function};

/// Trains a small network on noise under the profiler, and prints what took how long.
#[derive(Parser)]
struct Arguments {
    /// Device to run on: cpu, cuda:0, wgpu:0.
    #[arg(long, env = "KILN_DEVICE", default_value = "cpu")]
    device: Device,
    /// Rows of a batch.
    #[arg(long, default_value_t = 256)]
    batch: usize,
    /// Width of the network.
    #[arg(long, default_value_t = 256)]
    width: usize,
    /// Steps that are profiled, after two to warm up.
    #[arg(long, default_value_t = 5)]
    steps: usize,
    /// Writes a trace for ui.perfetto.dev or chrome://tracing to this file.
    #[arg(long)]
    trace: Option<PathBuf>,
    /// Writes a page to look at in a browser to this file.
    #[arg(long)]
    page: Option<PathBuf>,
    /// Writes a trace for TensorBoard's PyTorch plugin to this folder.
    #[arg(long)]
    tensorboard: Option<PathBuf>,
}

fn main() {
    if let Err(error) = run(&Arguments::parse()) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn run(arguments: &Arguments) -> kiln::Result<()> {
    arguments.device.probe()?;
    kiln::manual_seed(0);
    let Arguments { batch, width, steps, .. } = *arguments;
    let net = with_device(arguments.device, || {
        let hidden = || Linear::new(width, width, ());
        Sequential::new()
            .push(hidden())
            .then(Tensor::gelu)
            .push(hidden())
            .then(Tensor::gelu)
            .push(Linear::new(width, 10, ()))
    });
    let mut adam = Adam::new(net.parameters(), AdamOpts::default());

    // Two steps compile and plan; they are recorded and dropped.
    let schedule = Schedule { skip_first: 0, wait: 0, warmup: 2, active: steps, repeat: 1 };
    let mut profiler = Profiler::builder().profile_memory(true).schedule(schedule).start();
    for _ in 0..2 + steps {
        // On the host and sent over, as a loader would.
        let images = record_function("batch", || Tensor::randn([batch, width], ()).to(arguments.device));
        let labels = Tensor::zeros([batch], arguments.device).to_dtype(DType::I64);
        let loss = record_function("net", || net.forward(&images)).cross_entropy(&labels, Default::default());
        adam.zero_grad();
        loss.backward()?;
        adam.step()?;
        loss.item::<f32>()?;
        profiler.step();
    }
    let profile = profiler.stop()?;

    let averages = profile.key_averages();
    println!("{}", averages.table(SortBy::DeviceTime, 8));
    println!("{}", averages.by(GroupBy::Label).table(SortBy::DeviceTime, 8));
    println!("{}", averages.by(GroupBy::Line).table(SortBy::DeviceTime, 8));
    if let Some(path) = &arguments.trace {
        profile.write_chrome_trace(path)?;
        println!("wrote {}: open it in ui.perfetto.dev", path.display());
    }
    if let Some(path) = &arguments.page {
        profile.write_html(path)?;
        println!("wrote {}: open it in a browser", path.display());
    }
    if let Some(folder) = &arguments.tensorboard {
        kiln::profile::tensorboard_trace_handler(folder)(&profile)?;
    }
    Ok(())
}
