//! Trains a small network on handwritten digits: Adam, one plan per step. Then
//! saves it, loads it into a model built without memory, and compares what
//! both predict.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Parser;
use flate2::read::GzDecoder;
use indicatif::{ProgressBar, ProgressStyle};
use kiln::data::{Batch, DataLoader, Dataset, LoadError, LoaderOpts};
use kiln::nn::{Layer, Linear, ModuleExt, Sequential};
use kiln::optim::{Adam, AdamOpts, GradScaler, GradScalerOpts, Optimizer};
use kiln::prelude::*;
use plotters::prelude::*;

const PIXELS: usize = 64;
const TRAINING: usize = 1000;
const BATCH: usize = 100;
const EPOCHS: usize = 60;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Trains 64-128-10 on the first 1,000 of 1,797 handwritten digits and tests
/// it on the others.
#[derive(Parser)]
struct Arguments {
    /// Device to run on: cpu, cuda:0, wgpu:0.
    #[arg(long, env = "KILN_DEVICE", default_value = "cpu")]
    device: Device,
    /// Mixed precision: computes products in this type, bf16 or f16.
    #[arg(long, value_name = "DTYPE")]
    amp: Option<DType>,
    /// Keeps the trained model in this file of the safetensors format.
    #[arg(long)]
    save: Option<PathBuf>,
    /// Writes the loss by epoch as an SVG picture to this file.
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
    kiln::manual_seed(0);
    let digits = Digits::load()?;
    let model = with_device(arguments.device, network);
    let losses = train(&model, &digits, arguments)?;
    println!("loss {:.4} after {EPOCHS} epochs of {} steps", losses[EPOCHS - 1], TRAINING / BATCH);
    let tests: Vec<usize> = (TRAINING..digits.labels.len()).collect();
    let (images, labels) = digits.batch(&tests)?;
    let predicted = predictions(&model, &images.to(arguments.device))?;
    println!("test accuracy {:.4}", share_equal(&predicted, &labels.to_vec()?));
    println!("plans built {}", kiln::context().counters().plans_built);
    let reloaded = reload(&model, arguments)?;
    if predictions(&reloaded, &images.to(arguments.device))? != predicted {
        return Err("the reloaded model predicts something else".into());
    }
    println!("saved and reloaded: identical predictions");
    if let Some(path) = &arguments.out {
        draw(path, &losses)?;
        println!("loss curve: {}", path.display());
    }
    Ok(())
}

/// 64-128-10, on the default device.
fn network() -> Sequential {
    Sequential::new().push(Linear::new(PIXELS, 128, ())).then(Tensor::relu).push(Linear::new(128, 10, ()))
}

/// The mean loss of each epoch.
fn train(model: &Sequential, digits: &Digits, arguments: &Arguments) -> Result<Vec<f64>, Failure> {
    let opts = LoaderOpts::default().batch_size(BATCH).shuffle(true);
    let loader = DataLoader::new(Training(digits.clone()), opts)?;
    let mut optimizer = Adam::new(model.parameters(), AdamOpts::default());
    let mut scaler = GradScaler::new(GradScalerOpts::default().enabled(arguments.amp == Some(DType::F16)));
    let style = "{bar:40} epoch {pos}/{len} {msg}";
    let bar = ProgressBar::new(EPOCHS as u64).with_style(ProgressStyle::with_template(style)?);
    let mut losses = Vec::with_capacity(EPOCHS);
    for epoch in 0..EPOCHS {
        let mut sum = 0.0;
        for batch in loader.epoch(epoch as u64) {
            let (images, labels) = batch?.to(arguments.device);
            optimizer.zero_grad();
            let loss = {
                let _mixed = arguments.amp.map(kiln::autocast);
                model.forward(&images).cross_entropy(&labels, Default::default())
            };
            scaler.scale(&loss).backward()?;
            scaler.step(&mut optimizer)?;
            scaler.update()?;
            sum += loss.item::<f64>()?; // the step has computed it
        }
        losses.push(sum / loader.len() as f64);
        bar.set_message(format!("loss {:.4}", losses[epoch]));
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(losses)
}

/// The digit that each image is taken for.
fn predictions(model: &Sequential, images: &Tensor) -> Result<Vec<i64>, Failure> {
    model.eval();
    Ok(model.forward(images).argmax(1).to_vec()?)
}

fn share_equal(a: &[i64], b: &[i64]) -> f64 {
    a.iter().zip(b).filter(|(a, b)| a == b).count() as f64 / a.len() as f64
}

/// The model from a file that it was saved to.
fn reload(model: &Sequential, arguments: &Arguments) -> Result<Sequential, Failure> {
    let own = || std::env::temp_dir().join(format!("digits_mlp-{}.safetensors", std::process::id()));
    let path = arguments.save.clone().unwrap_or_else(own);
    model.save(&path)?;
    let reloaded = with_device(Device::meta(), network);
    reloaded.load(&path, arguments.device)?;
    if arguments.save.is_none() {
        std::fs::remove_file(&path)?;
    }
    Ok(reloaded)
}

#[derive(Clone)]
struct Digits {
    images: Vec<f32>,
    labels: Vec<i64>,
}

impl Digits {
    fn load() -> Result<Digits, Failure> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/digits.csv.gz");
        let mut text = String::new();
        GzDecoder::new(std::fs::File::open(path)?).read_to_string(&mut text)?;
        let mut digits = Digits { images: Vec::new(), labels: Vec::new() };
        for line in text.lines() {
            let numbers = line.split(',').map(str::parse).collect::<Result<Vec<f32>, _>>()?;
            let (pixels, label) = numbers.split_at(PIXELS);
            digits.images.extend(pixels.iter().map(|pixel| pixel / 16.0));
            digits.labels.push(label[0] as i64);
        }
        Ok(digits)
    }

    /// Images `[n, 64]` and labels `[n]`.
    fn batch(&self, numbers: &[usize]) -> Result<(Tensor, Tensor), LoadError> {
        let image = |&n: &usize| &self.images[n * PIXELS..(n + 1) * PIXELS];
        let pixels: Vec<f32> = numbers.iter().flat_map(image).copied().collect();
        let labels: Vec<i64> = numbers.iter().map(|&n| self.labels[n]).collect();
        let count = numbers.len();
        let images = Tensor::from_vec(pixels, [count, PIXELS], Device::cpu());
        Ok((images, Tensor::from_vec(labels, [count], Device::cpu())))
    }
}

/// The digits to train on.
struct Training(Digits);

impl Dataset for Training {
    type Batch = (Tensor, Tensor);

    fn len(&self) -> usize {
        TRAINING
    }
    fn batch(&self, numbers: &[usize]) -> Result<(Tensor, Tensor), LoadError> {
        self.0.batch(numbers)
    }
}

fn draw(path: &Path, losses: &[f64]) -> Result<(), Failure> {
    let area = SVGBackend::new(path, (640, 400)).into_drawing_area();
    area.fill(&WHITE)?;
    let most = losses.iter().copied().fold(0.0, f64::max);
    let mut chart = ChartBuilder::on(&area)
        .caption("mean training loss by epoch", ("sans-serif", 18))
        .margin(16)
        .x_label_area_size(32)
        .y_label_area_size(48)
        .build_cartesian_2d(1..losses.len(), 0.0..most * 1.05)?;
    chart.configure_mesh().x_desc("epoch").y_desc("cross-entropy").draw()?;
    let points = losses.iter().enumerate().map(|(epoch, &loss)| (epoch + 1, loss));
    chart.draw_series(LineSeries::new(points, BLUE.stroke_width(2)))?;
    area.present()?;
    Ok(())
}
