//! Which steps ask for what the next tile reads.

use crate::kernel::AxisId;
use crate::runtime::cpu::tile::program::{Body, Class, Line, Load, Program, ReductionForm, Slot, Step};

/// A part of what the next tile will read of an operand, to be asked for while
/// a line of this one is at work: memory has nothing to do meanwhile, and
/// hardware foresees no more than the page at hand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ahead {
    /// Which operand.
    pub operand: usize,
    /// Bytes from its line to what is asked for.
    pub after: usize,
    /// How many bytes are.
    pub bytes: usize,
}

/// What a micro-op asks for while it computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// It cannot.
    Never,
    /// Nothing yet.
    Nothing,
    /// What lies so many bytes after what a slot points at.
    For(Slot, usize),
}

/// Lets costly operations of tiles that go along their columns ask for an input of the next
/// tile each: the others wait for memory, and memory would rest meanwhile.
pub fn foresee_along(program: &mut Program) {
    let Some(col) = program.col.filter(|&col| program.loops[0].last().is_some_and(|l| l.axis == col)) else {
        return;
    };
    let cols = program.tile.1;
    let Program { bodies, addresses, row, .. } = program;
    let Some(body) = bodies.last_mut().filter(|_| row.is_none()) else { return };
    ask(body, |load| {
        let along = addresses[load.address.0 as usize].steps[col.index()] == 1;
        along.then(|| cols * load.dtype.size())
    });
}

/// Bytes of a row at most that the second-level cache keeps from one pass over it to the next.
const KEPT: usize = 256 << 10;

/// Lets costly operations of the last pass over rows that no tile holds ask for the next row
/// where the cache keeps rows from pass to pass, and else for what follows in this one.
pub fn foresee_passes(program: &mut Program) {
    let Some(&down) = program.loops[0].iter().rev().find(|l| l.count() > 1) else { return };
    let last = program.bodies.last().and_then(|root| {
        root.steps.iter().rev().find_map(|step| match step {
            Step::Nest { body, .. } => Some(*body as usize),
            _ => None,
        })
    });
    let along = |&body: &usize| {
        let columns = program.loops[1].iter().any(|l| Some(l.axis) == program.col);
        program.bodies[body].level == 1 && columns && program.row.is_none()
    };
    let (Some(last), Some(col)) = (last.filter(along), program.col) else { return };
    let points: usize = program.loops[1].iter().map(|l| l.end - l.start).product();
    let cols = program.tile.1;
    let Program { bodies, addresses, .. } = program;
    ask(&mut bodies[last], |load| {
        let steps = &addresses[load.address.0 as usize].steps;
        let size = load.dtype.size();
        let next = steps[down.axis.index()] * down.chunk as i64;
        let along = steps[col.index()] == 1;
        if points.saturating_mul(size) > KEPT {
            return along.then(|| cols * size);
        }
        (along && next >= points as i64).then(|| next as usize * size)
    });
}

/// Lets each costly operation of a body ask for one of its inputs, so many bytes after what is at
/// work.
fn ask(body: &mut Body, after: impl Fn(&Load) -> Option<usize>) {
    let mut next = Vec::new();
    for step in &mut body.steps {
        match step {
            Step::Load(load)
                if load.plain() && load.class.cols() && matches!(load.line, Line::Unit(None)) =>
            {
                next.extend(after(load).map(|bytes| Asks::For(load.to, bytes)));
            }
            Step::Micro { asks, .. } if *asks == Asks::Nothing && !next.is_empty() => {
                *asks = next.remove(0);
            }
            _ => {}
        }
    }
}

/// Shares each input's next rows among the steps that go through its present
/// ones line by line, or leaves them to one that asks while it computes, in tiles that go
/// on along their rows; `large` where caches do not hold what the program moves.
pub fn foresee(program: &mut Program, large: bool) {
    let loads = loads(program).filter(|load| follows(program, load));
    let slots: Vec<(Slot, bool)> = loads.map(|load| (load.to, !large && covers(program, load))).collect();
    for (slot, covered) in slots {
        let mut asking = Vec::new();
        readers(program, slot, covered, &mut |reader| asking.push(reader.asks));
        let (first, parts) = match asking.iter().position(|&asks| asks) {
            Some(one) => (one, 1),
            None => (0, asking.len()),
        };
        let (rows, cols) = program.tile;
        let line = cols * program.slots[slot.0 as usize].dtype.compute().size();
        let mut number = 0;
        readers(program, slot, covered, &mut |Reader { ahead, operand, apart, .. }| {
            if (first..first + parts).contains(&number) {
                let [start, end] = [0, 1].map(|more| line * (number - first + more) / parts);
                *ahead = Some(Ahead { operand, after: rows * apart + start, bytes: end - start });
            }
            number += 1;
        });
    }
}

/// Whether tiles at a load, together with those that lie beside it, leave nothing between
/// their lines.
fn covers(program: &Program, load: &Load) -> bool {
    let apart = |load: &Load| program.step_along(load.address, program.row);
    let beside = |other: &&Load| other.memory == load.memory && apart(other) == apart(load);
    let beside = loads(program).filter(beside).count() as i64;
    beside * program.tile.1 as i64 >= apart(load)
}

/// Tells loads of square tiles, whose rows are pieces of memory's, where the next
/// tile's are.
pub fn foresee_pieces(program: &mut Program) {
    let Some(inner) = program.loops[0].last().copied() else { return };
    let Program { bodies, addresses, .. } = program;
    for step in bodies.iter_mut().flat_map(|body| &mut body.steps) {
        let Step::Load(load) = step else { continue };
        let pieces = matches!(load.line, Line::Unit(_) | Line::Transposed(_));
        if load.class == Class::FULL && pieces {
            load.ahead = addresses[load.address.0 as usize].steps[inner.axis.index()] * inner.chunk as i64;
        }
    }
}

/// Tells loads that convert all of a tile at once where the next tile's are, if those follow.
pub fn foresee_converted(program: &mut Program) {
    let (rows, cols) = program.tile;
    let (row, col) = (program.row, program.col);
    let Program { bodies, addresses, .. } = program;
    for step in bodies.iter_mut().flat_map(|body| &mut body.steps) {
        let Step::Load(load) = step else { continue };
        let steps = &addresses[load.address.0 as usize].steps;
        let along = |axis: Option<AxisId>| axis.map_or(0, |axis| steps[axis.index()]);
        let follows = match (load.class.rows(), load.class.cols()) {
            (true, true) => along(col) == 1 && along(row) == cols as i64,
            (rows, cols) => cols && !rows && along(col) == 1,
        };
        if follows && load.plain() && matches!(load.line, Line::Unit(Some(_))) {
            let lines = if load.class.rows() { rows } else { 1 };
            load.ahead = (lines * cols) as i64;
        }
    }
}

/// Elements apart from each other, of which a line of the cache has several, at most.
const NEAR: i64 = 16;

/// Tells loads of every second element, third and so on where those of the next tile are:
/// a tile of theirs is longer than what hardware foresees.
pub fn foresee_strided(program: &mut Program) {
    let Some(inner) = program.loops[0].last().copied() else { return };
    let Program { bodies, addresses, col, loops, .. } = program;
    let Some(col) = *col else { return };
    // Windows that share lines of the cache would ask for the same ones again and again.
    let within = |steps: &[i64]| {
        let mut inside = loops[1..].iter().flatten().map(|axis| steps[axis.axis.index()]);
        inside.any(|step| step != 0 && step.abs() < NEAR)
    };
    for step in bodies.iter_mut().flat_map(|body| &mut body.steps) {
        let Step::Load(load) = step else { continue };
        let steps = &addresses[load.address.0 as usize].steps;
        let near = (2..NEAR).contains(&steps[col.index()]) && !within(steps);
        if load.class.cols() && matches!(load.line, Line::Strided(_)) && near {
            load.ahead = steps[inner.axis.index()] * inner.chunk as i64;
        }
    }
}

/// The loads of a program's bodies.
fn loads(program: &Program) -> impl Iterator<Item = &Load> {
    program.bodies.iter().flat_map(|body| &body.steps).filter_map(|step| match step {
        Step::Load(load) => Some(&**load),
        _ => None,
    })
}

/// Whether a load points at rows in memory after which the next tile's follow, as far apart as
/// its own.
fn follows(program: &Program, load: &Load) -> bool {
    let cols = program.tile.1 as i64;
    let apart = program.step_along(load.address, program.row);
    load.plain()
        && load.class == Class::FULL
        && matches!(load.line, Line::Unit(None))
        && (apart == cols || load.in_place && apart > cols)
        && program.step_along(load.address, program.col) == 1
}

/// A step that reads a slot line by line.
struct Reader<'p> {
    ahead: &'p mut Option<Ahead>,
    /// Which operand the slot is.
    operand: usize,
    /// Bytes from one of its lines to the next.
    apart: usize,
    /// Whether its loop asks while it computes.
    asks: bool,
}

/// Calls `visit` with each step that reads a slot line by line and asks for nothing yet. Loops
/// over short lines take as long as requests would: they ask for what hardware does not foresee,
/// so for nothing where all of memory is `covered`.
fn readers(program: &mut Program, slot: Slot, covered: bool, visit: &mut dyn FnMut(Reader<'_>)) {
    let Program { bodies, reductions, slots, tile: (_, cols), .. } = program;
    let lane = slots[slot.0 as usize].dtype.compute().size();
    for step in bodies.iter_mut().flat_map(|body| &mut body.steps) {
        let found = match step {
            Step::Lines(lines) if !(covered && lines.short.is_some()) => {
                let operand = lines.from.iter().position(|from| from.0 == slot);
                let asks = lines.asks;
                operand.map(|operand| {
                    let apart = lines.from[operand].1.bytes(*cols);
                    Reader { ahead: &mut lines.ahead, operand, apart, asks }
                })
            }
            Step::Update(number) | Step::Reduce(number) => {
                let reduction = &mut reductions[*number as usize];
                let along = matches!(reduction.form, ReductionForm::Horizontal { .. });
                let reads = along && reduction.operand == slot;
                let apart = *cols * lane;
                reads.then_some(Reader { ahead: &mut reduction.ahead, operand: 0, apart, asks: false })
            }
            _ => None,
        };
        if let Some(reader) = found.filter(|reader| reader.ahead.is_none()) {
            visit(reader);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::cpu::tile::compile;
    use crate::tensor::Tensor;
    use crate::tensor::norm::NormOpts;
    use crate::tensor::pool::AvgPoolOpts;
    use crate::tensor::slicing::r;

    /// What the costly operations of a kernel's passes ask for, in bytes after what is at work.
    fn asked(y: &Tensor) -> Vec<usize> {
        let report = y.plan().expect("a plan");
        let program = compile(report.kernels[0].work().kernel().expect("a kernel"), 1);
        let asks = |step: &Step| match step {
            Step::Micro { asks: Asks::For(_, bytes), .. } => Some(*bytes),
            _ => None,
        };
        program.bodies.iter().flat_map(|body| &body.steps).filter_map(asks).collect()
    }

    /// How far ahead strided loads ask, in elements.
    fn strided(y: &Tensor) -> Vec<i64> {
        let report = y.plan().expect("a plan");
        let program = compile(report.kernels[0].work().kernel().expect("a kernel"), 1);
        let strided = |load: &&Load| matches!(load.line, Line::Strided(_));
        loads(&program).filter(strided).map(|load| load.ahead).collect()
    }

    #[test]
    fn strided_loads_ask_for_the_next_tile_unless_windows_share_it() {
        let image = Tensor::from_vec(vec![1f32; 2 * 64 * 64], [2, 64, 64], ());
        let apart = strided(&(image.i((.., .., r(0, 64).step(2))) * 2.0));
        assert!(!apart.is_empty() && apart.iter().all(|&ahead| ahead > 0), "{apart:?}");
        let pooled = strided(&image.avg_pool2d(3, AvgPoolOpts::default().stride(2)));
        assert!(!pooled.is_empty() && pooled.iter().all(|&ahead| ahead == 0), "{pooled:?}");
    }

    #[test]
    fn the_last_pass_over_rows_asks_for_the_next_row_if_caches_keep_it() {
        let norm = |shape: [usize; 4], groups| {
            let input =
                |shape: &[usize]| Tensor::from_vec(vec![1f32; shape.iter().product()], shape.to_vec(), ());
            let weight = input(&shape[1..2]);
            input(&shape).group_norm(groups, NormOpts::default().weight(&weight)).silu()
        };
        assert_eq!(asked(&norm([4, 8, 32, 32], 2)), [4 * 4 * 32 * 32]);
        // Rows of half a megabyte, by tiles.
        assert!(matches!(asked(&norm([4, 8, 256, 128], 2))[..], [bytes] if bytes < 16 << 10));
        // No row follows the only one.
        assert!(asked(&norm([1, 8, 32, 32], 1)).is_empty());
    }
}
