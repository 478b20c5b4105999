//! The operators `+ - * / -` between complex numbers, tensors and numbers.

use std::ops::{Add, Div, Mul, Neg, Sub};

use crate::base::Span;
use crate::ir::AluOp;
use crate::tensor::Tensor;
use crate::tensor::complex::Complex;
use crate::tensor::compose::CallSite;
use crate::tensor::operand::{Operand, OperandValue};
use crate::tensor::rule::with_rule;

/// What can stand beside a [`Complex`]: another, a tensor, or a Rust number, the latter two real.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// let z = Complex::new(&Tensor::from([1.0f32]), &Tensor::from([2.0f32]));
/// assert_eq!((&z * 2.0 + &Tensor::from([1.0f32])).to_vec::<f32>()?, [(3.0, 4.0)]);
/// # Ok::<(), kiln::Error>(())
/// ```
pub trait ComplexOperand {
    /// The real part, and the imaginary one if there is one.
    fn into_parts(self) -> (OperandValue, Option<Tensor>);
}

impl ComplexOperand for Complex {
    fn into_parts(self) -> (OperandValue, Option<Tensor>) {
        (OperandValue::Tensor(self.re), Some(self.im))
    }
}
impl ComplexOperand for &Complex {
    fn into_parts(self) -> (OperandValue, Option<Tensor>) {
        self.clone().into_parts()
    }
}
impl<R: Operand> ComplexOperand for R {
    fn into_parts(self) -> (OperandValue, Option<Tensor>) {
        (self.into_operand(), None)
    }
}

/// An operand of an operator: real part, and imaginary part unless it is real.
type Parts = (OperandValue, Option<Tensor>);

fn add(site: CallSite, (a, b): Parts, (c, d): Parts) -> Complex {
    let im = match (b, d) {
        (Some(b), Some(d)) => site.add(b, d),
        (Some(im), None) | (None, Some(im)) => im,
        (None, None) => site.constant_like(0.0, &site.add(a.clone(), c.clone())),
    };
    Complex::of(site, site.add(a, c), im)
}

fn sub(site: CallSite, (a, b): Parts, (c, d): Parts) -> Complex {
    let im = match (b, d) {
        (Some(b), Some(d)) => site.sub(b, d),
        (Some(im), None) => im,
        (None, Some(d)) => site.unary(AluOp::Neg, &d),
        (None, None) => site.constant_like(0.0, &site.sub(a.clone(), c.clone())),
    };
    Complex::of(site, site.sub(a, c), im)
}

fn mul(site: CallSite, (a, b): Parts, (c, d): Parts) -> Complex {
    let product = |x: &OperandValue, y: &Tensor| site.mul(x.clone(), y);
    let ac = site.mul(a.clone(), c.clone());
    match (b, d) {
        (Some(b), Some(d)) => {
            let (ad, bc) = (product(&a, &d), product(&c, &b));
            Complex::of(site, site.sub(ac, site.mul(b, d)), site.add(ad, bc))
        }
        (Some(b), None) => Complex::of(site, ac, product(&c, &b)),
        (None, Some(d)) => Complex::of(site, ac, product(&a, &d)),
        (None, None) => Complex::of(site, ac.clone(), site.constant_like(0.0, &ac)),
    }
}

/// The quotient: by a complex divisor, the product with its conjugate over its square, both scaled by the
/// divisor's larger part so that the square neither overflows nor vanishes.
fn div(site: CallSite, (a, b): Parts, (c, d): Parts) -> Complex {
    let Some(d) = d else {
        let re = site.div(a, c.clone());
        let im = match b {
            Some(b) => site.div(b, c),
            None => site.constant_like(0.0, &re),
        };
        return Complex::of(site, re, im);
    };
    let divisor = Complex::of(site, site.add(c, 0.0), d);
    // The scale cancels, so it is a constant for gradients.
    let size = site.max(site.unary(AluOp::Abs, &divisor.re), site.unary(AluOp::Abs, &divisor.im));
    let size = with_rule(size, &[&divisor.re, &divisor.im], |_, _, _| vec![None, None]);
    let (c, d) = (site.div(&divisor.re, &size), site.div(&divisor.im, &size));
    let square = site.mul(site.add(site.square(&c), site.square(&d)), &size);
    let conjugate = (OperandValue::Tensor(c), Some(site.unary(AluOp::Neg, &d)));
    let product = mul(site, (a, b), conjugate);
    product.map(|part| site.div(part, &square))
}

macro_rules! operators {
    ($($trait:ident $method:ident;)*) => {$(
        impl<R: ComplexOperand> $trait<R> for Complex {
            type Output = Complex;
            #[track_caller]
            fn $method(self, rhs: R) -> Complex {
                let site = CallSite { name: stringify!($method), span: Span::caller() };
                $method(site, self.into_parts(), rhs.into_parts())
            }
        }
        impl<R: ComplexOperand> $trait<R> for &Complex {
            type Output = Complex;
            #[track_caller]
            fn $method(self, rhs: R) -> Complex {
                let site = CallSite { name: stringify!($method), span: Span::caller() };
                $method(site, self.into_parts(), rhs.into_parts())
            }
        }
        operators! { @left $trait $method Tensor, &Tensor, f64, i32 }
    )*};
    (@left $trait:ident $method:ident $($left:ty),*) => {$(
        operators! { @right $trait $method $left, Complex }
        operators! { @right $trait $method $left, &Complex }
    )*};
    (@right $trait:ident $method:ident $left:ty, $right:ty) => {
        impl $trait<$right> for $left {
            type Output = Complex;
            #[track_caller]
            fn $method(self, rhs: $right) -> Complex {
                let site = CallSite { name: stringify!($method), span: Span::caller() };
                $method(site, self.into_parts(), rhs.into_parts())
            }
        }
    };
}

operators! {
    Add add;
    Sub sub;
    Mul mul;
    Div div;
}

impl Neg for Complex {
    type Output = Complex;
    #[track_caller]
    fn neg(self) -> Complex {
        -&self
    }
}
impl Neg for &Complex {
    type Output = Complex;
    #[track_caller]
    fn neg(self) -> Complex {
        let site = CallSite::here("neg");
        self.map(|part| site.unary(AluOp::Neg, part))
    }
}
