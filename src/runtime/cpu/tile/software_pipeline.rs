//! Software pipelining: the product that ends a row runs along with a loop of the next one.
//!
//! Lam, "Software pipelining: an effective scheduling technique for VLIW machines", 1988.

use kiln_simd::micro::MicroFn;

use crate::runtime::cpu::tile::program::{FrameSlot, Instr, SlotStorage, TileProgram, trip_count};

/// Bytes of a page: cache lines at one offset within it conflict in the cache.
const PAGE: usize = 4096;

/// A product of a row and a scalar, deferred to a loop of the next iteration, where it
/// writes a store's values in place.
#[derive(Clone, Debug)]
pub struct PipelinedProduct {
    /// The product.
    pub instr: Instr,
    /// Its loop.
    pub function: MicroFn,
    /// Where the store's values go.
    pub to: FrameSlot,
    /// The number.
    pub number: FrameSlot,
    /// The row, which is swapped with the next iteration's.
    pub buffers: [FrameSlot; 2],
}

/// Defers the product that ends an iteration of level 0 until the next one's computes what a
/// product reads, where that has a loop for both. What it reads is double-buffered: swapped between two
/// registers; the kernel has no other output, so nothing makes them point at memory.
pub fn defer_last_product(program: &mut TileProgram) {
    if program.tile.0 > 1 || trip_count(&program.loops[0]) == 1 {
        return;
    }
    let Some(mut body) = program.bodies.pop() else { return };
    if let [before @ .., product, Instr::Store(store)] = &mut body.instrs[..]
        && let Some(mut deferred) = deferrable_product(product)
        && deferred.to == store.from
        && before.iter().any(|instr| can_overlap(instr, deferred.buffers[0]))
    {
        deferred.buffers[1] = double_buffer(program, deferred.buffers[0]);
        *product = Instr::DeferProduct(Box::new(deferred));
    }
    program.bodies.push(body);
}

/// A product that can be deferred, but for the second buffer of the row it reads.
fn deferrable_product(instr: &Instr) -> Option<PipelinedProduct> {
    let (non_temporal, to, [line, number, ..]) = match instr {
        Instr::Rowwise(op) if op.forwarding.is_none() => {
            (op.non_temporal, op.to.0, op.from.map(|(slot, _)| slot))
        }
        Instr::Micro { non_temporal, to, from, .. } => (*non_temporal, *to, *from),
        _ => return None,
    };
    let function = non_temporal.filter(|variant| variant.deferrable)?.function;
    Some(PipelinedProduct { instr: instr.clone(), function, to, number, buffers: [line; 2] })
}

/// Whether an instruction computes a slot's values by a loop that can do the deferred product too.
fn can_overlap(instr: &Instr, slot: FrameSlot) -> bool {
    match instr {
        Instr::Rowwise(op) => op.to.0 == slot && op.overlap.is_some() && op.forwarding.is_none(),
        _ => false,
    }
}

/// A double buffer: a second register like another. Both have storage of their own: one of them
/// lives from each iteration to the next, while others are written.
fn double_buffer(program: &mut TileProgram, slot: FrameSlot) -> FrameSlot {
    let other = FrameSlot(program.slots.len() as u32);
    let info = program.slots[slot.0 as usize];
    program.slots.push(info);
    let (rows, cols) = program.tile;
    let bytes = info.shape.count(rows, cols) * info.dtype.compute().size();
    let start = program.scratch;
    let after = start + bytes.next_multiple_of(PAGE) + PAGE / 2;
    program.slots[slot.0 as usize].storage = SlotStorage::Register(start);
    program.slots[other.0 as usize].storage = SlotStorage::Register(after);
    program.scratch = after + bytes;
    other
}
