//! Products of bfloat16 where the processor multiplies them as they are: operands become
//! pairs of successive depths. One in memory whose depths lie one after another already is
//! that; of any other, blocks are paired as the product packs them.

use std::ops::Range;
use std::ptr::null;

use half::bf16;
use kiln_simd::micro::{self, MAX_OPERANDS, MicroFn, OperandKind};

use super::{OperandSource, Strides, WriteBlockFn, element};
use crate::base::{DType, Precision};
use crate::kernel::{Contraction, Kernel};
use crate::runtime::Bindings;
use crate::runtime::cpu::gemm::{self, Bf16x2, GemmOperand, PackOrder, PackRequest, scratch};
use crate::runtime::cpu::thresholds::{BF16_ROUNDED_ROWS, BF16_STAGING_ELEMENTS};
use crate::runtime::cpu::tile::product::StridedBlock;

/// What follows the last depth where it has none beside it.
static NOTHING: [f32; 1] = [0.0];

/// Whether a contraction is computed in pairs. Subnormal factors then count as zeros, as
/// they do where PyTorch uses this instruction; [`Precision::Strict`] multiplies 32-bit floats.
/// [`Precision::Medium`] rounds those for a matrix unit.
pub(super) fn uses_bf16_pairs(kernel: &Kernel, contraction: &Contraction) -> bool {
    let few = || kernel.points_of(&contraction.m).min(kernel.points_of(&contraction.n)) < BF16_ROUNDED_ROWS;
    match [contraction.a, contraction.b].map(|value| kernel.exprs[value.index()].dtype) {
        [DType::BF16, DType::BF16] => contraction.precision != Precision::Strict && gemm::has_bf16_dot(),
        [DType::F32, DType::F32] => {
            contraction.precision == Precision::Medium && gemm::has_matrix_unit() && !few()
        }
        _ => false,
    }
}

/// An operand in pairs, on some memory.
pub(super) struct Bf16Operand<'a> {
    side: &'a OperandSource,
    /// Depths, not pairs of them.
    k: usize,
    bindings: &'a Bindings<'a>,
    /// What computes blocks, if that is where they come from.
    read: Option<Box<WriteBlockFn<'a>>>,
}

impl<'a> Bf16Operand<'a> {
    pub(super) fn new(side: &'a OperandSource, k: usize, bindings: &'a Bindings<'a>) -> Bf16Operand<'a> {
        let read = match side {
            OperandSource::Strided { .. } => None,
            OperandSource::Packed { writer, .. } => Some(writer.on(bindings)),
        };
        Bf16Operand { side, k, bindings, read }
    }

    /// Pairs from where the operand begins to a batch's first, where it is read in place.
    pub(super) fn offset(&self, batch: usize) -> isize {
        match self.side {
            OperandSource::Strided { strides, .. } => strides.batch(batch) / 2,
            OperandSource::Packed { .. } => 0,
        }
    }

    /// The operand, given the methods above and below as functions.
    pub(super) fn operand<'f>(
        &self,
        batch: &'f (dyn Fn(usize) -> isize + Sync),
        fill: &'f (dyn Fn(PackRequest<Bf16x2>) + Sync),
    ) -> GemmOperand<'f, Bf16x2> {
        match self.side {
            OperandSource::Strided { input, strides } if strides.holds_pairs(self.k) => {
                GemmOperand::Strided {
                    ptr: element::<bf16>(&self.bindings.inputs[*input as usize], strides.offset)
                        .cast::<Bf16x2>(),
                    row_stride: strides.row() / 2,
                    k_stride: 1,
                    batch,
                }
            }
            OperandSource::Strided { strides, .. } if strides.contiguous() => {
                GemmOperand::Packed { order: PackOrder::KContiguous, fill, dots: None }
            }
            OperandSource::Strided { .. } => {
                GemmOperand::Packed { order: PackOrder::RowContiguous, fill, dots: None }
            }
            OperandSource::Packed { order, .. } => GemmOperand::Packed { order: *order, fill, dots: None },
        }
    }

    /// Writes a block.
    pub(super) fn fill(&self, fill: PackRequest<Bf16x2>) {
        match (self.side, &self.read) {
            (OperandSource::Strided { input, strides }, _) => {
                let start = element::<bf16>(&self.bindings.inputs[*input as usize], strides.offset);
                let start = start.wrapping_offset(strides.batch(fill.batch)).cast_const();
                // SAFETY: the kernel's accesses lie inside its buffers, and the product hands
                // out blocks that are its own.
                unsafe {
                    match strides.contiguous() {
                        true => self.copy_rows(start, strides, &fill),
                        false => self.interleave_k(start, strides, &fill),
                    }
                }
            }
            (OperandSource::Packed { order: PackOrder::KContiguous, .. }, Some(read)) => {
                self.compute_row_major(read, &fill)
            }
            (OperandSource::Packed { order: PackOrder::RowContiguous, .. }, Some(read)) => {
                self.compute_k_major(read, &fill)
            }
            (OperandSource::Packed { .. }, None) => panic!("a packed operand has a program"),
        }
    }

    /// The depths of some pairs.
    fn k_range(&self, pairs: &Range<usize>) -> Range<usize> {
        2 * pairs.start..self.k.min(2 * pairs.end)
    }

    /// Copies rows whose depths lie one after another.
    ///
    /// # Safety
    /// Rows are readable, and the block is writable.
    unsafe fn copy_rows(&self, start: *const bf16, strides: &Strides, fill: &PackRequest<Bf16x2>) {
        let depths = self.k_range(&fill.k);
        for (line, row) in fill.rows.clone().enumerate() {
            let from = start.wrapping_offset(row as isize * strides.row()).wrapping_add(depths.start);
            let to = fill.to.wrapping_add(line * fill.ld).cast::<bf16>();
            // SAFETY: the caller's promise.
            unsafe {
                to.copy_from_nonoverlapping(from, depths.len());
                pad(to, depths.len());
            }
        }
    }

    /// Pairs each two values of k, in lines of rows.
    ///
    /// # Safety
    /// As [`Bf16Operand::copy_rows`].
    unsafe fn interleave_k(&self, start: *const bf16, strides: &Strides, fill: &PackRequest<Bf16x2>) {
        let rows = fill.rows.len();
        let start = start.wrapping_offset(fill.rows.start as isize * strides.row());
        for (line, pair) in fill.k.clone().enumerate() {
            let first = start.wrapping_offset(2 * pair as isize * strides.col as isize);
            let second = first.wrapping_offset(strides.col as isize);
            let to = fill.to.wrapping_add(line * fill.ld);
            let is_last = 2 * pair + 1 == self.k;
            // A block's rows are short pieces of memory's: the next block's are prefetched here.
            for x in [first, second] {
                let next = x.wrapping_offset(2 * fill.k.len() as isize * strides.col as isize);
                micro::prefetch_l2(next.cast(), rows * size_of::<bf16>());
            }
            // SAFETY: the caller's promise; a last depth without another beside it reads zeros.
            unsafe {
                if strides.row() == 1 {
                    let second = if is_last { NOTHING.as_ptr().cast() } else { second.cast::<u8>() };
                    interleave(false, is_last)(
                        to.cast(),
                        [first.cast(), second, null(), null()],
                        rows,
                        null(),
                    );
                    continue;
                }
                for row in 0..rows as isize {
                    let [x, y] = [first, second].map(|x| x.wrapping_offset(row * strides.row()));
                    let y = if is_last { bf16::ZERO } else { *y };
                    to.cast::<[bf16; 2]>().wrapping_offset(row).write([*x, y]);
                }
            }
        }
    }

    /// Computes rows along their depths, some at a time, and rounds them.
    fn compute_row_major(&self, read: &WriteBlockFn<'_>, fill: &PackRequest<Bf16x2>) {
        let depths = self.k_range(&fill.k);
        let ld = scratch::padded::<f32>(depths.len());
        let (count, round) = ((BF16_STAGING_ELEMENTS / ld).max(1), micro::store(DType::BF16));
        scratch::with(count * ld, |room: *mut f32| {
            for first in fill.rows.clone().step_by(count) {
                let rows = first..fill.rows.end.min(first + count);
                read(fill.batch, rows.clone(), depths.clone(), lines(room, ld));
                for row in rows {
                    let from = room.wrapping_add((row - first) * ld);
                    let to = fill.to.wrapping_add((row - fill.rows.start) * fill.ld).cast::<bf16>();
                    // SAFETY: the room holds the line, and the block's is its own.
                    unsafe {
                        round(to.cast(), [from.cast(); MAX_OPERANDS], depths.len(), null());
                        pad(to, depths.len());
                    }
                }
            }
        });
    }

    /// Computes lines of rows, some depths at a time, and pairs each two.
    fn compute_k_major(&self, read: &WriteBlockFn<'_>, fill: &PackRequest<Bf16x2>) {
        let rows = fill.rows.len();
        let ld = scratch::padded::<f32>(rows);
        let count = (BF16_STAGING_ELEMENTS / (2 * ld)).max(1);
        scratch::with(2 * count * ld, |room: *mut f32| {
            for start in fill.k.clone().step_by(count) {
                let pairs = start..fill.k.end.min(start + count);
                let depths = self.k_range(&pairs);
                read(fill.batch, depths.clone(), fill.rows.clone(), lines(room, ld));
                for pair in pairs {
                    let first = room.wrapping_add((2 * pair - depths.start) * ld);
                    let is_last = 2 * pair + 1 == self.k;
                    let second = if is_last { NOTHING.as_ptr() } else { first.wrapping_add(ld) };
                    let to = fill.to.wrapping_add((pair - fill.k.start) * fill.ld);
                    // SAFETY: the room holds both lines, and the block's is its own.
                    unsafe {
                        interleave(true, is_last)(
                            to.cast(),
                            [first.cast(), second.cast(), null(), null()],
                            rows,
                            null(),
                        )
                    };
                }
            }
        });
    }
}

impl Strides {
    /// Whether pairs of a matrix so deep can be read where they lie.
    fn holds_pairs(&self, depth: usize) -> bool {
        let even = |step: i64| step % 2 == 0;
        self.contiguous()
            && depth.is_multiple_of(2)
            && even(self.row)
            && self.batch.iter().all(|&(_, step)| even(step))
    }
}

/// Rows in registers or in memory, the second of which may be nothing.
fn interleave(registers: bool, is_last: bool) -> MicroFn {
    micro::interleave_bf16(registers, if is_last { OperandKind::Broadcast } else { OperandKind::Vector })
}

fn lines(room: *mut f32, line: usize) -> StridedBlock {
    StridedBlock { start: room.cast(), row_stride: line, lane: size_of::<f32>() }
}

/// Completes the last pair of a line.
///
/// # Safety
/// If the line has an odd number of elements, it is writable behind them.
unsafe fn pad(line: *mut bf16, elements: usize) {
    if !elements.is_multiple_of(2) {
        // SAFETY: the caller's promise.
        unsafe { *line.add(elements) = bf16::ZERO };
    }
}
