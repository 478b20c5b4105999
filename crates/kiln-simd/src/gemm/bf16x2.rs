//! Two bfloat16 as one element: dot-product instructions multiply two successive elements of k.

use half::bf16;

/// Two successive elements along k, whose product is the sum of both products; in an accumulator,
/// the bits of a 32-bit float.
///
/// It needs no more alignment than a bfloat16, so rows in memory are rows of `Bf16x2`.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Bf16x2([bf16; 2]);

impl Bf16x2 {
    /// The zero of accumulators and of factors.
    pub(super) const ZERO: Bf16x2 = Bf16x2([bf16::ZERO; 2]);

    /// The pair of two elements.
    pub const fn new(first: bf16, second: bf16) -> Bf16x2 {
        Bf16x2([first, second])
    }

    /// As a sum.
    #[inline(always)]
    pub fn sum(self) -> f32 {
        f32::from_bits(u32::from(self.0[0].to_bits()) | u32::from(self.0[1].to_bits()) << 16)
    }

    /// A sum.
    #[inline(always)]
    pub fn of_sum(sum: f32) -> Bf16x2 {
        let bits = sum.to_bits();
        Bf16x2([bf16::from_bits(bits as u16), bf16::from_bits((bits >> 16) as u16)])
    }

    /// The product of two pairs, added to a sum. Every product is exact.
    #[inline(always)]
    pub(super) fn multiply_add(self, x: Bf16x2, sum: Bf16x2) -> Bf16x2 {
        let wide = |x: bf16| f32::from_bits(u32::from(x.to_bits()) << 16);
        let [first, second] = [0, 1].map(|i| wide(self.0[i]) * wide(x.0[i]));
        Bf16x2::of_sum(sum.sum() + second + first)
    }
}

/// Pairs compare as the sums that they may be.
impl PartialEq for Bf16x2 {
    fn eq(&self, other: &Bf16x2) -> bool {
        self.sum() == other.sum()
    }
}

impl PartialOrd for Bf16x2 {
    fn partial_cmp(&self, other: &Bf16x2) -> Option<std::cmp::Ordering> {
        self.sum().partial_cmp(&other.sum())
    }
}
