//! Stores.

use crate::runtime::cpu::micro::{MAX_OPERANDS, RowBatch};
use crate::runtime::cpu::tile::program::{Aim, BlockStep, Line, Lines as Steps, Slot, Store};
use crate::runtime::cpu::tile::run::{Frame, Launch};

impl Launch<'_> {
    /// Lets the next step write a store's values in place, where they lie one
    /// after another and the step reads nothing from there.
    #[inline(never)]
    pub fn aim(&self, frame: &mut Frame, aim: &Aim) {
        let store = &aim.store;
        let at = self.target(frame, store);
        let dense = self.lines(frame, store.address, store.class).dense();
        // No element is wider than this.
        let bytes = frame.count(store.class) * size_of::<u64>();
        let apart = |&slot: &Slot| frame.slot(slot).addr().abs_diff(at.addr()) >= bytes;
        let direct = dense && aim.operands.iter().all(apart);
        frame.point(store.from, if direct { at } else { frame.home(store.from) });
    }

    /// Where a step that goes line by line writes, and the bytes from a line to the next: in
    /// place where it reads nothing of what a store's lines span.
    pub fn aim_lines(
        &self,
        frame: &mut Frame,
        lines: &Steps,
        from_on: [usize; MAX_OPERANDS],
        on: usize,
    ) -> (*mut u8, usize) {
        let Some(aim) = &lines.aim else { return (frame.slot(lines.to.0), on) };
        let store = &aim.store;
        let (rows, cols) = frame.tile();
        let at = self.target(frame, store);
        let apart = self.program.step_along(store.address, self.program.row);
        let bytes = apart * store.dtype.size() as i64;
        // No element is wider than this.
        let span = |step: usize| rows * step + cols * size_of::<u64>();
        let beside = |(slot, step): (Slot, usize)| {
            let from = frame.slot(slot).addr();
            from + span(step) <= at.addr() || at.addr() + span(bytes as usize) <= from
        };
        let from = lines.from.map(|(slot, _)| slot);
        let direct = bytes >= 0 && from.into_iter().zip(from_on).all(beside);
        let to = if direct { at } else { frame.home(store.from) };
        frame.point(store.from, to);
        (to, if direct { bytes as usize } else { on })
    }

    fn target(&self, frame: &Frame, store: &Store) -> *mut u8 {
        let offset = frame.offset(store.address) as isize * store.dtype.size() as isize;
        self.memory[store.memory as usize].start.wrapping_offset(offset)
    }

    /// A tile or vector to memory.
    #[inline(never)]
    pub fn store(&self, frame: &mut Frame, store: &Store) {
        if store.aimed && frame.slot(store.from) != frame.home(store.from) {
            return;
        }
        let (to, from) = (self.target(frame, store), frame.slot(store.from).cast_const());
        if to.cast_const() == from {
            return;
        }
        let lines = self.lines(frame, store.address, store.class);
        let (count, apart) = if lines.dense() {
            (lines.lines * lines.len, RowBatch::SINGLE)
        } else {
            let to = (lines.line_step as usize).wrapping_mul(store.dtype.size());
            (lines.len, RowBatch::unary(lines.lines, to, lines.len * store.lane))
        };
        // SAFETY: the program's contract.
        unsafe {
            match store.line {
                Line::Unit(function) => match store.short.filter(|_| apart.rows > 1) {
                    Some(short) => short(to, [from; MAX_OPERANDS], count, &apart),
                    None => apart
                        .row_ptrs(to, from)
                        .for_each(|(to, from)| function(to, [from; MAX_OPERANDS], count, from)),
                },
                Line::Strided(function) => function(to, from, lines.step as isize, count, &apart),
                Line::Transposed(_) => panic!("stores do not transpose"),
            }
        }
    }

    /// Lets the next step write a block's values in place, where they lie one
    /// after another.
    #[inline(never)]
    pub fn aim_block(&self, frame: &mut Frame, step: &BlockStep) {
        let (rows, cols) = frame.tile();
        let dense = rows == 1 || frame.block.line == cols;
        frame.point(step.slot, if dense { frame.block.start } else { frame.home(step.slot) });
    }

    /// The block that a product asks for.
    #[inline(never)]
    pub fn to_block(&self, frame: &mut Frame, step: &BlockStep) {
        let (rows, cols) = frame.tile();
        let (block, from) = (frame.block, frame.slot(step.slot).cast_const());
        if from == block.start.cast_const() {
            return;
        }
        for row in 0..rows {
            // SAFETY: the program's contract; the block has `rows` lines.
            unsafe {
                let to = block.start.add(row * block.line * step.lane);
                to.copy_from_nonoverlapping(from.add(row * cols * step.lane), cols * step.lane);
            }
        }
    }
}
