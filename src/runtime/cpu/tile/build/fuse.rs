//! Superinstructions: operations that run as one loop.

use crate::kernel::{ExprId, Kernel};
use crate::runtime::cpu::tile::analysis::Facts;
use crate::runtime::cpu::tile::build::Builder;
use crate::runtime::cpu::tile::program::{Slot, Step};
use crate::runtime::cpu::tile::tiling::Tiling;

/// Which expressions run as part of others.
#[derive(Debug)]
pub struct Patterns {
    /// Whether an expression is computed only inside of another.
    pub absorbed: Vec<bool>,
}

/// The patterns of a kernel.
pub fn patterns(kernel: &Kernel, _facts: &Facts, _tiling: &Tiling) -> Patterns {
    Patterns { absorbed: vec![false; kernel.exprs.len()] }
}

impl Builder<'_> {
    /// A value as a superinstruction, if it is one.
    pub(super) fn fused(&mut self, _id: ExprId) -> Option<Slot> {
        None
    }

    /// A sum whose elements another step computes and takes in: its operand.
    pub(super) fn fused_sum(&mut self, _id: ExprId) -> Option<Slot> {
        None
    }

    /// The step that takes elements into a reduction.
    pub(super) fn update_step(&mut self, _id: ExprId, number: u32) -> Option<Step> {
        Some(Step::Update(number))
    }
}
