//! Programs as text, for people.

use std::fmt;

use crate::runtime::cpu::tile::program::{
    AddressId, Asks, Body, Class, Line, Lines, Load, Loop, Place, Program, ReductionForm, ScanForm, Scatter,
    Sharing, Slot, Step,
};

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Program { name, tile: (rows, cols), scratch, .. } = self;
        let axis = |axis: Option<crate::kernel::AxisId>| axis.map_or("-".into(), |a| format!("i{}", a.0));
        writeln!(
            f,
            "tile {name}: {rows} x {cols} of {} x {}, {scratch} bytes of registers, {}",
            axis(self.row),
            axis(self.col),
            match self.sharing {
                Sharing::Serial => "one thread".into(),
                Sharing::Tiles(count) => format!("{count} tiles a job"),
                Sharing::Apart(count) => format!("{count} jobs"),
                Sharing::Rows(count) => format!("{count} rows a job"),
            }
        )?;
        match self.bodies.last() {
            Some(body) => self.body(f, body, 1),
            None => Ok(()),
        }
    }
}

impl Program {
    fn body(&self, f: &mut fmt::Formatter<'_>, body: &Body, depth: usize) -> fmt::Result {
        let loops = body.loops.as_ref().unwrap_or(&self.loops[body.level as usize]);
        let hoisted = |count: usize| body.hoisted.iter().filter(move |(loops, _)| *loops == count);
        for (count, l) in loops.iter().enumerate() {
            for (_, steps) in hoisted(count) {
                self.steps(f, steps, depth + count)?;
            }
            let Loop { axis, start, end, chunk } = l;
            let by = if *chunk == 1 { String::new() } else { format!(" by {chunk}") };
            writeln!(f, "{}for i{} in {start}..{end}{by}", "  ".repeat(depth + count), axis.0)?;
        }
        for (_, steps) in hoisted(loops.len()) {
            self.steps(f, steps, depth + loops.len())?;
        }
        self.steps(f, &body.steps, depth + loops.len())?;
        body.moves.iter().try_for_each(|(slot, bytes)| {
            let indent = "  ".repeat(depth + loops.len());
            writeln!(f, "{indent}{} goes on by {bytes} bytes", self.slot_text(*slot))
        })
    }

    fn steps(&self, f: &mut fmt::Formatter<'_>, steps: &[Step], depth: usize) -> fmt::Result {
        for step in steps {
            self.step(f, step, depth)?;
        }
        Ok(())
    }

    fn step(&self, f: &mut fmt::Formatter<'_>, step: &Step, depth: usize) -> fmt::Result {
        write!(f, "{}", "  ".repeat(depth))?;
        let slot = |slot: Slot| self.slot_text(slot);
        match step {
            Step::Micro { name, to, from, asks, .. } => {
                let from = self.operands(from);
                let next = match asks {
                    Asks::For(of, _) => format!(", asks for the next {}", slot(*of)),
                    Asks::Never | Asks::Nothing => String::new(),
                };
                writeln!(f, "{} = {name} {from}{next}", slot(*to))
            }
            Step::Lines(lines) => {
                writeln!(f, "{}", self.lines_text(lines))?;
                let Some(number) = lines.whole else { return Ok(()) };
                write!(f, "{}", "  ".repeat(depth))?;
                self.result(f, number)
            }
            Step::PutOff(off) => {
                write!(f, "put off ")?;
                self.step(f, &off.step, 0)
            }
            Step::Expand { to, from, .. } => writeln!(f, "{} = expand {}", slot(*to), slot(*from)),
            Step::Index { to, value, .. } => writeln!(f, "{} = {}", slot(*to), self.address_text(*value)),
            Step::Inside { to, bound, .. } => {
                let value = self.address_text(bound.value);
                writeln!(f, "{} = {} <= {value} < {}", slot(*to), bound.low, bound.high)
            }
            Step::Check(index, extent, _) => writeln!(f, "check 0 <= {} < {extent}", slot(*index)),
            Step::Load(load) => writeln!(f, "{}", self.load_text(load, "load")),
            Step::Gather(gather) => writeln!(f, "{}", self.load_text(&gather.load, "gather")),
            Step::Aim(aim) => {
                let out = aim.store.memory as usize - self.inputs;
                writeln!(f, "{} at out{out}", slot(aim.store.from))
            }
            Step::Store(store) => {
                let how = if store.stream { "stream" } else { "store" };
                let (out, at) = (store.memory as usize - self.inputs, self.address_text(store.address));
                writeln!(f, "{how} out{out}[{at}] = {}", slot(store.from))
            }
            Step::FromBlock(block) => writeln!(f, "{} = block", slot(block.slot)),
            Step::AimBlock(block) => writeln!(f, "{} at block", slot(block.slot)),
            Step::ToBlock(block) => writeln!(f, "block = {}", slot(block.slot)),
            Step::Scatter(scatter) => {
                let (at, value) = (self.address_text(scatter.address), slot(scatter.value));
                let Scatter { stride, index, .. } = &**scatter;
                writeln!(f, "scatter out0[{at} + {} * {stride}] = {value}", slot(*index))
            }
            Step::Update(number) => {
                let reduction = &self.reductions[*number as usize];
                match &reduction.form {
                    ReductionForm::Vertical { take: Some(step), .. } => {
                        write!(f, "r{number} takes ")?;
                        self.step(f, step, 0)
                    }
                    ReductionForm::Vertical { .. } | ReductionForm::Horizontal { .. } => {
                        writeln!(f, "r{number} takes {}", slot(reduction.operand))
                    }
                }
            }
            Step::Reduce(number) => {
                let operand = self.reductions[*number as usize].operand;
                write!(f, "r{number} takes {}; ", slot(operand))?;
                self.result(f, *number)
            }
            Step::Scan(number) => {
                let scan = &self.scans[*number as usize];
                let form = match scan.form {
                    ScanForm::Horizontal(..) => "along",
                    ScanForm::Vertical(..) => "down",
                };
                writeln!(f, "{} = scan {form} {}", slot(scan.result), slot(scan.operand))
            }
            Step::Nest { body, reductions, .. } => {
                writeln!(f, "pass")?;
                self.body(f, &self.bodies[*body as usize], depth + 1)?;
                reductions.iter().try_for_each(|&number| {
                    write!(f, "{}", "  ".repeat(depth))?;
                    self.result(f, number)
                })
            }
            Step::Begin { .. } => writeln!(f, "pass"),
            Step::Finish(number) => self.result(f, *number),
        }
    }

    fn lines_text(&self, lines: &Lines) -> String {
        let from = lines.from.map(|from| from.0);
        let aimed = lines.aim.as_ref().map(|aim| aim.store.memory as usize - self.inputs);
        let at = aimed.map_or(String::new(), |out| format!(" at out{out}"));
        let next = match lines.ahead.filter(|_| lines.asks) {
            Some(ahead) => format!(", asks for the next {}", self.slot_text(from[ahead.operand])),
            None => String::new(),
        };
        let (to, from) = (self.slot_text(lines.to.0), self.operands(&from));
        format!("{to} = {} {from} by line{at}{next}", lines.name)
    }

    /// The operands of a micro-op; unused ones repeat the first, and so does the last of a square.
    fn operands(&self, from: &[Slot]) -> String {
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

    fn load_text(&self, load: &Load, how: &str) -> String {
        let line = match load.line {
            Line::Unit(_) => "",
            Line::Strided(_) => " strided",
            Line::Transposed(_) => " transposed",
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

    fn slot_text(&self, slot: Slot) -> String {
        let info = &self.slots[slot.0 as usize];
        let shape = match info.class {
            Class::SCALAR => "",
            Class::ROW => "[r]",
            Class::COL => "[c]",
            _ => "[r,c]",
        };
        match info.place {
            Place::Constant(_, bits) => {
                crate::base::Scalar::from_bits(bits, info.dtype.compute()).to_string()
            }
            Place::Argument(_, number, _) => format!("arg{number}"),
            Place::Register(offset) => format!("v{}@{offset}:{}{shape}", slot.0, info.dtype),
            Place::Memory | Place::States => format!("v{}:{}{shape}", slot.0, info.dtype),
        }
    }

    fn address_text(&self, id: AddressId) -> String {
        let address = &self.addresses[id.0 as usize];
        let terms = address.steps.iter().enumerate().filter(|(_, step)| **step != 0);
        let mut parts: Vec<String> = terms
            .map(|(axis, step)| if *step == 1 { format!("i{axis}") } else { format!("{step}*i{axis}") })
            .collect();
        if address.offset != 0 || parts.is_empty() {
            parts.push(address.offset.to_string());
        }
        parts.join(" + ")
    }
}
