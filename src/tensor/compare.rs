//! Comparison, classification and logic: `Bool` tensors. And selection by them.
//!
//! NaN compares as IEEE 754 says: unequal to everything, neither below nor
//! above anything.

use crate::base::DType;
use crate::ir::AluOp;
use crate::tensor::compose::CallSite;
use crate::tensor::operand::{OperandValue, common_dtype, elementwise_as, unify};
use crate::tensor::options::options;
use crate::tensor::term::{Term, formula_as};
use crate::tensor::{Operand, Tensor};

options! {
    /// How close is close; see [`Tensor::isclose_with`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::IsCloseOpts;
    /// let x = Tensor::from([1.0f32, f32::NAN]);
    /// let opts = IsCloseOpts::default().rtol(0.2).equal_nan(true);
    /// let y = x.isclose_with(&Tensor::from([1.1f32, f32::NAN]), opts);
    /// assert_eq!(y.to_vec::<bool>()?, [true, true]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    IsCloseOpts {
        /// Allowed difference relative to the other operand.
        rtol: f64 = 1e-5;
        /// Allowed absolute difference.
        atol: f64 = 1e-8;
        /// Whether two NaN are close.
        equal_nan: bool = false;
    }
}

macro_rules! comparisons {
    ($($(#[doc = $doc:literal])+ $name:ident |$a:ident, $b:ident| $body:expr;)*) => {
        impl Tensor {$(
            $(#[doc = $doc])+
            #[track_caller]
            pub fn $name(&self, other: impl Operand) -> Tensor {
                let operands = [self.into_operand(), other.into_operand()];
                compare(CallSite::here(stringify!($name)), operands, |[$a, $b]| $body)
            }
        )*}
    };
}

comparisons! {
    /// Where the two are equal: `Bool`. Shapes broadcast; invalid where they do not fit.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([1i64, 2, 3]).eq(2).to_vec::<bool>()?, [false, true, false]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    eq |a, b| a.eq(b);
    /// Where the two differ: `Bool`. Shapes broadcast; NaN differs from itself.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([1i64, 2, 3]).ne(2).to_vec::<bool>()?, [true, false, true]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ne |a, b| a.ne(b);
    /// Where this is below the other: `Bool`. Shapes broadcast.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([1i64, 2, 3]).lt(2).to_vec::<bool>()?, [true, false, false]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    lt |a, b| a.lt(b);
    /// Where this is not above the other: `Bool`, false for NaN. Shapes broadcast.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([1i64, 2, 3]).le(2).to_vec::<bool>()?, [true, true, false]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    le |a, b| a.le(b);
    /// Where this is above the other: `Bool`. Shapes broadcast.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([1i64, 2, 3]).gt(2).to_vec::<bool>()?, [false, false, true]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    gt |a, b| a.gt(b);
    /// Where this is not below the other: `Bool`, false for NaN. Shapes broadcast.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([1i64, 2, 3]).ge(2).to_vec::<bool>()?, [false, true, true]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ge |a, b| a.ge(b);
}

macro_rules! logic {
    ($($(#[doc = $doc:literal])+ $name:ident $op:ident;)*) => {
        impl Tensor {$(
            $(#[doc = $doc])+
            #[track_caller]
            pub fn $name(&self, other: &Tensor) -> Tensor {
                let site = CallSite::here(stringify!($name));
                let operands = [self.into_operand(), other.into_operand()];
                elementwise_as(site.name, site.span, AluOp::$op, DType::Bool, operands)
            }
        )*}
    };
}

logic! {
    /// Where both differ from 0: `Bool`. Shapes broadcast.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([0i64, 0, 7]);
    /// assert_eq!(x.logical_and(&Tensor::from([0i64, 3, 3])).to_vec::<bool>()?, [false, false, true]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    logical_and And;
    /// Where one or both differ from 0: `Bool`. Shapes broadcast.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([0i64, 0, 7]);
    /// assert_eq!(x.logical_or(&Tensor::from([0i64, 3, 3])).to_vec::<bool>()?, [false, true, true]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    logical_or Or;
    /// Where exactly one differs from 0: `Bool`. Shapes broadcast.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([0i64, 0, 7]);
    /// assert_eq!(x.logical_xor(&Tensor::from([0i64, 3, 3])).to_vec::<bool>()?, [false, true, false]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    logical_xor Xor;
}

macro_rules! classes {
    ($($(#[doc = $doc:literal])+ $name:ident $of_integers:literal |$x:ident| $body:expr;)*) => {
        impl Tensor {$(
            $(#[doc = $doc])+
            #[track_caller]
            pub fn $name(&self) -> Tensor {
                classify(CallSite::here(stringify!($name)), self, $of_integers, |$x| $body)
            }
        )*}
    };
}

classes! {
    /// Where the element is NaN: `Bool`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([1.0f32, f32::NAN]).isnan().to_vec::<bool>()?, [false, true]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    isnan false |x| x.is_nan();
    /// Where the element is an infinity of either sign: `Bool`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([1.0f32, f32::NEG_INFINITY]).isinf().to_vec::<bool>()?, [false, true]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    isinf false |x| x.abs().eq(f64::INFINITY);
    /// Where the element is neither an infinity nor NaN: `Bool`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([1.0f32, f32::NAN]).isfinite().to_vec::<bool>()?, [true, false]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    isfinite true |x| x.abs().lt(f64::INFINITY);
    /// Where the element is infinity: `Bool`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let y = Tensor::from([f32::INFINITY, f32::NEG_INFINITY]).isposinf();
    /// assert_eq!(y.to_vec::<bool>()?, [true, false]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    isposinf false |x| x.eq(f64::INFINITY);
    /// Where the element is minus infinity: `Bool`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let y = Tensor::from([f32::INFINITY, f32::NEG_INFINITY]).isneginf();
    /// assert_eq!(y.to_vec::<bool>()?, [false, true]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    isneginf false |x| x.eq(f64::NEG_INFINITY);
}

impl Tensor {
    /// Where the element is 0: `Bool`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([0i64, 7]).logical_not().to_vec::<bool>()?, [true, false]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn logical_not(&self) -> Tensor {
        compare(CallSite::here("logical_not"), [self.into_operand(), false.into_operand()], |[x, zero]| {
            x.eq(zero)
        })
    }

    /// Where the two differ by at most 1e-8 plus 1e-5 of the other: `Bool`. Shapes broadcast.
    ///
    /// Invalid for operands of two types. With `all(..)` it is `torch.allclose`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1.0f32, 2.0]);
    /// let close = x.isclose(&Tensor::from([1.000001f32, 2.1]));
    /// assert_eq!(close.to_vec::<bool>()?, [true, false]);
    /// assert!(!close.all(..).item::<bool>()?);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn isclose(&self, other: &Tensor) -> Tensor {
        is_close(CallSite::here("isclose"), self, other, IsCloseOpts::default())
    }

    /// Where `|self - other|` is at most `atol + rtol * |other|`, or both are the same infinity.
    ///
    /// Invalid for operands of two types or a negative tolerance. PyTorch: `torch.isclose`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::IsCloseOpts;
    /// let x = Tensor::from([1.0f32, 2.0]);
    /// let opts = IsCloseOpts::default().rtol(0.0).atol(0.5);
    /// let y = x.isclose_with(&Tensor::from([1.25f32, 3.0]), opts);
    /// assert_eq!(y.to_vec::<bool>()?, [true, false]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn isclose_with(&self, other: &Tensor, opts: IsCloseOpts) -> Tensor {
        is_close(CallSite::here("isclose"), self, other, opts)
    }

    /// `yes` where this holds, `no` elsewhere.
    ///
    /// The result has the type common to both values; all three broadcast. Invalid unless this is
    /// `Bool`. PyTorch: `torch.where`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([-1.0f32, 2.0]);
    /// assert_eq!(x.gt(0.0).select(&x, 0.0).to_vec::<f32>()?, [0.0, 2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn select(&self, yes: impl Operand, no: impl Operand) -> Tensor {
        let site = CallSite::here("select");
        let values = [yes.into_operand(), no.into_operand()];
        let dtype = common_dtype(&values).unwrap_or(DType::F32);
        let [yes, no] = values;
        match boolean(site, self) {
            Some(invalid) => invalid,
            None => Tensor::select_as(site.name, site.span, dtype, self.clone(), yes, no),
        }
    }

    /// `value` where the mask holds, this elsewhere, in this tensor's type.
    ///
    /// The two broadcast together. Invalid unless the mask is `Bool` and the value is a number or
    /// of rank 0.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1.0f32, 2.0]);
    /// assert_eq!(x.masked_fill(&x.gt(1.0), 9.0).to_vec::<f32>()?, [1.0, 9.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn masked_fill(&self, mask: &Tensor, value: impl Operand) -> Tensor {
        let (site, value) = (CallSite::here("masked_fill"), value.into_operand());
        if let Some(invalid) = boolean(site, mask) {
            return invalid;
        }
        if let OperandValue::Tensor(value) = &value
            && value.rank() > 0
        {
            let found = format!("a tensor of rank {}", value.rank());
            return site.invalid("a value of rank 0", found, &[self, mask, value]);
        }
        Tensor::select_as(site.name, site.span, self.dtype(), mask.clone(), value, self)
    }
}

/// In the common type itself: exact values need no wider one.
fn compare(site: CallSite, operands: [OperandValue; 2], body: impl FnOnce([Term; 2]) -> Term) -> Tensor {
    let dtype = common_dtype(&operands).unwrap_or(DType::F32);
    match unify(site.name, site.span, dtype, operands) {
        Ok(tensors) => {
            let [a, b] = [0, 1].map(|i| Term::new(site, tensors[i].clone()));
            body([a, b]).into_tensor()
        }
        Err(invalid) => invalid,
    }
}

fn classify(site: CallSite, x: &Tensor, of_integers: bool, body: impl FnOnce(Term) -> Term) -> Tensor {
    match x.ty() {
        Some(ty) if !ty.dtype.is_float() => {
            let value = site.scalar(of_integers, DType::Bool, ty.device);
            value.expand_to(site.name, &ty.shape, site.span)
        }
        Some(_) => body(Term::new(site, x.clone())).into_tensor(),
        None => x.clone(),
    }
}

/// The error, unless the condition is `Bool`.
fn boolean(site: CallSite, condition: &Tensor) -> Option<Tensor> {
    let other = condition.dtype() != DType::Bool;
    other.then(|| site.invalid("a bool condition", condition.dtype().name(), &[condition]))
}

fn is_close(site: CallSite, a: &Tensor, b: &Tensor, opts: IsCloseOpts) -> Tensor {
    if a.dtype() != b.dtype() {
        return site.invalid("operands of one type", format!("{} and {}", a.dtype(), b.dtype()), &[a, b]);
    }
    // Written so that NaN is refused too.
    if !(opts.rtol >= 0.0 && opts.atol >= 0.0) {
        let found = format!("rtol {} and atol {}", opts.rtol, opts.atol);
        return site.invalid("tolerances of at least 0", found, &[a, b]);
    }
    let dtype = a.dtype().to_float();
    formula_as(site, dtype, [a.into_operand(), b.into_operand()], |[a, b]| {
        let mut close = a.eq(&b);
        if opts.equal_nan {
            close = close.or(a.is_nan().and(b.is_nan()));
        }
        if opts.rtol == 0.0 && opts.atol == 0.0 {
            return close;
        }
        let allowed = (&b * opts.rtol).abs() + opts.atol;
        let difference = (&a - &b).abs();
        let finite = difference.lt(f64::INFINITY);
        close.or(finite.and(difference.le(allowed)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::testing::{assert_close, error_text, f32s, i64s, tensor};

    const NAN: f64 = f64::NAN;
    const INF: f64 = f64::INFINITY;

    #[test]
    fn nan_is_unequal_and_unordered() {
        let (a, b) = (f32s(&[4], &[1.0, 2.0, NAN, NAN]), f32s(&[4], &[2.0, 2.0, 1.0, NAN]));
        assert_close(&a.eq(&b), &[4], &[0.0, 1.0, 0.0, 0.0]);
        assert_close(&a.ne(&b), &[4], &[1.0, 0.0, 1.0, 1.0]);
        assert_close(&a.lt(&b), &[4], &[1.0, 0.0, 0.0, 0.0]);
        assert_close(&a.le(&b), &[4], &[1.0, 1.0, 0.0, 0.0]);
        assert_close(&a.gt(&b), &[4], &[0.0; 4]);
        assert_close(&a.ge(&b), &[4], &[0.0, 1.0, 0.0, 0.0]);
        assert_eq!(a.ge(1).dtype(), DType::Bool);
    }

    #[test]
    fn integers_compare_exactly() {
        let big = i64s(&[1], &[1 << 60]);
        assert_close(&(&big + 1).le(&big), &[1], &[0.0]);
        assert_close(&big.ge(&big), &[1], &[1.0]);
    }

    #[test]
    fn every_number_has_its_class() {
        let x = f32s(&[4], &[1.0, NAN, INF, -INF]);
        assert_close(&x.isnan(), &[4], &[0.0, 1.0, 0.0, 0.0]);
        assert_close(&x.isinf(), &[4], &[0.0, 0.0, 1.0, 1.0]);
        assert_close(&x.isfinite(), &[4], &[1.0, 0.0, 0.0, 0.0]);
        assert_close(&x.isposinf(), &[4], &[0.0, 0.0, 1.0, 0.0]);
        assert_close(&x.isneginf(), &[4], &[0.0, 0.0, 0.0, 1.0]);
        assert_close(&i64s(&[2], &[1, 2]).isfinite(), &[2], &[1.0, 1.0]);
    }

    #[test]
    fn logic_asks_what_differs_from_zero() {
        let (a, b) = (f32s(&[4], &[0.0, 0.0, NAN, 2.0]), i64s(&[4], &[0, 3, 0, 3]));
        assert_close(&a.logical_and(&b), &[4], &[0.0, 0.0, 0.0, 1.0]);
        assert_close(&a.logical_or(&b), &[4], &[0.0, 1.0, 1.0, 1.0]);
        assert_close(&a.logical_xor(&b), &[4], &[0.0, 1.0, 1.0, 0.0]);
        assert_close(&a.logical_not(), &[4], &[1.0, 1.0, 0.0, 0.0]);
    }

    #[test]
    fn closeness_has_two_tolerances() {
        let (a, b) = (f32s(&[4], &[1.0, 1.0, INF, NAN]), f32s(&[4], &[1.000_001, 1.1, INF, NAN]));
        assert_close(&a.isclose(&b), &[4], &[1.0, 0.0, 1.0, 0.0]);
        let wide = IsCloseOpts::default().rtol(0.2).equal_nan(true);
        assert_close(&a.isclose_with(&b, wide), &[4], &[1.0; 4]);
        assert!(error_text(&a.isclose_with(&b, IsCloseOpts::default().atol(NAN))).contains("at least 0"));
        assert!(error_text(&a.isclose(&b.double())).contains("one type"));
    }

    #[test]
    fn selection_broadcasts_and_promotes_its_values() {
        let mask = tensor(&[2, 1], DType::Bool, &[1.0, 0.0]);
        let chosen = mask.select(i64s(&[2], &[1, 2]), 0.5);
        assert_close(&chosen, &[2, 2], &[1.0, 2.0, 0.5, 0.5]);
        assert!(error_text(&chosen.select(1, 2)).contains("bool"));
        let filled = i64s(&[2], &[1, 2]).masked_fill(&mask, 9);
        assert_close(&filled, &[2, 2], &[9.0, 9.0, 1.0, 2.0]);
        assert_eq!(filled.dtype(), DType::I64);
        assert!(error_text(&filled.masked_fill(&mask, i64s(&[1], &[1]))).contains("rank 0"));
    }
}
