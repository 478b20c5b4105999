//! Passes over levels of one point, run as part of what is around them.

use crate::runtime::cpu::tile::program::{Body, Class, Line, Load, Program, Step, units};

/// Puts the steps of a pass in its place where its level has one point, as where a tile
/// holds whole rows: to enter a body costs as much as a loop over a hundred elements. What of
/// them points at memory that stays goes before the loops.
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
                    let steps = inner.hoisted.into_iter().flat_map(|(_, steps)| steps).chain(inner.steps);
                    let level = program.bodies[number].level;
                    let (stay, each): (Vec<Step>, Vec<Step>) =
                        steps.partition(|step| stays(program, level, step));
                    hoist(&mut program.bodies[number], stay);
                    flat.extend(each);
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

/// Whether a step makes a slot point at the same memory at each point of a level.
fn stays(program: &Program, level: u8, step: &Step) -> bool {
    let Step::Load(load) = step else { return false };
    let Load { class, line, address, aimed, .. } = &**load;
    let points = *class == Class::COL && matches!(line, Line::Unit(None));
    let still = |axis| program.step_along(*address, Some(axis)) == 0;
    load.plain()
        && !aimed
        && points
        && program.step_along(*address, program.col) == 1
        && program.loops[usize::from(level)].iter().all(|l| l.count() == 1 || still(l.axis))
}

/// Puts steps before all loops of a body.
fn hoist(body: &mut Body, steps: Vec<Step>) {
    if steps.is_empty() {
        return;
    }
    match body.hoisted.first_mut().filter(|(loops, _)| *loops == 0) {
        Some((_, first)) => first.extend(steps),
        None => body.hoisted.insert(0, (0, steps)),
    }
}

/// Keeps the addresses of a body within current where the one around it advances.
fn add_addresses(outer: &mut Body, inner: &Body) {
    for &address in &inner.addresses {
        if !outer.addresses.contains(&address) {
            outer.addresses.push(address);
        }
    }
}
