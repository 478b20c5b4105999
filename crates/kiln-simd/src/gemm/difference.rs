//! Elements whose "product" is a function of their difference, so that pairwise distances of the
//! rows of two matrices are matrix products.

/// An element whose product with another is the square of their difference; a sum is a plain sum.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
#[repr(transparent)]
pub struct SquaredDifference(pub f32);

/// An element whose product with another is the magnitude of their difference; a sum is a plain sum.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
#[repr(transparent)]
pub struct AbsoluteDifference(pub f32);

impl SquaredDifference {
    /// The product of two elements, added to a sum.
    #[inline(always)]
    pub(super) fn multiply_add(self, x: Self, sum: Self) -> Self {
        let difference = self.0 - x.0;
        SquaredDifference(difference * difference + sum.0)
    }
}

impl AbsoluteDifference {
    /// The product of two elements, added to a sum.
    #[inline(always)]
    pub(super) fn multiply_add(self, x: Self, sum: Self) -> Self {
        AbsoluteDifference((self.0 - x.0).abs() + sum.0)
    }
}
