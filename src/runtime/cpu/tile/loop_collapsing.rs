//! Loop collapsing: two loops of a pass become one (Polychronopoulos, "Loop coalescing: a
//! compiler transformation for parallel machines", 1987).

use crate::runtime::cpu::tile::program::{
    AddressId, FrameSlot, Instr, Loop, LoopBody, LoopNest, ReductionForm, SlotStorage, TileProgram,
    WorkPartition,
};
use crate::runtime::cpu::tile::strength_reduction::is_pointer_load;

/// Makes one loop of a pass's rows and columns where all it touches is contiguous from
/// the end of a row to the start of the next. Other passes of the level may tell the rows apart: what a
/// group's channels are multiplied by, but not what the group's mean is of.
pub fn collapse_loops(program: &mut TileProgram) {
    // Threads share the points of the level that all passes over it have.
    if matches!(program.partition, WorkPartition::ReductionRows(_)) {
        return;
    }
    for number in 0..program.bodies.len() {
        let body = &program.bodies[number];
        let collapsed = (body.level > 0).then(|| collapsed(program, body)).flatten();
        program.bodies[number].loops = collapsed;
    }
}

/// The loops of a body, columns and the innermost other that has several turns as one.
fn collapsed(program: &TileProgram, body: &LoopBody) -> Option<LoopNest> {
    let loops = &program.loops[usize::from(body.level)];
    let columns = loops.iter().position(|l| Some(l.axis) == program.col)?;
    let rows = loops.iter().rposition(|l| Some(l.axis) != program.col && l.trip_count() > 1)?;
    let (outer, inner) = (&loops[rows], &loops[columns]);
    if outer.chunk != 1 || outer.start != 0 || inner.start != 0 {
        return None;
    }
    let contiguous = |address: AddressId| {
        let [along, down] = [inner, outer].map(|l| program.stride_along(address, Some(l.axis)));
        down == along * inner.end as i64
    };
    let positions = program.reductions.iter().filter_map(|reduction| reduction.position);
    let instrs = || body.instrs.iter().chain(body.hoisted.iter().flat_map(|(_, instrs)| instrs));
    let outside = body.hoisted.iter().all(|(count, _)| *count <= rows.min(columns));
    let same = body.addresses.iter().copied().chain(positions).all(contiguous);
    if !outside || !same || !instrs().all(|instr| depends_on_tile_only(program, instr)) {
        return None;
    }
    let (end, tile) = (outer.end * inner.end, program.tile.1);
    let chunk = if instrs().any(|instr| writes_row_register(program, instr)) {
        end.div_ceil(end.div_ceil(tile)).next_multiple_of(16).min(tile)
    } else {
        end
    };
    let others = loops.iter().filter(|l| l.axis != outer.axis && l.axis != inner.axis);
    // The outer axis stays at its first position.
    let own = [Loop { end: 1, ..*outer }, Loop { end, chunk, ..*inner }];
    Some(others.copied().chain(own).collect())
}

/// Whether an instruction depends on no more than addresses and the size of the tile at hand.
fn depends_on_tile_only(program: &TileProgram, instr: &Instr) -> bool {
    match instr {
        Instr::Micro { .. } | Instr::Rowwise(_) | Instr::Load(_) | Instr::Gather(_) => true,
        Instr::Index { .. } | Instr::Inside { .. } | Instr::Check(..) => true,
        Instr::ForwardDest(_) | Instr::Store(_) => true,
        Instr::Update(number) => match program.reductions[*number as usize].form {
            ReductionForm::Horizontal { .. } => true,
            ReductionForm::Vertical { .. } => false,
        },
        Instr::DeferProduct(_)
        | Instr::Expand { .. }
        | Instr::Scatter(_)
        | Instr::ReduceRows(_)
        | Instr::Scan(_) => false,
        Instr::FromBlock(_) | Instr::ForwardBlockDest(_) | Instr::ToBlock(_) => false,
        Instr::Nest { .. } | Instr::BeginPass { .. } | Instr::FinishReduction(_) => false,
    }
}

/// Whether an instruction writes a register that holds a tile's columns.
fn writes_row_register(program: &TileProgram, instr: &Instr) -> bool {
    let register = |slot: FrameSlot| {
        let info = &program.slots[slot.0 as usize];
        info.shape.cols() && matches!(info.storage, SlotStorage::Register(_))
    };
    match instr {
        Instr::Micro { to, .. } | Instr::Index { to, .. } | Instr::Inside { to, .. } => register(*to),
        Instr::Rowwise(op) => register(op.to.0),
        Instr::Load(load) => !is_pointer_load(program, load) && register(load.to),
        Instr::Check(..) | Instr::ForwardDest(_) | Instr::Store(_) | Instr::Update(_) => false,
        Instr::Gather(_) | Instr::DeferProduct(_) | Instr::Expand { .. } | Instr::Scatter(_) => true,
        Instr::ReduceRows(_)
        | Instr::Scan(_)
        | Instr::FromBlock(_)
        | Instr::ForwardBlockDest(_)
        | Instr::ToBlock(_) => true,
        Instr::Nest { .. } | Instr::BeginPass { .. } | Instr::FinishReduction(_) => true,
    }
}
