//! Fourier transforms of many columns at once: `X[k] = sum over j of x[j] e^(-2 pi i j k / n)`.
//!
//! A vector holds one point of several columns, so no step but the last one of [`Store::Turned`] moves
//! elements within vectors. A transform works in place on columns in scratch memory, factor by factor from
//! the largest distance down (decimation in frequency: Gentleman and Sande, "Fast Fourier transforms for fun
//! and profit", 1966), which leaves frequencies out of order; storing reads them in order.

mod butterfly;
mod roots;
#[cfg(test)]
mod tests;
mod vector;

pub use roots::root;

use crate::DType;
use crate::micro::fft::butterfly::{Lanes, eight, five, four, prime, three, two};
use crate::micro::fft::vector::Vector;
use crate::micro::fold::Real;
use crate::micro::isa::{Isa, versioned};
use crate::micro::lane::Number;
use crate::micro::transpose::load_tile_transposed;

/// Columns that are transformed together.
pub const COLUMNS: usize = 16;

/// The largest prime that a length may contain.
pub const LARGEST_PRIME: usize = 31;

/// Elements of a row in scratch memory: real parts, then imaginary ones.
const ROW: usize = 2 * COLUMNS;

/// A type that is transformed.
#[expect(private_bounds, reason = "only the floats of this crate")]
pub trait Point: Real {
    /// The element type.
    const DTYPE: DType;
    /// The nearest number.
    fn rounded(x: f64) -> Self;
}
impl Point for f32 {
    const DTYPE: DType = DType::F32;
    fn rounded(x: f64) -> f32 {
        x as f32
    }
}
impl Point for f64 {
    const DTYPE: DType = DType::F64;
    fn rounded(x: f64) -> f64 {
        x
    }
}

/// The factors of a length and their roots of unity.
#[derive(Debug)]
pub struct Transform<T> {
    levels: Vec<Level<T>>,
    /// Where each frequency lies in the end.
    order: Vec<u32>,
}

/// One factor.
#[derive(Debug)]
struct Level<T> {
    radix: usize,
    /// Points of the blocks that are split.
    length: usize,
    /// For each point of a part, `w^j, .., w^(j (radix - 1))`.
    twiddles: Vec<[T; 2]>,
    /// The powers of the root of the radix.
    roots: Vec<[T; 2]>,
}

impl<T: Point> Transform<T> {
    /// For columns of so many points; `None` where a prime factor is larger than [`LARGEST_PRIME`].
    pub fn new(n: usize) -> Option<Transform<T>> {
        let mut levels = Vec::new();
        let mut order = vec![0u32];
        let mut rest = n;
        while rest > 1 {
            let radix = radix(rest)?;
            let (length, part) = (rest, rest / radix);
            let pair = |k: usize, n: usize| {
                let (cos, sin) = root(k % n, n);
                [T::rounded(cos), T::rounded(-sin)]
            };
            let row = |j: usize| (1..radix).map(move |k| pair(j * k, length));
            let twiddles = (0..part).flat_map(row).collect();
            let roots = (0..radix).map(|k| pair(k, radix)).collect();
            levels.push(Level { radix, length, twiddles, roots });
            // Frequency k + radix f is where the kth part has f.
            rest = part;
            let known = order.len();
            order = (0..radix * known).map(|i| order[i % known] + (i / known * part) as u32).collect();
        }
        Some(Transform { levels, order })
    }

    /// Points of a column.
    pub fn points(&self) -> usize {
        self.order.len()
    }

    /// Elements of the scratch memory.
    pub fn scratch(&self) -> usize {
        2 * self.points() * ROW
    }
}

/// The factor taken first: few passes, but no more numbers than there are registers.
fn radix(n: usize) -> Option<usize> {
    let power = n.trailing_zeros();
    match power {
        2 | 4 => Some(4),
        1 => Some(2),
        0 => (3..=LARGEST_PRIME).find(|factor| n.is_multiple_of(*factor)),
        _ => Some(8),
    }
}

/// Where columns come from: rows of adjacent columns.
#[derive(Clone, Copy, Debug)]
pub struct Source<T> {
    /// The first real part.
    pub re: *const T,
    /// The first imaginary part; null where there are none.
    pub im: *const T,
    /// From a row to the next, in elements.
    pub step: usize,
}

/// Where results go.
#[derive(Clone, Copy, Debug)]
pub enum Store<T> {
    /// Rows like those of the source, times a number.
    Rows {
        /// The first real and imaginary part.
        to: [*mut T; 2],
        /// From a row to the next, in elements.
        step: usize,
        /// The number.
        scale: T,
    },
    /// Times factors, one row for each column, rows adjacent.
    Turned {
        /// The first real and imaginary part.
        to: [*mut T; 2],
        /// For each point real and imaginary parts of the factors of [`COLUMNS`] columns.
        factors: *const T,
    },
}

/// The transform of some columns.
#[derive(Debug)]
pub struct Job<'a, T> {
    /// Factors of the length.
    pub transform: &'a Transform<T>,
    /// Where they come from.
    pub from: Source<T>,
    /// How many columns, at most [`COLUMNS`].
    pub columns: usize,
    /// Where results go; may be the memory of the source.
    pub to: Store<T>,
    /// As many elements as [`Transform::scratch`] says.
    pub scratch: *mut T,
}

/// The loop for a type: `fn(job)`.
///
/// # Safety
/// What the job points at is readable, or writable, at each place of its columns and rows, and nothing else
/// accesses it meanwhile. Scratch memory overlaps nothing else.
pub fn columns_f32() -> unsafe fn(job: &Job<'_, f32>) {
    single_loop::<Columns>()
}

/// As [`columns_f32`].
pub fn columns_f64() -> unsafe fn(job: &Job<'_, f64>) {
    double_loop::<Columns>()
}

versioned! {
    /// Transforms of `f32`.
    SingleLoop, single_loop, base_single_loop, fn(job: &Job<'_, f32>)
}
versioned! {
    /// Transforms of `f64`.
    DoubleLoop, double_loop, base_double_loop, fn(job: &Job<'_, f64>)
}

struct Columns;
impl SingleLoop for Columns {
    #[inline(always)]
    unsafe fn run<I: Isa>(job: &Job<'_, f32>) {
        // SAFETY: the caller's promise; with AVX2 there are its vectors.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            if I::AVX2 {
                return columns::<std::arch::x86_64::__m256>(job);
            }
            columns::<[f32; 1]>(job);
        }
    }
}
impl DoubleLoop for Columns {
    #[inline(always)]
    unsafe fn run<I: Isa>(job: &Job<'_, f64>) {
        // SAFETY: as above.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            if I::AVX2 {
                return columns::<std::arch::x86_64::__m256d>(job);
            }
            columns::<[f64; 1]>(job);
        }
    }
}

/// # Safety
/// As [`columns_f32`], and the machine has the vector's instruction set.
#[inline(always)]
unsafe fn columns<V: Vector>(job: &Job<'_, V::Element>) {
    let Job { transform, from, columns, to, scratch } = *job;
    // SAFETY: rows and columns are the job's; scratch memory has two rows a point.
    unsafe {
        load(transform.points(), from, columns, scratch);
        in_place::<V>(transform, scratch);
        match to {
            Store::Rows { to, step, scale } => {
                for (k, &at) in transform.order.iter().enumerate() {
                    let row = scratch.add(at as usize * ROW);
                    store::<V>(row, to.map(|to| to.add(k * step)), columns, scale);
                }
            }
            Store::Turned { to, factors } => {
                let points = transform.points();
                let planes = scratch.add(points * ROW);
                turned::<V>(transform, scratch, planes, factors);
                let turn = load_tile_transposed(<V::Element as Point>::DTYPE);
                for (part, to) in to.into_iter().enumerate() {
                    let plane = planes.add(part * points * COLUMNS);
                    turn(to.cast(), plane.cast(), columns, points, COLUMNS as isize, 0);
                }
            }
        }
    }
}

/// # Safety
/// As [`columns_f32`].
#[inline(always)]
unsafe fn load<T: Point>(points: usize, from: Source<T>, columns: usize, scratch: *mut T) {
    for j in 0..points {
        // SAFETY: row `j` of the source and of scratch memory.
        unsafe {
            let row = scratch.add(j * ROW);
            if columns == COLUMNS {
                from.re.add(j * from.step).copy_to_nonoverlapping(row, COLUMNS);
            } else {
                row.write_bytes(0, COLUMNS);
                from.re.add(j * from.step).copy_to_nonoverlapping(row, columns);
            }
            let row = row.add(COLUMNS);
            if from.im.is_null() {
                row.write_bytes(0, COLUMNS);
            } else if columns == COLUMNS {
                from.im.add(j * from.step).copy_to_nonoverlapping(row, COLUMNS);
            } else {
                row.write_bytes(0, COLUMNS);
                from.im.add(j * from.step).copy_to_nonoverlapping(row, columns);
            }
        }
    }
}

/// # Safety
/// A row in scratch memory, and the results' columns.
#[inline(always)]
unsafe fn store<V: Vector>(
    row: *const V::Element,
    to: [*mut V::Element; 2],
    columns: usize,
    scale: V::Element,
) {
    // SAFETY: the caller's promise; vectors end before the last column.
    unsafe {
        let by = V::splat(scale);
        for (part, to) in to.into_iter().enumerate() {
            let row = row.add(part * COLUMNS);
            let whole = columns - columns % V::WIDTH;
            for c in (0..whole).step_by(V::WIDTH) {
                V::load(row.add(c)).times(by).store(to.add(c));
            }
            for c in whole..columns {
                to.add(c).write(row.add(c).read().times(scale));
            }
        }
    }
}

/// Frequencies in order, times their factors, with the parts in planes of their own.
///
/// # Safety
/// As [`columns_f32`].
#[inline(always)]
unsafe fn turned<V: Vector>(
    transform: &Transform<V::Element>,
    scratch: *const V::Element,
    planes: *mut V::Element,
    factors: *const V::Element,
) {
    let points = transform.points();
    for (k, &at) in transform.order.iter().enumerate() {
        for c in (0..COLUMNS).step_by(V::WIDTH) {
            // SAFETY: row `k` of the factors, and of each plane.
            unsafe {
                let z = Lanes::<V>::load(scratch.add(at as usize * ROW + c));
                let z = z.times(Lanes::load(factors.add(k * ROW + c)));
                z.store(planes.add(k * COLUMNS + c), points * COLUMNS);
            }
        }
    }
}

/// # Safety
/// As [`columns_f32`].
#[inline(always)]
unsafe fn in_place<V: Vector>(transform: &Transform<V::Element>, scratch: *mut V::Element) {
    let Some((first, rest)) = transform.levels.split_first() else { return };
    // SAFETY: blocks of the points in scratch memory.
    unsafe {
        level::<V>(first, scratch);
        // Each part in all levels, while it is in the cache.
        let part = first.length / first.radix;
        for start in (0..first.length).step_by(part) {
            for next in rest {
                for block in (start..start + part).step_by(next.length) {
                    level::<V>(next, scratch.add(block * ROW));
                }
            }
        }
    }
}

/// # Safety
/// A block of a level's points.
#[inline(always)]
unsafe fn level<V: Vector>(level: &Level<V::Element>, block: *mut V::Element) {
    // SAFETY: the caller's promise.
    unsafe {
        match level.radix {
            2 => pass2::<V>(level, block),
            3 => pass3::<V>(level, block),
            4 => pass4::<V>(level, block),
            5 => pass5::<V>(level, block),
            8 => pass8::<V>(level, block),
            _ => prime_pass::<V>(level, block),
        }
    }
}

/// The pass of a radix, its points spelled out: arrays that loops fill stay in memory.
macro_rules! passes {
    ($($name:ident $radix:literal $butterfly:expr, $($k:literal)*;)*) => {$(
        /// # Safety
        /// A block of a level's points, of this radix.
        #[inline(always)]
        unsafe fn $name<V: Vector>(level: &Level<V::Element>, block: *mut V::Element) {
            let part = level.length / $radix;
            for j in 0..part {
                let twiddles = &level.twiddles[j * ($radix - 1)..][..$radix - 1];
                for c in (0..COLUMNS).step_by(V::WIDTH) {
                    // SAFETY: points `j + k part` of the block.
                    unsafe {
                        let first = block.add(j * ROW + c);
                        let step = part * ROW;
                        let y = $butterfly([Lanes::<V>::load(first), $(Lanes::load(first.add($k * step))),*]);
                        y[0].store(first, COLUMNS);
                        if j == 0 {
                            $(y[$k].store(first.add($k * step), COLUMNS);)*
                        } else {
                            $(
                                let twiddle = Lanes::splat(twiddles[$k - 1]);
                                y[$k].times(twiddle).store(first.add($k * step), COLUMNS);
                            )*
                        }
                    }
                }
            }
        }
    )*};
}
passes! {
    pass2 2 two, 1;
    pass3 3 three, 1 2;
    pass4 4 four, 1 2 3;
    pass5 5 five, 1 2 3 4;
    pass8 8 eight, 1 2 3 4 5 6 7;
}

/// # Safety
/// A block of a level's points.
#[inline(always)]
unsafe fn prime_pass<V: Vector>(level: &Level<V::Element>, block: *mut V::Element) {
    let (radix, part) = (level.radix, level.length / level.radix);
    for j in 0..part {
        for c in (0..COLUMNS).step_by(V::WIDTH) {
            // SAFETY: points `j + k part` of the block.
            unsafe {
                let at = |k: usize| block.add((j + k * part) * ROW + c);
                let mut x = [Lanes::<V>::load(at(0)); LARGEST_PRIME];
                let mut y = x;
                for (k, x) in x.iter_mut().enumerate().take(radix).skip(1) {
                    *x = Lanes::load(at(k));
                }
                prime(&x[..radix], &mut y[..radix], &level.roots);
                y[0].store(at(0), COLUMNS);
                for (k, y) in y.iter().enumerate().take(radix).skip(1) {
                    let twiddle = Lanes::splat(level.twiddles[j * (radix - 1) + k - 1]);
                    y.times(twiddle).store(at(k), COLUMNS);
                }
            }
        }
    }
}
