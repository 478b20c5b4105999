//! Instructions that load and store.

use kiln_simd::micro::{self, LaneType, MAX_OPERANDS};
use smallvec::{SmallVec, smallvec};

use crate::base::DType;
use crate::ir::{AluOp, ScatterMode};
use crate::kernel::{self, Access, Dynamic, Expr, ExprId};
use crate::runtime::cpu::thresholds::{BATCHED_ROW_COLUMNS, ROWWISE_MIN_COLUMNS};
use crate::runtime::cpu::tile::build::ProgramBuilder;
use crate::runtime::cpu::tile::program::{
    AddressId, DestForwarding, FrameSlot, Gather, IndexTerm, Instr, RangePredicate, RowLayout, Scatter,
    SlotStorage, TileLoad, TileShape, TileStore,
};

impl ProgramBuilder<'_> {
    pub(super) fn load(&mut self, id: ExprId, input: u32, access: &Access) -> FrameSlot {
        let guard = &access.guard;
        let dtype = self.kernel.inputs[input as usize].dtype;
        let shape = self.shape(id);
        let address = self.address(&access.affine);
        let bounds = guard.within.iter().map(|w| {
            let value = self.address(&w.value);
            RangePredicate { value, low: w.low, high: w.high }
        });
        let bounds: SmallVec<[RangePredicate; 2]> = bounds.collect();
        let masks: SmallVec<[(FrameSlot, TileShape); 1]> =
            guard.masks.iter().map(|&m| self.with_shape(m)).collect();
        let indices = self.indices(access);
        let varying = masks.iter().map(|m| m.1).chain(indices.iter().map(|i| i.shape));
        // Along a row everything computed must be constant for a plain load.
        let along_line = if shape == TileShape::Full { TileShape::Column } else { shape };
        let gathers =
            varying.fold(TileShape::Scalar, TileShape::union).without(TileShape::Full.without(along_line));
        for slot in masks.iter().map(|m| m.0).chain(indices.iter().map(|i| i.index)) {
            self.read(slot);
        }
        let layout = self.row_layout(address, shape, dtype);
        let lane = LaneType::of(dtype).size();
        let batched = self.batched_copy(shape, dtype, layout);
        let in_place =
            self.reads_in_place(id, address, shape, layout) && guard.is_always() && indices.is_empty();
        let load = |to| TileLoad {
            to,
            memory: input,
            dtype,
            lane,
            shape,
            in_place,
            forwarded: false,
            address,
            prefetch: None,
            layout,
            batched,
            bounds,
            masks,
            indices,
        };
        if gathers != TileShape::Scalar {
            let positions = self.register(shape, DType::I64);
            let load = load(self.register(shape, dtype));
            let to = load.to;
            let function = micro::load_gather(dtype);
            self.push(Instr::Gather(Box::new(Gather { load, positions, function })));
            return to;
        }
        let to = match layout {
            // The slot only ever points at memory.
            RowLayout::Contiguous(None) if guard.is_always() && (in_place || shape != TileShape::Full) => {
                self.slot(SlotStorage::Memory, shape, dtype)
            }
            RowLayout::Contiguous(_) | RowLayout::Strided(_) | RowLayout::Transposed(_) => {
                self.register(shape, dtype)
            }
        };
        if in_place {
            self.in_place_strides.insert(to, self.strides_of(address, shape).0 as usize * lane);
        }
        self.push(Instr::Load(Box::new(load(to))));
        to
    }

    /// The indices of a load.
    fn indices(&mut self, access: &Access) -> SmallVec<[IndexTerm; 1]> {
        let mut found = SmallVec::new();
        for part in &access.dynamic {
            let Dynamic { stride, extent, checked, .. } = *part;
            for id in self.summands(part) {
                let (index, shape) = self.with_shape(id);
                found.push(IndexTerm { index, shape, stride, extent, checked });
            }
        }
        found
    }

    /// What an index of a load is the sum of. One that the rows of a tile have one part of and
    /// the columns the other is never computed: the load adds what it finds for a row to where
    /// it starts.
    pub(super) fn summands(&self, part: &Dynamic) -> SmallVec<[ExprId; 2]> {
        let mut found: SmallVec<[ExprId; 2]> = smallvec![part.index];
        let mut i = 0;
        while i < found.len() {
            if let Expr::Alu(AluOp::Add, [x, y, _]) = *self.kernel.expr(found[i])
                && !part.checked
                && self.shape(found[i]) == TileShape::Full
                && [x, y].iter().any(|&x| self.shape(x) != TileShape::Full)
            {
                found[i] = x;
                found.push(y);
            } else {
                i += 1;
            }
        }
        found
    }

    /// Whether a tile's rows are read in place, with gaps between them, by
    /// operations that go row by row, or a scatter.
    fn reads_in_place(
        &self,
        id: ExprId,
        address: AddressId,
        shape: TileShape,
        layout: RowLayout<Option<micro::MicroFn>>,
    ) -> bool {
        let (apart, _) = self.strides_of(address, shape);
        let dense = self.tiling.cols.is_some_and(|cols| cols as i64 == apart);
        let long = self.tiling.cols.is_some_and(|cols| cols >= ROWWISE_MIN_COLUMNS);
        let lines =
            shape == TileShape::Full && matches!(layout, RowLayout::Contiguous(None)) && apart > 0 && !dense;
        lines && long && self.patterns.operands[id.index()]
    }

    /// Where a value is, and its shape.
    fn with_shape(&mut self, id: ExprId) -> (FrameSlot, TileShape) {
        let slot = self.slot_of(id);
        (slot, self.slots[slot.0 as usize].shape)
    }

    fn row_layout(
        &self,
        address: AddressId,
        shape: TileShape,
        dtype: DType,
    ) -> RowLayout<Option<micro::MicroFn>> {
        match self.strides_of(address, shape) {
            (_, 1) => RowLayout::Contiguous(micro::load(dtype)),
            (1, _) => RowLayout::Transposed(micro::load_tile_transposed(dtype)),
            (_, _) => RowLayout::Strided(micro::load_strided(dtype)),
        }
    }

    /// The copy of all rows of a tile to or from memory, where those are short.
    fn batched_copy<F>(
        &self,
        shape: TileShape,
        dtype: DType,
        layout: RowLayout<F>,
    ) -> Option<micro::BatchedRowsFn> {
        let copies = matches!(layout, RowLayout::Contiguous(_)) && micro::load(dtype).is_none();
        let few =
            shape == TileShape::Full && self.tiling.cols.is_some_and(|cols| cols <= BATCHED_ROW_COLUMNS);
        (copies && few).then(|| micro::copy_rows(LaneType::of(dtype)))
    }

    /// The strides of an address from row to row and along a row, for values
    /// of a shape; rows of one element count as contiguous.
    fn strides_of(&self, address: AddressId, shape: TileShape) -> (i64, i64) {
        let strides = &self.addresses[address.0 as usize].strides;
        let along = |axis: Option<crate::kernel::AxisId>| axis.map_or(0, |axis| strides[axis.index()]);
        let (row, col) = (along(self.tiling.row), along(self.tiling.col));
        match (shape.rows(), shape.cols()) {
            (true, true) => (row, col),
            (true, false) => (0, row),
            (false, true) => (0, col),
            (false, false) => (0, 1),
        }
    }

    /// Whether there are gaps between a store's rows in memory.
    fn has_row_gaps(&self, store: &TileStore) -> bool {
        let (apart, _) = self.strides_of(store.address, store.shape);
        store.shape == TileShape::Full && self.tiling.cols.is_none_or(|cols| cols as i64 != apart)
    }

    /// Whether so many tiles beside each other leave nothing between their rows.
    fn tiles_cover_row(&self, address: AddressId, shape: TileShape, beside: usize) -> bool {
        let (apart, _) = self.strides_of(address, shape);
        self.tiling.cols.is_some_and(|cols| (cols * beside) as i64 >= apart)
    }

    /// The store of an output, and whether what it stores may lie in memory that another
    /// writes.
    fn build_store(&mut self, output: usize, store: &kernel::KernelStore) -> (bool, TileStore) {
        let shape = self.tiling.shape_at_level(self.kernel, store.level, true);
        let slot = self.slot_of(store.value);
        let (memory, dtype) = ((self.kernel.inputs.len() + output) as u32, store.dtype);
        let kind = LaneType::of(dtype);
        // Rows that are read in place are copied by an operation like any other.
        let from = match self.in_place_strides.contains_key(&slot) {
            true => self.apply(&[slot], dtype, |_| micro::copy_operation(kind)),
            false => self.broadcast(slot, shape),
        };
        let address = self.address(&store.address);
        let (apart, along) = self.strides_of(address, shape);
        let in_memory = self.slots[from.0 as usize].storage == SlotStorage::Memory;
        // Of pieces, whole cache lines alone.
        let whole = !self.tiling.transposing || apart % 16 == 0;
        let non_temporal = self.non_temporal && dtype.size() == 4 && along == 1 && whole && shape.cols();
        let layout = match along {
            1 if non_temporal => RowLayout::Contiguous(micro::store_nt()),
            1 => RowLayout::Contiguous(micro::store(dtype)),
            _ => RowLayout::Strided(micro::store_strided(dtype)),
        };
        let batched = if non_temporal { None } else { self.batched_copy(shape, dtype, layout) };
        let lane = kind.size();
        (in_memory, TileStore { from, memory, dtype, lane, shape, address, layout, batched, non_temporal })
    }

    /// The stores of a level. Those of values that may lie where another
    /// store writes come first, and none is written before them.
    pub(super) fn emit_stores(&mut self, level: u8) {
        let kernel = self.kernel;
        let stores = kernel.stores.iter().enumerate().filter(|(_, store)| store.level == level);
        let mut emitted: Vec<(bool, TileStore)> =
            stores.map(|(number, store)| self.build_store(number % self.outputs, store)).collect();
        // Pieces beside each other neither read nor write what others write.
        if self.outputs == 1 || emitted.iter().all(|(in_memory, _)| !in_memory) {
            for (_, store) in &emitted {
                let only = emitted.iter().filter(|(_, other)| other.from == store.from).count() == 1;
                let beside = emitted.iter().filter(|(_, other)| other.memory == store.memory).count();
                self.forward_dest(store, only, beside);
            }
        }
        emitted.sort_by_key(|(in_memory, _)| !in_memory);
        for (_, store) in emitted {
            self.read(store.from);
            self.push(Instr::Store(Box::new(store)));
        }
    }

    /// The scatter, if the kernel is one.
    pub(super) fn scatter(&mut self) {
        let Some(scatter) = self.kernel.scatter() else { return };
        let shape = self.tiling.shape_at_level(self.kernel, 0, true);
        let value = self.slot_of(scatter.value);
        let value = self.broadcast(value, shape);
        let (index, index_shape) = self.with_shape(scatter.index);
        let positions = self.register(shape, DType::I64);
        let address = self.address(&scatter.address);
        for slot in [value, index, positions] {
            self.read(slot);
        }
        let dtype = scatter.dtype;
        self.push(Instr::Scatter(Box::new(Scatter {
            value,
            shape,
            lane: LaneType::of(dtype).size(),
            row_stride: self.in_place_strides.get(&value).copied(),
            index,
            index_shape,
            positions,
            memory: self.kernel.inputs.len() as u32,
            dtype,
            address,
            stride: scatter.stride,
            extent: scatter.extent,
            function: micro::scatter(combines_by(scatter.mode), dtype),
            contiguous: contiguous_scatter(scatter.mode, dtype),
        })));
    }

    /// Lets the instruction that computes a store's values write them in place, if
    /// it is one of this body's that can; `only` where no other store takes them,
    /// and `beside` as many stores as write to the same memory.
    fn forward_dest(&mut self, store: &TileStore, only: bool, beside: usize) {
        let plain = matches!(store.layout, RowLayout::Contiguous(_)) && micro::load(store.dtype).is_none();
        if !plain {
            return;
        }
        if store.non_temporal {
            return self.forward_non_temporal(store, only);
        }
        let forwarded = |instr: &Instr| match instr {
            Instr::ForwardDest(forwarding) => forwarding.store.from == store.from,
            Instr::Rowwise(op) => {
                op.forwarding.as_ref().is_some_and(|forwarding| forwarding.store.from == store.from)
            }
            _ => false,
        };
        let outputs = self.outputs;
        let apart = self.has_row_gaps(store);
        let instrs = &mut self.current().instrs;
        if instrs.iter().any(forwarded) {
            return;
        }
        let made = |instr: &Instr| match instr {
            Instr::Micro { to, from, .. } if *to == store.from => Some(SmallVec::from_slice(from)),
            Instr::Rowwise(op) if op.to.0 == store.from => Some(op.from.map(|from| from.0).into()),
            // Rows found by indices, which are no part of what is overwritten.
            Instr::Load(load) if load.to == store.from && !load.indices.is_empty() && outputs == 1 => {
                matches!(load.layout, RowLayout::Contiguous(None)).then(SmallVec::new)
            }
            _ => None,
        };
        let found = instrs.iter().enumerate().find_map(|(at, instr)| Some((at, made(instr)?)));
        let Some((at, mut operands)) = found else { return };
        let partial_rows = !self.tiles_cover_row(store.address, store.shape, beside);
        let instrs = &mut self.current().instrs;
        if apart {
            // Nothing else reads rows with gaps.
            let alone =
                only && outputs == 1 && !instrs[at + 1..].iter().any(|instr| may_read(instr, store.from));
            if let Instr::Rowwise(op) = &mut instrs[at]
                && alone
            {
                op.forwarding =
                    Some(Box::new(DestForwarding { store: store.clone(), operands, partial_rows }));
            }
            return;
        }
        if let Instr::Load(load) = &mut instrs[at] {
            load.forwarded = true;
        }
        // Where it writes may be an input that instructions after it read: any
        // of them if there are several outputs, else the instruction alone.
        if outputs > 1 {
            for instr in &instrs[at + 1..] {
                let Some(read) = reads(instr) else { return };
                operands.extend(read.into_iter().filter(|slot| *slot != store.from));
            }
        }
        instrs.insert(
            at,
            Instr::ForwardDest(Box::new(DestForwarding { store: store.clone(), operands, partial_rows })),
        );
    }

    /// The same of a non-temporal store, where the instruction has a loop with such stores and
    /// nothing else reads its values.
    fn forward_non_temporal(&mut self, store: &TileStore, only: bool) {
        let Some(&variants) = self.variants.get(&store.from) else { return };
        if !only || self.outputs > 1 || self.has_row_gaps(store) {
            return;
        }
        let instrs = &mut self.current().instrs;
        for at in 0..instrs.len() {
            let alone = !instrs[at + 1..].iter().any(|instr| may_read(instr, store.from));
            let (non_temporal, operands) = match &mut instrs[at] {
                Instr::Micro { non_temporal, to, from, .. } if *to == store.from && alone => {
                    (non_temporal, *from)
                }
                Instr::Rowwise(op) if op.to.0 == store.from && alone => {
                    (&mut op.non_temporal, op.from.map(|from| from.0))
                }
                _ => continue,
            };
            *non_temporal = Some(variants.non_temporal);
            let forwarding =
                DestForwarding { store: store.clone(), operands: operands.into(), partial_rows: false };
            return instrs.insert(at, Instr::ForwardDest(Box::new(forwarding)));
        }
    }
}

/// Whether an instruction may read a slot.
fn may_read(instr: &Instr, slot: FrameSlot) -> bool {
    match instr {
        Instr::Load(load) => {
            load.masks.iter().any(|mask| mask.0 == slot)
                || load.indices.iter().any(|index| index.index == slot)
        }
        _ => reads(instr).is_none_or(|read| read.contains(&slot)),
    }
}

/// The slots that an instruction between loads and stores reads; `None` for instructions that
/// read memory.
fn reads(instr: &Instr) -> Option<SmallVec<[FrameSlot; MAX_OPERANDS]>> {
    match instr {
        Instr::Micro { from, .. } => Some(SmallVec::from_slice(from)),
        Instr::Rowwise(op) => Some(op.from.map(|from| from.0).into()),
        Instr::Expand { from, .. } | Instr::Check(from, ..) => Some(SmallVec::from_slice(&[*from])),
        Instr::ForwardDest(_) | Instr::Index { .. } | Instr::Inside { .. } => Some(SmallVec::new()),
        Instr::Store(store) => Some(SmallVec::from_slice(&[store.from])),
        Instr::Load(_)
        | Instr::Gather(_)
        | Instr::FromBlock(_)
        | Instr::ForwardBlockDest(_)
        | Instr::ToBlock(_)
        | Instr::Scatter(_)
        | Instr::Update(_)
        | Instr::ReduceRows(_)
        | Instr::Scan(_)
        | Instr::Nest { .. }
        | Instr::BeginPass { .. }
        | Instr::FinishReduction(_) => None,
    }
}

/// The loop that combines neighbours into neighbours: taking a row into the
/// states of a vertical reduction does just that.
fn contiguous_scatter(mode: ScatterMode, dtype: DType) -> Option<micro::AccumulateFn> {
    if micro::load(dtype).is_some() || dtype == DType::Bool {
        return None;
    }
    Some(micro::accumulate(combines_by(mode)?, dtype)?.step)
}

/// The reduction by which a scatter combines elements; `None` where it replaces them.
fn combines_by(mode: ScatterMode) -> Option<micro::ReduceKind> {
    match mode {
        ScatterMode::Set => None,
        ScatterMode::Add => Some(micro::ReduceKind::Sum),
        ScatterMode::Mul => Some(micro::ReduceKind::Prod),
        ScatterMode::Max => Some(micro::ReduceKind::Max),
        ScatterMode::Min => Some(micro::ReduceKind::Min),
    }
}
