//! A choice by a comparison as one loop: no truth values are stored between.

use std::marker::PhantomData;

use crate::base::DType;
use crate::ir::AluOp;
use crate::runtime::cpu::micro::alu::Micro;
use crate::runtime::cpu::micro::isa::Isa;
use crate::runtime::cpu::micro::lane::Lane;
use crate::runtime::cpu::micro::ops::{self, Map2};
use crate::runtime::cpu::micro::pair::both;
use crate::runtime::cpu::micro::streamed::{Elementwise, step};
use crate::runtime::cpu::micro::{Form, Forms, MicroFn, OPERANDS, Operands, Operation, Variants};
use crate::runtime::cpu::micro::{view, view_mut};

/// `c` where `a ∘ b`, else `d`; `None` where there are no loops.
///
/// On `F32` and the 16-bit floats' register form, by `Lt` and `Eq`. Of `a` and `b` at least one
/// is a vector.
pub fn choice(comparison: AluOp, dtype: DType, forms: Forms) -> Option<Operation> {
    if Lane::of(dtype) != Lane::F32 {
        return None;
    }
    let (name, (function, variants)) = if comparison == AluOp::Lt {
        ("where_lt", by_form::<ops::Lt>(forms)?)
    } else if comparison == AluOp::Eq {
        ("where_eq", by_form::<ops::Eq>(forms)?)
    } else {
        return None;
    };
    Some(Operation { function, name, variants: Some(variants) })
}

fn by_form<O: Comparison>(forms: Forms) -> Option<(MicroFn, Variants)> {
    match [forms[0], forms[1]] {
        [Form::V, Form::V] => Some(by_values::<O, 0>(forms)),
        [Form::V, Form::S] => Some(by_values::<O, 1>(forms)),
        [Form::S, Form::V] => Some(by_values::<O, 2>(forms)),
        [Form::S, Form::S] => None,
    }
}

fn by_values<O: Comparison, const COMPARED: u8>(forms: Forms) -> (MicroFn, Variants) {
    match [forms[2], forms[3]] {
        [Form::V, Form::V] => both::<Choice<O, COMPARED, 0>>(),
        [Form::V, Form::S] => both::<Choice<O, COMPARED, 1>>(),
        [Form::S, Form::V] => both::<Choice<O, COMPARED, 2>>(),
        [Form::S, Form::S] => both::<Choice<O, COMPARED, 3>>(),
    }
}

trait Comparison: Map2<f32, Out = u8> + 'static {}
impl<O: Map2<f32, Out = u8> + 'static> Comparison for O {}

/// Forms of two operands each: 2 if the first is a scalar, 1 if the second is, and their sum.
struct Choice<O, const COMPARED: u8, const VALUES: u8>(PhantomData<O>);
impl<O: Comparison, const COMPARED: u8, const VALUES: u8> Micro for Choice<O, COMPARED, VALUES> {
    #[inline(always)]
    unsafe fn run<I: Isa>(dst: *mut u8, from: Operands, n: usize, _next: *const u8) {
        if n == 0 {
            return;
        }
        // SAFETY: the contract of `MicroFn`; a scalar operand is one element.
        unsafe {
            let of = |i: usize| view(from[i], if Self::STEPS[i] == 0 { 1 } else { n });
            choose::<I, O, COMPARED, VALUES>(view_mut(dst, n), [of(0), of(1)], [of(2), of(3)]);
        }
    }
}

impl<O: Comparison, const COMPARED: u8, const VALUES: u8> Elementwise for Choice<O, COMPARED, VALUES> {
    const STEPS: [usize; OPERANDS] =
        [step(COMPARED & 2 == 0), step(COMPARED & 1 == 0), step(VALUES & 2 == 0), step(VALUES & 1 == 0)];
}

#[inline(always)]
fn choose<I: Isa, O: Comparison, const COMPARED: u8, const VALUES: u8>(
    dst: &mut [f32],
    [a, b]: [&[f32]; 2],
    [c, d]: [&[f32]; 2],
) {
    let n = dst.len();
    let a = &a[..if COMPARED & 2 == 0 { n } else { 1 }];
    let b = &b[..if COMPARED & 1 == 0 { n } else { 1 }];
    let c = &c[..if VALUES & 2 == 0 { n } else { 1 }];
    let d = &d[..if VALUES & 1 == 0 { n } else { 1 }];
    let (x, y, yes, no) = (a[0], b[0], c[0], d[0]);
    for i in 0..n {
        let x = if COMPARED & 2 == 0 { a[i] } else { x };
        let y = if COMPARED & 1 == 0 { b[i] } else { y };
        let yes = if VALUES & 2 == 0 { c[i] } else { yes };
        let no = if VALUES & 1 == 0 { d[i] } else { no };
        dst[i] = if O::map::<I>(x, y) != 0 { yes } else { no };
    }
}
