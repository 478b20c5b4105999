//! Two bfloat16 as one element, since instructions that multiply them take two depths at a
//! time.

use half::bf16;

/// Elements of two successive depths, of which a product adds both products; in a sum, the
/// bits of a 32-bit float.
///
/// Needs no more alignment than its parts, so rows in memory are rows of pairs.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Pair([bf16; 2]);

impl Pair {
    /// No sum yet, and nothing that adds to one.
    pub(super) const ZERO: Pair = Pair([bf16::ZERO; 2]);

    /// The pair of two elements.
    #[cfg(test)]
    pub const fn new(first: bf16, second: bf16) -> Pair {
        Pair([first, second])
    }

    /// As a sum.
    #[inline(always)]
    pub fn sum(self) -> f32 {
        f32::from_bits(u32::from(self.0[0].to_bits()) | u32::from(self.0[1].to_bits()) << 16)
    }

    /// A sum.
    #[inline(always)]
    pub fn of_sum(sum: f32) -> Pair {
        let bits = sum.to_bits();
        Pair([bf16::from_bits(bits as u16), bf16::from_bits((bits >> 16) as u16)])
    }

    /// The product of two pairs, added to a sum. Every product is exact.
    #[inline(always)]
    pub(super) fn multiply_add(self, x: Pair, sum: Pair) -> Pair {
        let wide = |x: bf16| f32::from_bits(u32::from(x.to_bits()) << 16);
        let [first, second] = [0, 1].map(|i| wide(self.0[i]) * wide(x.0[i]));
        Pair::of_sum(sum.sum() + second + first)
    }
}
