//! Loads at positions that are computed element by element.

use std::ops::Range;

use crate::runtime::cpu::thresholds::GATHER_BATCH_ROWS;
use crate::runtime::cpu::tile::program::{Gather, TileLoad};
use crate::runtime::cpu::tile::run::access::{TileAccess, element_of};
use crate::runtime::cpu::tile::run::load::zero;
use crate::runtime::cpu::tile::run::{Frame, TileLaunch};

impl TileLaunch<'_> {
    /// A load at positions computed element by element.
    #[inline(never)]
    pub fn gather(&self, frame: &mut Frame, gather: &Gather) {
        let load = &gather.load;
        let access = self.tile_access(frame, load.address, load.shape);
        let bytes = self.memory[load.memory as usize].bytes;
        // SAFETY: the program's contract: registers are as wide as the shape;
        // positions are inside the buffer where nothing masks them.
        unsafe {
            if bytes < load.dtype.size() {
                return zero(frame.home(load.to), 0..access.rows * access.len, load.lane);
            }
            if !self.gather_together(frame, gather, &access) {
                (0..access.rows).for_each(|row| self.gather_row(frame, gather, &access, row));
            }
        }
    }

    /// Gathers all rows where one index in common varies along them; gives whether it does.
    ///
    /// # Safety
    /// The program's contract, and a buffer of an element.
    unsafe fn gather_together(&self, frame: &Frame, gather: &Gather, access: &TileAccess) -> bool {
        let load = &gather.load;
        if access.rows == 1 || !load.bounds.is_empty() || !load.masks.is_empty() {
            return false;
        }
        let (first, to) = (frame.offset(load.address), frame.home(load.to));
        let apart = access.len * load.lane;
        let mut bases = [std::ptr::null(); GATHER_BATCH_ROWS];
        let alike = load.indices.iter().all(|indexed| !indexed.shape.rows());
        let mut known = None;
        for start in (0..access.rows).step_by(GATHER_BATCH_ROWS) {
            let bases = &mut bases[..GATHER_BATCH_ROWS.min(access.rows - start)];
            let mut common = None;
            for (row, base) in (start..).zip(&mut *bases) {
                if known.is_none() || !alike {
                    // SAFETY: the caller's promise.
                    known = unsafe { self.one_index(frame, load, access, row, 0..access.len) };
                }
                let Some((from, index)) = known else { return false };
                if *common.get_or_insert(index) != index {
                    return false;
                }
                *base = self.element(load, first + row as i64 * access.row_stride + from).cast_const();
            }
            if let Some(index) = common {
                // SAFETY: as above.
                unsafe { (gather.function)(to.add(start * apart), bases, index, access.len, apart) };
            }
        }
        true
    }

    /// # Safety
    /// The program's contract, and a buffer of an element.
    unsafe fn gather_row(&self, frame: &Frame, gather: &Gather, access: &TileAccess, row: usize) {
        let load = &gather.load;
        let inside = self.within(frame, load, access, row);
        let to = frame.home(load.to).wrapping_add(row * access.len * load.lane);
        let first = frame.offset(load.address) + row as i64 * access.row_stride;
        // SAFETY: the caller's promise.
        unsafe {
            zero(to, 0..inside.start, load.lane);
            zero(to, inside.end..access.len, load.lane);
            let to_inside = to.add(inside.start * load.lane);
            if let Some((from, index)) = self.one_index(frame, load, access, row, inside.clone()) {
                let base = self.element(load, first + from).cast_const();
                return (gather.function)(to_inside, &[base], index, inside.len(), 0);
            }
            let positions = frame.slot(gather.positions).cast::<i64>().wrapping_add(row * access.len);
            let positions = std::slice::from_raw_parts_mut(positions, access.len);
            for j in inside.clone() {
                positions[j] = first + j as i64 * access.stride;
            }
            self.add_indices(frame, load, (row, access.len), inside.clone(), positions);
            let index = positions[inside.clone()].as_ptr();
            let start = self.memory[load.memory as usize].start.cast_const();
            (gather.function)(to_inside, &[start], index, inside.len(), 0);
            for &(mask, shape) in &load.masks {
                let (start, step) = element_of(shape, load.shape, row, access.len);
                for j in inside.clone() {
                    if frame.slot(mask).add(start + j * step).read() == 0 {
                        zero(to, j..j + 1, load.lane);
                    }
                }
            }
        }
    }

    /// Where one index alone varies along a row, and each of its values is a position from some
    /// element on: how far that is from the first, and the index.
    ///
    /// # Safety
    /// The program's contract.
    unsafe fn one_index(
        &self,
        frame: &Frame,
        load: &TileLoad,
        access: &TileAccess,
        row: usize,
        inside: Range<usize>,
    ) -> Option<(i64, *const i64)> {
        if !load.masks.is_empty() || access.stride != 0 {
            return None;
        }
        let (mut from, mut along) = (0, None);
        for indexed in &load.indices {
            let (start, step) = element_of(indexed.shape, load.shape, row, access.len);
            let index = frame.slot(indexed.index).cast::<i64>().wrapping_add(start).cast_const();
            if step == 0 {
                // SAFETY: the caller's promise.
                let index = unsafe { index.read() };
                (!indexed.checked || (0..indexed.extent as i64).contains(&index)).then_some(())?;
                from += index * indexed.stride;
            } else if along.replace((index.wrapping_add(inside.start), indexed)).is_some() {
                return None;
            }
        }
        let (index, indexed) = along.filter(|(_, indexed)| indexed.stride == 1)?;
        if indexed.checked {
            // SAFETY: the caller's promise.
            let values = unsafe { std::slice::from_raw_parts(index, inside.len()) };
            let last = indexed.extent as i64 - 1;
            // Of what lies outside one of the two is negative.
            let signs = values.iter().fold(0, |signs, &i| signs | i | last.wrapping_sub(i));
            (signs >= 0).then_some(())?;
        }
        Some((from, index))
    }

    /// Adds the computed parts to the positions along a row. Where a mask
    /// forbids the load, the position becomes 0, which exists.
    ///
    /// # Safety
    /// The program's contract.
    unsafe fn add_indices(
        &self,
        frame: &Frame,
        load: &TileLoad,
        (row, len): (usize, usize),
        inside: Range<usize>,
        positions: &mut [i64],
    ) {
        let open = |j: usize| {
            load.masks.iter().all(|&(mask, shape)| {
                let (start, step) = element_of(shape, load.shape, row, len);
                // SAFETY: the program's contract.
                unsafe { frame.slot(mask).add(start + j * step).read() != 0 }
            })
        };
        for indexed in &load.indices {
            let (start, step) = element_of(indexed.shape, load.shape, row, len);
            let index = frame.slot(indexed.index).cast::<i64>();
            for j in inside.clone() {
                // SAFETY: the program's contract.
                let index = unsafe { index.add(start + j * step).read() };
                if load.masks.is_empty() || open(j) {
                    positions[j] += self.checked(index, indexed) * indexed.stride;
                }
            }
        }
        if !load.masks.is_empty() {
            for j in inside {
                if !open(j) {
                    positions[j] = 0;
                }
            }
        }
    }
}
