//! A tile as rows: what loads, stores, indices and conditions iterate over.

use std::ops::Range;

use kiln_simd::micro;

use crate::runtime::cpu::tile::program::{AddressId, FrameSlot, RangePredicate, TileShape};
use crate::runtime::cpu::tile::run::{Frame, TileLaunch};

/// How the elements of a value relate to an address: so many rows of so
/// many elements, and the address's step from row to row and along one.
#[derive(Clone, Copy, Debug)]
pub struct TileAccess {
    /// Number of rows.
    pub rows: usize,
    /// Elements of each.
    pub len: usize,
    /// from a row to the next.
    pub row_stride: i64,
    /// Along a row.
    pub stride: i64,
}

impl TileAccess {
    /// Whether all elements follow one another.
    pub fn dense(&self) -> bool {
        self.stride == 1 && (self.rows == 1 || self.row_stride == self.len as i64)
    }
}

impl TileLaunch<'_> {
    /// The rows of a value of a shape at an address.
    #[inline]
    pub fn tile_access(&self, frame: &Frame, address: AddressId, shape: TileShape) -> TileAccess {
        let (rows, cols) = frame.tile();
        let program = self.program;
        match (shape.rows(), shape.cols()) {
            (true, true) => TileAccess {
                rows,
                len: cols,
                row_stride: program.stride_along(address, program.row),
                stride: program.stride_along(address, program.col),
            },
            (true, false) => TileAccess {
                rows: 1,
                len: rows,
                row_stride: 0,
                stride: program.stride_along(address, program.row),
            },
            (false, true) => TileAccess {
                rows: 1,
                len: cols,
                row_stride: 0,
                stride: program.stride_along(address, program.col),
            },
            (false, false) => TileAccess { rows: 1, len: 1, row_stride: 0, stride: 1 },
        }
    }

    /// The elements of a row where all conditions hold.
    pub fn inside_of(
        &self,
        frame: &Frame,
        bounds: &[RangePredicate],
        shape: TileShape,
        row: usize,
    ) -> Range<usize> {
        let mut range = 0..usize::MAX;
        for bound in bounds {
            let access = self.tile_access(frame, bound.value, shape);
            range.end = range.end.min(access.len);
            let first = frame.offset(bound.value) + row as i64 * access.row_stride;
            let step = if shape == TileShape::Scalar { 0 } else { access.stride };
            let held = solve_range(first, step, bound.low, bound.high);
            range = range.start.max(held.start)..range.end.min(held.end);
        }
        if range.start < range.end { range } else { 0..0 }
    }

    /// Whether conditions hold at every element of the tile.
    pub fn all_inside(&self, frame: &Frame, bounds: &[RangePredicate], shape: TileShape) -> bool {
        bounds.iter().all(|bound| {
            let access = self.tile_access(frame, bound.value, shape);
            let first = frame.offset(bound.value);
            let down = (access.rows as i64 - 1) * access.row_stride;
            let along = if shape == TileShape::Scalar { 0 } else { (access.len as i64 - 1) * access.stride };
            let low = first + down.min(0) + along.min(0);
            let high = first + down.max(0) + along.max(0);
            low >= bound.low && high < bound.high
        })
    }

    /// Writes the values of an address.
    #[inline(never)]
    pub fn index(&self, frame: &mut Frame, to: FrameSlot, value: AddressId, shape: TileShape) {
        let access = self.tile_access(frame, value, shape);
        let first = frame.offset(value);
        for row in 0..access.rows {
            let start = first + row as i64 * access.row_stride;
            // SAFETY: the program's contract: `to` has room for the shape.
            unsafe {
                let to = frame.slot(to).cast::<i64>().add(row * access.len).cast();
                micro::iota_i64(to, start, access.stride, access.len);
            }
        }
    }

    /// Records indices out of range.
    #[inline(never)]
    pub fn check(&self, frame: &Frame, index: FrameSlot, extent: usize, shape: TileShape) {
        // SAFETY: the program's contract: `index` has an element for each of the shape.
        let indices = unsafe {
            std::slice::from_raw_parts(frame.slot(index).cast::<i64>().cast_const(), frame.count(shape))
        };
        let outside = |index: &&i64| !(0..extent as i64).contains(*index);
        if let Some(&index) = indices.iter().find(outside) {
            self.status.record(index, extent);
        }
    }

    /// Writes whether a condition holds.
    #[inline(never)]
    pub fn inside(&self, frame: &mut Frame, to: FrameSlot, bound: &RangePredicate, shape: TileShape) {
        let access = self.tile_access(frame, bound.value, shape);
        for row in 0..access.rows {
            let held = self.inside_of(frame, std::slice::from_ref(bound), shape, row);
            // SAFETY: the program's contract: `to` has room for the shape.
            let to =
                unsafe { std::slice::from_raw_parts_mut(frame.slot(to).add(row * access.len), access.len) };
            to.fill(0);
            to[held].fill(1);
        }
    }
}

/// Where the elements of an operand of a shape are, for a row of a value of
/// another: the first, and the step.
pub fn element_of(shape: TileShape, of: TileShape, row: usize, len: usize) -> (usize, usize) {
    match (shape.rows(), shape.cols()) {
        (false, false) => (0, 0),
        (true, true) => (row * len, 1),
        // One per row: constant along the rows of a tile.
        (true, false) if of.cols() => (row, 0),
        (true, false) | (false, true) => (0, 1),
    }
}

/// The counts `i` for which `low <= first + i * step < high`.
#[inline]
pub fn solve_range(first: i64, step: i64, low: i64, high: i64) -> Range<usize> {
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
                        let range = solve_range(first, step, low, high);
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
