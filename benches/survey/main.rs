//! Some hundred and fifty operations, gradients and layers that no other benchmark names, one JSON
//! line each: what is slow is found by looking everywhere.
//!
//! `cargo bench --bench survey -- --device cpu`; `--large` takes the work that fills a GPU
//! as well, `ITEMS=na,z01` picks items, `BUDGET_S` the seconds of timed calls per item.
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
use support::report;

/// Runs operations that no other benchmark names.
#[derive(Parser)]
struct Arguments {
    /// Device to run on.
    #[arg(long, default_value = "cpu")]
    device: Device,
    /// Work that fills a GPU, too.
    #[arg(long)]
    large: bool,
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
    let Arguments { device, large, list, .. } = Arguments::parse();
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
    items.into_iter().for_each(|item| item::run(device, item));
    report::process_line(&device.to_string(), init_ms);
    ExitCode::SUCCESS
}
