//! Piecewise polynomials, one for each of some intervals, with the coefficients in registers: one
//! permutation looks a coefficient up for all lanes of a vector. So a low degree is enough where
//! one polynomial, or two and an exponential, take many more operations.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

use crate::micro::MicroFn;
use crate::micro::isa::{Level, level};

/// Where the error function is 1 to the last bit, in the last interval.
#[cfg(target_arch = "x86_64")]
const ONE: f32 = 3.937;

/// The error function, within 2.4 ulp, by the instruction set's own permutations where it has some.
pub(super) fn erf() -> Option<MicroFn> {
    match level() {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => Some(avx512::erf),
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => Some(avx2::erf),
        #[cfg(not(target_arch = "x86_64"))]
        Level::Avx2 | Level::Avx512 => None,
        Level::Base => None,
    }
}
