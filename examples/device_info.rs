//! What devices there are, what each is, and what its memory holds.

use clap::Parser;
use kiln::prelude::*;

/// Prints a report of every device, or of one.
#[derive(Parser)]
struct Arguments {
    /// Only this device: cpu, cuda:0, wgpu:0.
    #[arg(long, env = "KILN_DEVICE")]
    device: Option<Device>,
}

fn main() {
    if let Err(error) = run(&Arguments::parse()) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn run(arguments: &Arguments) -> kiln::Result<()> {
    if let Some(device) = arguments.device {
        return report(device);
    }
    print!("{}", kiln::doctor());
    println!("best     {}", Device::best());
    println!("default  {}\n", kiln::default_device());
    let computing = DeviceKind::ALL.into_iter().filter(|kind| *kind != DeviceKind::Meta);
    computing.flat_map(Device::all).try_for_each(report)
}

fn report(device: Device) -> kiln::Result<()> {
    println!("== {device}\n{}\n{}", device.properties()?, device.memory_summary()?);
    Ok(())
}
