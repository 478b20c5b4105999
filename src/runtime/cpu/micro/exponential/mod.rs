//! Exponentials by instructions that one instruction set has, and loops over them.
//!
//! Such an instruction set brings a [`Register`](register::Register), which knows the exponential;
//! [`rows`] has the loops, written once over any register. An exponential has the same bits
//! whichever of the loops computes it.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod register;
#[cfg(target_arch = "x86_64")]
mod rows;
#[cfg(all(test, target_arch = "x86_64"))]
mod tests;

use crate::runtime::cpu::micro::MicroFn;
use crate::runtime::cpu::micro::isa::{Level, level};
use crate::runtime::cpu::micro::late::OverlapFn;
use crate::runtime::cpu::micro::lines::LinesFn;
use crate::runtime::cpu::micro::softmax::Weights;

/// The loops of one instruction set, on `f32`.
pub(super) struct Loops {
    /// `dst = e^a`.
    pub exp: MicroFn,
    /// The same over short lines.
    pub exp_lines: LinesFn,
    /// The same past the caches.
    pub exp_streamed: MicroFn,
    /// [`Fused::ExpSub`](super::Fused::ExpSub), `b` a scalar.
    pub sub: MicroFn,
    /// [`Fused::ExpSubSum`](super::Fused::ExpSubSum).
    pub sub_sum: Summing,
    /// [`Fused::ExpBelowSum`](super::Fused::ExpBelowSum).
    pub below_sum: Summing,
    /// [`super::softmax::weigh`].
    pub weigh: unsafe fn(&Weights),
}

/// A loop whose results are summed.
pub(super) struct Summing {
    /// The loop by itself.
    pub alone: MicroFn,
    /// The same with the store of a late product.
    pub late: OverlapFn,
}

/// The loops of the machine's instruction set, where it has some.
pub(super) fn loops() -> Option<&'static Loops> {
    match level() {
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => Some(&avx2::LOOPS),
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => Some(&avx512::LOOPS),
        #[cfg(not(target_arch = "x86_64"))]
        Level::Avx2 | Level::Avx512 => None,
        Level::Base => None,
    }
}
