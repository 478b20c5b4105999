//! How near sentences are to each other, by the vectors of a sentence encoder.

use std::path::PathBuf;
use std::time::Instant;

use clap::Parser;
use kiln::Device;
use kiln_models::{LoadModelOpts, SentenceEncoder, locate};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const SENTENCES: [&str; 3] =
    ["A cat sat on the mat.", "A kitten rested on a rug.", "The market fell by two percent."];

/// Prints the similarity of each pair of sentences: the cosine of the angle between their vectors.
#[derive(Parser)]
struct Arguments {
    /// A folder as sentence-transformers saves it, such as all-MiniLM-L6-v2, or `hf://org/name`, which is
    /// downloaded (feature `hub`).
    model: PathBuf,
    /// The sentences.
    #[arg(default_values = SENTENCES)]
    sentences: Vec<String>,
    /// Device to run on: cpu, cuda:0, wgpu:0.
    #[arg(long, env = "KILN_DEVICE", default_value = "cpu")]
    device: Device,
}

fn main() {
    if let Err(error) = run(&Arguments::parse()) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let load = LoadModelOpts::default().device(arguments.device);
    let encoder = SentenceEncoder::open(locate(&arguments.model)?, load)?;
    let start = Instant::now();
    let vectors = encoder.encode(&arguments.sentences)?;
    let similarities = vectors.matmul(&vectors.t()).to_vec::<f32>()?;
    for (number, sentence) in arguments.sentences.iter().enumerate() {
        println!("{:>2}  {sentence}", number + 1);
    }
    let count = arguments.sentences.len();
    println!("\n    {}", (1..=count).map(|number| format!("{number:>8}")).collect::<String>());
    for (number, row) in similarities.chunks(count).enumerate() {
        println!("{:>4}{}", number + 1, row.iter().map(|value| format!("{value:>8.3}")).collect::<String>());
    }
    eprintln!("\n{count} sentences on {} in {:.1?}", arguments.device, start.elapsed());
    Ok(())
}
