//! The transforms of Winograd's F(2x2, 3x3) (Lavin and Gray, "Fast algorithms for
//! convolutional neural networks", 2016): 2 by 2 sums over windows of 3 by 3, by 16
//! products in the place of 36. All their factors are powers of two.
//!
//! Rows and columns are written out, one call each: what goes through loops or closures over
//! them LLVM keeps in memory, and reads in other parts than it wrote.

use crate::runtime::cpu::micro::isa::{Isa, versioned};

/// Tiles that a transform computes at a time; what it reads and writes holds as many at least.
pub const TILES: usize = 16;

/// Products of a tile.
pub const PRODUCTS: usize = 16;

/// A run of tiles side by side.
#[derive(Clone, Copy, Debug)]
pub struct TileRow {
    /// The first element read.
    pub from: *const f32,
    /// From an input row, or a product, to the next, in elements.
    pub from_step: usize,
    /// The first element written.
    pub to: *mut f32,
    /// From a product, or an output row, to the next, in elements.
    pub to_step: usize,
    /// How many tiles.
    pub tiles: usize,
}

/// Transforms four rows of an input, 2 elements a tile and 2 more, to the factors of
/// each product.
///
/// # Safety
/// Each of the four rows is readable for `2 * tiles + 2` elements, each of the 16 lines of
/// factors writable for `tiles`, of [`TILES`] tiles if there are fewer; what is written
/// overlaps nothing that is read.
pub fn input() -> unsafe fn(row: &TileRow) {
    each::<Input>()
}

/// Transforms the products to two rows of outputs, 2 elements a tile. Gives whether all
/// outputs of the tiles are finite.
///
/// # Safety
/// Each of the 16 lines of products is readable for `tiles` elements, both rows writable for
/// twice as many; else as [`input`].
pub fn output() -> unsafe fn(row: &TileRow, finite: &mut bool) {
    sums::<Output>()
}

/// Transforms filters: each of the nine lines (the taps, row by row) holds a tap for each of
/// some channels, each of the 16, so many elements apart, receives as many factors.
///
/// # Safety
/// Each line holds an element for each channel; nothing overlaps.
pub fn filter() -> unsafe fn(taps: &[*const f32; 9], to: *mut f32, to_step: usize, channels: usize) {
    spreads::<Filter>()
}

versioned! {
    /// A transform of a run of tiles.
    Each, each, base_each, fn(row: &TileRow)
}
versioned! {
    /// A transform of filters.
    Spreads, spreads, base_spreads,
    fn(taps: &[*const f32; 9], to: *mut f32, to_step: usize, channels: usize)
}
versioned! {
    /// A transform that says something of its results.
    Sums, sums, base_sums, fn(row: &TileRow, finite: &mut bool)
}

/// An element for each of some tiles.
type Block = [f32; TILES];

#[inline(always)]
fn zip(a: &Block, b: &Block, f: impl Fn(f32, f32) -> f32) -> Block {
    std::array::from_fn(|j| f(a[j], b[j]))
}

/// The first of each [`TILES`] tiles; the last lie over others, if they are too few by
/// themselves, so that nothing is touched beyond what there is.
#[inline(always)]
fn starts(tiles: usize) -> impl Iterator<Item = usize> {
    (0..tiles.div_ceil(TILES)).map(move |block| (block * TILES).min(tiles.saturating_sub(TILES)))
}

/// The `j`th of each row.
#[inline(always)]
fn nth<const ROWS: usize, const COLUMNS: usize>(rows: &[[Block; COLUMNS]; ROWS], j: usize) -> [&Block; ROWS] {
    rows.each_ref().map(|row| &row[j])
}

struct Input;
impl Each for Input {
    #[inline(always)]
    unsafe fn run<I: Isa>(row: &TileRow) {
        let TileRow { from, from_step, to, to_step, tiles } = *row;
        for start in starts(tiles) {
            let (from, to) = (from.wrapping_add(2 * start), to.wrapping_add(start));
            // SAFETY: the function's contract.
            unsafe {
                let rows = [
                    columns(from),
                    columns(from.add(from_step)),
                    columns(from.add(2 * from_step)),
                    columns(from.add(3 * from_step)),
                ];
                let columns =
                    [four(nth(&rows, 0)), four(nth(&rows, 1)), four(nth(&rows, 2)), four(nth(&rows, 3))];
                put(four(nth(&columns, 0)), to, to_step);
                put(four(nth(&columns, 1)), to.add(4 * to_step), to_step);
                put(four(nth(&columns, 2)), to.add(8 * to_step), to_step);
                put(four(nth(&columns, 3)), to.add(12 * to_step), to_step);
            }
        }
    }
}

/// Writes blocks to lines a step apart.
///
/// # Safety
/// Each place is writable.
#[inline(always)]
unsafe fn put([a, b, c, d]: [Block; 4], to: *mut f32, step: usize) {
    // SAFETY: as the caller says.
    unsafe {
        to.cast::<Block>().write_unaligned(a);
        to.add(step).cast::<Block>().write_unaligned(b);
        to.add(2 * step).cast::<Block>().write_unaligned(c);
        to.add(3 * step).cast::<Block>().write_unaligned(d);
    }
}

/// What four elements of an input give.
#[inline(always)]
fn four([a, b, c, d]: [&Block; 4]) -> [Block; 4] {
    [zip(a, c, |a, c| a - c), zip(b, c, |b, c| b + c), zip(c, b, |c, b| c - b), zip(b, d, |b, d| b - d)]
}

/// The four elements of each tile's row, tiles two apart.
///
/// # Safety
/// `2 * TILES + 2` elements are readable.
#[inline(always)]
unsafe fn columns(row: *const f32) -> [Block; 4] {
    // SAFETY: as the caller says.
    let ([first, second], [third, fourth]) = unsafe { (split(row), split(row.add(2))) };
    [first, second, third, fourth]
}

/// Elements at even and at odd distances: halves of 64 bits, which LLVM takes apart whole
/// vectors at a time, where elements two apart become scalars.
///
/// # Safety
/// `2 * TILES` elements are readable.
#[inline(always)]
unsafe fn split(row: *const f32) -> [Block; 2] {
    // SAFETY: as the caller says.
    let pairs: [u64; TILES] = unsafe { row.cast::<[u64; TILES]>().read_unaligned() };
    let (low, high) = (
        pairs.map(|pair| f32::from_bits(pair as u32)),
        pairs.map(|pair| f32::from_bits((pair >> 32) as u32)),
    );
    if cfg!(target_endian = "little") { [low, high] } else { [high, low] }
}

/// Writes what [`split`] would take apart.
///
/// # Safety
/// `2 * TILES` elements are writable.
#[inline(always)]
unsafe fn put_joined([even, odd]: &[Block; 2], to: *mut f32) {
    let [low, high] = if cfg!(target_endian = "little") { [even, odd] } else { [odd, even] };
    let pairs: [u64; TILES] =
        std::array::from_fn(|j| u64::from(high[j].to_bits()) << 32 | u64::from(low[j].to_bits()));
    // SAFETY: as the caller says.
    unsafe { to.cast::<[u64; TILES]>().write_unaligned(pairs) };
}

struct Output;
impl Sums for Output {
    #[inline(always)]
    unsafe fn run<I: Isa>(row: &TileRow, finite: &mut bool) {
        let TileRow { from, from_step, to, to_step, tiles } = *row;
        // A number that is not finite is none any more when multiplied by 0.
        let mut faults = [0.0; TILES];
        for start in starts(tiles) {
            let from = from.wrapping_add(start);
            // SAFETY: the function's contract.
            unsafe {
                let rows = [
                    get(from, from_step),
                    get(from.add(4 * from_step), from_step),
                    get(from.add(8 * from_step), from_step),
                    get(from.add(12 * from_step), from_step),
                ];
                let columns =
                    [two(nth(&rows, 0)), two(nth(&rows, 1)), two(nth(&rows, 2)), two(nth(&rows, 3))];
                let (first, second) = (two(nth(&columns, 0)), two(nth(&columns, 1)));
                for outputs in [&first[0], &first[1], &second[0], &second[1]] {
                    (0..TILES).for_each(|j| faults[j] += outputs[j] * 0.0);
                }
                put_joined(&first, to.add(2 * start));
                put_joined(&second, to.add(to_step + 2 * start));
            }
        }
        *finite &= faults.iter().take(tiles).all(|&fault| fault == 0.0);
    }
}

/// Reads blocks from lines a step apart.
///
/// # Safety
/// Each is readable.
#[inline(always)]
unsafe fn get(from: *const f32, step: usize) -> [Block; 4] {
    // SAFETY: as the caller says.
    unsafe { [*from.cast(), *from.add(step).cast(), *from.add(2 * step).cast(), *from.add(3 * step).cast()] }
}

/// What four products give.
#[inline(always)]
fn two([a, b, c, d]: [&Block; 4]) -> [Block; 2] {
    let (sum, difference) = (zip(b, c, |b, c| b + c), zip(b, c, |b, c| b - c));
    [zip(a, &sum, |a, sum| a + sum), zip(&difference, d, |difference, d| difference - d)]
}

struct Filter;
impl Spreads for Filter {
    #[inline(always)]
    unsafe fn run<I: Isa>(taps: &[*const f32; 9], to: *mut f32, to_step: usize, channels: usize) {
        for start in (0..channels).step_by(TILES) {
            let count = TILES.min(channels - start);
            // SAFETY: the function's contract.
            let taps = taps.map(|tap| unsafe { some(tap.add(start), count) });
            let [a, b, c, d, e, f, g, h, i] = taps.each_ref();
            let columns = [spread([a, d, g]), spread([b, e, h]), spread([c, f, i])];
            let lines = [0, 1, 2, 3].map(|i| spread(nth(&columns, i)));
            for (i, factors) in lines.as_flattened().iter().enumerate() {
                // SAFETY: the function's contract.
                unsafe { to.add(i * to_step + start).copy_from_nonoverlapping(factors.as_ptr(), count) };
            }
        }
    }
}

/// The first elements of a line, and zeros.
///
/// # Safety
/// `count` elements are readable, which are no more than a block has.
#[inline(always)]
unsafe fn some(line: *const f32, count: usize) -> Block {
    let mut block = [0.0; TILES];
    // SAFETY: as the caller says.
    unsafe { line.copy_to_nonoverlapping(block.as_mut_ptr(), count) };
    block
}

/// What three taps give.
#[inline(always)]
fn spread([a, b, c]: [&Block; 3]) -> [Block; 4] {
    let ends = zip(a, c, |a, c| 0.5 * (a + c));
    [*a, zip(&ends, b, |ends, b| ends + 0.5 * b), zip(&ends, b, |ends, b| ends - 0.5 * b), *c]
}
