//! Diagonals and triangles of matrices.

use crate::base::{Dims, Result, Shape};
use crate::ir::{AluOp, PadAxis};
use crate::tensor::Tensor;
use crate::tensor::call_site::with_axis;
use crate::tensor::compose::CallSite;
use crate::tensor::options::options;
use crate::tensor::permute::moved;
use crate::tensor::position::diagonal_mask;

options! {
    /// Which diagonal of which axes: elements `(i, i + offset)`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::DiagonalOpts;
    /// let x = Tensor::from([[1i64, 2], [3, 4]]);
    /// assert_eq!(x.diagonal(DiagonalOpts::default().offset(1)).to_vec::<i64>()?, [2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    DiagonalOpts {
        /// Distance above (below, if negative) the main diagonal (0).
        offset: i64 = 0;
        /// The axes of rows and of columns (0 and 1).
        axes: (i64, i64) = (0, 1);
    }
}

impl Tensor {
    /// A diagonal of a matrix, or a matrix with a vector on that diagonal. Invalid for other ranks.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([[1i64, 2], [3, 4]]).diag(0).to_vec::<i64>()?, [1, 4]);
    /// assert_eq!(Tensor::from([1i64, 4]).diag(0).to_vec::<i64>()?, [1, 0, 0, 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn diag(&self, offset: i64) -> Tensor {
        let site = CallSite::here("diag");
        site.build(&[self], || match self.rank() {
            1 => embedded(site, self, offset, 0, 1),
            2 => diagonal(site, self, offset, 0, 1),
            rank => Err(site.error("rank 1 or 2", format!("rank {rank}"), &[self])),
        })
    }

    /// The diagonals named, as a new last axis in place of their two axes: `[n, n, c]` to `[c, n]`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::zeros([2, 2, 5], ());
    /// assert_eq!(x.diagonal(Default::default()).dims()?, [5, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn diagonal(&self, opts: DiagonalOpts) -> Tensor {
        let site = CallSite::here("diagonal");
        site.build(&[self], || {
            let (row, column) = planes(site, self, self, &opts)?;
            diagonal(site, self, opts.offset, row, column)
        })
    }

    /// Matrices with the elements of the last axis on a diagonal, zeros elsewhere.
    ///
    /// `[.., n]` to `[.., n, n]`. `opts.axes` are counted in the result; PyTorch's default of them
    /// is the last two.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::DiagonalOpts;
    /// let x = Tensor::ones([5, 2], ());
    /// assert_eq!(x.diag_embed(DiagonalOpts::default().axes((-2, -1))).dims()?, [5, 2, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn diag_embed(&self, opts: DiagonalOpts) -> Tensor {
        let site = CallSite::here("diag_embed");
        site.build(&[self], || {
            let (x, _) = site.lane(self, -1)?;
            let counted = site.reshape(&x, &with_axis(&x.shape(), 0, 1));
            let (row, column) = planes(site, &counted, self, &opts)?;
            embedded(site, &x, opts.offset, row, column)
        })
    }

    /// The tensor with `src` on a diagonal. Invalid unless `src` has the shape of that diagonal.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1i64, 2], [3, 4]]);
    /// let y = x.diagonal_scatter(&Tensor::from([8i64, 9]), Default::default());
    /// assert_eq!(y.to_vec::<i64>()?, [8, 2, 3, 9]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn diagonal_scatter(&self, src: &Tensor, opts: DiagonalOpts) -> Tensor {
        let site = CallSite::here("diagonal_scatter");
        site.build(&[self, src], || {
            let (row, column) = planes(site, self, self, &opts)?;
            let whole = self.shape();
            let expected = diagonal(site, self, opts.offset, row, column)?.shape();
            if src.shape() != expected {
                let found = src.shape().to_string();
                return Err(site.error(format!("values of shape {expected}"), found, &[self, src]));
            }
            let on = diagonal_mask(site, &whole, (row, column), AluOp::Eq, opts.offset, self.device());
            let spread = spread(site, &site.cast(src, self.dtype()), opts.offset, row, column, &whole);
            Ok(site.choose(&on, &spread, self))
        })
    }

    /// The lower triangles of the last two axes, zeros elsewhere; the shape stays.
    ///
    /// Up to the diagonal that lies `offset` above the main one. Invalid below rank 2.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([[1i64, 2], [3, 4]]).tril(0).to_vec::<i64>()?, [1, 0, 3, 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn tril(&self, offset: i64) -> Tensor {
        let site = CallSite::here("tril");
        site.build(&[self], || {
            expect_matrices(site, self)?;
            Ok(lower_triangle(site, self, offset))
        })
    }

    /// The upper triangles of the last two axes, zeros elsewhere; the shape stays.
    ///
    /// From the diagonal that lies `offset` above the main one. Invalid below rank 2.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([[1i64, 2], [3, 4]]).triu(1).to_vec::<i64>()?, [0, 2, 0, 0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn triu(&self, offset: i64) -> Tensor {
        let site = CallSite::here("triu");
        site.build(&[self], || {
            expect_matrices(site, self)?;
            Ok(upper_triangle(site, self, offset))
        })
    }
}

fn expect_matrices(site: CallSite, x: &Tensor) -> Result<()> {
    let rank = x.rank();
    if rank < 2 { Err(site.error("rank 2 or more", format!("rank {rank}"), &[x])) } else { Ok(()) }
}

/// [`Tensor::tril`] of matrices.
pub(crate) fn lower_triangle(site: CallSite, x: &Tensor, offset: i64) -> Tensor {
    let below = before(site, x, offset.saturating_add(1));
    site.choose(&below, x, &site.constant_like(0, x))
}

/// [`Tensor::triu`] of matrices.
pub(crate) fn upper_triangle(site: CallSite, x: &Tensor, offset: i64) -> Tensor {
    let below = before(site, x, offset);
    site.choose(&below, &site.constant_like(0, x), x)
}

/// Where the column is before the row plus `offset`.
fn before(site: CallSite, x: &Tensor, offset: i64) -> Tensor {
    let rank = x.rank();
    diagonal_mask(site, &x.shape(), (rank - 2, rank - 1), AluOp::Lt, offset, x.device())
}

/// The two axes of `opts`, counted in `x`.
fn planes(site: CallSite, x: &Tensor, shown: &Tensor, opts: &DiagonalOpts) -> Result<(usize, usize)> {
    let (row, column) = (site.axis_number(x, opts.axes.0)?, site.axis_number(x, opts.axes.1)?);
    if row == column {
        return Err(site.error("two different axes", format!("{row} twice"), &[shown]));
    }
    Ok((row, column))
}

/// First row, first column and number of elements of a diagonal.
fn extent(rows: usize, columns: usize, offset: i64) -> (usize, usize, usize) {
    let away = usize::try_from(offset.unsigned_abs()).unwrap_or(usize::MAX);
    let (down, right) = if offset < 0 { (away.min(rows), 0) } else { (0, away.min(columns)) };
    (down, right, (rows - down).min(columns - right))
}

/// The square that the diagonal crosses is flattened, and its elements are
/// one row and one column apart.
fn diagonal(site: CallSite, x: &Tensor, offset: i64, row: usize, column: usize) -> Result<Tensor> {
    let rank = x.rank();
    let y = site.permute(x, &moved(rank, &[row, column], &[rank - 2, rank - 1]));
    let shape = y.shape();
    let (down, right, length) = extent(shape[rank - 2], shape[rank - 1], offset);
    let y = site.slice(&y, rank - 2, down, down + length, 1);
    let y = site.slice(&y, rank - 1, right, right + length, 1);
    let mut dims = Dims::from_slice(&shape[..rank - 2]);
    dims.push(length * length);
    let flat = site.reshape(&y, &Shape(dims));
    Ok(site.slice(&flat, rank - 2, 0, length * length, length + 1))
}

/// The last axis of `x` on a diagonal of a new square.
fn embedded(site: CallSite, x: &Tensor, offset: i64, row: usize, column: usize) -> Result<Tensor> {
    let lead = &x.shape()[..x.rank() - 1];
    let away = usize::try_from(offset.unsigned_abs()).unwrap_or(usize::MAX);
    let side = x.shape()[x.rank() - 1].saturating_add(away);
    if i64::try_from(side).is_err() {
        return Err(site.error("a matrix of at most 2^63 - 1 columns", format!("offset {offset}"), &[x]));
    }
    let mut lead = lead.iter();
    let rank = x.rank() + 1;
    let dims: Dims = (0..rank)
        .map(|axis| if axis == row || axis == column { side } else { *lead.next().unwrap_or(&1) })
        .collect();
    let whole = Shape(dims);
    let on = diagonal_mask(site, &whole, (row, column), AluOp::Eq, offset, x.device());
    let spread = spread(site, x, offset, row, column, &whole);
    Ok(site.choose(&on, &spread, &site.constant_like(0, x)))
}

/// A tensor of shape `whole` whose diagonal is the last axis of `x`; the
/// elements off the diagonal are whatever comes cheapest.
fn spread(site: CallSite, x: &Tensor, offset: i64, row: usize, column: usize, whole: &Shape) -> Tensor {
    let last = x.rank() - 1;
    // Along the axis where the diagonal starts at 0, its elements lie in order.
    let axis = if offset < 0 { column } else { row };
    let other = if offset < 0 { row } else { column };
    let mut pads = vec![PadAxis::default(); x.rank()];
    pads[last].hi = whole[axis] as i64 - x.shape()[last] as i64;
    let padded = site.pad(x, pads, 0);
    // Axis `last` goes to `axis` of the result without `other`.
    let slot = axis - usize::from(other < axis);
    let ordered = site.permute(&padded, &moved(last + 1, &[last], &[slot]));
    let mut thin = whole.clone();
    thin.0[other] = 1;
    site.expand(&site.reshape(&ordered, &thin), whole)
}

#[cfg(test)]
mod tests {
    use super::DiagonalOpts;
    use crate::tensor::testing::{assert_close, error_text, f32s, pattern, values};

    #[test]
    fn diagonals_of_a_wide_matrix() {
        let x = f32s(&[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_close(&x.diag(0), &[2], &[0.0, 4.0]);
        assert_close(&x.diag(1), &[2], &[1.0, 5.0]);
        assert_close(&x.diag(-1), &[1], &[3.0]);
        assert_close(&x.diag(9), &[0], &[]);
    }

    #[test]
    fn embedding_undoes_taking() {
        for offset in [-2, 0, 1] {
            let x = pattern(&[2, 3], 1);
            let opts = DiagonalOpts::default().offset(offset);
            let y = x.diag_embed(opts.clone().axes((0, -1)));
            assert_eq!(y.shape()[1], 2);
            assert_eq!(values(&y.diagonal(opts.axes((0, 2)))), values(&x), "{offset}");
        }
    }

    #[test]
    fn triangles_keep_one_side() {
        let x = f32s(&[2, 2], &[1.0, f64::NAN, 3.0, 4.0]);
        assert_close(&x.tril(0), &[2, 2], &[1.0, 0.0, 3.0, 4.0]);
        assert_close(&x.triu(1), &[2, 2], &[0.0, f64::NAN, 0.0, 0.0]);
        assert_close(&x.tril(i64::MAX), &[2, 2], &[1.0, f64::NAN, 3.0, 4.0]);
        assert!(error_text(&pattern(&[3], 0).tril(0)).contains("rank 2 or more"));
    }

    #[test]
    fn scattering_replaces_only_the_diagonal() {
        let x = f32s(&[2, 3], &[0.0; 6]);
        let opts = DiagonalOpts::default().offset(1);
        let y = x.diagonal_scatter(&f32s(&[2], &[1.0, 2.0]), opts.clone());
        assert_close(&y, &[2, 3], &[0.0, 1.0, 0.0, 0.0, 0.0, 2.0]);
        assert!(error_text(&x.diagonal_scatter(&x, opts)).contains("values of shape [2]"));
    }
}
