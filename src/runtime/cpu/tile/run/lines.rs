//! Tiles as lines: what loads, stores, indices and conditions iterate over.

use std::ops::Range;

use crate::runtime::cpu::micro;
use crate::runtime::cpu::tile::program::{AddressId, Bound, Class, Slot};
use crate::runtime::cpu::tile::run::{Frame, Launch};

/// How the elements of a value relate to an address: so many lines of so
/// many elements, and the address's step from line to line and along one.
#[derive(Clone, Copy, Debug)]
pub struct Lines {
    /// Number of lines.
    pub lines: usize,
    /// Elements of each.
    pub len: usize,
    /// From a line to the next.
    pub line_step: i64,
    /// Along a line.
    pub step: i64,
}

impl Lines {
    /// Whether all elements follow one another.
    pub fn dense(&self) -> bool {
        self.step == 1 && (self.lines == 1 || self.line_step == self.len as i64)
    }
}

impl Launch<'_> {
    /// The lines of a value of a class at an address.
    #[inline]
    pub fn lines(&self, frame: &Frame, address: AddressId, class: Class) -> Lines {
        let (rows, cols) = frame.tile();
        let program = self.program;
        match (class.rows(), class.cols()) {
            (true, true) => Lines {
                lines: rows,
                len: cols,
                line_step: program.step_along(address, program.row),
                step: program.step_along(address, program.col),
            },
            (true, false) => {
                Lines { lines: 1, len: rows, line_step: 0, step: program.step_along(address, program.row) }
            }
            (false, true) => {
                Lines { lines: 1, len: cols, line_step: 0, step: program.step_along(address, program.col) }
            }
            (false, false) => Lines { lines: 1, len: 1, line_step: 0, step: 1 },
        }
    }

    /// The elements of a line where all conditions hold.
    pub fn inside_of(&self, frame: &Frame, bounds: &[Bound], class: Class, line: usize) -> Range<usize> {
        let mut range = 0..usize::MAX;
        for bound in bounds {
            let lines = self.lines(frame, bound.value, class);
            range.end = range.end.min(lines.len);
            let first = frame.offset(bound.value) + line as i64 * lines.line_step;
            let step = if class == Class::SCALAR { 0 } else { lines.step };
            let held = holds(first, step, bound.low, bound.high);
            range = range.start.max(held.start)..range.end.min(held.end);
        }
        if range.start < range.end { range } else { 0..0 }
    }

    /// Whether conditions hold at every element of the tile.
    pub fn all_inside(&self, frame: &Frame, bounds: &[Bound], class: Class) -> bool {
        bounds.iter().all(|bound| {
            let lines = self.lines(frame, bound.value, class);
            let first = frame.offset(bound.value);
            let down = (lines.lines as i64 - 1) * lines.line_step;
            let along = if class == Class::SCALAR { 0 } else { (lines.len as i64 - 1) * lines.step };
            let low = first + down.min(0) + along.min(0);
            let high = first + down.max(0) + along.max(0);
            low >= bound.low && high < bound.high
        })
    }

    /// Writes the values of an address.
    #[inline(never)]
    pub fn index(&self, frame: &mut Frame, to: Slot, value: AddressId, class: Class) {
        let lines = self.lines(frame, value, class);
        let first = frame.offset(value);
        for line in 0..lines.lines {
            let start = first + line as i64 * lines.line_step;
            // SAFETY: the program's contract: `to` has room for the class.
            unsafe {
                let to = frame.slot(to).cast::<i64>().add(line * lines.len).cast();
                micro::iota_i64(to, start, lines.step, lines.len);
            }
        }
    }

    /// Records indices out of range.
    #[inline(never)]
    pub fn check(&self, frame: &Frame, index: Slot, extent: usize, class: Class) {
        // SAFETY: the program's contract: `index` has an element for each of the class.
        let indices = unsafe {
            std::slice::from_raw_parts(frame.slot(index).cast::<i64>().cast_const(), frame.count(class))
        };
        let outside = |index: &&i64| !(0..extent as i64).contains(*index);
        if let Some(&index) = indices.iter().find(outside) {
            self.status.record(index, extent);
        }
    }

    /// Writes whether a condition holds.
    #[inline(never)]
    pub fn inside(&self, frame: &mut Frame, to: Slot, bound: &Bound, class: Class) {
        let lines = self.lines(frame, bound.value, class);
        for line in 0..lines.lines {
            let held = self.inside_of(frame, std::slice::from_ref(bound), class, line);
            // SAFETY: the program's contract: `to` has room for the class.
            let to =
                unsafe { std::slice::from_raw_parts_mut(frame.slot(to).add(line * lines.len), lines.len) };
            to.fill(0);
            to[held].fill(1);
        }
    }
}

/// Where the elements of an operand of a class are, for a line of a value of
/// another: the first, and the step.
pub fn element_of(class: Class, of: Class, line: usize, len: usize) -> (usize, usize) {
    match (class.rows(), class.cols()) {
        (false, false) => (0, 0),
        (true, true) => (line * len, 1),
        // One per row: constant along the lines of a tile.
        (true, false) if of.cols() => (line, 0),
        (true, false) | (false, true) => (0, 1),
    }
}

/// The counts `i` for which `low <= first + i * step < high`.
#[inline]
pub fn holds(first: i64, step: i64, low: i64, high: i64) -> Range<usize> {
    if low >= high {
        return 0..0;
    }
    // Smallest i with value >= low, and first i with value >= high; for a
    // negative step the roles of the bounds turn around.
    let above = |limit: i64, step: i64| (limit + step - 1).div_euclid(step).max(0) as usize;
    match step {
        0 if (low..high).contains(&first) => 0..usize::MAX,
        0 => 0..0,
        // The usual one, without divisions.
        1 => (low - first).max(0) as usize..(high - first).max(0) as usize,
        2.. => above(low - first, step)..above(high - first, step),
        _ => above(first - high + 1, -step)..above(first - low + 1, -step),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_what_counting_finds() {
        for first in -7..8 {
            for step in -3..4 {
                for low in -4..4 {
                    for high in -4..5 {
                        let range = holds(first, step, low, high);
                        for i in 0..10usize {
                            let value = first + i as i64 * step;
                            assert_eq!(
                                range.contains(&i),
                                (low..high).contains(&value),
                                "{first} {step} {low} {high}"
                            );
                        }
                    }
                }
            }
        }
    }
}
