//! Scatters: elements combined into computed positions, in order.

use half::{bf16, f16};
use kiln_simd::micro::prefetch_l1;

use crate::base::DType;
use crate::ir::{AluOp, ScatterMode};
use crate::runtime::cpu::threads;
use crate::runtime::cpu::thresholds::{SCATTER_PREFETCH_BYTES, SCATTER_PREFETCH_ROWS};
use crate::runtime::cpu::tile::program::{Loop, LoopNest, Scatter, TileProgram};
use crate::runtime::cpu::tile::run::access::element_of;
use crate::runtime::cpu::tile::run::{Frame, TileLaunch};

/// Combines values into memory: `fn(to, positions, values, n)`; a negative
/// position is skipped.
///
/// # Safety
/// `positions` and `values` hold `n` elements, and `to` one at every position.
pub type ScatterFn = unsafe fn(to: *mut u8, positions: *const i64, values: *const u8, n: usize);

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

/// The loop of a mode on elements of a type (values in register form).
pub fn scatter_function(mode: ScatterMode, dtype: DType) -> ScatterFn {
    match dtype {
        DType::Bool | DType::U8 => typed::<u8>(mode),
        DType::I32 => typed::<i32>(mode),
        DType::U32 => typed::<u32>(mode),
        DType::I64 => typed::<i64>(mode),
        DType::F16 => typed::<f16>(mode),
        DType::BF16 => typed::<bf16>(mode),
        DType::F32 => typed::<f32>(mode),
        DType::F64 => typed::<f64>(mode),
    }
}

fn typed<T: Merge>(mode: ScatterMode) -> ScatterFn {
    match mode {
        ScatterMode::Set => merge::<T, 0>,
        ScatterMode::Add => merge::<T, 1>,
        ScatterMode::Mul => merge::<T, 2>,
        ScatterMode::Max => merge::<T, 3>,
        ScatterMode::Min => merge::<T, 4>,
    }
}

unsafe fn merge<T: Merge, const MODE: u8>(to: *mut u8, positions: *const i64, values: *const u8, n: usize) {
    for i in 0..n {
        // SAFETY: the contract of `ScatterFn`.
        unsafe {
            let (position, value) = (positions.add(i).read(), values.cast::<T::Register>().add(i).read());
            if position < 0 {
                continue;
            }
            let at = to.cast::<T>().offset(position as isize);
            let old = at.read();
            at.write(match MODE {
                0 => T::set(value),
                1 => old.add(value),
                2 => old.mul(value),
                3 => old.max(value),
                _ => old.min(value),
            });
        }
    }
}

/// An element as memory holds it, and what can be combined into it.
trait Merge: Copy + 'static {
    /// Its register form.
    type Register: Copy;
    fn set(value: Self::Register) -> Self;
    fn add(self, value: Self::Register) -> Self;
    fn mul(self, value: Self::Register) -> Self;
    fn max(self, value: Self::Register) -> Self;
    fn min(self, value: Self::Register) -> Self;
}

macro_rules! merge_integers {
    ($($t:ty),*) => {$(
        impl Merge for $t {
            type Register = $t;
            fn set(value: $t) -> $t { value }
            fn add(self, value: $t) -> $t { self.wrapping_add(value) }
            fn mul(self, value: $t) -> $t { self.wrapping_mul(value) }
            fn max(self, value: $t) -> $t { Ord::max(self, value) }
            fn min(self, value: $t) -> $t { Ord::min(self, value) }
        }
    )*};
}
merge_integers!(u8, i32, u32, i64);

macro_rules! merge_floats {
    ($($t:ty, $register:ty, $widen:expr, $narrow:expr;)*) => {$(
        impl Merge for $t {
            type Register = $register;
            fn set(value: $register) -> $t { $narrow(value) }
            fn add(self, value: $register) -> $t { $narrow($widen(self) + value) }
            fn mul(self, value: $register) -> $t { $narrow($widen(self) * value) }
            fn max(self, value: $register) -> $t { $narrow(extreme(AluOp::Max, $widen(self), value)) }
            fn min(self, value: $register) -> $t { $narrow(extreme(AluOp::Min, $widen(self), value)) }
        }
    )*};
}
merge_floats! {
    f32, f32, |x: f32| x, |x: f32| x;
    f64, f64, |x: f64| x, |x: f64| x;
    f16, f32, f16::to_f32, f16::from_f32;
    bf16, f32, bf16::to_f32, bf16::from_f32;
}

/// The table's maximum or minimum, which are exact in `f64`.
fn extreme<T: Into<f64> + NarrowFromF64>(op: AluOp, a: T, b: T) -> T {
    T::narrow(op.eval_float(&[a.into(), b.into()]))
}

/// A type that holds one of two of its own values that were widened.
trait NarrowFromF64 {
    fn narrow(value: f64) -> Self;
}
impl NarrowFromF64 for f32 {
    fn narrow(value: f64) -> f32 {
        value as f32
    }
}
impl NarrowFromF64 for f64 {
    fn narrow(value: f64) -> f64 {
        value
    }
}
