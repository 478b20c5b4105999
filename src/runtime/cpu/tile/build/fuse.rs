//! Superinstructions: operations that run as one loop.
//!
//! An operation is *absorbed* if all that use it are loops that compute it on
//! the way. Products and sums keep their own rounding, so that results have
//! the same bits; only what enters a reduction is rounded as the reduction
//! sees fit.

use kiln_simd::micro::{
    self, ChainSide, Fused, LaneType, MAX_OPERANDS, MicroFn, OperandKind, OperandKinds, Operation,
    STATE_BYTES,
};
use kiln_simd::thresholds::SHORT_REDUCED_ROW;
use smallvec::SmallVec;

use crate::base::DType;
use crate::ir::{AluOp, Monoid};
use crate::kernel::{Expr, ExprId, Kernel};
use crate::runtime::cpu::thresholds::MAX_RECOMPUTATIONS;
use crate::runtime::cpu::tile::analysis::ExprFacts;
use crate::runtime::cpu::tile::build::horner::{Horner, horner};
use crate::runtime::cpu::tile::build::{ProgramBuilder, Root};
use crate::runtime::cpu::tile::program::{FrameSlot, Instr, RowStride, RowwiseOp, TileShape};
use crate::runtime::cpu::tile::tiling::TilePlan;

/// Which expressions run as part of others.
#[derive(Debug)]
pub struct Patterns {
    /// Whether an expression is computed only inside of others.
    pub absorbed: Vec<bool>,
    /// Whether a load is used by nothing but operations, a scatter or a store, which may go row
    /// by row.
    pub operands: Vec<bool>,
    /// What the loop of an expression absorbs.
    loops: Vec<Option<Pattern>>,
    users: Vec<SmallVec<[ExprId; 2]>>,
}

/// What a loop absorbs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Pattern {
    /// One of an operation's operands, on this side.
    Pair(ExprId, ChainSide),
    /// Both operands of a sum or a difference, which are products.
    Products([ExprId; 2]),
    /// The comparison that a choice is made by.
    Choice(ExprId),
    /// All products and sums of a polynomial with constant coefficients, of this.
    Polynomial(ExprId),
    /// The difference that is the argument of an exponential.
    ExpSub(ExprId),
    /// The product of vectors that a sum takes in.
    Dot(ExprId),
    /// The product that sums across rows take in.
    MulSum(ExprId),
    /// The difference whose square a sum takes in.
    Squares(ExprId),
}

/// A sum whose elements the loop that computes them takes in.
pub(super) struct FusedSum {
    function: MicroFn,
    name: &'static str,
    /// Whether it prefetches other memory while it computes.
    prefetches: bool,
    /// What the loop reads.
    pub operands: [FrameSlot; 2],
    /// The values that the loop also writes, if it does.
    values: Option<ExprId>,
}

impl Patterns {
    /// No patterns.
    pub fn none(kernel: &Kernel) -> Patterns {
        let count = kernel.exprs.len();
        Patterns {
            absorbed: vec![false; count],
            operands: vec![false; count],
            loops: vec![None; count],
            users: vec![SmallVec::new(); count],
        }
    }
}

/// The patterns of a kernel, some of whose values are needed themselves.
pub fn patterns(
    kernel: &Kernel,
    facts: &ExprFacts,
    tiling: &TilePlan,
    targets: &[ExprId],
    root: Root,
) -> Patterns {
    let mut patterns = Patterns::none(kernel);
    for (i, node) in kernel.exprs.iter().enumerate() {
        node.expr.operands(|operand| patterns.users[operand.index()].push(ExprId(i as u32)));
    }
    for i in 0..kernel.exprs.len() {
        let users = &patterns.users[i];
        let all = users.len() == facts.uses[i] as usize && !targets.contains(&ExprId(i as u32));
        let operand = |user: &ExprId| matches!(kernel.expr(*user), Expr::Alu(..));
        let scattered = kernel.scatter().is_some_and(|scatter| scatter.value.index() == i);
        let stored = root == Root::Stores && kernel.stores.iter().any(|store| store.value.index() == i);
        let only_written = (scattered || stored) && users.is_empty() && facts.uses[i] == 1;
        patterns.operands[i] = (all || only_written)
            && matches!(kernel.exprs[i].expr, Expr::Load(..))
            && users.iter().all(operand);
    }
    let search = PatternMatcher { kernel, facts, tiling };
    for top in (0..kernel.exprs.len() as u32).rev().map(ExprId) {
        if !patterns.absorbed[top.index()]
            && let Some(x) = search.polynomial(&mut patterns, top, targets)
        {
            patterns.loops[top.index()] = Some(Pattern::Polynomial(x));
        }
    }
    // From the results down: of a chain each second operation is absorbed.
    for inner in (0..kernel.exprs.len() as u32).rev().map(ExprId) {
        if !targets.contains(&inner)
            && let Some(found) = search.absorbing(&patterns, inner)
        {
            patterns.absorbed[inner.index()] = true;
            for (user, pattern) in found {
                patterns.loops[user.index()] = Some(pattern);
            }
        }
    }
    patterns
}

struct PatternMatcher<'k> {
    kernel: &'k Kernel,
    facts: &'k ExprFacts,
    tiling: &'k TilePlan,
}

impl PatternMatcher<'_> {
    /// What an operation is a polynomial of, if it is one; all its others are absorbed.
    fn polynomial(&self, patterns: &mut Patterns, top: ExprId, targets: &[ExprId]) -> Option<ExprId> {
        let (x, Horner { inner, coefficients }) = horner(self.kernel, top)?;
        let only_here = |&id: &ExprId| {
            let uses = [patterns.users[id.index()].len(), self.facts.uses[id.index()] as usize];
            uses == [1, 1] && self.same_iterations(top, id) && !targets.contains(&id)
        };
        let dtype = self.kernel.exprs[top.index()].dtype;
        let exists = micro::polynomial(coefficients.len(), dtype).is_some();
        if !exists || !self.shape(x).cols() || !self.same_iterations(top, x) || !inner.iter().all(only_here) {
            return None;
        }
        inner.iter().for_each(|id| patterns.absorbed[id.index()] = true);
        Some(x)
    }

    /// The loops that would absorb an operation, if all its users can.
    fn absorbing(&self, patterns: &Patterns, inner: ExprId) -> Option<SmallVec<[(ExprId, Pattern); 2]>> {
        let (op, [a, b]) = arithmetic(self.kernel, inner).or_else(|| comparison(self.kernel, inner))?;
        let users = &patterns.users[inner.index()];
        let free = patterns.loops[inner.index()].is_none() && self.shape(inner).cols();
        // Stores and the like are uses without users.
        if !free || users.is_empty() || users.len() != self.facts.uses[inner.index()] as usize {
            return None;
        }
        let mut found: SmallVec<[(ExprId, Pattern); 2]> = SmallVec::new();
        for &user in users {
            let one = match self.kernel.expr(user) {
                Expr::Reduce(Monoid::Sum, _) if op == AluOp::Mul => self.product(user, inner, [a, b]),
                Expr::Alu(AluOp::Exp, _)
                    if op == AluOp::Sub && self.shape(a).cols() && !self.batches_rows() =>
                {
                    (users.len() == 1).then_some((user, Pattern::ExpSub(inner)))
                }
                Expr::Alu(AluOp::Mul, x) if op == AluOp::Sub && x[0] == inner && x[1] == inner => {
                    self.square_of_difference(patterns, user, inner, [a, b])
                }
                Expr::Alu(AluOp::Where, x) if x[0] == inner => self.choice(user, inner, op),
                Expr::Alu(..) => self.pair(patterns, user, inner, op),
                Expr::Const(_) | Expr::Arg(_) | Expr::Index(_) | Expr::Inside(_) | Expr::Load(..) => None,
                Expr::Cast(_) | Expr::Bitcast(_) | Expr::Reduce(..) | Expr::Scan(..) => None,
                Expr::Checked(..) | Expr::Accumulator => None,
            };
            let taken = patterns.loops[user.index()].is_some();
            let one =
                one.filter(|(at, pattern)| *at != user || !taken || matches!(pattern, Pattern::Products(_)))?;
            if !found.contains(&one) {
                found.push(one);
            }
        }
        let repeated = found.len() <= MAX_RECOMPUTATIONS;
        (repeated && found.iter().all(|(at, _)| !patterns.absorbed[at.index()])).then_some(found)
    }

    /// Whether a tile has several rows that are reduced together in less time than one by one.
    fn batches_rows(&self) -> bool {
        self.tiling.row.is_some() && self.tiling.cols.is_some_and(|cols| cols < SHORT_REDUCED_ROW)
    }

    /// How a sum takes in a product.
    fn product(&self, sum: ExprId, inner: ExprId, [a, b]: [ExprId; 2]) -> Option<(ExprId, Pattern)> {
        let level = self.kernel.exprs[sum.index()].level + 1;
        match self.tiling.shape_at_level(self.kernel, level, false) {
            TileShape::Column => {
                let vectors = self.shape(a).cols() && self.shape(b).cols();
                vectors.then_some((sum, Pattern::Dot(inner)))
            }
            TileShape::Scalar => Some((sum, Pattern::MulSum(inner))),
            _ => None,
        }
    }

    /// Whether a square enters a sum that can compute the difference, too.
    fn square_of_difference(
        &self,
        patterns: &Patterns,
        square: ExprId,
        inner: ExprId,
        [a, b]: [ExprId; 2],
    ) -> Option<(ExprId, Pattern)> {
        let &[sum] = patterns.users[square.index()].as_slice() else { return None };
        let sums = patterns.loops[sum.index()] == Some(Pattern::Dot(square));
        let kinds = self.shape(a).cols() && !self.shape(b).cols();
        (sums && kinds).then_some((sum, Pattern::Squares(inner)))
    }

    fn pair(
        &self,
        patterns: &Patterns,
        user: ExprId,
        inner: ExprId,
        first: AluOp,
    ) -> Option<(ExprId, Pattern)> {
        let Expr::Alu(second, x) = self.kernel.expr(user) else { return None };
        let side = match (x[0] == inner, x[1] == inner) {
            (true, false) => ChainSide::Left,
            (false, true) if matches!(second, AluOp::Add | AluOp::Mul) => ChainSide::Left,
            (false, true) => ChainSide::Right,
            _ => return None,
        };
        let outer = &self.kernel.exprs[user.index()];
        let alike = self.same_iterations(user, inner) && !patterns.absorbed[user.index()];
        if alike && first == AluOp::Mul && self.fuses_other_product(patterns, user, inner) {
            return Some((user, Pattern::Products([x[0], x[1]])));
        }
        let exists =
            micro::binary_chain(first, *second, side, outer.dtype, [OperandKind::Vector; MAX_OPERANDS])
                .is_some();
        (alike && exists).then_some((user, Pattern::Pair(inner, side)))
    }

    fn choice(&self, user: ExprId, inner: ExprId, comparison: AluOp) -> Option<(ExprId, Pattern)> {
        let dtype = self.kernel.exprs[user.index()].dtype;
        let exists = micro::compare_select(comparison, dtype, [OperandKind::Vector; MAX_OPERANDS]).is_some();
        (self.same_iterations(user, inner) && exists).then_some((user, Pattern::Choice(inner)))
    }

    /// Whether a loop over an operation's elements is one over another's.
    fn same_iterations(&self, user: ExprId, inner: ExprId) -> bool {
        self.kernel.exprs[user.index()].level == self.kernel.exprs[inner.index()].level
            && self.facts.axes[user.index()] == self.facts.axes[inner.index()]
    }

    /// Whether an operation is a sum or a difference that has absorbed its other operand, a product.
    fn fuses_other_product(&self, patterns: &Patterns, user: ExprId, inner: ExprId) -> bool {
        let sums = matches!(self.kernel.expr(user), Expr::Alu(AluOp::Add | AluOp::Sub, _));
        match patterns.loops[user.index()] {
            Some(Pattern::Pair(other, _)) if sums && other != inner => {
                arithmetic(self.kernel, other).is_some_and(|(op, _)| op == AluOp::Mul)
            }
            _ => false,
        }
    }

    fn shape(&self, id: ExprId) -> TileShape {
        self.tiling.shape(self.facts.axes[id.index()])
    }
}

/// The operation and operands of a sum, difference or product that a loop may
/// absorb.
fn arithmetic(kernel: &Kernel, id: ExprId) -> Option<(AluOp, [ExprId; 2])> {
    match kernel.expr(id) {
        Expr::Alu(op @ (AluOp::Add | AluOp::Sub | AluOp::Mul), x)
            if LaneType::of(kernel.exprs[id.index()].dtype) == LaneType::F32 =>
        {
            Some((*op, [x[0], x[1]]))
        }
        _ => None,
    }
}

/// The operation and operands of a comparison of floats that a choice may make.
fn comparison(kernel: &Kernel, id: ExprId) -> Option<(AluOp, [ExprId; 2])> {
    match kernel.expr(id) {
        Expr::Alu(op @ (AluOp::Lt | AluOp::Eq), x)
            if LaneType::of(kernel.exprs[x[0].index()].dtype) == LaneType::F32 =>
        {
            Some((*op, [x[0], x[1]]))
        }
        _ => None,
    }
}

impl ProgramBuilder<'_> {
    /// A value as a superinstruction, if it is one.
    pub(super) fn fused(&mut self, id: ExprId) -> Option<FrameSlot> {
        let dtype = self.kernel.exprs[id.index()].dtype;
        match self.patterns.loops[id.index()]? {
            Pattern::Pair(inner, side) => Some(self.pair(id, inner, side, dtype)),
            Pattern::Products(operands) => Some(self.products(id, operands, dtype)),
            Pattern::Choice(inner) => Some(self.choice(id, inner, dtype)),
            Pattern::Polynomial(x) => self.polynomial(id, x, dtype),
            Pattern::ExpSub(inner) => {
                let slots = self.operands_of(inner);
                Some(self.apply(&slots, dtype, |kinds| {
                    let function = superinstruction(Fused::ExpSub, dtype, kinds);
                    Operation { function, name: "exp_sub", variants: None }
                }))
            }
            Pattern::Dot(_) | Pattern::MulSum(_) | Pattern::Squares(_) => None,
        }
    }

    fn pair(&mut self, id: ExprId, inner: ExprId, side: ChainSide, dtype: DType) -> FrameSlot {
        let Expr::Alu(second, x) = self.kernel.expr(id) else { panic!("{id:?} is no operation") };
        let other = if x[0] == inner { x[1] } else { x[0] };
        let (first, _) =
            arithmetic(self.kernel, inner).unwrap_or_else(|| panic!("{inner:?} is not absorbed"));
        let [mut a, mut b] = self.operands_of(inner);
        if first != AluOp::Sub {
            [a, b] = self.vector_first([a, b]);
        }
        let slots = [a, b, self.slot_of(other)];
        let second = *second;
        self.apply(&slots, dtype, |kinds| {
            let found = micro::binary_chain(first, second, side, dtype, kinds);
            found.unwrap_or_else(|| panic!("no {} of {} for {kinds:?}", second.name(), first.name()))
        })
    }

    fn products(&mut self, id: ExprId, operands: [ExprId; 2], dtype: DType) -> FrameSlot {
        let difference = matches!(self.kernel.expr(id), Expr::Alu(AluOp::Sub, _));
        let [[a, b], [c, d]] = operands.map(|product| {
            let factors = self.operands_of(product);
            self.vector_first(factors)
        });
        self.apply(&[a, b, c, d], dtype, |kinds| {
            let found = micro::sum_of_products(difference, dtype, kinds);
            found.unwrap_or_else(|| panic!("no products of {dtype} for {kinds:?}"))
        })
    }

    fn choice(&mut self, id: ExprId, inner: ExprId, dtype: DType) -> FrameSlot {
        let Expr::Alu(_, x) = self.kernel.expr(id) else { panic!("{id:?} is no operation") };
        let (op, [a, b]) =
            comparison(self.kernel, inner).unwrap_or_else(|| panic!("{inner:?} is not absorbed"));
        let slots = [a, b, x[1], x[2]].map(|x| self.slot_of(x));
        self.apply(&slots, dtype, |kinds| {
            let found = micro::compare_select(op, dtype, kinds);
            found.unwrap_or_else(|| panic!("no choice by {} for {kinds:?}", op.name()))
        })
    }

    /// The operands of a sum or product, that with columns before one without.
    fn vector_first(&self, [a, b]: [FrameSlot; 2]) -> [FrameSlot; 2] {
        let vector = |slot: FrameSlot| self.slots[slot.0 as usize].shape.cols();
        if !vector(a) && vector(b) { [b, a] } else { [a, b] }
    }

    /// Where the operands of an absorbed operation are.
    fn operands_of(&mut self, inner: ExprId) -> [FrameSlot; 2] {
        let (_, x) = arithmetic(self.kernel, inner).unwrap_or_else(|| panic!("{inner:?} is not absorbed"));
        x.map(|x| self.slot_of(x))
    }

    /// The exponential that the loop of a sum over it computes, where nothing
    /// else in the sum's pass needs it.
    pub(super) fn deferrable(&self, sum: ExprId) -> Option<ExprId> {
        let &Expr::Reduce(Monoid::Sum, x) = self.kernel.expr(sum) else { return None };
        let Some(Pattern::ExpSub(inner)) = self.patterns.loops[x.index()] else { return None };
        let (_, [_, shift]) = arithmetic(self.kernel, inner)?;
        let level = self.kernel.exprs[x.index()].level;
        let along = self.tiling.shape_at_level(self.kernel, level, false) == TileShape::Column;
        let outer = usize::from(level).checked_sub(1)?;
        let pass = |id: ExprId| self.facts.passes[id.index()][outer];
        let later = |&user: &ExprId| {
            user == sum || (self.kernel.exprs[user.index()].level == level && pass(user) > pass(x))
        };
        let free = self.value[x.index()].is_none() && self.patterns.users[x.index()].iter().all(later);
        (free && along && !self.shape(shift).cols()).then_some(x)
    }

    /// The loop that computes a sum's elements and takes them in, if there is one.
    pub(super) fn fused_sum(&mut self, id: ExprId) -> Option<FusedSum> {
        let &Expr::Reduce(Monoid::Sum, x) = self.kernel.expr(id) else { return None };
        let dtype = self.kernel.exprs[x.index()].dtype;
        let (op, name, inner, values) =
            match (self.patterns.loops[id.index()], self.patterns.loops[x.index()]) {
                (Some(Pattern::Dot(inner)), _) => (Fused::Dot, "dot", inner, None),
                (Some(Pattern::Squares(inner)), _) => (Fused::SqDevSum, "squares", inner, None),
                (_, Some(Pattern::ExpSub(inner))) if self.deferred.contains(&x) => {
                    let below = (Fused::ExpBelowSum, "exp_below_sum");
                    let (op, name) =
                        if self.subtracts_maximum(inner) { below } else { (Fused::ExpSubSum, "exp_sub_sum") };
                    (op, name, inner, Some(x))
                }
                _ => return None,
            };
        let operands = self.operands_of(inner);
        let second = if op == Fused::Dot { OperandKind::Vector } else { OperandKind::Broadcast };
        let kinds = [OperandKind::Vector, second, OperandKind::Broadcast, OperandKind::Broadcast];
        let function = superinstruction(op, dtype, kinds);
        Some(FusedSum { function, name, prefetches: op.prefetches(), operands, values })
    }

    /// Whether a difference is of elements and the greatest of them.
    fn subtracts_maximum(&self, difference: ExprId) -> bool {
        match arithmetic(self.kernel, difference) {
            Some((AluOp::Sub, [a, b])) => *self.kernel.expr(b) == Expr::Reduce(Monoid::Max, a),
            _ => false,
        }
    }

    /// The operands of the product that sums across rows take in, if they take in one.
    pub(super) fn product_sum(&mut self, id: ExprId) -> Option<[FrameSlot; 2]> {
        let Some(Pattern::MulSum(inner)) = self.patterns.loops[id.index()] else { return None };
        let operands = self.operands_of(inner);
        Some(self.vector_first(operands))
    }

    /// The instruction that takes a product into sums across rows.
    pub(super) fn emit_product_sum(
        &mut self,
        operands: [FrameSlot; 2],
        sums: FrameSlot,
        shape: TileShape,
        dtype: DType,
    ) -> Instr {
        let name = "mul_sum";
        if !self.is_rowwise(&operands, shape) {
            let (from, kinds) = self.operands(&operands, shape);
            for slot in from {
                self.read(slot);
            }
            let function = superinstruction(Fused::MulSum, dtype, kinds);
            return Instr::Micro {
                function,
                non_temporal: None,
                name,
                to: sums,
                from,
                shape,
                prefetches: false,
                prefetch: None,
            };
        }
        let (from, kinds) = self.row_operands(&operands);
        let function = superinstruction(Fused::MulSum, dtype, kinds);
        let to = (sums, RowStride::Dense(dtype.compute().size()));
        Instr::Rowwise(Box::new(RowwiseOp::new(function, name, to, from, shape)))
    }

    /// Emits the loop that takes a sum's elements into its states.
    pub(super) fn emit_fused_sum(&mut self, sum: &FusedSum, state: FrameSlot, shape: TileShape) {
        let FusedSum { function, name, prefetches, operands, values } = *sum;
        let (mut from, _) = self.row_operands(&operands);
        let state = (state, RowStride::Bytes(STATE_BYTES));
        let to = match values {
            Some(id) => {
                let dtype = self.kernel.exprs[id.index()].dtype;
                let to = self.register(shape, dtype);
                self.value[id.index()] = Some(to);
                from[2] = state;
                (to, RowStride::Dense(dtype.compute().size()))
            }
            None => state,
        };
        let op = RowwiseOp::new(function, name, to, from, shape);
        self.push(Instr::Rowwise(Box::new(RowwiseOp { prefetches, ..op })));
    }
}

fn superinstruction(op: Fused, dtype: DType, kinds: OperandKinds) -> MicroFn {
    micro::fused(op, dtype, kinds).unwrap_or_else(|| panic!("no {op:?} of {dtype} for {kinds:?}"))
}
