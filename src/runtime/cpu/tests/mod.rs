//! Tile programs against the point-by-point reference, on hand-built and on
//! random kernels.

pub(in crate::runtime) mod attention;
mod blocks;
#[cfg(any(feature = "wgpu", feature = "cuda"))]
pub(in crate::runtime) mod choices;
mod differences;
mod pairs;
pub(in crate::runtime) mod random;
mod rows;
mod split;

use crate::base::{DType, Scalar};
use crate::ir::DeviceBuffer;
use crate::kernel::ranges::unchecked;
use crate::kernel::{Kernel, Workload};
use crate::plan::context::{Context, with_context};
use crate::runtime::cpu::{CpuBackend, LoopProgram, reference};
use crate::runtime::{Backend, Binding, Bindings, IndexStatus, Program, host};
use crate::tensor::Tensor;

/// What a launch leaves: the outputs' elements, and the first bad index.
#[derive(Debug)]
pub(in crate::runtime) struct Outcome {
    pub outputs: Vec<Vec<Scalar>>,
    pub bad_index: bool,
}

pub(in crate::runtime) fn elements(data: &[u8], dtype: DType) -> Vec<Scalar> {
    let element = |raw: &[u8]| {
        let mut bits = [0; 8];
        bits[..raw.len()].copy_from_slice(raw);
        Scalar::from_bits(u64::from_le_bytes(bits), dtype)
    };
    data.chunks_exact(dtype.size()).map(element).collect()
}

/// A buffer of some elements.
pub(in crate::runtime) fn buffer(values: &[Scalar], dtype: DType) -> DeviceBuffer {
    let raw = values.iter().flat_map(|v| v.to_bits(dtype).to_le_bytes()[..dtype.size()].to_vec());
    host::upload(&raw.collect::<Vec<u8>>()).unwrap()
}

/// How to run a kernel.
#[derive(Clone, Copy)]
pub(in crate::runtime) enum By {
    Reference,
    /// By the reference, which rounds what it multiplies as the device does.
    Rounding,
    /// As the device does, with the output perhaps over an input.
    Device(Option<u32>),
    /// The same, cut into pieces however small.
    Pieces(Option<u32>),
}

/// Runs a kernel.
pub(in crate::runtime) fn run(kernel: &Kernel, inputs: &[DeviceBuffer], by: By) -> Outcome {
    let outs: Vec<(usize, DType)> = match kernel.scatter() {
        Some(scatter) => vec![(scatter.numel, scatter.dtype)],
        None => kernel.stores.iter().map(|store| (store.numel, store.dtype)).collect(),
    };
    let mut outputs: Vec<DeviceBuffer> = outs
        .iter()
        .map(|&(numel, dtype)| {
            // What nothing writes stays recognisable; a scatter needs a base.
            let base = |i: usize| Scalar::Int(if kernel.scatter().is_some() { i as i64 % 3 } else { 77 });
            buffer(&(0..numel).map(|i| base(i).cast(dtype)).collect::<Vec<_>>(), dtype)
        })
        .collect();
    let overwritten = match by {
        By::Reference | By::Rounding => None,
        By::Device(input) | By::Pieces(input) => input,
    };
    if let Some(input) = overwritten {
        outputs[0] = host::upload(host::bytes(&inputs[input as usize])).unwrap();
    }
    let bind = |buffer| Binding { buffer, offset: 0 };
    let mut bound: Vec<Binding<'_>> = inputs.iter().map(bind).collect();
    if let Some(input) = overwritten {
        bound[input as usize] = bind(&outputs[0]);
    }
    let status = IndexStatus::default();
    let bindings = Bindings {
        inputs: &bound,
        outputs: &outputs.iter().map(bind).collect::<Vec<_>>(),
        scalars: &[],
        status: &status,
    };
    match by {
        By::Reference => reference::run(kernel, &bindings),
        By::Rounding => reference::run_as(kernel, &bindings, true),
        By::Device(_) => {
            let program = CpuBackend::new().compile(&Workload::Kernel(kernel.clone())).unwrap();
            program.launch(&bindings).unwrap();
        }
        By::Pieces(_) => LoopProgram::new(kernel, 1).launch(&bindings).unwrap(),
    }
    let read = |(buffer, (_, dtype)): (&DeviceBuffer, &(usize, DType))| elements(host::bytes(buffer), *dtype);
    Outcome { outputs: outputs.iter().zip(&outs).map(read).collect(), bad_index: status.take().is_some() }
}

/// Whether two numbers agree within a relative tolerance. With one, infinity
/// and NaN count as equal: moments of infinity are either.
pub(in crate::runtime) fn close(a: Scalar, b: Scalar, tolerance: f64) -> bool {
    let (x, y) = (a.as_f64(), b.as_f64());
    let neither = tolerance > 1e-4 && !x.is_finite() && !y.is_finite();
    neither
        || a.same(b)
        || x == y
        || (x.is_nan() && y.is_nan())
        || (x - y).abs() <= tolerance * x.abs().max(y.abs()).max(1.0)
}

/// The first difference between the reference and the device, which writes
/// the output over an input where that is asked for and checks no index that needs no check.
fn difference(
    kernel: &Kernel,
    inputs: &[DeviceBuffer],
    overwritten: Option<u32>,
    tolerance: f64,
) -> Option<String> {
    let device = unchecked(kernel.clone());
    let program = CpuBackend::new().compile(&Workload::Kernel(device.clone())).unwrap();
    let rounds = program.source().contains("of pairs of bf16");
    let want = run(kernel, inputs, if rounds { By::Rounding } else { By::Reference });
    // A product is computed by blocks of its own.
    let cut = kernel.contraction().is_none().then_some(By::Pieces(overwritten));
    for by in [Some(By::Device(overwritten)), cut].into_iter().flatten() {
        let have = run(&device, inputs, by);
        if want.bad_index != have.bad_index {
            return Some(format!("bad index {} instead of {}", have.bad_index, want.bad_index));
        }
        for (number, (want, have)) in want.outputs.iter().zip(&have.outputs).enumerate() {
            let wrong = want.iter().zip(have).position(|(&w, &h)| !close(w, h, tolerance));
            if let Some(at) = wrong {
                return Some(format!("output {number} at {at}: {} instead of {}", have[at], want[at]));
            }
        }
    }
    None
}

/// Square tiles are stored by non-temporal stores where their lines are whole cache lines.
#[test]
fn transposing_tiles_store_non_temporally() {
    for (rows, cols, streams) in [(160usize, 128usize, true), (131, 77, false), (70, 144, true)] {
        let numbers = |count: usize, step: usize| (0..count).map(move |i| (i * step % 1009) as f32);
        let x = Tensor::from_vec(numbers(rows * cols, 7).collect(), [cols, rows], ());
        let z = Tensor::from_vec(numbers(rows * cols, 31).collect(), [rows, cols], ());
        let y = x.t() + &z;
        let report = y.plan().expect("a plan");
        let text: String = report.kernels.iter().map(|kernel| kernel.source().expect("a text")).collect();
        assert!(text.contains("transposed"), "{text}");
        assert_eq!(text.contains("store non-temporal"), streams, "{text}");
        let (x, z): (Vec<f32>, Vec<f32>) =
            (numbers(rows * cols, 7).collect(), numbers(rows * cols, 31).collect());
        let want: Vec<f32> = (0..rows * cols).map(|i| x[i % cols * rows + i / cols] + z[i]).collect();
        assert_eq!(y.to_vec::<f32>().expect("values"), want, "{rows} x {cols}");
    }
}

/// Whole rows are tiles without loops within, and large results of theirs are stored past the
/// cache wherever their lines begin.
#[test]
fn large_rows_are_stored_non_temporally() {
    for (rows, cols, streams) in [(500usize, 331usize, true), (900, 512, true), (100, 331, false)] {
        let numbers: Vec<f32> = (0..rows * cols).map(|i| (i * 7 % 1009) as f32).collect();
        let x = Tensor::from_vec(numbers.clone(), [rows, cols], ());
        let y = &x - x.max(1).unsqueeze(1);
        let report = y.plan().expect("a plan");
        let text = report.kernels[0].source().expect("a text");
        let tile = text.split("kernel").next().expect("the tile program");
        assert_eq!(tile.contains("store non-temporal"), streams, "{text}");
        assert_eq!(tile.matches("for ").count(), 1, "{text}");
        let most = |row: &[f32]| row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let want: Vec<f32> = numbers.chunks(cols).flat_map(|row| row.iter().map(|x| x - most(row))).collect();
        assert_eq!(y.to_vec::<f32>().expect("values"), want, "{rows} x {cols}");
        // The operation that computes the result stores it, also where that lies over the input.
        assert!(tile.contains(" at out0"), "{text}");
        let kernel = report.kernels[0].work().kernel().expect("a kernel");
        let inputs: Vec<DeviceBuffer> =
            kernel.inputs.iter().map(|input| values(input.numel, input.dtype)).collect();
        for overwritten in [None, Some(0)] {
            assert_eq!(difference(kernel, &inputs, overwritten, 0.0), None, "{overwritten:?}");
        }
    }
}

/// Rows that indices find go straight to where they belong.
#[test]
fn gathered_rows_are_written_in_place() {
    let (rows, cols) = (300usize, 48usize);
    let table: Vec<f32> = (0..rows * cols).map(|i| (i * 7 % 1009) as f32).collect();
    // Tiles of many rows, of fewer than are prefetched, and of one that is left over.
    for count in [1000, 3, 43] {
        let indices: Vec<i64> = (0..count).map(|i| (i * 37 % rows) as i64).collect();
        let weight = Tensor::from_vec(table.clone(), [rows, cols], ());
        let y = Tensor::from_vec(indices.clone(), [count], ()).embedding(&weight);
        let report = y.plan().expect("a plan");
        let text = report.kernels[0].source().expect("a text");
        assert!(text.contains(" at out0"), "{text}");
        let row = |&index: &i64| &table[index as usize * cols..][..cols];
        let want: Vec<f32> = indices.iter().flat_map(row).copied().collect();
        assert_eq!(y.to_vec::<f32>().expect("values"), want);
    }
}

/// Rows at equal distances are copied from where they lie, all at once where they are short.
#[test]
fn rows_apart_are_copied_straight_to_where_they_belong() {
    // Rows too long to be copied all at once, short ones, and so many that they are written by non-temporal stores.
    for (rows, cols, every, dtype) in [
        (41usize, 300usize, 2, DType::F32),
        (41, 48, 6, DType::F32),
        (600, 320, 2, DType::F32),
        (41, 48, 3, DType::I64),
        (41, 80, 5, DType::U8),
    ] {
        let all: Vec<f32> = (0..rows * every * cols).map(|i| (i * 7 % 251) as f32).collect();
        let table = Tensor::from_vec(all.clone(), [rows, every, cols], ()).to_dtype(dtype);
        let table = table.realize().expect("a table");
        let y = Tensor::cat(&[&table.narrow(1, 0, 1), &table.narrow(1, every - 1, 1)], 0);
        let report = y.plan().expect("a plan");
        let text = report.kernels[0].source().expect("a text");
        assert!(text.contains("copy v0") && text.contains(" at out0"), "{text}");
        let piece = |at: usize| all.chunks(cols).skip(at).step_by(every).flatten().copied();
        let want: Vec<f32> = piece(0).chain(piece(every - 1)).collect();
        assert_eq!(y.to_dtype(DType::F32).to_vec::<f32>().expect("values"), want, "{dtype} {cols}");
    }
}

/// Borders find in the cache what the largest piece has read.
#[test]
fn the_largest_piece_goes_first() {
    let x = Tensor::from_vec(vec![1.5f32; 8 * 56 * 56], [8, 56, 56], ());
    let report = x.pad(&[2, 2, 2, 2], 0.0).plan().expect("a plan");
    let text = report.kernels[0].source().expect("a text");
    let loads: Vec<bool> = text.split("tile ").skip(1).map(|piece| piece.contains(" load ")).collect();
    assert!(loads.len() > 1 && loads[0] && loads[1..].iter().all(|load| !load), "{text}");
}

/// No loop of its own rounds what a store rounds.
#[test]
fn stores_round_to_16_bits_by_themselves() {
    let x: Vec<f32> = (0..5000).map(|i| (i * 7 % 1009) as f32 / 37.0 - 9.0).collect();
    let leaf = Tensor::from_vec(x.clone(), [50, 100], ());
    leaf.realize().expect("a leaf");
    for dtype in [DType::F16, DType::BF16] {
        let rounded = |x: f32| match dtype {
            DType::F16 => half::f16::from_f32(x).to_f32(),
            _ => half::bf16::from_f32(x).to_f32(),
        };
        // In 32 bits what another operation reads is rounded before it does.
        let (y, z) =
            ((&leaf * 3.0).to_dtype(dtype), (&leaf * 3.0).to_dtype(dtype).to_dtype(DType::F32) + 1.0);
        let source = |y: &Tensor| y.plan().expect("a plan").kernels[0].source().expect("a text");
        assert!(!source(&y).contains(" to_") && source(&z).contains(" to_"), "{}{}", source(&y), source(&z));
        let y = y.to_dtype(DType::F32).to_vec::<f32>().expect("values");
        assert_eq!(y, x.iter().map(|x| rounded(x * 3.0)).collect::<Vec<_>>(), "{dtype}");
        let z = z.to_vec::<f32>().expect("values");
        assert_eq!(z, x.iter().map(|x| rounded(x * 3.0) + 1.0).collect::<Vec<_>>(), "{dtype}");
    }
}

/// Parts of a concatenation are written where they belong, row by row, also where the
/// result lies over the input that they read.
#[test]
fn pieces_of_rows_are_written_in_place() {
    let (rows, cols) = (700usize, 64usize);
    let numbers =
        |count: usize, step: usize| (0..count).map(|i| (i * step % 1009) as f32 / 64.0).collect::<Vec<f32>>();
    let (x, c) = (numbers(rows * cols, 7), numbers(rows * cols / 2, 31));
    let (leaf, by) = (Tensor::from_vec(x, [rows, cols], ()), Tensor::from_vec(c, [rows, cols / 2], ()));
    let [first, second] = [0, cols / 2].map(|start| leaf.narrow(-1, start as i64, cols / 2));
    let y = Tensor::cat(&[&first * &by, &second + &by], -1);
    let report = y.plan().expect("a plan");
    let kernel = report.kernels[0].work().kernel().expect("a kernel");
    let source = report.kernels[0].source().expect("a text");
    assert_eq!(source.matches("by row at out0").count(), 2, "{source}");
    let buffers = kernel.inputs.iter().zip(0..).map(|(input, number)| {
        let values = numbers(input.numel, 7 + 24 * number).into_iter().map(|x| Scalar::Float(x.into()));
        buffer(&values.collect::<Vec<_>>(), input.dtype)
    });
    let inputs: Vec<DeviceBuffer> = buffers.collect();
    let whole = kernel.inputs.iter().position(|input| input.numel == rows * cols).expect("x") as u32;
    for overwritten in [None, Some(whole)] {
        assert_eq!(difference(kernel, &inputs, overwritten, 0.0), None, "{overwritten:?}");
    }
}

/// Memory is prefetched for the next tile's inputs where there is something to compute meanwhile.
#[test]
fn expensive_operations_prefetch_the_next_tile() {
    let numbers =
        |seed: i64| Tensor::from_vec((0..5000).map(|i| ((i * seed) % 97) as f32).collect(), [5000], ());
    let x = (numbers(7).tanh() * numbers(5) + numbers(3).exp()) / numbers(2);
    let text = x.plan().expect("a plan").kernels[0].source().expect("a text");
    let asks = text.lines().filter(|line| line.contains("prefetches the next"));
    let asks: Vec<(&str, &str)> =
        asks.filter_map(|line| line.trim().split_once(", prefetches the next ")).collect();
    // Two operations for four inputs, the first two of them.
    assert!(matches!(asks[..], [(_, first), (_, second)] if first != second), "{text}");
    // Nothing costly, nothing to wait with.
    let sum = numbers(7) * numbers(5) + numbers(3);
    let text = sum.plan().expect("a plan").kernels[0].source().expect("a text");
    assert!(!text.contains("prefetches"), "{text}");
}

/// Numbers that grow, as a tensor of some shape.
fn ramp(shape: &[usize]) -> Tensor {
    let numel = shape.iter().product::<usize>();
    Tensor::from_vec((0..numel).map(|i| (i * 7 % 1009) as f32 / 128.0).collect(), shape.to_vec(), ())
}

/// Values of a buffer, none like its neighbours.
fn values(numel: usize, dtype: DType) -> DeviceBuffer {
    let values = (0..numel).map(|i| Scalar::Float((i * 31 % 997) as f64 / 64.0));
    buffer(&values.collect::<Vec<_>>(), dtype)
}

/// The only kernel of a tensor's plan, and its text.
fn kernel(y: &Tensor) -> (Kernel, String) {
    // In a context of its own, where no number has been another one yet and become an argument.
    let report = with_context(&Context::new(), || y.plan()).expect("a plan");
    let kernel = report.kernels[0].work().kernel().expect("a kernel").clone();
    (kernel, report.kernels[0].source().expect("a text").to_string())
}

/// How a kernel's results differ from the reference's, if they do.
fn wrong(kernel: &Kernel, overwritten: Option<u32>) -> Option<String> {
    let inputs: Vec<DeviceBuffer> =
        kernel.inputs.iter().map(|input| values(input.numel, input.dtype)).collect();
    difference(kernel, &inputs, overwritten, 1e-5)
}

/// Rows that enter reductions across them in blocks of many, some of them at once.
#[test]
fn reductions_across_rows_take_in_every_row_once() {
    for (rows, cols) in [(1000usize, 300usize), (513, 16), (300, 5), (9, 2000)] {
        let at = |i: usize| ((i * 7919) % 1009) as f32 - 500.0;
        let x = Tensor::from_vec((0..rows * cols).map(at).collect::<Vec<f32>>(), [rows, cols], ());
        let column = |j: usize| (0..rows).map(move |i| f64::from(at(i * cols + j)));
        let sums: Vec<f32> = (0..cols).map(|j| column(j).sum::<f64>() as f32).collect();
        assert_eq!(x.sum(0).to_vec::<f32>().expect("sums"), sums, "{rows} x {cols}");
        let most: Vec<f32> = (0..cols).map(|j| column(j).fold(f64::MIN, f64::max) as f32).collect();
        assert_eq!(x.max(0).to_vec::<f32>().expect("maxima"), most, "{rows} x {cols}");
    }
}
