//! Arithmetic on lines of a few vectors that lie apart: all of a tile's lines in one call,
//! which costs as much as such a line.

use std::marker::PhantomData;

use crate::base::DType;
use crate::ir::AluOp;
use crate::runtime::cpu::micro::alu::{Asking, Binary, Micro, SS, SV, Select, Trig, Unary, VS, VV};
use crate::runtime::cpu::micro::exponential;
use crate::runtime::cpu::micro::isa::{Isa, versioned};
use crate::runtime::cpu::micro::lane::Lane;
use crate::runtime::cpu::micro::ops::{self, Map2};
use crate::runtime::cpu::micro::streamed::{Elementwise, streamed};
use crate::runtime::cpu::micro::{Form, Forms, OPERANDS, Operands, Streaming, Variants, piecewise};

/// How many lines there are, and how far apart in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Apart {
    /// Lines.
    pub lines: usize,
    /// From a line of the result to the next.
    pub to: usize,
    /// The same of the operands.
    pub from: [usize; OPERANDS],
}

impl Apart {
    /// One line.
    pub const ONE: Apart = Apart { lines: 1, to: 0, from: [0; OPERANDS] };

    /// Lines of one operand, and of the result.
    pub fn of_one(lines: usize, to: usize, from: usize) -> Apart {
        Apart { lines, to, from: [from; OPERANDS] }
    }

    /// Where each line of the result and of the first operand is.
    #[inline(always)]
    pub fn each(&self, to: *mut u8, from: *const u8) -> impl Iterator<Item = (*mut u8, *const u8)> {
        let at = |line: usize, apart: usize| line.wrapping_mul(apart);
        let &Apart { lines, to: to_apart, from: [from_apart, ..] } = self;
        (0..lines)
            .map(move |line| (to.wrapping_add(at(line, to_apart)), from.wrapping_add(at(line, from_apart))))
    }
}

/// A micro-op over lines: `fn(dst, [a, b, c, d], n, apart)`.
///
/// # Safety
/// That of [`super::MicroFn`] for every line, and no line of `dst` overlaps any line of
/// an operand.
pub type LinesFn = unsafe fn(dst: *mut u8, from: Operands, n: usize, apart: &Apart);

versioned! {
    /// A loop with the signature [`LinesFn`].
    Loop, by_line, base_by_line,
    fn(dst: *mut u8, from: Operands, n: usize, apart: &Apart)
}

/// A micro-op's loop, line by line.
fn lines<K: Micro + 'static>() -> LinesFn {
    by_line::<Lines<K>>()
}

/// The loop over lines, and the one that stores past the caches, of one operation.
pub(super) fn variants<K: Elementwise + 'static>() -> Variants {
    Variants { lines: lines::<K>(), streaming: Streaming { function: streamed::<K>(), late: false } }
}

/// Other loops of the ALU rows on `F32` and the 16-bit floats' register form, where at least one
/// operand is a vector.
pub fn alu_variants(op: AluOp, dtype: DType, forms: Forms) -> Option<Variants> {
    if Lane::of(dtype) != Lane::F32 {
        return None;
    }
    match op {
        AluOp::Add => binary::<ops::Add>(forms),
        AluOp::Sub => binary::<ops::Sub>(forms),
        AluOp::Mul => {
            let mut variants = binary::<ops::Mul>(forms)?;
            variants.streaming.late = forms[..2] == [Form::V, Form::S];
            Some(variants)
        }
        AluOp::Div => binary::<ops::Div>(forms),
        AluOp::Max => binary::<ops::Max>(forms),
        AluOp::Min => binary::<ops::Min>(forms),
        AluOp::Neg => Some(variants::<Unary<ops::Neg, f32>>()),
        AluOp::Abs => Some(variants::<Unary<ops::Abs, f32>>()),
        AluOp::Floor => Some(variants::<Unary<ops::Floor, f32>>()),
        AluOp::Trunc => Some(variants::<Unary<ops::Trunc, f32>>()),
        AluOp::Round => Some(variants::<Unary<ops::Round, f32>>()),
        AluOp::Recip => Some(variants::<Asking<ops::Recip, f32>>()),
        AluOp::Sqrt => Some(variants::<Asking<ops::Sqrt, f32>>()),
        AluOp::Exp2 => Some(variants::<Asking<ops::Exp2, f32>>()),
        AluOp::Log2 => Some(variants::<Asking<ops::Log2, f32>>()),
        AluOp::Log => Some(variants::<Asking<ops::Log, f32>>()),
        AluOp::Tanh => Some(variants::<Asking<ops::Tanh, f32>>()),
        AluOp::Sin => Some(variants::<Trig<ops::Sin, f32>>()),
        AluOp::Cos => Some(variants::<Trig<ops::Cos, f32>>()),
        AluOp::Exp => Some(exp()),
        AluOp::Erf => piecewise::erf().is_none().then(variants::<Asking<ops::Erf, f32>>),
        AluOp::Where => choice(forms),
        AluOp::Rem | AluOp::Pow | AluOp::Lt | AluOp::Eq => None,
        AluOp::And | AluOp::Or | AluOp::Xor | AluOp::Not | AluOp::Shl | AluOp::Shr => None,
    }
}

/// Of the exponential, those of the instruction set's own where there are some.
fn exp() -> Variants {
    let Some(loops) = exponential::loops() else { return variants::<Asking<ops::Exp, f32>>() };
    let streaming = Streaming { function: loops.exp_streamed, late: false };
    Variants { lines: loops.exp_lines, streaming }
}

fn choice(forms: Forms) -> Option<Variants> {
    match forms {
        [Form::V, Form::V, Form::V, _] => Some(variants::<Select<u32, VV>>()),
        [Form::V, Form::V, Form::S, _] => Some(variants::<Select<u32, VS>>()),
        [Form::V, Form::S, Form::V, _] => Some(variants::<Select<u32, SV>>()),
        [Form::V, Form::S, Form::S, _] => Some(variants::<Select<u32, SS>>()),
        [Form::S, ..] => None,
    }
}

fn binary<O: Map2<f32, Out = f32> + 'static>(forms: Forms) -> Option<Variants> {
    match (forms[0], forms[1]) {
        (Form::V, Form::V) => Some(variants::<Binary<O, f32, VV>>()),
        (Form::V, Form::S) => Some(variants::<Binary<O, f32, VS>>()),
        (Form::S, Form::V) => Some(variants::<Binary<O, f32, SV>>()),
        (Form::S, Form::S) => None,
    }
}

struct Lines<K>(PhantomData<K>);
impl<K: Micro> Loop for Lines<K> {
    // The loop along a line stays one whose length is not known: of one with a known length
    // LLVM makes scalars, and gathers those of several lines.
    #[inline(always)]
    unsafe fn run<I: Isa>(dst: *mut u8, mut from: Operands, n: usize, apart: &Apart) {
        let mut to = dst;
        for _ in 0..apart.lines {
            // SAFETY: the caller's promise.
            unsafe { K::run::<I>(to, from, n, from[0]) }
            to = to.wrapping_add(apart.to);
            from = std::array::from_fn(|i| from[i].wrapping_add(apart.from[i]));
        }
    }
}
