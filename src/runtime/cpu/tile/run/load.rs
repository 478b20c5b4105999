//! Loads.

use std::ops::Range;

use crate::runtime::cpu::micro::{self, MAX_OPERANDS, RowBatch};
use crate::runtime::cpu::tile::program::{BlockStep, Indexed, Line, Load};
use crate::runtime::cpu::tile::run::lines::Lines;
use crate::runtime::cpu::tile::run::{Frame, Launch};

/// Lines that indices find and that are asked for before they are read.
const LINES_AHEAD: usize = 4;

/// Bytes of such a line that are asked for at most: hardware foresees the others.
const MOST_AHEAD: usize = 1 << 10;

impl Launch<'_> {
    /// A tile or vector from memory.
    #[inline(never)]
    pub fn load(&self, frame: &mut Frame, load: &Load) {
        let plain = load.masks.is_empty() && load.indices.is_empty();
        if plain && (load.bounds.is_empty() || self.all_inside(frame, &load.bounds, load.class)) {
            return self.load_all(frame, load);
        }
        let lines = self.lines(frame, load.address, load.class);
        if lines.lines == 1 {
            return self.load_line(frame, load, &lines);
        }
        if !load.aimed {
            frame.point(load.to, frame.home(load.to));
        }
        let (to, bytes) = (frame.slot(load.to), lines.len * load.lane);
        // No two lines that indices find need lie near each other, so they are asked for ahead.
        let foreseen = if load.indices.is_empty() { 0 } else { LINES_AHEAD.min(lines.lines) };
        let mut asked: [(*const u8, Range<usize>); LINES_AHEAD] =
            std::array::from_fn(|_| (std::ptr::null(), 0..0));
        for (line, asked) in asked[..foreseen].iter_mut().enumerate() {
            *asked = self.ask_for(frame, load, &lines, line);
        }
        for line in 0..lines.lines {
            let (from, inside) = if foreseen == 0 {
                self.line(frame, load, &lines, line)
            } else {
                let asked = &mut asked[line % LINES_AHEAD];
                let this = asked.clone();
                if line + LINES_AHEAD < lines.lines {
                    *asked = self.ask_for(frame, load, &lines, line + LINES_AHEAD);
                }
                this
            };
            // SAFETY: the program's contract.
            unsafe { load_part(load, &lines, to.wrapping_add(line * bytes), from, inside) }
        }
    }

    /// The only line there is.
    fn load_line(&self, frame: &mut Frame, load: &Load, lines: &Lines) {
        let (from, inside) = self.line(frame, load, lines, 0);
        if matches!(load.line, Line::Unit(None)) && inside == (0..lines.len) {
            return frame.point(load.to, from.cast_mut());
        }
        if !load.aimed {
            frame.point(load.to, frame.home(load.to));
        }
        // SAFETY: the program's contract.
        unsafe { load_part(load, lines, frame.slot(load.to), from, inside) }
    }

    /// Where the first element of a line is, and which elements are loaded.
    #[inline]
    fn line(&self, frame: &Frame, load: &Load, lines: &Lines, line: usize) -> (*const u8, Range<usize>) {
        let inside = self.open(frame, load, lines, line);
        let mut offset = frame.offset(load.address) + line as i64 * lines.line_step;
        if !inside.is_empty() {
            for indexed in &load.indices {
                let index = line_index(frame, load, indexed, line);
                offset += self.checked(index, indexed) * indexed.stride;
            }
        }
        (self.element(load, offset), inside)
    }

    /// The same, and asks for the line.
    #[inline]
    fn ask_for(&self, frame: &Frame, load: &Load, lines: &Lines, line: usize) -> (*const u8, Range<usize>) {
        let (from, inside) = self.line(frame, load, lines, line);
        if lines.step == 1 {
            let size = load.dtype.size();
            let first = from.wrapping_add(inside.start * size);
            micro::prefetch_l1(first, (inside.len() * size).min(MOST_AHEAD));
        }
        (from, inside)
    }

    /// Where a load may happen along a line.
    fn open(&self, frame: &Frame, load: &Load, lines: &Lines, line: usize) -> Range<usize> {
        for &(mask, class) in &load.masks {
            let at = if class.rows() && load.class.cols() { line } else { 0 };
            // SAFETY: the program's contract: a mask per line, or one.
            if unsafe { frame.slot(mask).add(at).read() } == 0 {
                return 0..0;
            }
        }
        self.within(frame, load, lines, line)
    }

    /// Where a load's conditions on positions hold along a line.
    pub(super) fn within(&self, frame: &Frame, load: &Load, lines: &Lines, line: usize) -> Range<usize> {
        if load.bounds.is_empty() {
            return 0..lines.len;
        }
        let inside = self.inside_of(frame, &load.bounds, load.class, line);
        inside.start..inside.end.min(lines.len)
    }

    /// A load without conditions.
    #[inline]
    fn load_all(&self, frame: &mut Frame, load: &Load) {
        let lines = self.lines(frame, load.address, load.class);
        let from = self.element(load, frame.offset(load.address));
        if load.in_place || (matches!(load.line, Line::Unit(None)) && lines.dense()) {
            return frame.point(load.to, from);
        }
        let to = frame.home(load.to);
        frame.point(load.to, to);
        // SAFETY: the program's contract.
        unsafe {
            match load.line {
                Line::Unit(Some(function)) if lines.dense() => {
                    let count = lines.lines * lines.len;
                    function(to, [from; MAX_OPERANDS], count, from);
                    if load.ahead != 0 {
                        // What follows this step works in the cache, and memory rests.
                        let size = load.dtype.size();
                        micro::prefetch_l2(from.wrapping_add(load.ahead as usize * size), count * size);
                    }
                }
                Line::Transposed(function) => {
                    let ahead = load.ahead as isize;
                    function(to, from, lines.lines, lines.len, lines.step as isize, ahead);
                }
                Line::Unit(function) => {
                    let apart = load.apart(&lines);
                    match (function, load.short) {
                        (None, Some(short)) => short(to, [from; MAX_OPERANDS], lines.len, &apart),
                        (None, None) => apart.row_ptrs(to, from).for_each(|(to, from)| {
                            to.copy_from_nonoverlapping(from, lines.len * load.lane);
                        }),
                        (Some(function), _) => apart
                            .row_ptrs(to, from)
                            .for_each(|(to, from)| function(to, [from; MAX_OPERANDS], lines.len, from)),
                    }
                    load.ask_ahead(from, &lines);
                }
                Line::Strided(function) => {
                    function(to, from, lines.step as isize, lines.len, &load.apart(&lines));
                    load.ask_ahead(from, &lines);
                }
            }
        }
    }

    pub fn element(&self, load: &Load, offset: i64) -> *mut u8 {
        let memory = &self.memory[load.memory as usize];
        // An element before or after those that are loaded may be none of the memory.
        memory.start.wrapping_offset((offset as isize).wrapping_mul(load.dtype.size() as isize))
    }

    /// An index, clamped where it is checked.
    pub(super) fn checked(&self, index: i64, indexed: &Indexed) -> i64 {
        if !indexed.checked || (0..indexed.extent as i64).contains(&index) {
            return index;
        }
        self.status.record(index, indexed.extent);
        index.clamp(0, indexed.extent.max(1) as i64 - 1)
    }

    /// The block that a product hands in.
    #[inline(never)]
    pub fn from_block(&self, frame: &mut Frame, step: &BlockStep) {
        let (rows, cols) = frame.tile();
        let block = frame.block;
        if rows == 1 || block.line == cols {
            return frame.point(step.slot, block.start);
        }
        let to = frame.home(step.slot);
        frame.point(step.slot, to);
        for row in 0..rows {
            // SAFETY: the program's contract; the block has `rows` lines.
            unsafe {
                let from = block.start.add(row * block.line * step.lane);
                to.add(row * cols * step.lane).copy_from_nonoverlapping(from, cols * step.lane);
            }
        }
    }
}

impl Load {
    /// How far apart lines are in memory, and in the register.
    fn apart(&self, lines: &Lines) -> RowBatch {
        let from = (lines.line_step as usize).wrapping_mul(self.dtype.size());
        RowBatch::unary(lines.lines, lines.len * self.lane, from)
    }

    /// Asks for the next tile's lines.
    fn ask_ahead(&self, from: *const u8, lines: &Lines) {
        if self.ahead == 0 {
            return;
        }
        let size = self.dtype.size();
        for line in 0..lines.lines as i64 {
            let distance = (line * lines.line_step + self.ahead) as isize * size as isize;
            micro::prefetch_l2(from.wrapping_offset(distance), lines.len * lines.step as usize * size);
        }
    }
}

/// An index of a load's, for a line.
fn line_index(frame: &Frame, load: &Load, indexed: &Indexed, line: usize) -> i64 {
    let at = if indexed.class.rows() && load.class.cols() { line } else { 0 };
    // SAFETY: the program's contract: an index per line, or one.
    unsafe { frame.slot(indexed.index).cast::<i64>().add(at).read() }
}

/// Loads some elements of a line and zeroes the others.
///
/// # Safety
/// The program's contract, for a line at `to` whose element 0 is `from`.
unsafe fn load_part(load: &Load, lines: &Lines, to: *mut u8, from: *const u8, inside: Range<usize>) {
    // SAFETY: the caller's promise.
    unsafe {
        zero(to, 0..inside.start, load.lane);
        zero(to, inside.end..lines.len, load.lane);
        if inside.is_empty() {
            return;
        }
        let to = to.add(inside.start * load.lane);
        let size = load.dtype.size();
        let from = from.wrapping_offset(inside.start as isize * lines.step as isize * size as isize);
        match load.line {
            Line::Unit(None) => to.copy_from_nonoverlapping(from, inside.len() * size),
            Line::Unit(Some(function)) => function(to, [from; MAX_OPERANDS], inside.len(), from),
            Line::Strided(function) => {
                function(to, from, lines.step as isize, inside.len(), &RowBatch::SINGLE)
            }
            Line::Transposed(_) => {
                micro::load_strided(load.dtype)(
                    to,
                    from,
                    lines.step as isize,
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
