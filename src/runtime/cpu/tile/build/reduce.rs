//! Reductions and scans.

use smallvec::SmallVec;

use crate::base::DType;
use crate::ir::{AluOp, Monoid};
use crate::kernel::{AxisId, Expr, ExprId};
use crate::runtime::cpu::micro::{self, LaneType, MAX_OPERANDS, OperandKind, STATE_BYTES};
use crate::runtime::cpu::tile::build::Builder;
use crate::runtime::cpu::tile::program::{
    Class, Finish, Place, Reduction, ReductionForm, Scan, ScanForm, Slot, Step,
};
use crate::runtime::cpu::tile::reduction::kind_of;
use crate::runtime::cpu::tile::space;
use crate::runtime::cpu::tile::tiling::positional;

/// Rows from which on vertical reductions are done by blocks.
const BLOCKED: usize = 512;

impl Builder<'_> {
    /// Begins a reduction in the open body, which is the level it reduces.
    pub(super) fn reduce(&mut self, id: ExprId) {
        let &Expr::Reduce(monoid, x) = self.kernel.expr(id) else { panic!("{id:?} is no reduction") };
        let level = self.top().level;
        let reduced = self.tiling.class_of_level(self.kernel, level, false);
        let dtype = self.kernel.exprs[x.index()].dtype;
        let number = self.reductions.len() as u32;
        let position = positional(monoid).then(|| {
            let linear = space::linear(self.kernel, level);
            self.address(&linear)
        });
        let fused = self.fused_sum(id);
        let product = self.product_sum(id);
        let operands = fused.as_ref().map(|sum| sum.operands).or(product);
        let (operand, class) = match operands {
            Some(operands) => (operands[0], self.joint_class(&operands).union(reduced)),
            None => {
                let slot = self.slot_of(x);
                let class = self.joint_class(&[slot]).union(reduced);
                (self.widened(slot, class), class)
            }
        };
        self.read(operand);
        let kind = kind_of(monoid);
        let form = if class == Class::SCALAR || reduced != Class::SCALAR {
            let rows = class.without(reduced);
            let state = self.state(rows, STATE_BYTES);
            let (component, bytes) = component_of(monoid, dtype);
            let reducer =
                micro::reduce(kind, dtype).unwrap_or_else(|| panic!("{} of {dtype}", monoid.name()));
            let index = positional(monoid);
            ReductionForm::Horizontal { reducer, state, rows, component: (component, bytes), index }
        } else {
            self.vertical(monoid, dtype, class, level, product)
        };
        let result = operand;
        match (fused, &form) {
            (Some(sum), ReductionForm::Horizontal { state, .. }) => self.take_in(&sum, *state, class),
            (_, _) => self.push(Step::Update(number)),
        }
        self.reductions.push(Reduction { operand, class, result, position, form, ahead: None });
        self.top().reductions.push(number);
    }

    fn vertical(
        &mut self,
        monoid: Monoid,
        dtype: DType,
        class: Class,
        level: u8,
        product: Option<[Slot; 2]>,
    ) -> ReductionForm {
        let kind = kind_of(monoid);
        let accumulator =
            micro::accumulate(kind, dtype).unwrap_or_else(|| panic!("{} of {dtype}", monoid.name()));
        let components = components_of(monoid, dtype);
        let blocked = self.kernel.level_points(level) > BLOCKED;
        let states = self.states(class, &components);
        let totals = blocked.then(|| self.states(class, &components));
        let finish = self.finish(monoid, dtype, class);
        let take = product.map(|operands| Box::new(self.take_product(operands, states[0], class, dtype)));
        ReductionForm::Vertical { accumulator, states, totals, components, finish, take }
    }

    fn finish(&mut self, monoid: Monoid, dtype: DType, class: Class) -> Finish {
        match monoid {
            Monoid::Sum | Monoid::Prod | Monoid::Max | Monoid::Min => Finish::Component(0),
            Monoid::ArgMax | Monoid::ArgMin => Finish::Index(1),
            Monoid::M2 => Finish::Component(1),
            Monoid::LogSumExp => {
                let log = micro::alu(AluOp::Log, dtype, [OperandKind::Vector; MAX_OPERANDS]);
                let add = micro::alu(AluOp::Add, dtype, [OperandKind::Vector; MAX_OPERANDS]);
                let between = self.states(class, &[dtype.compute().size()])[0];
                Finish::LogSum(log, add, between)
            }
        }
    }

    /// Registers for the components of vertical states; the rest repeat.
    fn states(&mut self, class: Class, components: &[usize]) -> [Slot; 3] {
        let slots: Vec<Slot> = components.iter().map(|&bytes| self.state(class, bytes)).collect();
        std::array::from_fn(|i| *slots.get(i).unwrap_or(&slots[0]))
    }

    /// A register that lives from before the open body's first point.
    fn state(&mut self, class: Class, bytes: usize) -> Slot {
        let slot = self.slot(Place::Register(0), class, DType::F64);
        let began = self.top().began;
        let life = &mut self.lives[slot.0 as usize];
        (life.start, life.bytes) = (began, bytes);
        self.top().kept.push(slot);
        slot
    }

    /// Ends a reduction in the body around its level's.
    pub(super) fn reduced(&mut self, id: ExprId, number: u32) {
        let dtype = self.kernel.exprs[id.index()].dtype;
        // While one result is written, the other states are still read.
        let end = self.now + 2;
        let mut keep = |slot: Slot| self.lives[slot.0 as usize].end = end;
        // States that are the result as they are.
        let mut left = None;
        let class = match &self.reductions[number as usize].form {
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
                self.reductions[number as usize].class
            }
        };
        let result = match left {
            Some(state) => {
                let result = self.slot(Place::States, class, dtype);
                self.left.push((result, state));
                result
            }
            None => self.register(class, dtype),
        };
        self.reductions[number as usize].result = result;
        self.value[id.index()] = Some(result);
    }

    /// A running reduction along the only axis of the open body's level.
    pub(super) fn scan(&mut self, id: ExprId, monoid: Monoid, x: ExprId, axis: AxisId) -> Slot {
        let dtype = self.kernel.exprs[id.index()].dtype;
        let slot = self.slot_of(x);
        let on_tile = Some(axis) == self.tiling.col || Some(axis) == self.tiling.row;
        let class = self.joint_class(&[slot]).union(self.class(id));
        let operand = self.widened(slot, class);
        self.read(operand);
        let kind = kind_of(monoid);
        let form = if on_tile || class == Class::SCALAR {
            let along = self.tiling.class(crate::runtime::cpu::tile::analysis::bit(axis));
            let state = self.state(class.without(along), STATE_BYTES);
            let scanner =
                micro::scan(kind, dtype).unwrap_or_else(|| panic!("{} scan of {dtype}", monoid.name()));
            ScanForm::Horizontal(scanner, state)
        } else {
            let components = components_of(monoid, dtype);
            let accumulator =
                micro::accumulate(kind, dtype).unwrap_or_else(|| panic!("{} scan of {dtype}", monoid.name()));
            let states = self.states(class, &components);
            ScanForm::Vertical(accumulator, states, self.finish(monoid, dtype, class))
        };
        let result = self.register(class, dtype);
        let number = self.scans.len() as u32;
        let lane = LaneType::of(dtype).size();
        self.scans.push(Scan { operand, result, class, lane, form });
        self.push(Step::Scan(number));
        self.top().scans.push(number);
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
        Monoid::M2 | Monoid::LogSumExp => SmallVec::from_slice(&[lane, lane]),
    }
}
