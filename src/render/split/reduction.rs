//! Reductions by parts: what each part gives, and what all give together.

use crate::base::{DType, Scalar};
use crate::ir::{AluOp, Monoid};
use crate::kernel::{Access, Affine, Dynamic, Expr, ExprId, Guard};
use crate::render::shader::PassBuffer;
use crate::render::split::rewriter::KernelRewriter;
use crate::render::split::{BoundKernel, KernelSequence, PartGroup, SplitPoint, loops};
use crate::render::target::GpuTarget;

/// What one part gives for one reduction.
#[derive(Clone, Copy, Debug)]
struct PartialReduction {
    /// How the elements of a part are combined.
    monoid: Monoid,
    of: Combined,
    dtype: DType,
}

/// What a part combines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Combined {
    /// The elements.
    Elements,
    /// The elements over their number: their sum is the mean, rounded.
    Shares,
    /// The same of what the elements exceed the rounded mean by: the rest of the mean.
    Excess,
}

/// What parts give, so that the reduction follows from it: results of
/// reductions, never inner states.
fn partials(monoid: Monoid, dtype: DType) -> Vec<PartialReduction> {
    let value = PartialReduction { monoid, of: Combined::Elements, dtype };
    let mean = |of| PartialReduction { monoid: Monoid::Sum, of, dtype };
    match monoid {
        Monoid::Sum | Monoid::Prod | Monoid::Max | Monoid::Min | Monoid::LogSumExp => vec![value],
        Monoid::ArgMax => {
            vec![
                PartialReduction { monoid: Monoid::Max, ..value },
                PartialReduction { dtype: DType::I32, ..value },
            ]
        }
        Monoid::ArgMin => {
            vec![
                PartialReduction { monoid: Monoid::Min, ..value },
                PartialReduction { dtype: DType::I32, ..value },
            ]
        }
        Monoid::M2 => vec![value, mean(Combined::Shares), mean(Combined::Excess)],
    }
}

/// Two kernels at least: one for each piece, and the one that combines.
pub fn split(split: &mut KernelSequence, part: &BoundKernel, split_point: &SplitPoint, target: &GpuTarget) {
    let kernel = &part.kernel;
    let loops = loops(kernel);
    let numel = split_point.parts() * kernel.level_points(0);
    let blocks: Vec<Vec<PassBuffer>> = (loops.iter())
        .map(|&id| {
            let (monoid, x) = reduction(part, id);
            let partials = partials(monoid, kernel.exprs[x.index()].dtype);
            partials.iter().map(|partial| split.block(numel * partial.dtype.compute().size())).collect()
        })
        .collect();
    for group in &split_point.part_groups {
        let part = of_group(part, split_point, group, &loops, &blocks);
        split.add(part, target);
    }
    let mut rewriter = KernelRewriter::new(part, 0);
    let parts = PartialRows::new(&mut rewriter, split_point);
    rewriter.keep_levels(0);
    for (&id, blocks) in loops.iter().zip(&blocks) {
        let result = parts.combine(&mut rewriter, part, split_point, id, blocks);
        rewriter.know(id, result);
    }
    rewriter.copy_stores(0);
    split.add(rewriter.finish(), target);
}

fn reduction(part: &BoundKernel, id: ExprId) -> (Monoid, ExprId) {
    let Expr::Reduce(monoid, x) = part.kernel.expr(id) else { panic!("%{} is no reduction", id.0) };
    (*monoid, *x)
}

/// The kernel that reduces each part of a piece.
fn of_group(
    part: &BoundKernel,
    split_point: &SplitPoint,
    group: &PartGroup,
    loops: &[ExprId],
    blocks: &[Vec<PassBuffer>],
) -> BoundKernel {
    let mut rewriter = KernelRewriter::new(part, 0);
    let (number, _) = rewriter.keep_group(split_point, group);
    rewriter.keep_levels(0);
    rewriter.keep_rows(split_point, group, 1);
    let points = part.kernel.level_points(0);
    let address = number.times(points as i64).plus(&rewriter.point(0));
    for (&id, blocks) in loops.iter().zip(blocks) {
        let (monoid, x) = reduction(part, id);
        let x = rewriter.copy(x);
        let mut before = x;
        for (partial, &block) in partials(monoid, rewriter.dtype(x)).iter().zip(blocks) {
            let elements = match partial.of {
                Combined::Elements | Combined::Shares => x,
                Combined::Excess => rewriter.alu(AluOp::Sub, &[x, before]),
            };
            let combined = match partial.of {
                Combined::Elements => elements,
                Combined::Shares | Combined::Excess => {
                    let share = 1.0 / split_point.rows(group) as f64;
                    let share = rewriter.number(share, partial.dtype.compute());
                    rewriter.alu(AluOp::Mul, &[share, elements])
                }
            };
            let reduce = Expr::Reduce(partial.monoid, combined);
            before = rewriter.builder.expr(reduce, partial.dtype, 0);
            rewriter.store(block, before, 0, address.clone(), split_point.parts() * points);
        }
    }
    rewriter.finish()
}

/// The parts as rows: one for each position of the outer axes, then the parts
/// of the axis that is cut.
struct PartialRows {
    /// The part's number.
    number: Affine,
    /// Its number among those of one position of the outer axes.
    own: Affine,
}

impl PartialRows {
    fn new(rewriter: &mut KernelRewriter<'_>, split_point: &SplitPoint) -> PartialRows {
        let (_, outer) = rewriter.axis(split_point.outer_rows, 1);
        let (_, own) = rewriter.axis(split_point.each(), 1);
        PartialRows { number: outer.times(split_point.each() as i64).plus(&own), own }
    }

    /// What a reduction gives, from what its parts gave.
    fn combine(
        &self,
        rewriter: &mut KernelRewriter<'_>,
        part: &BoundKernel,
        split_point: &SplitPoint,
        id: ExprId,
        blocks: &[PassBuffer],
    ) -> ExprId {
        let (monoid, x) = reduction(part, id);
        let points = part.kernel.level_points(0);
        let (x, dtype) = (part.kernel.exprs[x.index()].dtype, part.kernel.exprs[id.index()].dtype);
        let affine = self.number.times(points as i64).plus(&rewriter.point(0));
        let access = Access { affine, ..Access::default() };
        let first =
            rewriter.load(blocks[0], x, split_point.parts() * points, access.clone(), Guard::default());
        match monoid {
            Monoid::Sum | Monoid::Prod | Monoid::Max | Monoid::Min | Monoid::LogSumExp => {
                rewriter.builder.expr(Expr::Reduce(monoid, first), dtype, 0)
            }
            Monoid::ArgMax | Monoid::ArgMin => {
                let best = rewriter.builder.expr(Expr::Reduce(monoid, first), DType::I32, 0);
                let part = Dynamic {
                    index: best,
                    stride: points as i64,
                    extent: split_point.parts(),
                    checked: false,
                };
                let access = Access { affine: rewriter.point(0), dynamic: vec![part], ..Access::default() };
                let inside = rewriter.load(
                    blocks[1],
                    DType::I32,
                    split_point.parts() * points,
                    access,
                    Guard::default(),
                );
                let place = place(rewriter, split_point, best, inside);
                if dtype == rewriter.dtype(place) {
                    place
                } else {
                    rewriter.builder.expr(Expr::Cast(place), dtype, 0)
                }
            }
            Monoid::M2 => {
                let numel = split_point.parts() * points;
                let [mean, rest] = [blocks[1], blocks[2]]
                    .map(|block| rewriter.load(block, x, numel, access.clone(), Guard::default()));
                self.moments(rewriter, split_point, [first, mean, rest], dtype)
            }
        }
    }

    /// The squares of all parts: their own, and those of their means' gaps to
    /// the mean of all (Chan, Golub and LeVeque 1983). A part's mean is the sum of two numbers, since
    /// far from zero the gap may be less than the rounding of one.
    fn moments(
        &self,
        rewriter: &mut KernelRewriter<'_>,
        split_point: &SplitPoint,
        [squares, mean, rest]: [ExprId; 3],
        dtype: DType,
    ) -> ExprId {
        let of = dtype.compute();
        let rows = |group: &PartGroup| split_point.rows(group) as f64;
        let all: f64 = split_point.part_groups.iter().map(|group| rows(group) * group.count as f64).sum();
        let all = all * split_point.outer_rows as f64;
        let mut count = rewriter.number(rows(&split_point.part_groups[0]), of);
        let mut share = rewriter.number(rows(&split_point.part_groups[0]) / all, of);
        if let Some(last) = split_point.part_groups.get(1) {
            let main = rewriter.inside(self.own.clone(), 0, last.first as i64);
            let (short, less) = (rewriter.number(rows(last), of), rewriter.number(rows(last) / all, of));
            count = rewriter.alu(AluOp::Where, &[main, count, short]);
            share = rewriter.alu(AluOp::Where, &[main, share, less]);
        }
        let less_mean = |rewriter: &mut KernelRewriter<'_>, x: ExprId| {
            let weighted = rewriter.alu(AluOp::Mul, &[x, share]);
            let total = rewriter.builder.expr(Expr::Reduce(Monoid::Sum, weighted), of, 0);
            rewriter.alu(AluOp::Sub, &[x, total])
        };
        let coarse = less_mean(rewriter, mean);
        let gap = rewriter.alu(AluOp::Add, &[coarse, rest]);
        let gap = less_mean(rewriter, gap);
        let square = rewriter.alu(AluOp::Mul, &[gap, gap]);
        let between = rewriter.alu(AluOp::Mul, &[square, count]);
        let both = rewriter.alu(AluOp::Add, &[squares, between]);
        rewriter.builder.expr(Expr::Reduce(Monoid::Sum, both), dtype, 0)
    }
}

/// Rows of all parts of one position of the outer axes.
fn whole_rows(split_point: &SplitPoint) -> usize {
    split_point.part_groups.iter().map(|group| split_point.rows(group) * group.count).sum()
}

/// The number of row `inside` of a part; rows are numbered in 32 bits where those hold all numbers.
fn place(
    rewriter: &mut KernelRewriter<'_>,
    split_point: &SplitPoint,
    part: ExprId,
    inside: ExprId,
) -> ExprId {
    let rows = split_point.outer_rows.saturating_mul(whole_rows(split_point));
    let narrow = i32::try_from(rows).is_ok();
    let [part, inside] =
        [part, inside].map(|x| if narrow { x } else { rewriter.builder.expr(Expr::Cast(x), DType::I64, 0) });
    let start = first_row(rewriter, split_point, part, if narrow { DType::I32 } else { DType::I64 });
    rewriter.alu(AluOp::Add, &[start, inside])
}

/// The number of a part's first row.
fn first_row(
    rewriter: &mut KernelRewriter<'_>,
    split_point: &SplitPoint,
    part: ExprId,
    dtype: DType,
) -> ExprId {
    let int = |rewriter: &mut KernelRewriter<'_>, value: usize| {
        rewriter.builder.constant(Scalar::Int(value as i64), dtype)
    };
    let each = int(rewriter, split_point.each());
    let length = int(rewriter, split_point.rows(&split_point.part_groups[0]));
    if split_point.outer_rows == 1 {
        return rewriter.alu(AluOp::Mul, &[part, length]);
    }
    let outer = rewriter.alu(AluOp::Div, &[part, each]);
    let own = rewriter.alu(AluOp::Rem, &[part, each]);
    let whole = int(rewriter, whole_rows(split_point));
    let before = rewriter.alu(AluOp::Mul, &[outer, whole]);
    let own = rewriter.alu(AluOp::Mul, &[own, length]);
    rewriter.alu(AluOp::Add, &[before, own])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Device;
    use crate::render::split;
    use crate::tensor::Tensor;

    /// The type in which the last part of an `argmax` over so many positions adds.
    fn places(extent: i64, columns: i64, target: &GpuTarget) -> Option<DType> {
        let x = Tensor::arange(0, extent, 1, Device::null()).unsqueeze(0).expand([columns, extent]);
        let plan = x.eq(extent - 10).argmax(1).plan().expect("a plan");
        let sequence = split::split(plan.kernels[0].work().kernel().expect("a kernel"), target);
        assert!(sequence.parts.iter().all(|part| i32::try_from(part.kernel.level_points(1)).is_ok()));
        let adds = |node: &&crate::kernel::ExprNode| matches!(node.expr, Expr::Alu(AluOp::Add, _));
        sequence.parts.last()?.kernel.exprs.iter().rfind(adds).map(|node| node.dtype)
    }

    #[test]
    fn rows_beyond_32_bits_are_numbered_in_64() {
        for target in [GpuTarget::software(), GpuTarget::cuda()] {
            assert_eq!(places(2_000_000_000, 1, &target), Some(DType::I32));
            assert_eq!(places(2_200_000_000, 1, &target), Some(DType::I64));
            // Points enough to fill a device, so that nothing else cuts the rows.
            assert_eq!(places(2_200_000_000, 1 << 20, &target), Some(DType::I64));
        }
    }
}
