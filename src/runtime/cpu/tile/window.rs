//! Blocks of a matrix whose elements are those of one input, moved: the
//! patches of a convolution, padding, any view that strides per matrix axis do
//! not describe. Runs along the innermost axis are copied as runs.

use std::fmt;
use std::ops::Range;

use smallvec::SmallVec;

use crate::base::DType;
use crate::kernel::{Affine, AxisId, Expr, ExprId, Kernel};
use crate::runtime::cpu::memory::Memory;
use crate::runtime::cpu::micro::{self, Lane, MicroFn, StridedFn};
use crate::runtime::cpu::tile::product::Lines;
use crate::runtime::cpu::tile::run::holds;

/// Conditions that windows have room for without allocation: one per padded
/// axis of an image.
const CONDITIONS: usize = 3;

/// A load over batches of matrices: their lines and the elements along a line
/// are each a row-major run over some axes.
#[derive(Debug)]
pub struct Window {
    input: u32,
    dtype: DType,
    batch: Vec<Axis>,
    lines: Vec<Axis>,
    along: Vec<Axis>,
    /// The address where all axes are 0.
    start: i64,
    conditions: SmallVec<[Condition; CONDITIONS]>,
    copy: Copying,
}

/// How a run gets from memory to a block.
#[derive(Clone, Copy, Debug)]
enum Copying {
    /// As it is.
    Bytes,
    /// Widened.
    Widen(MicroFn),
    /// From elements at equal distances.
    Strided(StridedFn),
}

/// An axis, with what a position along it adds to each value.
#[derive(Debug)]
struct Axis {
    extent: usize,
    step: Values,
}

/// An address, and the values that the conditions are about.
#[derive(Clone, Debug, Default)]
struct Values {
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

/// Elements of a line along the innermost axis.
#[derive(Debug)]
struct Run {
    /// The first one's place in the block's line.
    place: usize,
    len: usize,
    values: Values,
}

/// See [`Window::ahead`].
struct Ahead {
    distance: i64,
    every: usize,
}

impl Copying {
    fn of(dtype: DType, step: i64) -> Copying {
        match (step, micro::load(dtype)) {
            (1, None) => Copying::Bytes,
            (1, Some(function)) => Copying::Widen(function),
            (_, _) => Copying::Strided(micro::load_strided(dtype)),
        }
    }
}

impl Values {
    fn add(&mut self, step: &Values, times: i64) {
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
        let axis = |&axis: &AxisId| Axis {
            extent: kernel.axes[axis.index()].extent,
            step: Values {
                address: step(&access.affine, axis),
                conditions: access.guard.within.iter().map(|within| step(&within.value, axis)).collect(),
            },
        };
        let [batch, lines, along] = [0, 1, 2].map(|i| groups[i].iter().map(axis).collect::<Vec<Axis>>());
        let dtype = kernel.inputs[input as usize].dtype;
        let copy = Copying::of(dtype, along.last().map_or(1, |axis| axis.step.address));
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
        memory: Memory,
        batch: usize,
        lines: Range<usize>,
        along: Range<usize>,
        block: Lines,
    ) {
        /// Lines of which each run's conditions are looked at.
        const FEW: usize = 2;
        let start = Values {
            address: self.start,
            conditions: self.conditions.iter().map(|condition| condition.start).collect(),
        };
        let start = at(&self.batch, batch, &start);
        let runs = self.runs(along);
        // For few lines finding out takes as long as it saves.
        let reach = (lines.len() > FEW).then(|| self.reach(&runs));
        let ahead = self.ahead();
        let mut open: SmallVec<[bool; CONDITIONS]> = SmallVec::from_elem(true, self.conditions.len());
        let mut values = start.clone();
        for line in lines.clone() {
            match self.lines.last() {
                Some(axis) if line > lines.start && !line.is_multiple_of(axis.extent) => {
                    values.add(&axis.step, 1)
                }
                _ => values = at(&self.lines, line, &start),
            }
            let to = block.start.wrapping_add((line - lines.start) * block.line * block.lane);
            if let Some(reach) = &reach {
                self.find_open(&values, reach, &mut open);
            }
            for run in &runs {
                if ahead.distance != 0 && line.is_multiple_of(ahead.every) {
                    self.prefetch(memory, &values, run, ahead.distance);
                }
                // SAFETY: the caller's promise.
                unsafe { self.run(memory, &values, &open, run, to.wrapping_add(run.place * block.lane)) };
            }
        }
    }

    /// The runs of some elements of a line; all lines have the same.
    fn runs(&self, along: Range<usize>) -> SmallVec<[Run; 16]> {
        let zero = Values { address: 0, conditions: self.conditions.iter().map(|_| 0).collect() };
        let extent = self.along.last().map_or(1, |axis| axis.extent);
        let mut runs = SmallVec::new();
        let mut next = along.start;
        // Axes around the innermost: mostly the next position is one along the last of them.
        let (outer, inner) = match self.along.split_last() {
            Some((inner, outer)) => (outer, std::slice::from_ref(inner)),
            None => (&[][..], &[][..]),
        };
        let mut row = zero.clone();
        while next < along.end {
            match outer.last() {
                Some(axis) if next > along.start && !(next / extent).is_multiple_of(axis.extent) => {
                    row.add(&axis.step, 1);
                }
                _ => row = at(outer, next / extent, &zero),
            }
            let len = (extent - next % extent).min(along.end - next);
            let values =
                if next.is_multiple_of(extent) { row.clone() } else { at(inner, next % extent, &row) };
            runs.push(Run { place: next - along.start, len, values });
            next += len;
        }
        runs
    }

    /// What to ask for while lines are copied: the same of the outermost axis's next, for as
    /// few lines as have all of it, if neighbours on the innermost axis read about the same.
    fn ahead(&self) -> Ahead {
        /// Elements from one to the next that share lines of the cache.
        const NEAR: u64 = 4;
        let inner = self.lines.get(1..).and_then(<[Axis]>::last);
        let outer = self.lines.first().filter(|_| self.stride().unsigned_abs() <= NEAR);
        Ahead {
            distance: outer.map_or(0, |axis| axis.step.address),
            every: inner.map_or(1, |axis| axis.extent),
        }
    }

    /// Asks for a run so far behind one.
    fn prefetch(&self, memory: Memory, line: &Values, run: &Run, distance: i64) {
        let size = self.dtype.size();
        let first = line.address + run.values.address + distance;
        let start = memory.start.wrapping_offset(first as isize * size as isize);
        micro::prefetch_far(start, run.len * self.stride().unsigned_abs() as usize * size);
    }

    /// From an element of a run to the next.
    fn stride(&self) -> i64 {
        self.along.last().map_or(1, |axis| axis.step.address)
    }

    /// What a condition's value grows by from an element of a run to the next.
    fn step(&self, condition: usize) -> i64 {
        self.along.last().map_or(0, |axis| axis.step.conditions[condition])
    }

    /// The least and the greatest that runs add to each condition's value.
    fn reach(&self, runs: &[Run]) -> SmallVec<[(i64, i64); CONDITIONS]> {
        let mut reach = SmallVec::from_elem((i64::MAX, i64::MIN), self.conditions.len());
        for run in runs {
            for (i, (least, greatest)) in reach.iter_mut().enumerate() {
                let first = run.values.conditions[i];
                let last = first + self.step(i) * (run.len as i64 - 1);
                *least = first.min(last).min(*least);
                *greatest = first.max(last).max(*greatest);
            }
        }
        reach
    }

    /// Which conditions may not hold everywhere on a line; mostly none.
    fn find_open(&self, line: &Values, reach: &[(i64, i64)], open: &mut [bool]) {
        for (i, (open, (least, greatest))) in open.iter_mut().zip(reach).enumerate() {
            let (Condition { low, high, .. }, value) = (self.conditions[i], line.conditions[i]);
            *open = value + least < low || value + greatest >= high;
        }
    }

    /// # Safety
    /// As [`Window::write`], for a run at `to` and what is open on its line.
    #[inline]
    unsafe fn run(&self, memory: Memory, line: &Values, open: &[bool], run: &Run, to: *mut u8) {
        let mut inside = 0..run.len;
        for (i, &Condition { low, high, .. }) in self.conditions.iter().enumerate() {
            if !open[i] {
                continue;
            }
            let (first, step) = (line.conditions[i] + run.values.conditions[i], self.step(i));
            let last = first + step * (run.len as i64 - 1);
            if first.min(last) >= low && first.max(last) < high {
                continue;
            }
            let held = holds(first, step, low, high);
            inside = inside.start.max(held.start)..inside.end.min(held.end);
        }
        let lane = Lane::of(self.dtype).size();
        if inside.is_empty() {
            // SAFETY: the caller's promise; zero bytes are 0 in every type.
            return unsafe { to.write_bytes(0, run.len * lane) };
        }
        let step = self.stride();
        let first = line.address + run.values.address + inside.start as i64 * step;
        let from = memory.start.wrapping_offset(first as isize * self.dtype.size() as isize).cast_const();
        // SAFETY: the caller's promise.
        unsafe {
            // Most runs are inside, and even nothing is a call.
            if inside.start > 0 {
                to.write_bytes(0, inside.start * lane);
            }
            if inside.end < run.len {
                to.add(inside.end * lane).write_bytes(0, (run.len - inside.end) * lane);
            }
            let to = to.add(inside.start * lane);
            match self.copy {
                Copying::Bytes => to.copy_from_nonoverlapping(from, inside.len() * lane),
                Copying::Widen(function) => function(to, [from; 3], inside.len(), from),
                Copying::Strided(function) => function(to, from, step as isize, inside.len()),
            }
        }
    }
}

/// The values at a position of a row-major run over axes.
fn at(axes: &[Axis], position: usize, start: &Values) -> Values {
    let (mut values, mut rest) = (start.clone(), position);
    for axis in axes.iter().rev() {
        values.add(&axis.step, (rest % axis.extent) as i64);
        rest /= axis.extent;
    }
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
            for Axis { extent, step } in axes {
                writeln!(f, "  {name} of {extent}: {} apart, {:?}", step.address, step.conditions)?;
            }
        }
        for Condition { start, low, high } in &self.conditions {
            writeln!(f, "  if {low} <= {start} + .. < {high}")?;
        }
        Ok(())
    }
}
