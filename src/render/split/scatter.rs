//! Scatters of many updates to few elements by parts: each part of the updates combines
//! its own copy of the elements, from what changes nothing on; the copies are combined,
//! and the result with the elements themselves.

use crate::base::{DType, Scalar};
use crate::ir::monoid::MonoidState;
use crate::ir::{Monoid, ScatterMode};
use crate::kernel::{Affine, Expr, Kernel, ScatterStore};
use crate::render::shader::PassBuffer;
use crate::render::split::draft::Draft;
use crate::render::split::{Cut, KernelSequence, Part, Piece};
use crate::render::target::{Adapter, GpuTarget};

/// What combines copies, if the order of updates does not matter but for rounding.
fn monoid(mode: ScatterMode) -> Option<Monoid> {
    match mode {
        ScatterMode::Set => None,
        ScatterMode::Add => Some(Monoid::Sum),
        ScatterMode::Mul => Some(Monoid::Prod),
        ScatterMode::Max => Some(Monoid::Max),
        ScatterMode::Min => Some(Monoid::Min),
    }
}

/// How the updates are cut, if they should be: copies that take no more memory than the
/// updates do twice, of thousands of updates each.
pub fn cut(kernel: &Kernel, scatter: &ScatterStore, target: &GpuTarget) -> Option<Cut> {
    const UPDATES: usize = 1 << 12;
    const PARTS: usize = 512;
    // A host's processor has few threads to share the updates between.
    if target.adapter == Adapter::Software || monoid(scatter.mode).is_none() {
        return None;
    }
    let updates = kernel.points_of(&scatter.axes);
    let copies = 2 * kernel.level_points(0) / scatter.numel.max(1);
    let parts = (updates / UPDATES).min(copies).min(PARTS);
    let bytes = (parts * scatter.numel * scatter.dtype.compute().size()) as u64;
    (parts >= 4 && bytes <= target.max_binding).then(|| Cut::new(kernel, &scatter.axes, parts))?
}

/// The kernels: what changes nothing, the updates of each piece, all copies together, and
/// those with the elements.
pub fn split(split: &mut KernelSequence, part: &Part, scatter: &ScatterStore, cut: &Cut, target: &GpuTarget) {
    let Some(monoid) = monoid(scatter.mode) else { panic!("parts of updates whose order matters") };
    let dtype = scatter.dtype.compute();
    let copies = cut.parts() * scatter.numel;
    let (each, all) = (split.block(copies * dtype.size()), split.block(scatter.numel * dtype.size()));
    split.add(nothing(part, scatter, monoid, copies, each), target);
    for piece in &cut.pieces {
        split.add(of_piece(part, scatter, cut, piece, each), target);
    }
    split.add(combined(part, scatter, monoid, cut, [each, all]), target);
    split.add(with_the_elements(part, scatter, all), target);
}

/// Writes what changes nothing to every copy.
fn nothing(part: &Part, scatter: &ScatterStore, monoid: Monoid, copies: usize, block: PassBuffer) -> Part {
    let dtype = scatter.dtype.compute();
    let mut draft = Draft::new(part, 0);
    let (_, position) = draft.axis(copies, 0);
    let identity = match monoid.identity(dtype) {
        MonoidState::Float(value, ..) => Scalar::Float(value),
        MonoidState::Int(value, _) => Scalar::Int(value),
    };
    let value = draft.builder.constant(identity, dtype);
    draft.store(block, value, 0, position, copies);
    draft.finish()
}

/// The updates of a piece's parts, each to its copy.
fn of_piece(part: &Part, scatter: &ScatterStore, cut: &Cut, piece: &Piece, block: PassBuffer) -> Part {
    let mut draft = Draft::new(part, 0);
    let (number, _) = draft.keep_piece(cut, piece);
    for axis in part.kernel.level_axes(0).filter(|axis| !scatter.axes.contains(axis)) {
        draft.keep_at(axis, 0);
    }
    let axes = draft.keep_rows(cut, piece, 0);
    let (index, value) = (draft.copy(scatter.index), draft.copy(scatter.value));
    let address = number.times(scatter.numel as i64).plus(&draft.affine(&scatter.address));
    let scattered = ScatterStore {
        dtype: scatter.dtype.compute(),
        index,
        value,
        address,
        axes,
        numel: cut.parts() * scatter.numel,
        ..scatter.clone()
    };
    draft.scatter(scattered, block)
}

/// All copies of each element together.
fn combined(part: &Part, scatter: &ScatterStore, monoid: Monoid, cut: &Cut, blocks: [PassBuffer; 2]) -> Part {
    let (numel, dtype) = (scatter.numel, scatter.dtype.compute());
    let mut draft = Draft::new(part, 0);
    let (_, element) = draft.axis(numel, 0);
    let (_, copy) = draft.axis(cut.parts(), 1);
    let affine = copy.times(numel as i64).plus(&element);
    let x = draft.load_as(dtype, blocks[0], cut.parts() * numel, affine);
    let value = draft.builder.expr(Expr::Reduce(monoid, x), dtype, 0);
    draft.store(blocks[1], value, 0, element, numel);
    draft.finish()
}

/// One update of every element.
fn with_the_elements(part: &Part, scatter: &ScatterStore, block: PassBuffer) -> Part {
    let (numel, dtype) = (scatter.numel, scatter.dtype.compute());
    let mut draft = Draft::new(part, 0);
    let (_, element) = draft.axis(numel, 0);
    let value = draft.load_as(dtype, block, numel, element.clone());
    let index = draft.builder.expr(Expr::Index(element.into()), DType::I64, 0);
    let scattered = ScatterStore {
        index,
        value,
        address: Affine::default(),
        stride: 1,
        extent: numel,
        axes: Vec::new(),
        ..scatter.clone()
    };
    draft.scatter(scattered, part.outputs[0])
}
