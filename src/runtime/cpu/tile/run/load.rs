//! Loads.

use std::ops::Range;

use kiln_simd::micro::{self, MAX_OPERANDS, RowBatch};

use crate::runtime::cpu::thresholds::{GATHER_PREFETCH_BYTES, GATHER_PREFETCH_ROWS};
use crate::runtime::cpu::tile::program::{BlockTransfer, IndexTerm, Prefetch, RowLayout, TileLoad};
use crate::runtime::cpu::tile::run::access::TileAccess;
use crate::runtime::cpu::tile::run::{Frame, TileLaunch};

impl TileLaunch<'_> {
    /// A tile or vector from memory.
    #[inline(never)]
    pub fn load(&self, frame: &mut Frame, load: &TileLoad) {
        let plain = load.masks.is_empty() && load.indices.is_empty();
        if plain && (load.bounds.is_empty() || self.all_inside(frame, &load.bounds, load.shape)) {
            return self.load_all(frame, load);
        }
        let access = self.tile_access(frame, load.address, load.shape);
        if access.rows == 1 {
            return self.load_row(frame, load, &access);
        }
        if !load.forwarded {
            frame.point(load.to, frame.home(load.to));
        }
        let (to, bytes) = (frame.slot(load.to), access.len * load.lane);
        // No two rows that indices find need lie near each other, so they are prefetched.
        let prefetched = if load.indices.is_empty() { 0 } else { GATHER_PREFETCH_ROWS.min(access.rows) };
        let mut rows_ahead: [(*const u8, Range<usize>); GATHER_PREFETCH_ROWS] =
            std::array::from_fn(|_| (std::ptr::null(), 0..0));
        for (row, rows_ahead) in rows_ahead[..prefetched].iter_mut().enumerate() {
            *rows_ahead = self.prefetch_row(frame, load, &access, row);
        }
        for row in 0..access.rows {
            let (from, inside) = if prefetched == 0 {
                self.row(frame, load, &access, row)
            } else {
                let rows_ahead = &mut rows_ahead[row % GATHER_PREFETCH_ROWS];
                let this = rows_ahead.clone();
                if row + GATHER_PREFETCH_ROWS < access.rows {
                    *rows_ahead = self.prefetch_row(frame, load, &access, row + GATHER_PREFETCH_ROWS);
                }
                this
            };
            // SAFETY: the program's contract.
            unsafe { load_partial_row(load, &access, to.wrapping_add(row * bytes), from, inside) }
        }
    }

    /// the only row there is.
    fn load_row(&self, frame: &mut Frame, load: &TileLoad, access: &TileAccess) {
        let (from, inside) = self.row(frame, load, access, 0);
        if matches!(load.layout, RowLayout::Contiguous(None)) && inside == (0..access.len) {
            return frame.point(load.to, from.cast_mut());
        }
        if !load.forwarded {
            frame.point(load.to, frame.home(load.to));
        }
        // SAFETY: the program's contract.
        unsafe { load_partial_row(load, access, frame.slot(load.to), from, inside) }
    }

    /// Where the first element of a row is, and which elements are loaded.
    #[inline]
    fn row(
        &self,
        frame: &Frame,
        load: &TileLoad,
        access: &TileAccess,
        row: usize,
    ) -> (*const u8, Range<usize>) {
        let inside = self.open(frame, load, access, row);
        let mut offset = frame.offset(load.address) + row as i64 * access.row_stride;
        if !inside.is_empty() {
            for indexed in &load.indices {
                let index = row_index(frame, load, indexed, row);
                offset += self.checked(index, indexed) * indexed.stride;
            }
        }
        (self.element(load, offset), inside)
    }

    /// The same, and prefetches the row.
    #[inline]
    fn prefetch_row(
        &self,
        frame: &Frame,
        load: &TileLoad,
        access: &TileAccess,
        row: usize,
    ) -> (*const u8, Range<usize>) {
        let (from, inside) = self.row(frame, load, access, row);
        if access.stride == 1 {
            let size = load.dtype.size();
            let first = from.wrapping_add(inside.start * size);
            micro::prefetch_l1(first, (inside.len() * size).min(GATHER_PREFETCH_BYTES));
        }
        (from, inside)
    }

    /// Where a load may happen along a row.
    fn open(&self, frame: &Frame, load: &TileLoad, access: &TileAccess, row: usize) -> Range<usize> {
        for &(mask, shape) in &load.masks {
            let at = if shape.rows() && load.shape.cols() { row } else { 0 };
            // SAFETY: the program's contract: a mask per row, or one.
            if unsafe { frame.slot(mask).add(at).read() } == 0 {
                return 0..0;
            }
        }
        self.within(frame, load, access, row)
    }

    /// Where a load's conditions on positions hold along a row.
    pub(super) fn within(
        &self,
        frame: &Frame,
        load: &TileLoad,
        access: &TileAccess,
        row: usize,
    ) -> Range<usize> {
        if load.bounds.is_empty() {
            return 0..access.len;
        }
        let inside = self.inside_of(frame, &load.bounds, load.shape, row);
        inside.start..inside.end.min(access.len)
    }

    /// A load without conditions.
    #[inline]
    fn load_all(&self, frame: &mut Frame, load: &TileLoad) {
        let access = self.tile_access(frame, load.address, load.shape);
        let from = self.element(load, frame.offset(load.address));
        if load.in_place || (matches!(load.layout, RowLayout::Contiguous(None)) && access.dense()) {
            return frame.point(load.to, from);
        }
        let to = frame.home(load.to);
        frame.point(load.to, to);
        // SAFETY: the program's contract.
        unsafe {
            match load.layout {
                RowLayout::Contiguous(Some(function)) if access.dense() => {
                    let count = access.rows * access.len;
                    function(to, [from; MAX_OPERANDS], count, from);
                    if let Some(Prefetch { distance, .. }) = load.prefetch {
                        // What follows this instruction works in the cache, and memory rests.
                        micro::prefetch_l2(from.wrapping_offset(distance), count * load.dtype.size());
                    }
                }
                RowLayout::Transposed(function) => {
                    let ahead = load.prefetch.map_or(0, |prefetch| prefetch.distance);
                    let ahead = ahead / load.dtype.size() as isize;
                    function(to, from, access.rows, access.len, access.stride as isize, ahead);
                }
                RowLayout::Contiguous(function) => {
                    let apart = load.row_strides(&access);
                    match (function, load.batched) {
                        (None, Some(short)) => short(to, [from; MAX_OPERANDS], access.len, &apart),
                        (None, None) => apart.row_ptrs(to, from).for_each(|(to, from)| {
                            to.copy_from_nonoverlapping(from, access.len * load.lane);
                        }),
                        (Some(function), _) => apart
                            .row_ptrs(to, from)
                            .for_each(|(to, from)| function(to, [from; MAX_OPERANDS], access.len, from)),
                    }
                    load.prefetch_next_tile(from, &access);
                }
                RowLayout::Strided(function) => {
                    function(to, from, access.stride as isize, access.len, &load.row_strides(&access));
                    load.prefetch_next_tile(from, &access);
                }
            }
        }
    }

    pub fn element(&self, load: &TileLoad, offset: i64) -> *mut u8 {
        let memory = &self.memory[load.memory as usize];
        // An element before or after those that are loaded may be none of the memory.
        memory.start.wrapping_offset((offset as isize).wrapping_mul(load.dtype.size() as isize))
    }

    /// An index, clamped where it is checked.
    pub(super) fn checked(&self, index: i64, indexed: &IndexTerm) -> i64 {
        if !indexed.checked || (0..indexed.extent as i64).contains(&index) {
            return index;
        }
        self.status.record(index, indexed.extent);
        index.clamp(0, indexed.extent.max(1) as i64 - 1)
    }

    /// The block that a product provides.
    #[inline(never)]
    pub fn from_block(&self, frame: &mut Frame, transfer: &BlockTransfer) {
        let (rows, cols) = frame.tile();
        let block = frame.block;
        if rows == 1 || block.row_stride == cols {
            return frame.point(transfer.slot, block.start);
        }
        let to = frame.home(transfer.slot);
        frame.point(transfer.slot, to);
        for row in 0..rows {
            // SAFETY: the program's contract; the block has `rows` rows.
            unsafe {
                let from = block.start.add(row * block.row_stride * transfer.lane);
                to.add(row * cols * transfer.lane).copy_from_nonoverlapping(from, cols * transfer.lane);
            }
        }
    }
}

impl TileLoad {
    /// How far apart rows are in memory, and in the register.
    fn row_strides(&self, access: &TileAccess) -> RowBatch {
        let from = (access.row_stride as usize).wrapping_mul(self.dtype.size());
        RowBatch::unary(access.rows, access.len * self.lane, from)
    }

    /// Prefetches the next tile's rows.
    fn prefetch_next_tile(&self, from: *const u8, access: &TileAccess) {
        let Some(Prefetch { distance, .. }) = self.prefetch else { return };
        let size = self.dtype.size();
        for row in 0..access.rows as isize {
            let distance = row * access.row_stride as isize * size as isize + distance;
            micro::prefetch_l2(from.wrapping_offset(distance), access.len * access.stride as usize * size);
        }
    }
}

/// An index of a load's, for a row.
fn row_index(frame: &Frame, load: &TileLoad, indexed: &IndexTerm, row: usize) -> i64 {
    let at = if indexed.shape.rows() && load.shape.cols() { row } else { 0 };
    // SAFETY: the program's contract: an index per row, or one.
    unsafe { frame.slot(indexed.index).cast::<i64>().add(at).read() }
}

/// Loads some elements of a row and zeroes the others.
///
/// # Safety
/// The program's contract, for a row at `to` whose element 0 is `from`.
unsafe fn load_partial_row(
    load: &TileLoad,
    access: &TileAccess,
    to: *mut u8,
    from: *const u8,
    inside: Range<usize>,
) {
    // SAFETY: the caller's promise.
    unsafe {
        zero(to, 0..inside.start, load.lane);
        zero(to, inside.end..access.len, load.lane);
        if inside.is_empty() {
            return;
        }
        let to = to.add(inside.start * load.lane);
        let size = load.dtype.size();
        let from = from.wrapping_offset(inside.start as isize * access.stride as isize * size as isize);
        match load.layout {
            RowLayout::Contiguous(None) => to.copy_from_nonoverlapping(from, inside.len() * size),
            RowLayout::Contiguous(Some(function)) => function(to, [from; MAX_OPERANDS], inside.len(), from),
            RowLayout::Strided(function) => {
                function(to, from, access.stride as isize, inside.len(), &RowBatch::SINGLE)
            }
            RowLayout::Transposed(_) => {
                micro::load_strided(load.dtype)(
                    to,
                    from,
                    access.stride as isize,
                    inside.len(),
                    &RowBatch::SINGLE,
                );
            }
        }
    }
}

/// # Safety
/// The elements lie in a register.
pub(super) unsafe fn zero(to: *mut u8, elements: Range<usize>, lane: usize) {
    // Mostly there are none, and writing none is a call all the same.
    if !elements.is_empty() {
        // SAFETY: the caller's promise. Zero bytes are 0 and false in every type.
        unsafe { to.add(elements.start * lane).write_bytes(0, elements.len() * lane) }
    }
}
