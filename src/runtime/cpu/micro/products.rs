//! The sum or the difference of two products as one loop, each operation rounded for itself: what
//! comes out has the bits of one after the other.

use std::marker::PhantomData;

use crate::base::DType;
use crate::runtime::cpu::micro::alu::Micro;
use crate::runtime::cpu::micro::isa::Isa;
use crate::runtime::cpu::micro::lane::Lane;
use crate::runtime::cpu::micro::ops;
use crate::runtime::cpu::micro::pair::{Op, both};
use crate::runtime::cpu::micro::streamed::{Elementwise, step};
use crate::runtime::cpu::micro::{Form, Forms, MicroFn, OPERANDS, Operands, Operation, Variants};
use crate::runtime::cpu::micro::{view, view_mut};

/// `a * b + c * d`, or their `difference`; `None` where there are no loops.
///
/// On `F32` and the 16-bit floats' register form. `a` and `c` are vectors, `b` and `d` of either
/// form.
pub fn products(difference: bool, dtype: DType, forms: Forms) -> Option<Operation> {
    if Lane::of(dtype) != Lane::F32 {
        return None;
    }
    let form = match forms {
        [Form::V, Form::V, Form::V, Form::V] => 0,
        [Form::V, Form::V, Form::V, Form::S] => 1,
        [Form::V, Form::S, Form::V, Form::V] => 2,
        [Form::V, Form::S, Form::V, Form::S] => 3,
        [Form::S, ..] | [_, _, Form::S, _] => return None,
    };
    let (name, (function, variants)) = if difference {
        ("products_sub", by_form::<ops::Sub>(form))
    } else {
        ("products_add", by_form::<ops::Add>(form))
    };
    Some(Operation { function, name, variants: Some(variants) })
}

/// The loops of a form: 2 if `b` is a scalar, 1 if `d` is, and their sum.
fn by_form<O: Op>(form: u8) -> (MicroFn, Variants) {
    match form {
        0 => both::<Products<O, 0>>(),
        1 => both::<Products<O, 1>>(),
        2 => both::<Products<O, 2>>(),
        _ => both::<Products<O, 3>>(),
    }
}

struct Products<O, const FORM: u8>(PhantomData<O>);
impl<O: Op, const FORM: u8> Micro for Products<O, FORM> {
    #[inline(always)]
    unsafe fn run<I: Isa>(dst: *mut u8, [a, b, c, d]: Operands, n: usize, _next: *const u8) {
        if n == 0 {
            return;
        }
        let [b_len, d_len] = [2, 1].map(|scalar| if FORM & scalar == 0 { n } else { 1 });
        // SAFETY: the contract of `MicroFn`; a scalar operand is one element.
        unsafe {
            let (first, second) = ([view(a, n), view(b, b_len)], [view(c, n), view(d, d_len)]);
            zip::<I, O, FORM>(view_mut(dst, n), first, second);
        }
    }
}

impl<O: Op, const FORM: u8> Elementwise for Products<O, FORM> {
    const STEPS: [usize; OPERANDS] = [step(true), step(FORM & 2 == 0), step(true), step(FORM & 1 == 0)];
}

#[inline(always)]
fn zip<I: Isa, O: Op, const FORM: u8>(dst: &mut [f32], [a, b]: [&[f32]; 2], [c, d]: [&[f32]; 2]) {
    let n = dst.len();
    let (a, c) = (&a[..n], &c[..n]);
    let b = &b[..if FORM & 2 == 0 { n } else { 1 }];
    let d = &d[..if FORM & 1 == 0 { n } else { 1 }];
    let (y, w) = (b[0], d[0]);
    for i in 0..n {
        let y = if FORM & 2 == 0 { b[i] } else { y };
        let w = if FORM & 1 == 0 { d[i] } else { w };
        dst[i] = O::map::<I>(a[i] * y, c[i] * w);
    }
}
