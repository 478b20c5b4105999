//! What a contraction sums.

use std::fmt;

/// What a contraction sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SummedTerms {
    /// Products.
    Products,
    /// Products of bfloat16, multiplied as they are, two depths at a time.
    PairsOfProducts,
    /// Squares of differences.
    SquaredDifferences,
    /// Magnitudes of differences.
    AbsoluteDifferences,
}

impl fmt::Display for SummedTerms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SummedTerms::Products => "",
            SummedTerms::PairsOfProducts => " of pairs of bf16",
            SummedTerms::SquaredDifferences => " of squared differences",
            SummedTerms::AbsoluteDifferences => " of absolute differences",
        })
    }
}
