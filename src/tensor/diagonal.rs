//! Diagonals and triangles of matrices.

use crate::base::{Dims, Result, Shape};
use crate::ir::{AluOp, PadAxis};
use crate::tensor::Tensor;
use crate::tensor::compose::Site;
use crate::tensor::movement::moved;
use crate::tensor::position::diagonal_mask;
use crate::tensor::site::with_axis;

/// Which diagonal of which axes: element `(i, i + offset)` of `axes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiagonalOpts {
    /// Distance above (below, if negative) the main diagonal.
    pub offset: i64,
    /// The axes of rows and of columns.
    pub axes: (i64, i64),
}

impl Default for DiagonalOpts {
    /// The main diagonal of axes 0 and 1.
    fn default() -> DiagonalOpts {
        DiagonalOpts { offset: 0, axes: (0, 1) }
    }
}

impl DiagonalOpts {
    /// With this distance above the main diagonal.
    #[must_use]
    pub fn offset(mut self, offset: i64) -> DiagonalOpts {
        self.offset = offset;
        self
    }
    /// Of these axes.
    #[must_use]
    pub fn axes(mut self, rows: i64, columns: i64) -> DiagonalOpts {
        self.axes = (rows, columns);
        self
    }
}

impl Tensor {
    /// A diagonal of a matrix, or a matrix with a vector on that diagonal.
    #[track_caller]
    pub fn diag(&self, offset: i64) -> Tensor {
        let site = Site::here("diag");
        site.build(&[self], || match self.rank() {
            1 => embedded(site, self, offset, 0, 1),
            2 => diagonal(site, self, offset, 0, 1),
            rank => Err(site.fault("rank 1 or 2", format!("rank {rank}"), &[self])),
        })
    }

    /// The diagonals named, as a new last axis in place of their two axes.
    #[track_caller]
    pub fn diagonal(&self, opts: DiagonalOpts) -> Tensor {
        let site = Site::here("diagonal");
        site.build(&[self], || {
            let (row, column) = planes(site, self, self, opts)?;
            diagonal(site, self, opts.offset, row, column)
        })
    }

    /// Matrices with the elements of the last axis on a diagonal, zeros
    /// elsewhere; `opts.axes` are counted in the result.
    #[track_caller]
    pub fn diag_embed(&self, opts: DiagonalOpts) -> Tensor {
        let site = Site::here("diag_embed");
        site.build(&[self], || {
            let (x, _) = site.lane(self, -1)?;
            let counted = site.reshape(&x, &with_axis(&x.shape(), 0, 1));
            let (row, column) = planes(site, &counted, self, opts)?;
            embedded(site, &x, opts.offset, row, column)
        })
    }

    /// The tensor with `src` on a diagonal.
    #[track_caller]
    pub fn diagonal_scatter(&self, src: &Tensor, opts: DiagonalOpts) -> Tensor {
        let site = Site::here("diagonal_scatter");
        site.build(&[self, src], || {
            let (row, column) = planes(site, self, self, opts)?;
            let whole = self.shape();
            let expected = diagonal(site, self, opts.offset, row, column)?.shape();
            if src.shape() != expected {
                let found = src.shape().to_string();
                return Err(site.fault(format!("values of shape {expected}"), found, &[self, src]));
            }
            let on = diagonal_mask(site, &whole, (row, column), AluOp::Eq, opts.offset, self.device());
            let spread = spread(site, &site.cast(src, self.dtype()), opts.offset, row, column, &whole);
            Ok(site.choose(&on, &spread, self))
        })
    }

    /// The lower triangles of the last two axes, up to the diagonal that
    /// lies `offset` above the main one; zeros elsewhere.
    #[track_caller]
    pub fn tril(&self, offset: i64) -> Tensor {
        let site = Site::here("tril");
        site.build(&[self], || {
            let (below, zero) = triangle(site, self, offset.saturating_add(1))?;
            Ok(site.choose(&below, self, &zero))
        })
    }

    /// The upper triangles of the last two axes, from the diagonal that lies
    /// `offset` above the main one; zeros elsewhere.
    #[track_caller]
    pub fn triu(&self, offset: i64) -> Tensor {
        let site = Site::here("triu");
        site.build(&[self], || {
            let (below, zero) = triangle(site, self, offset)?;
            Ok(site.choose(&below, &zero, self))
        })
    }
}

/// Where the column is before the row plus `offset`, and a zero.
fn triangle(site: Site, x: &Tensor, offset: i64) -> Result<(Tensor, Tensor)> {
    let rank = x.rank();
    if rank < 2 {
        return Err(site.fault("rank 2 or more", format!("rank {rank}"), &[x]));
    }
    let below = diagonal_mask(site, &x.shape(), (rank - 2, rank - 1), AluOp::Lt, offset, x.device());
    Ok((below, site.constant_like(0, x)))
}

/// The two axes of `opts`, counted in `x`.
fn planes(site: Site, x: &Tensor, shown: &Tensor, opts: DiagonalOpts) -> Result<(usize, usize)> {
    let (row, column) = (site.axis_number(x, opts.axes.0)?, site.axis_number(x, opts.axes.1)?);
    if row == column {
        return Err(site.fault("two different axes", format!("{row} twice"), &[shown]));
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
fn diagonal(site: Site, x: &Tensor, offset: i64, row: usize, column: usize) -> Result<Tensor> {
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
fn embedded(site: Site, x: &Tensor, offset: i64, row: usize, column: usize) -> Result<Tensor> {
    let lead = &x.shape()[..x.rank() - 1];
    let away = usize::try_from(offset.unsigned_abs()).unwrap_or(usize::MAX);
    let side = x.shape()[x.rank() - 1].saturating_add(away);
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
fn spread(site: Site, x: &Tensor, offset: i64, row: usize, column: usize, whole: &Shape) -> Tensor {
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
