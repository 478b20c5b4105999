//! Kernels whose loops are too long for the device, or whose points are too
//! few to keep it busy, become several kernels that run one after the other.
//!
//! All of them are ordinary kernels, which share blocks of scratch memory:
//!
//! - [`reduction`]: the rows are cut into pieces; one kernel reduces each
//!   piece, another reduces what the pieces gave and computes what follows.
//! - [`scan`]: the same, and a third kernel scans each piece again, starting
//!   from what comes before it.
//! - [`contraction`]: the contracted axis is cut into pieces whose products
//!   are summed.
//! - [`scatter`]: the updates are cut into parts that change copies of their own,
//!   which are combined.
//! - [`materialize`]: what a contraction multiplies is computed before.
//! - [`fission`]: any other kernel has its reductions and scans computed one
//!   by one, each by one of the forms above.
//!
//! Which pieces there are follows from the kernel and the target alone, so
//! that results repeat bitwise.

pub mod contraction;
pub mod fission;
pub mod materialize;
pub mod reduction;
pub mod rewriter;
pub mod scan;
pub mod scatter;

use crate::base::Optimization;
use crate::kernel::{AxisId, Expr, ExprId, ExprNode, Kernel};
use crate::render::coalesce::coalesce;
use crate::render::iterations;
use crate::render::narrow::narrow;
use crate::render::shader::PassBuffer;
use crate::render::target::{Adapter, GpuTarget};
use crate::render::thread_mapping;
use crate::render::thresholds;

/// A kernel with the memory behind its inputs and outputs.
#[derive(Clone, Debug)]
pub struct BoundKernel {
    /// The kernel.
    pub kernel: Kernel,
    /// Behind each of the kernel's inputs.
    pub inputs: Vec<PassBuffer>,
    /// Behind each of the kernel's stores, or behind its scatter.
    pub outputs: Vec<PassBuffer>,
}

/// What a kernel became: parts in the order in which they run.
#[derive(Clone, Debug, Default)]
pub struct KernelSequence {
    /// The kernels.
    pub parts: Vec<BoundKernel>,
    /// Bytes of each block of memory that the parts share.
    pub scratch: Vec<usize>,
}

impl BoundKernel {
    /// A kernel with the memory of its launch.
    pub fn whole(kernel: Kernel) -> BoundKernel {
        let outputs = kernel.stores.len().max(1);
        let inputs = (0..kernel.inputs.len()).map(PassBuffer::Input).collect();
        BoundKernel { kernel, inputs, outputs: (0..outputs).map(PassBuffer::Output).collect() }
    }
}

/// The parts of a kernel: itself, where it suits the device as it is.
pub fn split(kernel: &Kernel, target: &GpuTarget) -> KernelSequence {
    let mut split = KernelSequence::default();
    split.add(BoundKernel::whole(kernel.clone()), target);
    split
}

impl KernelSequence {
    /// Adds a part, in parts of its own if need be.
    fn add(&mut self, part: BoundKernel, target: &GpuTarget) {
        let part = BoundKernel { kernel: narrow(&coalesce(&part.kernel)), ..part };
        let kernel = &part.kernel;
        // Attention keeps to the limits or is no kernel: `render::attention`.
        // Rows of rows of nothing are rows.
        if kernel.attention().is_some() || kernel.points(kernel.depth().min(1)) == 0 {
            return self.parts.push(part);
        }
        if let Some(scatter) = kernel.scatter() {
            return match scatter::split_point(kernel, scatter, target) {
                Some(split_point) => scatter::split(self, &part, scatter, &split_point, target),
                None => self.parts.push(part),
            };
        }
        if let Some(c) = kernel.contraction() {
            return match contraction::split_point(kernel, c, target) {
                Some(split_point) => contraction::split(self, &part, c, &split_point, target),
                None => self.parts.push(part),
            };
        }
        match Form::of(kernel) {
            Form::Reduction => match self::split_point(kernel, target) {
                Some(split_point) => reduction::split(self, &part, &split_point, target),
                None => self.parts.push(part),
            },
            Form::Scan(scan) => match self::split_point(kernel, target) {
                Some(split_point) => scan::split(self, &part, scan, &split_point, target),
                None => self.parts.push(part),
            },
            Form::Points if thread_mapping::rows(kernel, target).is_ok() => self.parts.push(part),
            Form::Nested
                if thread_mapping::rows(kernel, target).is_ok() && !leaves_device_idle(kernel, target) =>
            {
                self.parts.push(part);
            }
            Form::Points | Form::Nested => fission::split(self, &part, target),
        }
    }

    /// A new block of memory that parts share.
    fn block(&mut self, bytes: usize) -> PassBuffer {
        self.scratch.push(bytes);
        PassBuffer::Scratch(self.scratch.len() - 1)
    }
}

/// What loops a kernel without contraction and scatter has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::render) enum Form {
    /// None.
    Points,
    /// One, for reductions that do not depend on each other; stores follow it.
    Reduction,
    /// One, for this scan.
    Scan(ExprId),
    /// Others.
    Nested,
}

impl Form {
    /// The form of a kernel.
    pub fn of(kernel: &Kernel) -> Form {
        let loops = loops(kernel);
        let is_scan = |id: &ExprId| matches!(kernel.expr(*id), Expr::Scan(..));
        let stored = kernel.stores.iter().map(|store| store.level).max().unwrap_or(0);
        match &loops[..] {
            [] => Form::Points,
            [one] if is_scan(one) && kernel.depth() == 1 && stored <= 1 => Form::Scan(*one),
            all if kernel.depth() == 1 && stored == 0 && !all.iter().any(is_scan) => {
                let chained = all.iter().any(|&id| depends_on_loop(kernel, id));
                if chained { Form::Nested } else { Form::Reduction }
            }
            _ => Form::Nested,
        }
    }
}

/// The reductions and scans that stores need, operands first.
fn loops(kernel: &Kernel) -> Vec<ExprId> {
    let stores: Vec<ExprId> = kernel.stores.iter().map(|store| store.value).collect();
    let is_loop = |id: &ExprId| matches!(kernel.expr(*id), Expr::Reduce(..) | Expr::Scan(..));
    rewriter::needed(kernel, &stores, |_| false).into_iter().filter(is_loop).collect()
}

/// Whether another reduction or scan lies behind one.
fn depends_on_loop(kernel: &Kernel, id: ExprId) -> bool {
    let is_loop = |other: &ExprId| matches!(kernel.expr(*other), Expr::Reduce(..) | Expr::Scan(..));
    rewriter::needed(kernel, &[id], |_| false).iter().filter(|&&other| other != id).any(is_loop)
}

/// How rows are cut. In row-major order of the rows, the parts of each
/// position along the outer axes come first to last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitPoint {
    /// Axes outside the one that is cut: every position has parts of its own.
    pub outer: Vec<AxisId>,
    /// The axis that is cut.
    pub axis: AxisId,
    /// Axes inside it: they stay whole.
    pub inner: Vec<AxisId>,
    /// Pieces of the axis: many of one length, and perhaps a shorter last one.
    pub part_groups: Vec<PartGroup>,
    /// Positions of the outer axes together.
    pub outer_rows: usize,
    /// Positions of the inner axes together.
    pub inner_rows: usize,
}

/// Neighbouring parts of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartGroup {
    /// Where on the axis the first starts.
    pub start: usize,
    /// Its number.
    pub first: usize,
    /// How many there are.
    pub count: usize,
    /// Positions of each.
    pub length: usize,
}

impl SplitPoint {
    /// Cuts rows into about so many parts, of two rows or more and of lengths that
    /// vectors divide; `None` if there are not enough rows for two parts.
    pub fn new(kernel: &Kernel, axes: &[AxisId], parts: usize) -> Option<SplitPoint> {
        SplitPoint::by(kernel, axes, parts, |exact, _| {
            if exact > thresholds::VECTOR_PART_ROWS { exact / 4 * 4 } else { exact }
        })
    }

    /// The same, but of parts whose rows a unit divides, where they need not be more than twice
    /// as long for that.
    pub fn in_units(kernel: &Kernel, axes: &[AxisId], parts: usize, unit: usize) -> Option<SplitPoint> {
        SplitPoint::by(kernel, axes, parts, |exact, inner| {
            let whole = exact.next_multiple_of(unit / common_divisor(unit, inner));
            if whole > 2 * exact { exact } else { whole }
        })
    }

    /// The same, of a length along the axis that is cut which follows from the exact one and
    /// from the positions of the axes inside it.
    fn by(
        kernel: &Kernel,
        axes: &[AxisId],
        parts: usize,
        length: impl Fn(usize, usize) -> usize,
    ) -> Option<SplitPoint> {
        let extent = |axis: &AxisId| kernel.axes[axis.index()].extent;
        let wide: Vec<AxisId> = axes.iter().copied().filter(|axis| extent(axis) > 1).collect();
        let product = |axes: &[AxisId]| axes.iter().map(extent).product::<usize>();
        // Fewer parts than rows, so that cutting what combines them ends.
        let parts = parts.min(product(&wide) / 2);
        let at = (0..wide.len()).find(|&at| product(&wide[..=at]) >= parts)?;
        let (outer, inner) = (&wide[..at], &wide[at + 1..]);
        let whole = extent(&wide[at]);
        let exact = whole.div_ceil(parts.div_ceil(product(outer)));
        let part_groups = part_groups(whole, length(exact, product(inner)).min(whole));
        (product(outer) * count(&part_groups) > 1).then(|| SplitPoint {
            outer: outer.to_vec(),
            axis: wide[at],
            inner: inner.to_vec(),
            part_groups,
            outer_rows: product(outer),
            inner_rows: product(inner),
        })
    }

    /// Parts for each position of the outer axes.
    pub fn each(&self) -> usize {
        count(&self.part_groups)
    }

    /// All parts.
    pub fn parts(&self) -> usize {
        self.outer_rows * self.each()
    }

    /// Rows of each part of a piece.
    pub fn rows(&self, group: &PartGroup) -> usize {
        group.length * self.inner_rows
    }
}

fn common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

fn count(part_groups: &[PartGroup]) -> usize {
    part_groups.iter().map(|group| group.count).sum()
}

/// An axis in pieces of a length, and perhaps a shorter one.
fn part_groups(extent: usize, length: usize) -> Vec<PartGroup> {
    let whole = extent / length;
    let main = PartGroup { start: 0, first: 0, count: whole, length };
    let rest = extent - whole * length;
    let last = PartGroup { start: whole * length, first: whole, count: 1, length: rest };
    if rest > 0 { vec![main, last] } else { vec![main] }
}

/// How the rows of a kernel with one loop are cut, if they should be.
fn split_point(kernel: &Kernel, target: &GpuTarget) -> Option<SplitPoint> {
    let (points, rows) = (kernel.level_points(0), kernel.level_points(1));
    let axes: Vec<AxisId> = kernel.level_axes(1).collect();
    let suited = match thread_mapping::rows(kernel, target) {
        Ok(_) if thread_mapping::is_across(kernel, target) => parts_for_coalescing(points, rows),
        Ok(_) => parts_to_fill_device(points, rows, target).or_else(|| parts_for_locality(kernel, target)),
        // Pieces of half of what the driver carries out.
        Err(_) => {
            let most =
                target.max_iterations / iterations::of_step(kernel, 1, thresholds::MAX_ELEMENTS_PER_STEP);
            let parts = parts_to_fill_device(points, rows, target).unwrap_or(2);
            Some(parts.max(rows.div_ceil((most as usize / 2).max(1))))
        }
    };
    // A part numbers its rows in 32 bits.
    let numbered = (rows > thresholds::MAX_NUMBERED_ROWS).then(|| 2 * rows.div_ceil(1 << 31));
    SplitPoint::new(kernel, &axes, suited.max(numbered)?)
}

/// Whether the points of a kernel are few and what lies inside them is much, so that its
/// loops keep more of the device busy one by one: in parts, or with points that read
/// neighbours where rows do not.
fn leaves_device_idle(kernel: &Kernel, target: &GpuTarget) -> bool {
    let (points, rows) = (kernel.level_points(0).max(1), kernel.level_points(1));
    let across = points < thresholds::COALESCED_POINTS && thread_mapping::is_across(kernel, target);
    let rows_apart = across && parts_for_coalescing(points, rows).is_some();
    rows_apart || parts_to_fill_device(points, kernel.points(kernel.depth()) / points, target).is_some()
}

/// The parts in which rows are cut where neighbouring points are neighbours in memory, so
/// that a GPU's invocations are many and need not share the rows of a point; `None` where
/// what they read is little, or parts would be few.
fn parts_for_coalescing(points: usize, rows: usize) -> Option<usize> {
    if !Optimization::Split.is_on() {
        return None;
    }
    let parts = (thresholds::COALESCED_THREADS * thresholds::MAX_ELEMENTS_PER_STEP / points.max(1))
        .min(rows / thresholds::MIN_COALESCED_ROWS);
    (points.saturating_mul(rows) >= thresholds::MIN_COALESCED_ELEMENTS
        && parts >= thresholds::MIN_COALESCED_PARTS)
        .then_some(parts)
}

/// The parts in which rows that lie pages apart are cut on a host's processor,
/// so that neighbouring points find a part's lines in its caches: addresses
/// pages apart share a cache's few places for them.
fn parts_for_locality(kernel: &Kernel, target: &GpuTarget) -> Option<usize> {
    if !Optimization::Split.is_on() {
        return None;
    }
    let row = kernel.level_axes(1).filter(|axis| kernel.axes[axis.index()].extent != 1).last()?;
    let distance = |node: &ExprNode| {
        let (slot, access) = node.expr.load()?;
        let size = kernel.inputs[slot as usize].dtype.size();
        Some(access.affine.coefficient(row).unsigned_abs() as usize * size)
    };
    let apart = kernel.exprs.iter().filter_map(distance).any(|bytes| bytes >= thresholds::PAGE_BYTES);
    let parts = kernel.level_points(1) / thresholds::ROWS_PER_CACHE_SET;
    (target.adapter == Adapter::Software && apart && parts >= thresholds::MIN_LOCAL_PARTS).then_some(parts)
}

/// The parts in which the rows of few points keep a device busy; `None` if
/// one suffices.
pub fn parts_to_fill_device(points: usize, rows: usize, target: &GpuTarget) -> Option<usize> {
    if !Optimization::Split.is_on() {
        return None;
    }
    // On a CPU invocations take parts, elsewhere workgroups do.
    let (takers, least) = match target.adapter {
        Adapter::Software => thresholds::SOFTWARE_PARTS,
        Adapter::Integrated => thresholds::INTEGRATED_PARTS,
        Adapter::Discrete => thresholds::DISCRETE_PARTS,
    };
    let parts = (takers / points.max(1)).min(rows / least);
    (rows >= thresholds::MIN_SPLIT_ROWS && parts >= 2).then_some(parts)
}
