//! Programs as text.

use std::fmt;

use crate::runtime::cpu::tile::program::{
    AddressId, FrameSlot, Instr, Loop, LoopBody, Prefetch, ReductionForm, RowLayout, RowwiseOp, ScanForm,
    Scatter, SlotStorage, TileLoad, TileProgram, TileShape, WorkPartition,
};

impl fmt::Display for TileProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TileProgram { name, tile: (rows, cols), scratch, .. } = self;
        let axis = |axis: Option<crate::kernel::AxisId>| axis.map_or("-".into(), |a| format!("i{}", a.0));
        writeln!(
            f,
            "tile {name}: {rows} x {cols} of {} x {}, {scratch} bytes of registers, {}",
            axis(self.row),
            axis(self.col),
            match self.partition {
                WorkPartition::Serial => "one thread".into(),
                WorkPartition::Tiles(count) => format!("{count} tiles per job"),
                WorkPartition::ConflictFree(count) => format!("{count} conflict-free jobs"),
                WorkPartition::ReductionRows(count) => format!("{count} rows per job"),
            }
        )?;
        match self.bodies.last() {
            Some(body) => self.body(f, body, 1),
            None => Ok(()),
        }
    }
}

impl TileProgram {
    fn body(&self, f: &mut fmt::Formatter<'_>, body: &LoopBody, depth: usize) -> fmt::Result {
        let loops = &self.loops[body.level as usize];
        let hoisted = |count: usize| body.hoisted.iter().filter(move |(loops, _)| *loops == count);
        for (count, l) in loops.iter().enumerate() {
            for (_, instrs) in hoisted(count) {
                self.instrs(f, instrs, depth + count)?;
            }
            let Loop { axis, start, end, chunk } = l;
            let by = if *chunk == 1 { String::new() } else { format!(" by {chunk}") };
            writeln!(f, "{}for i{} in {start}..{end}{by}", "  ".repeat(depth + count), axis.0)?;
        }
        for (_, instrs) in hoisted(loops.len()) {
            self.instrs(f, instrs, depth + loops.len())?;
        }
        self.instrs(f, &body.instrs, depth + loops.len())
    }

    fn instrs(&self, f: &mut fmt::Formatter<'_>, instrs: &[Instr], depth: usize) -> fmt::Result {
        for instr in instrs {
            self.instr(f, instr, depth)?;
        }
        Ok(())
    }

    fn instr(&self, f: &mut fmt::Formatter<'_>, instr: &Instr, depth: usize) -> fmt::Result {
        write!(f, "{}", "  ".repeat(depth))?;
        let slot = |slot: FrameSlot| self.slot_text(slot);
        match instr {
            Instr::Micro { name, to, from, prefetch, .. } => {
                let from = self.operands(from);
                let next = self.prefetch_text(*prefetch);
                writeln!(f, "{} = {name} {from}{next}", slot(*to))
            }
            Instr::Rowwise(op) => {
                writeln!(f, "{}", self.rowwise_text(op))?;
                let Some(number) = op.row_reduction else { return Ok(()) };
                write!(f, "{}", "  ".repeat(depth))?;
                self.result(f, number)
            }
            Instr::Expand { to, from, .. } => writeln!(f, "{} = expand {}", slot(*to), slot(*from)),
            Instr::Index { to, value, .. } => writeln!(f, "{} = {}", slot(*to), self.address_text(*value)),
            Instr::Inside { to, bound, .. } => {
                let value = self.address_text(bound.value);
                writeln!(f, "{} = {} <= {value} < {}", slot(*to), bound.low, bound.high)
            }
            Instr::Check(index, extent, _) => writeln!(f, "check 0 <= {} < {extent}", slot(*index)),
            Instr::Load(load) => writeln!(f, "{}", self.load_text(load, "load")),
            Instr::Gather(gather) => writeln!(f, "{}", self.load_text(&gather.load, "gather")),
            Instr::ForwardDest(forwarding) => {
                let out = forwarding.store.memory as usize - self.inputs;
                writeln!(f, "{} at out{out}", slot(forwarding.store.from))
            }
            Instr::Store(store) => {
                let how = if store.non_temporal { "store non-temporal" } else { "store" };
                let (out, at) = (store.memory as usize - self.inputs, self.address_text(store.address));
                writeln!(f, "{how} out{out}[{at}] = {}", slot(store.from))
            }
            Instr::FromBlock(block) => writeln!(f, "{} = block", slot(block.slot)),
            Instr::ForwardBlockDest(block) => writeln!(f, "{} at block", slot(block.slot)),
            Instr::ToBlock(block) => writeln!(f, "block = {}", slot(block.slot)),
            Instr::Scatter(scatter) => {
                let (at, value) = (self.address_text(scatter.address), slot(scatter.value));
                let Scatter { stride, index, .. } = &**scatter;
                writeln!(f, "scatter out0[{at} + {} * {stride}] = {value}", slot(*index))
            }
            Instr::Update(number) => {
                let reduction = &self.reductions[*number as usize];
                match &reduction.form {
                    ReductionForm::Vertical { take: Some(instr), .. } => {
                        write!(f, "r{number} accumulates ")?;
                        self.instr(f, instr, 0)
                    }
                    ReductionForm::Vertical { .. } | ReductionForm::Horizontal { .. } => {
                        writeln!(f, "r{number} accumulates {}", slot(reduction.operand))
                    }
                }
            }
            Instr::ReduceRows(number) => {
                let operand = self.reductions[*number as usize].operand;
                write!(f, "r{number} accumulates {}; ", slot(operand))?;
                self.result(f, *number)
            }
            Instr::Scan(number) => {
                let scan = &self.scans[*number as usize];
                let form = match scan.form {
                    ScanForm::Horizontal(..) => "along",
                    ScanForm::Vertical(..) => "down",
                };
                writeln!(f, "{} = scan {form} {}", slot(scan.result), slot(scan.operand))
            }
            Instr::Nest { body, reductions, .. } => {
                writeln!(f, "pass")?;
                self.body(f, &self.bodies[*body as usize], depth + 1)?;
                reductions.iter().try_for_each(|&number| {
                    write!(f, "{}", "  ".repeat(depth))?;
                    self.result(f, number)
                })
            }
            Instr::BeginPass { .. } => writeln!(f, "pass"),
            Instr::FinishReduction(number) => self.result(f, *number),
        }
    }

    /// What a loop prefetches while it computes.
    fn prefetch_text(&self, prefetch: Option<Prefetch>) -> String {
        match prefetch {
            Some(Prefetch { operand, bytes: None, .. }) => {
                format!(", prefetches the next {}", self.slot_text(operand))
            }
            Some(_) | None => String::new(),
        }
    }

    fn rowwise_text(&self, op: &RowwiseOp) -> String {
        let from = op.from.map(|from| from.0);
        let forwarded =
            op.forwarding.as_ref().map(|forwarding| forwarding.store.memory as usize - self.inputs);
        let at = forwarded.map_or(String::new(), |out| format!(" at out{out}"));
        let next = self.prefetch_text(op.prefetch);
        let (to, from) = (self.slot_text(op.to.0), self.operands(&from));
        format!("{to} = {} {from} by row{at}{next}", op.name)
    }

    /// The operands of a micro-op; unused ones repeat the first, and so does the last of a square.
    fn operands(&self, from: &[FrameSlot]) -> String {
        let used = from.iter().rposition(|slot| *slot != from[0]).unwrap_or(0);
        let from: Vec<String> = from[..=used].iter().map(|&slot| self.slot_text(slot)).collect();
        from.join(", ")
    }

    fn result(&self, f: &mut fmt::Formatter<'_>, number: u32) -> fmt::Result {
        let reduction = &self.reductions[number as usize];
        let form = match reduction.form {
            ReductionForm::Horizontal { .. } => "along",
            ReductionForm::Vertical { .. } => "down",
        };
        writeln!(f, "{} = r{number} {form}", self.slot_text(reduction.result))
    }

    fn load_text(&self, load: &TileLoad, how: &str) -> String {
        let line = match load.layout {
            RowLayout::Contiguous(_) => "",
            RowLayout::Strided(_) => " strided",
            RowLayout::Transposed(_) => " transposed",
        };
        let memory = match (load.memory as usize).checked_sub(self.inputs) {
            None => format!("in{}", load.memory),
            Some(out) => format!("out{out}"),
        };
        let mut at = self.address_text(load.address);
        for indexed in &load.indices {
            at += &format!(" + {} * {}", self.slot_text(indexed.index), indexed.stride);
        }
        let mut text = format!("{} = {how}{line} {memory}[{at}]", self.slot_text(load.to));
        for bound in &load.bounds {
            text += &format!(" if {} <= {} < {}", bound.low, self.address_text(bound.value), bound.high);
        }
        for (mask, _) in &load.masks {
            text += &format!(" if {}", self.slot_text(*mask));
        }
        text
    }

    fn slot_text(&self, slot: FrameSlot) -> String {
        let info = &self.slots[slot.0 as usize];
        let suffix = match info.shape {
            TileShape::Scalar => "",
            TileShape::Row => "[r]",
            TileShape::Column => "[c]",
            _ => "[r,c]",
        };
        match info.storage {
            SlotStorage::Constant(_, bits) => {
                crate::base::Scalar::from_bits(bits, info.dtype.compute()).to_string()
            }
            SlotStorage::Argument(_, number, _) => format!("arg{number}"),
            SlotStorage::Register(offset) => format!("v{}@{offset}:{}{suffix}", slot.0, info.dtype),
            SlotStorage::Memory | SlotStorage::ReductionState => {
                format!("v{}:{}{suffix}", slot.0, info.dtype)
            }
        }
    }

    fn address_text(&self, id: AddressId) -> String {
        let address = &self.addresses[id.0 as usize];
        let terms = address.strides.iter().enumerate().filter(|(_, stride)| **stride != 0);
        let mut parts: Vec<String> = terms
            .map(|(axis, stride)| if *stride == 1 { format!("i{axis}") } else { format!("{stride}*i{axis}") })
            .collect();
        if address.offset != 0 || parts.is_empty() {
            parts.push(address.offset.to_string());
        }
        parts.join(" + ")
    }
}
