//! Exponentials, logarithms, powers and roots; magnitude and sign.
//!
//! Floating functions turn integers and truth values into `F32` first; the
//! rest keep the type they are given.

use crate::base::{DType, Kind, Scalar};
use crate::ir::{AluOp, Op};
use crate::tensor::compose::CallSite;
use crate::tensor::fit;
use crate::tensor::operand::{OperandValue, common_dtype, elementwise_as};
use crate::tensor::term::{Term, float_formula, float_functions, float_rows, formula};
use crate::tensor::{Operand, Tensor};

float_rows! {
    /// The natural exponential of each element.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([0.0f32, f32::NEG_INFINITY]).exp().to_vec::<f32>()?, [1.0, 0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    exp Exp;
    /// Two to the power of each element.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([3.0f32, -1.0]).exp2().to_vec::<f32>()?, [8.0, 0.5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    exp2 Exp2;
    /// The natural logarithm of each element; of 0 minus infinity, of negatives NaN.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([1.0f32, 0.0]).log().to_vec::<f32>()?, [0.0, f32::NEG_INFINITY]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    log Log;
    /// The logarithm to base 2; of 0 minus infinity, of negatives NaN.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([8.0f32, 0.5]).log2().to_vec::<f32>()?, [3.0, -1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    log2 Log2;
    /// The square root of each element; of negatives NaN.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([4.0f32, 9.0]).sqrt().to_vec::<f32>()?, [2.0, 3.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    sqrt Sqrt;
    /// One over each element; of 0 infinity with its sign.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([4.0f32, 0.0]).reciprocal().to_vec::<f32>()?, [0.25, f32::INFINITY]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    reciprocal Recip;
}

float_functions! {
    /// `exp(x) - 1`, accurate near 0 too.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(1.0, ()).expm1().item::<f32>()? - 1.7183).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    expm1 |x| x.expm1();
    /// The logarithm to base 10; of 0 minus infinity, of negatives NaN.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(1000.0, ()).log10().item::<f32>()? - 3.0).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    log10 |x| x.log2() * std::f64::consts::LOG10_2;
    /// `log(1 + x)`, accurate near 0 too.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(1.0, ()).log1p().item::<f32>()? - 0.6931).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    log1p |x| x.log1p();
    /// One over the square root; of 0 infinity, of negatives NaN.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([4.0f32, 0.0]).rsqrt().to_vec::<f32>()?, [0.5, f32::INFINITY]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    rsqrt |x| x.sqrt().recip();
    /// `log(x / (1 - x))`: the inverse of `sigmoid`; NaN outside `[0, 1]`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(0.75, ()).logit().item::<f32>()? - 1.0986).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    logit |x| x.logit();
}

impl Term {
    /// `exp(x) - 1` as `tanh(x / 2) (exp(x) + 1)`, which cancels nowhere.
    pub(crate) fn expm1(&self) -> Term {
        ((self * 0.5).tanh() * (self.exp() + 1.0)).with_slope(self, |x, _| x.exp())
    }

    /// `log(1 + x)`: near 0 as `2 atanh(x / (2 + x))`, elsewhere as it stands.
    pub(crate) fn log1p(&self) -> Term {
        let near = self.abs().lt(0.25);
        // Where the other branch is taken, 0 keeps this one's gradient finite.
        let x = self.choose(&near, self, 0.0);
        let s = &x / (&x + 2.0);
        let small = (&s + &s) * (&s * &s).fit(&fit::ATANH);
        // Halves of the least numbers would be rounded.
        let least = self.abs().lt(if self.dtype() == DType::F64 { 1e-17 } else { 1e-8 });
        let value = self.choose(&least, self, self.choose(&near, small, (self + 1.0).log()));
        value.with_slope(self, |x, _| (x + 1.0).recip())
    }

    fn logit(&self) -> Term {
        (self / (1.0 - self)).log().with_cotangents([self], |[x], y, g| {
            // At both ends infinite, with the cotangent's sign; outside no number, as the value.
            let slope = g / (x.abs() * (1.0 - &x));
            [g.choose(&y.is_nan(), f64::NAN, slope)]
        })
    }
}

impl Tensor {
    /// The absolute value of each element. Invalid for truth values.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([-2i64, 3]).abs().to_vec::<i64>()?, [2, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn abs(&self) -> Tensor {
        let site = CallSite::here("abs");
        Tensor::apply(site.name, site.span, Op::Alu(AluOp::Abs), &[self])
    }

    /// The negation of each element, as `-x`; integers wrap. Invalid for truth values.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([-2i64, 3]).neg().to_vec::<i64>()?, [2, -3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn neg(&self) -> Tensor {
        let site = CallSite::here("neg");
        Tensor::apply(site.name, site.span, Op::Alu(AluOp::Neg), &[self])
    }

    /// -1, 0 or 1 as the element is below, at or above 0; of NaN 0. Truth values stay as they are.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([-2.0f32, 0.0, 3.0]).sign().to_vec::<f32>()?, [-1.0, 0.0, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn sign(&self) -> Tensor {
        sign(CallSite::here("sign"), self)
    }

    /// [`Tensor::sign`] under the name that complex numbers share.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([-2i64, 3]).sgn().to_vec::<i64>()?, [-1, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn sgn(&self) -> Tensor {
        sign(CallSite::here("sgn"), self)
    }

    /// The square of each element; of truth values, as `I64`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([-2i64, 3]).square().to_vec::<i64>()?, [4, 9]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn square(&self) -> Tensor {
        let site = CallSite::here("square");
        let operands = [self.into_operand(), self.into_operand()];
        let dtype = site.autocast_dtype(&operands, Scalar::Int(2).promote(self.dtype()));
        elementwise_as(site.name, site.span, AluOp::Mul, dtype, operands)
    }

    /// Each element to the power of the other's; shapes broadcast. Integers stay integers.
    ///
    /// Integers to a negative power are 0 unless the base is 1 or -1. Invalid where an integer
    /// tensor is raised to a negative integer number, where both are truth values, or where shapes
    /// do not broadcast.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([2i64, 3]).pow(3).to_vec::<i64>()?, [8, 27]);
    /// assert_eq!(Tensor::from([4.0f32]).pow(0.5).to_vec::<f32>()?, [2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn pow(&self, exponent: impl Operand) -> Tensor {
        power(CallSite::here("pow"), self.into_operand(), exponent.into_operand())
    }

    /// `base` to the power of each element; see [`Tensor::pow`]. PyTorch: `torch.pow(base, self)`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([2i64, 3]).rpow(2).to_vec::<i64>()?, [4, 8]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn rpow(&self, base: impl Operand) -> Tensor {
        power(CallSite::here("rpow"), base.into_operand(), self.into_operand())
    }

    /// Power in double precision: the result is `F64` whatever the operands. Shapes broadcast.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([2i64, 4]).float_power(-1).to_vec::<f64>()?, [0.5, 0.25]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn float_power(&self, exponent: impl Operand) -> Tensor {
        let site = CallSite::here("float_power");
        let operands = [self.into_operand(), exponent.into_operand()];
        elementwise_as(site.name, site.span, AluOp::Pow, DType::F64, operands)
    }

    /// Two to the power of `exponent`, times each element; shapes broadcast.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let y = Tensor::from([1.5f32, 3.0]).ldexp(&Tensor::from([2i64, -1]));
    /// assert_eq!(y.to_vec::<f32>()?, [6.0, 1.5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn ldexp(&self, exponent: &Tensor) -> Tensor {
        let operands = [self.into_operand(), exponent.into_operand()];
        float_formula(CallSite::here("ldexp"), operands, |[x, exponent]| x * exponent.exp2())
    }

    /// [`Tensor::logit`] of the elements brought into `[eps, 1 - eps]`.
    ///
    /// PyTorch: `torch.logit` with `eps`. Where these bounds cross, each element goes to the far
    /// one.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!((Tensor::scalar(0.0, ()).logit_eps(0.25).item::<f32>()? + 1.0986).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn logit_eps(&self, eps: f64) -> Tensor {
        float_formula(CallSite::here("logit"), [self.into_operand()], |[x]| {
            let below = x.choose(&x.gt(1.0 - eps), 1.0 - eps, &x);
            x.choose(&x.lt(eps), eps, below).logit()
        })
    }
}

fn sign(site: CallSite, x: &Tensor) -> Tensor {
    if x.dtype() == DType::Bool {
        return x.clone();
    }
    formula(site, [x.into_operand()], |[x]| {
        let zero = x.number(0);
        (x.gt(&zero).cast(x.dtype()) - x.lt(&zero).cast(x.dtype())).as_steps_of(&[&x])
    })
}

fn power(site: CallSite, base: OperandValue, exponent: OperandValue) -> Tensor {
    let operands = [base, exponent];
    let integer = common_dtype(&operands).is_some_and(|dtype| dtype.kind() != Kind::Float);
    match &operands[1] {
        OperandValue::Scalar(Scalar::Int(e)) if integer && *e < 0 => {
            let found = e.to_string();
            site.invalid("an exponent of at least 0 for integers", found, &[])
        }
        OperandValue::Scalar(_) | OperandValue::Tensor(_) => {
            let dtype = site.autocast_dtype(&operands, common_dtype(&operands).unwrap_or(DType::F32));
            elementwise_as(site.name, site.span, AluOp::Pow, dtype, operands)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::testing::{assert_close, error_text, f32s, i64s, tensor};

    #[test]
    fn integers_become_f32_and_16_bit_floats_stay() {
        assert_eq!(i64s(&[1], &[4]).sqrt().dtype(), DType::F32);
        assert_close(&i64s(&[1], &[4]).rsqrt(), &[1], &[0.5]);
        let half = tensor(&[1], DType::F16, &[1.0]);
        assert_eq!(half.log1p().dtype(), DType::F16);
        assert_eq!(half.float_power(2).dtype(), DType::F64);
    }

    #[test]
    fn powers_of_integers_stay_integers() {
        let x = i64s(&[4], &[2, -1, 0, 3]);
        assert_close(&x.pow(3), &[4], &[8.0, -1.0, 0.0, 27.0]);
        assert_close(&x.pow(i64s(&[4], &[-1, -3, 0, 2])), &[4], &[0.0, -1.0, 1.0, 9.0]);
        assert_close(&x.clamp_min(0).rpow(2), &[4], &[4.0, 1.0, 1.0, 8.0]);
        assert_eq!(x.pow(0.5).dtype(), DType::F32);
        assert!(error_text(&x.pow(-1)).contains("at least 0"));
    }

    #[test]
    fn signs_are_numbers_of_the_same_type() {
        assert_close(&f32s(&[4], &[-2.0, -0.0, 3.0, f64::NAN]).sign(), &[4], &[-1.0, 0.0, 1.0, 0.0]);
        assert_eq!(tensor(&[1], DType::U8, &[7.0]).sgn().dtype(), DType::U8);
        assert!(error_text(&tensor(&[1], DType::Bool, &[1.0]).neg()).contains("integer"));
        assert_eq!(tensor(&[1], DType::Bool, &[1.0]).square().dtype(), DType::I64);
    }

    #[test]
    fn crossing_bounds_of_logit_send_elements_to_the_far_one() {
        let x = f32s(&[2], &[0.1, 0.9]);
        let far = (0.6f64 / 0.4).ln();
        assert_close(&x.logit_eps(0.6), &[2], &[far, -far]);
        assert_close(&x.logit_eps(0.25), &[2], &[-(3f64.ln()), 3f64.ln()]);
    }

    #[test]
    fn ldexp_scales_by_powers_of_two() {
        let x = tensor(&[2], DType::BF16, &[1.5, -3.0]);
        let scaled = x.ldexp(&i64s(&[2], &[3, -1]));
        assert_eq!(scaled.dtype(), DType::BF16);
        assert_close(&scaled, &[2], &[12.0, -1.5]);
    }
}
