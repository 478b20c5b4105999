//! Some hundred and fifty operations, gradients and layers that no other benchmark names, one JSON
//! line each: what is slow is found by looking everywhere.
//!
//! `cargo bench --bench survey -- --device cpu`; `--large` takes the work that fills a GPU
//! as well, `ITEMS=na,z01` picks items, `BUDGET_S` the seconds of timed calls per item, and
//! `--predict` compares the times with what the plans' rooflines say.
//! `survey.py` beside it runs the same in PyTorch, and prints the table.

#[path = "../support/mod.rs"]
mod support;

mod images;
mod large;
mod linear;
mod movement;
mod norms;
mod pointwise;
mod reductions;
mod sequences;

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use kiln::prelude::*;
use support::item::{self, Item};
use support::report::{self, Timing};

/// Runs operations that no other benchmark names.
#[derive(Parser)]
struct Arguments {
    /// Device to run on.
    #[arg(long, default_value = "cpu")]
    device: Device,
    /// Work that fills a GPU, too.
    #[arg(long)]
    large: bool,
    /// At the end, say how long the items take beside what their plans predict.
    #[arg(long)]
    predict: bool,
    /// Say what there is, with the inputs' shapes, and run nothing.
    #[arg(long)]
    list: bool,
    /// Accepted because `cargo bench` passes it.
    #[arg(long, hide = true)]
    bench: bool,
}

/// What is small enough for any device, by family.
const FAMILIES: [&[Item]; 7] = [
    norms::ITEMS,
    pointwise::ITEMS,
    sequences::ITEMS,
    images::ITEMS,
    reductions::ITEMS,
    movement::ITEMS,
    linear::ITEMS,
];

fn main() -> ExitCode {
    let Arguments { device, large, predict, list, .. } = Arguments::parse();
    let filling = if large { large::ITEMS } else { &[] };
    let items: Vec<&Item> =
        FAMILIES.into_iter().flatten().chain(filling).filter(|item| report::wanted(item.0)).collect();
    if list {
        items
            .iter()
            .for_each(|Item(name, shapes, ..)| println!("{{\"item\":\"{name}\",\"shapes\":{shapes:?}}}"));
        return ExitCode::SUCCESS;
    }
    let start = Instant::now();
    if let Err(error) = Tensor::ones([4], device).realize() {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    let init_ms = start.elapsed().as_secs_f64() * 1e3;
    let timed: Vec<(&Item, Timing)> = items.into_iter().map(|item| (item, item::run(device, item))).collect();
    report::process_line(&device.to_string(), init_ms);
    if predict && let Err(error) = print_predictions(device, &timed) {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Measured over predicted time: over all items, and each that takes more than three times as long as predicted.
fn print_predictions(device: Device, timed: &[(&Item, Timing)]) -> kiln::Result<()> {
    let ratio =
        |(item, timing): &(&Item, Timing)| Ok((timing.median_ms / item.predicted_ms(device)?, item.0));
    let mut ratios = timed.iter().map(ratio).collect::<kiln::Result<Vec<(f64, &str)>>>()?;
    ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
    let at = |share: f64| ratios[((ratios.len() - 1) as f64 * share).round() as usize].0;
    if !ratios.is_empty() {
        let (median, most) = (at(0.5), at(0.9));
        eprintln!("measured over predicted: median {median:.2}, 90th percentile {most:.2}");
    }
    ratios
        .iter()
        .filter(|(ratio, _)| *ratio > 3.0)
        .for_each(|(ratio, name)| eprintln!("{ratio:6.2}  {name}"));
    Ok(())
}
