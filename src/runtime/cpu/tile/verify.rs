//! What holds of every tile program, whatever passes it went through.

use crate::runtime::cpu::tile::program::{AddressId, FrameSlot, Instr, LoopBody, SlotStorage, TileProgram};

/// Checks that a program refers to what it has, and that its bodies nest.
///
/// # Panics
/// With the pass that broke it.
pub fn verify(program: &TileProgram, pass: &str) {
    // By its name alone: a broken program cannot be printed.
    let broken = |what: String| panic!("after {pass}: {what} in {}", program.name);
    let level_of = |body: u32| program.bodies.get(body as usize).map(|body| body.level);
    for body in &program.bodies {
        for address in &body.addresses {
            if address.0 as usize >= program.addresses.len() {
                broken(format!("{address:?} of a body is none"));
            }
        }
        for instr in instrs(body) {
            for slot in slots(instr) {
                if slot.0 as usize >= program.slots.len() {
                    broken(format!("{slot:?} is none, of {instr:?}"));
                }
            }
            if let Some(address) = address(instr)
                && address.0 as usize >= program.addresses.len()
            {
                broken(format!("{address:?} is none, of {instr:?}"));
            }
            if let Instr::Nest { body: inner, .. } = instr
                && level_of(*inner).is_none_or(|level| level <= body.level)
            {
                broken(format!("body {inner} does not nest in one of level {}", body.level));
            }
        }
    }
    for slot in &program.slots {
        // A place of no elements may be at the end.
        if let SlotStorage::Register(at) | SlotStorage::Constant(at, _) | SlotStorage::Argument(at, ..) =
            slot.storage
            && at > program.scratch
        {
            broken(format!("a register at byte {at} of {}", program.scratch));
        }
    }
}

fn instrs(body: &LoopBody) -> impl Iterator<Item = &Instr> {
    body.hoisted.iter().flat_map(|(_, instrs)| instrs).chain(&body.instrs)
}

/// The slots that an instruction names itself.
fn slots(instr: &Instr) -> Vec<FrameSlot> {
    match instr {
        Instr::Micro { to, from, .. } => from.iter().copied().chain([*to]).collect(),
        Instr::Rowwise(op) => op.from.iter().map(|(slot, _)| *slot).chain([op.to.0]).collect(),
        Instr::Expand { to, from, .. } => vec![*to, *from],
        Instr::Index { to, .. } | Instr::Inside { to, .. } => vec![*to],
        Instr::Check(slot, ..) => vec![*slot],
        Instr::Load(load) => vec![load.to],
        Instr::Gather(gather) => vec![gather.load.to, gather.positions],
        Instr::ForwardDest(dest) => vec![dest.store.from],
        Instr::Store(store) => vec![store.from],
        Instr::FromBlock(block) | Instr::ForwardBlockDest(block) | Instr::ToBlock(block) => vec![block.slot],
        Instr::Scatter(scatter) => vec![scatter.value, scatter.index, scatter.positions],
        Instr::Update(_) | Instr::ReduceRows(_) | Instr::Scan(_) | Instr::FinishReduction(_) => vec![],
        Instr::Nest { .. } | Instr::BeginPass { .. } => vec![],
    }
}

/// The address that an instruction uses, if it uses one.
fn address(instr: &Instr) -> Option<AddressId> {
    match instr {
        Instr::Load(load) => Some(load.address),
        Instr::Gather(gather) => Some(gather.load.address),
        Instr::ForwardDest(dest) => Some(dest.store.address),
        Instr::Store(store) => Some(store.address),
        Instr::Index { value, .. } => Some(*value),
        Instr::Scatter(scatter) => Some(scatter.address),
        Instr::Micro { .. } | Instr::Rowwise(_) | Instr::Expand { .. } => None,
        Instr::Inside { .. } | Instr::Check(..) | Instr::FromBlock(_) | Instr::ForwardBlockDest(_) => None,
        Instr::ToBlock(_) | Instr::Update(_) | Instr::ReduceRows(_) | Instr::Scan(_) => None,
        Instr::Nest { .. } | Instr::BeginPass { .. } | Instr::FinishReduction(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::cpu::tile::compile;
    use crate::tensor::plan::plan;
    use crate::tensor::testing::pattern;

    #[test]
    #[should_panic(expected = "after a planted pass")]
    fn a_pass_that_loses_a_slot_is_named() {
        let report = plan(&[&pattern(&[4, 6], 0).exp()]).expect("a plan");
        let mut program = compile(report.kernels[0].work().kernel().expect("a kernel"), 1);
        verify(&program, "no pass");
        program.slots.truncate(1);
        verify(&program, "a planted pass");
    }
}
