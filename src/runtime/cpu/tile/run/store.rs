//! Stores.

use kiln_simd::micro::{MAX_OPERANDS, RowBatch};

use crate::runtime::cpu::tile::program::{
    BlockTransfer, DestForwarding, FrameSlot, RowLayout, RowwiseOp, TileStore,
};
use crate::runtime::cpu::tile::run::{Frame, TileLaunch};

impl TileLaunch<'_> {
    /// Lets the next step write a store's values in place, where they lie one
    /// after another and the step reads nothing from there.
    #[inline(never)]
    pub fn forward_dest(&self, frame: &mut Frame, forwarding: &DestForwarding) {
        let store = &forwarding.store;
        let at = self.target(frame, store);
        let dense = self.tile_access(frame, store.address, store.shape).dense();
        // No element is wider than this.
        let bytes = frame.count(store.shape) * size_of::<u64>();
        let apart = |&slot: &FrameSlot| frame.slot(slot).addr().abs_diff(at.addr()) >= bytes;
        let direct = dense && forwarding.operands.iter().all(apart);
        frame.point(store.from, if direct { at } else { frame.home(store.from) });
    }

    /// Where a step that goes row by row writes, and the bytes from a row to the next: in
    /// place where it reads nothing of what a store's rows span.
    pub fn forward_row_dest(
        &self,
        frame: &mut Frame,
        op: &RowwiseOp,
        from_on: [usize; MAX_OPERANDS],
        on: usize,
    ) -> (*mut u8, usize) {
        let Some(forwarding) = &op.forwarding else { return (frame.slot(op.to.0), on) };
        let store = &forwarding.store;
        let (rows, cols) = frame.tile();
        let at = self.target(frame, store);
        let apart = self.program.stride_along(store.address, self.program.row);
        let bytes = apart * store.dtype.size() as i64;
        // No element is wider than this.
        let span = |step: usize| rows * step + cols * size_of::<u64>();
        let beside = |(slot, step): (FrameSlot, usize)| {
            let from = frame.slot(slot).addr();
            from + span(step) <= at.addr() || at.addr() + span(bytes as usize) <= from
        };
        let from = op.from.map(|(slot, _)| slot);
        let direct = bytes >= 0 && from.into_iter().zip(from_on).all(beside);
        let to = if direct { at } else { frame.home(store.from) };
        frame.point(store.from, to);
        (to, if direct { bytes as usize } else { on })
    }

    fn target(&self, frame: &Frame, store: &TileStore) -> *mut u8 {
        let offset = frame.offset(store.address) as isize * store.dtype.size() as isize;
        self.memory[store.memory as usize].start.wrapping_offset(offset)
    }

    /// A tile or vector to memory.
    #[inline(never)]
    pub fn store(&self, frame: &mut Frame, store: &TileStore) {
        let (to, from) = (self.target(frame, store), frame.slot(store.from).cast_const());
        if to.cast_const() == from {
            return;
        }
        let access = self.tile_access(frame, store.address, store.shape);
        let (count, apart) = if access.dense() {
            (access.rows * access.len, RowBatch::SINGLE)
        } else {
            let to = (access.row_stride as usize).wrapping_mul(store.dtype.size());
            (access.len, RowBatch::unary(access.rows, to, access.len * store.lane))
        };
        // SAFETY: the program's contract.
        unsafe {
            match store.layout {
                RowLayout::Contiguous(function) => match store.batched.filter(|_| apart.rows > 1) {
                    Some(short) => short(to, [from; MAX_OPERANDS], count, &apart),
                    None => apart
                        .row_ptrs(to, from)
                        .for_each(|(to, from)| function(to, [from; MAX_OPERANDS], count, from)),
                },
                RowLayout::Strided(function) => function(to, from, access.stride as isize, count, &apart),
                RowLayout::Transposed(_) => panic!("stores do not transpose"),
            }
        }
    }

    /// Lets the next step write a block's values in place, where they lie one
    /// after another.
    #[inline(never)]
    pub fn forward_block_dest(&self, frame: &mut Frame, transfer: &BlockTransfer) {
        let (rows, cols) = frame.tile();
        let dense = rows == 1 || frame.block.row_stride == cols;
        frame.point(transfer.slot, if dense { frame.block.start } else { frame.home(transfer.slot) });
    }

    /// The block that a product requests.
    #[inline(never)]
    pub fn to_block(&self, frame: &mut Frame, transfer: &BlockTransfer) {
        let (rows, cols) = frame.tile();
        let (block, from) = (frame.block, frame.slot(transfer.slot).cast_const());
        if from == block.start.cast_const() {
            return;
        }
        for row in 0..rows {
            // SAFETY: the program's contract; the block has `rows` rows.
            unsafe {
                let to = block.start.add(row * block.row_stride * transfer.lane);
                to.copy_from_nonoverlapping(from.add(row * cols * transfer.lane), cols * transfer.lane);
            }
        }
    }
}
