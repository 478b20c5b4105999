//! Pointer strength reduction: a loop increments pointers instead of recomputing them (Allen,
//! Cocke and Kennedy, "Reduction of operator strength", 1981).

use crate::base::DType;
use crate::runtime::cpu::tile::program::{
    AddressId, DestForwarding, FrameSlot, Instr, Loop, LoopBody, RowLayout, SlotStorage, TileLoad,
    TileProgram, TileShape, TileStore,
};

/// Hoists what makes slots point at memory out of the innermost loop of level 0, where each iteration
/// advances the memory by as much, and increments the pointers instead.
pub fn reduce_strength(program: &mut TileProgram) {
    let Some(inner) = program.loops[0].last().copied() else { return };
    let around = program.loops[0].len() - 1;
    let Some(mut body) = program.bodies.pop() else { return };
    let mut remaining = pointer_definitions(program, &body.instrs);
    let mut hoisted = Vec::new();
    for instr in std::mem::take(&mut body.instrs) {
        let once = |slot: FrameSlot| remaining.iter().filter(|one| **one == slot).count() == 1;
        match pointer_increment(program, &inner, &remaining, &instr).filter(|(slot, _)| once(*slot)) {
            Some((slot, bytes)) => {
                remaining.retain(|one| *one != slot);
                body.pointer_increments.extend((bytes != 0).then_some((slot, bytes)));
                hoisted.push(instr);
            }
            None => body.instrs.push(instr),
        }
    }
    mark_forwarded_stores(&mut body, &hoisted);
    match body.hoisted.iter_mut().find(|(loops, _)| *loops == around) {
        Some((_, instrs)) => instrs.extend(hoisted),
        None if hoisted.is_empty() => {}
        None => body.hoisted.push((around, hoisted)),
    }
    program.bodies.push(body);
}

/// The slot that an instruction makes point at memory, and how far a loop advances it. Where an
/// instruction may write depends on what it reads, none of which may be `remaining` to be set.
fn pointer_increment(
    program: &TileProgram,
    inner: &Loop,
    remaining: &[FrameSlot],
    instr: &Instr,
) -> Option<(FrameSlot, isize)> {
    let bytes = |address: AddressId, dtype: DType| {
        program.stride_along(address, Some(inner.axis)) as isize * (inner.chunk * dtype.size()) as isize
    };
    match instr {
        Instr::Load(load) => {
            is_pointer_load(program, load).then(|| (load.to, bytes(load.address, load.dtype)))
        }
        Instr::ForwardDest(forwarding) => {
            let DestForwarding { store, operands, .. } = &**forwarding;
            let known = !operands.iter().any(|slot| remaining.contains(slot));
            let dense = is_dense(program, store.shape, store.address);
            (known && dense).then(|| (store.from, bytes(store.address, store.dtype)))
        }
        _ => None,
    }
}

/// Lets stores do nothing where what was moved made an instruction write in place.
fn mark_forwarded_stores(body: &mut LoopBody, moved: &[Instr]) {
    for instr in &mut body.instrs {
        if let Instr::Store(store) = instr {
            let place = |store: &TileStore| (store.from, store.memory, store.address);
            store.forwarded = moved.iter().any(|instr| match instr {
                Instr::ForwardDest(forwarding) => place(&forwarding.store) == place(store),
                _ => false,
            });
        }
    }
}

/// Slots that instructions make point somewhere, once for each instruction that does.
fn pointer_definitions(program: &TileProgram, instrs: &[Instr]) -> Vec<FrameSlot> {
    let bodies = program
        .bodies
        .iter()
        .flat_map(|body| body.instrs.iter().chain(body.hoisted.iter().flat_map(|(_, instrs)| instrs)));
    let mut slots = Vec::new();
    for instr in bodies.chain(instrs) {
        match instr {
            Instr::Load(load) => slots.push(load.to),
            Instr::Gather(gather) => slots.push(gather.load.to),
            Instr::ForwardDest(forwarding) => slots.push(forwarding.store.from),
            Instr::Rowwise(op) => {
                slots.extend(op.forwarding.as_ref().map(|forwarding| forwarding.store.from))
            }
            Instr::FromBlock(block) | Instr::ForwardBlockDest(block) => slots.push(block.slot),
            _ => {}
        }
    }
    let states = (0..program.slots.len())
        .filter(|&slot| matches!(program.slots[slot].storage, SlotStorage::ReductionState));
    slots.extend(states.map(|slot| FrameSlot(slot as u32)));
    slots
}

/// Whether a load does nothing but point at memory.
pub fn is_pointer_load(program: &TileProgram, load: &TileLoad) -> bool {
    load.plain()
        && !load.forwarded
        && matches!(load.layout, RowLayout::Contiguous(None))
        && (load.in_place || is_dense(program, load.shape, load.address))
}

/// Whether the elements of any tile follow one another.
fn is_dense(program: &TileProgram, shape: TileShape, address: AddressId) -> bool {
    let (rows, cols) = program.tile;
    let along = |axis| program.stride_along(address, axis);
    let all = program.col.is_some_and(|col| cols == program.axes[col.index()].extent);
    match (shape.rows(), shape.cols()) {
        (true, true) => along(program.col) == 1 && (rows == 1 || all && along(program.row) == cols as i64),
        (true, false) => along(program.row) == 1,
        (false, true) => along(program.col) == 1,
        (false, false) => true,
    }
}
