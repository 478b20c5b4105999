//! Loops of a pass that are one loop (loop collapsing; Polychronopoulos, "Loop coalescing: a
//! compiler transformation for parallel machines", 1987).

use crate::runtime::cpu::tile::moves::points;
use crate::runtime::cpu::tile::program::{
    AddressId, Body, Loop, Loops, Place, Program, ReductionForm, Sharing, Slot, Step,
};

/// Makes one loop of a pass's lines and of the columns in them where all it touches goes on from
/// the end of a line to the start of the next. Other passes of the level may tell the lines apart: what a
/// group's channels are multiplied by, but not what the group's mean is of.
pub fn collapse(program: &mut Program) {
    // Threads share the points of the level that all passes over it have.
    if matches!(program.sharing, Sharing::Rows(_)) {
        return;
    }
    for number in 0..program.bodies.len() {
        let body = &program.bodies[number];
        let collapsed = (body.level > 0).then(|| collapsed(program, body)).flatten();
        program.bodies[number].loops = collapsed;
    }
}

/// The loops of a body, columns and the innermost other that has several turns as one.
fn collapsed(program: &Program, body: &Body) -> Option<Loops> {
    let loops = &program.loops[usize::from(body.level)];
    let columns = loops.iter().position(|l| Some(l.axis) == program.col)?;
    let lines = loops.iter().rposition(|l| Some(l.axis) != program.col && l.count() > 1)?;
    let (outer, inner) = (&loops[lines], &loops[columns]);
    if outer.chunk != 1 || outer.start != 0 || inner.start != 0 {
        return None;
    }
    let goes_on = |address: AddressId| {
        let [along, down] = [inner, outer].map(|l| program.step_along(address, Some(l.axis)));
        down == along * inner.end as i64
    };
    let positions = program.reductions.iter().filter_map(|reduction| reduction.position);
    let steps = || body.steps.iter().chain(body.hoisted.iter().flat_map(|(_, steps)| steps));
    let outside = body.hoisted.iter().all(|(count, _)| *count <= lines.min(columns));
    let same = body.addresses.iter().copied().chain(positions).all(goes_on);
    if !outside || !same || !steps().all(|step| by_tile(program, step)) {
        return None;
    }
    let (end, tile) = (outer.end * inner.end, program.tile.1);
    let chunk = if steps().any(|step| holds_line(program, step)) {
        end.div_ceil(end.div_ceil(tile)).next_multiple_of(16).min(tile)
    } else {
        end
    };
    let others = loops.iter().filter(|l| l.axis != outer.axis && l.axis != inner.axis);
    // The outer axis stays at its first position.
    let own = [Loop { end: 1, ..*outer }, Loop { end, chunk, ..*inner }];
    Some(others.copied().chain(own).collect())
}

/// Whether a step depends on no more than addresses and the size of the tile at hand.
fn by_tile(program: &Program, step: &Step) -> bool {
    match step {
        Step::Micro { .. } | Step::Lines(_) | Step::Load(_) | Step::Gather(_) => true,
        Step::Index { .. } | Step::Inside { .. } | Step::Check(..) => true,
        Step::Aim(_) | Step::Store(_) => true,
        Step::Update(number) => match program.reductions[*number as usize].form {
            ReductionForm::Horizontal { .. } => true,
            ReductionForm::Vertical { .. } => false,
        },
        Step::PutOff(_) | Step::Expand { .. } | Step::Scatter(_) | Step::Reduce(_) | Step::Scan(_) => false,
        Step::FromBlock(_) | Step::AimBlock(_) | Step::ToBlock(_) => false,
        Step::Nest { .. } | Step::Begin { .. } | Step::Finish(_) => false,
    }
}

/// Whether a step writes a register that holds a tile's columns.
fn holds_line(program: &Program, step: &Step) -> bool {
    let register = |slot: Slot| {
        let info = &program.slots[slot.0 as usize];
        info.class.cols() && matches!(info.place, Place::Register(_))
    };
    match step {
        Step::Micro { to, .. } | Step::Index { to, .. } | Step::Inside { to, .. } => register(*to),
        Step::Lines(lines) => register(lines.to.0),
        Step::Load(load) => !points(program, load) && register(load.to),
        Step::Check(..) | Step::Aim(_) | Step::Store(_) | Step::Update(_) => false,
        Step::Gather(_) | Step::PutOff(_) | Step::Expand { .. } | Step::Scatter(_) => true,
        Step::Reduce(_) | Step::Scan(_) | Step::FromBlock(_) | Step::AimBlock(_) | Step::ToBlock(_) => true,
        Step::Nest { .. } | Step::Begin { .. } | Step::Finish(_) => true,
    }
}
