//! Steps that load and store.

use smallvec::{SmallVec, smallvec};

use crate::base::DType;
use crate::ir::{AluOp, ScatterMode};
use crate::kernel::{self, Access, Dynamic, Expr, ExprId};
use crate::runtime::cpu::micro::{self, LaneType, MAX_OPERANDS};
use crate::runtime::cpu::tile::build::Builder;
use crate::runtime::cpu::tile::build::values::{LINE, SHORT};
use crate::runtime::cpu::tile::program::{
    AddressId, Aim, Bound, Class, Gather, Indexed, Line, Load, Place, Scatter, Slot, Step, Store,
};
use crate::runtime::cpu::tile::run::scatter_function;

impl Builder<'_> {
    pub(super) fn load(&mut self, id: ExprId, input: u32, access: &Access) -> Slot {
        let guard = &access.guard;
        let dtype = self.kernel.inputs[input as usize].dtype;
        let class = self.class(id);
        let address = self.address(&access.affine);
        let bounds = guard.within.iter().map(|w| {
            let value = self.address(&w.value);
            Bound { value, low: w.low, high: w.high }
        });
        let bounds: SmallVec<[Bound; 2]> = bounds.collect();
        let masks: SmallVec<[(Slot, Class); 1]> = guard.masks.iter().map(|&m| self.with_class(m)).collect();
        let indices = self.indices(access);
        let varying = masks.iter().map(|m| m.1).chain(indices.iter().map(|i| i.class));
        // Along a line everything computed must be constant for a plain load.
        let along_line = if class == Class::FULL { Class::COL } else { class };
        let gathers = varying.fold(Class::SCALAR, Class::union).without(Class::FULL.without(along_line));
        for slot in masks.iter().map(|m| m.0).chain(indices.iter().map(|i| i.index)) {
            self.read(slot);
        }
        let line = self.load_line(address, class, dtype);
        let lane = LaneType::of(dtype).size();
        let short = self.short_copy(class, dtype, line);
        let in_place = self.stays(id, address, class, line) && guard.is_always() && indices.is_empty();
        let load = |to| Load {
            to,
            memory: input,
            dtype,
            lane,
            class,
            in_place,
            aimed: false,
            address,
            ahead: 0,
            line,
            short,
            bounds,
            masks,
            indices,
        };
        if gathers != Class::SCALAR {
            let positions = self.register(class, DType::I64);
            let load = load(self.register(class, dtype));
            let to = load.to;
            let function = micro::load_gather(dtype);
            self.push(Step::Gather(Box::new(Gather { load, positions, function })));
            return to;
        }
        let to = match line {
            // The slot only ever points at memory.
            Line::Unit(None) if guard.is_always() && (in_place || class != Class::FULL) => {
                self.slot(Place::Memory, class, dtype)
            }
            Line::Unit(_) | Line::Strided(_) | Line::Transposed(_) => self.register(class, dtype),
        };
        if in_place {
            self.apart.insert(to, self.steps_of(address, class).0 as usize * lane);
        }
        self.push(Step::Load(Box::new(load(to))));
        to
    }

    /// The indices of a load.
    fn indices(&mut self, access: &Access) -> SmallVec<[Indexed; 1]> {
        let mut found = SmallVec::new();
        for part in &access.dynamic {
            let Dynamic { stride, extent, checked, .. } = *part;
            for id in self.summands(part) {
                let (index, class) = self.with_class(id);
                found.push(Indexed { index, class, stride, extent, checked });
            }
        }
        found
    }

    /// What an index of a load is the sum of. One that the lines of a tile have one part of and
    /// the columns the other is never computed: the load adds what it finds for a line to where
    /// it starts.
    pub(super) fn summands(&self, part: &Dynamic) -> SmallVec<[ExprId; 2]> {
        let mut found: SmallVec<[ExprId; 2]> = smallvec![part.index];
        let mut i = 0;
        while i < found.len() {
            if let Expr::Alu(AluOp::Add, [x, y, _]) = *self.kernel.expr(found[i])
                && !part.checked
                && self.class(found[i]) == Class::FULL
                && [x, y].iter().any(|&x| self.class(x) != Class::FULL)
            {
                found[i] = x;
                found.push(y);
            } else {
                i += 1;
            }
        }
        found
    }

    /// Whether a tile's lines are read where they lie, apart from each other, by
    /// operations that go line by line, or a scatter.
    fn stays(
        &self,
        id: ExprId,
        address: AddressId,
        class: Class,
        line: Line<Option<micro::MicroFn>>,
    ) -> bool {
        let (apart, _) = self.steps_of(address, class);
        let dense = self.tiling.cols.is_some_and(|cols| cols as i64 == apart);
        let long = self.tiling.cols.is_some_and(|cols| cols >= LINE);
        let lines = class == Class::FULL && matches!(line, Line::Unit(None)) && apart > 0 && !dense;
        lines && long && self.patterns.operands[id.index()]
    }

    /// Where a value is, and its class.
    fn with_class(&mut self, id: ExprId) -> (Slot, Class) {
        let slot = self.slot_of(id);
        (slot, self.slots[slot.0 as usize].class)
    }

    fn load_line(&self, address: AddressId, class: Class, dtype: DType) -> Line<Option<micro::MicroFn>> {
        match self.steps_of(address, class) {
            (_, 1) => Line::Unit(micro::load(dtype)),
            (1, _) => Line::Transposed(micro::load_tile_transposed(dtype)),
            (_, _) => Line::Strided(micro::load_strided(dtype)),
        }
    }

    /// The copy of all lines of a tile to or from memory, where those are short.
    fn short_copy<F>(&self, class: Class, dtype: DType, line: Line<F>) -> Option<micro::BatchedRowsFn> {
        let copies = matches!(line, Line::Unit(_)) && micro::load(dtype).is_none();
        let few = class == Class::FULL && self.tiling.cols.is_some_and(|cols| cols <= SHORT);
        (copies && few).then(|| micro::copy_rows(LaneType::of(dtype)))
    }

    /// The steps of an address from line to line and along a line, for values
    /// of a class; lines of one element count as contiguous.
    fn steps_of(&self, address: AddressId, class: Class) -> (i64, i64) {
        let steps = &self.addresses[address.0 as usize].steps;
        let along = |axis: Option<crate::kernel::AxisId>| axis.map_or(0, |axis| steps[axis.index()]);
        let (row, col) = (along(self.tiling.row), along(self.tiling.col));
        match (class.rows(), class.cols()) {
            (true, true) => (row, col),
            (true, false) => (0, row),
            (false, true) => (0, col),
            (false, false) => (0, 1),
        }
    }

    /// Whether a store's lines lie apart in memory.
    fn lie_apart(&self, store: &Store) -> bool {
        let (apart, _) = self.steps_of(store.address, store.class);
        store.class == Class::FULL && self.tiling.cols.is_none_or(|cols| cols as i64 != apart)
    }

    /// Whether so many tiles beside each other leave nothing between their lines.
    fn covers(&self, address: AddressId, class: Class, beside: usize) -> bool {
        let (apart, _) = self.steps_of(address, class);
        self.tiling.cols.is_some_and(|cols| (cols * beside) as i64 >= apart)
    }

    /// The store of an output, and whether what it stores may lie in memory that another
    /// writes.
    fn stored(&mut self, output: usize, store: &kernel::KernelStore) -> (bool, Store) {
        let class = self.tiling.class_of_level(self.kernel, store.level, true);
        let slot = self.slot_of(store.value);
        let (memory, dtype) = ((self.kernel.inputs.len() + output) as u32, store.dtype);
        let kind = LaneType::of(dtype);
        // Lines that stay where they lie are copied by an operation like any other.
        let from = match self.apart.contains_key(&slot) {
            true => self.apply(&[slot], dtype, |_| micro::copy_operation(kind)),
            false => self.widened(slot, class),
        };
        let address = self.address(&store.address);
        let (apart, along) = self.steps_of(address, class);
        let in_memory = self.slots[from.0 as usize].place == Place::Memory;
        // Of pieces, whole lines of the cache alone.
        let whole = !self.tiling.square || apart % 16 == 0;
        let stream = self.stream && dtype.size() == 4 && along == 1 && whole && class.cols();
        let line = match along {
            1 if stream => Line::Unit(micro::store_nt()),
            1 => Line::Unit(micro::store(dtype)),
            _ => Line::Strided(micro::store_strided(dtype)),
        };
        let short = if stream { None } else { self.short_copy(class, dtype, line) };
        let (lane, aimed) = (kind.size(), false);
        (in_memory, Store { from, memory, dtype, lane, class, address, line, short, stream, aimed })
    }

    /// The stores of a level. Those of values that may lie where another
    /// store writes come first, and none is written before them.
    pub(super) fn emit_stores(&mut self, level: u8) {
        let kernel = self.kernel;
        let stores = kernel.stores.iter().enumerate().filter(|(_, store)| store.level == level);
        let mut emitted: Vec<(bool, Store)> =
            stores.map(|(number, store)| self.stored(number % self.outputs, store)).collect();
        // Pieces beside each other neither read nor write what others write.
        if self.outputs == 1 || emitted.iter().all(|(in_memory, _)| !in_memory) {
            for (_, store) in &emitted {
                let only = emitted.iter().filter(|(_, other)| other.from == store.from).count() == 1;
                let beside = emitted.iter().filter(|(_, other)| other.memory == store.memory).count();
                self.aim(store, only, beside);
            }
        }
        emitted.sort_by_key(|(in_memory, _)| !in_memory);
        for (_, store) in emitted {
            self.read(store.from);
            self.push(Step::Store(Box::new(store)));
        }
    }

    /// The scatter, if the kernel is one.
    pub(super) fn scatter(&mut self) {
        let Some(scatter) = &self.kernel.scatter else { return };
        let class = self.tiling.class_of_level(self.kernel, 0, true);
        let value = self.slot_of(scatter.value);
        let value = self.widened(value, class);
        let (index, index_class) = self.with_class(scatter.index);
        let positions = self.register(class, DType::I64);
        let address = self.address(&scatter.address);
        for slot in [value, index, positions] {
            self.read(slot);
        }
        let dtype = scatter.dtype;
        self.push(Step::Scatter(Box::new(Scatter {
            value,
            class,
            lane: LaneType::of(dtype).size(),
            line_step: self.apart.get(&value).copied(),
            index,
            index_class,
            positions,
            memory: self.kernel.inputs.len() as u32,
            dtype,
            address,
            stride: scatter.stride,
            extent: scatter.extent,
            function: scatter_function(scatter.mode, dtype),
            run: run_of(scatter.mode, dtype),
        })));
    }

    /// Lets the step that computes a store's values write them in place, if
    /// it is one of this body's that can; `only` where no other store takes them,
    /// and `beside` as many stores as write to the same memory.
    fn aim(&mut self, store: &Store, only: bool, beside: usize) {
        let plain = matches!(store.line, Line::Unit(_)) && micro::load(store.dtype).is_none();
        if !plain {
            return;
        }
        if store.stream {
            return self.aim_past_caches(store, only);
        }
        let aimed = |step: &Step| match step {
            Step::Aim(aim) => aim.store.from == store.from,
            Step::Lines(lines) => lines.aim.as_ref().is_some_and(|aim| aim.store.from == store.from),
            _ => false,
        };
        let outputs = self.outputs;
        let apart = self.lie_apart(store);
        let steps = &mut self.top().steps;
        if steps.iter().any(aimed) {
            return;
        }
        let made = |step: &Step| match step {
            Step::Micro { to, from, .. } if *to == store.from => Some(SmallVec::from_slice(from)),
            Step::Lines(lines) if lines.to.0 == store.from => Some(lines.from.map(|from| from.0).into()),
            // Lines found by indices, which are no part of what is overwritten.
            Step::Load(load) if load.to == store.from && !load.indices.is_empty() && outputs == 1 => {
                matches!(load.line, Line::Unit(None)).then(SmallVec::new)
            }
            _ => None,
        };
        let found = steps.iter().enumerate().find_map(|(at, step)| Some((at, made(step)?)));
        let Some((at, mut operands)) = found else { return };
        let pieces = !self.covers(store.address, store.class, beside);
        let steps = &mut self.top().steps;
        if apart {
            // Nothing else reads lines that lie apart.
            let alone =
                only && outputs == 1 && !steps[at + 1..].iter().any(|step| may_read(step, store.from));
            if let Step::Lines(lines) = &mut steps[at]
                && alone
            {
                lines.aim = Some(Box::new(Aim { store: store.clone(), operands, pieces }));
            }
            return;
        }
        if let Step::Load(load) = &mut steps[at] {
            load.aimed = true;
        }
        // Where it writes may be an input that steps after it still read: any
        // of them if there are several outputs, else the step alone.
        if outputs > 1 {
            for step in &steps[at + 1..] {
                let Some(read) = reads(step) else { return };
                operands.extend(read.into_iter().filter(|slot| *slot != store.from));
            }
        }
        steps.insert(at, Step::Aim(Box::new(Aim { store: store.clone(), operands, pieces })));
    }

    /// The same of a store that passes the caches by, where the step has a loop that does and
    /// nothing else reads its values.
    fn aim_past_caches(&mut self, store: &Store, only: bool) {
        let Some(&variants) = self.variants.get(&store.from) else { return };
        if !only || self.outputs > 1 || self.lie_apart(store) {
            return;
        }
        let steps = &mut self.top().steps;
        for at in 0..steps.len() {
            let alone = !steps[at + 1..].iter().any(|step| may_read(step, store.from));
            let (streaming, operands) = match &mut steps[at] {
                Step::Micro { streaming, to, from, .. } if *to == store.from && alone => (streaming, *from),
                Step::Lines(lines) if lines.to.0 == store.from && alone => {
                    (&mut lines.streaming, lines.from.map(|from| from.0))
                }
                _ => continue,
            };
            *streaming = Some(variants.non_temporal);
            let aim = Aim { store: store.clone(), operands: operands.into(), pieces: false };
            return steps.insert(at, Step::Aim(Box::new(aim)));
        }
    }
}

/// Whether a step may read a slot.
fn may_read(step: &Step, slot: Slot) -> bool {
    match step {
        Step::Load(load) => {
            load.masks.iter().any(|mask| mask.0 == slot)
                || load.indices.iter().any(|index| index.index == slot)
        }
        _ => reads(step).is_none_or(|read| read.contains(&slot)),
    }
}

/// The slots that a step between loads and stores reads; `None` for steps that
/// read memory.
fn reads(step: &Step) -> Option<SmallVec<[Slot; MAX_OPERANDS]>> {
    match step {
        Step::Micro { from, .. } => Some(SmallVec::from_slice(from)),
        Step::Lines(lines) => Some(lines.from.map(|from| from.0).into()),
        Step::Expand { from, .. } | Step::Check(from, ..) => Some(SmallVec::from_slice(&[*from])),
        Step::Aim(_) | Step::Index { .. } | Step::Inside { .. } => Some(SmallVec::new()),
        Step::Store(store) => Some(SmallVec::from_slice(&[store.from])),
        Step::Load(_)
        | Step::Gather(_)
        | Step::PutOff(_)
        | Step::FromBlock(_)
        | Step::AimBlock(_)
        | Step::ToBlock(_)
        | Step::Scatter(_)
        | Step::Update(_)
        | Step::Reduce(_)
        | Step::Scan(_)
        | Step::Nest { .. }
        | Step::Begin { .. }
        | Step::Finish(_) => None,
    }
}

/// The loop that combines neighbours into neighbours: taking a row into the
/// states of a vertical reduction does just that.
fn run_of(mode: ScatterMode, dtype: DType) -> Option<micro::AccumulateFn> {
    if micro::load(dtype).is_some() || dtype == DType::Bool {
        return None;
    }
    let kind = match mode {
        ScatterMode::Set => return None,
        ScatterMode::Add => micro::ReduceKind::Sum,
        ScatterMode::Mul => micro::ReduceKind::Prod,
        ScatterMode::Max => micro::ReduceKind::Max,
        ScatterMode::Min => micro::ReduceKind::Min,
    };
    Some(micro::accumulate(kind, dtype)?.step)
}
