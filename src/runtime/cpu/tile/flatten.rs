//! Passes over levels of one point, run as part of what is around them.

use crate::runtime::cpu::tile::program::{Body, Program, Step, units};

/// Puts the steps of a pass in its place where its level has one point, as where a tile
/// holds whole rows: to enter a body costs as much as a loop over a hundred elements.
pub fn flatten(program: &mut Program) {
    // A body's number is higher than those of the bodies within it.
    for number in 0..program.bodies.len() {
        let steps = std::mem::take(&mut program.bodies[number].steps);
        let mut flat = Vec::with_capacity(steps.len());
        for step in steps {
            match step {
                Step::Nest { body, reductions, scans } if single(program, body) => {
                    let inner = std::mem::take(&mut program.bodies[body as usize]);
                    add_addresses(&mut program.bodies[number], &inner);
                    flat.push(Step::Begin { reductions: reductions.clone(), scans });
                    flat.extend(inner.hoisted.into_iter().flat_map(|(_, steps)| steps));
                    flat.extend(inner.steps);
                    flat.extend(reductions.into_iter().map(Step::Finish));
                }
                step => flat.push(step),
            }
        }
        program.bodies[number].steps = flat;
    }
}

/// Whether a body's level has one point.
fn single(program: &Program, body: u32) -> bool {
    units(&program.loops[program.bodies[body as usize].level as usize]) == 1
}

/// Keeps the addresses of a body within current where the one around it advances.
fn add_addresses(outer: &mut Body, inner: &Body) {
    for &address in &inner.addresses {
        if !outer.addresses.contains(&address) {
            outer.addresses.push(address);
        }
    }
}
