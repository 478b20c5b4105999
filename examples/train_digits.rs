//! Trains a small network on handwritten digits by a `Trainer`: evaluation, early stopping, checkpoints, logs, a
//! report, on one device or on several ranks. Ctrl-C saves and ends it, and `--resume` goes on from there; a
//! second Ctrl-C ends it at once.
//!
//! ```text
//! cargo run --release --example train_digits -- --folder runs/digits
//! cargo run --release --example train_digits -- --folder runs/digits --resume --epochs 60
//! cargo run --release --example train_digits -- --threads 4
//! cargo run --release --features dashboard --example train_digits
//! ```

use std::io::Read;
use std::path::PathBuf;

use clap::Parser;
use flate2::read::GzDecoder;
use kiln::data::{DataLoader, LoaderOpts, Rows};
use kiln::dist::{self, Group};
use kiln::nn::{Dropout, Layer, Linear, ModuleExt, Sequential};
use kiln::optim::{AdamW, AdamWOpts, Cosine};
use kiln::prelude::*;
use kiln::train::{
    Accuracy, Checkpoints, ConfusionMatrix, CsvLog, EarlyStop, Ended, F1, JsonLog, Report, StopFlag, Summary,
    Trainer, TrainerOpts,
};

const PIXELS: usize = 64;
const TRAINING: usize = 1000;

/// Trains 64-128-10 on the first 1,000 of 1,797 handwritten digits and evaluates it on the others.
#[derive(Parser)]
struct Arguments {
    /// Device to run on: cpu, cuda:0, wgpu:0.
    #[arg(long, env = "KILN_DEVICE", default_value = "cpu")]
    device: Device,
    /// Ranks as threads of this process, each with a part of every batch.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Samples of a step, all ranks together.
    #[arg(long, default_value_t = 100)]
    batch: usize,
    /// How often to go through the data at most.
    #[arg(long, default_value_t = 30)]
    epochs: u64,
    /// Mixed precision: computes products in this type, bf16 or f16.
    #[arg(long, value_name = "DTYPE")]
    amp: Option<DType>,
    /// Where checkpoints, logs and the report go.
    #[arg(long, default_value = "target/train_digits")]
    folder: PathBuf,
    /// Goes on from the newest checkpoint in the folder.
    #[arg(long)]
    resume: bool,
    /// Ends after this step, as Ctrl-C would.
    #[arg(long, value_name = "STEP")]
    stop: Option<u64>,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Batch = (Tensor, Tensor);

fn main() {
    if let Err(error) = run(&Arguments::parse()) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (images, labels) = digits()?;
    let rows = |from: i64, to: i64| {
        let part = |x: &Tensor| x.slice(0, r(from, to));
        Rows::new((part(&images), part(&labels)))
    };
    let data = (rows(0, TRAINING as i64)?, rows(TRAINING as i64, labels.numel() as i64)?);
    let stop = StopFlag::default();
    stop_on_ctrl_c(&stop);
    let train = |group: Option<&Group>| train(arguments, &data, group, &stop);
    let summary = match arguments.threads {
        0 | 1 => train(None)?,
        threads => dist::spawn(threads, |group| train(Some(&group)))?.remove(0),
    };
    report(arguments, &summary);
    Ok(())
}

fn train(
    arguments: &Arguments,
    data: &(Rows<Batch>, Rows<Batch>),
    group: Option<&Group>,
    stop: &StopFlag,
) -> kiln::Result<Summary> {
    kiln::manual_seed(0);
    let model = with_device(arguments.device, network);
    let optimizer = AdamW::new(model.parameters(), AdamWOpts::default().lr(3e-3));
    let mut opts = TrainerOpts::default().epochs(arguments.epochs).log_every(10).clip_norm(5.0);
    opts.autocast = arguments.amp;
    let ranks = group.map_or(1, Group::size);
    let loading = LoaderOpts::default().batch_size((arguments.batch / ranks).max(1)).shuffle(true);
    let training = DataLoader::new(data.0.clone(), loading.clone())?;
    let evaluation = DataLoader::new(data.1.clone(), loading.shuffle(false))?;
    let steps = arguments.epochs * (TRAINING.div_ceil(arguments.batch)) as u64;
    let mut trainer = Trainer::new(model, optimizer, forward, opts)
        .schedule(Cosine { steps, floor: 1e-5 })
        .validate_on(evaluation)
        .metric(Accuracy)
        .metric(F1::new(10))
        .metric(ConfusionMatrix::new(10))
        .early_stop(EarlyStop::on("loss").patience(5))
        .checkpoints(Checkpoints::new(&arguments.folder).keep(2).best("accuracy"))
        .stop_flag(stop)
        .on_step(|event| {
            if arguments.stop == Some(event.step) {
                stop.set();
            }
            Ok(())
        });
    if let Some(group) = group {
        trainer = trainer.ranks(group, ())?;
    }
    if group.is_none_or(|group| group.rank() == 0) {
        trainer = with_logs(trainer, arguments)?;
    }
    if arguments.resume {
        trainer.resume()?;
    }
    trainer.fit(&training)
}

fn with_logs<'a>(
    trainer: Trainer<'a, Sequential, Batch>,
    arguments: &Arguments,
) -> kiln::Result<Trainer<'a, Sequential, Batch>> {
    let path = |name: &str| arguments.folder.join(name);
    let trainer = trainer
        .log_to(CsvLog::open(path("log.csv"))?)
        .log_to(JsonLog::open(path("log.jsonl"))?)
        .log_to(Report::new(path("report.html")).title("handwritten digits"))
        .log_to(progress());
    #[cfg(feature = "tensorboard")]
    let trainer = trainer.log_to(kiln::io::tensorboard::SummaryWriter::new(&arguments.folder)?);
    Ok(trainer)
}

/// 64-128-10, on the default device.
fn network() -> Sequential {
    Sequential::new()
        .push(Linear::new(PIXELS, 128, ()))
        .then(Tensor::relu)
        .push(Dropout::new(0.1))
        .push(Linear::new(128, 10, ()))
}

fn forward(model: &Sequential, (images, labels): &Batch) -> (Tensor, Tensor, Tensor) {
    let scores = model.forward(images);
    (scores.cross_entropy(labels, Default::default()), scores, labels.clone())
}

/// Curves on the terminal.
#[cfg(feature = "dashboard")]
fn progress() -> kiln::train::Dashboard {
    kiln::train::Dashboard::new().title("handwritten digits")
}

#[cfg(not(feature = "dashboard"))]
use bar::progress;

/// Without curves: lines of the evaluations, and on a terminal a bar for what takes long.
#[cfg(not(feature = "dashboard"))]
mod bar {
    use std::io::IsTerminal;
    use std::sync::Arc;

    use indicatif::{ProgressBar, ProgressStyle};
    use kiln::progress::{Progress, Task, set_progress};
    use kiln::train::{Logger, Phase, Record};

    pub fn progress() -> impl Logger {
        let style = ProgressStyle::with_template("{msg} {bar:40} {pos}/{len}, {eta} left");
        let bar = style.map(|style| ProgressBar::new(0).with_style(style)).ok();
        let bar = Arc::new(Bar(bar.filter(|_| std::io::stderr().is_terminal())));
        set_progress(Some(bar.clone()));
        move |record: &Record| {
            if record.phase == Phase::Validation {
                bar.line(record);
            }
            Ok(())
        }
    }

    struct Bar(Option<ProgressBar>);

    impl Bar {
        fn line(&self, record: &Record) {
            match &self.0 {
                Some(bar) => bar.suspend(|| println!("{record}")),
                None => println!("{record}"),
            }
        }
    }

    impl Progress for Bar {
        fn report(&self, task: Task, done: u64, total: u64) {
            // What is small is over before it can be read.
            if let Some(bar) = self.0.as_ref().filter(|_| total >= 50) {
                bar.set_length(total);
                bar.set_position(done);
                bar.set_message(task.to_string());
            }
        }
    }
}

fn report(arguments: &Arguments, summary: &Summary) {
    let how = match summary.ended {
        Ended::Done => "done",
        Ended::Early => "ended early",
        Ended::Stopped => "stopped (--resume goes on)",
    };
    println!("{how} after {} epochs, {} steps", summary.epochs, summary.steps);
    if let Some(accuracy) = summary.scores.as_ref().and_then(|scores| scores.get("accuracy")) {
        println!("test accuracy {accuracy:.4}");
    }
    println!("report: {}", arguments.folder.join("report.html").display());
}

/// Images `[n, 64]` and labels `[n]`.
fn digits() -> Result<(Tensor, Tensor), Failure> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/digits.csv.gz");
    let mut text = String::new();
    GzDecoder::new(std::fs::File::open(path)?).read_to_string(&mut text)?;
    let (mut pixels, mut labels) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let numbers = line.split(',').map(str::parse).collect::<Result<Vec<f32>, _>>()?;
        pixels.extend(numbers[..PIXELS].iter().map(|pixel| pixel / 16.0));
        labels.push(numbers[PIXELS] as i64);
    }
    let count = labels.len();
    let images = Tensor::from_vec(pixels, [count, PIXELS], Device::cpu());
    Ok((images, Tensor::from_vec(labels, [count], Device::cpu())))
}

/// Sets the flag on Ctrl-C; a second one ends the program.
#[cfg(target_os = "linux")]
fn stop_on_ctrl_c(flag: &StopFlag) {
    use std::sync::OnceLock;
    static FLAG: OnceLock<StopFlag> = OnceLock::new();
    extern "C" fn interrupted(signal: libc::c_int) {
        if FLAG.get().is_none_or(StopFlag::set) {
            // SAFETY: `_exit` may be called in a signal handler.
            unsafe { libc::_exit(128 + signal) }
        }
    }
    if FLAG.set(flag.clone()).is_ok() {
        let handler: extern "C" fn(libc::c_int) = interrupted;
        // SAFETY: the handler only reads and sets what is atomic, or ends the process.
        unsafe { libc::signal(libc::SIGINT, handler as libc::sighandler_t) };
    }
}

#[cfg(not(target_os = "linux"))]
fn stop_on_ctrl_c(_flag: &StopFlag) {}
