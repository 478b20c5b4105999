//! Elements read and written at positions that tensors hold, and sorting.

use kiln::opts::ScatterReduce;
use kiln::opts::SearchOpts;
use kiln::opts::TopkOpts;
use kiln::opts::{BagMode, EmbeddingBagOpts};
use kiln::tensor::Tensor;
use kiln::tensor::operand::OperandValue;
use kiln::tensor::slicing::{Index, SliceRange};
use kiln::tensor::unique::Unique;
use kiln::{DType, Scalar};

use super::super::arg::Arg;
use super::super::call::{Call, Outcome, integer, unsupported};
use super::{Entry, awaited, entry, one, pair, with};

/// Reading at positions.
pub const READS: &[Entry] = &[
    entry("gather", "self dim index", |c| one(c.tensor("self")?.gather(c.int("dim")?, &c.tensor("index")?))),
    entry("index_select", "self dim index", |c| {
        one(c.tensor("self")?.index_select(c.int("dim")?, &c.tensor("index")?))
    }),
    entry("take", "self index", |c| one(c.tensor("self")?.take(&c.tensor("index")?))),
    entry("take_along_dim", "self indices dim", |c| {
        one(c.tensor("self")?.take_along_dim(&c.tensor("indices")?, c.axes("dim")?))
    }),
    entry("__getitem__", "self index", getitem),
    awaited("masked_select", "self mask", |c| {
        Box::pin(async { one(c.tensor("self")?.masked_select_async(&c.tensor("mask")?).await?) })
    }),
    awaited("argwhere", "self", |c| Box::pin(async { one(c.tensor("self")?.nonzero_async().await?) })),
    awaited("nonzero", "self as_tuple", |c| {
        Box::pin(async {
            let (x, by_axis) = (c.tensor("self")?, c.is("as_tuple")?);
            if by_axis { Ok(x.nonzero_axes_async().await?) } else { one(x.nonzero_async().await?) }
        })
    }),
    awaited("unique", "self sorted return_inverse return_counts dim", |c| {
        Box::pin(async {
            // The values are sorted whether that is asked for or not.
            c.take("sorted");
            let found = c.tensor("self")?.unique_async(c.axes("dim")?).await?;
            distinct(c, found)
        })
    }),
    awaited("unique_consecutive", "self return_inverse return_counts dim", |c| {
        Box::pin(async {
            let found = c.tensor("self")?.unique_consecutive_async(c.axes("dim")?).await?;
            distinct(c, found)
        })
    }),
    entry("isin", "elements test_elements assume_unique invert", |c| {
        c.opt_flag("assume_unique")?;
        let found = c.tensor("elements")?.isin(c.operand("test_elements")?);
        one(if c.is("invert")? { found.logical_not() } else { found })
    }),
    entry("searchsorted", "sorted_sequence self out_int32 right side sorter", searchsorted),
    entry("bucketize", "self boundaries out_int32 right", |c| {
        let narrow = c.is("out_int32")?;
        let positions = c.tensor("self")?.bucketize(&c.tensor("boundaries")?, c.is("right")?);
        one(positions_as(positions, narrow))
    }),
    entry("nn.functional.one_hot", "self num_classes", |c| {
        let x = c.tensor("self")?;
        let classes = match c.opt_int("num_classes")? {
            None | Some(-1) => usize::try_from(c.known(&x.amax(..))?[0] + 1),
            Some(classes) => usize::try_from(classes),
        };
        one(x.one_hot(classes.unwrap_or(0)))
    }),
    entry("nn.functional.embedding", "weight input padding_idx max_norm scale_grad_by_freq sparse", |c| {
        gradient_only(c)?;
        c.take("padding_idx");
        one(c.tensor("input")?.embedding(&bounded(c)?))
    }),
    entry(
        "nn.functional.embedding_bag",
        "weight input offsets max_norm norm_type scale_grad_by_freq mode sparse per_sample_weights \
         include_last_offset padding_idx",
        embedding_bag,
    ),
];

/// Of distinct values, those results that are asked for.
fn distinct(c: &Call, found: Unique) -> Outcome {
    let mut results = vec![found.values];
    results.extend(c.is("return_inverse")?.then_some(found.inverse));
    results.extend(c.is("return_counts")?.then_some(found.counts));
    Ok(results)
}

/// Takes the arguments of embeddings that only change gradients.
fn gradient_only(c: &Call) -> Outcome<()> {
    c.take("scale_grad_by_freq");
    c.take("sparse");
    Ok(())
}

/// The table, its rows scaled down to `max_norm`.
fn bounded(c: &Call) -> Outcome<Tensor> {
    let (table, p) = (c.tensor("weight")?, c.opt_float("norm_type")?.unwrap_or(2.0));
    Ok(match c.opt_float("max_norm")? {
        Some(limit) => table.renorm(p, 0, limit),
        None => table,
    })
}

fn embedding_bag(c: &Call) -> Outcome {
    gradient_only(c)?;
    let mode = match c.opt_text("mode")?.as_deref() {
        Some("sum") => BagMode::Sum,
        None | Some("mean") => BagMode::Mean,
        Some("max") => BagMode::Max,
        Some(other) => return unsupported("mode", other),
    };
    let table = bounded(c)?;
    let mut opts = EmbeddingBagOpts::default().mode(mode).include_last_offset(c.is("include_last_offset")?);
    opts = with(opts, c.opt_tensor("offsets")?, |opts, offsets| opts.offsets(&offsets));
    opts = with(opts, c.opt_tensor("per_sample_weights")?, |opts, weights| opts.per_sample_weights(&weights));
    if let Some(row) = c.opt_int("padding_idx")? {
        opts = opts.padding(row.rem_euclid(table.dim(0)? as i64) as usize);
    }
    one(c.tensor("input")?.embedding_bag(&table, opts))
}

fn positions_as(positions: Tensor, narrow: bool) -> Tensor {
    if narrow { positions.to_dtype(DType::I32) } else { positions }
}

fn searchsorted(c: &Call) -> Outcome {
    let side = match c.opt_text("side")?.as_deref() {
        None => None,
        Some("left") => Some(false),
        Some("right") => Some(true),
        Some(other) => return unsupported("side", other),
    };
    let mut opts = SearchOpts::default().right(c.is("right")? || side == Some(true));
    opts = with(opts, c.opt_tensor("sorter")?, |opts, sorter| opts.sorter(&sorter));
    let narrow = c.is("out_int32")?;
    let positions = c.tensor("sorted_sequence")?.searchsorted(c.operand("self")?, opts);
    one(positions_as(positions, narrow))
}

/// `x[...]`: a slice, an integer, a list, a tensor, or a tuple of these.
fn getitem(c: &Call) -> Outcome {
    let x = c.tensor("self")?;
    let indices = match c.take("index") {
        Some(Arg::List(items)) if items.iter().all(|item| integer(item).is_some()) => vec![Arg::List(items)],
        Some(Arg::List(items)) => items,
        Some(index) => vec![index],
        None => Vec::new(),
    };
    let indices: Vec<Vec<Index>> = indices.iter().map(|index| subscript(c, index)).collect::<Outcome<_>>()?;
    one(x.i(indices.concat()))
}

fn subscript(c: &Call, index: &Arg) -> Outcome<Vec<Index>> {
    Ok(vec![match index {
        Arg::Slice { start, stop, step } => {
            Index::Range(SliceRange { start: *start, stop: *stop, step: step.unwrap_or(1) })
        }
        Arg::None => Index::NewAxis,
        Arg::Number(Scalar::Int(at)) => Index::At(*at),
        Arg::Tensor(_) => return positions(c.resolve(index)?),
        Arg::List(items) => {
            let positions: Option<Vec<i64>> = items.iter().map(integer).collect();
            let Some(positions) = positions else { return unsupported("index", format!("{items:?}")) };
            let shape = [positions.len()];
            Index::Tensor(Tensor::from_slice(&positions, shape, c.place()?))
        }
        other => return unsupported("index", format!("{other:?}")),
    }])
}

/// An index tensor; of a mask, the positions it marks on each of its axes.
fn positions(index: Tensor) -> Outcome<Vec<Index>> {
    let tensors = if index.dtype() == DType::Bool { index.nonzero_axes()? } else { vec![index] };
    Ok(tensors.into_iter().map(Index::Tensor).collect())
}

/// Writing at positions.
pub const WRITES: &[Entry] = &[
    entry("scatter", "self dim index src reduce", |c| {
        let (x, dim, index) = (c.tensor("self")?, c.int("dim")?, c.tensor("index")?);
        one(match c.opt_text("reduce")?.as_deref() {
            None => x.scatter(dim, &index, c.operand("src")?),
            Some("add") => x.scatter_reduce(dim, &index, c.operand("src")?, ScatterReduce::Sum, true),
            Some("multiply") => x.scatter_reduce(dim, &index, c.operand("src")?, ScatterReduce::Prod, true),
            Some(other) => return unsupported("reduce", other),
        })
    }),
    entry("scatter_add", "self dim index src", |c| {
        one(c.tensor("self")?.scatter_add(c.int("dim")?, &c.tensor("index")?, c.tensor("src")?))
    }),
    entry("scatter_reduce", "self dim index src reduce include_self", |c| {
        let (x, dim, index) = (c.tensor("self")?, c.int("dim")?, c.tensor("index")?);
        let own = c.opt_flag("include_self")?.unwrap_or(true);
        one(x.scatter_reduce(dim, &index, c.tensor("src")?, reduce(c)?, own))
    }),
    entry("index_add", "self dim index source alpha", |c| {
        let alpha = c.opt_operand("alpha")?.unwrap_or(OperandValue::Scalar(Scalar::Int(1)));
        one(c.tensor("self")?.index_add(c.int("dim")?, &c.tensor("index")?, &c.tensor("source")?, alpha))
    }),
    entry("index_copy", "self dim index source", |c| {
        one(c.tensor("self")?.index_copy(c.int("dim")?, &c.tensor("index")?, &c.tensor("source")?))
    }),
    entry("index_fill", "self dim index value", |c| {
        one(c.tensor("self")?.index_fill(c.int("dim")?, &c.tensor("index")?, c.operand("value")?))
    }),
    entry("index_reduce", "self dim index source reduce include_self", |c| {
        let (x, dim, index) = (c.tensor("self")?, c.int("dim")?, c.tensor("index")?);
        let own = c.opt_flag("include_self")?.unwrap_or(true);
        one(x.index_reduce(dim, &index, &c.tensor("source")?, reduce(c)?, own))
    }),
    entry("index_put", "self indices values accumulate", |c| {
        let indices = c.tensors("indices")?;
        let indices: Vec<Option<&Tensor>> = indices.iter().map(Some).collect();
        one(c.tensor("self")?.index_put(&indices, &c.tensor("values")?, c.is("accumulate")?))
    }),
    entry("put", "self index source accumulate", |c| {
        one(c.tensor("self")?.put(&c.tensor("index")?, &c.tensor("source")?, c.is("accumulate")?))
    }),
    entry("masked_fill", "self mask value", |c| {
        one(c.tensor("self")?.masked_fill(&c.tensor("mask")?, c.operand("value")?))
    }),
    entry("masked_scatter", "self mask source", |c| {
        one(c.tensor("self")?.masked_scatter(&c.tensor("mask")?, &c.tensor("source")?))
    }),
];

fn reduce(c: &Call) -> Outcome<ScatterReduce> {
    Ok(match c.text("reduce")?.as_str() {
        "sum" => ScatterReduce::Sum,
        "prod" => ScatterReduce::Prod,
        "mean" => ScatterReduce::Mean,
        "amax" => ScatterReduce::Amax,
        "amin" => ScatterReduce::Amin,
        other => return unsupported("reduce", other),
    })
}

/// Sorting.
pub const SORTS: &[Entry] = &[
    entry("sort", "self dim descending stable", |c| {
        c.take("stable");
        let dim = c.opt_int("dim")?.unwrap_or(-1);
        pair(c.tensor("self")?.sort(dim, c.is("descending")?))
    }),
    entry("argsort", "self dim descending stable", |c| {
        c.take("stable");
        let dim = c.opt_int("dim")?.unwrap_or(-1);
        one(c.tensor("self")?.argsort(dim, c.is("descending")?))
    }),
    entry("msort", "self", |c| one(c.tensor("self")?.msort())),
    entry("topk", "self k dim largest sorted", |c| {
        // The order of the largest is free where `sorted` is false.
        c.take("sorted");
        let (dim, largest) = (c.opt_int("dim")?.unwrap_or(-1), c.opt_flag("largest")?.unwrap_or(true));
        pair(c.tensor("self")?.topk(c.size("k")?, TopkOpts::default().axis(dim).largest(largest)))
    }),
];
