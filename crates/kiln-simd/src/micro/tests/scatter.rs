//! Scatters.

use super::{Register, Rng, equal, samples};
use crate::micro::*;
use crate::{AluOp, DType, Scalar};

/// The reductions that scatters combine by, and the operation that each is; `None` replaces.
const KINDS: [(Option<ReduceKind>, Option<AluOp>); 5] = [
    (None, None),
    (Some(ReduceKind::Sum), Some(AluOp::Add)),
    (Some(ReduceKind::Prod), Some(AluOp::Mul)),
    (Some(ReduceKind::Max), Some(AluOp::Max)),
    (Some(ReduceKind::Min), Some(AluOp::Min)),
];

#[test]
fn values_combine_in_order_and_negative_positions_are_skipped() {
    let positions = [2i64, 0, -1, 2, 3, 2];
    let mut rng = Rng(7);
    for dtype in [DType::U8, DType::I32, DType::U32, DType::I64, DType::F32, DType::F64] {
        for (kind, op) in KINDS.repeat(50) {
            // Position 0 is the second element, so that the first shows what writes before it.
            let (old, values) = (samples(dtype, 5, &mut rng), samples(dtype, positions.len(), &mut rng));
            let (mut to, from) = (Register::of(dtype, &old), Register::of(dtype, &values));
            let start = to.ptr_mut().wrapping_add(to.size());
            // SAFETY: positions are below the four elements from there; there is a value for each.
            unsafe { scatter(kind, dtype)(start, positions.as_ptr(), from.ptr(), positions.len()) }
            let mut want: Vec<Scalar> = old.clone();
            for (&at, &value) in positions.iter().zip(&values).filter(|(at, _)| **at >= 0) {
                let (at, old) = (at as usize + 1, want[at as usize + 1]);
                want[at] = op.map_or(value, |op| op.eval(dtype, &[old, value]));
            }
            for (i, &want) in want.iter().enumerate() {
                assert!(equal(to.get(i), want), "{kind:?} {dtype} {i}: {old:?} and {values:?}");
            }
        }
    }
}
