//! Elimination, substitution and Cholesky factors of square matrices by blocks of columns (Golub
//! and Van Loan, "Matrix Computations", 3.2.11, 3.1.4 and 4.2.9): each step of a loop waits for the
//! one before, so steps are for narrow panels, and most of the work is products of matrices.
//!
//! Everything here is in the type arithmetic is carried out in, of one batch of matrices.

use crate::base::shape::volume;
use crate::base::{DType, Precision};
use crate::ir::{AluOp, Monoid, Op, PadAxis};
use crate::tensor::Tensor;
use crate::tensor::compose::{CallSite, precision};
use crate::tensor::control::{loop_at, scan_at};
use crate::tensor::diagonal::lower_triangle;

/// Columns of a block, at most.
const BLOCK: usize = 32;

/// Matrices in blocks of one width; what completes the last one is of the identity.
struct BlockGrid {
    site: CallSite,
    /// The order of the matrices.
    n: usize,
    count: usize,
    width: usize,
    rank: usize,
}

impl BlockGrid {
    fn new(site: CallSite, matrix: &Tensor) -> BlockGrid {
        let (n, rank) = (matrix.shape()[matrix.rank() - 1], matrix.rank());
        let count = n.div_ceil(BLOCK);
        BlockGrid { site, n, count, width: n.div_ceil(count.max(1)), rank }
    }

    /// The order that the blocks have together.
    fn order(&self) -> usize {
        self.count * self.width
    }

    /// Zeros before and behind what lies along an axis.
    fn padded(&self, x: &Tensor, axis: usize, before: usize, after: usize) -> Tensor {
        let mut pads = vec![PadAxis::default(); self.rank];
        pads[axis] = PadAxis { lo: before as i64, hi: after as i64, interior: 0 };
        if before + after == 0 { x.clone() } else { self.site.pad(x, pads, 0.0) }
    }

    /// Rows of zeros that complete the last block.
    fn completed_rows(&self, x: &Tensor) -> Tensor {
        self.padded(x, self.rank - 2, 0, self.order() - self.n)
    }

    /// Square matrices, completed.
    fn completed(&self, x: &Tensor) -> Tensor {
        if self.order() == self.n {
            return x.clone();
        }
        let (row, column) =
            (self.along(self.order(), self.rank - 2, x), self.along(self.order(), self.rank - 1, x));
        let ones = self.site.and(self.site.eq(&row, column), self.site.lt(self.n as i64 - 1, &row));
        let wide = self.padded(&self.completed_rows(x), self.rank - 1, 0, self.order() - self.n);
        self.site.select(&ones, 1.0, wide, x.dtype())
    }

    /// Positions along an axis of matrices.
    fn along(&self, extent: usize, axis: usize, like: &Tensor) -> Tensor {
        self.site.iota_along(extent, axis, self.rank, DType::I64, like.device())
    }

    /// The rows or columns of a block, `[width]`.
    fn positions(&self, block: &Tensor) -> Tensor {
        let within = self.site.iota(self.width, DType::I64, block.device());
        self.site.add(self.site.mul(block, self.width as i64), within)
    }

    /// Without what completes the last block.
    fn rows(&self, x: &Tensor) -> Tensor {
        self.site.slice(x, self.rank - 2, 0, self.n, 1)
    }

    /// `x` with its rows' axis apart: blocks, and rows of a block.
    fn split(&self, x: &Tensor) -> Tensor {
        let shape = x.shape();
        let last = shape[self.rank - 1];
        self.site.reshape(x, &[&shape[..self.rank - 2], &[self.count, self.width, last]].concat())
    }

    /// The blocks' rows in one axis again.
    fn joined(&self, x: &Tensor) -> Tensor {
        let shape = x.shape();
        let last = shape[self.rank];
        self.site.reshape(x, &[&shape[..self.rank - 2], &[self.order(), last]].concat())
    }

    /// `x`, as [`BlockGrid::split`] leaves it, with one block in place of another.
    fn replaced(&self, x: &Tensor, block: &Tensor, by: &Tensor) -> Tensor {
        let (site, axis) = (self.site, self.rank - 2);
        let here = site.eq(site.iota_along(self.count, axis, self.rank + 1, DType::I64, x.device()), block);
        site.select(&here, site.unsqueeze(by, axis), x, x.dtype())
    }

    /// The blocks of what [`BlockGrid::split`] gives, outermost, to be walked.
    fn walked(&self, x: &Tensor) -> Tensor {
        let axis = self.rank - 2;
        let order: Vec<usize> = [axis].into_iter().chain((0..x.rank()).filter(|&i| i != axis)).collect();
        self.site.permute(x, &order)
    }

    /// The blocks' numbers.
    fn numbers(&self, like: &Tensor) -> Tensor {
        self.site.iota(self.count, DType::I64, like.device())
    }

    /// Rows or columns by number, in memory of their own: a product reads its operands again
    /// and again, and compiles faster where it finds no positions.
    fn taken(&self, x: &Tensor, axis: usize, at: &Tensor) -> Tensor {
        self.site.apply(Op::Copy(x.device()), &[&self.site.take(x, axis, at)])
    }
}

/// How the panels of a batch lie while a loop goes over them: `[batch, first, second]`, or with
/// the batch innermost where it is much longer, since what a step does to lines of a few elements
/// is mostly beginning them.
struct Panels {
    site: CallSite,
    /// The axes before the last two.
    batch: Vec<usize>,
    innermost: bool,
    first: usize,
    second: usize,
}

impl Panels {
    fn new(site: CallSite, panel: &Tensor) -> Panels {
        let shape = panel.shape();
        let (batch, matrix) = shape.split_at(panel.rank() - 2);
        let innermost = volume(batch) / 4 >= matrix[1];
        let first = usize::from(!innermost);
        Panels { site, batch: batch.to_vec(), innermost, first, second: first + 1 }
    }

    /// Panels `[.., first, second]` as they are to lie.
    fn enter(&self, x: &Tensor) -> Tensor {
        let shape = x.shape();
        let (_, matrix) = shape.split_at(x.rank() - 2);
        let flat = self.site.reshape(x, &[&[volume(&self.batch)], matrix].concat());
        if self.innermost { self.site.permute(&flat, &[1, 2, 0]) } else { flat }
    }

    /// Panels as they were.
    fn leave(&self, x: &Tensor) -> Tensor {
        let flat = if self.innermost { self.site.permute(x, &[2, 0, 1]) } else { x.clone() };
        self.site.reshape(&flat, &[&self.batch[..], &flat.shape()[1..]].concat())
    }

    /// What all rows read, if each matrix reads elsewhere: found once, not for every row.
    fn found(&self, x: Tensor) -> Tensor {
        if self.innermost { self.site.apply(Op::Copy(x.device()), &[&x]) } else { x }
    }

    /// Positions along an axis.
    fn along(&self, axis: usize, extent: usize, like: &Tensor) -> Tensor {
        self.site.iota_along(extent, axis, 3, DType::I64, like.device())
    }

    /// Identities of some width.
    fn identity(&self, width: usize, like: &Tensor) -> Tensor {
        let [row, column] = [self.first, self.second].map(|axis| self.along(axis, width, like));
        self.site.expand(&self.site.cast(&self.site.eq(row, column), like.dtype()), &like.shape())
    }
}

/// One row, or one column, of matrices, at a position that is the same for
/// all, or one for each as `[.., 1, 1]`.
pub(super) fn line(site: CallSite, x: &Tensor, axis: usize, at: &Tensor) -> Tensor {
    let mut dims = x.shape().to_vec();
    dims[axis] = 1;
    site.gather(x, axis, &site.expand(at, &dims))
}

/// The product of matrices of one batch, of which no factor is rounded: what is solved is as exact as its
/// type, whatever is wanted of other products.
fn product(site: CallSite, a: &Tensor, b: &Tensor) -> Tensor {
    let rank = a.rank();
    let batch: Vec<(usize, usize)> = (0..rank - 2).map(|i| (i, i)).collect();
    site.contract_as(a, b, &batch, &[(rank - 1, rank - 2)], precision(a.dtype()).min(Precision::Highest))
}

/// What elimination makes of a system.
pub(super) struct Eliminated {
    /// The solutions `[.., n, k]`.
    pub solutions: Tensor,
    /// The pivots `[blocks, .., width]`, negated where rows were exchanged, and ones; what
    /// comes after a zero has no meaning.
    pub pivots: Tensor,
}

/// Gauss-Jordan elimination with partial pivoting, of matrices `[.., n, n]` and right-hand
/// sides `[.., n, k]`. Singular matrices give infinities or NaN. A block that is all there is needs no
/// other.
pub(super) fn eliminate(site: CallSite, matrix: &Tensor, right: &Tensor) -> Eliminated {
    let blocks = BlockGrid::new(site, matrix);
    let (rank, order, k) = (blocks.rank, blocks.order(), right.shape()[right.rank() - 1]);
    let (rows, columns) = (rank - 2, rank - 1);
    if blocks.count == 1 {
        let panel = eliminate_panel(&blocks, matrix, &site.scalar(0i64, DType::I64, matrix.device()));
        let solutions = product(site, &panel.inverse, &panel.exchanged(site, right));
        return Eliminated { solutions, pivots: site.unsqueeze(&panel.pivots, 0) };
    }
    // Joined, as each step does to both sides the same.
    let left = blocks.padded(&blocks.completed(matrix), columns, 0, k);
    let joined = site.add(left, blocks.padded(&blocks.completed_rows(right), columns, order, 0));
    let (carries, outputs) = scan_at(site, &[joined], &[blocks.numbers(matrix)], false, |carries, slices| {
        let (matrix, block) = (&carries[0], &slices[0]);
        let at = blocks.positions(block);
        let panel = eliminate_panel(&blocks, &site.take(matrix, columns, &at), block);
        let exchanged = panel.exchanged(site, matrix);
        let products = product(site, &panel.inverse, &blocks.taken(&exchanged, rows, &at));
        let inside = site.eq(site.div(blocks.along(order, rows, matrix), blocks.width as i64), block);
        let others = site.select(&inside, 0.0, exchanged, matrix.dtype());
        (vec![site.add(others, products)], vec![panel.pivots])
    });
    Eliminated {
        solutions: blocks.rows(&site.slice(&carries[0], columns, order, order + k, 1)),
        pivots: outputs.first().unwrap_or(&carries[0]).clone(),
    }
}

/// What makes a block's columns those of the identity.
struct Panel {
    /// What the block's rows are multiplied by and added to the others, for its own rows what
    /// they are multiplied by, `[.., n, width]`.
    inverse: Tensor,
    /// Which rows come where, `[.., n, 1]`.
    order: Tensor,
    /// The pivots `[.., width]`, negated where rows were exchanged.
    pivots: Tensor,
}

impl Panel {
    /// Matrices' rows in the order that the pivots are in.
    fn exchanged(&self, site: CallSite, x: &Tensor) -> Tensor {
        site.gather(x, x.rank() - 2, &site.expand(&self.order, &x.shape()))
    }
}

/// Eliminates a block's columns in place: each gives way to that of the inverse. They lie
/// transposed, so that what a step does to all rows are few and long lines; two more say where
/// each row comes from, and which pivot it had, so that a step writes one tensor.
fn eliminate_panel(blocks: &BlockGrid, panel: &Tensor, block: &Tensor) -> Panel {
    let (site, rank, dtype, width) = (blocks.site, blocks.rank, panel.dtype(), blocks.width);
    let turned = site.transpose(panel, rank - 2, rank - 1);
    let panels = Panels::new(site, &turned);
    let (columns, rows) = (panels.first, panels.second);
    let (row, column) = (panels.along(rows, blocks.order(), panel), panels.along(columns, width + 2, panel));
    let wider = panels.enter(&blocks.padded(&turned, rank - 2, 0, 2));
    let start = site.select(&site.lt(&column, width as i64), wider, &row, dtype);
    let panel = loop_at(site, width, &[start], |step, carries| {
        let panel = &carries[0];
        let i = site.add(site.mul(block, width as i64), step);
        let magnitudes = site.unary(AluOp::Abs, &line(site, panel, columns, step));
        let candidates = site.select(&site.lt(&row, &i), -1.0, magnitudes, dtype);
        let best = site.reduce_keepdim(Monoid::ArgMax, &candidates, &[rows]);
        let at_i = site.eq(&row, &i);
        let (this, that) = (line(site, panel, rows, &i), panels.found(line(site, panel, rows, &best)));
        let others = site.select(&site.eq(&row, &best), this, panel, dtype);
        let exchanged = site.select(&at_i, &that, others, dtype);
        let pivot = line(site, &that, columns, step);
        let here = site.eq(&column, step);
        let scaled = site.div(site.select(&here, 1.0, &that, dtype), &pivot);
        let factor = line(site, &exchanged, columns, step);
        let rest = site.select(&here, 0.0, &exchanged, dtype);
        let reduced = site.select(&at_i, &scaled, site.sub(rest, site.mul(factor, &scaled)), dtype);
        let signed = site.select(&site.eq(&best, &i), &pivot, site.unary(AluOp::Neg, &pivot), dtype);
        let met = site.and(&at_i, site.eq(&column, width as i64 + 1));
        let noted = site.select(&met, signed, exchanged, dtype);
        vec![site.select(&site.lt(&column, width as i64), reduced, noted, dtype)]
    });
    let panel = site.transpose(&panels.leave(&panel[0]), rank - 2, rank - 1);
    let noted = |first: usize, last: usize| site.slice(&panel, rank - 1, first, last, 1);
    let pivots = site.take(&noted(width + 1, width + 2), rank - 2, &blocks.positions(block));
    Panel {
        inverse: noted(0, width),
        order: site.cast(&noted(width, width + 1), DType::I64),
        pivots: site.squeeze(&pivots, rank - 1),
    }
}

/// The solutions `x` of `lower @ x = right`; nothing above the diagonal is read, and with `unit`
/// not the diagonal, which is ones.
pub(super) fn substitute(site: CallSite, lower: &Tensor, right: &Tensor, unit: bool) -> Tensor {
    let blocks = BlockGrid::new(site, lower);
    let (rank, dtype) = (blocks.rank, lower.dtype());
    let [row, column] = [2, 1].map(|back| blocks.along(blocks.n, rank - back, lower));
    let lower = lower_triangle(site, lower, 0);
    let lower = if unit { site.select(&site.eq(row, column), 1.0, lower, dtype) } else { lower };
    let lower = blocks.split(&blocks.completed(&lower));
    let inverses = invert(&blocks, &lower);
    let right = blocks.split(&blocks.completed_rows(right));
    let zeros = site.zeros_like(&right);
    let blockwise = [&lower, &inverses, &right].map(|x| blocks.walked(x));
    let walked = [&[blocks.numbers(&lower)], &blockwise[..]].concat();
    let (solved, _) = scan_at(site, &[zeros], &walked, false, |carries, slices| {
        let [block, lower, inverse, right] = [0, 1, 2, 3].map(|i| &slices[i]);
        let rest = site.sub(right, product(site, lower, &blocks.joined(&carries[0])));
        let solved = product(site, inverse, &rest);
        (vec![blocks.replaced(&carries[0], block, &solved)], Vec::new())
    });
    blocks.rows(&blocks.joined(&solved[0]))
}

/// The inverses of the blocks on the diagonal of lower triangles, all at a time.
fn invert(blocks: &BlockGrid, lower: &Tensor) -> Tensor {
    let (site, count, width) = (blocks.site, blocks.count, blocks.width);
    let shape = lower.shape();
    let axis = shape.rank() - 1;
    // Of each block of rows, the columns of that number.
    let apart = site.reshape(lower, &[&shape[..axis], &[count, width]].concat());
    let numbers = site.iota_along(count, axis - 2, axis + 2, DType::I64, lower.device());
    let dims = [&shape[..axis], &[1, width]].concat();
    let diagonal = site.squeeze(&site.gather(&apart, axis, &site.expand(&numbers, &dims)), axis);
    let panels = Panels::new(site, &diagonal);
    let diagonal = panels.enter(&diagonal);
    let (rows, columns) = (panels.first, panels.second);
    let row = panels.along(rows, width, lower);
    let inverted = loop_at(site, width, &[panels.identity(width, &diagonal)], |step, carries| {
        let column = line(site, &diagonal, columns, step);
        let solved = site.div(line(site, &carries[0], rows, step), line(site, &column, rows, step));
        vec![forward(site, &carries[0], &row, step, &column, &solved)]
    });
    panels.leave(&inverted[0])
}

/// One step of forward substitution: a row is solved, and goes from those below by a column's
/// factors.
fn forward(
    site: CallSite,
    x: &Tensor,
    row: &Tensor,
    step: &Tensor,
    column: &Tensor,
    solved: &Tensor,
) -> Tensor {
    let below = site.sub(x, site.mul(column, solved));
    let rest = site.select(&site.lt(step, row), below, x, x.dtype());
    site.select(&site.eq(row, step), solved, rest, x.dtype())
}

/// The lower factors of positive definite matrices, of which nothing above the diagonal is read;
/// NaN for others.
pub(super) fn cholesky(site: CallSite, matrix: &Tensor) -> Tensor {
    let blocks = BlockGrid::new(site, matrix);
    let (rank, order, dtype) = (blocks.rank, blocks.order(), matrix.dtype());
    let (rows, columns) = (rank - 2, rank - 1);
    let lower = blocks.completed(&lower_triangle(site, matrix, 0));
    let turned = |x: &Tensor| site.transpose(x, rows, columns);
    // A block's columns of the factor, transposed as all of it is here, from what is left of them.
    let panel = |rest: &Tensor, block: &Tensor| {
        let at = blocks.positions(block);
        let inverse = invert_factor(&blocks, &turned(&site.take(rest, columns, &at)));
        let above = site.lt(blocks.along(order, columns, matrix), site.unsqueeze(&at, 1));
        site.select(&above, 0.0, product(site, &inverse, rest), dtype)
    };
    let upper = turned(&lower);
    if blocks.count == 1 {
        return turned(&panel(&upper, &site.scalar(0i64, DType::I64, matrix.device())));
    }
    let upper = blocks.split(&upper);
    let walked = [blocks.numbers(&lower), blocks.walked(&upper)];
    let (factor, _) = scan_at(site, &[site.zeros_like(&upper)], &walked, false, |carries, slices| {
        let (block, known) = (&slices[0], blocks.joined(&carries[0]));
        let others = turned(&blocks.taken(&known, columns, &blocks.positions(block)));
        let rest = site.sub(&slices[1], product(site, &others, &known));
        (vec![blocks.replaced(&carries[0], block, &panel(&rest, block))], Vec::new())
    });
    let factor = turned(&blocks.joined(&factor[0]));
    site.slice(&blocks.rows(&factor), columns, 0, blocks.n, 1)
}

/// The inverses of the factors of a block on the diagonal: what elimination makes of the
/// identity beside it.
fn invert_factor(blocks: &BlockGrid, block: &Tensor) -> Tensor {
    let (site, width) = (blocks.site, blocks.width);
    let panels = Panels::new(site, block);
    let (block, rows, columns) = (panels.enter(block), panels.first, panels.second);
    let row = panels.along(rows, width, &block);
    let start = [block.clone(), panels.identity(width, &block)];
    let carries = loop_at(site, width, &start, |step, carries| {
        let [block, inverse] = [&carries[0], &carries[1]];
        let column = line(site, block, columns, step);
        let root = site.unary(AluOp::Sqrt, &line(site, &column, rows, step));
        let factor = site.div(&column, &root);
        let rest = site.sub(block, site.mul(&factor, site.transpose(&factor, rows, columns)));
        let solved = site.div(line(site, inverse, rows, step), &root);
        vec![rest, forward(site, inverse, &row, step, &factor, &solved)]
    });
    panels.leave(&carries[1])
}
