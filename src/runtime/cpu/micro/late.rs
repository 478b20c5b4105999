//! A product whose stores go between another loop's operations.
//!
//! Memory takes stores past the caches more slowly than a loop makes them: one after another
//! they fill the processor's queue, and the loop that comes next waits to store at all. Among
//! the operations of an exponential they cost little more than that alone.

use crate::base::DType;
use crate::runtime::cpu::micro::fused::{Fused, summing};
use crate::runtime::cpu::micro::isa::CacheLine;
use crate::runtime::cpu::micro::lane::Lane;
use crate::runtime::cpu::micro::{Form, Forms, MicroFn, Operands};

/// The product of a line and a number that is still to be stored past the caches.
#[derive(Clone, Copy, Debug)]
pub struct Late {
    /// The micro-op.
    pub function: MicroFn,
    /// Where the first element goes.
    pub to: *mut f32,
    /// The first element of the line.
    pub from: *const f32,
    /// The number.
    pub factor: f32,
    /// Elements of the line.
    pub n: usize,
}

impl Late {
    /// Whether it fills lines of the cache. Parts of one are read first, and whatever is stored
    /// meanwhile waits.
    pub fn fills_lines(&self) -> bool {
        self.to.addr().is_multiple_of(size_of::<CacheLine>()) && self.n.is_multiple_of(CacheLine::ELEMENTS)
    }

    /// Stores it.
    ///
    /// # Safety
    /// That of [`MicroFn`] for `function` and the line.
    pub unsafe fn store(&self) {
        let (to, from) = (self.to.cast(), self.from.cast());
        // SAFETY: the caller's promise.
        unsafe { (self.function)(to, [from, (&raw const self.factor).cast(), from, from], self.n, from) }
    }
}

/// A superinstruction that stores a late product too: `fn(dst, [a, b, c], n, next, late)`.
///
/// # Safety
/// That of [`MicroFn`] and of [`Late::store`]; neither writes what the other reads or writes, and
/// the product [fills lines](Late::fills_lines).
pub type OverlapFn = unsafe fn(dst: *mut u8, from: Operands, n: usize, next: *const u8, late: &Late);

/// The loop of a superinstruction that stores a late product too, where there is one.
pub fn overlapping(op: Fused, dtype: DType, forms: Forms) -> Option<OverlapFn> {
    let rows = Lane::of(dtype) == Lane::F32 && forms[..2] == [Form::V, Form::S];
    if rows { summing(op).map(|summing| summing.late) } else { None }
}
