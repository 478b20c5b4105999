//! Whole models: first call, inference, latency, training and peak memory, and how fast tokens come.
//!
//! `cargo bench -p kiln-models --bench models -- --peers results.jsonl`; each model runs in a process of its own.
//! The sizes are those of the public benchmark inferena.

mod clock;
mod generation;
mod network;
mod table;

use std::error::Error;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::Parser;
use kiln::prelude::*;
use serde_json::Value;

type Failure = Box<dyn Error + Send + Sync>;

/// Times whole models, and shows other libraries' times beside.
#[derive(Parser)]
struct Arguments {
    /// Device to run on: cpu, cuda:0, wgpu:0.
    #[arg(long, env = "KILN_DEVICE", default_value = "cpu")]
    device: Device,
    /// Only these: smollm2, resnet50, whisper, unet, smolvla; generate-f32, -bf16, -q8_0, -q4_0.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Small models, to see that all runs.
    #[arg(long)]
    small: bool,
    /// Threads of the CPU device, which choose the other libraries' lines too.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Seconds of timed calls of inference; training takes half as much again. 0 only checks the numbers.
    #[arg(long, default_value_t = 4.0)]
    budget: f64,
    /// The GGUF file of SmolLM2-135M; random weights without it.
    #[arg(long)]
    gguf: Option<PathBuf>,
    /// A folder with the other models' weights as the script `peers_weights.py` writes them; else they are random.
    #[arg(long)]
    weights: Option<PathBuf>,
    /// Files of JSON lines that other libraries' programs wrote.
    #[arg(long)]
    peers: Vec<PathBuf>,
    /// Runs one model and prints its line.
    #[arg(long, hide = true)]
    one: Option<String>,
    /// Accepted because `cargo bench` passes it.
    #[arg(long, hide = true)]
    bench: bool,
}

const NETWORKS: [&str; 5] = ["smollm2", "resnet50", "whisper", "unet", "smolvla"];
const GENERATIONS: [&str; 4] = ["generate-f32", "generate-bf16", "generate-q8_0", "generate-q4_0"];

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let ran = match &arguments.one {
        Some(name) => one(&arguments, name).map(|line| println!("{line}")),
        None => all(&arguments),
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// One model, in this process.
fn one(arguments: &Arguments, name: &str) -> Result<Value, Failure> {
    let mut line = match name.strip_prefix("generate-") {
        Some(format) => generation::run(arguments, format)?,
        None => network::run(arguments, name)?,
    };
    line["peer"] = "kiln".into();
    line["threads"] = arguments.threads.into();
    line["peak_mb"] = clock::peak_mb().into();
    Ok(line)
}

/// All models, each in a process of its own, then the table.
fn all(arguments: &Arguments) -> Result<(), Failure> {
    let known = || NETWORKS.into_iter().chain(GENERATIONS);
    if let Some(other) = arguments.only.iter().find(|name| !known().any(|known| known == name.as_str())) {
        return Err(format!("expected one of {:?}, found {other}", known().collect::<Vec<_>>()).into());
    }
    let wanted = |name: &&str| arguments.only.is_empty() || arguments.only.iter().any(|only| only == name);
    let peers = table::read(&arguments.peers, arguments.threads)?;
    let mut lines = Vec::new();
    for name in known().filter(wanted) {
        let mut child = Command::new(std::env::current_exe()?);
        child.args(std::env::args_os().skip(1)).args(["--one", name]);
        let output = child.env("KILN_THREADS", arguments.threads.to_string()).output()?;
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        if !output.status.success() {
            return Err(format!("{name}: {}", output.status).into());
        }
        let line: Value = serde_json::from_slice(&output.stdout)?;
        println!("{line}");
        lines.push(line);
    }
    println!("\n{}", table::show(&lines, &peers));
    Ok(())
}
