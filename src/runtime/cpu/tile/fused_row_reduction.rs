//! Fused row reductions: those that begin and end with a row.

use std::ops::Range;

use crate::runtime::cpu::tile::program::{FrameSlot, Instr, ReductionForm, SlotStorage, TileProgram};

/// Merges the beginning and the end of reductions into the instruction that takes their elements in,
/// where that has all of them and the end is what follows: what is known of the elements need
/// not go through memory, and a row takes fewer instructions.
pub fn fuse_row_reductions(program: &mut TileProgram) {
    for number in 0..program.bodies.len() {
        let mut instrs = std::mem::take(&mut program.bodies[number].instrs);
        let mut at = 1;
        while at < instrs.len() {
            if let Instr::FinishReduction(reduction) = instrs[at]
                && let Some(begin) = begin_of(&instrs[..at], reduction)
                && let Some(fused) = fused(program, &instrs[at - 1], reduction)
            {
                instrs[at - 1] = fused;
                instrs.remove(at);
                if let Instr::BeginPass { reductions, .. } = &mut instrs[begin] {
                    reductions.retain(|one| *one != reduction);
                }
                continue;
            }
            at += 1;
        }
        let idle = |instr: &Instr| match instr {
            Instr::BeginPass { reductions, scans } => reductions.is_empty() && scans.is_empty(),
            _ => false,
        };
        instrs.retain(|instr| !idle(instr));
        program.bodies[number].instrs = instrs;
    }
}

/// The instruction that begins a reduction.
fn begin_of(instrs: &[Instr], reduction: u32) -> Option<usize> {
    instrs.iter().position(|instr| match instr {
        Instr::BeginPass { reductions, .. } => reductions.contains(&reduction),
        _ => false,
    })
}

/// A instruction that takes elements in, with a reduction's beginning and end.
fn fused(program: &TileProgram, instr: &Instr, number: u32) -> Option<Instr> {
    let reduction = &program.reductions[number as usize];
    let ReductionForm::Horizontal { state, index, .. } = &reduction.form else { return None };
    let apart = |read: &[FrameSlot]| read.iter().all(|slot| preserves(program, *slot, reduction.result));
    match instr {
        Instr::Update(one) if *one == number && apart(&[reduction.operand]) => {
            Some(Instr::ReduceRows(number))
        }
        Instr::Rowwise(op) if !index => {
            let takes = op.to.0 == *state || op.from[2].0 == *state;
            let [a, b, ..] = op.from.map(|(slot, _)| slot);
            (takes && apart(&[a, b, op.to.0])).then(|| {
                let mut op = op.clone();
                op.row_reduction = Some(number);
                Instr::Rowwise(op)
            })
        }
        _ => None,
    }
}

/// Whether results that are written row by row leave a slot's values for the rows that
/// follow: where they are disjoint, or replace one value each that has been read.
fn preserves(program: &TileProgram, read: FrameSlot, written: FrameSlot) -> bool {
    let (before, after) = (scratch_range(program, read), scratch_range(program, written));
    let apart = before.end <= after.start || after.end <= before.start;
    let along = |slot: FrameSlot| program.slots[slot.0 as usize].shape.cols();
    apart || program.tile.0 == 1 || (before == after && !along(read) && !along(written))
}

/// The bytes of scratch memory that a slot's values take, or none.
fn scratch_range(program: &TileProgram, slot: FrameSlot) -> Range<usize> {
    let info = &program.slots[slot.0 as usize];
    let (rows, cols) = program.tile;
    let count = if info.shape.rows() { rows } else { 1 } * if info.shape.cols() { cols } else { 1 };
    match info.storage {
        SlotStorage::Register(offset) => offset..offset + count * info.dtype.compute().size(),
        SlotStorage::Constant(..)
        | SlotStorage::Argument(..)
        | SlotStorage::Memory
        | SlotStorage::ReductionState => 0..0,
    }
}
