//! Reductions along a register.

use std::marker::PhantomData;

use crate::micro::fold::{Accumulate, CompensatedSum, ExtremeState, FoldState, WideProduct};
use crate::micro::isa::{Isa, versioned};
use crate::micro::lane::LaneType;
use crate::micro::monoid::{AllTrue, Largest, Smallest};
use crate::micro::short_rows::{ShortRowsFn, short_rows};
use crate::micro::tuple::{ArgExtremeState, LogSumExpState, MomentsState};
use crate::micro::view;
use crate::{DType, Kind};

/// What a reduction computes, and its components in order. `T` is the
/// operand's register element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduceKind {
    /// (sum: T). Integers wrap; on `Bool` the logical or.
    Sum,
    /// (product: T). Integers wrap; on `Bool` the logical and.
    Prod,
    /// (largest: T), NaN if there is one.
    Max,
    /// (smallest: T), NaN if there is one.
    Min,
    /// (largest: T, index: i64): the first of equals; NaN is the largest.
    ArgMax,
    /// (smallest: T, index: i64): the first of equals; NaN is the smallest.
    ArgMin,
    /// (mean: T, sum of squared deviations: T, count: T); floats only.
    Moments,
    /// (max: T, sum of exp(x - max): T, max + ln sum: T); floats only.
    LogSumExp,
}

/// Bytes a reduction's state occupies at most; it is aligned to 8. What they
/// mean is private to the functions of one [`Reducer`] or [`Scanner`](super::Scanner).
pub const STATE_BYTES: usize = 32;

/// Accumulates a run of elements into a state: `fn(state, src, n, base)`, where
/// `base` is the index of the first (used by `ArgMax` and `ArgMin`).
///
/// # Safety
/// `state` was made by the same reducer's `init` and is accessed by nobody
/// else; `src` is valid for `n` aligned elements and does not overlap it.
pub type ReduceFn = unsafe fn(state: *mut u8, src: *const u8, n: usize, base: i64);

/// Reduces one row from start to end: `fn(src, n, base, out)`, where `base` is the index of the first
/// element, and the components go to those pointers of `out` that are not null.
///
/// # Safety
/// `src` is valid for `n` aligned elements, each pointer for writing its component. They may
/// overlap the elements, which are read first.
pub type ReduceRowFn = unsafe fn(src: *const u8, n: usize, base: i64, out: &[*mut u8; 3]);

/// The functions of one reduction. Floats are summed in 64 lanes of their own
/// type over at most 4096 elements; such totals are kept in `f64`, for `Sum`
/// compensated. `f32` is multiplied in `f64`.
#[derive(Clone, Copy, Debug)]
pub struct Reducer {
    /// Makes the [`STATE_BYTES`] at the pointer the state of no elements.
    pub init: unsafe fn(state: *mut u8),
    /// Accumulates a run.
    pub update: ReduceFn,
    /// The components of one row.
    pub row: ReduceRowFn,
    /// The same for contiguous short rows, where there is a loop for those.
    pub short_rows: Option<ShortRowsFn>,
    /// Merges the state of the elements that follow: `fn(state, next)`.
    pub combine: unsafe fn(state: *mut u8, next: *const u8),
    /// Writes the components to those pointers that are not null. Of no
    /// elements an extreme is the identity, its index -1.
    pub finish: unsafe fn(state: *const u8, out: &[*mut u8; 3]),
}

/// The functions that reduce elements of type `dtype` (in register form), or
/// `None` where the kind takes floats only.
pub fn reduce(kind: ReduceKind, dtype: DType) -> Option<Reducer> {
    let (kind, bool) = (canonical(kind, dtype), dtype == DType::Bool);
    let reducer = match (kind, LaneType::of(dtype)) {
        (ReduceKind::Moments, LaneType::F32) => Some(reducer_of::<MomentsState<f32>, f32>()),
        (ReduceKind::Moments, LaneType::F64) => Some(reducer_of::<MomentsState<f64>, f64>()),
        (ReduceKind::LogSumExp, LaneType::F32) => Some(reducer_of::<LogSumExpState<f32>, f32>()),
        (ReduceKind::LogSumExp, LaneType::F64) => Some(reducer_of::<LogSumExpState<f64>, f64>()),
        (kind, LaneType::F32) => reducer::<f32>(kind),
        (kind, LaneType::F64) => reducer::<f64>(kind),
        (kind, LaneType::I32) => reducer::<i32>(kind),
        (kind, LaneType::U32) => reducer::<u32>(kind),
        (kind, LaneType::I64) => reducer::<i64>(kind),
        (ReduceKind::Min, LaneType::U8) if bool => Some(reducer_of::<ExtremeState<u8, AllTrue>, u8>()),
        (ReduceKind::ArgMin, LaneType::U8) if bool => Some(reducer_of::<ArgExtremeState<u8, AllTrue>, u8>()),
        (kind, LaneType::U8) => reducer::<u8>(kind),
    };
    Some(Reducer { short_rows: short_rows(kind, dtype), ..reducer? })
}

/// The kind that a sum or product of truth values means.
pub(super) fn canonical(kind: ReduceKind, dtype: DType) -> ReduceKind {
    match (kind, dtype.kind()) {
        (ReduceKind::Sum, Kind::Bool) => ReduceKind::Max,
        (ReduceKind::Prod, Kind::Bool) => ReduceKind::Min,
        (kind, Kind::Bool | Kind::Int | Kind::Float) => kind,
    }
}

versioned! {
    /// A loop with the signature [`ReduceFn`].
    UpdateLoop, update_loop, base_update_loop, fn(state: *mut u8, src: *const u8, n: usize, base: i64)
}

versioned! {
    /// A loop with the signature [`ReduceRowFn`].
    ReduceRowLoop, reduce_row_loop, base_reduce_row_loop,
    fn(src: *const u8, n: usize, base: i64, out: &[*mut u8; 3])
}

struct Extend<F, T>(PhantomData<(F, T)>);
impl<F: FoldState<T>, T: Copy> ReduceRowLoop for Extend<F, T> {
    #[inline(always)]
    unsafe fn run<I: Isa>(src: *const u8, n: usize, base: i64, out: &[*mut u8; 3]) {
        let mut state = F::EMPTY;
        // SAFETY: the contract of `ReduceRowFn`.
        unsafe {
            state.extend::<I>(view(src, n), base);
            state.finish(*out);
        }
    }
}
impl<F: FoldState<T>, T: Copy> UpdateLoop for Extend<F, T> {
    #[inline(always)]
    unsafe fn run<I: Isa>(state: *mut u8, src: *const u8, n: usize, base: i64) {
        // SAFETY: the contract of `ReduceFn`.
        let (state, src) = unsafe { (&mut *state.cast::<F>(), view(src, n)) };
        state.extend::<I>(src, base);
    }
}

fn reducer_of<F: FoldState<T>, T: Copy + 'static>() -> Reducer {
    const { assert!(size_of::<F>() <= STATE_BYTES && align_of::<F>() <= 8) };
    unsafe fn init<F: FoldState<T>, T>(state: *mut u8) {
        // SAFETY: `Reducer::init` is given space for a state.
        unsafe { state.cast::<F>().write(F::EMPTY) }
    }
    unsafe fn combine<F: FoldState<T>, T>(state: *mut u8, next: *const u8) {
        // SAFETY: both are states of this reducer.
        unsafe { (*state.cast::<F>()).merge(&next.cast::<F>().read()) }
    }
    unsafe fn finish<F: FoldState<T>, T>(state: *const u8, out: &[*mut u8; 3]) {
        // SAFETY: a state of this reducer; the caller vouches for `out`.
        unsafe { state.cast::<F>().read().finish(*out) }
    }
    Reducer {
        init: init::<F, T>,
        update: update_loop::<Extend<F, T>>(),
        row: reduce_row_loop::<Extend<F, T>>(),
        short_rows: None,
        combine: combine::<F, T>,
        finish: finish::<F, T>,
    }
}

fn reducer<T: Accumulate>(kind: ReduceKind) -> Option<Reducer> {
    match kind {
        ReduceKind::Sum => Some(reducer_of::<CompensatedSum<T>, T>()),
        ReduceKind::Prod => Some(reducer_of::<WideProduct<T>, T>()),
        ReduceKind::Max => Some(reducer_of::<ExtremeState<T, Largest>, T>()),
        ReduceKind::Min => Some(reducer_of::<ExtremeState<T, Smallest>, T>()),
        ReduceKind::ArgMax => Some(reducer_of::<ArgExtremeState<T, Largest>, T>()),
        ReduceKind::ArgMin => Some(reducer_of::<ArgExtremeState<T, Smallest>, T>()),
        ReduceKind::Moments | ReduceKind::LogSumExp => None,
    }
}
