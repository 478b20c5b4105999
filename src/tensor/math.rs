//! Exponentials, logarithms, powers and roots; magnitude and sign.
//!
//! Floating functions turn integers and truth values into `F32` first; the
//! rest keep the type they are given.

use crate::base::{DType, Kind, Scalar};
use crate::ir::{AluOp, Op};
use crate::tensor::compose::Site;
use crate::tensor::fit;
use crate::tensor::operand::{OperandValue, common_dtype, elementwise, elementwise_as};
use crate::tensor::term::{Term, float_formula, float_functions, float_rows, formula};
use crate::tensor::{Operand, Tensor};

float_rows! {
    /// Natural exponential.
    exp Exp;
    /// Two to the power of each element.
    exp2 Exp2;
    /// Natural logarithm; of 0 minus infinity, of negatives NaN.
    log Log;
    /// Logarithm to base 2; of 0 minus infinity, of negatives NaN.
    log2 Log2;
    /// Square root; of negatives NaN.
    sqrt Sqrt;
    /// One over each element; of 0 infinity with its sign.
    reciprocal Recip;
}

float_functions! {
    /// `exp(x) - 1`, accurate near 0 too.
    expm1 |x| x.expm1();
    /// Logarithm to base 10; of 0 minus infinity, of negatives NaN.
    log10 |x| x.log2() * std::f64::consts::LOG10_2;
    /// `log(1 + x)`, accurate near 0 too.
    log1p |x| x.log1p();
    /// One over the square root; of 0 infinity, of negatives NaN.
    rsqrt |x| x.sqrt().recip();
    /// `log(x / (1 - x))`: the inverse of `sigmoid`; NaN outside `[0, 1]`.
    logit |x| x.logit();
}

impl Term {
    /// `exp(x) - 1` as `tanh(x / 2) (exp(x) + 1)`, which cancels nowhere.
    pub(crate) fn expm1(&self) -> Term {
        (self * 0.5).tanh() * (self.exp() + 1.0)
    }

    /// `log(1 + x)`: near 0 as `2 atanh(x / (2 + x))`, elsewhere as it stands.
    pub(crate) fn log1p(&self) -> Term {
        let near = self.abs().lt(0.25);
        // Where the other branch is taken, 0 keeps this one's gradient finite.
        let x = self.choose(&near, self, 0.0);
        let s = &x / (&x + 2.0);
        let small = (&s + &s) * (&s * &s).fit(&fit::ATANH);
        self.choose(&near, small, (self + 1.0).log())
    }

    fn logit(&self) -> Term {
        (self / (1.0 - self)).log()
    }
}

impl Tensor {
    /// Absolute value. An error for truth values.
    #[track_caller]
    pub fn abs(&self) -> Tensor {
        let site = Site::here("abs");
        Tensor::apply(site.name, site.span, Op::Alu(AluOp::Abs), &[self])
    }

    /// Negation; integers wrap. An error for truth values.
    #[track_caller]
    pub fn neg(&self) -> Tensor {
        let site = Site::here("neg");
        Tensor::apply(site.name, site.span, Op::Alu(AluOp::Neg), &[self])
    }

    /// -1, 0 or 1 as the element is below, at or above 0; of NaN 0. Truth
    /// values stay as they are.
    #[track_caller]
    pub fn sign(&self) -> Tensor {
        sign(Site::here("sign"), self)
    }

    /// [`Tensor::sign`] under the name that complex numbers share.
    #[track_caller]
    pub fn sgn(&self) -> Tensor {
        sign(Site::here("sgn"), self)
    }

    /// The square; of truth values, as `I64`.
    #[track_caller]
    pub fn square(&self) -> Tensor {
        let site = Site::here("square");
        let dtype = Scalar::Int(2).promote(self.dtype());
        elementwise_as(site.name, site.span, AluOp::Mul, dtype, [self.into_operand(), self.into_operand()])
    }

    /// Each element to the power of the other's. Integers stay integers: to a
    /// negative power they are 0 unless the base is 1 or -1.
    ///
    /// An error where an integer tensor is raised to a negative integer
    /// number, where both are truth values, or where shapes do not broadcast.
    #[track_caller]
    pub fn pow(&self, exponent: impl Operand) -> Tensor {
        power(Site::here("pow"), self.into_operand(), exponent.into_operand())
    }

    /// `base` to the power of each element; see [`Tensor::pow`].
    #[track_caller]
    pub fn rpow(&self, base: impl Operand) -> Tensor {
        power(Site::here("rpow"), base.into_operand(), self.into_operand())
    }

    /// Power in double precision: the result is `F64` whatever the operands.
    #[track_caller]
    pub fn float_power(&self, exponent: impl Operand) -> Tensor {
        let site = Site::here("float_power");
        let operands = [self.into_operand(), exponent.into_operand()];
        elementwise_as(site.name, site.span, AluOp::Pow, DType::F64, operands)
    }

    /// Two to the power of `exponent`, times each element.
    #[track_caller]
    pub fn ldexp(&self, exponent: &Tensor) -> Tensor {
        let operands = [self.into_operand(), exponent.into_operand()];
        float_formula(Site::here("ldexp"), operands, |[x, exponent]| x * exponent.exp2())
    }

    /// [`Tensor::logit`] of the elements brought into `[eps, 1 - eps]`; where
    /// these bounds cross, each element goes to the far one.
    #[track_caller]
    pub fn logit_eps(&self, eps: f64) -> Tensor {
        float_formula(Site::here("logit"), [self.into_operand()], |[x]| {
            let below = x.choose(&x.gt(1.0 - eps), 1.0 - eps, &x);
            x.choose(&x.lt(eps), eps, below).logit()
        })
    }
}

fn sign(site: Site, x: &Tensor) -> Tensor {
    if x.dtype() == DType::Bool {
        return x.clone();
    }
    formula(site, [x.into_operand()], |[x]| {
        let zero = x.number(0);
        x.gt(&zero).cast(x.dtype()) - x.lt(&zero).cast(x.dtype())
    })
}

fn power(site: Site, base: OperandValue, exponent: OperandValue) -> Tensor {
    let operands = [base, exponent];
    let integer = common_dtype(&operands).is_some_and(|dtype| dtype.kind() != Kind::Float);
    match &operands[1] {
        OperandValue::Scalar(Scalar::Int(e)) if integer && *e < 0 => {
            let found = e.to_string();
            site.mistake("an exponent of at least 0 for integers", found, &[])
        }
        OperandValue::Scalar(_) | OperandValue::Tensor(_) => {
            elementwise(site.name, site.span, AluOp::Pow, operands)
        }
    }
}
