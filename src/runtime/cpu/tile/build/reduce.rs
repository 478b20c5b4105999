//! Reductions and scans.

use kiln_simd::micro::{self, LaneType, MAX_OPERANDS, OperandKind, STATE_BYTES};
use smallvec::SmallVec;

use crate::base::DType;
use crate::ir::{AluOp, Monoid};
use crate::kernel::{AxisId, Expr, ExprId};
use crate::runtime::cpu::thresholds::BLOCKED_REDUCTION_ROWS;
use crate::runtime::cpu::tile::build::ProgramBuilder;
use crate::runtime::cpu::tile::program::{
    Finish, FrameSlot, Instr, ReductionForm, ScanForm, SlotStorage, TileReduction, TileScan, TileShape,
};
use crate::runtime::cpu::tile::reduction::reduction_kind;
use crate::runtime::cpu::tile::space;
use crate::runtime::cpu::tile::tiling::is_positional;

impl ProgramBuilder<'_> {
    /// Begins a reduction in the open body, which is the level it reduces.
    pub(super) fn begin_reduction(&mut self, id: ExprId) {
        let &Expr::Reduce(monoid, x) = self.kernel.expr(id) else { panic!("{id:?} is no reduction") };
        let level = self.current().level;
        let reduced = self.tiling.shape_at_level(self.kernel, level, false);
        let dtype = self.kernel.exprs[x.index()].dtype;
        let number = self.reductions.len() as u32;
        let position = is_positional(monoid).then(|| {
            let linear = space::linear(self.kernel, level);
            self.address(&linear)
        });
        let fused = self.fused_sum(id);
        let product = self.product_sum(id);
        let operands = fused.as_ref().map(|sum| sum.operands).or(product);
        let (operand, shape) = match operands {
            Some(operands) => (operands[0], self.joint_shape(&operands).union(reduced)),
            None => {
                let slot = self.slot_of(x);
                let shape = self.joint_shape(&[slot]).union(reduced);
                (self.broadcast(slot, shape), shape)
            }
        };
        self.read(operand);
        let kind = reduction_kind(monoid);
        let form = if shape == TileShape::Scalar || reduced != TileShape::Scalar {
            let rows = shape.without(reduced);
            let state = self.state(rows, STATE_BYTES);
            let (component, bytes) = component_of(monoid, dtype);
            let reducer =
                micro::reduce(kind, dtype).unwrap_or_else(|| panic!("{} of {dtype}", monoid.name()));
            let index = is_positional(monoid);
            ReductionForm::Horizontal { reducer, state, rows, component: (component, bytes), index }
        } else {
            self.vertical(monoid, dtype, shape, level, product)
        };
        let result = operand;
        match (fused, &form) {
            (Some(sum), ReductionForm::Horizontal { state, .. }) => self.emit_fused_sum(&sum, *state, shape),
            (_, _) => self.push(Instr::Update(number)),
        }
        self.reductions.push(TileReduction { operand, shape, result, position, form, prefetch: None });
        self.current().reductions.push(number);
    }

    fn vertical(
        &mut self,
        monoid: Monoid,
        dtype: DType,
        shape: TileShape,
        level: u8,
        product: Option<[FrameSlot; 2]>,
    ) -> ReductionForm {
        let kind = reduction_kind(monoid);
        let accumulator =
            micro::accumulate(kind, dtype).unwrap_or_else(|| panic!("{} of {dtype}", monoid.name()));
        let components = components_of(monoid, dtype);
        let blocked = self.kernel.level_points(level) > BLOCKED_REDUCTION_ROWS;
        let states = self.states(shape, &components);
        let totals = blocked.then(|| self.states(shape, &components));
        let finish = self.finish(monoid, dtype, shape);
        let take = product.map(|operands| Box::new(self.emit_product_sum(operands, states[0], shape, dtype)));
        ReductionForm::Vertical { accumulator, states, totals, components, finish, take }
    }

    fn finish(&mut self, monoid: Monoid, dtype: DType, shape: TileShape) -> Finish {
        match monoid {
            Monoid::Sum | Monoid::Prod | Monoid::Max | Monoid::Min => Finish::Component(0),
            Monoid::ArgMax | Monoid::ArgMin => Finish::Index(1),
            Monoid::M2 => Finish::Component(1),
            Monoid::LogSumExp => {
                let log = micro::alu(AluOp::Log, dtype, [OperandKind::Vector; MAX_OPERANDS]);
                let add = micro::alu(AluOp::Add, dtype, [OperandKind::Vector; MAX_OPERANDS]);
                let between = self.states(shape, &[dtype.compute().size()])[0];
                Finish::LogSum(log, add, between)
            }
        }
    }

    /// Registers for the components of vertical states; the rest repeat.
    fn states(&mut self, shape: TileShape, components: &[usize]) -> [FrameSlot; 3] {
        let slots: Vec<FrameSlot> = components.iter().map(|&bytes| self.state(shape, bytes)).collect();
        std::array::from_fn(|i| *slots.get(i).unwrap_or(&slots[0]))
    }

    /// A register that lives from before the open body's first point.
    fn state(&mut self, shape: TileShape, bytes: usize) -> FrameSlot {
        let slot = self.slot(SlotStorage::Register(0), shape, DType::F64);
        let began = self.current().began;
        let life = &mut self.live_ranges[slot.0 as usize];
        (life.start, life.bytes) = (began, bytes);
        self.current().kept.push(slot);
        slot
    }

    /// Ends a reduction in the body around its level's.
    pub(super) fn end_reduction(&mut self, id: ExprId, number: u32) {
        let dtype = self.kernel.exprs[id.index()].dtype;
        // While one result is written, the other states are still read.
        let end = self.now + 2;
        let mut keep = |slot: FrameSlot| self.live_ranges[slot.0 as usize].end = end;
        // States that are the result as they are.
        let mut left = None;
        let shape = match &self.reductions[number as usize].form {
            ReductionForm::Horizontal { state, rows, .. } => {
                keep(*state);
                *rows
            }
            ReductionForm::Vertical { states, totals, finish, .. } => {
                states.iter().chain(totals.iter().flatten()).for_each(|&slot| keep(slot));
                if let Finish::LogSum(_, _, between) = finish {
                    keep(*between);
                }
                if let Finish::Component(component) = finish {
                    left = Some(totals.as_ref().unwrap_or(states)[*component]);
                }
                self.reductions[number as usize].shape
            }
        };
        let result = match left {
            Some(state) => {
                let result = self.slot(SlotStorage::ReductionState, shape, dtype);
                self.aliased_states.push((result, state));
                result
            }
            None => self.register(shape, dtype),
        };
        self.reductions[number as usize].result = result;
        self.value[id.index()] = Some(result);
    }

    /// A running reduction along the only axis of the open body's level.
    pub(super) fn scan(&mut self, id: ExprId, monoid: Monoid, x: ExprId, axis: AxisId) -> FrameSlot {
        let dtype = self.kernel.exprs[id.index()].dtype;
        let slot = self.slot_of(x);
        let on_tile = Some(axis) == self.tiling.col || Some(axis) == self.tiling.row;
        let shape = self.joint_shape(&[slot]).union(self.shape(id));
        let operand = self.broadcast(slot, shape);
        self.read(operand);
        let kind = reduction_kind(monoid);
        let form = if on_tile || shape == TileShape::Scalar {
            let along = self.tiling.shape(crate::runtime::cpu::tile::analysis::bit(axis));
            let state = self.state(shape.without(along), STATE_BYTES);
            let scanner =
                micro::scan(kind, dtype).unwrap_or_else(|| panic!("{} scan of {dtype}", monoid.name()));
            ScanForm::Horizontal(scanner, state)
        } else {
            let components = components_of(monoid, dtype);
            let accumulator =
                micro::accumulate(kind, dtype).unwrap_or_else(|| panic!("{} scan of {dtype}", monoid.name()));
            let states = self.states(shape, &components);
            ScanForm::Vertical(accumulator, states, self.finish(monoid, dtype, shape))
        };
        let result = self.register(shape, dtype);
        let number = self.scans.len() as u32;
        let lane = LaneType::of(dtype).size();
        self.scans.push(TileScan { operand, result, shape, lane, form });
        self.push(Instr::Scan(number));
        self.current().scans.push(number);
        result
    }
}

/// Which component of a horizontal reduction is the monoid's result, and its
/// bytes.
fn component_of(monoid: Monoid, dtype: DType) -> (usize, usize) {
    let lane = dtype.compute().size();
    match monoid {
        Monoid::Sum | Monoid::Prod | Monoid::Max | Monoid::Min => (0, lane),
        Monoid::ArgMax | Monoid::ArgMin => (1, 8),
        Monoid::M2 => (1, lane),
        Monoid::LogSumExp => (2, lane),
    }
}

/// Bytes of each component of a vertical reduction's states.
fn components_of(monoid: Monoid, dtype: DType) -> SmallVec<[usize; 3]> {
    let lane = dtype.compute().size();
    match monoid {
        Monoid::Sum | Monoid::Prod | Monoid::Max | Monoid::Min => SmallVec::from_slice(&[lane]),
        Monoid::ArgMax | Monoid::ArgMin => SmallVec::from_slice(&[lane, 8]),
        Monoid::M2 => SmallVec::from_slice(&[lane, lane, lane]),
        Monoid::LogSumExp => SmallVec::from_slice(&[lane, lane]),
    }
}
