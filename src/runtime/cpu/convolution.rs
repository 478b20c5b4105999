//! Which contractions are convolutions in two dimensions whose windows move by one.

use crate::kernel::{Affine, AxisId, Contraction, Expr, ExprId, Kernel};

/// A convolution: at each point of the result, the operand `data` is read at places that
/// depend on the point and the place in the window only by their sum, or difference.
pub struct Convolution<'k> {
    /// What moves under the window.
    pub data: ExprId,
    /// What it is multiplied with.
    pub weights: ExprId,
    /// The axes of the result that the data has: images, then rows and columns.
    pub points: &'k [AxisId],
    /// The axes of the result that the weights have.
    pub filters: &'k [AxisId],
    /// Rows and columns of the result.
    pub place: [AxisId; 2],
    /// Rows and columns of the window.
    pub window: [AxisId; 2],
    /// The other axes summed over.
    pub channels: Vec<AxisId>,
    /// Whether the place in the window is subtracted.
    pub flipped: [bool; 2],
}

/// How much there is of everything.
#[derive(Clone, Copy, Debug)]
pub struct ConvolutionExtents {
    /// Convolutions of their own filters.
    pub batch: usize,
    /// Images of each.
    pub images: usize,
    /// Channels of an image.
    pub channels: usize,
    /// Filters, which are channels of the result.
    pub filters: usize,
    /// Rows and columns of an image of the result.
    pub rows: usize,
    /// Columns of an image of the result.
    pub cols: usize,
    /// Rows and columns of the window.
    pub window: [usize; 2],
}

/// The convolution that a contraction is.
pub fn find<'k>(kernel: &Kernel, contraction: &'k Contraction) -> Option<Convolution<'k>> {
    let Contraction { a, b, m, n, .. } = contraction;
    [(*b, *a, n, m), (*a, *b, m, n)].into_iter().find_map(|(data, weights, points, filters)| {
        let &[.., row, col] = points.as_slice() else { return None };
        let affine = affine_of(kernel, data)?;
        let window = [row, col].map(|axis| along(contraction, &affine, axis));
        let [Some((down, up)), Some((right, left))] = window else { return None };
        let channels = contraction.k.iter().copied().filter(|&axis| axis != down && axis != right).collect();
        (down != right).then_some(Convolution {
            data,
            weights,
            points,
            filters,
            place: [row, col],
            window: [down, right],
            channels,
            flipped: [up, left],
        })
    })
}

/// The positions that a value depends on; `None` for a value that combines others.
fn affine_of(kernel: &Kernel, value: ExprId) -> Option<Vec<&Affine>> {
    let mut found: Vec<&Affine> = Vec::new();
    let mut seen = vec![false; kernel.exprs.len()];
    let mut pending = vec![value];
    while let Some(id) = pending.pop() {
        if std::mem::replace(&mut seen[id.index()], true) {
            continue;
        }
        let expr = kernel.expr(id);
        match expr {
            Expr::Reduce(..) | Expr::Scan(..) | Expr::Checked(..) | Expr::Accumulator => return None,
            Expr::Index(affine) => found.push(affine),
            Expr::Inside(within) => found.push(&within.value),
            Expr::Load(_, access) => {
                found.push(&access.affine);
                found.extend(access.guard.within.iter().map(|within| &within.value));
            }
            Expr::Const(_) | Expr::Arg(_) | Expr::Alu(..) | Expr::Cast(_) | Expr::Bitcast(_) => {}
        }
        expr.operands(|operand| pending.push(operand));
    }
    Some(found)
}

/// The axis of the window that goes with one of the result, and whether it is subtracted.
fn along(contraction: &Contraction, affine: &[&Affine], axis: AxisId) -> Option<(AxisId, bool)> {
    let moves = affine.iter().any(|affine| affine.coefficient(axis) != 0);
    let mut signed = contraction.k.iter().copied().flat_map(|k| [(k, false), (k, true)]);
    signed.find(|&(k, subtracted)| {
        let sign = if subtracted { -1 } else { 1 };
        moves && affine.iter().all(|affine| affine.coefficient(k) == sign * affine.coefficient(axis))
    })
}

impl Convolution<'_> {
    /// The axes of images.
    pub fn images(&self) -> &[AxisId] {
        &self.points[..self.points.len() - 2]
    }

    /// How much there is of everything.
    pub fn extents(&self, kernel: &Kernel, contraction: &Contraction) -> ConvolutionExtents {
        let points = |axes: &[AxisId]| kernel.points_of(axes);
        let [rows, cols] = self.place.map(|axis| kernel.axes[axis.index()].extent);
        let window = self.window.map(|axis| kernel.axes[axis.index()].extent);
        ConvolutionExtents {
            batch: points(&contraction.batch),
            images: points(self.images()),
            channels: points(&self.channels),
            filters: points(self.filters),
            rows,
            cols,
            window,
        }
    }

    /// The kernel whose axes of rows and columns are those of the input: all sums of a place
    /// in the result and one in the window.
    pub fn spread(&self, kernel: &Kernel) -> Kernel {
        let mut spread = kernel.clone();
        for ((axis, window), flipped) in self.place.into_iter().zip(self.window).zip(self.flipped) {
            let reach = kernel.axes[window.index()].extent - 1;
            spread.axes[axis.index()].extent += reach;
            let sum = |affine: &Affine| {
                let mut affine = affine.clone();
                affine.terms.retain(|term| term.0 != window);
                if flipped {
                    affine.offset -= affine.coefficient(axis) * reach as i64;
                }
                affine
            };
            for node in &mut spread.exprs {
                node.expr = node.expr.mapped(|id| id, sum);
            }
        }
        spread
    }
}
