//! Instructions that compute values: constants, indices, scalar operations, casts.

use kiln_simd::micro::{self, LaneType, MAX_OPERANDS, OperandKind, OperandKinds, Operation};

use crate::base::{DType, Scalar};
use crate::ir::AluOp;
use crate::kernel::{BoundsCheck, Expr, ExprId};
use crate::runtime::cpu::thresholds::{BATCHED_ROW_COLUMNS, ROWWISE_MIN_COLUMNS};
use crate::runtime::cpu::tile::build::ProgramBuilder;
use crate::runtime::cpu::tile::program::{
    BlockTransfer, FrameSlot, Instr, RangePredicate, RowStride, RowwiseOp, SlotStorage, TileShape,
};

impl ProgramBuilder<'_> {
    /// Emits the instructions of a value, hoisted as far as it goes.
    pub(super) fn compute(&mut self, id: ExprId) {
        let absorbed = self.patterns.absorbed[id.index()] || self.deferred.contains(&id);
        if self.value[id.index()].is_some() || absorbed {
            return;
        }
        let level = self.current().level;
        // What is the same at every point is computed before all loops there are.
        let invariant = self.tile_invariant[id.index()];
        let mut within = self.body_stack.split_off(if invariant { 1 } else { self.body_stack.len() });
        self.current().hoist = if invariant { Some(0) } else { self.hoistable(id, level) };
        let slot = self.emit(id);
        self.current().hoist = None;
        self.body_stack.append(&mut within);
        self.value[id.index()] = Some(slot);
    }

    fn emit(&mut self, id: ExprId) -> FrameSlot {
        let node = &self.kernel.exprs[id.index()];
        let shape = self.shape(id);
        match &node.expr {
            Expr::Const(_) | Expr::Arg(_) => self.slot_of(id),
            Expr::Index(affine) => {
                let (value, to) = (self.address(affine), self.register(shape, DType::I64));
                self.push(Instr::Index { to, value, shape });
                to
            }
            Expr::Inside(within) => {
                let bound =
                    RangePredicate { value: self.address(&within.value), low: within.low, high: within.high };
                let to = self.register(shape, DType::Bool);
                self.push(Instr::Inside { to, bound, shape });
                to
            }
            Expr::Load(input, access) => self.load(id, *input, access),
            Expr::Alu(op, x) => self.alu(id, *op, &x[..op.arity()]),
            Expr::Cast(x) => self.cast(*x, node.dtype),
            Expr::Bitcast(x) => self.bitcast(*x, node.dtype),
            Expr::Checked(x, bounded) => {
                self.check(bounded);
                let value = self.slot_of(*x);
                self.broadcast(value, shape)
            }
            Expr::Scan(monoid, x, axis) => self.scan(id, *monoid, *x, *axis),
            Expr::Accumulator => self.from_block(shape, node.dtype),
            Expr::Reduce(..) => panic!("reductions are emitted by passes"),
        }
    }

    fn check(&mut self, bounded: &BoundsCheck) {
        let index = self.slot_of(bounded.index);
        let shape = self.slots[index.0 as usize].shape;
        self.read(index);
        self.push(Instr::Check(index, bounded.extent, shape));
    }

    /// Where a value is; constants and arguments come into being here.
    pub(super) fn slot_of(&mut self, id: ExprId) -> FrameSlot {
        let node = &self.kernel.exprs[id.index()];
        if let Expr::Const(bits) = node.expr {
            return self.constant(Scalar::from_bits(bits, node.dtype), node.dtype);
        }
        if let Expr::Arg(number) = node.expr {
            return self.argument(number, node.dtype);
        }
        self.value[id.index()].unwrap_or_else(|| panic!("{id:?} is not computed yet"))
    }

    fn argument(&mut self, number: u32, dtype: DType) -> FrameSlot {
        if let Some(&slot) = self.arguments.get(&(number, dtype)) {
            return slot;
        }
        let slot = self.slot(SlotStorage::Argument(0, number, dtype), TileShape::Scalar, dtype);
        self.arguments.insert((number, dtype), slot);
        slot
    }

    /// The slot of a number.
    pub(super) fn constant(&mut self, value: Scalar, dtype: DType) -> FrameSlot {
        let bits = value.to_bits(dtype.compute());
        if let Some(&slot) = self.constants.get(&(bits, dtype)) {
            return slot;
        }
        let slot = self.slot(SlotStorage::Constant(0, bits), TileShape::Scalar, dtype);
        self.constants.insert((bits, dtype), slot);
        slot
    }

    fn alu(&mut self, id: ExprId, op: AluOp, x: &[ExprId]) -> FrameSlot {
        if let Some(slot) = self.fused(id) {
            return slot;
        }
        // The condition of `Where` has a type of its own.
        let dtype = self.kernel.exprs[x[op.arity() - 1].index()].dtype;
        let slots: Vec<FrameSlot> = x.iter().map(|&x| self.slot_of(x)).collect();
        let result = self.kernel.exprs[id.index()].dtype;
        let to = self.apply(&slots, result, |mut kinds| {
            if op.arity() == 1 {
                kinds[0] = OperandKind::Vector;
            }
            let function = micro::alu(op, dtype, kinds);
            Operation { function, name: op.name(), variants: micro::alu_variants(op, dtype, kinds) }
        });
        if micro::prefetches(op, dtype)
            && let Some(Instr::Micro { to: made, prefetches, .. }) = self.current().instrs.last_mut()
            && *made == to
        {
            *prefetches = true;
        }
        to
    }

    /// Emits an operation on some slots, given by their forms.
    pub(super) fn apply(
        &mut self,
        slots: &[FrameSlot],
        dtype: DType,
        operation: impl FnOnce(OperandKinds) -> Operation,
    ) -> FrameSlot {
        let shape = self.joint_shape(slots);
        if !self.is_rowwise(slots, shape) {
            let (from, kinds) = self.operands(slots, shape);
            let Operation { function, name, variants } = operation(kinds);
            let to = self.micro(function, name, from, shape, dtype);
            self.variants.extend(variants.map(|variants| (to, variants)));
            return to;
        }
        let (from, kinds) = self.row_operands(slots);
        let to = self.register(shape, dtype);
        let Operation { function, name, variants } = operation(kinds);
        self.variants.extend(variants.map(|variants| (to, variants)));
        let batched = variants.filter(|_| self.tiling.cols.is_some_and(|cols| cols <= BATCHED_ROW_COLUMNS));
        let batched = batched.map(|variants| variants.batched);
        let to_line = (to, RowStride::Dense(dtype.compute().size()));
        let op = RowwiseOp::new(function, name, to_line, from, shape);
        self.push(Instr::Rowwise(Box::new(RowwiseOp { batched, ..op })));
        to
    }

    /// Whether an operation over a shape is done row by row, so that no
    /// vector of rows or columns must be broadcast over the tile, and no tile be
    /// copied whose rows have gaps between them.
    pub(super) fn is_rowwise(&self, slots: &[FrameSlot], shape: TileShape) -> bool {
        let shape_of = |slot: &FrameSlot| self.slots[slot.0 as usize].shape;
        let vector =
            |slot: &FrameSlot| shape_of(slot) == TileShape::Row || shape_of(slot) == TileShape::Column;
        let lines = |slot: &FrameSlot| vector(slot) || self.in_place_strides.contains_key(slot);
        shape == TileShape::Full
            && self.tiling.cols.is_some_and(|cols| cols >= ROWWISE_MIN_COLUMNS)
            && slots.iter().any(lines)
    }

    /// The rows of some slots, and the forms they have.
    pub(super) fn row_operands(
        &mut self,
        slots: &[FrameSlot],
    ) -> ([(FrameSlot, RowStride); MAX_OPERANDS], OperandKinds) {
        let mut lines = [(slots[0], RowStride::Bytes(0)); MAX_OPERANDS];
        let mut kinds = [OperandKind::Vector; MAX_OPERANDS];
        for (i, &slot) in slots.iter().enumerate() {
            self.read(slot);
            let info = self.slots[slot.0 as usize];
            let lane = info.dtype.compute().size();
            let (form, advance) = match (info.shape.rows(), info.shape.cols()) {
                (true, true) => {
                    let apart = self.in_place_strides.get(&slot).copied().map(RowStride::Bytes);
                    (OperandKind::Vector, apart.unwrap_or(RowStride::Dense(lane)))
                }
                (false, true) => (OperandKind::Vector, RowStride::Bytes(0)),
                (true, false) => (OperandKind::Broadcast, RowStride::Bytes(lane)),
                (false, false) => (OperandKind::Broadcast, RowStride::Bytes(0)),
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
        from: [FrameSlot; MAX_OPERANDS],
        shape: TileShape,
        dtype: DType,
    ) -> FrameSlot {
        for slot in from {
            self.read(slot);
        }
        let to = self.register(shape, dtype);
        self.push(Instr::Micro {
            function,
            non_temporal: None,
            name,
            to,
            from,
            shape,
            prefetches: false,
            prefetch: None,
        });
        to
    }

    /// The shape of an operation on some slots.
    pub(super) fn joint_shape(&self, slots: &[FrameSlot]) -> TileShape {
        slots.iter().fold(TileShape::Scalar, |shape, slot| shape.union(self.slots[slot.0 as usize].shape))
    }

    /// Operands of a micro-op over a shape: scalars stay scalars, vectors of
    /// rows or columns are broadcast over the tile.
    pub(super) fn operands(
        &mut self,
        slots: &[FrameSlot],
        shape: TileShape,
    ) -> ([FrameSlot; MAX_OPERANDS], OperandKinds) {
        let mut from = [slots[0]; MAX_OPERANDS];
        let mut kinds = [OperandKind::Vector; MAX_OPERANDS];
        for (i, &slot) in slots.iter().enumerate() {
            let own = self.slots[slot.0 as usize].shape;
            if own == TileShape::Scalar && shape != TileShape::Scalar {
                (from[i], kinds[i]) = (slot, OperandKind::Broadcast);
            } else {
                from[i] = self.broadcast(slot, shape);
            }
        }
        for unused in slots.len()..MAX_OPERANDS {
            from[unused] = from[0];
        }
        (from, kinds)
    }

    /// A value with an element for each one of the shape.
    pub(super) fn broadcast(&mut self, slot: FrameSlot, shape: TileShape) -> FrameSlot {
        let info = self.slots[slot.0 as usize];
        if info.shape == shape {
            return slot;
        }
        let hoist = self.current().hoist;
        let key = (slot, shape, hoist);
        if let Some((_, known)) = self.current().expanded.iter().find(|(k, _)| *k == key) {
            return *known;
        }
        let lane = LaneType::of(info.dtype);
        let to = if info.shape == TileShape::Scalar {
            self.micro(micro::fill(lane), "fill", [slot; MAX_OPERANDS], shape, info.dtype)
        } else {
            self.read(slot);
            let function =
                if info.shape.rows() { micro::expand_cols(lane) } else { micro::expand_rows(lane) };
            let to = self.register(shape, info.dtype);
            self.push(Instr::Expand { function, to, from: slot });
            to
        };
        self.current().expanded.push((key, to));
        to
    }

    fn cast(&mut self, x: ExprId, to: DType) -> FrameSlot {
        let from = self.kernel.exprs[x.index()].dtype;
        let slot = self.slot_of(x);
        self.convert(slot, from, to)
    }

    /// A value converted to another type; the same slot where registers do
    /// not differ.
    pub(super) fn convert(&mut self, slot: FrameSlot, from: DType, to: DType) -> FrameSlot {
        if same_register(from, to) {
            return slot;
        }
        let shape = self.slots[slot.0 as usize].shape;
        self.micro(micro::cast(from, to), cast_name(to), [slot; MAX_OPERANDS], shape, to)
    }

    fn bitcast(&mut self, x: ExprId, to: DType) -> FrameSlot {
        let from = self.kernel.exprs[x.index()].dtype;
        let slot = self.slot_of(x);
        let shape = self.slots[slot.0 as usize].shape;
        if from == to {
            return slot;
        }
        if let Some(function) = micro::bitcast(from, to) {
            return self.micro(function, "bitcast", [slot; MAX_OPERANDS], shape, to);
        }
        // A 16-bit float has its bits only in memory form.
        let load = micro::load(to).unwrap_or_else(|| panic!("no bitcast from {from} to {to}"));
        let stored = self.micro(micro::store(from), "store", [slot; MAX_OPERANDS], shape, from);
        self.micro(load, "load", [stored; MAX_OPERANDS], shape, to)
    }

    fn from_block(&mut self, shape: TileShape, dtype: DType) -> FrameSlot {
        let slot = self.register(shape, dtype);
        self.push(Instr::FromBlock(BlockTransfer { slot, shape, lane: dtype.compute().size() }));
        slot
    }

    /// Hands a value to the product that requested a block.
    pub(super) fn to_block(&mut self, id: ExprId) {
        let shape = self.tiling.shape(u64::MAX);
        let slot = self.slot_of(id);
        let slot = self.broadcast(slot, shape);
        self.read(slot);
        let lane = self.kernel.exprs[id.index()].dtype.compute().size();
        let block = BlockTransfer { slot, shape, lane };
        let instrs = &mut self.current().instrs;
        let makes = |instr: &Instr| match instr {
            Instr::Micro { to, .. } => *to == slot,
            Instr::Rowwise(op) => op.to.0 == slot,
            _ => false,
        };
        if let Some(at) = instrs.iter().position(makes) {
            instrs.insert(at, Instr::ForwardBlockDest(block));
        }
        self.push(Instr::ToBlock(block));
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
