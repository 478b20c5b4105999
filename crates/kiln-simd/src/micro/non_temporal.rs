//! Arithmetic with non-temporal stores: results go from registers to whole cache lines of memory.

use std::marker::PhantomData;

use crate::micro::alu::{Micro, micro};
use crate::micro::isa::{CacheLine, Isa};
use crate::micro::memory::whole_cache_lines;
use crate::micro::{MAX_OPERANDS, MicroFn, OperandPtrs};

/// A micro-op that computes each element, an `f32`, by itself.
pub(super) trait Elementwise: Micro {
    /// Bytes from an operand's element to the next; 0 for a broadcast operand.
    const STEPS: [usize; MAX_OPERANDS];
}

/// The [step](Elementwise::STEPS) of an `f32` operand, a vector or a broadcast one.
pub(super) const fn step(vector: bool) -> usize {
    if vector { size_of::<f32>() } else { 0 }
}

/// A micro-op whose stores [`super::nt_fence`] orders.
pub(super) fn non_temporal<K: Elementwise + 'static>() -> MicroFn {
    micro::<NonTemporal<K>>()
}

struct NonTemporal<K>(PhantomData<K>);
impl<K: Elementwise> Micro for NonTemporal<K> {
    #[inline(always)]
    unsafe fn run<I: Isa>(dst: *mut u8, from: OperandPtrs, n: usize, next: *const u8) {
        let (to, (start, end)) = (dst.cast::<f32>(), whole_cache_lines(dst, n));
        let at = |i: usize| std::array::from_fn(|k| from[k].wrapping_add(i * K::STEPS[k]));
        let prefetched = |i: usize| next.wrapping_add(i * K::STEPS[0]);
        // SAFETY: the contract of `MicroFn`, for parts of the run; whole cache lines lie inside `n`.
        unsafe {
            if start > 0 {
                K::run::<I>(dst, from, start, next);
            }
            for i in (start..end).step_by(CacheLine::ELEMENTS) {
                let mut line = CacheLine([0.0; CacheLine::ELEMENTS]);
                K::run::<I>(line.0.as_mut_ptr().cast(), at(i), CacheLine::ELEMENTS, prefetched(i));
                I::store_non_temporal(to.add(i), &line);
            }
            if end < n {
                K::run::<I>(to.add(end).cast(), at(end), n - end, prefetched(end));
            }
        }
    }
}
