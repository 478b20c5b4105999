//! Two arithmetic operations as one loop, each rounded for itself: what comes
//! out has the bits of one after the other.

use std::marker::PhantomData;

use crate::base::DType;
use crate::ir::AluOp;
use crate::runtime::cpu::micro::alu::{Micro, micro};
use crate::runtime::cpu::micro::isa::Isa;
use crate::runtime::cpu::micro::lane::Lane;
use crate::runtime::cpu::micro::lines::variants;
use crate::runtime::cpu::micro::ops::{self, Map2};
use crate::runtime::cpu::micro::streamed::{Elementwise, step};
use crate::runtime::cpu::micro::{
    Form, Forms, MicroFn, OPERANDS, Operands, Operation, Variants, view, view_mut,
};

/// Which operand of the second operation the first one's result is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// `(a ∘ b) ∙ c`.
    Left,
    /// `c ∙ (a ∘ b)`.
    Right,
}

/// `second(first(a, b), c)`, or with its operands the other way round; `None` where there
/// are no loops.
///
/// On `F32` and the 16-bit floats' register form. `first` is a sum, a
/// difference or a product, `second` one of those or a maximum, on the right
/// side a difference only. Of `a` and `b` at least one is a vector, of a sum's
/// or product's `a`.
pub fn pair(first: AluOp, second: AluOp, side: Side, dtype: DType, forms: Forms) -> Option<Operation> {
    if Lane::of(dtype) != Lane::F32 {
        return None;
    }
    let (loops, name) = loops_of(first, second, side)?;
    let form = match forms {
        [Form::V, Form::V, Form::V, _] => 0,
        [Form::V, Form::V, Form::S, _] => 1,
        [Form::V, Form::S, Form::V, _] => 2,
        [Form::V, Form::S, Form::S, _] => 3,
        [Form::S, Form::V, Form::V, _] if first == AluOp::Sub => 4,
        [Form::S, Form::V, Form::S, _] if first == AluOp::Sub => 5,
        [Form::S, ..] => return None,
    };
    let (function, variants) = loops(form);
    Some(Operation { function, name, variants: Some(variants) })
}

/// The loops of a form: 4 if `a` is a scalar, 2 if `b` is, 1 if `c` is, and
/// their sums.
type ByForm = fn(u8) -> (MicroFn, Variants);

fn loops_of(first: AluOp, second: AluOp, side: Side) -> Option<(ByForm, &'static str)> {
    macro_rules! table {
        ($($first:ident, $second:ident, $side:ident: $right:literal, $name:literal;)*) => {
            match (first, second, side) {
                $((AluOp::$first, AluOp::$second, Side::$side) => {
                    Some((by_form::<ops::$first, ops::$second, $right>, $name))
                })*
                _ => None,
            }
        };
    }
    table! {
        Add, Add, Left: false, "add_add";
        Add, Sub, Left: false, "add_sub";
        Add, Sub, Right: true, "less_add";
        Add, Mul, Left: false, "add_mul";
        Add, Max, Left: false, "add_max";
        Sub, Add, Left: false, "sub_add";
        Sub, Sub, Left: false, "sub_sub";
        Sub, Sub, Right: true, "less_sub";
        Sub, Mul, Left: false, "sub_mul";
        Sub, Max, Left: false, "sub_max";
        Mul, Add, Left: false, "mul_add";
        Mul, Sub, Left: false, "mul_sub";
        Mul, Sub, Right: true, "less_mul";
        Mul, Mul, Left: false, "mul_mul";
        Mul, Max, Left: false, "mul_max";
    }
}

fn by_form<A: Op, B: Op, const RIGHT: bool>(form: u8) -> (MicroFn, Variants) {
    match form {
        0 => both::<Pair<A, B, RIGHT, 0>>(),
        1 => both::<Pair<A, B, RIGHT, 1>>(),
        2 => both::<Pair<A, B, RIGHT, 2>>(),
        3 => both::<Pair<A, B, RIGHT, 3>>(),
        4 => both::<Pair<A, B, RIGHT, 4>>(),
        _ => both::<Pair<A, B, RIGHT, 5>>(),
    }
}

/// The loop over a line, and the others.
pub(super) fn both<P: Elementwise + 'static>() -> (MicroFn, Variants) {
    (micro::<P>(), variants::<P>())
}

/// An operation on two `f32`.
pub(super) trait Op: Map2<f32, Out = f32> + 'static {}
impl<O: Map2<f32, Out = f32> + 'static> Op for O {}

struct Pair<A, B, const RIGHT: bool, const FORM: u8>(PhantomData<(A, B)>);
impl<A: Op, B: Op, const RIGHT: bool, const FORM: u8> Micro for Pair<A, B, RIGHT, FORM> {
    #[inline(always)]
    unsafe fn run<I: Isa>(dst: *mut u8, [a, b, c, ..]: Operands, n: usize, _next: *const u8) {
        if n == 0 {
            return;
        }
        let [a_len, b_len, c_len] = [4, 2, 1].map(|scalar| if FORM & scalar == 0 { n } else { 1 });
        // SAFETY: the contract of `MicroFn`; a scalar operand is one element.
        unsafe {
            zip::<I, A, B, RIGHT, FORM>(view_mut(dst, n), view(a, a_len), view(b, b_len), view(c, c_len));
        }
    }
}

impl<A: Op, B: Op, const RIGHT: bool, const FORM: u8> Elementwise for Pair<A, B, RIGHT, FORM> {
    const STEPS: [usize; OPERANDS] = [step(FORM & 4 == 0), step(FORM & 2 == 0), step(FORM & 1 == 0), 0];
}

#[inline(always)]
fn zip<I: Isa, A: Op, B: Op, const RIGHT: bool, const FORM: u8>(
    dst: &mut [f32],
    a: &[f32],
    b: &[f32],
    c: &[f32],
) {
    let n = dst.len();
    let a = &a[..if FORM & 4 == 0 { n } else { 1 }];
    let b = &b[..if FORM & 2 == 0 { n } else { 1 }];
    let c = &c[..if FORM & 1 == 0 { n } else { 1 }];
    let (x, y, z) = (a[0], b[0], c[0]);
    for i in 0..n {
        let x = if FORM & 4 == 0 { a[i] } else { x };
        let y = if FORM & 2 == 0 { b[i] } else { y };
        let z = if FORM & 1 == 0 { c[i] } else { z };
        let between = A::map::<I>(x, y);
        dst[i] = if RIGHT { B::map::<I>(z, between) } else { B::map::<I>(between, z) };
    }
}
