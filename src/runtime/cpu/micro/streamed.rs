//! Arithmetic whose results pass the caches by: line for line of the cache, from registers.

use std::marker::PhantomData;

use crate::runtime::cpu::micro::alu::{Micro, micro};
use crate::runtime::cpu::micro::isa::{CacheLine, Isa};
use crate::runtime::cpu::micro::memory::whole_lines;
use crate::runtime::cpu::micro::{MicroFn, OPERANDS, Operands};

/// A micro-op that computes each element, an `f32`, by itself.
pub(super) trait Elementwise: Micro {
    /// Bytes from an operand's element to its next; none of a scalar.
    const STEPS: [usize; OPERANDS];
}

/// The [step](Elementwise::STEPS) of `f32`, of a vector or a scalar.
pub(super) const fn step(vector: bool) -> usize {
    if vector { size_of::<f32>() } else { 0 }
}

/// A micro-op whose stores [`super::nt_fence`] orders.
pub(super) fn streamed<K: Elementwise + 'static>() -> MicroFn {
    micro::<Streamed<K>>()
}

struct Streamed<K>(PhantomData<K>);
impl<K: Elementwise> Micro for Streamed<K> {
    #[inline(always)]
    unsafe fn run<I: Isa>(dst: *mut u8, from: Operands, n: usize, next: *const u8) {
        let (to, (start, end)) = (dst.cast::<f32>(), whole_lines(dst, n));
        let at = |i: usize| std::array::from_fn(|k| from[k].wrapping_add(i * K::STEPS[k]));
        let ask = |i: usize| next.wrapping_add(i * K::STEPS[0]);
        // SAFETY: the contract of `MicroFn`, for parts of the run; whole lines lie inside `n`.
        unsafe {
            if start > 0 {
                K::run::<I>(dst, from, start, next);
            }
            for i in (start..end).step_by(CacheLine::ELEMENTS) {
                let mut line = CacheLine([0.0; CacheLine::ELEMENTS]);
                K::run::<I>(line.0.as_mut_ptr().cast(), at(i), CacheLine::ELEMENTS, ask(i));
                I::stream(to.add(i), &line);
            }
            if end < n {
                K::run::<I>(to.add(end).cast(), at(end), n - end, ask(end));
            }
        }
    }
}
