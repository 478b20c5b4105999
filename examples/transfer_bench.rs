//! How fast bytes cross between the host and a device.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Parser;
use kiln::prelude::*;
use plotters::coord::Shift;
use plotters::prelude::*;

/// Times transfers of growing size in both directions.
#[derive(Parser)]
struct Arguments {
    /// Device to and from which bytes go; the best one there is if absent.
    #[arg(long, env = "KILN_DEVICE")]
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

/// One size: MiB, and seconds each way.
struct Row {
    mib: usize,
    to_device: f64,
    to_host: f64,
}

impl Row {
    /// GiB per second, of a transfer of this size.
    fn rate(&self, seconds: f64) -> f64 {
        self.mib as f64 / 1024.0 / seconds
    }
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
    println!(
        "{:>8}  {:>10}  {:>10}  {:>10}  {:>10}",
        "MiB", "to, ms", "to, GiB/s", "from, ms", "from, GiB/s"
    );
    let mut rows = Vec::new();
    let mut mib = from;
    while mib <= up_to {
        let row = measure(device, mib)?;
        let [to, from] = [row.to_device, row.to_host].map(|time| (time * 1e3, row.rate(time)));
        println!("{mib:>8}  {:>10.3}  {:>10.2}  {:>10.3}  {:>10.2}", to.0, to.1, from.0, from.1);
        rows.push(row);
        mib *= 2;
    }
    if let Some(path) = &arguments.out {
        draw(&rows, device, path)?;
        println!("chart in {}", path.display());
    }
    Ok(())
}

fn measure(device: Device, mib: usize) -> kiln::Result<Row> {
    let host = Tensor::ones([mib << 18], Device::cpu());
    let there = host.to(device);
    kiln::realize(&[&host, &there])?;
    let best_time = |body: &dyn Fn() -> Tensor| -> kiln::Result<f64> {
        let mut best = f64::INFINITY;
        for _ in 0..5 {
            let start = Instant::now();
            // Lazy: nothing crosses before `realize`, and it may return early.
            let moved = body();
            moved.realize()?;
            device.synchronize()?;
            best = best.min(start.elapsed().as_secs_f64());
        }
        Ok(best)
    };
    Ok(Row { mib, to_device: best_time(&|| host.to(device))?, to_host: best_time(&|| there.cpu())? })
}

/// Time and bandwidth against size, side by side.
fn draw(rows: &[Row], device: Device, path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::new(path, (960, 400)).into_drawing_area();
    area.fill(&WHITE)?;
    let area = area.titled(&format!("Transfers between the host and {device}"), ("sans-serif", 18))?;
    let (left, right) = area.split_horizontally(480);
    panel(&left, rows, "time of one transfer, ms", |_, seconds| seconds * 1e3)?;
    panel(&right, rows, "bandwidth, GiB/s", Row::rate)?;
    area.present()?;
    Ok(())
}

/// One quantity in both directions, each line labelled at its end.
fn panel(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    rows: &[Row],
    quantity: &str,
    of: fn(&Row, f64) -> f64,
) -> Result<(), Box<dyn std::error::Error>> {
    let [to, from]: [Vec<(f64, f64)>; 2] = [
        rows.iter().map(|row| (row.mib as f64, of(row, row.to_device))).collect(),
        rows.iter().map(|row| (row.mib as f64, of(row, row.to_host))).collect(),
    ];
    let (first, last) =
        (rows.first().map_or(1.0, |row| row.mib as f64), rows.last().map_or(1.0, |row| row.mib as f64));
    let most = to.iter().chain(&from).map(|point| point.1).fold(0.0, f64::max);
    // Room at the right for the labels.
    let sizes = first..(last * 2.0).max(first * 4.0);
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(56)
        .caption(quantity, ("sans-serif", 14))
        .build_cartesian_2d(sizes.log_scale(), 0.0..most * 1.1)?;
    chart.configure_mesh().disable_x_mesh().light_line_style(WHITE).x_desc("size, MiB").draw()?;
    for (points, color, name) in [(to, BLUE, "to the device"), (from, RED, "to the host")] {
        let Some(&end) = points.last() else { continue };
        chart.draw_series(LineSeries::new(points, color.stroke_width(2)))?;
        chart.draw_series([Text::new(name, end, ("sans-serif", 12).into_font().color(&color))])?;
    }
    Ok(())
}
