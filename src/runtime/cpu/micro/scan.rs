//! Running reductions along a register.

use std::marker::PhantomData;

use crate::base::DType;
use crate::runtime::cpu::micro::fold::{Accumulate, End, Identity, LANES, Largest, Smallest};
use crate::runtime::cpu::micro::isa::{Isa, versioned};
use crate::runtime::cpu::micro::lane::{LaneType, Number};
use crate::runtime::cpu::micro::reduce::{ReduceKind, STATE_BYTES, canonical};
use crate::runtime::cpu::micro::tuple::LogSum;
use crate::runtime::cpu::micro::{view, view_mut};

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
        (ReduceKind::LogSumExp, LaneType::F32) => Some(scanner_of::<LogSum<f32>, f32>()),
        (ReduceKind::LogSumExp, LaneType::F64) => Some(scanner_of::<LogSum<f64>, f64>()),
        (kind, LaneType::F32) => scanner::<f32>(kind),
        (kind, LaneType::F64) => scanner::<f64>(kind),
        (kind, LaneType::I32) => scanner::<i32>(kind),
        (kind, LaneType::U32) => scanner::<u32>(kind),
        (kind, LaneType::I64) => scanner::<i64>(kind),
        (kind, LaneType::U8) => scanner::<u8>(kind),
    }
}

fn scanner<T: Accumulate + Keyed>(kind: ReduceKind) -> Option<Scanner> {
    match kind {
        ReduceKind::Sum => Some(scanner_of::<Total<T, Sums>, T>()),
        ReduceKind::Prod => Some(scanner_of::<Total<T, Products>, T>()),
        ReduceKind::Max => Some(scanner_of::<Total<T, Largest>, T>()),
        ReduceKind::Min => Some(scanner_of::<Total<T, Smallest>, T>()),
        ReduceKind::ArgMax | ReduceKind::ArgMin | ReduceKind::Moments | ReduceKind::LogSumExp => None,
    }
}

fn scanner_of<R: Running<T>, T: Copy + 'static>() -> Scanner {
    const { assert!(size_of::<R>() <= STATE_BYTES && align_of::<R>() <= 8) };
    unsafe fn init<R: Running<T>, T>(state: *mut u8) {
        // SAFETY: `Scanner::init` is given room for a state.
        unsafe { state.cast::<R>().write(R::EMPTY) }
    }
    Scanner { init: init::<R, T>, run: scans::<Scan<R, T>>() }
}

versioned! {
    /// A loop with the signature [`ScanFn`].
    Scans, scans, base_scans, fn(dst: *mut u8, src: *const u8, n: usize, state: *mut u8)
}

struct Scan<R, T>(PhantomData<(R, T)>);
impl<R: Running<T>, T: Copy> Scans for Scan<R, T> {
    #[inline(always)]
    unsafe fn run<I: Isa>(dst: *mut u8, src: *const u8, n: usize, state: *mut u8) {
        // SAFETY: the contract of `ScanFn`.
        unsafe { (*state.cast::<R>()).scan(view(src, n), view_mut(dst, n)) }
    }
}

/// A state that scans carry.
pub(super) trait Running<T>: Copy + 'static {
    /// The state of no elements.
    const EMPTY: Self;
    /// Takes in a run, and gives the results after each element of it.
    fn scan(&mut self, x: &[T], to: &mut [T]);
}

/// How elements combine, in a form where one operation does it.
trait Combine<T>: Copy + 'static {
    /// The form.
    type Form: Copy + 'static;
    /// What changes nothing.
    const IDENTITY: Self::Form;
    /// Elements brought into the form at a time, whole blocks: as many as make vectors where
    /// that takes several operations. `None` if elements are to be combined one after the other:
    /// if rounding does not hide how they are grouped, or one operation takes a cycle.
    const CHUNK: Option<usize>;
    /// An element's form.
    fn form(x: T) -> Self::Form;
    /// The element of a form.
    fn value(form: Self::Form) -> T;
    /// What all elements up to one and those after it give.
    fn combine(before: Self::Form, x: Self::Form) -> Self::Form;
}

/// Whether the wide type hides how floats are grouped: all products of four of `f32` are
/// numbers of `f64`.
const fn wider<T: Accumulate>() -> bool {
    size_of::<T>() < size_of::<T::Wide>()
}

/// Sums in the wide type.
#[derive(Clone, Copy)]
struct Sums;
impl<T: Accumulate> Combine<T> for Sums {
    type Form = T::Wide;
    const IDENTITY: T::Wide = <T::Wide as Number>::ZERO;
    const CHUNK: Option<usize> = if wider::<T>() { Some(BLOCK) } else { None };
    #[inline(always)]
    fn form(x: T) -> T::Wide {
        x.widen()
    }
    #[inline(always)]
    fn value(form: T::Wide) -> T {
        T::narrow(form)
    }
    #[inline(always)]
    fn combine(before: T::Wide, x: T::Wide) -> T::Wide {
        before.plus(x)
    }
}

/// Products in the wide type.
#[derive(Clone, Copy)]
struct Products;
impl<T: Accumulate> Combine<T> for Products {
    type Form = T::Wide;
    const IDENTITY: T::Wide = <T::Wide as Number>::ONE;
    const CHUNK: Option<usize> = if wider::<T>() || !T::FLOAT { Some(BLOCK) } else { None };
    #[inline(always)]
    fn form(x: T) -> T::Wide {
        x.widen()
    }
    #[inline(always)]
    fn value(form: T::Wide) -> T {
        T::narrow(form)
    }
    #[inline(always)]
    fn combine(before: T::Wide, x: T::Wide) -> T::Wide {
        before.times(x)
    }
}

/// A lane type with a key: an integer that orders as its values do.
trait Keyed: Number {
    /// The integer.
    type Key: Number;
    /// The key of what is no NaN.
    fn key(self) -> Self::Key;
    /// The value of a key: NaN of the lowest and the highest, where there are NaN.
    fn of_key(key: Self::Key) -> Self;
}
macro_rules! integer_keys {
    ($($t:ty),*) => {$(
        impl Keyed for $t {
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
        impl Keyed for $t {
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
    ($($end:ident, $opposite:ident;)*) => {$(
        impl<T: Keyed> Combine<T> for $end {
            type Form = T::Key;
            const IDENTITY: T::Key = <$end as Identity<T::Key>>::IDENTITY;
            const CHUNK: Option<usize> = Some(LANES);
            #[inline(always)]
            fn form(x: T) -> T::Key {
                if x.nan() { <$opposite as Identity<T::Key>>::IDENTITY } else { x.key() }
            }
            #[inline(always)]
            fn value(form: T::Key) -> T {
                T::of_key(form)
            }
            #[inline(always)]
            fn combine(before: T::Key, x: T::Key) -> T::Key {
                $end::better(before, x)
            }
        }
    )*};
}
extremes! {
    Largest, Smallest;
    Smallest, Largest;
}

/// What all elements so far combine to.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Total<T, C: Combine<T>>(C::Form);

/// Elements that are combined among themselves before what came before is combined with each:
/// one operation waits for the block before, and not one for each element.
const BLOCK: usize = 4;

impl<T: Copy + 'static, C: Combine<T>> Running<T> for Total<T, C> {
    const EMPTY: Self = Total(C::IDENTITY);
    #[inline(always)]
    fn scan(&mut self, x: &[T], to: &mut [T]) {
        let mut total = self.0;
        let whole = C::CHUNK.map_or(0, |chunk| x.len() - x.len() % chunk);
        let chunk = C::CHUNK.unwrap_or(BLOCK);
        let ((chunks, rest), (outs, rest_outs)) = (x.split_at(whole), to.split_at_mut(whole));
        let mut forms = [C::IDENTITY; LANES];
        for (x, out) in chunks.chunks_exact(chunk).zip(outs.chunks_exact_mut(chunk)) {
            let forms = &mut forms[..chunk];
            for (form, &x) in forms.iter_mut().zip(x) {
                *form = C::form(x);
            }
            for block in forms.as_chunks_mut::<BLOCK>().0 {
                *block = prefixes::<T, C>(*block).map(|prefix| C::combine(total, prefix));
                total = block[BLOCK - 1];
            }
            for (out, form) in out.iter_mut().zip(forms) {
                *out = C::value(*form);
            }
        }
        for (&x, out) in rest.iter().zip(rest_outs) {
            total = C::combine(total, C::form(x));
            *out = C::value(total);
        }
        self.0 = total;
    }
}

/// What elements up to each combine to.
#[inline(always)]
fn prefixes<T, C: Combine<T>>([a, b, c, d]: [C::Form; BLOCK]) -> [C::Form; BLOCK] {
    let (ab, cd) = (C::combine(a, b), C::combine(c, d));
    [a, ab, C::combine(ab, c), C::combine(ab, cd)]
}
