//! What a GPU is bought for: work that fills it. The items that memory bounds beside a
//! plain copy within the device, a product of `bf16` matrices, and causal attention; one
//! JSON line each, after a part of the result was held against the host processor's.
//!
//! `cargo bench --bench large -- --device cuda`; `--tiny` for a device that is slow,
//! simulated say; `ITEMS` and `BUDGET_S` as for `peers`.

mod support;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::Parser;
use kiln::prelude::*;
use kiln::unstable::runtime::cpu::CpuBackend;
use kiln::unstable::runtime::{Backend, Binding};
use support::report;

/// Times work that fills a GPU.
#[derive(Parser)]
struct Arguments {
    /// Device to run on: a CUDA one, or the CPU.
    #[arg(long, default_value = "cuda")]
    device: Device,
    /// Sizes that a simulated device computes in a minute.
    #[arg(long)]
    tiny: bool,
    /// Accepted because `cargo bench` passes it.
    #[arg(long, hide = true)]
    bench: bool,
}

/// How large the items are.
struct Sizes {
    /// Elements of what memory bounds.
    elements: usize,
    /// Of the square matrices.
    side: usize,
    /// Batch, heads, queries, depth of attention.
    attention: [usize; 4],
}

const LARGE: Sizes = Sizes { elements: 256 << 20, side: 8192, attention: [8, 16, 4096, 128] };
const TINY: Sizes = Sizes { elements: 64 << 10, side: 256, attention: [1, 2, 128, 32] };

/// A work item.
struct Item {
    name: &'static str,
    shapes: Vec<Vec<usize>>,
    dtype: DType,
    call: fn(&[Tensor]) -> Tensor,
    /// The inputs of a part of the result, for the host processor.
    part: fn(&[Tensor]) -> Vec<Tensor>,
    /// That part.
    of: fn(&Tensor) -> Tensor,
    /// Bytes that it moves at least, and operations.
    bytes: usize,
    flops: f64,
}

/// The first few along an axis.
fn first(x: &Tensor, axis: usize) -> Tensor {
    x.narrow(axis as i64, 0, x.shape()[axis].min(8))
}

/// The first head of a batch.
fn head(x: &Tensor) -> Tensor {
    x.narrow(0, 0, 1).narrow(1, 0, 1)
}

fn layer_norm(x: &[Tensor]) -> Tensor {
    x[0].layer_norm(x[1].shape(), NormOpts::default().weight(&x[1]).bias(&x[2]).eps(1e-5))
}

fn attention(x: &[Tensor]) -> Tensor {
    x[0].scaled_dot_product_attention(&x[1], &x[2], AttentionOpts::default().causal(true))
}

/// The items that memory bounds; of 32-bit floats.
fn bound_by_memory(elements: usize) -> Vec<Item> {
    let (width, dtype, flops) = (1024, DType::F32, 0.0);
    let rows = vec![elements / width, width];
    let square = vec![1 << (elements.ilog2() / 2), elements >> (elements.ilog2() / 2)];
    let bytes = 4 * elements;
    let all: fn(&[Tensor]) -> Vec<Tensor> = |x| x.iter().map(|x| first(x, 0)).collect();
    let row: fn(&[Tensor]) -> Vec<Tensor> = |x| [&[first(&x[0], 0)], &x[1..]].concat();
    let top: fn(&Tensor) -> Tensor = |y| first(y, 0);
    vec![
        Item {
            name: "1_elementwise",
            shapes: vec![rows.clone(); 3],
            dtype,
            call: |x| (&x[0] * &x[1] + &x[2]).tanh() * x[0].sigmoid() - &x[2],
            part: all,
            of: top,
            bytes: 4 * bytes,
            flops,
        },
        Item {
            name: "2_softmax",
            shapes: vec![rows.clone()],
            dtype,
            call: |x| x[0].softmax(-1),
            part: row,
            of: top,
            bytes: 2 * bytes,
            flops,
        },
        Item {
            name: "3_layernorm",
            shapes: vec![rows, vec![width], vec![width]],
            dtype,
            call: layer_norm,
            part: row,
            of: top,
            bytes: 2 * bytes,
            flops,
        },
        Item {
            name: "4a_sum_axis0",
            shapes: vec![square.clone()],
            dtype,
            call: |x| x[0].sum(0),
            part: |x| vec![first(&x[0], 1)],
            of: top,
            bytes,
            flops,
        },
        Item {
            name: "4b_sum_axis1",
            shapes: vec![square],
            dtype,
            call: |x| x[0].sum(1),
            part: row,
            of: top,
            bytes,
            flops,
        },
    ]
}

/// The items that arithmetic bounds; of 16-bit floats.
fn bound_by_arithmetic(sizes: &Sizes) -> Vec<Item> {
    let (side, [batch, heads, queries, depth]) = (sizes.side, sizes.attention);
    let multiplied = (side * side) as f64 * side as f64;
    // Half of the scores are behind the diagonal.
    let attended = (batch * heads * queries * queries * depth) as f64;
    vec![
        Item {
            name: "m_matmul_bf16",
            shapes: vec![vec![side, side]; 2],
            dtype: DType::BF16,
            call: |x| x[0].matmul(&x[1]),
            part: |x| vec![first(&x[0], 0), x[1].clone()],
            of: |y| first(y, 0),
            bytes: 6 * side * side,
            flops: 2.0 * multiplied,
        },
        Item {
            name: "a_causal_attention_bf16",
            shapes: vec![vec![batch, heads, queries, depth]; 3],
            dtype: DType::BF16,
            call: attention,
            part: |x| x.iter().map(head).collect(),
            of: head,
            bytes: 8 * batch * heads * queries * depth,
            flops: 2.0 * attended,
        },
    ]
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let (device, sizes) = (arguments.device, if arguments.tiny { &TINY } else { &LARGE });
    let copied = match copy(device, 4 * sizes.elements) {
        Ok(bytes_per_second) => bytes_per_second,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    println!("{{\"peer\":\"kiln\",\"item\":\"0_copy\",\"gb_s\":{:.3}}}", copied / 1e9);
    let mut agree = true;
    let items = bound_by_memory(sizes.elements).into_iter().chain(bound_by_arithmetic(sizes));
    for item in items.filter(|item| report::wanted(item.name)) {
        match run(device, &item, copied) {
            Ok(agrees) => agree &= agrees,
            Err(error) => {
                eprintln!("{}: {error}", item.name);
                agree = false;
            }
        }
    }
    if agree { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The device, as copies within it are asked of it.
fn backend(device: Device) -> kiln::Result<Arc<dyn Backend>> {
    match device.kind {
        #[cfg(feature = "cuda")]
        DeviceKind::Cuda => Ok(Arc::new(kiln::unstable::runtime::cuda::CudaBackend::open(device)?)),
        _ if device == Device::cpu() => Ok(Arc::new(CpuBackend::named(device))),
        _ => {
            let reason = "copies are timed on CUDA devices and the CPU".into();
            Err(kiln::Error::DeviceUnavailable { device, reason, span: None })
        }
    }
}

/// Bytes read and written in a second by the driver's own copy: the best of ten.
fn copy(device: Device, bytes: usize) -> kiln::Result<f64> {
    let backend = backend(device)?;
    let (from, to) = (backend.upload(&vec![1; bytes])?, backend.allocate(bytes)?);
    let mut best = f64::INFINITY;
    for _ in 0..10 {
        let start = Instant::now();
        backend.copy(Binding { buffer: &from, offset: 0 }, Binding { buffer: &to, offset: 0 }, bytes)?;
        backend.sync()?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(2.0 * bytes as f64 / best)
}

/// Times an item; whether a part of its result is right.
fn run(device: Device, item: &Item, copied: f64) -> kiln::Result<bool> {
    let input = |shape: &Vec<usize>| {
        let x = (Tensor::rand(shape.as_slice(), device) * 2.0 - 1.0).to_dtype(item.dtype);
        x.realize().cloned()
    };
    let inputs: Vec<Tensor> = item.shapes.iter().map(input).collect::<kiln::Result<_>>()?;
    let on_host: Vec<Tensor> = (item.part)(&inputs).iter().map(Tensor::cpu).collect();
    let values = |x: &Tensor| x.to_dtype(DType::F32).to_vec::<f32>();
    let want = values(&(item.call)(&on_host))?;
    let mut have = Ok(Vec::new());
    let timing = report::time(
        || {
            let result = (item.call)(&inputs);
            if let Err(error) = result.realize().and_then(|_| device.synchronize()) {
                eprintln!("{}: {error}", item.name);
            }
            result
        },
        |result| have = values(&(item.of)(&result)),
    );
    let agrees = agree(item, &want, &have?);
    let seconds = timing.median_ms / 1e3;
    let moved = item.bytes as f64 / seconds;
    println!(
        "{{\"peer\":\"kiln\",\"item\":\"{}\",\"median_ms\":{:.4},\"n\":{},\"gb_s\":{:.3},\"of_copy\":{:.4},\
         \"tflop_s\":{:.4},\"agrees\":{agrees}}}",
        item.name,
        timing.median_ms,
        timing.calls,
        moved / 1e9,
        moved / copied,
        item.flops / seconds / 1e12,
    );
    Ok(agrees)
}

/// Whether a part of a result is right; says so if it is not.
fn agree(item: &Item, want: &[f32], have: &[f32]) -> bool {
    // Of 16-bit floats, a unit in the last place of the largest.
    let unit = if item.dtype == DType::F32 { 1e-4 } else { f32::powi(2.0, -7) };
    let most = want.iter().fold(1e-6f32, |most, x| most.max(x.abs()));
    let wrong = want.iter().zip(have).position(|(want, have)| !((want - have).abs() <= unit * most));
    if let Some(at) = wrong {
        eprintln!("{}: {} at {at} instead of {}", item.name, have[at], want[at]);
    }
    wrong.is_none() && want.len() == have.len()
}
