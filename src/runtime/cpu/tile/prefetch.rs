//! Prefetch insertion: which instructions prefetch what the next tile reads.

use crate::kernel::AxisId;
use crate::runtime::cpu::thresholds::{L2_ROW_BYTES, PREFETCH_MAX_STRIDE};
use crate::runtime::cpu::tile::program::{
    FrameSlot, Instr, LoopBody, ReductionForm, RowLayout, TileLoad, TileProgram, TileShape,
};
use crate::runtime::cpu::tile::tiling::TilePlan;

/// A part of what the next tile will read, to be prefetched while this one is at work: memory
/// would idle, and hardware prefetches no more than the page at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefetch {
    /// What points at the values that are at work: an operand, or what a load reads.
    pub operand: FrameSlot,
    /// Bytes from those to what is prefetched.
    pub distance: isize,
    /// Bytes from one row of those to the next, for instructions that go row by row.
    pub row_stride: usize,
    /// Bytes prefetched into L1 after each row; `None` where as many as the instruction reads are
    /// prefetched into L2 while it runs.
    pub bytes: Option<usize>,
}

impl Prefetch {
    /// The prefetch of as much as an instruction reads.
    fn while_running(operand: FrameSlot, distance: isize) -> Prefetch {
        Prefetch { operand, distance, row_stride: 0, bytes: None }
    }
}

/// Lets instructions prefetch what the next tile reads, as suits how tiles advance;
/// `large` where caches do not hold what the program moves.
pub fn insert_prefetches(program: &mut TileProgram, tiling: &TilePlan, large: bool) {
    let down = program.loops[0].last().is_some_and(|inner| Some(inner.axis) == row_axis(program));
    if tiling.full_rows || down && !tiling.transposing {
        insert_prefetch_of_rows(program, large);
    }
    if tiling.transposing {
        return insert_prefetch_of_transposed(program);
    }
    insert_prefetch_along_columns(program);
    insert_prefetch_in_last_pass(program);
    insert_prefetch_of_converted(program);
    insert_prefetch_of_strided(program);
}

/// Lets expensive operations of tiles that go along their columns prefetch an input of the next
/// tile each: the others wait for memory, and memory would idle.
fn insert_prefetch_along_columns(program: &mut TileProgram) {
    let Some(col) = program.col.filter(|&col| program.loops[0].last().is_some_and(|l| l.axis == col)) else {
        return;
    };
    let cols = program.tile.1;
    let TileProgram { bodies, addresses, row, .. } = program;
    let Some(body) = bodies.last_mut().filter(|_| row.is_none()) else { return };
    assign_prefetches(body, |load| {
        let along = addresses[load.address.0 as usize].strides[col.index()] == 1;
        along.then(|| cols * load.dtype.size())
    });
}

/// Lets expensive operations of the last pass over rows that no tile holds prefetch the next row
/// where the cache keeps rows from pass to pass, and else for what follows in this one.
fn insert_prefetch_in_last_pass(program: &mut TileProgram) {
    let Some(&down) = program.loops[0].iter().rev().find(|l| l.trip_count() > 1) else { return };
    let last = program.bodies.last().and_then(|root| {
        root.instrs.iter().rev().find_map(|instr| match instr {
            Instr::Nest { body, .. } => Some(*body as usize),
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
    let TileProgram { bodies, addresses, .. } = program;
    assign_prefetches(&mut bodies[last], |load| {
        let strides = &addresses[load.address.0 as usize].strides;
        let size = load.dtype.size();
        let next = strides[down.axis.index()] * down.chunk as i64;
        let along = strides[col.index()] == 1;
        if points.saturating_mul(size) > L2_ROW_BYTES {
            return along.then(|| cols * size);
        }
        (along && next >= points as i64).then(|| next as usize * size)
    });
}

/// Lets each expensive operation of a body prefetch one of its inputs, so many bytes after what is at
/// work.
fn assign_prefetches(body: &mut LoopBody, distance: impl Fn(&TileLoad) -> Option<usize>) {
    let mut next = Vec::new();
    for instr in &mut body.instrs {
        match instr {
            Instr::Load(load)
                if load.plain()
                    && load.shape.cols()
                    && matches!(load.layout, RowLayout::Contiguous(None)) =>
            {
                next.extend(distance(load).map(|bytes| Prefetch::while_running(load.to, bytes as isize)));
            }
            Instr::Micro { prefetches: true, prefetch, .. } if prefetch.is_none() && !next.is_empty() => {
                *prefetch = Some(next.remove(0));
            }
            _ => {}
        }
    }
}

/// Divides the prefetch of each input's next rows among the instructions that read its present
/// ones row by row, or leaves them to one that prefetches while it computes, in tiles that advance
/// along their rows; `large` where caches do not hold what the program moves.
fn insert_prefetch_of_rows(program: &mut TileProgram, large: bool) {
    let loads = loads(program).filter(|load| follows(program, load));
    let stride =
        |load: &TileLoad| program.stride_along(load.address, row_axis(program)) as usize * load.dtype.size();
    let slots: Vec<(FrameSlot, bool, usize)> =
        loads.map(|load| (load.to, !large && covers(program, load), stride(load))).collect();
    for (slot, covered, row_stride) in slots {
        let mut prefetching = Vec::new();
        readers(program, slot, covered, &mut |reader| prefetching.push(reader.prefetches));
        let (first, parts) = match prefetching.iter().position(|&prefetches| prefetches) {
            Some(one) => (one, 1),
            // Of long rows hardware prefetches the next before such instructions have come to it.
            None if program.row.is_none() => (0, 0),
            None => (0, prefetching.len()),
        };
        let (rows, cols) = program.tile;
        let line = cols * program.slots[slot.0 as usize].dtype.compute().size();
        let mut number = 0;
        readers(program, slot, covered, &mut |Reader { prefetch, prefetches }| {
            if (first..first + parts).contains(&number) {
                let [start, end] = [0, 1].map(|more| line * (number - first + more) / parts);
                let distance = (rows * row_stride + start) as isize;
                let bytes = (!prefetches).then_some(end - start);
                *prefetch = Some(Prefetch { operand: slot, distance, row_stride, bytes });
            }
            number += 1;
        });
        if parts == 0 {
            leave_to_another(program, slot, row_stride);
        }
    }
}

/// Leaves the prefetch of an input's next rows to an instruction that prefetches while it computes, though it
/// reads what others have made of the input: those go through whole tiles, as fast as memory.
fn leave_to_another(program: &mut TileProgram, slot: FrameSlot, row_stride: usize) {
    let distance = (program.tile.0 * row_stride) as isize;
    let prefetch = Prefetch { operand: slot, distance, row_stride, bytes: None };
    let idle = program.bodies.iter_mut().flat_map(|body| &mut body.instrs).find_map(|instr| match instr {
        Instr::Rowwise(op) if op.prefetches && op.prefetch.is_none() => Some(&mut op.prefetch),
        _ => None,
    });
    if let Some(idle) = idle {
        *idle = Some(prefetch);
    }
}

/// The axis along which rows follow: that of a tile's rows, or of the innermost loop where a tile is a whole row.
fn row_axis(program: &TileProgram) -> Option<AxisId> {
    let whole = |col: AxisId| program.tile.1 == program.axes[col.index()].extent;
    program.row.or_else(|| {
        let inner = program.loops[0].last()?.axis;
        program.col.is_some_and(|col| col != inner && whole(col)).then_some(inner)
    })
}

/// Whether tiles at a load, together with those that lie beside it, leave nothing between
/// their rows.
fn covers(program: &TileProgram, load: &TileLoad) -> bool {
    let apart = |load: &TileLoad| program.stride_along(load.address, row_axis(program));
    let beside = |other: &&TileLoad| other.memory == load.memory && apart(other) == apart(load);
    let beside = loads(program).filter(beside).count() as i64;
    beside * program.tile.1 as i64 >= apart(load)
}

/// Lets loads of transposing tiles, whose rows are parts of memory's, prefetch the next
/// tile.
fn insert_prefetch_of_transposed(program: &mut TileProgram) {
    let Some(inner) = program.loops[0].last().copied() else { return };
    let TileProgram { bodies, addresses, .. } = program;
    for instr in bodies.iter_mut().flat_map(|body| &mut body.instrs) {
        let Instr::Load(load) = instr else { continue };
        let pieces = matches!(load.layout, RowLayout::Contiguous(_) | RowLayout::Transposed(_));
        if load.shape == TileShape::Full && pieces {
            let strides = &addresses[load.address.0 as usize].strides;
            prefetch_elements(load, strides[inner.axis.index()] * inner.chunk as i64);
        }
    }
}

/// Lets loads that convert all of a tile at once prefetch the next tile, if it follows.
fn insert_prefetch_of_converted(program: &mut TileProgram) {
    let (rows, cols) = program.tile;
    let (row, col) = (program.row, program.col);
    let TileProgram { bodies, addresses, .. } = program;
    for instr in bodies.iter_mut().flat_map(|body| &mut body.instrs) {
        let Instr::Load(load) = instr else { continue };
        let strides = &addresses[load.address.0 as usize].strides;
        let along = |axis: Option<AxisId>| axis.map_or(0, |axis| strides[axis.index()]);
        let follows = match (load.shape.rows(), load.shape.cols()) {
            (true, true) => along(col) == 1 && along(row) == cols as i64,
            (rows, cols) => cols && !rows && along(col) == 1,
        };
        if follows && load.plain() && matches!(load.layout, RowLayout::Contiguous(Some(_))) {
            let lines = if load.shape.rows() { rows } else { 1 };
            prefetch_elements(load, (lines * cols) as i64);
        }
    }
}

/// Lets loads of every second element, third and so on prefetch the next tile:
/// a tile of theirs is longer than what hardware prefetches.
fn insert_prefetch_of_strided(program: &mut TileProgram) {
    let Some(inner) = program.loops[0].last().copied() else { return };
    let TileProgram { bodies, addresses, col, loops, .. } = program;
    let Some(col) = *col else { return };
    // Windows that share cache lines would prefetch the same ones again and again.
    let within = |strides: &[i64]| {
        let mut inside = loops[1..].iter().flatten().map(|axis| strides[axis.axis.index()]);
        inside.any(|instr| instr != 0 && instr.abs() < PREFETCH_MAX_STRIDE)
    };
    for instr in bodies.iter_mut().flat_map(|body| &mut body.instrs) {
        let Instr::Load(load) = instr else { continue };
        let strides = &addresses[load.address.0 as usize].strides;
        let near = (2..PREFETCH_MAX_STRIDE).contains(&strides[col.index()]) && !within(strides);
        if load.shape.cols() && matches!(load.layout, RowLayout::Strided(_)) && near {
            prefetch_elements(load, strides[inner.axis.index()] * inner.chunk as i64);
        }
    }
}

/// Lets a load prefetch what lies so many elements after what it reads, unless that is the same.
fn prefetch_elements(load: &mut TileLoad, elements: i64) {
    let distance = elements as isize * load.dtype.size() as isize;
    load.prefetch = (distance != 0).then(|| Prefetch::while_running(load.to, distance));
}

/// The loads of a program's bodies.
fn loads(program: &TileProgram) -> impl Iterator<Item = &TileLoad> {
    program.bodies.iter().flat_map(|body| &body.instrs).filter_map(|instr| match instr {
        Instr::Load(load) => Some(&**load),
        _ => None,
    })
}

/// Whether a load points at rows in memory after which the next tile's follow, as far apart as
/// its own.
fn follows(program: &TileProgram, load: &TileLoad) -> bool {
    let cols = program.tile.1 as i64;
    let apart = program.stride_along(load.address, row_axis(program));
    load.plain()
        && load.shape.cols()
        && load.shape.rows() == program.row.is_some()
        && matches!(load.layout, RowLayout::Contiguous(None))
        && (apart == cols || load.in_place && apart > cols)
        && program.stride_along(load.address, program.col) == 1
}

/// An instruction that reads a slot row by row.
struct Reader<'p> {
    prefetch: &'p mut Option<Prefetch>,
    /// Whether its loop prefetches while it computes.
    prefetches: bool,
}

/// Calls `visit` with each instruction that reads a slot row by row and prefetches nothing yet. Loops
/// over short rows take as long as prefetching would: they prefetch what hardware does not prefetch,
/// so for nothing where all of memory is `covered`.
fn readers(program: &mut TileProgram, slot: FrameSlot, covered: bool, visit: &mut dyn FnMut(Reader<'_>)) {
    let TileProgram { bodies, reductions, .. } = program;
    for instr in bodies.iter_mut().flat_map(|body| &mut body.instrs) {
        let found = match instr {
            Instr::Rowwise(op) if !(covered && op.batched.is_some()) => {
                let reads = op.from.iter().any(|from| from.0 == slot);
                reads.then_some(Reader { prefetch: &mut op.prefetch, prefetches: op.prefetches })
            }
            Instr::Update(number) | Instr::ReduceRows(number) => {
                let reduction = &mut reductions[*number as usize];
                let along = matches!(reduction.form, ReductionForm::Horizontal { .. });
                let reads = along && reduction.operand == slot;
                reads.then_some(Reader { prefetch: &mut reduction.prefetch, prefetches: false })
            }
            _ => None,
        };
        if let Some(reader) = found.filter(|reader| reader.prefetch.is_none()) {
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

    /// What the expensive operations of a kernel's passes prefetch, in bytes after what is at work.
    fn prefetched(y: &Tensor) -> Vec<isize> {
        let report = y.plan().expect("a plan");
        let program = compile(report.kernels[0].work().kernel().expect("a kernel"), 1);
        let prefetches = |instr: &Instr| match instr {
            Instr::Micro { prefetch: Some(prefetch), .. } => Some(prefetch.distance),
            _ => None,
        };
        program.bodies.iter().flat_map(|body| &body.instrs).filter_map(prefetches).collect()
    }

    /// What strided loads prefetch.
    fn strided(y: &Tensor) -> Vec<Option<Prefetch>> {
        let report = y.plan().expect("a plan");
        let program = compile(report.kernels[0].work().kernel().expect("a kernel"), 1);
        let strided = |load: &&TileLoad| matches!(load.layout, RowLayout::Strided(_));
        loads(&program).filter(strided).map(|load| load.prefetch).collect()
    }

    #[test]
    fn strided_loads_prefetch_the_next_tile_unless_windows_share_it() {
        let image = Tensor::from_vec(vec![1f32; 2 * 64 * 64], [2, 64, 64], ());
        let apart = strided(&(image.i((.., .., r(0, 64).step(2))) * 2.0));
        assert!(
            !apart.is_empty() && apart.iter().all(|next| next.is_some_and(|next| next.distance > 0)),
            "{apart:?}"
        );
        let pooled = strided(&image.avg_pool2d(3, AvgPoolOpts::default().stride(2)));
        assert!(!pooled.is_empty() && pooled.iter().all(Option::is_none), "{pooled:?}");
    }

    #[test]
    fn the_last_pass_over_rows_prefetches_the_next_row_if_caches_keep_it() {
        let norm = |shape: [usize; 4], groups| {
            let input =
                |shape: &[usize]| Tensor::from_vec(vec![1f32; shape.iter().product()], shape.to_vec(), ());
            let weight = input(&shape[1..2]);
            input(&shape).group_norm(groups, NormOpts::default().weight(&weight)).silu()
        };
        assert_eq!(prefetched(&norm([4, 8, 32, 32], 2)), [4 * 4 * 32 * 32]);
        // Rows of half a megabyte, by tiles.
        assert!(matches!(prefetched(&norm([4, 8, 256, 128], 2))[..], [bytes] if bytes < 16 << 10));
        // No row follows the only one.
        assert!(prefetched(&norm([1, 8, 32, 32], 1)).is_empty());
    }
}
