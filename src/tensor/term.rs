//! Formulas inside one method: arithmetic on tensors that are of one type
//! already, where every node carries the user's call and line.

use std::ops::{Add, Div, Mul, Neg, Sub};

use crate::base::{DType, Device, Scalar};
use crate::ir::{AluOp, Op};
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;
use crate::tensor::operand::{OperandValue, common_dtype, unify};
use crate::tensor::rule::with_rule;

/// A tensor inside a formula. Operators on terms neither promote nor
/// broadcast: [`formula`] has done both, and numbers take the term's type.
#[derive(Clone)]
pub(crate) struct Term {
    tensor: Tensor,
    site: CallSite,
}

/// Elementwise `body` on the operands' common type. 16-bit floats compute in
/// `F32` and are rounded once, at the end.
pub(crate) fn formula<const N: usize>(
    site: CallSite,
    operands: [OperandValue; N],
    body: impl FnOnce([Term; N]) -> Term,
) -> Tensor {
    let dtype = site.autocast_dtype(&operands, common_dtype(&operands).unwrap_or(DType::F32));
    formula_as(site, dtype, operands, body)
}

/// [`formula`] where integers and truth values become `F32` first.
pub(crate) fn float_formula<const N: usize>(
    site: CallSite,
    operands: [OperandValue; N],
    body: impl FnOnce([Term; N]) -> Term,
) -> Tensor {
    let dtype = common_dtype(&operands).unwrap_or(DType::F32).to_float();
    formula_as(site, site.autocast_dtype(&operands, dtype), operands, body)
}

/// [`formula`] on operands brought to `dtype`; the result has that type
/// unless `body` ends in truth values.
pub(crate) fn formula_as<const N: usize>(
    site: CallSite,
    dtype: DType,
    operands: [OperandValue; N],
    body: impl FnOnce([Term; N]) -> Term,
) -> Tensor {
    let tensors = match unify(site.name, site.span, dtype.compute(), operands) {
        Ok(tensors) => tensors,
        Err(invalid) => return invalid,
    };
    let mut tensors = tensors.into_iter();
    let operands = std::array::from_fn(|_| match tensors.next() {
        Some(tensor) => Term::new(site, tensor),
        None => unreachable!("unify returns as many tensors as operands"),
    });
    let result = body(operands).into_tensor();
    if result.dtype() == DType::Bool { result } else { result.cast_as(site.name, dtype, site.span) }
}

impl Term {
    /// A tensor as part of the user's call.
    pub(crate) fn new(site: CallSite, tensor: Tensor) -> Term {
        Term { tensor, site }
    }
    /// The tensor.
    pub(crate) fn into_tensor(self) -> Tensor {
        self.tensor
    }
    /// The type of the elements.
    pub(crate) fn dtype(&self) -> DType {
        self.tensor.dtype()
    }
    /// Where the formula is computed.
    pub(crate) fn device(&self) -> Device {
        self.tensor.device()
    }
    /// The value of a rank-0 constant.
    pub(crate) fn constant(&self) -> Option<Scalar> {
        self.tensor.constant_value()
    }
    /// A number of this term's type.
    pub(crate) fn number(&self, value: impl Into<Scalar>) -> Term {
        let tensor = Tensor::constant(value.into(), self.dtype(), self.device(), self.site.span);
        Term::new(self.site, tensor)
    }
    /// Converted to another type.
    pub(crate) fn cast(self, dtype: DType) -> Term {
        let tensor = self.tensor.cast_as(self.site.name, dtype, self.site.span);
        Term::new(self.site, tensor)
    }
    /// The same bits as another type.
    pub(crate) fn bitcast(self, dtype: DType) -> Term {
        self.apply(Op::Bitcast(dtype), [])
    }

    fn apply<const N: usize>(self, op: Op, rest: [Term; N]) -> Term {
        let site = self.site;
        let operands = std::iter::once(self.tensor).chain(rest.into_iter().map(|term| term.tensor));
        Term { tensor: Tensor::apply_owned(site.name, site.span, op, operands), site }
    }

    /// This value, as a function of `x` with a stated slope, given `x` and the value. What the formula's own
    /// slope makes of parts that saturate, overflow or divide by zero may be no number where the
    /// function's is one.
    pub(crate) fn with_slope(
        self,
        x: &Term,
        slope: impl Fn(&Term, &Term) -> Term + Send + Sync + 'static,
    ) -> Term {
        self.with_cotangents([x], move |[x], y, g| [g * slope(&x, y)])
    }

    /// This value, as a function of `operands` whose cotangents are stated, given the operands, the value
    /// and its cotangent.
    pub(crate) fn with_cotangents<const N: usize>(
        self,
        operands: [&Term; N],
        rule: impl Fn([Term; N], &Term, &Term) -> [Term; N] + Send + Sync + 'static,
    ) -> Term {
        let site = self.site;
        let term = move |tensor: &Tensor| Term::new(site, tensor.clone());
        let tensors = operands.map(|operand| operand.tensor.clone());
        let tensor = with_rule(self.tensor, &tensors.each_ref(), move |x, y, g| {
            let found = rule(std::array::from_fn(|i| term(&x[i])), &term(y), &term(g));
            let found = found.into_iter().map(Term::into_tensor);
            found.zip(x).map(|(cotangent, x)| Some(summed_to(site, cotangent, x))).collect()
        });
        Term { tensor, site }
    }

    /// This value, as a step function of `x`: its slope is 0 everywhere.
    pub(crate) fn as_steps_of(self, operands: &[&Term]) -> Term {
        let tensors: Vec<&Tensor> = operands.iter().map(|operand| &operand.tensor).collect();
        let tensor = with_rule(self.tensor, &tensors, |x, _, _| vec![None; x.len()]);
        Term { tensor, site: self.site }
    }

    fn binary(&self, op: AluOp, rhs: impl IntoTerm) -> Term {
        let rhs = rhs.beside(self);
        self.clone().apply(Op::Alu(op), [rhs])
    }

    /// `mask ? yes : no`, numbers taking this term's type.
    pub(crate) fn choose(&self, mask: &Term, yes: impl IntoTerm, no: impl IntoTerm) -> Term {
        let (yes, no) = (yes.beside(self), no.beside(self));
        mask.clone().apply(Op::Alu(AluOp::Where), [yes, no])
    }

    /// `c[0] + c[1] x + c[2] x^2 + ...` by Horner's rule.
    pub(crate) fn polynomial(&self, coefficients: &[f64]) -> Term {
        let Some((last, rest)) = coefficients.split_last() else { return self.number(0.0) };
        rest.iter().rev().fold(self.number(*last), |sum, &c| sum * self + c)
    }

    /// Whether the sign bit is set, of zeros and NaN too.
    pub(crate) fn sign_bit(&self) -> Term {
        let bits = if self.dtype() == DType::F64 { DType::I64 } else { DType::I32 };
        self.clone().bitcast(bits).lt(0.0)
    }
    /// Whether this is NaN.
    pub(crate) fn is_nan(&self) -> Term {
        self.ne(self)
    }
    /// Not above; false with NaN.
    pub(crate) fn le(&self, rhs: impl IntoTerm) -> Term {
        let rhs = rhs.beside(self);
        if self.dtype().is_float() { self.lt(&rhs).or(self.eq(&rhs)) } else { rhs.lt(self).not() }
    }
    /// Not below; false with NaN.
    pub(crate) fn ge(&self, rhs: impl IntoTerm) -> Term {
        rhs.beside(self).le(self)
    }
    /// Above; false with NaN.
    pub(crate) fn gt(&self, rhs: impl IntoTerm) -> Term {
        rhs.beside(self).lt(self)
    }
    /// Unequal; true with NaN.
    pub(crate) fn ne(&self, rhs: impl IntoTerm) -> Term {
        self.eq(rhs).not()
    }
    /// Smallest integer not below.
    pub(crate) fn ceil(&self) -> Term {
        -(-self).floor()
    }
}

/// An operand of rank 0 stands beside every element; its cotangent sums.
fn summed_to(site: CallSite, cotangent: Tensor, x: &Tensor) -> Tensor {
    if x.rank() == cotangent.rank() {
        return cotangent;
    }
    let axes: Vec<usize> = (0..cotangent.rank()).collect();
    site.sum(&cotangent, &axes)
}

/// Remainder of `a` by `b` with the sign of `b`; an integer by 0 is 0.
pub(crate) fn floor_remainder(a: &Term, b: &Term) -> Term {
    let rest = a.rem(b);
    match misplaced(&rest, b) {
        Some(mask) => rest.choose(&mask, &rest + b, &rest),
        None => rest,
    }
}

/// Where a remainder has the other sign than its divisor, and so belongs to a
/// quotient that is one less. `None` for unsigned integers.
pub(crate) fn misplaced(rest: &Term, divisor: &Term) -> Option<Term> {
    if matches!(rest.dtype(), DType::U8 | DType::U32) {
        return None;
    }
    Some(match divisor.constant().map(Scalar::as_f64) {
        Some(divisor) if divisor > 0.0 => rest.lt(0.0),
        Some(divisor) if divisor < 0.0 => rest.gt(0.0),
        Some(_) | None => rest.lt(0.0).xor(divisor.lt(0.0)).and(rest.ne(0.0)),
    })
}

/// Methods of `Tensor` that are one floating-point ALU row each; integers
/// and truth values become `F32` first.
macro_rules! float_rows {
    ($($(#[doc = $doc:literal])+ $name:ident $op:ident;)*) => {
        impl $crate::tensor::Tensor {$(
            $(#[doc = $doc])+
            #[track_caller]
            pub fn $name(&self) -> $crate::tensor::Tensor {
                let site = $crate::tensor::compose::CallSite::here(stringify!($name));
                let x = site.autocast(self).into_owned();
                let dtype = x.dtype().to_float();
                let x = x.cast_as(site.name, dtype, site.span);
                let op = $crate::ir::Op::Alu($crate::ir::AluOp::$op);
                $crate::tensor::Tensor::apply_owned(site.name, site.span, op, [x])
            }
        )*}
    };
}
pub(crate) use float_rows;

/// Methods of `Tensor` that are one floating-point formula of one operand
/// each; see [`float_formula`].
macro_rules! float_functions {
    ($($(#[doc = $doc:literal])+ $name:ident |$x:ident| $body:expr;)*) => {
        impl $crate::tensor::Tensor {$(
            $(#[doc = $doc])+
            #[track_caller]
            pub fn $name(&self) -> $crate::tensor::Tensor {
                let site = $crate::tensor::compose::CallSite::here(stringify!($name));
                let operands = [$crate::tensor::Operand::into_operand(self)];
                $crate::tensor::term::float_formula(site, operands, |[$x]| $body)
            }
        )*}
    };
}
pub(crate) use float_functions;

macro_rules! rows {
    ($($(#[doc = $doc:literal])+ $method:ident $op:ident;)*) => {
        impl Term {
            $($(#[doc = $doc])+ pub(crate) fn $method(&self) -> Term {
                self.clone().apply(Op::Alu(AluOp::$op), [])
            })*
        }
    };
}

rows! {
    /// Absolute value.
    abs Abs;
    /// One over this.
    recip Recip;
    /// Square root.
    sqrt Sqrt;
    /// Natural exponential.
    exp Exp;
    /// Two to the power of this.
    exp2 Exp2;
    /// Natural logarithm.
    log Log;
    /// Logarithm to base 2.
    log2 Log2;
    /// Sine of radians.
    sin Sin;
    /// Cosine of radians.
    cos Cos;
    /// Hyperbolic tangent.
    tanh Tanh;
    /// Error function.
    erf Erf;
    /// Largest integer not above.
    floor Floor;
    /// Without the fraction.
    trunc Trunc;
    /// The nearest integer, halves to the even one.
    round Round;
    /// Complement.
    not Not;
}

macro_rules! binary_rows {
    ($($(#[doc = $doc:literal])+ $method:ident $op:ident;)*) => {
        impl Term {
            $($(#[doc = $doc])+ pub(crate) fn $method(&self, rhs: impl IntoTerm) -> Term {
                self.binary(AluOp::$op, rhs)
            })*
        }
    };
}

binary_rows! {
    /// The larger; NaN if either is.
    max Max;
    /// The smaller; NaN if either is.
    min Min;
    /// Remainder with the sign of this.
    rem Rem;
    /// Power.
    pow Pow;
    /// Below; false with NaN.
    lt Lt;
    /// Equal; false with NaN.
    eq Eq;
    /// Bitwise and.
    and And;
    /// Bitwise or.
    or Or;
    /// Bitwise exclusive or.
    xor Xor;
}

/// What can stand beside a term: a term, or a number that takes its type.
pub(crate) trait IntoTerm {
    /// As a term of the type of `neighbour`.
    fn beside(self, neighbour: &Term) -> Term;
}
impl IntoTerm for Term {
    fn beside(self, _: &Term) -> Term {
        self
    }
}
impl IntoTerm for &Term {
    fn beside(self, _: &Term) -> Term {
        self.clone()
    }
}
impl IntoTerm for f64 {
    fn beside(self, neighbour: &Term) -> Term {
        neighbour.number(self)
    }
}
impl IntoTerm for i64 {
    fn beside(self, neighbour: &Term) -> Term {
        neighbour.number(self)
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident;)*) => {$(
        impl<F: IntoTerm> $trait<F> for Term {
            type Output = Term;
            fn $method(self, rhs: F) -> Term {
                let rhs = rhs.beside(&self);
                self.apply(Op::Alu(AluOp::$trait), [rhs])
            }
        }
        impl<F: IntoTerm> $trait<F> for &Term {
            type Output = Term;
            fn $method(self, rhs: F) -> Term { self.binary(AluOp::$trait, rhs) }
        }
        impl $trait<&Term> for f64 {
            type Output = Term;
            fn $method(self, rhs: &Term) -> Term { rhs.number(self).binary(AluOp::$trait, rhs) }
        }
        impl $trait<Term> for f64 {
            type Output = Term;
            fn $method(self, rhs: Term) -> Term { rhs.number(self).apply(Op::Alu(AluOp::$trait), [rhs]) }
        }
    )*};
}

operators! {
    Add add;
    Sub sub;
    Mul mul;
    Div div;
}

impl Neg for Term {
    type Output = Term;
    fn neg(self) -> Term {
        self.apply(Op::Alu(AluOp::Neg), [])
    }
}
impl Neg for &Term {
    type Output = Term;
    fn neg(self) -> Term {
        -self.clone()
    }
}
