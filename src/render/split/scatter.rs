//! Scatters of many updates to few elements by parts: each part of the updates combines
//! its own copy of the elements, from what changes nothing on; the copies are combined,
//! and the result with the elements themselves.

use crate::base::{DType, Optimization};
use crate::ir::Monoid;
use crate::kernel::{Affine, Expr, Kernel, ScatterStore};
use crate::render::shader::PassBuffer;
use crate::render::split::rewriter::KernelRewriter;
use crate::render::split::{BoundKernel, KernelSequence, PartGroup, SplitPoint};
use crate::render::target::{Adapter, GpuTarget};
use crate::render::thresholds;

/// How the updates are cut, if they should be: copies that take no more memory than the
/// updates do twice, of thousands of updates each.
pub fn split_point(kernel: &Kernel, scatter: &ScatterStore, target: &GpuTarget) -> Option<SplitPoint> {
    // A host's processor has few threads to share the updates between.
    if !Optimization::Split.is_on() || target.adapter == Adapter::Software || scatter.mode.monoid().is_none()
    {
        return None;
    }
    let updates = kernel.points_of(&scatter.axes);
    let copies = 2 * kernel.level_points(0) / scatter.numel.max(1);
    let parts = (updates / thresholds::MIN_UPDATES_PER_PART).min(copies).min(thresholds::MAX_SCATTER_PARTS);
    let bytes = (parts * scatter.numel * scatter.dtype.compute().size()) as u64;
    (parts >= thresholds::MIN_SCATTER_PARTS && bytes <= target.max_binding)
        .then(|| SplitPoint::new(kernel, &scatter.axes, parts))?
}

/// The kernels: what changes nothing, the updates of each piece, all copies together, and
/// those with the elements.
pub fn split(
    split: &mut KernelSequence,
    part: &BoundKernel,
    scatter: &ScatterStore,
    split_point: &SplitPoint,
    target: &GpuTarget,
) {
    let Some(monoid) = scatter.mode.monoid() else { panic!("parts of updates whose order matters") };
    let dtype = scatter.dtype.compute();
    let copies = split_point.parts() * scatter.numel;
    let (each, all) = (split.block(copies * dtype.size()), split.block(scatter.numel * dtype.size()));
    split.add(nothing(part, scatter, monoid, copies, each), target);
    for group in &split_point.part_groups {
        split.add(of_group(part, scatter, split_point, group, each), target);
    }
    split.add(combined(part, scatter, monoid, split_point, [each, all]), target);
    split.add(with_the_elements(part, scatter, all), target);
}

/// Writes what changes nothing to every copy.
fn nothing(
    part: &BoundKernel,
    scatter: &ScatterStore,
    monoid: Monoid,
    copies: usize,
    block: PassBuffer,
) -> BoundKernel {
    let dtype = scatter.dtype.compute();
    let mut rewriter = KernelRewriter::new(part, 0);
    let (_, position) = rewriter.axis(copies, 0);
    let value = rewriter.builder.constant(monoid.neutral(dtype), dtype);
    rewriter.store(block, value, 0, position, copies);
    rewriter.finish()
}

/// The updates of a piece's parts, each to its copy.
fn of_group(
    part: &BoundKernel,
    scatter: &ScatterStore,
    split_point: &SplitPoint,
    group: &PartGroup,
    block: PassBuffer,
) -> BoundKernel {
    let mut rewriter = KernelRewriter::new(part, 0);
    let (number, _) = rewriter.keep_group(split_point, group);
    for axis in part.kernel.level_axes(0).filter(|axis| !scatter.axes.contains(axis)) {
        rewriter.keep_at(axis, 0);
    }
    let axes = rewriter.keep_rows(split_point, group, 0);
    let (index, value) = (rewriter.copy(scatter.index), rewriter.copy(scatter.value));
    let address = number.times(scatter.numel as i64).plus(&rewriter.affine(&scatter.address));
    let scattered = ScatterStore {
        dtype: scatter.dtype.compute(),
        index,
        value,
        address,
        axes,
        numel: split_point.parts() * scatter.numel,
        ..scatter.clone()
    };
    rewriter.scatter(scattered, block)
}

/// All copies of each element together.
fn combined(
    part: &BoundKernel,
    scatter: &ScatterStore,
    monoid: Monoid,
    split_point: &SplitPoint,
    blocks: [PassBuffer; 2],
) -> BoundKernel {
    let (numel, dtype) = (scatter.numel, scatter.dtype.compute());
    let mut rewriter = KernelRewriter::new(part, 0);
    let (_, element) = rewriter.axis(numel, 0);
    let (_, copy) = rewriter.axis(split_point.parts(), 1);
    let affine = copy.times(numel as i64).plus(&element);
    let x = rewriter.load_as(dtype, blocks[0], split_point.parts() * numel, affine);
    let value = rewriter.builder.expr(Expr::Reduce(monoid, x), dtype, 0);
    rewriter.store(blocks[1], value, 0, element, numel);
    rewriter.finish()
}

/// One update of every element.
fn with_the_elements(part: &BoundKernel, scatter: &ScatterStore, block: PassBuffer) -> BoundKernel {
    let (numel, dtype) = (scatter.numel, scatter.dtype.compute());
    let mut rewriter = KernelRewriter::new(part, 0);
    let (_, element) = rewriter.axis(numel, 0);
    let value = rewriter.load_as(dtype, block, numel, element.clone());
    let index = rewriter.builder.expr(Expr::Index(element.into()), DType::I64, 0);
    let scattered = ScatterStore {
        index,
        value,
        address: Affine::default(),
        stride: 1,
        extent: numel,
        axes: Vec::new(),
        ..scatter.clone()
    };
    rewriter.scatter(scattered, part.outputs[0])
}
