//! Bits: logic on integers, shifts, signs and neighbours of floats.

use crate::base::DType;
use crate::ir::{AluOp, Op};
use crate::tensor::compose::CallSite;
use crate::tensor::operand::elementwise;
use crate::tensor::rule::with_rule;
use crate::tensor::term::{Term, float_formula, formula, formula_as};
use crate::tensor::{Operand, Tensor};

macro_rules! bitwise {
    ($($(#[doc = $doc:literal])+ $name:ident $op:ident;)*) => {
        impl Tensor {$(
            $(#[doc = $doc])+
            #[track_caller]
            pub fn $name(&self, other: impl Operand) -> Tensor {
                let site = CallSite::here(stringify!($name));
                elementwise(site.name, site.span, AluOp::$op, [self.into_operand(), other.into_operand()])
            }
        )*}
    };
}

bitwise! {
    /// Bitwise and, as `&`; shapes broadcast. Invalid for floats.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([6i64, 3]).bitwise_and(5).to_vec::<i64>()?, [4, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    bitwise_and And;
    /// Bitwise or, as `|`; shapes broadcast. Invalid for floats.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([6i64, 3]).bitwise_or(5).to_vec::<i64>()?, [7, 7]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    bitwise_or Or;
    /// Bitwise exclusive or, as `^`; shapes broadcast. Invalid for floats.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([6i64, 3]).bitwise_xor(5).to_vec::<i64>()?, [3, 6]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    bitwise_xor Xor;
    /// Shifted to the left, as `<<`; 0 when the distance is negative or not below the width.
    ///
    /// Shapes broadcast. Invalid for floats and truth values.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([1i64, 3]).bitwise_left_shift(2).to_vec::<i64>()?, [4, 12]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    bitwise_left_shift Shl;
    /// Shifted to the right keeping the sign, as `>>`; shapes broadcast.
    ///
    /// Invalid for floats and truth values.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([8i64, -8]).bitwise_right_shift(2).to_vec::<i64>()?, [2, -2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    bitwise_right_shift Shr;
}

impl Tensor {
    /// Bitwise complement, as `!`; of truth values, negation. Invalid for floats.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([0i64, 5]).bitwise_not().to_vec::<i64>()?, [-1, -6]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn bitwise_not(&self) -> Tensor {
        let site = CallSite::here("bitwise_not");
        Tensor::apply(site.name, site.span, Op::Alu(AluOp::Not), &[self])
    }

    /// Whether the sign bit is set, of zeros and NaN too: `Bool`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([1.0f32, -0.0]).signbit().to_vec::<bool>()?, [false, true]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn signbit(&self) -> Tensor {
        let site = CallSite::here("signbit");
        match self.dtype() {
            DType::Bool => self.full_like(false),
            DType::U8 | DType::U32 | DType::I32 | DType::I64 => {
                formula(site, [self.into_operand()], |[x]| x.lt(0))
            }
            DType::F16 | DType::BF16 | DType::F32 | DType::F64 => {
                formula(site, [self.into_operand()], |[x]| x.sign_bit())
            }
        }
    }

    /// The magnitude of this with the sign of `sign`, zeros and NaN included; shapes broadcast.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([1.0f32, -2.0]).copysign(-1.0).to_vec::<f32>()?, [-1.0, -2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn copysign(&self, sign: impl Operand) -> Tensor {
        let operands = [self.into_operand(), sign.into_operand()];
        float_formula(CallSite::here("copysign"), operands, |[x, sign]| {
            x.abs().negated_where(&sign.sign_bit())
        })
    }

    /// The next representable value towards `target`.
    ///
    /// In the operands' common type; NaN if either is. Shapes broadcast. Invalid for integers.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1.0f32]);
    /// assert_eq!(x.nextafter(&Tensor::from([2.0f32])).to_vec::<f32>()?, [1.0 + f32::EPSILON]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn nextafter(&self, target: &Tensor) -> Tensor {
        let site = CallSite::here("nextafter");
        let operands = [self.into_operand(), target.into_operand()];
        let dtype = crate::tensor::operand::common_dtype(&operands).unwrap_or(DType::F32);
        if !dtype.is_float() {
            return site.invalid("a floating type", dtype.name(), &[self, target]);
        }
        let next = formula_as(site, dtype, operands, |[x, target]| next_after(&x, &target, dtype));
        // A step of one unit of the last place moves along with this tensor.
        let (shape, own) = (self.shape(), self.dtype());
        with_rule(next, &[self], move |_, _, g| vec![Some(site.cast(&g.sum_to_size(&shape[..]), own))])
    }
}

/// Values of one sign are ordered as their bits, so a neighbour is one unit of
/// the last place away. 16-bit types step in `F32`, where a unit of theirs is
/// that many units; below the normal `F16` values a unit is 2^-24.
fn next_after(x: &Term, target: &Term, dtype: DType) -> Term {
    let (bits, unit) = match dtype {
        DType::F64 => (DType::I64, 1),
        DType::BF16 => (DType::I32, 1 << 16),
        DType::F16 => (DType::I32, 1 << 13),
        DType::F32 | DType::Bool | DType::U8 | DType::I32 | DType::U32 | DType::I64 => (DType::I32, 1),
    };
    let up = x.lt(target);
    let outwards = up.eq(x.gt(0.0));
    let pattern = x.clone().bitcast(bits);
    let step = pattern.choose(&outwards, i64::from(unit), -i64::from(unit));
    let moved = (&pattern + step).bitcast(x.dtype());
    let least = match dtype {
        DType::F64 => f64::from_bits(1),
        DType::BF16 => 2f64.powi(-133),
        DType::F16 => 2f64.powi(-24),
        DType::F32 | DType::Bool | DType::U8 | DType::I32 | DType::U32 | DType::I64 => 2f64.powi(-149),
    };
    let signed_least = x.choose(&up, least, -least);
    let next = if dtype == DType::F16 {
        let coarse = x.abs().le(2f64.powi(-14));
        let infinite = x.abs().eq(f64::INFINITY);
        let finite = x.choose(&coarse, x + &signed_least, moved);
        x.choose(&infinite, x.clamp(Some(&x.number(-65504.0)), Some(&x.number(65504.0))), finite)
    } else {
        x.choose(&x.eq(0.0), signed_least, moved)
    };
    let unordered = x.is_nan().or(target.is_nan());
    let same = x.choose(&x.eq(target), target, next);
    x.choose(&unordered, x + target, same)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::testing::{assert_close, error_text, f32s, i64s, tensor, values};

    #[test]
    fn signs_of_zeros_and_nan_are_seen() {
        let x = f32s(&[4], &[-0.0, 0.0, -f64::NAN, 2.0]);
        assert_close(&x.signbit(), &[4], &[1.0, 0.0, 1.0, 0.0]);
        assert_close(&i64s(&[2], &[-1, 1]).signbit(), &[2], &[1.0, 0.0]);
        assert_close(&tensor(&[1], DType::BF16, &[-0.0]).signbit(), &[1], &[1.0]);
        let moved = values(&f32s(&[2], &[3.0, 0.0]).copysign(-0.0));
        assert!(moved.iter().all(|x| x.is_sign_negative()));
    }

    #[test]
    fn shifts_beyond_the_width_shift_everything_out() {
        let x = tensor(&[4], DType::I32, &[1.0, -8.0, 1.0, -8.0]);
        let by = tensor(&[4], DType::I32, &[31.0, 1.0, 32.0, 32.0]);
        assert_close(&x.bitwise_left_shift(&by), &[4], &[-2_147_483_648.0, -16.0, 0.0, 0.0]);
        assert_close(&x.bitwise_right_shift(&by), &[4], &[0.0, -4.0, 0.0, -1.0]);
        assert!(error_text(&f32s(&[1], &[1.0]).bitwise_and(1)).contains("integer"));
    }

    #[test]
    fn neighbours_are_one_unit_away_in_every_type() {
        let next = |dtype, x: f64, target: f64| {
            values(&tensor(&[1], dtype, &[x]).nextafter(&tensor(&[1], dtype, &[target])))[0]
        };
        for (dtype, unit, least, greatest) in [
            (DType::F64, 2f64.powi(-52), f64::from_bits(1), f64::MAX),
            (DType::F32, 2f64.powi(-23), 2f64.powi(-149), f64::from(f32::MAX)),
            (DType::BF16, 2f64.powi(-7), 2f64.powi(-133), half::bf16::MAX.to_f64()),
            (DType::F16, 2f64.powi(-10), 2f64.powi(-24), 65504.0),
        ] {
            assert_eq!(next(dtype, 1.0, 2.0), 1.0 + unit, "{dtype}");
            assert_eq!(next(dtype, 1.0, 0.0), 1.0 - unit / 2.0, "{dtype}");
            assert_eq!(next(dtype, -1.0, -2.0), -1.0 - unit, "{dtype}");
            assert_eq!(next(dtype, 0.0, 1.0), least, "{dtype}");
            assert_eq!(next(dtype, 0.0, -1.0), -least, "{dtype}");
            assert_eq!(next(dtype, least, 0.0), 0.0, "{dtype}");
            assert_eq!(next(dtype, greatest, f64::INFINITY), f64::INFINITY, "{dtype}");
            assert_eq!(next(dtype, f64::INFINITY, 0.0), greatest, "{dtype}");
            assert_eq!(next(dtype, 5.0, 5.0), 5.0, "{dtype}");
            assert!(next(dtype, f64::NAN, 1.0).is_nan() && next(dtype, 1.0, f64::NAN).is_nan());
        }
    }
}
