//! Rounding: to integers, to decimals, of quotients.

use crate::base::DType;
use crate::ir::AluOp;
use crate::tensor::compose::CallSite;
use crate::tensor::operand::{OperandValue, common_dtype, elementwise, elementwise_as};
use crate::tensor::operators;
use crate::tensor::term::{Term, formula, misplaced};
use crate::tensor::{Operand, Tensor};

/// How a quotient becomes a whole number.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln::opts::Rounding;
/// assert_eq!(Tensor::from([-7i64]).div_rounded(2, Rounding::Trunc).to_vec::<i64>()?, [-3]);
/// assert_eq!(Tensor::from([-7i64]).div_rounded(2, Rounding::Floor).to_vec::<i64>()?, [-4]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rounding {
    /// Towards 0, as C divides integers.
    Trunc,
    /// Towards minus infinity, as Python's `//`.
    Floor,
}

impl Tensor {
    /// The largest integer not above each element; integers stay as they are.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([1.5f32, -1.5]).floor().to_vec::<f32>()?, [1.0, -2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn floor(&self) -> Tensor {
        whole(CallSite::here("floor"), self, |x| x.floor())
    }

    /// The smallest integer not below each element; integers stay as they are.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([1.5f32, -1.5]).ceil().to_vec::<f32>()?, [2.0, -1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn ceil(&self) -> Tensor {
        whole(CallSite::here("ceil"), self, |x| x.ceil())
    }

    /// Each element without its fraction; integers stay as they are.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([1.5f32, -1.5]).trunc().to_vec::<f32>()?, [1.0, -1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn trunc(&self) -> Tensor {
        whole(CallSite::here("trunc"), self, |x| x.trunc())
    }

    /// The nearest integer, halves to the even one; integers stay as they are.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([0.5f32, 1.5, 2.6]).round().to_vec::<f32>()?, [0.0, 2.0, 3.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn round(&self) -> Tensor {
        whole(CallSite::here("round"), self, |x| x.round())
    }

    /// Each element rounded to a number of decimals, to tens and so on where that is negative.
    ///
    /// Invalid for integers and a negative number. PyTorch: `torch.round` with `decimals`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(3.14159, ()).round_decimals(2).item::<f32>()? - 3.14).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn round_decimals(&self, decimals: i32) -> Tensor {
        let site = CallSite::here("round");
        if !self.dtype().is_float() && decimals < 0 {
            return site.invalid("a floating type to round to tens", self.dtype().name(), &[self]);
        }
        let scale = 10f64.powi(decimals.abs());
        whole(site, self, |x| match decimals {
            0 => x.round(),
            1.. => (x * scale).round() / scale,
            ..0 => (x / scale).round() * scale,
        })
    }

    /// The fraction, `x - trunc(x)`, with the sign of `x`. Invalid for integers and truth values.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([1.5f32, -1.25]).frac().to_vec::<f32>()?, [0.5, -0.25]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn frac(&self) -> Tensor {
        let site = CallSite::here("frac");
        if !self.dtype().is_float() {
            return site.invalid("a floating type", self.dtype().name(), &[self]);
        }
        formula(site, [self.into_operand()], |[x]| &x - x.trunc())
    }

    /// The remainder of a division that truncates: the sign is that of `self`. Shapes broadcast.
    ///
    /// An integer by 0 is 0. Invalid for truth values.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([7i64, -7]).fmod(3).to_vec::<i64>()?, [1, -1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn fmod(&self, divisor: impl Operand) -> Tensor {
        let site = CallSite::here("fmod");
        elementwise(site.name, site.span, AluOp::Rem, [self.into_operand(), divisor.into_operand()])
    }

    /// The remainder of a division that rounds down: the sign is that of the divisor, as with `%`.
    ///
    /// Shapes broadcast. An integer by 0 is 0. Invalid for truth values.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([7i64, -7]).remainder(3).to_vec::<i64>()?, [1, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn remainder(&self, divisor: impl Operand) -> Tensor {
        operators::remainder(CallSite::here("remainder").span, [self.into_operand(), divisor.into_operand()])
    }

    /// The quotient rounded down; integers stay integers (over 0: 0). Shapes broadcast.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([7i64, -7]).floor_divide(2).to_vec::<i64>()?, [3, -4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn floor_divide(&self, divisor: impl Operand) -> Tensor {
        floor_divide(CallSite::here("floor_divide"), [self.into_operand(), divisor.into_operand()])
    }

    /// The quotient as a whole number of the operands' common type; integers over 0 are 0.
    ///
    /// Shapes broadcast. PyTorch: `torch.div` with `rounding_mode`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::Rounding;
    /// assert_eq!(Tensor::from([7i64, -7]).div_rounded(2, Rounding::Trunc).to_vec::<i64>()?, [3, -3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn div_rounded(&self, divisor: impl Operand, rounding: Rounding) -> Tensor {
        let site = CallSite::here("div");
        let operands = [self.into_operand(), divisor.into_operand()];
        match rounding {
            Rounding::Floor => floor_divide(site, operands),
            Rounding::Trunc => match common_dtype(&operands) {
                // The quotient is of that type before it loses its fraction.
                Some(dtype) if dtype.is_float() => {
                    formula(site, operands, |[a, b]| (a / b).cast(dtype).cast(dtype.compute()).trunc())
                }
                dtype => {
                    let dtype = dtype.unwrap_or(DType::F32);
                    elementwise_as(site.name, site.span, AluOp::Div, dtype, operands)
                }
            },
        }
    }
}

/// A float rounded by `body`; an integer as it is, truth values refused.
fn whole(site: CallSite, x: &Tensor, body: impl FnOnce(&Term) -> Term) -> Tensor {
    match x.dtype() {
        DType::Bool => site.invalid("a number type", "bool", &[x]),
        DType::U8 | DType::I32 | DType::U32 | DType::I64 => x.clone(),
        DType::F16 | DType::BF16 | DType::F32 | DType::F64 => {
            formula(site, [x.into_operand()], |[x]| body(&x))
        }
    }
}

fn floor_divide(site: CallSite, operands: [OperandValue; 2]) -> Tensor {
    formula(site, operands, |[a, b]| {
        let rest = a.rem(&b);
        // Without its remainder a dividend of floats is a multiple, but for rounding.
        let quotient = if a.dtype().is_float() { (&a - &rest) / &b } else { &a / &b };
        let quotient = match misplaced(&rest, &b) {
            Some(mask) => quotient.choose(&mask, &quotient - quotient.number(1), &quotient),
            None => quotient,
        };
        if !a.dtype().is_float() {
            return quotient;
        }
        // Over 0 the quotient itself tells infinity from NaN.
        let whole = quotient.round();
        // A zero keeps the quotient's sign.
        let whole = a.choose(&whole.eq(0.0), (&a / &b) * 0.0, &whole);
        a.choose(&b.eq(0.0), &a / &b, whole).as_steps_of(&[&a, &b])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::testing::{assert_close, error_text, f32s, i64s, values};

    #[test]
    fn halves_round_to_even_and_zeros_keep_their_sign() {
        let x = f32s(&[8], &[-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.499_999_97, 8_388_609.0]);
        assert_close(&x.round(), &[8], &[-2.0, -2.0, 0.0, 0.0, 2.0, 2.0, 0.0, 8_388_609.0]);
        let zeros = values(&f32s(&[2], &[-0.25, -0.0]).round());
        assert!(zeros.iter().all(|zero| *zero == 0.0 && zero.is_sign_negative()));
        assert_close(&f32s(&[2], &[1.2346, -15.0]).round_decimals(2), &[2], &[1.23, -15.0]);
        assert_close(&f32s(&[2], &[1.2346, -15.0]).round_decimals(-1), &[2], &[0.0, -20.0]);
        assert_close(&f32s(&[2], &[f64::NAN, f64::INFINITY]).round(), &[2], &[f64::NAN, f64::INFINITY]);
    }

    #[test]
    fn integers_are_whole_and_truth_values_no_numbers() {
        assert_eq!(i64s(&[1], &[7]).ceil().dtype(), DType::I64);
        assert!(error_text(&i64s(&[1], &[7]).to_dtype(DType::Bool).floor()).contains("a number type"));
        assert!(error_text(&i64s(&[1], &[7]).frac()).contains("a floating type"));
        assert!(error_text(&i64s(&[1], &[7]).round_decimals(-1)).contains("floating"));
    }

    #[test]
    fn remainders_take_the_sign_of_dividend_or_divisor() {
        let (a, b) = (i64s(&[4], &[7, -7, 7, -7]), i64s(&[4], &[3, 3, -3, -3]));
        assert_close(&a.fmod(&b), &[4], &[1.0, -1.0, 1.0, -1.0]);
        assert_close(&a.remainder(&b), &[4], &[1.0, 2.0, -2.0, -1.0]);
        assert_close(&a.remainder(-3), &[4], &[-2.0, -1.0, -2.0, -1.0]);
        assert_close(&a.floor_divide(&b), &[4], &[2.0, -3.0, -3.0, 2.0]);
        assert_close(&a.div_rounded(&b, Rounding::Trunc), &[4], &[2.0, -2.0, -2.0, 2.0]);
        assert_close(&a.floor_divide(0), &[4], &[0.0; 4]);
    }

    #[test]
    fn floor_division_of_floats_is_exact_where_the_quotient_is_not() {
        let tenth = f64::from(0.1f32);
        assert_close(&f32s(&[2], &[1.0, -1.0]).floor_divide(tenth), &[2], &[9.0, -10.0]);
        let by = f32s(&[2], &[0.0, f64::INFINITY]);
        assert_close(&f32s(&[2], &[-1.0, -1.0]).floor_divide(&by), &[2], &[f64::NEG_INFINITY, -1.0]);
    }
}
