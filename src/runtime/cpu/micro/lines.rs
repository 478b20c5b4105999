//! Arithmetic on lines of a few vectors that lie apart: all of a tile's lines in one call,
//! which costs as much as such a line.

use std::marker::PhantomData;

use crate::base::DType;
use crate::ir::AluOp;
use crate::runtime::cpu::micro::alu::{Binary, Micro, SV, VS, VV};
use crate::runtime::cpu::micro::isa::{Isa, versioned};
use crate::runtime::cpu::micro::lane::Lane;
use crate::runtime::cpu::micro::ops::{self, Map2};
use crate::runtime::cpu::micro::streamed::{Elementwise, streamed};
use crate::runtime::cpu::micro::{Form, Streaming, Variants};

/// How many lines there are, and how far apart in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Apart {
    /// Lines.
    pub lines: usize,
    /// From a line of the result to the next.
    pub to: usize,
    /// The same of the operands.
    pub from: [usize; 3],
}

/// A micro-op over lines: `fn(dst, [a, b, c], n, apart)`.
///
/// # Safety
/// That of [`super::MicroFn`] for every line, and no line of `dst` overlaps any line of
/// an operand.
pub type LinesFn = unsafe fn(dst: *mut u8, from: [*const u8; 3], n: usize, apart: &Apart);

versioned! {
    /// A loop with the signature [`LinesFn`].
    Loop, by_line, base_by_line,
    fn(dst: *mut u8, from: [*const u8; 3], n: usize, apart: &Apart)
}

/// A micro-op's loop, line by line.
fn lines<K: Micro + 'static>() -> LinesFn {
    by_line::<Lines<K>>()
}

/// The loop over lines, and the one that stores past the caches, of one operation.
pub(super) fn variants<K: Elementwise + 'static>() -> Variants {
    Variants { lines: lines::<K>(), streaming: Streaming { function: streamed::<K>(), late: false } }
}

/// Other loops of the ALU rows that are no more than arithmetic, on `F32` and the 16-bit
/// floats' register form, where at least one operand is a vector.
pub fn alu_variants(op: AluOp, dtype: DType, forms: [Form; 3]) -> Option<Variants> {
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
        AluOp::Rem | AluOp::Pow | AluOp::Neg | AluOp::Abs | AluOp::Floor | AluOp::Trunc => None,
        AluOp::Recip | AluOp::Sqrt | AluOp::Exp2 | AluOp::Log2 | AluOp::Exp | AluOp::Log => None,
        AluOp::Sin | AluOp::Cos | AluOp::Tanh | AluOp::Erf | AluOp::Lt | AluOp::Eq | AluOp::Where => None,
        AluOp::And | AluOp::Or | AluOp::Xor | AluOp::Not | AluOp::Shl | AluOp::Shr => None,
    }
}

fn binary<O: Map2<f32, Out = f32> + 'static>(forms: [Form; 3]) -> Option<Variants> {
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
    unsafe fn run<I: Isa>(dst: *mut u8, mut from: [*const u8; 3], n: usize, apart: &Apart) {
        let mut to = dst;
        for _ in 0..apart.lines {
            // SAFETY: the caller's promise.
            unsafe { K::run::<I>(to, from, n, from[0]) }
            to = to.wrapping_add(apart.to);
            from = std::array::from_fn(|i| from[i].wrapping_add(apart.from[i]));
        }
    }
}
