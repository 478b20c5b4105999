//! Shapes, joins and splits: elements seen through other axes.

use kiln::Scalar;
use kiln::opts::DiagonalOpts;
use kiln::opts::Indexing;
use kiln::opts::PadMode;
use kiln::tensor::Tensor;
use kiln::tensor::slicing::SliceRange;

use super::super::arg::Arg;
use super::super::call::{Call, Outcome, Stop, integer, unsupported};
use super::{Entry, entry, one};

/// The same elements under other axes.
pub const SHAPES: &[Entry] = &[
    entry("reshape", "self shape", |c| one(c.tensor("self")?.reshape(c.ints("shape")?))),
    entry("view", "self *size", |c| one(c.tensor("self")?.view(c.ints("size")?))),
    entry("reshape_as", "self other", |c| one(c.tensor("self")?.reshape_as(&c.tensor("other")?))),
    entry("view_as", "self other", |c| one(c.tensor("self")?.view_as(&c.tensor("other")?))),
    entry("flatten", "self start_dim end_dim", |c| {
        let (start, end) = (c.opt_int("start_dim")?.unwrap_or(0), c.opt_int("end_dim")?.unwrap_or(-1));
        one(c.tensor("self")?.flatten(start, end))
    }),
    entry("unflatten", "self dim sizes", |c| {
        one(c.tensor("self")?.unflatten(c.int("dim")?, c.ints("sizes")?))
    }),
    entry("ravel", "self", |c| one(c.tensor("self")?.ravel())),
    entry("permute", "self *dims", |c| one(c.tensor("self")?.permute(c.ints("dims")?))),
    entry("transpose", "self dim0 dim1", |c| {
        one(c.tensor("self")?.transpose(c.int("dim0")?, c.int("dim1")?))
    }),
    entry("t", "self", |c| one(c.tensor("self")?.t())),
    entry("T", "self", reversed),
    entry("H", "self", |c| one(c.tensor("self")?.t())),
    entry("mT", "self", |c| one(c.tensor("self")?.mt())),
    entry("mH", "self", |c| one(c.tensor("self")?.mt())),
    entry("movedim", "self source destination", |c| {
        one(c.tensor("self")?.movedim(c.ints("source")?, c.ints("destination")?))
    }),
    entry("squeeze", "self dim", |c| one(c.tensor("self")?.squeeze(c.axes("dim")?))),
    entry("unsqueeze", "self dim", |c| one(c.tensor("self")?.unsqueeze(c.int("dim")?))),
    entry("expand", "self *size", |c| one(c.tensor("self")?.expand(c.ints("size")?))),
    entry("expand_as", "self other", |c| one(c.tensor("self")?.expand_as(&c.tensor("other")?))),
    entry("broadcast_to", "self size", |c| one(c.tensor("self")?.broadcast_to(c.ints("size")?))),
    entry("broadcast_tensors", "*tensors", |c| Ok(Tensor::broadcast_tensors(&c.tensors("tensors")?))),
    entry("contiguous", "self", |c| one(c.tensor("self")?.contiguous())),
    entry("clone", "self", |c| one(c.tensor("self")?.copy())),
    entry("atleast_1d", "*self", |c| each(c, Tensor::atleast_1d)),
    entry("atleast_2d", "*self", |c| each(c, Tensor::atleast_2d)),
    entry("atleast_3d", "*self", |c| each(c, Tensor::atleast_3d)),
    entry("real", "self", |c| one(c.tensor("self")?)),
];

/// `x.T`: all axes in reverse order.
fn reversed(c: &Call) -> Outcome {
    let x = c.tensor("self")?;
    let axes: Vec<i64> = (0..x.rank() as i64).rev().collect();
    one(x.permute(axes))
}

fn each(c: &Call, f: fn(&Tensor) -> Tensor) -> Outcome {
    Ok(c.tensors("self")?.iter().map(f).collect())
}

/// Elements repeated, reordered or selected by position.
pub const REARRANGED: &[Entry] = &[
    entry("repeat", "self *repeats", |c| one(c.tensor("self")?.repeat(c.ints("repeats")?))),
    entry("tile", "self *dims", |c| one(c.tensor("self")?.tile(c.ints("dims")?))),
    entry("repeat_interleave", "self repeats dim output_size", repeat_interleave),
    entry("flip", "self *dims", |c| one(c.tensor("self")?.flip(c.ints("dims")?))),
    entry("fliplr", "self", |c| one(c.tensor("self")?.fliplr())),
    entry("flipud", "self", |c| one(c.tensor("self")?.flipud())),
    entry("roll", "self shifts dims", |c| {
        let (x, shifts) = (c.tensor("self")?, c.ints("shifts")?);
        one(match c.opt_ints("dims")? {
            None => x.roll(shifts, ..),
            Some(dims) => x.roll(shifts, dims),
        })
    }),
    entry("rot90", "self k dims", |c| {
        let dims = c.opt_ints("dims")?.unwrap_or(vec![0, 1]);
        match <[i64; 2]>::try_from(dims) {
            Ok(dims) => one(c.tensor("self")?.rot90(c.opt_int("k")?.unwrap_or(1), dims)),
            Err(dims) => Err(Stop::Inexpressible(format!("two axes, given {dims:?}"))),
        }
    }),
    entry("narrow", "self dim start length", |c| {
        one(c.tensor("self")?.narrow(c.int("dim")?, c.operand("start")?, c.size("length")?))
    }),
    entry("select", "self dim index", |c| {
        one(c.tensor("self")?.select_index(c.int("dim")?, c.int("index")?))
    }),
    entry("slice", "self dim start end step", |c| {
        one(c.tensor("self")?.slice(c.opt_int("dim")?.unwrap_or(0), range(c)?))
    }),
    entry("diag", "self diagonal", |c| one(c.tensor("self")?.diag(c.opt_int("diagonal")?.unwrap_or(0)))),
    entry("diag_embed", "self offset dim1 dim2", |c| {
        one(c.tensor("self")?.diag_embed(diagonal_opts(c, -2, -1)?))
    }),
    entry("diagonal", "self offset dim1 dim2", |c| one(c.tensor("self")?.diagonal(diagonal_opts(c, 0, 1)?))),
    entry("linalg.diagonal", "self offset dim1 dim2", |c| {
        one(c.tensor("self")?.diagonal(diagonal_opts(c, -2, -1)?))
    }),
    entry("tril", "self diagonal", |c| one(c.tensor("self")?.tril(c.opt_int("diagonal")?.unwrap_or(0)))),
    entry("triu", "self diagonal", |c| one(c.tensor("self")?.triu(c.opt_int("diagonal")?.unwrap_or(0)))),
    entry("select_scatter", "self src dim index", |c| {
        one(c.tensor("self")?.select_scatter(&c.tensor("src")?, c.int("dim")?, c.int("index")?))
    }),
    entry("slice_scatter", "self src dim start end step", |c| {
        let dim = c.opt_int("dim")?.unwrap_or(0);
        one(c.tensor("self")?.slice_scatter(&c.tensor("src")?, dim, range(c)?))
    }),
    entry("diagonal_scatter", "self src offset dim1 dim2", |c| {
        one(c.tensor("self")?.diagonal_scatter(&c.tensor("src")?, diagonal_opts(c, 0, 1)?))
    }),
    entry("nn.functional.pixel_shuffle", "self upscale_factor", |c| {
        one(c.tensor("self")?.pixel_shuffle(c.size("upscale_factor")?))
    }),
    entry("nn.functional.pixel_unshuffle", "self downscale_factor", |c| {
        one(c.tensor("self")?.pixel_unshuffle(c.size("downscale_factor")?))
    }),
    entry("nn.functional.channel_shuffle", "self groups", |c| {
        one(c.tensor("self")?.channel_shuffle(c.size("groups")?))
    }),
    entry("constant_pad_nd", "self pad value", |c| {
        one(c
            .tensor("self")?
            .constant_pad_nd(&c.ints("pad")?, c.opt_scalar("value")?.unwrap_or(Scalar::Int(0))))
    }),
    entry("nn.functional.pad", "self pad mode value", |c| {
        let mode = match c.opt_text("mode")?.as_deref() {
            None | Some("constant") => PadMode::Constant(c.opt_scalar("value")?.unwrap_or(Scalar::Int(0))),
            Some("reflect") => PadMode::Reflect,
            Some("replicate") => PadMode::Replicate,
            Some("circular") => PadMode::Circular,
            Some(other) => return unsupported("mode", other),
        };
        one(c.tensor("self")?.pad(&c.ints("pad")?, mode))
    }),
    entry("unfold", "self dimension size step", |c| {
        one(c.tensor("self")?.unfold(c.int("dimension")?, c.size("size")?, c.size("step")?))
    }),
    entry("as_strided", "self size stride storage_offset", |c| {
        let offset = if c.has("storage_offset") { c.size("storage_offset")? } else { 0 };
        one(c.tensor("self")?.as_strided(c.ints("size")?, c.ints("stride")?, offset))
    }),
    entry("sum_to_size", "self *size", |c| one(c.tensor("self")?.sum_to_size(c.ints("size")?))),
    entry("fft.fftshift", "self dim", |c| one(c.tensor("self")?.fftshift(c.axes("dim")?))),
];

fn repeat_interleave(c: &Call) -> Outcome {
    if c.has_tensor("repeats") {
        let (x, counts) = (c.tensor("self")?, c.tensor("repeats")?);
        let length = match c.opt_int("output_size")? {
            Some(length) => length,
            None => c.known(&counts.sum(..))?[0],
        };
        return one(x.repeat_interleave_by(&counts, c.axes("dim")?, usize::try_from(length).unwrap_or(0)));
    }
    one(c.tensor("self")?.repeat_interleave(c.size("repeats")?, c.axes("dim")?))
}

/// `start`, `end` and `step`.
pub fn range(c: &Call) -> Outcome<SliceRange> {
    let (start, stop) = (c.opt_int("start")?, c.opt_int("end")?);
    Ok(SliceRange { start, stop, step: c.opt_int("step")?.unwrap_or(1) })
}

/// `offset`, `dim1` and `dim2`.
pub fn diagonal_opts(c: &Call, rows: i64, columns: i64) -> Outcome<DiagonalOpts> {
    let (rows, columns) = (c.opt_int("dim1")?.unwrap_or(rows), c.opt_int("dim2")?.unwrap_or(columns));
    Ok(DiagonalOpts::default().offset(c.opt_int("offset")?.unwrap_or(0)).axes((rows, columns)))
}

/// Tensors joined and taken apart.
pub const JOINED: &[Entry] = &[
    entry("cat", "tensors dim", |c| one(Tensor::cat(&c.tensors("tensors")?, c.opt_int("dim")?.unwrap_or(0)))),
    entry("stack", "tensors dim", |c| {
        one(Tensor::stack(&c.tensors("tensors")?, c.opt_int("dim")?.unwrap_or(0)))
    }),
    entry("hstack", "tensors", |c| one(Tensor::hstack(&c.tensors("tensors")?))),
    entry("vstack", "tensors", |c| one(Tensor::vstack(&c.tensors("tensors")?))),
    entry("dstack", "tensors", |c| one(Tensor::dstack(&c.tensors("tensors")?))),
    entry("column_stack", "tensors", |c| one(Tensor::column_stack(&c.tensors("tensors")?))),
    entry("block_diag", "*tensors", |c| one(Tensor::block_diag(&c.tensors("tensors")?))),
    entry("meshgrid", "*tensors indexing", |c| {
        let indexing = match c.opt_text("indexing")?.as_deref() {
            None | Some("ij") => Indexing::Ij,
            Some("xy") => Indexing::Xy,
            Some(other) => return unsupported("indexing", other),
        };
        Ok(Tensor::meshgrid(&c.tensors("tensors")?, indexing))
    }),
    entry("split", "self split_size dim", |c| split(c, "split_size", Tensor::split, Tensor::split)),
    entry("split_with_sizes", "self split_sizes dim", |c| {
        split(c, "split_sizes", Tensor::split, Tensor::split)
    }),
    entry("chunk", "self chunks dim", |c| {
        Ok(c.tensor("self")?.chunk(c.size("chunks")?, c.opt_int("dim")?.unwrap_or(0)))
    }),
    entry("tensor_split", "self indices_or_sections dim", |c| {
        if c.has_tensor("indices_or_sections") {
            let tensor = c.tensor("indices_or_sections")?;
            let mut values: Vec<Arg> = c.known(&tensor)?.into_iter().map(|v| Arg::Number(v.into())).collect();
            let list = if tensor.rank() == 0 { values.remove(0) } else { Arg::List(values) };
            c.put("indices_or_sections", list);
        }
        split(c, "indices_or_sections", Tensor::tensor_split, Tensor::tensor_split)
    }),
    entry("unbind", "self dim", |c| Ok(c.tensor("self")?.unbind(c.opt_int("dim")?.unwrap_or(0)))),
];

type Split<Sizes> = fn(&Tensor, Sizes, i64) -> Vec<Tensor>;

/// Splits by a number or by a list.
fn split(c: &Call, name: &str, by: Split<i64>, into: Split<Vec<i64>>) -> Outcome {
    let (x, dim) = (c.tensor("self")?, c.opt_int("dim")?.unwrap_or(0));
    match c.take(name) {
        Some(Arg::List(sizes)) => Ok(into(&x, sizes.iter().filter_map(integer).collect(), dim)),
        Some(Arg::Number(size)) => Ok(by(&x, size.as_i64(), dim)),
        other => unsupported(name, format!("{other:?}")),
    }
}
