//! Writes the weights of a file in 8 or 4 bits.

use std::path::PathBuf;

use clap::Parser;
use kiln::io::gguf::{Gguf, GgufValue};
use kiln::prelude::*;
use kiln::{Quantization, QuantizedTensor, RawTensor, StateDict};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Writes the matrices of a file in 8 or 4 bits, as GGUF, and says how much of each is lost. Metadata and names
/// stay; so does what is no matrix, or has rows that are no whole blocks of 32.
#[derive(Parser)]
struct Arguments {
    /// A file of safetensors, or GGUF in any format.
    from: PathBuf,
    /// The GGUF file to write.
    to: PathBuf,
    /// Q8_0, Q4_0 or Q4_1.
    #[arg(long, default_value = "Q8_0", value_parser = quantization)]
    format: Quantization,
    /// Leaves matrices whose names contain this as they are.
    #[arg(long)]
    keep: Vec<String>,
}

fn quantization(name: &str) -> Result<Quantization, String> {
    Quantization::of(name).ok_or_else(|| "expected Q8_0, Q4_0 or Q4_1".into())
}

fn main() {
    if let Err(error) = run(&Arguments::parse()) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (state, mut written) = open(arguments)?;
    println!("{:46}  {:>16}  {:>10}  {:>10}  {:>7}", "weight", "shape", "before", "after", "error");
    let mut total = [0, 0];
    for (name, tensor) in state.iter() {
        let before = tensor.numel() * tensor.dtype().size();
        write(arguments, &mut written, name, tensor, before, &mut total)?;
    }
    for (name, raw) in state.raw_tensors() {
        write(arguments, &mut written, name, &plain(name, raw)?, raw.bytes().len(), &mut total)?;
    }
    println!("{} bytes before, {} after", total[0], total[1]);
    written.save(&arguments.to)?;
    Ok(())
}

/// The tensors, and a file with the same metadata.
fn open(arguments: &Arguments) -> Result<(StateDict, Gguf), Failure> {
    let mut written = Gguf::new();
    if arguments.from.extension().is_none_or(|extension| extension != "gguf") {
        return Ok((StateDict::open(&arguments.from)?, written));
    }
    let from = Gguf::open(&arguments.from)?;
    from.metadata().for_each(|(key, value)| written.set(key, value.clone()));
    // What llama.cpp shows of a file.
    let number = match arguments.format {
        Quantization::Q8_0 => 7,
        Quantization::Q4_0 => 2,
        Quantization::Q4_1 => 3,
    };
    written.set("general.file_type", GgufValue::U32(number));
    written.set("general.quantization_version", GgufValue::U32(2));
    Ok((from.into_state(), written))
}

/// The numbers of blocks.
fn plain(name: &str, raw: &RawTensor) -> Result<Tensor, Failure> {
    let tensor = raw.to_tensor();
    tensor.check().map_err(|error| format!("{name}: {error}"))?;
    Ok(tensor)
}

/// Writes a tensor, quantized if it is such a matrix, and its line of the table.
fn write(
    arguments: &Arguments,
    written: &mut Gguf,
    name: &str,
    tensor: &Tensor,
    before: usize,
    total: &mut [usize; 2],
) -> Result<(), Failure> {
    let shape = tensor.shape();
    let fits = shape.rank() == 2 && shape[1].is_multiple_of(32) && tensor.dtype().is_float();
    let (after, error) = if fits && !arguments.keep.iter().any(|kept| name.contains(kept.as_str())) {
        let packed = QuantizedTensor::quantize(&tensor.float(), arguments.format)?;
        written.insert_quantized(name, &packed)?;
        (packed.bytes(), Some(lost(tensor, &packed)?))
    } else {
        written.insert(name, tensor)?;
        (tensor.numel() * tensor.dtype().size(), None)
    };
    *total = [total[0] + before, total[1] + after];
    if let Some(error) = error {
        println!("{name:46}  {:>16}  {before:>10}  {after:>10}  {:>5.2} %", shape.to_string(), 100.0 * error);
    }
    Ok(())
}

/// The norm of what is lost over that of all.
fn lost(tensor: &Tensor, packed: &QuantizedTensor) -> kiln::Result<f32> {
    let norm = |x: Tensor| x.square().sum(..).sqrt();
    let (lost, whole) = (norm(tensor.float() - packed.dequantize()), norm(tensor.float()));
    realize(&[&lost, &whole])?;
    let (lost, whole) = (lost.item::<f32>()?, whole.item::<f32>()?);
    Ok(if whole == 0.0 { 0.0 } else { lost / whole })
}
