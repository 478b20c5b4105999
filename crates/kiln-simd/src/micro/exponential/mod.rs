//! Exponentials written for one instruction set, and loops over them.
//!
//! Such an instruction set implements [`F32Vector`](vector::F32Vector), which has the exponential;
//! [`rows`] has the loops, written once over any vector type. An exponential has the same bits
//! whichever of the loops computes it.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod rows;
#[cfg(all(test, target_arch = "x86_64"))]
mod tests;
#[cfg(target_arch = "x86_64")]
mod vector;

use crate::micro::MicroFn;
use crate::micro::batched_rows::BatchedRowsFn;
use crate::micro::isa::{Level, level};
use crate::micro::softmax::SoftmaxBlock;

/// The loops of one instruction set, on `f32`.
pub(super) struct ExpLoops {
    /// `dst = e^a`.
    pub exp: MicroFn,
    /// The same over a batch of rows.
    pub exp_batched: BatchedRowsFn,
    /// The same with non-temporal stores.
    pub exp_non_temporal: MicroFn,
    /// [`Fused::ExpSub`](super::Fused::ExpSub), `b` a broadcast.
    pub exp_sub: MicroFn,
    /// [`Fused::ExpSubSum`](super::Fused::ExpSubSum).
    pub exp_sub_sum: MicroFn,
    /// [`Fused::ExpBelowSum`](super::Fused::ExpBelowSum).
    pub exp_below_sum: MicroFn,
    /// [`super::softmax::online_softmax_update`].
    pub online_softmax_update: unsafe fn(&SoftmaxBlock),
}

/// The loops of the machine's instruction set, if any.
pub(super) fn loops() -> Option<&'static ExpLoops> {
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
