//! One program for every device: it never says which, only where to start.

use clap::Parser;
use kiln::prelude::*;

/// Fits a line to noisy points on whatever device there is.
#[derive(Parser)]
struct Arguments {
    /// Device to run on; the best one there is if absent.
    #[arg(long, env = "KILN_DEVICE")]
    device: Option<Device>,
    /// Points.
    #[arg(long, default_value_t = 1000)]
    points: usize,
}

fn main() {
    if let Err(error) = run(&Arguments::parse()) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn run(arguments: &Arguments) -> kiln::Result<()> {
    let device = arguments.device.unwrap_or_else(Device::best);
    device.probe()?;
    println!("running on {device} ({})", device.name()?);
    kiln::manual_seed(0);
    // The only line that names a device: what is made from x follows it.
    let x = Tensor::linspace(-1.0, 1.0, arguments.points, device);
    let y = &x * 3.0 - 0.5 + x.randn_like() * 0.1;
    let (slope, offset) = fit(&x, &y);
    println!("slope {:.3}, offset {:.3}", slope.item::<f64>()?, offset.item::<f64>()?);

    // A model follows its input, or is moved to it: `to` is free if it is there.
    let weight = Tensor::from([2.0f32, 1.0]).to(x.device());
    println!("weight on {}, {} bytes moved", weight.device(), kiln::context().counters().bytes_transferred());
    Ok(())
}

/// Least squares, on the device of its arguments.
fn fit(x: &Tensor, y: &Tensor) -> (Tensor, Tensor) {
    let (dx, dy) = (x - x.mean(..), y - y.mean(..));
    let slope = (&dx * &dy).sum(..) / dx.square().sum(..);
    let offset = y.mean(..) - &slope * x.mean(..);
    (slope, offset)
}
