//! What pinned memory does for a training loop's batches: how fast they reach
//! the device, how long `realize` keeps the host, and how much of the way runs
//! beside what the device computes.

use std::time::{Duration, Instant};

use clap::Parser;
use kiln::data::{DataLoader, LoaderOpts, Rows};
use kiln::prelude::*;

/// Times batches on their way to a device, from plain and from pinned memory.
#[derive(Parser)]
struct Arguments {
    /// Device that batches go to; the best one there is if absent.
    #[arg(long, env = "KILN_DEVICE")]
    device: Option<Device>,
    /// Samples in a batch.
    #[arg(long, default_value_t = 4096)]
    rows: usize,
    /// Numbers in a sample.
    #[arg(long, default_value_t = 1024)]
    columns: usize,
    /// Batches in an epoch.
    #[arg(long, default_value_t = 16)]
    batches: usize,
}

fn main() {
    if let Err(error) = run(&Arguments::parse()) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn run(arguments: &Arguments) -> kiln::Result<()> {
    let device = arguments.device.unwrap_or_else(Device::best);
    device.probe()?;
    let Arguments { rows, columns, batches, .. } = *arguments;
    let megabytes = (rows * columns * 4) as f64 / 1e6;
    println!("{batches} batches of {megabytes:.1} MB to {device} ({})", device.name()?);
    if device == Device::cpu() {
        println!("the host is its own device: nothing crosses, and pinned memory is plain memory");
    }
    let data = Tensor::rand([rows * batches, columns], Device::cpu());
    let weight = Tensor::randn([columns, (columns / 8).max(1)], device);
    kiln::realize(&[&data, &weight])?;
    println!(
        "{:>8}  {:>9}  {:>16}  {:>12}  {:>12}  {:>12}",
        "memory", "GB/s", "host kept busy", "upload", "compute", "together"
    );
    for pinned in [false, true] {
        let opts = LoaderOpts::default().batch_size(rows).pin_memory(pinned);
        let loader = DataLoader::new(Rows::new(data.clone())?, opts)?;
        let batches: Vec<Tensor> = loader.epoch(0).collect::<kiln::Result<_>>()?;
        // Once to compile and to fill the pools.
        measure(device, &batches, Some(&weight))?;
        let upload = measure(device, &batches, None)?;
        let there: Vec<Tensor> = batches.iter().map(|batch| batch.to(device)).collect();
        kiln::realize(&there.iter().collect::<Vec<_>>())?;
        let compute = measure(device, &there, Some(&weight))?;
        let together = measure(device, &batches, Some(&weight))?;
        let rate = megabytes * batches.len() as f64 / 1e3 / upload.all.as_secs_f64().max(1e-9);
        println!(
            "{:>8}  {rate:>9.2}  {:>14.2?}  {:>12.2?}  {:>12.2?}  {:>12.2?}  {}",
            if pinned { "pinned" } else { "plain" },
            upload.host,
            upload.all,
            compute.all,
            together.all,
            hidden(upload.all, compute.all, together.all),
        );
    }
    Ok(())
}

/// Time until the host has given everything to the device, and until the
/// device is done.
struct Times {
    host: Duration,
    all: Duration,
}

/// The fastest of five runs: what other programs do only makes them slower.
fn measure(device: Device, batches: &[Tensor], weight: Option<&Tensor>) -> kiln::Result<Times> {
    let runs = (0..5).map(|_| once(device, batches, weight)).collect::<kiln::Result<Vec<_>>>()?;
    Ok(runs.into_iter().min_by_key(|times| times.all).expect("five runs"))
}

/// Sends batches, those that are there already excepted, and computes with them
/// if there is something to compute with.
fn once(device: Device, batches: &[Tensor], weight: Option<&Tensor>) -> kiln::Result<Times> {
    device.synchronize()?;
    let start = Instant::now();
    for batch in batches {
        let there = batch.to(device);
        there.realize()?;
        if let Some(weight) = weight {
            there.matmul(weight).tanh().sum(..).realize()?;
        }
    }
    let host = start.elapsed();
    device.synchronize()?;
    Ok(Times { host, all: start.elapsed() })
}

/// Which part of the upload ran beside the computation, where that can be told.
fn hidden(upload: Duration, compute: Duration, together: Duration) -> String {
    let [upload, compute, together] = [upload, compute, together].map(|time| time.as_secs_f64());
    if 10.0 * upload < compute {
        return "(the upload is too short to tell what was hidden)".into();
    }
    let part = (upload + compute - together) / upload.min(compute).max(1e-9);
    format!("{:.0} % of the shorter one hidden", 100.0 * part.clamp(0.0, 1.0))
}
