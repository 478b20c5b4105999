//! Pointers that go on with a loop instead of being found again (strength reduction; Allen,
//! Cocke and Kennedy, "Reduction of operator strength", 1981).

use crate::base::DType;
use crate::runtime::cpu::tile::program::{
    AddressId, Aim, Body, Class, Line, Load, Loop, Place, Program, Slot, Step, Store,
};

/// Moves what makes slots point at memory out of the innermost loop of level 0, where that
/// memory goes on with the loop by as much each time, and lets the slots follow.
pub fn follow(program: &mut Program) {
    let Some(inner) = program.loops[0].last().copied() else { return };
    let around = program.loops[0].len() - 1;
    let Some(mut body) = program.bodies.pop() else { return };
    let mut still = pointed(program, &body.steps);
    let mut hoisted = Vec::new();
    for step in std::mem::take(&mut body.steps) {
        let once = |slot: Slot| still.iter().filter(|one| **one == slot).count() == 1;
        match moved(program, &inner, &still, &step).filter(|(slot, _)| once(*slot)) {
            Some((slot, bytes)) => {
                still.retain(|one| *one != slot);
                body.moves.extend((bytes != 0).then_some((slot, bytes)));
                hoisted.push(step);
            }
            None => body.steps.push(step),
        }
    }
    tell_stores(&mut body, &hoisted);
    match body.hoisted.iter_mut().find(|(loops, _)| *loops == around) {
        Some((_, steps)) => steps.extend(hoisted),
        None if hoisted.is_empty() => {}
        None => body.hoisted.push((around, hoisted)),
    }
    program.bodies.push(body);
}

/// The slot that a step makes point at memory, and how far that goes on with a loop. Where a
/// step may write depends on what it reads, none of which may be `still` to be pointed at.
fn moved(program: &Program, inner: &Loop, still: &[Slot], step: &Step) -> Option<(Slot, isize)> {
    let bytes = |address: AddressId, dtype: DType| {
        program.step_along(address, Some(inner.axis)) as isize * (inner.chunk * dtype.size()) as isize
    };
    match step {
        Step::Load(load) => points(program, load).then(|| (load.to, bytes(load.address, load.dtype))),
        Step::Aim(aim) => {
            let Aim { store, operands, .. } = &**aim;
            let known = !operands.iter().any(|slot| still.contains(slot));
            let dense = dense(program, store.class, store.address);
            (known && dense).then(|| (store.from, bytes(store.address, store.dtype)))
        }
        _ => None,
    }
}

/// Lets stores do nothing where what was moved made a step write in place.
fn tell_stores(body: &mut Body, moved: &[Step]) {
    for step in &mut body.steps {
        if let Step::Store(store) = step {
            let place = |store: &Store| (store.from, store.memory, store.address);
            store.aimed = moved.iter().any(|step| match step {
                Step::Aim(aim) => place(&aim.store) == place(store),
                _ => false,
            });
        }
    }
}

/// Slots that steps make point somewhere, once for each step that does.
fn pointed(program: &Program, steps: &[Step]) -> Vec<Slot> {
    let bodies = program
        .bodies
        .iter()
        .flat_map(|body| body.steps.iter().chain(body.hoisted.iter().flat_map(|(_, steps)| steps)));
    let mut slots = Vec::new();
    for step in bodies.chain(steps) {
        match step {
            Step::Load(load) => slots.push(load.to),
            Step::Gather(gather) => slots.push(gather.load.to),
            Step::Aim(aim) => slots.push(aim.store.from),
            Step::Lines(lines) => slots.extend(lines.aim.as_ref().map(|aim| aim.store.from)),
            Step::FromBlock(block) | Step::AimBlock(block) => slots.push(block.slot),
            _ => {}
        }
    }
    let states = (0..program.slots.len()).filter(|&slot| matches!(program.slots[slot].place, Place::States));
    slots.extend(states.map(|slot| Slot(slot as u32)));
    slots
}

/// Whether a load does nothing but point at memory.
pub fn points(program: &Program, load: &Load) -> bool {
    load.plain()
        && !load.aimed
        && matches!(load.line, Line::Unit(None))
        && (load.in_place || dense(program, load.class, load.address))
}

/// Whether the elements of any tile follow one another.
fn dense(program: &Program, class: Class, address: AddressId) -> bool {
    let (rows, cols) = program.tile;
    let along = |axis| program.step_along(address, axis);
    let all = program.col.is_some_and(|col| cols == program.axes[col.index()].extent);
    match (class.rows(), class.cols()) {
        (true, true) => along(program.col) == 1 && (rows == 1 || all && along(program.row) == cols as i64),
        (true, false) => along(program.row) == 1,
        (false, true) => along(program.col) == 1,
        (false, false) => true,
    }
}
