//! From a kernel and its tiling to bodies of instructions.

mod fuse;
mod horner;
mod memory;
mod reduce;
mod values;

use std::collections::HashMap;

use kiln_simd::micro::Variants;
use smallvec::SmallVec;

use crate::base::DType;
use crate::kernel::{Affine, AxisId, Expr, ExprId, Kernel};
use crate::runtime::cpu::tile::analysis::{ExprFacts, bit};
use crate::runtime::cpu::tile::build::fuse::Patterns;
use crate::runtime::cpu::tile::program::{
    Address, AddressId, FrameSlot, Instr, LoopBody, SlotInfo, SlotStorage, TileReduction, TileScan, TileShape,
};
use crate::runtime::cpu::tile::registers::LiveRange;
use crate::runtime::cpu::tile::tiling::TilePlan;

/// What to compute besides the kernel's stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// The kernel's stores.
    Stores,
    /// A block of a product's operand: this value.
    Block(ExprId),
}

/// The parts of a program, growing.
pub struct ProgramBuilder<'k> {
    pub(super) kernel: &'k Kernel,
    /// Outputs of the kernel, which its stores take turns to write.
    pub(super) outputs: usize,
    pub(super) facts: &'k ExprFacts,
    pub(super) tiling: TilePlan,
    /// Whether stores may be non-temporal and have their destination forwarded.
    pub(super) non_temporal: bool,
    /// Which operations become one superinstruction.
    pub(super) patterns: Patterns,
    /// All addresses.
    pub(super) addresses: Vec<Address>,
    pub(super) slots: Vec<SlotInfo>,
    /// When each slot's value is needed.
    pub(super) live_ranges: Vec<LiveRange>,
    pub(super) bodies: Vec<LoopBody>,
    pub(super) reductions: Vec<TileReduction>,
    pub(super) scans: Vec<TileScan>,
    /// Where each expression's value is, if it is anywhere now.
    value: Vec<Option<FrameSlot>>,
    /// Tile-invariant values: computed from the positions of columns alone, where a tile has all of
    /// those: they are the same at every point.
    tile_invariant: Vec<bool>,
    /// Values that the reductions of the body under construction compute.
    deferred: Vec<ExprId>,
    constants: HashMap<(u64, DType), FrameSlot>,
    arguments: HashMap<(u32, DType), FrameSlot>,
    /// Tiles whose rows are read in place: bytes from one to the next.
    in_place_strides: HashMap<FrameSlot, usize>,
    /// Other loops of operations, by the slot of the result.
    variants: HashMap<FrameSlot, Variants>,
    /// Results of reductions that alias their states, and those states.
    aliased_states: Vec<(FrameSlot, FrameSlot)>,
    /// The builders of the enclosing bodies, outermost first.
    body_stack: Vec<BodyBuilder>,
    /// Counts instructions, to order live ranges.
    now: u32,
}

/// A body builder: a body under construction.
struct BodyBuilder {
    level: u8,
    began: u32,
    instrs: Vec<Instr>,
    hoisted: Vec<(usize, Vec<Instr>)>,
    /// Addresses used so far, by value.
    addresses: Vec<(Affine, AddressId)>,
    /// Slots that must live until this body ends.
    kept: Vec<FrameSlot>,
    /// Tiles made of vectors, by slot, shape and where they are hoisted to.
    expanded: Vec<((FrameSlot, TileShape, Option<usize>), FrameSlot)>,
    /// Whether instructions go to a hoisted list now: that of so many loops.
    hoist: Option<usize>,
    reductions: SmallVec<[u32; 4]>,
    scans: SmallVec<[u32; 1]>,
}

impl<'k> ProgramBuilder<'k> {
    /// A builder that has emitted nothing.
    pub fn new(
        kernel: &'k Kernel,
        outputs: usize,
        facts: &'k ExprFacts,
        tiling: TilePlan,
        non_temporal: bool,
    ) -> ProgramBuilder<'k> {
        ProgramBuilder {
            kernel,
            outputs,
            facts,
            tiling,
            non_temporal,
            patterns: Patterns::none(kernel),
            addresses: Vec::new(),
            slots: Vec::new(),
            live_ranges: Vec::new(),
            bodies: Vec::new(),
            reductions: Vec::new(),
            scans: Vec::new(),
            value: vec![None; kernel.exprs.len()],
            tile_invariant: tile_invariant(kernel, facts, &tiling),
            deferred: Vec::new(),
            constants: HashMap::new(),
            arguments: HashMap::new(),
            in_place_strides: HashMap::new(),
            variants: HashMap::new(),
            aliased_states: Vec::new(),
            body_stack: Vec::new(),
            now: 0,
        }
    }

    /// Emits everything; the body of level 0 is the last.
    pub fn build(&mut self, root: Root) {
        let mut targets: Vec<ExprId> = match root {
            Root::Stores => self.kernel.stores.iter().map(|store| store.value).collect(),
            Root::Block(value) => vec![value],
        };
        if let Some(scatter) = self.kernel.scatter() {
            targets.extend([scatter.index, scatter.value]);
        }
        self.patterns = fuse::patterns(self.kernel, self.facts, &self.tiling, &targets, root);
        self.body(0, &targets, true, |builder| match root {
            Root::Stores => builder.scatter(),
            Root::Block(value) => builder.to_block(value),
        });
        for (result, state) in std::mem::take(&mut self.aliased_states) {
            let end = self.live_ranges[result.0 as usize].end;
            let life = &mut self.live_ranges[state.0 as usize];
            life.end = life.end.max(end);
        }
    }

    /// Emits a body of a level that computes some values; where it is `last`,
    /// the level's stores and the deeper ones are in it. Gives its number and
    /// the reductions and scans it takes part in.
    fn body(
        &mut self,
        level: u8,
        targets: &[ExprId],
        last: bool,
        finally: impl FnOnce(&mut Self),
    ) -> (u32, SmallVec<[u32; 4]>, SmallVec<[u32; 1]>) {
        self.open_body(level);
        let needed = self.needed(level, targets);
        let own: Vec<ExprId> = needed.into_iter().filter(|id| self.level(*id) == level).collect();
        let (reduces, values): (Vec<ExprId>, Vec<ExprId>) =
            own.into_iter().partition(|&id| self.is_reduce(id));
        // The pass over the next level that completes, or stores, a value.
        let pass = |id: ExprId| self.facts.passes[id.index()][usize::from(level)];
        let stored: Vec<ExprId> = match last {
            true => self.kernel.stores.iter().filter(|s| s.level > level).map(|s| s.value).collect(),
            false => Vec::new(),
        };
        let completing: Vec<(u8, ExprId)> = reduces.iter().map(|&r| (pass(self.operand(r)), r)).collect();
        let due = completing.iter().map(|c| c.0).chain(stored.iter().map(|&v| pass(v))).max().unwrap_or(0);
        let ready: Vec<(u8, ExprId)> = values.iter().map(|&id| (pass(id), id)).collect();
        let latest = ready.iter().map(|r| r.0).max().unwrap_or(0).max(due);
        for pass in 0..=latest {
            for &(_, id) in ready.iter().filter(|r| r.0 == pass) {
                self.compute(id);
            }
            let now: Vec<ExprId> = completing.iter().filter(|c| c.0 == pass).map(|c| c.1).collect();
            let stores = !stored.is_empty() && pass == due;
            if !now.is_empty() || stores {
                self.nest(level, &now, if stores { &stored } else { &[] });
            }
        }
        self.expire_deeper(level);
        finally(self);
        if last {
            self.emit_stores(level);
        }
        self.close_body()
    }

    /// A pass over the next level: reductions to complete, and values to
    /// store in it where they are due.
    fn nest(&mut self, level: u8, reduces: &[ExprId], stored: &[ExprId]) {
        let mut inner: Vec<ExprId> = Vec::new();
        for target in reduces.iter().map(|&r| self.operand(r)).chain(stored.iter().copied()) {
            // What this level or an outer one computes is there already.
            if !inner.contains(&target) && self.level(target) > level {
                inner.push(target);
            }
        }
        let outer = self.deferred.len();
        let deferred: Vec<ExprId> = reduces.iter().filter_map(|&reduce| self.deferrable(reduce)).collect();
        self.deferred.extend(deferred);
        let (body, mine, scans) = self.body(level + 1, &inner, !stored.is_empty(), |builder| {
            for &reduce in reduces {
                builder.begin_reduction(reduce);
            }
        });
        self.deferred.truncate(outer);
        let resident = self.tiling.full_rows && self.tiling.level == level + 1;
        if !resident {
            self.expire_deeper(level);
        }
        self.push(Instr::Nest { body, reductions: mine.clone(), scans });
        for (&reduce, number) in reduces.iter().zip(mine) {
            self.end_reduction(reduce, number);
        }
    }

    fn level(&self, id: ExprId) -> u8 {
        self.kernel.exprs[id.index()].level
    }

    fn is_reduce(&self, id: ExprId) -> bool {
        matches!(self.kernel.expr(id), Expr::Reduce(..))
    }

    /// What a reduction combines.
    fn operand(&self, id: ExprId) -> ExprId {
        match self.kernel.expr(id) {
            Expr::Reduce(_, x) => *x,
            other => panic!("{other:?} is no reduction"),
        }
    }

    /// The expressions from `level` on that some values need and that are not
    /// there yet, ascending.
    fn needed(&self, level: u8, targets: &[ExprId]) -> Vec<ExprId> {
        let mut pending: Vec<ExprId> = targets.to_vec();
        let mut found = vec![false; self.kernel.exprs.len()];
        while let Some(id) = pending.pop() {
            let node = &self.kernel.exprs[id.index()];
            let known = found[id.index()] || self.value[id.index()].is_some() || node.level < level;
            if known || matches!(node.expr, Expr::Const(_) | Expr::Arg(_)) {
                continue;
            }
            found[id.index()] = true;
            if let Expr::Load(_, access) = &node.expr {
                pending.extend(access.dynamic.iter().flat_map(|part| self.summands(part)));
                pending.extend(access.guard.masks.iter());
            } else {
                node.expr.operands(|operand| pending.push(operand));
            }
        }
        let ids = (0..found.len()).filter(|&i| found[i]);
        ids.map(|i| ExprId(i as u32)).collect()
    }

    /// Forgets values of deeper levels: another pass computes them again.
    fn expire_deeper(&mut self, level: u8) {
        for (i, value) in self.value.iter_mut().enumerate() {
            if self.kernel.exprs[i].level > level {
                *value = None;
            }
        }
    }

    fn open_body(&mut self, level: u8) {
        self.body_stack.push(BodyBuilder {
            level,
            began: self.now,
            instrs: Vec::new(),
            hoisted: Vec::new(),
            addresses: Vec::new(),
            kept: Vec::new(),
            expanded: Vec::new(),
            hoist: None,
            reductions: SmallVec::new(),
            scans: SmallVec::new(),
        });
    }

    fn close_body(&mut self) -> (u32, SmallVec<[u32; 4]>, SmallVec<[u32; 1]>) {
        self.now += 1;
        let mut open = self.body_stack.pop().expect("a body is open");
        for slot in open.kept {
            self.live_ranges[slot.0 as usize].end = self.now;
        }
        open.hoisted.sort_by_key(|(loops, _)| *loops);
        let addresses = open.addresses.iter().map(|(_, id)| *id).collect();
        let (level, hoisted, instrs) = (open.level, open.hoisted, open.instrs);
        self.bodies.push(LoopBody { level, addresses, hoisted, instrs });
        (self.bodies.len() as u32 - 1, open.reductions, open.scans)
    }

    fn current(&mut self) -> &mut BodyBuilder {
        self.body_stack.last_mut().expect("a body is open")
    }

    /// Adds an instruction to the body, or to its hoisted instructions.
    fn push(&mut self, instr: Instr) {
        self.now += 1;
        let open = self.current();
        let Some(loops) = open.hoist else { return open.instrs.push(instr) };
        match open.hoisted.iter_mut().find(|(at, _)| *at == loops) {
            Some((_, instrs)) => instrs.push(instr),
            None => open.hoisted.push((loops, vec![instr])),
        }
    }

    /// The number of an affine value in the body.
    fn address(&mut self, affine: &Affine) -> AddressId {
        if let Some((_, id)) = self.current().addresses.iter().find(|(known, _)| known == affine) {
            return *id;
        }
        let axes = (0..self.kernel.axes.len()).map(|axis| AxisId(axis as u16));
        let strides = axes.map(|axis| affine.coefficient(axis)).collect();
        let id = AddressId(self.addresses.len() as u32);
        self.addresses.push(Address { offset: affine.offset, strides });
        self.current().addresses.push((affine.clone(), id));
        id
    }

    /// A new slot, defined now.
    fn slot(&mut self, place: SlotStorage, shape: TileShape, dtype: DType) -> FrameSlot {
        let slot = FrameSlot(self.slots.len() as u32);
        let (level, hoisted) =
            self.body_stack.last().map_or((0, false), |open| (open.level, open.hoist.is_some()));
        let began = self.body_stack.last().map_or(0, |open| open.began);
        self.slots.push(SlotInfo { storage: place, shape, dtype, level });
        let start = if hoisted { began } else { self.now + 1 };
        self.live_ranges.push(LiveRange { start, end: self.now + 2, depth: self.body_stack.len(), bytes: 0 });
        if hoisted {
            self.current().kept.push(slot);
        }
        slot
    }

    /// A register for a value.
    fn register(&mut self, shape: TileShape, dtype: DType) -> FrameSlot {
        let slot = self.slot(SlotStorage::Register(0), shape, dtype);
        self.live_ranges[slot.0 as usize].bytes = dtype.compute().size();
        slot
    }

    /// Notes that a slot is read by the instruction about to be pushed. A slot that
    /// an outer body defined lives until the outermost body in between ends,
    /// since that body's points all read it.
    fn read(&mut self, slot: FrameSlot) -> FrameSlot {
        let depth = self.live_ranges[slot.0 as usize].depth;
        if depth < self.body_stack.len() {
            self.body_stack[depth].kept.push(slot);
        }
        let life = &mut self.live_ranges[slot.0 as usize];
        life.end = life.end.max(self.now + 2);
        slot
    }

    /// The shape of an expression's value.
    pub(super) fn shape(&self, id: ExprId) -> TileShape {
        self.tiling.shape(self.facts.axes[id.index()])
    }

    /// The number of outer loops a value of the open body depends on; `None`
    /// where it must be computed for each tile.
    fn hoistable(&self, id: ExprId, level: u8) -> Option<usize> {
        let axes = self.facts.axes[id.index()];
        let here = |axis: &AxisId| self.kernel.axes[axis.index()].level == level;
        let (row, col) = (self.tiling.row.filter(here), self.tiling.col.filter(here));
        let on = |axis: Option<AxisId>| axis.is_some_and(|axis| axes & bit(axis) != 0);
        // A tile of all columns makes their loop the outermost one, of one iteration.
        let whole = col.is_some_and(|col| self.tiling.cols == Some(self.kernel.axes[col.index()].extent));
        if self.facts.pinned[id.index()] || on(row) || (on(col) && !whole) {
            return None;
        }
        let outer = outer_axes(self.kernel, &self.tiling, level);
        let loops = outer.iter().rposition(|&axis| axes & bit(axis) != 0).map_or(0, |i| i + 1);
        // Without loops further in there is nothing to hoist out of.
        let further = loops < outer.len() || row.is_some() || (col.is_some() && !on(col));
        further.then_some(loops)
    }
}

/// Which values are computed from the positions of columns alone, all of which a tile has.
fn tile_invariant(kernel: &Kernel, facts: &ExprFacts, tiling: &TilePlan) -> Vec<bool> {
    let mut invariant = vec![false; kernel.exprs.len()];
    let Some(col) = tiling.col.filter(|_| tiling.full_rows) else { return invariant };
    let fixed = |invariant: &[bool], id: ExprId| {
        invariant[id.index()] || matches!(kernel.expr(id), Expr::Const(_) | Expr::Arg(_))
    };
    for i in 0..kernel.exprs.len() {
        invariant[i] = facts.axes[i] == bit(col)
            && match &kernel.exprs[i].expr {
                Expr::Index(_) | Expr::Inside(_) => true,
                Expr::Alu(op, x) => x[..op.arity()].iter().all(|&x| fixed(&invariant, x)),
                Expr::Cast(x) | Expr::Bitcast(x) => fixed(&invariant, *x),
                Expr::Const(_)
                | Expr::Arg(_)
                | Expr::Load(..)
                | Expr::Reduce(..)
                | Expr::Scan(..)
                | Expr::Checked(..)
                | Expr::Accumulator => false,
            };
    }
    invariant
}

/// The axes of a level that are loops around the tile, outermost first.
pub fn outer_axes(kernel: &Kernel, tiling: &TilePlan, level: u8) -> SmallVec<[AxisId; 4]> {
    kernel.level_axes(level).filter(|&axis| Some(axis) != tiling.row && Some(axis) != tiling.col).collect()
}
