//! Embeddings: rows of a table by index.

use crate::base::{DType, Result, Scalar, Shape};
use crate::ir::{AluOp, Monoid, Op, ScatterMode};
use crate::tensor::Tensor;
use crate::tensor::advanced::{as_index, rows};
use crate::tensor::compose::CallSite;
use crate::tensor::movement::repeated;
use crate::tensor::options::{options, some};
use crate::tensor::position::along;
use crate::tensor::search::search;

/// How the rows of a bag become one.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln::opts::{BagMode, EmbeddingBagOpts};
/// let opts = EmbeddingBagOpts::default().mode(BagMode::Sum);
/// let table = Tensor::from([[1.0f32], [10.0]]);
/// assert_eq!(Tensor::from([[0i64, 1]]).embedding_bag(&table, opts).to_vec::<f32>()?, [11.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
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

options! {
    /// How bags are formed and combined.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::EmbeddingBagOpts;
    /// let opts = EmbeddingBagOpts::default().offsets(&Tensor::from([0i64, 1]));
    /// let table = Tensor::from([[1.0f32], [10.0], [20.0]]);
    /// let y = Tensor::from([0i64, 1, 2]).embedding_bag(&table, opts);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 15.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    EmbeddingBagOpts {
        /// How the rows of a bag become one (mean).
        mode: BagMode = BagMode::Mean;
        /// Where each bag starts in rank-1 indices, ascending from 0; rank-2
        /// indices are one bag per row.
        offsets: Option<Tensor> = None, &Tensor => some;
        /// The last offset is the end of the last bag, not the start of
        /// another (false).
        include_last_offset: bool = false;
        /// A factor for each index; only for sums.
        per_sample_weights: Option<Tensor> = None, &Tensor => some;
        /// A row that no bag counts.
        padding: Option<usize> = None, usize => Some;
    }
}

impl Tensor {
    /// The rows of a rank-2 table that these integers number.
    ///
    /// `[..]` with `[rows, columns]` gives `[.., columns]`. Invalid unless this is an integer
    /// tensor and the table has rank 2. A number outside the table is an error when it runs.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let table = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// assert_eq!(Tensor::from([1i64, 0]).embedding(&table).to_vec::<f32>()?, [3.0, 4.0, 1.0, 2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn embedding(&self, table: &Tensor) -> Tensor {
        let site = CallSite::here("embedding");
        site.build(&[self, table], || looked_up(site, self, table))
    }

    /// The rows of a rank-2 table that each bag of these integers numbers, as one row per bag.
    ///
    /// `[bags, n]` with `[rows, columns]` gives `[bags, columns]`; rank 1 needs offsets. PyTorch:
    /// `nn.functional.embedding_bag`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let table = Tensor::from([[1.0f32], [3.0]]);
    /// let y = Tensor::from([[0i64, 1]]).embedding_bag(&table, Default::default());
    /// assert_eq!(y.to_vec::<f32>()?, [2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn embedding_bag(&self, table: &Tensor, opts: EmbeddingBagOpts) -> Tensor {
        let site = CallSite::here("embedding_bag");
        let operands: Vec<&Tensor> =
            [self, table].into_iter().chain(&opts.offsets).chain(&opts.per_sample_weights).collect();
        site.build(&operands, || bags(site, self, table, &opts))
    }
}

fn looked_up(site: CallSite, index: &Tensor, table: &Tensor) -> Result<Tensor> {
    let at = as_index(site, index)?;
    if table.rank() != 2 {
        return Err(site.error("a table of rank 2", format!("rank {}", table.rank()), &[index, table]));
    }
    let flat = rows(site, table, 0, &site.reshape(&at, &Shape::from(index.numel())));
    let mut shape = index.shape();
    shape.0.push(table.shape()[1]);
    Ok(site.reshape(&flat, &shape))
}

fn bags(site: CallSite, index: &Tensor, table: &Tensor, opts: &EmbeddingBagOpts) -> Result<Tensor> {
    let picked = looked_up(site, index, table)?;
    let mut values = site.cast(&picked, table.dtype().compute());
    let last = index.rank();
    if let Some(weights) = &opts.per_sample_weights {
        if opts.mode != BagMode::Sum || weights.shape() != index.shape() || weights.dtype() != table.dtype() {
            let expected = "weights of the table's type and the index's shape, and mode Sum";
            return Err(site.error(expected, format!("{:?}, {}", opts.mode, weights.shape()), &[index]));
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
            return Err(site.error(expected, format!("rank {}", index.rank()), &[index]));
        }
    };
    Ok(site.cast(&finished(site, &sums, &counts, opts.mode), table.dtype()))
}

/// One bag per row.
fn by_rows(site: CallSite, values: &Tensor, counts: &Tensor, mode: BagMode) -> (Tensor, Tensor) {
    let monoid = match mode {
        BagMode::Sum | BagMode::Mean => Monoid::Sum,
        BagMode::Max => Monoid::Max,
    };
    (site.reduce(monoid, values, &[1]), site.reduce(Monoid::Sum, counts, &[1]))
}

/// Bags that start at offsets: each row is scattered into its bag.
fn by_offsets(
    site: CallSite,
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

fn finished(site: CallSite, sums: &Tensor, counts: &Tensor, mode: BagMode) -> Tensor {
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

#[cfg(test)]
mod tests {
    use super::{BagMode, EmbeddingBagOpts};
    use crate::tensor::testing::{assert_close, error_text, f32s, i64s};

    #[test]
    fn numbers_become_rows() {
        let table = f32s(&[3, 2], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        let y = i64s(&[1, 2], &[2, 0]).embedding(&table);
        assert_close(&y, &[1, 2, 2], &[4.0, 5.0, 0.0, 1.0]);
        assert!(error_text(&i64s(&[1], &[0]).embedding(&i64s(&[1], &[0]))).contains("a table of rank 2"));
    }

    #[test]
    fn bags_by_offset_may_be_empty() {
        let table = f32s(&[3, 1], &[1.0, 10.0, 100.0]);
        let index = i64s(&[3], &[0, 2, 1]);
        let bags = |mode| {
            let opts = EmbeddingBagOpts::default().mode(mode).offsets(&i64s(&[3], &[0, 2, 2]));
            index.embedding_bag(&table, opts)
        };
        assert_close(&bags(BagMode::Sum), &[3, 1], &[101.0, 0.0, 10.0]);
        assert_close(&bags(BagMode::Mean), &[3, 1], &[50.5, 0.0, 10.0]);
        assert_close(&bags(BagMode::Max), &[3, 1], &[100.0, 0.0, 10.0]);
    }

    #[test]
    fn padding_is_not_counted() {
        let table = f32s(&[3, 1], &[1.0, 10.0, 100.0]);
        let index = i64s(&[2, 2], &[0, 2, 2, 2]);
        let y = index.embedding_bag(&table, EmbeddingBagOpts::default().padding(2));
        assert_close(&y, &[2, 1], &[1.0, 0.0]);
    }
}
