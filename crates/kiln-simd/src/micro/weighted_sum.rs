//! Sums of shifted rows.

use crate::micro::fold::Real;
use crate::micro::isa::{Isa, versioned};

/// `fn(dst, n, from, offsets, weights)`: `dst[i]` is the sum of `weights[t] * from[offsets[t] + i]`
/// over all `t`, in their order.
///
/// # Safety
/// `dst` is valid for writing `n` elements, `from` at each offset for reading `n`; they do not
/// overlap.
pub type WeightedSumFn =
    unsafe fn(dst: *mut f32, n: usize, from: *const f32, offsets: &[usize], weights: &[f32]);

/// The loop of a [`WeightedSumFn`].
pub fn weighted_sum() -> WeightedSumFn {
    weighted_sum_loop::<WeightedSum>()
}

versioned! {
    /// A loop with the signature [`WeightedSumFn`].
    WeightedSumLoop, weighted_sum_loop, base_weighted_sum_loop,
    fn(dst: *mut f32, n: usize, from: *const f32, offsets: &[usize], weights: &[f32])
}

struct WeightedSum;
impl WeightedSumLoop for WeightedSum {
    #[inline(always)]
    unsafe fn run<I: Isa>(dst: *mut f32, n: usize, from: *const f32, offsets: &[usize], weights: &[f32]) {
        let mut at = 0;
        // SAFETY: the contract of `WeightedSumFn`.
        unsafe {
            while at + 32 <= n {
                block::<I, 32>(dst.add(at), from.add(at), offsets, weights);
                at += 32;
            }
            while at + 8 <= n {
                block::<I, 8>(dst.add(at), from.add(at), offsets, weights);
                at += 8;
            }
            while at < n {
                block::<I, 1>(dst.add(at), from.add(at), offsets, weights);
                at += 1;
            }
        }
    }
}

/// `N` elements, whose sums stay in registers.
///
/// # Safety
/// As [`WeightedSumFn`].
#[inline(always)]
unsafe fn block<I: Isa, const N: usize>(dst: *mut f32, from: *const f32, offsets: &[usize], weights: &[f32]) {
    let mut sums = [0.0; N];
    for (&offset, &weight) in offsets.iter().zip(weights) {
        // SAFETY: the caller's promise; arrays of floats are aligned as one is.
        let x: &[f32; N] = unsafe { &*from.add(offset).cast() };
        for (sum, &x) in sums.iter_mut().zip(x) {
            *sum = Real::mul_add::<I>(x, weight, *sum);
        }
    }
    // SAFETY: the caller's promise.
    unsafe { dst.cast::<[f32; N]>().write(sums) }
}
