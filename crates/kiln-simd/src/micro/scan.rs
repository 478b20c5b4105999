//! Running reductions along a register.

use std::marker::PhantomData;

use crate::DType;
use crate::micro::fold::{Accumulate, LANES};
use crate::micro::isa::{Isa, versioned};
use crate::micro::lane::{LaneType, Number};
use crate::micro::monoid::{Largest, Monoid, Product, Smallest, Sum};
use crate::micro::reduce::{ReduceKind, STATE_BYTES, canonical};
use crate::micro::tuple::LogSumExpState;
use crate::micro::{view, view_mut};

/// Scans a run: `fn(dst, src, n, state)`. Writes for each element the reduction of all elements
/// so far (for `LogSumExp` the result).
///
/// # Safety
/// As `ReduceFn`, with `dst` valid for `n` elements.
pub type ScanFn = unsafe fn(dst: *mut u8, src: *const u8, n: usize, state: *mut u8);

/// The functions of one inclusive scan.
#[derive(Clone, Copy, Debug)]
pub struct Scanner {
    /// Makes the [`STATE_BYTES`] at the pointer the state before any element.
    pub init: unsafe fn(state: *mut u8),
    /// Scans a run and leaves the state for the next.
    pub run: ScanFn,
}

/// The functions that scan elements of type `dtype`; `None` for `Moments` and positions of
/// extremes, and where the kind takes floats only.
pub fn scan(kind: ReduceKind, dtype: DType) -> Option<Scanner> {
    let kind = canonical(kind, dtype);
    match (kind, LaneType::of(dtype)) {
        (ReduceKind::LogSumExp, LaneType::F32) => Some(scanner_of::<LogSumExpState<f32>, f32>()),
        (ReduceKind::LogSumExp, LaneType::F64) => Some(scanner_of::<LogSumExpState<f64>, f64>()),
        (kind, LaneType::F32) => scanner::<f32>(kind),
        (kind, LaneType::F64) => scanner::<f64>(kind),
        (kind, LaneType::I32) => scanner::<i32>(kind),
        (kind, LaneType::U32) => scanner::<u32>(kind),
        (kind, LaneType::I64) => scanner::<i64>(kind),
        (kind, LaneType::U8) => scanner::<u8>(kind),
    }
}

fn scanner<T: Accumulate + TotallyOrdered>(kind: ReduceKind) -> Option<Scanner> {
    match kind {
        ReduceKind::Sum => Some(scanner_of::<RunningTotal<T, Sum>, T>()),
        ReduceKind::Prod => Some(scanner_of::<RunningTotal<T, Product>, T>()),
        ReduceKind::Max => Some(scanner_of::<RunningTotal<T, Largest>, T>()),
        ReduceKind::Min => Some(scanner_of::<RunningTotal<T, Smallest>, T>()),
        ReduceKind::ArgMax | ReduceKind::ArgMin | ReduceKind::Moments | ReduceKind::LogSumExp => None,
    }
}

fn scanner_of<R: ScanState<T>, T: Copy + 'static>() -> Scanner {
    const { assert!(size_of::<R>() <= STATE_BYTES && align_of::<R>() <= 8) };
    unsafe fn init<R: ScanState<T>, T>(state: *mut u8) {
        // SAFETY: `Scanner::init` is given space for a state.
        unsafe { state.cast::<R>().write(R::EMPTY) }
    }
    Scanner { init: init::<R, T>, run: scan_loop::<ScanKernel<R, T>>() }
}

versioned! {
    /// A loop with the signature [`ScanFn`].
    ScanLoop, scan_loop, base_scan_loop, fn(dst: *mut u8, src: *const u8, n: usize, state: *mut u8)
}

struct ScanKernel<R, T>(PhantomData<(R, T)>);
impl<R: ScanState<T>, T: Copy> ScanLoop for ScanKernel<R, T> {
    #[inline(always)]
    unsafe fn run<I: Isa>(dst: *mut u8, src: *const u8, n: usize, state: *mut u8) {
        // SAFETY: the contract of `ScanFn`.
        unsafe { (*state.cast::<R>()).scan::<I>(view(src, n), view_mut(dst, n)) }
    }
}

/// A state that scans carry.
pub(super) trait ScanState<T>: Copy + 'static {
    /// The state of no elements.
    const EMPTY: Self;
    /// Accumulates a run and writes the result after each element.
    fn scan<I: Isa>(&mut self, x: &[T], to: &mut [T]);
}

/// An associative operation of a scan, on a representation in which it is one instruction.
trait ScanOp<T>: Monoid<<Self as ScanOp<T>>::Repr> {
    /// The representation.
    type Repr: Copy + 'static;
    /// Elements converted to the representation at a time, whole blocks: as many as fill vectors where
    /// the conversion takes several operations. `None` if elements are combined sequentially, because
    /// reassociation would change the rounding or the operation takes a single cycle.
    const CHUNK: Option<usize>;
    /// An element's representation.
    fn repr(x: T) -> Self::Repr;
    /// The element of a representation.
    fn value(repr: Self::Repr) -> T;
}

/// Whether sums and products in the wide type can be reassociated: products of four `f32` stay in
/// the range of `f64`.
const fn wider<T: Accumulate>() -> bool {
    size_of::<T>() < size_of::<T::Wide>()
}

macro_rules! wide_scans {
    ($($monoid:ident, $reassociates:expr;)*) => {$(
        impl<T: Accumulate> ScanOp<T> for $monoid {
            type Repr = T::Wide;
            const CHUNK: Option<usize> = if $reassociates { Some(SCAN_BLOCK) } else { None };
            #[inline(always)]
            fn repr(x: T) -> T::Wide { x.widen() }
            #[inline(always)]
            fn value(repr: T::Wide) -> T { T::narrow(repr) }
        }
    )*};
}
wide_scans! {
    Sum, wider::<T>();
    Product, wider::<T>() || !T::FLOAT;
}

/// A lane type with a key: an integer that orders as its values do.
trait TotallyOrdered: Number {
    /// The integer.
    type Key: Number;
    /// The key of a value other than NaN.
    fn key(self) -> Self::Key;
    /// The value of a key: NaN of the lowest and the highest, where there are NaN.
    fn of_key(key: Self::Key) -> Self;
}
macro_rules! integer_keys {
    ($($t:ty),*) => {$(
        impl TotallyOrdered for $t {
            type Key = $t;
            #[inline(always)]
            fn key(self) -> $t { self }
            #[inline(always)]
            fn of_key(key: $t) -> $t { key }
        }
    )*};
}
integer_keys!(u8, i32, u32, i64);
macro_rules! float_keys {
    ($($t:ty => $key:ty),*) => {$(
        impl TotallyOrdered for $t {
            type Key = $key;
            #[inline(always)]
            fn key(self) -> $key {
                // Magnitudes of negative numbers order the other way around.
                let bits = self.to_bits() as $key;
                bits ^ ((bits >> (<$key>::BITS - 1)) & <$key>::MAX)
            }
            #[inline(always)]
            fn of_key(key: $key) -> $t {
                <$t>::from_bits((key ^ ((key >> (<$key>::BITS - 1)) & <$key>::MAX)) as _)
            }
        }
    )*};
}
float_keys!(f32 => i32, f64 => i64);

macro_rules! extremes {
    ($($monoid:ident, $opposite:ident;)*) => {$(
        impl<T: TotallyOrdered> ScanOp<T> for $monoid {
            type Repr = T::Key;
            const CHUNK: Option<usize> = Some(LANES);
            #[inline(always)]
            fn repr(x: T) -> T::Key {
                if x.nan() { <$opposite as Monoid<T::Key>>::IDENTITY } else { x.key() }
            }
            #[inline(always)]
            fn value(repr: T::Key) -> T {
                T::of_key(repr)
            }
        }
    )*};
}
extremes! {
    Largest, Smallest;
    Smallest, Largest;
}

/// The combination of all elements so far.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct RunningTotal<T, C: ScanOp<T>>(C::Repr);

/// Elements of a block, scanned by itself before the running total is combined with each: the
/// dependency chain has one operation a block instead of one an element.
const SCAN_BLOCK: usize = 4;

impl<T: Copy + 'static, C: ScanOp<T>> ScanState<T> for RunningTotal<T, C> {
    const EMPTY: Self = RunningTotal(C::IDENTITY);
    #[inline(always)]
    fn scan<I: Isa>(&mut self, x: &[T], to: &mut [T]) {
        let mut total = self.0;
        let whole = C::CHUNK.map_or(0, |chunk| x.len() - x.len() % chunk);
        let chunk = C::CHUNK.unwrap_or(SCAN_BLOCK);
        let ((chunks, rest), (outs, rest_outs)) = (x.split_at(whole), to.split_at_mut(whole));
        let mut reprs = [C::IDENTITY; LANES];
        for (x, out) in chunks.chunks_exact(chunk).zip(outs.chunks_exact_mut(chunk)) {
            let reprs = &mut reprs[..chunk];
            for (repr, &x) in reprs.iter_mut().zip(x) {
                *repr = C::repr(x);
            }
            for block in reprs.as_chunks_mut::<SCAN_BLOCK>().0 {
                *block = prefixes::<T, C>(*block).map(|prefix| C::combine(total, prefix));
                total = block[SCAN_BLOCK - 1];
            }
            for (out, repr) in out.iter_mut().zip(reprs) {
                *out = C::value(*repr);
            }
        }
        for (&x, out) in rest.iter().zip(rest_outs) {
            total = C::combine(total, C::repr(x));
            *out = C::value(total);
        }
        self.0 = total;
    }
}

/// The inclusive prefixes of a block.
#[inline(always)]
fn prefixes<T, C: ScanOp<T>>([a, b, c, d]: [C::Repr; SCAN_BLOCK]) -> [C::Repr; SCAN_BLOCK] {
    let (ab, cd) = (C::combine(a, b), C::combine(c, d));
    [a, ab, C::combine(ab, c), C::combine(ab, cd)]
}
