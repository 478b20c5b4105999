//! Modified Bessel functions of the first kind.
//!
//! Integers and truth values become `F32` first. Up to 8 a polynomial in
//! `x^2`, from there `exp(x) / sqrt(x)` times one in `1 / x`.

use crate::tensor::fit::{self, Fit};
use crate::tensor::term::{Term, float_functions};

float_functions! {
    /// Modified Bessel function of the first kind, of order 0. At infinities NaN, as in PyTorch.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(1.0, ()).i0().item::<f32>()? - 1.2661).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    i0 |x| {
        let parts = x.bessel_parts(&fit::I0_BELOW_8, &fit::I0_ABOVE_8);
        x.choose(&parts.small, parts.near, parts.far)
    };
    /// Modified Bessel function of the first kind, of order 1. At infinities NaN, as in PyTorch.
    ///
    /// PyTorch: `torch.special.i1`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(1.0, ()).i1().item::<f32>()? - 0.5652).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    i1 |x| {
        let parts = x.bessel_parts(&fit::I1_BELOW_8, &fit::I1_ABOVE_8);
        x.choose(&parts.small, parts.x * parts.near, parts.far.negated_where(&x.lt(0.0)))
    };
}

struct BesselTerms {
    /// Where the magnitude is at most 8.
    small: Term,
    /// The argument there, 0 elsewhere.
    x: Term,
    near: Term,
    far: Term,
}

impl Term {
    fn bessel_parts(&self, below: &Fit, above: &Fit) -> BesselTerms {
        let magnitude = self.abs();
        let small = magnitude.lt(8.0);
        let x = self.choose(&small, self, 0.0);
        let eighth = &x * 0.125;
        let near = (&eighth * &eighth).fit(below);
        let large = self.choose(&small, 8.0, magnitude);
        let scaled = (8.0 / &large).fit(above) / large.sqrt();
        // Half the exponent at a time, to overflow no earlier than the result.
        let half = (large * 0.5).exp();
        let far = (&half * scaled) * half.clone();
        BesselTerms { small, x, near, far }
    }
}
