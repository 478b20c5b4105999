//! Copies of strided rows: one call copies all rows of a tile, since a call costs as much as a
//! short row.

use crate::micro::batched_rows::{BatchedLoop, BatchedRowsFn, RowBatch, batched_loop};
use crate::micro::isa::Isa;
use crate::micro::lane::LaneType;
use crate::micro::{OperandPtrs, Operation, Variants, memory};

/// A copy of operand `a`.
pub fn copy_operation(lane: LaneType) -> Operation {
    let non_temporal = memory::store_nt();
    // Only 4-byte lanes have non-temporal stores.
    let words = lane.size() == size_of::<u32>();
    let variants = words.then(|| Variants { batched: copy_rows(lane), non_temporal });
    Operation { function: memory::copy(lane), name: "copy", variants }
}

/// Copies rows of operand `a`.
pub fn copy_rows(lane: LaneType) -> BatchedRowsFn {
    match lane.size() {
        1 => batched_loop::<CopyRows<1>>(),
        4 => batched_loop::<CopyRows<4>>(),
        _ => batched_loop::<CopyRows<8>>(),
    }
}

/// Rows of elements of `SIZE` bytes.
struct CopyRows<const SIZE: usize>;
impl<const SIZE: usize> BatchedLoop for CopyRows<SIZE> {
    #[inline(always)]
    unsafe fn run<I: Isa>(dst: *mut u8, [a, ..]: OperandPtrs, n: usize, batch: &RowBatch) {
        let bytes = n * SIZE;
        // SAFETY: the caller's promise; a row has at least as many bytes as are copied at a time.
        unsafe {
            match bytes {
                64.. => copy_chunks::<64>(dst, a, bytes, batch),
                32.. => copy_chunks::<32>(dst, a, bytes, batch),
                16.. => copy_chunks::<16>(dst, a, bytes, batch),
                8.. => copy_chunks::<8>(dst, a, bytes, batch),
                4.. => copy_chunks::<4>(dst, a, bytes, batch),
                _ => copy_chunks::<1>(dst, a, bytes, batch),
            }
        }
    }
}

/// Copies `BYTES` bytes at a time. A row's last chunk overlaps the one before, to end with the row.
///
/// # Safety
/// The contract of [`BatchedRowsFn`], for rows of no bytes or at least `BYTES`.
#[inline(always)]
unsafe fn copy_chunks<const BYTES: usize>(dst: *mut u8, a: *const u8, bytes: usize, batch: &RowBatch) {
    let Some(last) = bytes.checked_sub(BYTES) else { return };
    for (to, from) in batch.row_ptrs(dst, a) {
        // SAFETY: the caller's promise.
        let copy = |at: usize| unsafe {
            to.add(at).cast::<[u8; BYTES]>().write(from.add(at).cast::<[u8; BYTES]>().read());
        };
        (0..last).step_by(BYTES).for_each(copy);
        copy(last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::micro::MAX_OPERANDS;
    use crate::micro::isa::forced;

    #[test]
    fn rows_of_any_length_are_copied_and_nothing_else() {
        forced::each_level(|_| {
            for (lane, size) in [(LaneType::U8, 1), (LaneType::F32, 4), (LaneType::F64, 8)] {
                for n in 0..80 {
                    let (rows, dst_stride, src_stride) = (3, (n + 2) * size, (n + 5) * size);
                    let from: Vec<u8> = (0..rows * src_stride).map(|i| (i % 251) as u8).collect();
                    let mut to = vec![255u8; rows * dst_stride];
                    let batch = RowBatch::unary(rows, dst_stride, src_stride);
                    // SAFETY: three rows of each, with these strides.
                    unsafe { copy_rows(lane)(to.as_mut_ptr(), [from.as_ptr(); MAX_OPERANDS], n, &batch) }
                    for (to, from) in to.chunks(dst_stride).zip(from.chunks(src_stride)) {
                        assert_eq!(to[..n * size], from[..n * size], "{n} of {size} bytes");
                        assert!(to[n * size..].iter().all(|&byte| byte == 255), "{n} of {size} bytes");
                    }
                }
            }
        });
    }
}
