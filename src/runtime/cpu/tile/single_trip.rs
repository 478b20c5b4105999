//! Single-trip loop elimination: passes over levels of one point run as part of the enclosing body.

use crate::runtime::cpu::tile::program::{
    Instr, LoopBody, RowLayout, TileLoad, TileProgram, TileShape, trip_count,
};

/// Puts the instructions of a pass in its place where its level has one point, as where a tile
/// holds whole rows: to enter a body costs as much as a loop over a hundred elements. What of
/// them points at loop-invariant memory goes before the loops.
pub fn eliminate_single_trip_loops(program: &mut TileProgram) {
    // A body's number is higher than those of the bodies within it.
    for number in 0..program.bodies.len() {
        let instrs = std::mem::take(&mut program.bodies[number].instrs);
        let mut flat = Vec::with_capacity(instrs.len());
        for instr in instrs {
            match instr {
                Instr::Nest { body, reductions, scans } if is_single_trip(program, body) => {
                    let inner = std::mem::take(&mut program.bodies[body as usize]);
                    add_addresses(&mut program.bodies[number], &inner);
                    flat.push(Instr::BeginPass { reductions: reductions.clone(), scans });
                    let instrs = inner.hoisted.into_iter().flat_map(|(_, instrs)| instrs).chain(inner.instrs);
                    let level = program.bodies[number].level;
                    let (invariant, variant): (Vec<Instr>, Vec<Instr>) =
                        instrs.partition(|instr| is_invariant_pointer(program, level, instr));
                    hoist(&mut program.bodies[number], invariant);
                    flat.extend(variant);
                    flat.extend(reductions.into_iter().map(Instr::FinishReduction));
                }
                instr => flat.push(instr),
            }
        }
        program.bodies[number].instrs = flat;
    }
}

/// Whether a body's level has one point.
fn is_single_trip(program: &TileProgram, body: u32) -> bool {
    trip_count(&program.loops[program.bodies[body as usize].level as usize]) == 1
}

/// Whether an instruction makes a slot point at the same memory at each point of a level.
fn is_invariant_pointer(program: &TileProgram, level: u8, instr: &Instr) -> bool {
    let Instr::Load(load) = instr else { return false };
    let TileLoad { shape, layout, address, forwarded, .. } = &**load;
    let points = *shape == TileShape::Column && matches!(layout, RowLayout::Contiguous(None));
    let invariant = |axis| program.stride_along(*address, Some(axis)) == 0;
    load.plain()
        && !forwarded
        && points
        && program.stride_along(*address, program.col) == 1
        && program.loops[usize::from(level)].iter().all(|l| l.trip_count() == 1 || invariant(l.axis))
}

/// Puts instructions before all loops of a body.
fn hoist(body: &mut LoopBody, instrs: Vec<Instr>) {
    if instrs.is_empty() {
        return;
    }
    match body.hoisted.first_mut().filter(|(loops, _)| *loops == 0) {
        Some((_, first)) => first.extend(instrs),
        None => body.hoisted.insert(0, (0, instrs)),
    }
}

/// Keeps the addresses of a body within current where the one around it advances.
fn add_addresses(outer: &mut LoopBody, inner: &LoopBody) {
    for &address in &inner.addresses {
        if !outer.addresses.contains(&address) {
            outer.addresses.push(address);
        }
    }
}
