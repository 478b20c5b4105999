//! Trains a small transformer on the characters of plays by Shakespeare until
//! it tells the next one better than counts of three characters do; then lets
//! it write. A run can be stopped, saved and resumed, and is then the same run
//! bit by bit.

mod model;
mod text;
mod training;
mod trigram;

use std::path::{Path, PathBuf};

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use kiln::Generator;
use kiln::nn::ModuleExt;
use kiln::prelude::*;
use plotters::prelude::*;

use model::Sizes;
use text::Text;
use training::{Schedule, Training};
use trigram::Trigram;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Trains a small causal transformer on 400 kB of Shakespeare, compares its
/// loss on the last tenth of the text, which it does not train on, with that
/// of a trigram model fitted to the same nine tenths, and samples from it.
#[derive(Parser)]
struct Arguments {
    /// Device to run on: cpu, cuda:0, wgpu:0.
    #[arg(long, env = "KILN_DEVICE", default_value = "cpu")]
    device: Device,
    #[command(flatten)]
    sizes: Sizes,
    #[command(flatten)]
    schedule: Schedule,
    /// Stops after this step of the run.
    #[arg(long)]
    stop: Option<usize>,
    /// Saves the run to this file of the safetensors format.
    #[arg(long)]
    save: Option<PathBuf>,
    /// Goes on with a run that was saved; give the same sizes and schedule.
    #[arg(long)]
    resume: Option<PathBuf>,
    /// Writes the loss of each step, a line each, to this file.
    #[arg(long)]
    losses: Option<PathBuf>,
    /// What the sample begins with.
    #[arg(long, default_value = "\n")]
    prompt: String,
    /// Characters to sample.
    #[arg(long, default_value_t = 300)]
    sample: usize,
    /// Writes the loss by step as an SVG picture to this file.
    #[arg(long)]
    out: Option<PathBuf>,
}

fn main() {
    if let Err(error) = run(&Arguments::parse()) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let text = Text::load()?;
    let Arguments { sizes, schedule, device, .. } = *arguments;
    let mut training = Training::new(&text, sizes, schedule, device, arguments.resume.as_deref())?;
    println!("{} parameters, {} characters", training.model.num_params(), text.alphabet.len());
    train(&mut training, arguments.stop.unwrap_or(schedule.steps).min(schedule.steps))?;
    println!("plans built {}", kiln::context().counters().plans_built);
    if let Some(path) = &arguments.save {
        training.save(path)?;
        println!("saved: {}", path.display());
    }
    if let Some(path) = &arguments.losses {
        std::fs::write(path, training.losses.iter().map(|loss| format!("{loss}\n")).collect::<String>())?;
    }
    let counted = Trigram::fitted(&text.training, text.alphabet.len()).loss(&text.validation);
    println!("trigram loss {counted:.4} on the last tenth");
    println!("transformer loss {:.4} on the last tenth", training.evaluate(&text.validation, sizes.context)?);
    let prompt = text.numbers(&arguments.prompt)?;
    let written = training.model.sample(&prompt, arguments.sample, &mut Generator::new(schedule.seed))?;
    println!("sample:\n{}", text.characters(&written));
    if let Some(path) = &arguments.out {
        draw(path, &training.losses, counted)?;
        println!("loss curve: {}", path.display());
    }
    Ok(())
}

/// Goes on until a number of steps are done.
fn train(training: &mut Training, steps: usize) -> Result<(), Failure> {
    let style = "{bar:40} step {pos}/{len} {msg}, {eta} to go";
    let bar = ProgressBar::new(steps as u64).with_style(ProgressStyle::with_template(style)?);
    bar.set_position(training.losses.len() as u64);
    bar.reset_eta();
    while training.losses.len() < steps {
        let loss = training.step()?;
        bar.set_message(format!("loss {loss:.4}"));
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(())
}

/// The loss of the steps, with that of the trigram model as a line.
fn draw(path: &Path, losses: &[f32], counted: f64) -> Result<(), Failure> {
    let area = SVGBackend::new(path, (640, 400)).into_drawing_area();
    area.fill(&WHITE)?;
    let most = losses.iter().copied().fold(0.0, f32::max);
    let mut chart = ChartBuilder::on(&area)
        .caption("loss by step, and the trigram model's", ("sans-serif", 18))
        .margin(16)
        .x_label_area_size(32)
        .y_label_area_size(48)
        .build_cartesian_2d(1..losses.len().max(2), 0.0..most * 1.05)?;
    chart.configure_mesh().x_desc("step").y_desc("nats per character").draw()?;
    let points = losses.iter().enumerate().map(|(step, &loss)| (step + 1, loss));
    chart.draw_series(LineSeries::new(points, &BLUE))?;
    let line = [1, losses.len().max(2)].map(|step| (step, counted as f32));
    chart.draw_series(LineSeries::new(line, RED.stroke_width(2)))?;
    area.present()?;
    Ok(())
}
