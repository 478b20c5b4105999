//! Rows of a table looked up by number.

use crate::base::{DType, Result, Scalar, Shape};
use crate::ir::{AluOp, Monoid, Op, ScatterMode};
use crate::tensor::Tensor;
use crate::tensor::advanced::{as_index, rows};
use crate::tensor::compose::Site;
use crate::tensor::movement::repeated;
use crate::tensor::position::along;
use crate::tensor::search::search;

/// How the rows of a bag become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BagMode {
    /// Their sum, each times its weight.
    Sum,
    /// Their mean; of an empty bag, 0.
    #[default]
    Mean,
    /// The largest of each column; of an empty bag, 0.
    Max,
}

/// How bags are formed and combined.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct EmbeddingBagOpts {
    /// How the rows of a bag become one.
    pub mode: BagMode,
    /// Where each bag starts in rank-1 indices, ascending from 0; rank-2
    /// indices are one bag per row.
    pub offsets: Option<Tensor>,
    /// The last offset is the end of the last bag, not the start of another.
    pub include_last_offset: bool,
    /// A factor for each index; only for sums.
    pub per_sample_weights: Option<Tensor>,
    /// A row that no bag counts.
    pub padding: Option<usize>,
}

impl EmbeddingBagOpts {
    /// With this mode.
    #[must_use]
    pub fn mode(mut self, mode: BagMode) -> EmbeddingBagOpts {
        self.mode = mode;
        self
    }
    /// With bags that start here.
    #[must_use]
    pub fn offsets(mut self, offsets: &Tensor) -> EmbeddingBagOpts {
        self.offsets = Some(offsets.clone());
        self
    }
    /// With the end of the last bag as last offset, or not.
    #[must_use]
    pub fn include_last_offset(mut self, include: bool) -> EmbeddingBagOpts {
        self.include_last_offset = include;
        self
    }
    /// With a factor for each index.
    #[must_use]
    pub fn per_sample_weights(mut self, weights: &Tensor) -> EmbeddingBagOpts {
        self.per_sample_weights = Some(weights.clone());
        self
    }
    /// Leaving out a row of the table.
    #[must_use]
    pub fn padding(mut self, row: usize) -> EmbeddingBagOpts {
        self.padding = Some(row);
        self
    }
}

impl Tensor {
    /// The rows of a rank-2 table that these integers number: shape
    /// `[.., columns]`.
    #[track_caller]
    pub fn embedding(&self, table: &Tensor) -> Tensor {
        let site = Site::here("embedding");
        site.build(&[self, table], || looked_up(site, self, table))
    }

    /// The rows of a rank-2 table that each bag of these integers numbers,
    /// combined into one row per bag.
    #[track_caller]
    pub fn embedding_bag(&self, table: &Tensor, opts: &EmbeddingBagOpts) -> Tensor {
        let site = Site::here("embedding_bag");
        let operands: Vec<&Tensor> =
            [self, table].into_iter().chain(&opts.offsets).chain(&opts.per_sample_weights).collect();
        site.build(&operands, || bags(site, self, table, opts))
    }
}

fn looked_up(site: Site, index: &Tensor, table: &Tensor) -> Result<Tensor> {
    let at = as_index(site, index)?;
    if table.rank() != 2 {
        return Err(site.fault("a table of rank 2", format!("rank {}", table.rank()), &[index, table]));
    }
    let flat = rows(site, table, 0, &site.reshape(&at, &Shape::from(index.numel())));
    let mut shape = index.shape();
    shape.0.push(table.shape()[1]);
    Ok(site.reshape(&flat, &shape))
}

fn bags(site: Site, index: &Tensor, table: &Tensor, opts: &EmbeddingBagOpts) -> Result<Tensor> {
    let picked = looked_up(site, index, table)?;
    let mut values = site.cast(&picked, table.dtype().compute());
    let last = index.rank();
    if let Some(weights) = &opts.per_sample_weights {
        if opts.mode != BagMode::Sum || weights.shape() != index.shape() || weights.dtype() != table.dtype() {
            let expected = "weights of the table's type and the index's shape, and mode Sum";
            return Err(site.fault(expected, format!("{:?}, {}", opts.mode, weights.shape()), &[index]));
        }
        let weights = repeated(site, &site.cast(weights, values.dtype()), last, table.shape()[1]);
        values = site.alu(AluOp::Mul, &[&values, &weights]);
    }
    // What takes no part becomes the identity of the combination.
    let identity = if opts.mode == BagMode::Max { f64::NEG_INFINITY } else { 0.0 };
    let nothing = site.constant_like(Scalar::Float(identity), &values);
    let counts = match opts.padding {
        None => site.expand(&site.constant_like(1, &values), &index.shape()),
        Some(row) => {
            let left_out = site.alu(AluOp::Eq, &[index, &site.constant_like(row, index)]);
            let wide = repeated(site, &left_out, last, table.shape()[1]);
            values = site.choose(&wide, &nothing, &values);
            site.cast(&site.alu(AluOp::Not, &[&left_out]), values.dtype())
        }
    };
    let (sums, counts) = match (&opts.offsets, index.rank()) {
        (None, 2) => by_rows(site, &values, &counts, opts.mode),
        (Some(offsets), 1) if offsets.rank() == 1 => {
            by_offsets(site, &values, &counts, &as_index(site, offsets)?, opts, &nothing)
        }
        (Some(_) | None, _) => {
            let expected = "indices of rank 2 without offsets, or of rank 1 with offsets of rank 1";
            return Err(site.fault(expected, format!("rank {}", index.rank()), &[index]));
        }
    };
    Ok(site.cast(&finished(site, &sums, &counts, opts.mode), table.dtype()))
}

/// One bag per row.
fn by_rows(site: Site, values: &Tensor, counts: &Tensor, mode: BagMode) -> (Tensor, Tensor) {
    let monoid = match mode {
        BagMode::Sum | BagMode::Mean => Monoid::Sum,
        BagMode::Max => Monoid::Max,
    };
    (site.reduce(monoid, values, &[1]), site.reduce(Monoid::Sum, counts, &[1]))
}

/// Bags that start at offsets: each row is scattered into its bag.
fn by_offsets(
    site: Site,
    values: &Tensor,
    counts: &Tensor,
    offsets: &Tensor,
    opts: &EmbeddingBagOpts,
    nothing: &Tensor,
) -> (Tensor, Tensor) {
    let (all, columns) = (offsets.numel(), values.shape()[1]);
    let here = site.apply(Op::Iota(values.shape()[0], DType::I64, values.device()), &[]);
    let bag = search(site, offsets, &here, true);
    let bag = site.alu(AluOp::Sub, &[&bag, &site.constant_like(1, &bag)]);
    let mode = match opts.mode {
        BagMode::Sum | BagMode::Mean => ScatterMode::Add,
        BagMode::Max => ScatterMode::Max,
    };
    let base = site.expand(nothing, &Shape::new(&[all, columns]));
    let wide = site.expand(&along(site, &bag, 0, 2), &values.shape());
    let sums = site.apply(Op::Scatter(0, mode), &[&base, &wide, values]);
    let none = site.expand(&site.constant_like(0, counts), &Shape::from(all));
    let counts = site.apply(Op::Scatter(0, ScatterMode::Add), &[&none, &bag, counts]);
    let bags = if opts.include_last_offset { all.saturating_sub(1) } else { all };
    (site.slice(&sums, 0, 0, bags, 1), site.slice(&counts, 0, 0, bags, 1))
}

fn finished(site: Site, sums: &Tensor, counts: &Tensor, mode: BagMode) -> Tensor {
    let wide = |counts: &Tensor| repeated(site, counts, 1, sums.shape()[1]);
    match mode {
        BagMode::Sum => sums.clone(),
        BagMode::Mean => {
            let counts = site.alu(AluOp::Max, &[counts, &site.constant_like(1, counts)]);
            site.alu(AluOp::Div, &[sums, &wide(&counts)])
        }
        BagMode::Max => {
            let zero = site.constant_like(0, counts);
            let empty = site.alu(AluOp::Eq, &[counts, &zero]);
            site.choose(&wide(&empty), &zero, sums)
        }
    }
}
