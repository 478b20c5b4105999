//! Reductions of many short lines, sixteen at a time.
//!
//! Within a line shorter than a few vectors, what combines the lanes of a vector takes longer
//! than what the elements take. So that lines are lanes, squares of elements are transposed, once
//! a line's vectors are combined to one.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use crate::base::DType;
use crate::runtime::cpu::micro::accumulate::{Column, Sum};
use crate::runtime::cpu::micro::fold::{Largest, Smallest};
use crate::runtime::cpu::micro::isa::{Isa, versioned};
use crate::runtime::cpu::micro::lane::{Lane, Number};
use crate::runtime::cpu::micro::reduce::{Reduction, on};
use crate::runtime::cpu::micro::transpose::load_tile_transposed;
use crate::runtime::cpu::micro::{view, view_mut};

/// Lines that are reduced together.
pub const LINES: usize = 16;

/// Elements of a short line at most.
pub const SHORT: usize = 64;

/// Elements of a line that are combined side by side.
const BESIDE: usize = 4;

/// Reduces at least [`LINES`] lines that follow each other, of at most [`SHORT`] elements each:
/// `fn(out, src, n, lines)`, a result for each.
///
/// # Safety
/// `src` is valid for `n * lines` aligned elements, `out` for `lines` results; they do not
/// overlap.
pub type ShortFn = unsafe fn(out: *mut u8, src: *const u8, n: usize, lines: usize);

/// The function that reduces short lines of elements of type `dtype`, where they have four
/// bytes in a register and the reduction's state is one of them.
pub fn short(kind: Reduction, dtype: DType) -> Option<ShortFn> {
    match Lane::of(dtype) {
        Lane::F32 => of::<f32>(on(kind, dtype)),
        Lane::I32 => of::<i32>(on(kind, dtype)),
        Lane::U32 => of::<u32>(on(kind, dtype)),
        Lane::F64 | Lane::I64 | Lane::U8 => None,
    }
}

fn of<T: Number>(kind: Reduction) -> Option<ShortFn> {
    match kind {
        Reduction::Sum => Some(shorts::<Short<Sum, T>>()),
        Reduction::Max => Some(shorts::<Short<Largest, T>>()),
        Reduction::Min => Some(shorts::<Short<Smallest, T>>()),
        Reduction::Prod
        | Reduction::ArgMax
        | Reduction::ArgMin
        | Reduction::Moments
        | Reduction::LogSumExp => None,
    }
}

versioned! {
    /// A loop with the signature [`ShortFn`].
    Shorts, shorts, base_shorts, fn(out: *mut u8, src: *const u8, n: usize, lines: usize)
}

struct Short<C, T>(PhantomData<(C, T)>);
impl<C: Column<T, Second = ()>, T: Number> Shorts for Short<C, T> {
    #[inline(always)]
    unsafe fn run<I: Isa>(out: *mut u8, src: *const u8, n: usize, lines: usize) {
        debug_assert!(n <= SHORT && lines >= LINES);
        let transposed = load_tile_transposed(DType::U32);
        let mut room = [const { MaybeUninit::<[T; LINES]>::uninit() }; SHORT];
        // SAFETY: the contract of `ShortFn`; what is read of the room was written.
        unsafe {
            let out: &mut [T] = view_mut(out, lines);
            for first in (0..lines).step_by(LINES) {
                // The last lines lie over those before, and are reduced once more.
                let first = first.min(lines - LINES);
                let from = src.cast::<T>().add(first * n);
                let to = room.as_mut_ptr().cast::<u8>();
                let (vectors, rest) = (n / LINES, n % LINES);
                let count = if vectors > 1 {
                    let mut one = [[C::empty().0; LINES]; LINES];
                    for (line, one) in one.iter_mut().enumerate() {
                        *one = folded::<I, C, T>(view(from.add(line * n).cast(), n));
                    }
                    transposed(to, one.as_ptr().cast(), LINES, LINES, LINES as isize, 0);
                    let (to, from) = (room.as_mut_ptr().add(LINES), from.add(vectors * LINES));
                    transposed(to.cast(), from.cast(), rest, LINES, n as isize, 0);
                    LINES + rest
                } else {
                    transposed(to, from.cast(), n, LINES, n as isize, 0);
                    n
                };
                let elements = view::<[T; LINES]>(room.as_ptr().cast(), count);
                out[first..first + LINES].copy_from_slice(&reduced::<I, C, T>(elements));
            }
        }
    }
}

/// The elements of a line's whole vectors, of which there is one at least, lane by lane.
#[inline(always)]
fn folded<I: Isa, C: Column<T, Second = ()>, T: Number>(line: &[T]) -> [T; LINES] {
    let (vectors, _) = line.as_chunks::<LINES>();
    let mut sums = vectors[0];
    for vector in &vectors[1..] {
        sums = joined::<I, C, T>(sums, vector);
    }
    sums
}

/// Two vectors, lane by lane.
#[inline(always)]
fn joined<I: Isa, C: Column<T, Second = ()>, T: Number>(x: [T; LINES], y: &[T; LINES]) -> [T; LINES] {
    std::array::from_fn(|lane| C::step::<I>((x[lane], ()), y[lane], 0).0)
}

/// The results of lines whose first elements come first, then the second ones.
#[inline(always)]
fn reduced<I: Isa, C: Column<T, Second = ()>, T: Number>(elements: &[[T; LINES]]) -> [T; LINES] {
    let join = joined::<I, C, T>;
    let [mut a, mut b, mut c, mut d] = [[C::empty().0; LINES]; BESIDE];
    let (fours, rest) = elements.as_chunks::<BESIDE>();
    for [p, q, r, s] in fours {
        (a, b, c, d) = (join(a, p), join(b, q), join(c, r), join(d, s));
    }
    for x in rest {
        a = join(a, x);
    }
    join(join(a, &b), &join(c, &d))
}
