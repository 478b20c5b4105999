//! Scatters: where the elements of a tile go.

use kiln_simd::micro::prefetch_l1;

use crate::runtime::cpu::threads;
use crate::runtime::cpu::thresholds::{SCATTER_PREFETCH_BYTES, SCATTER_PREFETCH_ROWS};
use crate::runtime::cpu::tile::program::{Loop, LoopNest, Scatter, TileProgram};
use crate::runtime::cpu::tile::run::access::element_of;
use crate::runtime::cpu::tile::run::{Frame, TileLaunch};

/// Runs a scatter: jobs share an axis along which writes never conflict, in whole tiles, which the
/// program's pointers go on by.
pub fn launch_scatter(launch: &TileLaunch<'_>, jobs: usize) {
    let program = launch.program;
    let Some(shared) = widest_conflict_free_loop(program).filter(|_| jobs > 1) else {
        return launch.run_tiles(launch.trip_count(0), None);
    };
    let jobs = jobs.min(shared.trip_count());
    threads::parallel_for(jobs, |job| {
        let start = |job: usize| shared.start + shared.trip_count() * job / jobs * shared.chunk;
        let mut loops: Vec<LoopNest> = program.loops.clone();
        for l in loops[0].iter_mut().filter(|l| l.axis == shared.axis) {
            (l.start, l.end) = (start(job), start(job + 1).min(shared.end));
        }
        let mine = TileLaunch { loops: &loops, memory: launch.memory.clone(), ..*launch };
        mine.run_tiles(mine.trip_count(0), None);
    });
}

/// The axis of most tiles along which writes never conflict.
fn widest_conflict_free_loop(program: &TileProgram) -> Option<Loop> {
    let free = program.loops[0].iter().filter(|l| !program.conflict_axes.contains(&l.axis));
    free.max_by_key(|l| l.trip_count()).copied()
}

impl TileLaunch<'_> {
    /// A tile of a scatter. Rows go where no pattern tells, so that what a later one needs is
    /// asked for.
    #[inline(never)]
    pub fn scatter(&self, frame: &mut Frame, scatter: &Scatter) {
        let access = self.tile_access(frame, scatter.address, scatter.shape);
        let to = self.memory[scatter.memory as usize].start;
        let size = scatter.dtype.size();
        for row in 0..access.rows {
            let first = frame.offset(scatter.address) + row as i64 * access.row_stride;
            let row_stride = scatter.row_stride.unwrap_or(access.len * scatter.lane);
            let values = frame.slot(scatter.value).wrapping_add(row * row_stride).cast_const();
            let (start, apart) = element_of(scatter.index_shape, scatter.shape, row, access.len);
            let index = frame.slot(scatter.index).cast::<i64>().wrapping_add(start);
            // SAFETY: the contract of [`super`], for all pointers here; an
            // index in range is a position in the buffer.
            unsafe {
                if let (0, 1, Some(run)) = (apart, access.stride, scatter.contiguous) {
                    if row + SCATTER_PREFETCH_ROWS < access.rows {
                        let (later, _) = element_of(
                            scatter.index_shape,
                            scatter.shape,
                            row + SCATTER_PREFETCH_ROWS,
                            access.len,
                        );
                        if let Some(at) = position(scatter, index.wrapping_add(later - start).read()) {
                            let at = first + SCATTER_PREFETCH_ROWS as i64 * access.row_stride + at;
                            let from = values.wrapping_add(SCATTER_PREFETCH_ROWS * row_stride);
                            prefetch_target(
                                to.wrapping_offset(at as isize * size as isize),
                                from,
                                access.len * size,
                            );
                        }
                    }
                    if let Some(at) = self.target_of(scatter, index.read()) {
                        let to = to.offset((first + at) as isize * size as isize);
                        run([to; 3], values, access.len, 0);
                    }
                    continue;
                }
                let positions = frame.slot(scatter.positions).cast::<i64>();
                for j in 0..access.len {
                    let at = self.target_of(scatter, index.add(j * apart).read());
                    let position = at.map_or(-1, |at| first + at + j as i64 * access.stride);
                    positions.add(j).write(position);
                }
                (scatter.function)(to, positions, values, access.len);
            }
        }
    }

    /// Where an index leads, if it is in range.
    fn target_of(&self, scatter: &Scatter, index: i64) -> Option<i64> {
        let at = position(scatter, index);
        if at.is_none() {
            self.status.record(index, scatter.extent);
        }
        at
    }
}

/// Where an index leads, if it is in range.
fn position(scatter: &Scatter, index: i64) -> Option<i64> {
    (0..scatter.extent as i64).contains(&index).then_some(index * scatter.stride)
}

/// Prefetches a row that is added to, and for what is added.
fn prefetch_target(to: *const u8, from: *const u8, bytes: usize) {
    for row in [to, from] {
        prefetch_l1(row, bytes.min(SCATTER_PREFETCH_BYTES));
    }
}
