//! Trains two small nets in full and in mixed precision, and compares what it costs and where it ends:
//! a transformer over characters and a convolutional net on handwritten digits.

#[allow(dead_code, reason = "the other example samples from it")]
#[path = "char_transformer/model.rs"]
mod model;
#[allow(dead_code, reason = "the other example reads characters")]
#[path = "char_transformer/text.rs"]
mod text;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Parser;
use flate2::read::GzDecoder;
use kiln::data::Dataset;
use kiln::nn::{Conv2d, Layer, Linear, ModuleExt, Param, Sequential};
use kiln::optim::{AdamW, AdamWOpts, GradScaler, GradScalerOpts, Optimizer};
use kiln::opts::{ConvOpts, Padding};
use kiln::prelude::*;
use kiln::{Context, autocast, with_context};
use plotters::prelude::*;

use model::{CharTransformer, Sizes};
use text::{Text, Windows};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Trains a transformer and a convolutional net in f32, bf16, and f16 with scaled losses; prints times,
/// memory and losses side by side.
#[derive(Parser)]
struct Arguments {
    /// Device to run on: cpu, cuda:0, wgpu:0.
    #[arg(long, env = "KILN_DEVICE", default_value = "cpu")]
    device: Device,
    /// Steps of each run.
    #[arg(long, default_value_t = 100)]
    steps: usize,
    /// Smaller nets and batches, for a quick look.
    #[arg(long)]
    small: bool,
    /// Writes the losses by step as an SVG picture to this file.
    #[arg(long)]
    out: Option<PathBuf>,
}

fn main() {
    if let Err(error) = run(&Arguments::parse()) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

/// Full precision, and the two mixed ones.
const PRECISIONS: [(&str, Option<DType>); 3] =
    [("f32", None), ("bf16", Some(DType::BF16)), ("f16", Some(DType::F16))];

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let nets: [(&str, fn(&Arguments) -> Result<Net, Failure>); 2] =
        [("transformer", transformer), ("conv net", conv_net)];
    println!(
        "{:<12} {:<5} {:>9} {:>11} {:>11} {:>8}  skipped",
        "net", "type", "ms a step", "planned", "measured", "loss"
    );
    let mut curves = Vec::new();
    for (name, build) in nets {
        let mut losses = Vec::new();
        for (precision, amp) in PRECISIONS {
            // Plans, memory and counts of its own.
            let run = with_context(&Context::new(), || train(&build(arguments)?, amp, arguments))?;
            println!("{name:<12} {precision:<5} {run}");
            losses.push(run.losses);
        }
        curves.push((name, losses));
    }
    println!(
        "planned: the most memory of a forward and a backward pass; measured: of a step, with the optimizer's state"
    );
    if let Some(path) = &arguments.out {
        draw(path, &curves)?;
        println!("loss curves: {}", path.display());
    }
    Ok(())
}

/// What one run took, and where it ended.
struct Run {
    seconds: f64,
    planned: u64,
    measured: u64,
    losses: Vec<f32>,
    skipped: usize,
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let (planned, measured) = (mib(self.planned), mib(self.measured));
        write!(f, "{:>9.2} {planned:>7.2} MiB {measured:>7.2} MiB ", 1e3 * self.seconds)?;
        write!(f, "{:>8.4}  {}", mean_of_last(&self.losses), self.skipped)
    }
}

/// The mean of the last tenth, since one batch says little.
fn mean_of_last(losses: &[f32]) -> f32 {
    let last = &losses[losses.len() - losses.len().div_ceil(10)..];
    last.iter().sum::<f32>() / last.len() as f32
}

/// A model, and its loss on the batch of a step.
struct Net {
    parameters: Vec<Param>,
    loss: Box<dyn Fn(usize) -> Result<Tensor, Failure>>,
}

fn train(net: &Net, amp: Option<DType>, arguments: &Arguments) -> Result<Run, Failure> {
    let mut optimizer = AdamW::new(net.parameters.iter().cloned(), AdamWOpts::default().lr(3e-3));
    let mut scaler = GradScaler::new(GradScalerOpts::default().enabled(amp == Some(DType::F16)));
    let (mut losses, mut skipped, mut planned) = (Vec::new(), Vec::new(), 0);
    let mut start = Instant::now();
    // The first steps plan and compile.
    let warm_up = 4.min(arguments.steps / 2);
    for step in 0..arguments.steps {
        if step == warm_up {
            arguments.device.reset_peak_memory_stats()?;
            start = Instant::now();
        }
        optimizer.zero_grad();
        let loss = {
            let _mixed = amp.map(autocast);
            (net.loss)(step)?
        };
        scaler.scale(&loss).backward()?;
        if step + 1 == warm_up {
            planned = loss.plan()?.peak_bytes();
        }
        scaler.step(&mut optimizer)?;
        scaler.update()?;
        losses.push(loss.item::<f32>()?);
        skipped.push(scaler.skipped());
    }
    let seconds = start.elapsed().as_secs_f64() / (arguments.steps - warm_up).max(1) as f64;
    let measured = arguments.device.memory_stats()?.peak;
    let skipped = skipped.iter().map(Tensor::item::<bool>).collect::<Result<Vec<_>, _>>()?;
    let skipped = skipped.into_iter().filter(|&skipped| skipped).count();
    Ok(Run { seconds, planned, measured, losses, skipped })
}

/// Windows of Shakespeare, and the characters that follow.
fn transformer(arguments: &Arguments) -> Result<Net, Failure> {
    kiln::manual_seed(0);
    let (context, width, batch) = if arguments.small { (16, 32, 4) } else { (64, 128, 16) };
    let sizes = Sizes { context, width, layers: 2, heads: 4, dropout: 0.0 };
    let text = Text::load()?;
    let windows = Windows { text: text.training, context, stride: 1 };
    let model = with_device(arguments.device, || CharTransformer::new(text.alphabet.len(), sizes));
    let (parameters, device) = (model.parameters(), arguments.device);
    let loss = move |step: usize| {
        let starts: Vec<usize> = (0..batch).map(|i| (step * batch + i) * 7919 % windows.len()).collect();
        let (characters, following) = windows.batch(&starts)?;
        Ok(model.loss(&characters.to(device), &following.to(device)))
    };
    Ok(Net { parameters, loss: Box::new(loss) })
}

/// Digits of 8 by 8 pixels, through two convolutions.
fn conv_net(arguments: &Arguments) -> Result<Net, Failure> {
    kiln::manual_seed(0);
    let (channels, batch) = if arguments.small { (8, 16) } else { (64, 128) };
    let (images, labels) = digits()?;
    let model = with_device(arguments.device, || {
        let same = || ConvOpts::default().padding(Padding::Same);
        Sequential::new()
            .push(Conv2d::new(1, channels, [3, 3], same(), ()))
            .then(Tensor::relu)
            .push(Conv2d::new(channels, channels, [3, 3], same(), ()))
            .then(Tensor::relu)
            .then(|x| x.flatten(1, -1))
            .push(Linear::new(64 * channels, 10, ()))
    });
    let (parameters, device) = (model.parameters(), arguments.device);
    let loss = move |step: usize| {
        let numbers: Vec<usize> = (0..batch).map(|i| (step * batch + i) * 7 % labels.len()).collect();
        let pixels: Vec<f32> = numbers.iter().flat_map(|&n| &images[n * 64..(n + 1) * 64]).copied().collect();
        let labels: Vec<i64> = numbers.iter().map(|&n| labels[n]).collect();
        let x = Tensor::from_vec(pixels, [batch, 1, 8, 8], Device::cpu()).to(device);
        let labels = Tensor::from_vec(labels, [batch], Device::cpu()).to(device);
        Ok(model.forward(&x).cross_entropy(&labels, Default::default()))
    };
    Ok(Net { parameters, loss: Box::new(loss) })
}

/// Pixels from 0 to 1, 64 an image, and labels.
fn digits() -> Result<(Vec<f32>, Vec<i64>), Failure> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data/digits.csv.gz");
    let mut text = String::new();
    GzDecoder::new(std::fs::File::open(path)?).read_to_string(&mut text)?;
    let (mut images, mut labels) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let numbers = line.split(',').map(str::parse).collect::<Result<Vec<f32>, _>>()?;
        let (pixels, label) = numbers.split_at(64);
        images.extend(pixels.iter().map(|pixel| pixel / 16.0));
        labels.push(label[0] as i64);
    }
    Ok((images, labels))
}

/// A chart for each net, with a curve for each precision.
fn draw(path: &Path, curves: &[(&str, Vec<Vec<f32>>)]) -> Result<(), Failure> {
    let area = SVGBackend::new(path, (480 * curves.len() as u32, 400)).into_drawing_area();
    area.fill(&WHITE)?;
    for (area, (name, losses)) in area.split_evenly((1, curves.len())).iter().zip(curves) {
        let most = losses.iter().flatten().copied().fold(0.0, f32::max);
        let mut chart = ChartBuilder::on(area)
            .caption(format!("{name}: loss by step"), ("sans-serif", 18))
            .margin(16)
            .x_label_area_size(32)
            .y_label_area_size(48)
            .build_cartesian_2d(1..losses[0].len().max(2), 0.0..most * 1.05)?;
        chart.configure_mesh().light_line_style(TRANSPARENT).x_desc("step").y_desc("cross-entropy").draw()?;
        // The narrower are drawn over the wider, so that equal curves all show.
        for (((precision, _), losses), (color, width)) in
            PRECISIONS.iter().zip(losses).zip([(BLUE, 5), (RED, 3), (BLACK, 1)])
        {
            let points = losses.iter().enumerate().map(|(step, &loss)| (step + 1, loss));
            chart
                .draw_series(LineSeries::new(points, color.stroke_width(width)))?
                .label(*precision)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(width)));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .border_style(BLACK)
            .background_style(WHITE)
            .draw()?;
    }
    area.present()?;
    Ok(())
}
