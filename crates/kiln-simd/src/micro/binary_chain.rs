//! Two chained arithmetic operations as one loop. Each rounds separately, so the result is
//! bit-identical to one loop after the other.

use std::marker::PhantomData;

use crate::AluOp;
use crate::DType;
use crate::micro::alu::{Micro, micro};
use crate::micro::batched_rows::variants;
use crate::micro::isa::Isa;
use crate::micro::lane::LaneType;
use crate::micro::non_temporal::{Elementwise, step};
use crate::micro::ops::{self, Map2};
use crate::micro::{
    MAX_OPERANDS, MicroFn, OperandKind, OperandKinds, OperandPtrs, Operation, Variants, view, view_mut,
};

/// Which operand of the second operation the result of the first is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChainSide {
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
pub fn binary_chain(
    first: AluOp,
    second: AluOp,
    side: ChainSide,
    dtype: DType,
    kinds: OperandKinds,
) -> Option<Operation> {
    if LaneType::of(dtype) != LaneType::F32 {
        return None;
    }
    let (loops, name) = loops_of(first, second, side)?;
    let mask = match kinds {
        [OperandKind::Vector, OperandKind::Vector, OperandKind::Vector, _] => 0,
        [OperandKind::Vector, OperandKind::Vector, OperandKind::Broadcast, _] => 1,
        [OperandKind::Vector, OperandKind::Broadcast, OperandKind::Vector, _] => 2,
        [OperandKind::Vector, OperandKind::Broadcast, OperandKind::Broadcast, _] => 3,
        [OperandKind::Broadcast, OperandKind::Vector, OperandKind::Vector, _] if first == AluOp::Sub => 4,
        [OperandKind::Broadcast, OperandKind::Vector, OperandKind::Broadcast, _] if first == AluOp::Sub => 5,
        [OperandKind::Broadcast, ..] => return None,
    };
    let (function, variants) = loops(mask);
    Some(Operation { function, name, variants: Some(variants) })
}

/// The loops of a broadcast mask: bit 2 if `a` is a broadcast, bit 1 if `b` is, bit 0 if `c` is.
type ByMask = fn(u8) -> (MicroFn, Variants);

fn loops_of(first: AluOp, second: AluOp, side: ChainSide) -> Option<(ByMask, &'static str)> {
    macro_rules! table {
        ($($first:ident, $second:ident, $side:ident: $right:literal, $name:literal;)*) => {
            match (first, second, side) {
                $((AluOp::$first, AluOp::$second, ChainSide::$side) => {
                    Some((by_mask::<ops::$first, ops::$second, $right>, $name))
                })*
                _ => None,
            }
        };
    }
    table! {
        Add, Add, Left: false, "add_add";
        Add, Sub, Left: false, "add_sub";
        Add, Sub, Right: true, "add_rsub";
        Add, Mul, Left: false, "add_mul";
        Add, Max, Left: false, "add_max";
        Sub, Add, Left: false, "sub_add";
        Sub, Sub, Left: false, "sub_sub";
        Sub, Sub, Right: true, "sub_rsub";
        Sub, Mul, Left: false, "sub_mul";
        Sub, Max, Left: false, "sub_max";
        Mul, Add, Left: false, "mul_add";
        Mul, Sub, Left: false, "mul_sub";
        Mul, Sub, Right: true, "mul_rsub";
        Mul, Mul, Left: false, "mul_mul";
        Mul, Max, Left: false, "mul_max";
    }
}

fn by_mask<A: Map2F32, B: Map2F32, const RIGHT: bool>(mask: u8) -> (MicroFn, Variants) {
    match mask {
        0 => loops::<BinaryChain<A, B, RIGHT, 0>>(),
        1 => loops::<BinaryChain<A, B, RIGHT, 1>>(),
        2 => loops::<BinaryChain<A, B, RIGHT, 2>>(),
        3 => loops::<BinaryChain<A, B, RIGHT, 3>>(),
        4 => loops::<BinaryChain<A, B, RIGHT, 4>>(),
        _ => loops::<BinaryChain<A, B, RIGHT, 5>>(),
    }
}

/// The plain loop and its variants.
pub(super) fn loops<P: Elementwise + 'static>() -> (MicroFn, Variants) {
    (micro::<P>(), variants::<P>())
}

/// An operation on two `f32`.
pub(super) trait Map2F32: Map2<f32, Out = f32> + 'static {}
impl<O: Map2<f32, Out = f32> + 'static> Map2F32 for O {}

struct BinaryChain<A, B, const RIGHT: bool, const BROADCAST: u8>(PhantomData<(A, B)>);
impl<A: Map2F32, B: Map2F32, const RIGHT: bool, const BROADCAST: u8> Micro
    for BinaryChain<A, B, RIGHT, BROADCAST>
{
    #[inline(always)]
    unsafe fn run<I: Isa>(dst: *mut u8, [a, b, c, ..]: OperandPtrs, n: usize, _next: *const u8) {
        if n == 0 {
            return;
        }
        let [a_len, b_len, c_len] = [4, 2, 1].map(|scalar| if BROADCAST & scalar == 0 { n } else { 1 });
        // SAFETY: the contract of `MicroFn`; a broadcast operand is one element.
        unsafe {
            zip::<I, A, B, RIGHT, BROADCAST>(
                view_mut(dst, n),
                view(a, a_len),
                view(b, b_len),
                view(c, c_len),
            );
        }
    }
}

impl<A: Map2F32, B: Map2F32, const RIGHT: bool, const BROADCAST: u8> Elementwise
    for BinaryChain<A, B, RIGHT, BROADCAST>
{
    const STEPS: [usize; MAX_OPERANDS] =
        [step(BROADCAST & 4 == 0), step(BROADCAST & 2 == 0), step(BROADCAST & 1 == 0), 0];
}

#[inline(always)]
fn zip<I: Isa, A: Map2F32, B: Map2F32, const RIGHT: bool, const BROADCAST: u8>(
    dst: &mut [f32],
    a: &[f32],
    b: &[f32],
    c: &[f32],
) {
    let n = dst.len();
    let a = &a[..if BROADCAST & 4 == 0 { n } else { 1 }];
    let b = &b[..if BROADCAST & 2 == 0 { n } else { 1 }];
    let c = &c[..if BROADCAST & 1 == 0 { n } else { 1 }];
    let (x, y, z) = (a[0], b[0], c[0]);
    for i in 0..n {
        let x = if BROADCAST & 4 == 0 { a[i] } else { x };
        let y = if BROADCAST & 2 == 0 { b[i] } else { y };
        let z = if BROADCAST & 1 == 0 { c[i] } else { z };
        let intermediate = A::map::<I>(x, y);
        dst[i] = if RIGHT { B::map::<I>(z, intermediate) } else { B::map::<I>(intermediate, z) };
    }
}
