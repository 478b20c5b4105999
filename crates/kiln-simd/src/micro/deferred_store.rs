//! Deferred stores: a product whose non-temporal stores are software-pipelined into another loop.
//!
//! Memory drains non-temporal stores more slowly than a loop issues them: back to back they fill
//! the write-combining buffers, and the next loop's stores stall. Interleaved with the arithmetic
//! of an exponential they cost little more than that arithmetic.

use crate::DType;
use crate::micro::fused::{Fused, exp_sum_loops};
use crate::micro::isa::CacheLine;
use crate::micro::lane::LaneType;
use crate::micro::{MicroFn, OperandKind, OperandKinds, OperandPtrs};

/// The product of a row and a scalar that is still to be computed and stored non-temporally.
#[derive(Clone, Copy, Debug)]
pub struct DeferredStore {
    /// The micro-op.
    pub function: MicroFn,
    /// Where the first element goes.
    pub to: *mut f32,
    /// The first element of the row.
    pub from: *const f32,
    /// The scalar.
    pub factor: f32,
    /// Elements of the row.
    pub n: usize,
}

impl DeferredStore {
    /// Whether it fills whole cache lines. A partial line costs a read of memory, for which later
    /// stores wait.
    #[inline]
    pub fn fills_cache_lines(&self) -> bool {
        self.to.addr().is_multiple_of(size_of::<CacheLine>()) && self.n.is_multiple_of(CacheLine::ELEMENTS)
    }

    /// Computes and stores it.
    ///
    /// # Safety
    /// That of [`MicroFn`] for `function` and the row.
    pub unsafe fn store(&self) {
        let (to, from) = (self.to.cast(), self.from.cast());
        // SAFETY: the caller's promise.
        unsafe { (self.function)(to, [from, (&raw const self.factor).cast(), from, from], self.n, from) }
    }
}

/// A superinstruction that also performs a deferred store: `fn(dst, [a, b, c], n, next, deferred)`.
///
/// # Safety
/// That of [`MicroFn`] and of [`DeferredStore::store`]; neither writes what the other reads or writes, and
/// the store [fills cache lines](DeferredStore::fills_cache_lines).
pub type OverlapFn =
    unsafe fn(dst: *mut u8, from: OperandPtrs, n: usize, next: *const u8, deferred: &DeferredStore);

/// The loop of a superinstruction that also performs a deferred store, where there is one.
pub fn overlapping(op: Fused, dtype: DType, kinds: OperandKinds) -> Option<OverlapFn> {
    let applies =
        LaneType::of(dtype) == LaneType::F32 && kinds[..2] == [OperandKind::Vector, OperandKind::Broadcast];
    if applies { exp_sum_loops(op).map(|loops| loops.with_deferred) } else { None }
}
