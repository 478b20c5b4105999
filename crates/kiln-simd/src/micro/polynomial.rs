//! Polynomials with constant coefficients as one loop, by Horner's rule. Each product and sum rounds
//! separately, so the result is bit-identical to one loop after the other.

use std::marker::PhantomData;
use std::ops::RangeInclusive;

use crate::DType;
use crate::micro::alu::{Micro, micro};
use crate::micro::isa::Isa;
use crate::micro::lane::{LaneType, Number};
use crate::micro::{MicroFn, OperandPtrs, view, view_mut};

/// Terms of a polynomial that has a loop.
pub const POLYNOMIAL_TERMS: RangeInclusive<usize> = 3..=24;

/// Bytes from a coefficient to the next.
const COEFFICIENT_STRIDE: usize = size_of::<u64>();

/// A polynomial in vector `a` with `terms` coefficients at `b`, eight bytes apart, highest power
/// first; `None` where there is no loop.
///
/// On `F32`, the 16-bit floats' register form, and `F64`.
pub fn polynomial(terms: usize, dtype: DType) -> Option<MicroFn> {
    match LaneType::of(dtype) {
        LaneType::F32 => of_terms::<f32>(terms),
        LaneType::F64 => of_terms::<f64>(terms),
        LaneType::I32 | LaneType::U32 | LaneType::I64 | LaneType::U8 => None,
    }
}

fn of_terms<T: Number + 'static>(terms: usize) -> Option<MicroFn> {
    macro_rules! table {
        ($($n:literal)*) => {
            match terms {
                $($n => Some(micro::<Polynomial<T, $n>>()),)*
                _ => None,
            }
        };
    }
    table! { 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 }
}

struct Polynomial<T, const N: usize>(PhantomData<T>);
impl<T: Number, const N: usize> Micro for Polynomial<T, N> {
    #[inline(always)]
    unsafe fn run<I: Isa>(dst: *mut u8, [a, b, ..]: OperandPtrs, n: usize, _next: *const u8) {
        // SAFETY: the contract of `MicroFn`, with N coefficients at `b`.
        unsafe {
            let coefficients: [T; N] =
                std::array::from_fn(|k| b.add(k * COEFFICIENT_STRIDE).cast::<T>().read());
            evaluate::<T, N>(view_mut(dst, n), view(a, n), &coefficients);
        }
    }
}

#[inline(always)]
fn evaluate<T: Number, const N: usize>(dst: &mut [T], x: &[T], coefficients: &[T; N]) {
    for (d, &x) in dst.iter_mut().zip(x) {
        let mut sum = coefficients[0];
        for &c in &coefficients[1..] {
            sum = sum.times(x).plus(c);
        }
        *d = sum;
    }
}
