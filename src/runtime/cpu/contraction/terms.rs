//! What a contraction sums.

use std::fmt;

/// What a contraction sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terms {
    /// Products.
    Products,
    /// Products of bfloat16, multiplied as they are, two depths at a time.
    PairsOfProducts,
    /// Squares of differences.
    SquaredDifferences,
    /// Magnitudes of differences.
    AbsoluteDifferences,
}

impl fmt::Display for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Terms::Products => "",
            Terms::PairsOfProducts => " of pairs of bf16",
            Terms::SquaredDifferences => " of squared differences",
            Terms::AbsoluteDifferences => " of absolute differences",
        })
    }
}
