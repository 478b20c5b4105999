//! How fast bytes cross between the host and a device.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Parser;
use kiln::prelude::*;
use plotters::prelude::*;

/// Times transfers of growing size in both directions.
#[derive(Parser)]
struct Arguments {
    /// Device to and from which bytes go; the best one there is if absent.
    #[arg(long)]
    device: Option<Device>,
    /// The smallest transfer, in MiB.
    #[arg(long, default_value_t = 1)]
    from: usize,
    /// The largest transfer, in MiB.
    #[arg(long, default_value_t = 1024)]
    up_to: usize,
    /// Where to write a chart (SVG); nowhere if absent.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// One size: MiB, and GB per second each way.
struct Row {
    mib: usize,
    to_device: f64,
    to_host: f64,
}

fn main() {
    if let Err(error) = run(&Arguments::parse()) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let device = arguments.device.unwrap_or_else(Device::best);
    if device == Device::cpu() {
        println!("the host is its own device: nothing crosses; --device names another (see device_info)");
        return Ok(());
    }
    let (from, up_to) = (arguments.from, arguments.up_to);
    if from == 0 || from > up_to {
        return Err(format!("expected 1 <= from <= up-to, found --from {from} --up-to {up_to}").into());
    }
    println!("cpu to and from {device} ({}), the best of five", device.name()?);
    println!("{:>8}  {:>12}  {:>12}", "MiB", "to, GB/s", "from, GB/s");
    let mut rows = Vec::new();
    let mut mib = from;
    while mib <= up_to {
        let row = measure(device, mib)?;
        println!("{mib:>8}  {:>12.2}  {:>12.2}", row.to_device, row.to_host);
        rows.push(row);
        mib *= 2;
    }
    if let Some(path) = &arguments.out {
        draw(&rows, path)?;
        println!("chart in {}", path.display());
    }
    Ok(())
}

fn measure(device: Device, mib: usize) -> kiln::Result<Row> {
    let host = Tensor::ones([mib << 18], Device::cpu());
    let there = host.to(device);
    kiln::realize(&[&host, &there])?;
    let bytes = (mib << 20) as f64;
    let rate = |body: &dyn Fn() -> Tensor| -> kiln::Result<f64> {
        let mut best = f64::INFINITY;
        for _ in 0..5 {
            let start = Instant::now();
            // Lazy: nothing crosses before `realize`, and it may return early.
            let moved = body();
            moved.realize()?;
            device.synchronize()?;
            best = best.min(start.elapsed().as_secs_f64());
        }
        Ok(bytes / best / 1e9)
    };
    Ok(Row { mib, to_device: rate(&|| host.to(device))?, to_host: rate(&|| there.cpu())? })
}

fn draw(rows: &[Row], path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::new(path, (640, 400)).into_drawing_area();
    area.fill(&WHITE)?;
    let most = rows.iter().flat_map(|row| [row.to_device, row.to_host]).fold(0.1, f64::max);
    let sizes =
        rows.first().map_or(1.0, |row| row.mib as f64)..rows.last().map_or(2.0, |row| 1.0 + row.mib as f64);
    let mut chart = ChartBuilder::on(&area)
        .margin(16)
        .x_label_area_size(32)
        .y_label_area_size(48)
        .build_cartesian_2d(sizes.log_scale(), 0.0..most * 1.1)?;
    chart.configure_mesh().x_desc("MiB").y_desc("GB/s").draw()?;
    let line = |pick: fn(&Row) -> f64| rows.iter().map(move |row| (row.mib as f64, pick(row)));
    let key = |color: RGBColor| move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color);
    let sent = LineSeries::new(line(|row| row.to_device), &BLUE);
    chart.draw_series(sent)?.label("to the device").legend(key(BLUE));
    let fetched = LineSeries::new(line(|row| row.to_host), &RED);
    chart.draw_series(fetched)?.label("to the host").legend(key(RED));
    chart.configure_series_labels().border_style(BLACK).background_style(WHITE).draw()?;
    area.present()?;
    Ok(())
}
