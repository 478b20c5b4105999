//! Blocks of a matrix whose elements are those of one input, moved: the
//! patches of a convolution, padding, any view that strides per matrix axis do
//! not describe. Elements along the innermost axis are copied as runs.

use std::fmt;
use std::ops::Range;

use kiln_simd::micro::{self, BatchedRowsFn, LaneType, MAX_OPERANDS, MicroFn, RowBatch, StridedFn};
use smallvec::SmallVec;

use crate::base::DType;
use crate::kernel::{Affine, AxisId, Expr, ExprId, Kernel};
use crate::runtime::cpu::memory::MemoryView;
use crate::runtime::cpu::thresholds::{
    BATCHED_ROW_COLUMNS, WINDOW_CLEARED_ROW_BYTES, WINDOW_FEW_ROWS, WINDOW_PREFETCH_MAX_STRIDE,
};
use crate::runtime::cpu::tile::product::StridedBlock;
use crate::runtime::cpu::tile::run::solve_range;

/// Conditions that windows have room for without allocation: one per padded
/// axis of an image.
const CONDITIONS: usize = 3;

/// A load over batches of matrices: their lines and the elements along a row
/// are each a row-major run over some axes.
#[derive(Debug)]
pub struct Window {
    input: u32,
    dtype: DType,
    batch: Vec<CopyAxis>,
    lines: Vec<CopyAxis>,
    along: Vec<CopyAxis>,
    /// The address where all axes are 0.
    start: i64,
    conditions: SmallVec<[Condition; CONDITIONS]>,
    copy: RowCopy,
}

/// How a run gets from memory to a block.
#[derive(Clone, Copy, Debug)]
enum RowCopy {
    /// As it is.
    Bytes,
    /// The same, all rows of a patch at once.
    Short(BatchedRowsFn),
    /// Widened.
    Widen(MicroFn),
    /// From elements at equal distances.
    Strided(StridedFn),
}

/// An axis, with what a position along it adds to each value.
#[derive(Debug)]
struct CopyAxis {
    extent: usize,
    step: AffineValues,
}

/// An address, and the values that the conditions are about.
#[derive(Clone, Debug, Default)]
struct AffineValues {
    address: i64,
    conditions: SmallVec<[i64; CONDITIONS]>,
}

/// `low <= value < high`; elements where it does not hold are 0.
#[derive(Clone, Copy, Debug)]
struct Condition {
    start: i64,
    low: i64,
    high: i64,
}

/// Elements of a line: whole rows along the innermost axis, one after the other along the axis
/// around it, or a part of one row.
#[derive(Debug)]
struct Patch {
    /// The first element's place in the block's line.
    offset: usize,
    rows: usize,
    /// Elements of a row.
    len: usize,
    values: AffineValues,
}

/// See [`Window::ahead`].
struct WindowPrefetch {
    distance: i64,
    every: usize,
}

impl RowCopy {
    /// From what the elements of a row lie along.
    fn of(dtype: DType, row: Option<&CopyAxis>) -> RowCopy {
        let (step, extent) = row.map_or((1, 1), |axis| (axis.step.address, axis.extent));
        match (step, micro::load(dtype)) {
            (1, None) if extent <= BATCHED_ROW_COLUMNS => {
                RowCopy::Short(micro::copy_rows(LaneType::of(dtype)))
            }
            (1, None) => RowCopy::Bytes,
            (1, Some(function)) => RowCopy::Widen(function),
            (_, _) => RowCopy::Strided(micro::load_strided(dtype)),
        }
    }
}

impl AffineValues {
    /// Makes it another, of as many conditions.
    fn set(&mut self, other: &AffineValues) {
        self.address = other.address;
        self.conditions.copy_from_slice(&other.conditions);
    }

    /// Adds what a position of a row-major run over axes does.
    fn move_to(&mut self, axes: &[CopyAxis], position: usize) {
        let mut rest = position;
        for axis in axes.iter().rev() {
            self.add(&axis.step, (rest % axis.extent) as i64);
            rest /= axis.extent;
        }
    }

    fn add(&mut self, step: &AffineValues, times: i64) {
        self.address += step.address * times;
        for (value, step) in self.conditions.iter_mut().zip(&step.conditions) {
            *value += step * times;
        }
    }
}

impl Window {
    /// The window that a value is, if it is one: a kernel's axes, all of level
    /// 0, are those of the batch, the lines and along them.
    pub fn of(kernel: &Kernel, groups: &[Vec<AxisId>; 3], value: ExprId) -> Option<Window> {
        let (input, access) = match kernel.expr(value) {
            Expr::Load(input, access) => (*input, access),
            // Registers hold 16-bit floats as what this makes of them.
            Expr::Cast(x) if widens(kernel.exprs[x.index()].dtype, kernel.exprs[value.index()].dtype) => {
                return Window::of(kernel, groups, *x);
            }
            _ => return None,
        };
        if !access.dynamic.is_empty() || !access.guard.masks.is_empty() {
            return None;
        }
        let step = |affine: &Affine, axis: AxisId| affine.coefficient(axis);
        let axis = |&axis: &AxisId| CopyAxis {
            extent: kernel.axes[axis.index()].extent,
            step: AffineValues {
                address: step(&access.affine, axis),
                conditions: access.guard.within.iter().map(|within| step(&within.value, axis)).collect(),
            },
        };
        let [batch, lines, along] = [0, 1, 2].map(|i| groups[i].iter().map(axis).collect::<Vec<CopyAxis>>());
        let dtype = kernel.inputs[input as usize].dtype;
        let copy = RowCopy::of(dtype, along.last());
        let condition =
            |w: &crate::kernel::Within| Condition { start: w.value.offset, low: w.low, high: w.high };
        let conditions = access.guard.within.iter().map(condition).collect();
        Some(Window { input, dtype, batch, lines, along, start: access.affine.offset, conditions, copy })
    }

    /// Number of the input.
    pub fn input(&self) -> u32 {
        self.input
    }

    /// Writes a block: some lines, and some elements of each.
    ///
    /// # Safety
    /// `memory` is the input's, which the window's kernel reads inside of; the
    /// block is writable.
    pub unsafe fn write(
        &self,
        memory: MemoryView,
        batch: usize,
        lines: Range<usize>,
        along: Range<usize>,
        block: StridedBlock,
    ) {
        if self.is_matrix() {
            // SAFETY: the caller's promise.
            return unsafe { self.write_matrix(memory, batch, lines, along, block) };
        }
        let start = AffineValues {
            address: self.start,
            conditions: self.conditions.iter().map(|condition| condition.start).collect(),
        };
        let start = values_at(&self.batch, batch, &start);
        let patches = self.patches(along);
        // For few lines finding out takes as long as it saves.
        let reach = (lines.len() > WINDOW_FEW_ROWS).then(|| self.reach(&patches));
        let next = self.prefetch_distance();
        let mut partial: SmallVec<[bool; CONDITIONS]> = SmallVec::from_elem(true, self.conditions.len());
        let mut values = start.clone();
        for line in lines.clone() {
            match self.lines.last() {
                Some(axis) if line > lines.start && !line.is_multiple_of(axis.extent) => {
                    values.add(&axis.step, 1)
                }
                _ => {
                    values.set(&start);
                    values.move_to(&self.lines, line);
                }
            }
            let to = block.start.wrapping_add((line - lines.start) * block.row_stride * block.lane);
            if let Some(reach) = &reach {
                self.find_partial(&values, reach, &mut partial);
            }
            if next.distance != 0 && line.is_multiple_of(next.every) {
                patches.iter().for_each(|patch| self.prefetch(memory, &values, patch, next.distance));
            }
            for patch in &patches {
                // SAFETY: the caller's promise.
                unsafe {
                    self.copy(memory, &values, &partial, patch, to.wrapping_add(patch.offset * block.lane))
                };
            }
        }
    }

    /// Whether all elements are there, and lines and the elements of each lie along one axis.
    fn is_matrix(&self) -> bool {
        self.conditions.is_empty() && self.lines.len() <= 1 && self.along.len() <= 1
    }

    /// Writes a block where the window is a matrix.
    ///
    /// # Safety
    /// As [`Window::write`].
    unsafe fn write_matrix(
        &self,
        memory: MemoryView,
        batch: usize,
        lines: Range<usize>,
        along: Range<usize>,
        block: StridedBlock,
    ) {
        let step = |axes: &[CopyAxis]| axes.first().map_or(0, |axis| axis.step.address);
        let start = AffineValues { address: self.start, conditions: SmallVec::new() };
        let first = values_at(&self.batch, batch, &start).address
            + lines.start as i64 * step(&self.lines)
            + along.start as i64 * step(&self.along);
        let size = self.dtype.size() as isize;
        let from = memory.start.wrapping_offset(first as isize * size).cast_const();
        let pitch = step(&self.lines) as isize * size;
        let apart = RowBatch::unary(lines.len(), block.row_stride * block.lane, pitch as usize);
        // SAFETY: the caller's promise.
        unsafe { self.copy_rows(block.start, from, along.len(), &apart) }
    }

    /// The patches of some elements of a line; all rows have the same.
    fn patches(&self, along: Range<usize>) -> SmallVec<[Patch; 8]> {
        let zero = AffineValues { address: 0, conditions: self.conditions.iter().map(|_| 0).collect() };
        let extent = self.along.last().map_or(1, |axis| axis.extent);
        let outer = self.outer();
        let rows = outer.filter(|_| self.rectangular()).map_or(1, |axis| axis.extent);
        let mut patches = SmallVec::new();
        let mut next = along.start;
        while next < along.end {
            let (row, rest) = (next / extent, along.end - next);
            let whole = next.is_multiple_of(extent) && rest >= extent;
            let (rows, len) = if whole {
                ((rows - row % rows).min(rest / extent), extent)
            } else {
                (1, (extent - next % extent).min(rest))
            };
            patches.push(Patch {
                offset: next - along.start,
                rows,
                len,
                values: values_at(&self.along, next, &zero),
            });
            next += rows * len;
        }
        patches
    }

    /// The axis around the innermost.
    fn outer(&self) -> Option<&CopyAxis> {
        self.along.iter().rev().nth(1)
    }

    /// Whether what holds of a patch is a rectangle: no condition is about both its rows and the
    /// elements along them.
    fn rectangular(&self) -> bool {
        (0..self.conditions.len()).all(|i| self.step(i) == 0 || self.row_step(i) == 0)
    }

    /// What to prefetch while rows are copied: the same of the outermost axis's next, for as
    /// few lines as have all of it, if neighbours on the innermost axis read about the same.
    fn prefetch_distance(&self) -> WindowPrefetch {
        let inner = self.lines.get(1..).and_then(<[CopyAxis]>::last);
        let outer = self.lines.first().filter(|_| self.stride().unsigned_abs() <= WINDOW_PREFETCH_MAX_STRIDE);
        WindowPrefetch {
            distance: outer.map_or(0, |axis| axis.step.address),
            every: inner.map_or(1, |axis| axis.extent),
        }
    }

    /// Prefetches a patch so far behind one.
    fn prefetch(&self, memory: MemoryView, line: &AffineValues, patch: &Patch, distance: i64) {
        let size = self.dtype.size();
        for row in 0..patch.rows {
            let first = line.address + patch.values.address + distance + row as i64 * self.pitch();
            let start = memory.start.wrapping_offset(first as isize * size as isize);
            micro::prefetch_l2(start, patch.len * self.stride().unsigned_abs() as usize * size);
        }
    }

    /// From an element of a row to the next.
    fn stride(&self) -> i64 {
        self.along.last().map_or(1, |axis| axis.step.address)
    }

    /// From a row of a patch to the next.
    fn pitch(&self) -> i64 {
        self.outer().map_or(0, |axis| axis.step.address)
    }

    /// What a condition's value grows by from an element of a row to the next.
    fn step(&self, condition: usize) -> i64 {
        self.along.last().map_or(0, |axis| axis.step.conditions[condition])
    }

    /// The same from a row of a patch to the next.
    fn row_step(&self, condition: usize) -> i64 {
        self.outer().map_or(0, |axis| axis.step.conditions[condition])
    }

    /// The least and the greatest that a condition's value is on a patch, of a line's value.
    fn bounds(&self, condition: usize, patch: &Patch) -> (i64, i64) {
        let grows = [
            self.step(condition) * (patch.len as i64 - 1),
            self.row_step(condition) * (patch.rows as i64 - 1),
        ];
        let first = patch.values.conditions[condition];
        let reach = |end: fn(i64, i64) -> i64| first + grows.iter().map(|&grown| end(grown, 0)).sum::<i64>();
        (reach(i64::min), reach(i64::max))
    }

    /// The least and the greatest that patches add to each condition's value.
    fn reach(&self, patches: &[Patch]) -> SmallVec<[(i64, i64); CONDITIONS]> {
        let bounds = |i| {
            let bounds = patches.iter().map(|patch| self.bounds(i, patch));
            bounds.fold((i64::MAX, i64::MIN), |(least, most), (low, high)| (least.min(low), most.max(high)))
        };
        (0..self.conditions.len()).map(bounds).collect()
    }

    /// Which conditions may not hold everywhere on a line; mostly none.
    fn find_partial(&self, line: &AffineValues, reach: &[(i64, i64)], partial: &mut [bool]) {
        for (i, (partial, (least, greatest))) in partial.iter_mut().zip(reach).enumerate() {
            let (Condition { low, high, .. }, value) = (self.conditions[i], line.conditions[i]);
            *partial = value + least < low || value + greatest >= high;
        }
    }

    /// The rows of a patch and the elements of each where all conditions hold.
    fn inside(&self, line: &AffineValues, partial: &[bool], patch: &Patch) -> [Range<usize>; 2] {
        let mut inside = [0..patch.rows, 0..patch.len];
        for (i, &Condition { low, high, .. }) in self.conditions.iter().enumerate() {
            if !partial[i] {
                continue;
            }
            let (least, greatest) = self.bounds(i, patch);
            if line.conditions[i] + least >= low && line.conditions[i] + greatest < high {
                continue;
            }
            let first = line.conditions[i] + patch.values.conditions[i];
            // It is about one of the two.
            let (axis, step) = match self.row_step(i) {
                step if patch.rows > 1 && step != 0 => (0, step),
                _ => (1, self.step(i)),
            };
            let held = solve_range(first, step, low, high);
            inside[axis] = inside[axis].start.max(held.start)..inside[axis].end.min(held.end);
        }
        inside
    }

    /// # Safety
    /// As [`Window::write`], for a patch at `to` and what is open on its line.
    #[inline]
    unsafe fn copy(
        &self,
        memory: MemoryView,
        line: &AffineValues,
        partial: &[bool],
        patch: &Patch,
        to: *mut u8,
    ) {
        let [rows, inside] = self.inside(line, partial, patch);
        let lane = LaneType::of(self.dtype).size();
        let row = patch.len * lane;
        if rows.is_empty() || inside.is_empty() {
            // SAFETY: the caller's promise; zero bytes are 0 in every type.
            return unsafe { to.write_bytes(0, patch.rows * row) };
        }
        let (step, size) = (self.stride(), self.dtype.size() as isize);
        let first = line.address + patch.values.address + inside.start as i64 * step;
        let pitch = self.pitch() as isize * size;
        let from = memory.start.wrapping_offset(first as isize * size).cast_const();
        let (before, count) = (inside.start * lane, inside.len());
        let after = row - before - count * lane;
        // SAFETY: the caller's promise.
        unsafe {
            // A call for each edge of each row takes longer than to clear short rows whole.
            let short = row <= WINDOW_CLEARED_ROW_BYTES && before + after > 0;
            if short {
                to.write_bytes(0, patch.rows * row);
            } else {
                to.write_bytes(0, rows.start * row);
                to.add(rows.end * row).write_bytes(0, (patch.rows - rows.end) * row);
            }
            let apart = RowBatch::unary(rows.len(), row, pitch as usize);
            let (to, from) =
                (to.add(rows.start * row + before), from.wrapping_offset(rows.start as isize * pitch));
            // Most rows are inside, and even nothing is a call.
            if before > 0 && !short {
                apart.row_ptrs(to, from).for_each(|(to, _)| to.sub(before).write_bytes(0, before));
            }
            if after > 0 && !short {
                apart.row_ptrs(to, from).for_each(|(to, _)| to.add(count * lane).write_bytes(0, after));
            }
            self.copy_rows(to, from, count, &apart);
        }
    }

    /// Copies `count` elements of each row.
    ///
    /// # Safety
    /// They are readable, and writable as registers hold them.
    #[inline]
    unsafe fn copy_rows(&self, to: *mut u8, from: *const u8, count: usize, apart: &RowBatch) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.copy {
                RowCopy::Short(function) => function(to, [from; MAX_OPERANDS], count, apart),
                RowCopy::Bytes => {
                    let bytes = count * LaneType::of(self.dtype).size();
                    apart.row_ptrs(to, from).for_each(|(to, from)| to.copy_from_nonoverlapping(from, bytes));
                }
                RowCopy::Widen(function) => {
                    apart
                        .row_ptrs(to, from)
                        .for_each(|(to, from)| function(to, [from; MAX_OPERANDS], count, from));
                }
                RowCopy::Strided(function) => function(to, from, self.stride() as isize, count, apart),
            }
        }
    }
}

/// The values at a position of a row-major run over axes.
fn values_at(axes: &[CopyAxis], position: usize, start: &AffineValues) -> AffineValues {
    let mut values = start.clone();
    values.move_to(axes, position);
    values
}

/// Whether memory of one type becomes registers of the other as it is loaded.
fn widens(from: DType, to: DType) -> bool {
    matches!(from, DType::F16 | DType::BF16) && to == DType::F32
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Window { input, dtype, start, .. } = self;
        writeln!(f, "window of in{input}: {dtype} from {start}")?;
        for (name, axes) in [("batch", &self.batch), ("line", &self.lines), ("along", &self.along)] {
            for CopyAxis { extent, step } in axes {
                writeln!(f, "  {name} of {extent}: {} apart, {:?}", step.address, step.conditions)?;
            }
        }
        for Condition { start, low, high } in &self.conditions {
            writeln!(f, "  if {low} <= {start} + .. < {high}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
