//! Steps that compute values: constants, indices, scalar operations, casts.

use crate::base::{DType, Scalar};
use crate::ir::AluOp;
use crate::kernel::{BoundsCheck, Expr, ExprId};
use crate::runtime::cpu::micro::{self, LaneType, MAX_OPERANDS, OperandKind, OperandKinds, Operation};
use crate::runtime::cpu::tile::build::Builder;
use crate::runtime::cpu::tile::program::{Advance, Asks, BlockStep, Bound, Class, Lines, Place, Slot, Step};

/// Columns from which on lines are long enough to be done one by one.
pub(super) const LINE: usize = 32;

/// Columns up to which calls for each line would cost as much as what those compute.
pub(super) const SHORT: usize = 256;

impl Builder<'_> {
    /// Emits the steps of a value, hoisted as far as it goes.
    pub(super) fn compute(&mut self, id: ExprId) {
        let absorbed = self.patterns.absorbed[id.index()] || self.deferred.contains(&id);
        if self.value[id.index()].is_some() || absorbed {
            return;
        }
        let level = self.top().level;
        // What is the same at every point is computed before all loops there are.
        let still = self.still[id.index()];
        let mut within = self.open.split_off(if still { 1 } else { self.open.len() });
        self.top().hoist = if still { Some(0) } else { self.hoistable(id, level) };
        let slot = self.emit(id);
        self.top().hoist = None;
        self.open.append(&mut within);
        self.value[id.index()] = Some(slot);
    }

    fn emit(&mut self, id: ExprId) -> Slot {
        let node = &self.kernel.exprs[id.index()];
        let class = self.class(id);
        match &node.expr {
            Expr::Const(_) | Expr::Arg(_) => self.slot_of(id),
            Expr::Index(affine) => {
                let (value, to) = (self.address(affine), self.register(class, DType::I64));
                self.push(Step::Index { to, value, class });
                to
            }
            Expr::Inside(within) => {
                let bound = Bound { value: self.address(&within.value), low: within.low, high: within.high };
                let to = self.register(class, DType::Bool);
                self.push(Step::Inside { to, bound, class });
                to
            }
            Expr::Load(input, access) => self.load(id, *input, access),
            Expr::Alu(op, x) => self.alu(id, *op, &x[..op.arity()]),
            Expr::Cast(x) => self.cast(*x, node.dtype),
            Expr::Bitcast(x) => self.bitcast(*x, node.dtype),
            Expr::Checked(x, bounded) => {
                self.check(bounded);
                let value = self.slot_of(*x);
                self.widened(value, class)
            }
            Expr::Scan(monoid, x, axis) => self.scan(id, *monoid, *x, *axis),
            Expr::Accumulator => self.from_block(class, node.dtype),
            Expr::Reduce(..) => panic!("reductions are emitted by passes"),
        }
    }

    fn check(&mut self, bounded: &BoundsCheck) {
        let index = self.slot_of(bounded.index);
        let class = self.slots[index.0 as usize].class;
        self.read(index);
        self.push(Step::Check(index, bounded.extent, class));
    }

    /// Where a value is; constants and arguments come into being here.
    pub(super) fn slot_of(&mut self, id: ExprId) -> Slot {
        let node = &self.kernel.exprs[id.index()];
        if let Expr::Const(bits) = node.expr {
            return self.constant(Scalar::from_bits(bits, node.dtype), node.dtype);
        }
        if let Expr::Arg(number) = node.expr {
            return self.argument(number, node.dtype);
        }
        self.value[id.index()].unwrap_or_else(|| panic!("{id:?} is not computed yet"))
    }

    fn argument(&mut self, number: u32, dtype: DType) -> Slot {
        if let Some(&slot) = self.arguments.get(&(number, dtype)) {
            return slot;
        }
        let slot = self.slot(Place::Argument(0, number, dtype), Class::SCALAR, dtype);
        self.arguments.insert((number, dtype), slot);
        slot
    }

    /// The slot of a number.
    pub(super) fn constant(&mut self, value: Scalar, dtype: DType) -> Slot {
        let bits = value.to_bits(dtype.compute());
        if let Some(&slot) = self.constants.get(&(bits, dtype)) {
            return slot;
        }
        let slot = self.slot(Place::Constant(0, bits), Class::SCALAR, dtype);
        self.constants.insert((bits, dtype), slot);
        slot
    }

    fn alu(&mut self, id: ExprId, op: AluOp, x: &[ExprId]) -> Slot {
        if let Some(slot) = self.fused(id) {
            return slot;
        }
        // The condition of `Where` has a type of its own.
        let dtype = self.kernel.exprs[x[op.arity() - 1].index()].dtype;
        let slots: Vec<Slot> = x.iter().map(|&x| self.slot_of(x)).collect();
        let result = self.kernel.exprs[id.index()].dtype;
        let to = self.apply(&slots, result, |mut kinds| {
            if op.arity() == 1 {
                kinds[0] = OperandKind::Vector;
            }
            let function = micro::alu(op, dtype, kinds);
            Operation { function, name: op.name(), variants: micro::alu_variants(op, dtype, kinds) }
        });
        if micro::prefetches(op, dtype)
            && let Some(Step::Micro { to: made, asks, .. }) = self.top().steps.last_mut()
            && *made == to
        {
            *asks = Asks::Nothing;
        }
        to
    }

    /// Emits an operation on some slots, given by their forms.
    pub(super) fn apply(
        &mut self,
        slots: &[Slot],
        dtype: DType,
        operation: impl FnOnce(OperandKinds) -> Operation,
    ) -> Slot {
        let class = self.joint_class(slots);
        if !self.goes_by_line(slots, class) {
            let (from, kinds) = self.operands(slots, class);
            let Operation { function, name, variants } = operation(kinds);
            let to = self.micro(function, name, from, class, dtype);
            self.variants.extend(variants.map(|variants| (to, variants)));
            return to;
        }
        let (from, kinds) = self.lines_of(slots);
        let to = self.register(class, dtype);
        let Operation { function, name, variants } = operation(kinds);
        self.variants.extend(variants.map(|variants| (to, variants)));
        let short = variants.filter(|_| self.tiling.cols.is_some_and(|cols| cols <= SHORT));
        let short = short.map(|variants| variants.batched);
        let to_line = (to, Advance::Line(dtype.compute().size()));
        let lines = Lines::new(function, name, to_line, from, class);
        self.push(Step::Lines(Box::new(Lines { short, ..lines })));
        to
    }

    /// Whether an operation over a class is done line by line, so that no
    /// vector of rows or columns must be spread over the tile, and no tile be
    /// copied whose lines lie apart.
    pub(super) fn goes_by_line(&self, slots: &[Slot], class: Class) -> bool {
        let class_of = |slot: &Slot| self.slots[slot.0 as usize].class;
        let vector = |slot: &Slot| class_of(slot) == Class::ROW || class_of(slot) == Class::COL;
        let lines = |slot: &Slot| vector(slot) || self.apart.contains_key(slot);
        class == Class::FULL && self.tiling.cols.is_some_and(|cols| cols >= LINE) && slots.iter().any(lines)
    }

    /// The lines of some slots, and the forms they have.
    pub(super) fn lines_of(&mut self, slots: &[Slot]) -> ([(Slot, Advance); MAX_OPERANDS], OperandKinds) {
        let mut lines = [(slots[0], Advance::Bytes(0)); MAX_OPERANDS];
        let mut kinds = [OperandKind::Vector; MAX_OPERANDS];
        for (i, &slot) in slots.iter().enumerate() {
            self.read(slot);
            let info = self.slots[slot.0 as usize];
            let lane = info.dtype.compute().size();
            let (form, advance) = match (info.class.rows(), info.class.cols()) {
                (true, true) => {
                    let apart = self.apart.get(&slot).copied().map(Advance::Bytes);
                    (OperandKind::Vector, apart.unwrap_or(Advance::Line(lane)))
                }
                (false, true) => (OperandKind::Vector, Advance::Bytes(0)),
                (true, false) => (OperandKind::Broadcast, Advance::Bytes(lane)),
                (false, false) => (OperandKind::Broadcast, Advance::Bytes(0)),
            };
            (lines[i], kinds[i]) = ((slot, advance), form);
        }
        for unused in slots.len()..MAX_OPERANDS {
            lines[unused] = lines[0];
        }
        (lines, kinds)
    }

    /// Emits a micro-op into a new register.
    pub(super) fn micro(
        &mut self,
        function: micro::MicroFn,
        name: &'static str,
        from: [Slot; MAX_OPERANDS],
        class: Class,
        dtype: DType,
    ) -> Slot {
        for slot in from {
            self.read(slot);
        }
        let to = self.register(class, dtype);
        self.push(Step::Micro { function, streaming: None, name, to, from, class, asks: Asks::Never });
        to
    }

    /// The class of an operation on some slots.
    pub(super) fn joint_class(&self, slots: &[Slot]) -> Class {
        slots.iter().fold(Class::SCALAR, |class, slot| class.union(self.slots[slot.0 as usize].class))
    }

    /// Operands of a micro-op over a class: scalars stay scalars, vectors of
    /// rows or columns are spread over the tile.
    pub(super) fn operands(&mut self, slots: &[Slot], class: Class) -> ([Slot; MAX_OPERANDS], OperandKinds) {
        let mut from = [slots[0]; MAX_OPERANDS];
        let mut kinds = [OperandKind::Vector; MAX_OPERANDS];
        for (i, &slot) in slots.iter().enumerate() {
            let own = self.slots[slot.0 as usize].class;
            if own == Class::SCALAR && class != Class::SCALAR {
                (from[i], kinds[i]) = (slot, OperandKind::Broadcast);
            } else {
                from[i] = self.widened(slot, class);
            }
        }
        for unused in slots.len()..MAX_OPERANDS {
            from[unused] = from[0];
        }
        (from, kinds)
    }

    /// A value with an element for each one of the class.
    pub(super) fn widened(&mut self, slot: Slot, class: Class) -> Slot {
        let info = self.slots[slot.0 as usize];
        if info.class == class {
            return slot;
        }
        let hoist = self.top().hoist;
        let key = (slot, class, hoist);
        if let Some((_, known)) = self.top().expanded.iter().find(|(k, _)| *k == key) {
            return *known;
        }
        let lane = LaneType::of(info.dtype);
        let to = if info.class == Class::SCALAR {
            self.micro(micro::fill(lane), "fill", [slot; MAX_OPERANDS], class, info.dtype)
        } else {
            self.read(slot);
            let function =
                if info.class.rows() { micro::expand_cols(lane) } else { micro::expand_rows(lane) };
            let to = self.register(class, info.dtype);
            self.push(Step::Expand { function, to, from: slot });
            to
        };
        self.top().expanded.push((key, to));
        to
    }

    fn cast(&mut self, x: ExprId, to: DType) -> Slot {
        let from = self.kernel.exprs[x.index()].dtype;
        let slot = self.slot_of(x);
        self.convert(slot, from, to)
    }

    /// A value converted to another type; the same slot where registers do
    /// not differ.
    pub(super) fn convert(&mut self, slot: Slot, from: DType, to: DType) -> Slot {
        if same_register(from, to) {
            return slot;
        }
        let class = self.slots[slot.0 as usize].class;
        self.micro(micro::cast(from, to), cast_name(to), [slot; MAX_OPERANDS], class, to)
    }

    fn bitcast(&mut self, x: ExprId, to: DType) -> Slot {
        let from = self.kernel.exprs[x.index()].dtype;
        let slot = self.slot_of(x);
        let class = self.slots[slot.0 as usize].class;
        if from == to {
            return slot;
        }
        if let Some(function) = micro::bitcast(from, to) {
            return self.micro(function, "bitcast", [slot; MAX_OPERANDS], class, to);
        }
        // A 16-bit float has its bits only in memory form.
        let load = micro::load(to).unwrap_or_else(|| panic!("no bitcast from {from} to {to}"));
        let stored = self.micro(micro::store(from), "store", [slot; MAX_OPERANDS], class, from);
        self.micro(load, "load", [stored; MAX_OPERANDS], class, to)
    }

    fn from_block(&mut self, class: Class, dtype: DType) -> Slot {
        let slot = self.register(class, dtype);
        self.push(Step::FromBlock(BlockStep { slot, class, lane: dtype.compute().size() }));
        slot
    }

    /// Hands a value to the product that asked for a block.
    pub(super) fn to_block(&mut self, id: ExprId) {
        let class = self.tiling.class(u64::MAX);
        let slot = self.slot_of(id);
        let slot = self.widened(slot, class);
        self.read(slot);
        let lane = self.kernel.exprs[id.index()].dtype.compute().size();
        let block = BlockStep { slot, class, lane };
        let steps = &mut self.top().steps;
        let makes = |step: &Step| match step {
            Step::Micro { to, .. } => *to == slot,
            Step::Lines(lines) => lines.to.0 == slot,
            _ => false,
        };
        if let Some(at) = steps.iter().position(makes) {
            steps.insert(at, Step::AimBlock(block));
        }
        self.push(Step::ToBlock(block));
    }
}

/// Whether a conversion leaves registers as they are.
fn same_register(from: DType, to: DType) -> bool {
    match (from, to) {
        (DType::F16 | DType::BF16, DType::F32) => true,
        (DType::I32, DType::U32) | (DType::U32, DType::I32) | (DType::Bool, DType::U8) => true,
        (from, to) => from == to,
    }
}

fn cast_name(to: DType) -> &'static str {
    match to {
        DType::Bool => "to_bool",
        DType::U8 => "to_u8",
        DType::I32 => "to_i32",
        DType::U32 => "to_u32",
        DType::I64 => "to_i64",
        DType::F16 => "to_f16",
        DType::BF16 => "to_bf16",
        DType::F32 => "to_f32",
        DType::F64 => "to_f64",
    }
}
