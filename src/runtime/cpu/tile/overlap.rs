//! The product that ends a row along with a loop of the next one (software pipelining; Lam,
//! "Software pipelining: an effective scheduling technique for VLIW machines", 1988).

use crate::runtime::cpu::micro::MicroFn;
use crate::runtime::cpu::tile::program::{Place, Program, Slot, Step, units};

/// Bytes of a page: lines of the cache with one place within it hinder each other.
const PAGE: usize = 4096;

/// A product of a line and a number that is left for a loop of the next iteration, where it
/// writes a store's values in place.
#[derive(Clone, Debug)]
pub struct PutOff {
    /// The product.
    pub step: Step,
    /// Its loop.
    pub function: MicroFn,
    /// Where the store's values go.
    pub to: Slot,
    /// The number.
    pub number: Slot,
    /// The line, which trades places with the next iteration's.
    pub line: [Slot; 2],
}

/// Puts the product that ends an iteration of level 0 off until the next one's computes what a
/// product reads, where that has a loop for both. What it reads trades places between two
/// registers; the kernel has no other output, so nothing makes them point at memory.
pub fn overlap(program: &mut Program) {
    if program.tile.0 > 1 || units(&program.loops[0]) == 1 {
        return;
    }
    let Some(mut body) = program.bodies.pop() else { return };
    if let [before @ .., product, Step::Store(store)] = &mut body.steps[..]
        && let Some(mut off) = late(product)
        && off.to == store.from
        && before.iter().any(|step| overlaps(step, off.line[0]))
    {
        off.line[1] = second(program, off.line[0]);
        *product = Step::PutOff(Box::new(off));
    }
    program.bodies.push(body);
}

/// A product that can be put off, but for the second place of the line it reads.
fn late(step: &Step) -> Option<PutOff> {
    let (streaming, to, [line, number, ..]) = match step {
        Step::Lines(lines) if lines.aim.is_none() => {
            (lines.streaming, lines.to.0, lines.from.map(|(slot, _)| slot))
        }
        Step::Micro { streaming, to, from, .. } => (*streaming, *to, *from),
        _ => return None,
    };
    let function = streaming.filter(|streaming| streaming.deferrable)?.function;
    Some(PutOff { step: step.clone(), function, to, number, line: [line; 2] })
}

/// Whether a step computes a slot's values by a loop that can do what was put off too.
fn overlaps(step: &Step, slot: Slot) -> bool {
    match step {
        Step::Lines(lines) => lines.to.0 == slot && lines.overlap.is_some() && lines.aim.is_none(),
        _ => false,
    }
}

/// A second register like another. Both have places of their own: one of them lives from each
/// iteration to the next, while others are written.
fn second(program: &mut Program, slot: Slot) -> Slot {
    let other = Slot(program.slots.len() as u32);
    let info = program.slots[slot.0 as usize];
    program.slots.push(info);
    let (rows, cols) = program.tile;
    let bytes = info.class.count(rows, cols) * info.dtype.compute().size();
    let start = program.scratch;
    let after = start + bytes.next_multiple_of(PAGE) + PAGE / 2;
    program.slots[slot.0 as usize].place = Place::Register(start);
    program.slots[other.0 as usize].place = Place::Register(after);
    program.scratch = after + bytes;
    other
}
