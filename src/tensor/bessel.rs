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
    i0 |x| x.i0();
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
    i1 |x| x.i1();
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
    fn i0(&self) -> Term {
        let parts = self.bessel_parts(&fit::I0_BELOW_8, &fit::I0_ABOVE_8);
        self.choose(&parts.small, parts.near, parts.far).with_slope(self, |x, _| {
            // At infinities the function of order 1 is no number here.
            x.choose(&x.abs().eq(f64::INFINITY), x, x.i1())
        })
    }

    fn i1(&self) -> Term {
        let parts = self.bessel_parts(&fit::I1_BELOW_8, &fit::I1_ABOVE_8);
        let far = parts.far.negated_where(&self.lt(0.0));
        self.choose(&parts.small, parts.x * parts.near, far).with_slope(self, |x, y| {
            let parts = x.bessel_parts(&fit::I1_BELOW_8, &fit::I1_ABOVE_8);
            let quotient = x.choose(&parts.small, parts.near, y / x.choose(&parts.small, 1.0, x));
            x.i0() - quotient
        })
    }

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
