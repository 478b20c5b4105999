//! Reductions that begin and end with a line.

use std::ops::Range;

use crate::runtime::cpu::tile::program::{Place, Program, ReductionForm, Slot, Step};

/// Merges the beginning and the end of reductions into the step that takes their elements in,
/// where that has all of them and the end is what follows: what is known of the elements need
/// not go through memory, and a row takes fewer steps.
pub fn merge(program: &mut Program) {
    for number in 0..program.bodies.len() {
        let mut steps = std::mem::take(&mut program.bodies[number].steps);
        let mut at = 1;
        while at < steps.len() {
            if let Step::Finish(reduction) = steps[at]
                && let Some(begin) = begins(&steps[..at], reduction)
                && let Some(merged) = merged(program, &steps[at - 1], reduction)
            {
                steps[at - 1] = merged;
                steps.remove(at);
                if let Step::Begin { reductions, .. } = &mut steps[begin] {
                    reductions.retain(|one| *one != reduction);
                }
                continue;
            }
            at += 1;
        }
        let idle = |step: &Step| match step {
            Step::Begin { reductions, scans } => reductions.is_empty() && scans.is_empty(),
            _ => false,
        };
        steps.retain(|step| !idle(step));
        program.bodies[number].steps = steps;
    }
}

/// The step that begins a reduction.
fn begins(steps: &[Step], reduction: u32) -> Option<usize> {
    steps.iter().position(|step| match step {
        Step::Begin { reductions, .. } => reductions.contains(&reduction),
        _ => false,
    })
}

/// A step that takes elements in, with a reduction's beginning and end.
fn merged(program: &Program, step: &Step, number: u32) -> Option<Step> {
    let reduction = &program.reductions[number as usize];
    let ReductionForm::Horizontal { state, index, .. } = &reduction.form else { return None };
    let apart = |read: &[Slot]| read.iter().all(|slot| keeps(program, *slot, reduction.result));
    match step {
        Step::Update(one) if *one == number && apart(&[reduction.operand]) => Some(Step::Reduce(number)),
        Step::Lines(lines) if !index => {
            let takes = lines.to.0 == *state || lines.from[2].0 == *state;
            let [a, b, ..] = lines.from.map(|(slot, _)| slot);
            (takes && apart(&[a, b, lines.to.0])).then(|| {
                let mut lines = lines.clone();
                lines.whole = Some(number);
                Step::Lines(lines)
            })
        }
        _ => None,
    }
}

/// Whether results that are written line by line leave a slot's values for the lines that
/// follow: where they lie apart, or take the place of one value each that has been read.
fn keeps(program: &Program, read: Slot, written: Slot) -> bool {
    let (before, after) = (registers(program, read), registers(program, written));
    let apart = before.end <= after.start || after.end <= before.start;
    let along = |slot: Slot| program.slots[slot.0 as usize].class.cols();
    apart || program.tile.0 == 1 || (before == after && !along(read) && !along(written))
}

/// The bytes of scratch memory that a slot's values take, or none.
fn registers(program: &Program, slot: Slot) -> Range<usize> {
    let info = &program.slots[slot.0 as usize];
    let (rows, cols) = program.tile;
    let count = if info.class.rows() { rows } else { 1 } * if info.class.cols() { cols } else { 1 };
    match info.place {
        Place::Register(offset) => offset..offset + count * info.dtype.compute().size(),
        Place::Constant(..) | Place::Argument(..) | Place::Memory | Place::States => 0..0,
    }
}
