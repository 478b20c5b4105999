//! A thread's state while it runs a program.

use std::cell::RefCell;

use crate::base::Scalar;
use crate::runtime::cpu::regions::ALIGN;
use crate::runtime::cpu::tile::program::{
    Address, AddressId, FrameSlot, LoopBody, LoopNest, SlotStorage, TileProgram, TileShape,
};
use crate::runtime::cpu::tile::run::TileLaunch;

/// The block of a matrix that a product provides or requests.
#[derive(Clone, Copy, Debug)]
pub struct MatrixBlock {
    /// Its first element.
    pub start: *mut u8,
    /// Elements from one of its rows to the next.
    pub row_stride: usize,
}

/// Pointers, positions and sizes.
#[derive(Debug)]
pub struct Frame {
    /// By slot.
    pointers: Vec<*mut u8>,
    /// The registers' places, by slot.
    homes: Vec<*mut u8>,
    scratch: Vec<ScratchLine>,
    /// Current values of addresses.
    offsets: Vec<i64>,
    /// The same without the innermost loop of their body.
    bases: Vec<i64>,
    /// Current position along each axis; of tiled axes the tile's first.
    pub position: Vec<usize>,
    /// Elements of the current tile by shape.
    counts: [usize; 4],
    /// Per reduction: rows in the current block, and in finished ones.
    pub rows: Vec<[i64; 2]>,
    /// Rows of level 1 a job, if level 1 is shared between threads.
    pub rows_per_job: Option<usize>,
    /// The block at hand, in a product.
    pub block: MatrixBlock,
}

/// A cache line of scratch memory, to have it aligned.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct ScratchLine(#[allow(dead_code)] [u8; ALIGN]);

thread_local! {
    /// Frames nobody on this thread uses now; a thread that waits inside one
    /// job may take up another.
    static FREE: RefCell<Vec<Frame>> = const { RefCell::new(Vec::new()) };
}

/// Calls `body` with a frame ready for a launch.
pub fn with<R>(launch: &TileLaunch<'_>, body: impl FnOnce(&mut Frame) -> R) -> R {
    let mut frame = take(launch);
    let result = body(&mut frame);
    give_back(frame);
    result
}

/// A frame ready for a launch.
pub fn take(launch: &TileLaunch<'_>) -> Frame {
    let mut frame = FREE.with_borrow_mut(Vec::pop).unwrap_or_default();
    frame.prepare(launch);
    frame
}

/// Keeps a frame for another launch.
pub fn give_back(frame: Frame) {
    FREE.with_borrow_mut(|free| free.push(frame));
}

impl Default for Frame {
    fn default() -> Frame {
        Frame {
            pointers: Vec::new(),
            homes: Vec::new(),
            scratch: Vec::new(),
            offsets: Vec::new(),
            bases: Vec::new(),
            position: Vec::new(),
            counts: [1; 4],
            rows: Vec::new(),
            rows_per_job: None,
            block: MatrixBlock { start: std::ptr::null_mut(), row_stride: 0 },
        }
    }
}

impl Frame {
    fn prepare(&mut self, launch: &TileLaunch<'_>) {
        let program = launch.program;
        let lines = program.scratch.div_ceil(ALIGN);
        if self.scratch.len() < lines {
            self.scratch.resize(lines.next_power_of_two(), ScratchLine([0; ALIGN]));
        }
        let scratch = self.scratch.as_mut_ptr().cast::<u8>();
        self.homes.clear();
        for info in &program.slots {
            let bits = match info.storage {
                SlotStorage::Constant(offset, bits) => Some((offset, bits)),
                SlotStorage::Argument(offset, number, dtype) => {
                    let value = Scalar::from_bits(launch.scalars[number as usize], dtype);
                    Some((offset, value.to_bits(dtype.compute())))
                }
                SlotStorage::Register(_) | SlotStorage::Memory | SlotStorage::ReductionState => None,
            };
            if let Some((offset, bits)) = bits {
                // SAFETY: constants' offsets lie in scratch memory, 8 apart.
                unsafe { scratch.add(offset).cast::<u64>().write(bits) }
            }
            self.homes.push(match info.storage {
                SlotStorage::Register(offset)
                | SlotStorage::Constant(offset, _)
                | SlotStorage::Argument(offset, ..) => scratch.wrapping_add(offset),
                SlotStorage::Memory | SlotStorage::ReductionState => std::ptr::null_mut(),
            });
        }
        self.pointers.clone_from(&self.homes);
        self.offsets.clear();
        self.offsets.resize(program.addresses.len(), 0);
        self.bases.clone_from(&self.offsets);
        self.position.clear();
        self.position.resize(program.axes.len(), 0);
        self.counts = [1; 4];
        // Levels of one point may have no body that would go there.
        for l in program.loops[1..].iter().flatten().filter(|l| l.trip_count() == 1) {
            self.move_to(program, l, l.start);
        }
        self.rows.clear();
        self.rows.resize(program.reductions.len(), [0; 2]);
        self.rows_per_job = None;
    }

    /// Takes over what another frame's level-0 body has computed.
    pub fn inherit(&mut self, program: &TileProgram, parent: &Frame) {
        for (i, info) in program.slots.iter().enumerate() {
            if info.level == 0 {
                self.pointers[i] = parent.pointers[i];
            }
        }
        self.position.clone_from(&parent.position);
        self.counts = parent.counts;
    }

    /// Where a slot points.
    #[inline]
    pub fn slot(&self, slot: FrameSlot) -> *mut u8 {
        self.pointers[slot.0 as usize]
    }
    /// The register of a slot.
    #[inline]
    pub fn home(&self, slot: FrameSlot) -> *mut u8 {
        self.homes[slot.0 as usize]
    }
    /// Makes a slot point somewhere.
    #[inline]
    pub fn point(&mut self, slot: FrameSlot, at: *mut u8) {
        self.pointers[slot.0 as usize] = at;
    }
    /// The current value of an address.
    #[inline]
    pub fn offset(&self, address: AddressId) -> i64 {
        self.offsets[address.0 as usize]
    }
    /// Elements a shape has in the current tile.
    #[inline]
    pub fn count(&self, shape: TileShape) -> usize {
        self.counts[shape.index()]
    }
    /// Rows and columns of the current tile.
    #[inline]
    pub fn tile(&self) -> (usize, usize) {
        (self.count(TileShape::Row), self.count(TileShape::Column))
    }

    /// Sets the rows or columns of the current tile.
    fn resize(&mut self, shape: TileShape, count: usize) {
        self.counts[shape.index()] = count;
        self.counts[TileShape::Full.index()] =
            self.counts[TileShape::Row.index()] * self.counts[TileShape::Column.index()];
    }

    /// Goes to the n-th point of a body's level.
    pub fn enter(&mut self, program: &TileProgram, body: &LoopBody, loops: &LoopNest, point: usize) {
        let mut rest = point;
        for l in loops.iter().rev() {
            let count = l.trip_count();
            self.move_to(program, l, l.start + rest % count * l.chunk);
            rest /= count;
        }
        self.rebase(program, body, loops);
    }

    /// Goes to the next point; gives the number of the outermost loop that
    /// advanced.
    #[inline]
    pub fn advance(&mut self, program: &TileProgram, body: &LoopBody, loops: &LoopNest) -> usize {
        let last = loops.len() - 1;
        let inner = &loops[last];
        let next = self.position[inner.axis.index()] + inner.chunk;
        if next < inner.end {
            self.move_to(program, inner, next);
            let axis = inner.axis.index();
            for &id in &body.addresses {
                let step = program.addresses[id.0 as usize].strides[axis];
                self.offsets[id.0 as usize] = self.bases[id.0 as usize] + step * next as i64;
            }
            return last;
        }
        self.carry(program, body, loops)
    }

    /// Advances an outer loop.
    fn carry(&mut self, program: &TileProgram, body: &LoopBody, loops: &LoopNest) -> usize {
        for (number, l) in loops.iter().enumerate().rev() {
            let next = self.position[l.axis.index()] + l.chunk;
            if next < l.end {
                self.move_to(program, l, next);
                self.rebase(program, body, loops);
                return number;
            }
            self.move_to(program, l, l.start);
        }
        panic!("no point after the last one")
    }

    #[inline]
    fn move_to(&mut self, program: &TileProgram, l: &super::super::program::Loop, position: usize) {
        self.position[l.axis.index()] = position;
        if program.col == Some(l.axis) {
            self.resize(TileShape::Column, l.chunk.min(l.end - position));
        } else if program.row == Some(l.axis) {
            self.resize(TileShape::Row, l.chunk.min(l.end - position));
        }
    }

    /// Recomputes a body's addresses from all positions.
    fn rebase(&mut self, program: &TileProgram, body: &LoopBody, loops: &LoopNest) {
        let inner = loops.last().map(|l| l.axis.index());
        for &id in &body.addresses {
            let Address { offset, strides } = &program.addresses[id.0 as usize];
            let mut value = *offset;
            for (axis, (&stride, &position)) in strides.iter().zip(&self.position).enumerate() {
                if Some(axis) != inner && program.axes[axis].level <= body.level {
                    value += stride * position as i64;
                }
            }
            self.bases[id.0 as usize] = value;
            let along = inner.map_or(0, |axis| strides[axis] * self.position[axis] as i64);
            self.offsets[id.0 as usize] = value + along;
        }
    }

    /// Goes to a tile given by its first position along all axes.
    pub fn jump(&mut self, program: &TileProgram, body: &LoopBody, rows: usize, cols: usize) {
        self.resize(TileShape::Row, rows);
        self.resize(TileShape::Column, cols);
        for &id in &body.addresses {
            let Address { offset, strides } = &program.addresses[id.0 as usize];
            let along =
                strides.iter().zip(&self.position).map(|(&stride, &position)| stride * position as i64);
            self.offsets[id.0 as usize] = offset + along.sum::<i64>();
        }
    }
}
