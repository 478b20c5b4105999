//! The transforms of Winograd's F(2x2, 3x3) (Lavin and Gray, "Fast algorithms for
//! convolutional neural networks", 2016): 2 by 2 sums over windows of 3 by 3, by 16
//! products in the place of 36. All their factors are powers of two.
//!
//! Rows and columns are unrolled by hand: LLVM keeps arrays that loops or closures go over in memory,
//! where reads of other widths than the writes miss store forwarding.

use crate::micro::isa::{Isa, versioned};

/// Tiles that a transform computes at a time; its buffers hold at least as many.
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
/// Each of the four rows is readable for `2 * tiles + 2` elements, each of the 16 rows of
/// factors writable for `tiles`, of [`TILES`] tiles if there are fewer; what is written
/// overlaps nothing that is read.
pub fn input() -> unsafe fn(row: &TileRow) {
    input_loop::<InputTransform>()
}

/// Transforms the products to two rows of outputs, 2 elements a tile. Gives whether all
/// outputs of the tiles are finite.
///
/// # Safety
/// Each of the 16 rows of products is readable for `tiles` elements, both rows writable for
/// twice as many; else as [`input`].
pub fn output() -> unsafe fn(row: &TileRow, finite: &mut bool) {
    output_loop::<OutputTransform>()
}

/// Transforms filters: each of the nine rows (the taps, row-major) holds a tap for each channel,
/// each of the 16 rows of factors, `to_step` elements apart, receives a factor for each.
///
/// # Safety
/// Each row holds an element for each channel; nothing overlaps.
pub fn filter() -> unsafe fn(taps: &[*const f32; 9], to: *mut f32, to_step: usize, channels: usize) {
    filter_loop::<FilterTransform>()
}

versioned! {
    /// A transform of a run of tiles.
    InputLoop, input_loop, base_input_loop, fn(row: &TileRow)
}
versioned! {
    /// A transform of filters.
    FilterLoop, filter_loop, base_filter_loop,
    fn(taps: &[*const f32; 9], to: *mut f32, to_step: usize, channels: usize)
}
versioned! {
    /// A transform that reports whether its results are finite.
    OutputLoop, output_loop, base_output_loop, fn(row: &TileRow, finite: &mut bool)
}

/// An element for each of some tiles.
type TileLanes = [f32; TILES];

#[inline(always)]
fn zip(a: &TileLanes, b: &TileLanes, f: impl Fn(f32, f32) -> f32) -> TileLanes {
    std::array::from_fn(|j| f(a[j], b[j]))
}

/// The first of each [`TILES`] tiles; the last group overlaps the one before rather than exceed the
/// tiles.
#[inline(always)]
fn starts(tiles: usize) -> impl Iterator<Item = usize> {
    (0..tiles.div_ceil(TILES)).map(move |block| (block * TILES).min(tiles.saturating_sub(TILES)))
}

/// The `j`th of each row.
#[inline(always)]
fn nth<const ROWS: usize, const COLUMNS: usize>(
    rows: &[[TileLanes; COLUMNS]; ROWS],
    j: usize,
) -> [&TileLanes; ROWS] {
    rows.each_ref().map(|row| &row[j])
}

struct InputTransform;
impl InputLoop for InputTransform {
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
                let columns = [
                    input_1d(nth(&rows, 0)),
                    input_1d(nth(&rows, 1)),
                    input_1d(nth(&rows, 2)),
                    input_1d(nth(&rows, 3)),
                ];
                store_rows(input_1d(nth(&columns, 0)), to, to_step);
                store_rows(input_1d(nth(&columns, 1)), to.add(4 * to_step), to_step);
                store_rows(input_1d(nth(&columns, 2)), to.add(8 * to_step), to_step);
                store_rows(input_1d(nth(&columns, 3)), to.add(12 * to_step), to_step);
            }
        }
    }
}

/// Writes four vectors to rows a step apart.
///
/// # Safety
/// Each place is writable.
#[inline(always)]
unsafe fn store_rows([a, b, c, d]: [TileLanes; 4], to: *mut f32, step: usize) {
    // SAFETY: as the caller says.
    unsafe {
        to.cast::<TileLanes>().write_unaligned(a);
        to.add(step).cast::<TileLanes>().write_unaligned(b);
        to.add(2 * step).cast::<TileLanes>().write_unaligned(c);
        to.add(3 * step).cast::<TileLanes>().write_unaligned(d);
    }
}

/// The input transform along one dimension.
#[inline(always)]
fn input_1d([a, b, c, d]: [&TileLanes; 4]) -> [TileLanes; 4] {
    [zip(a, c, |a, c| a - c), zip(b, c, |b, c| b + c), zip(c, b, |c, b| c - b), zip(b, d, |b, d| b - d)]
}

/// The four elements of each tile's row, tiles two apart.
///
/// # Safety
/// `2 * TILES + 2` elements are readable.
#[inline(always)]
unsafe fn columns(row: *const f32) -> [TileLanes; 4] {
    // SAFETY: as the caller says.
    let ([first, second], [third, fourth]) = unsafe { (deinterleave(row), deinterleave(row.add(2))) };
    [first, second, third, fourth]
}

/// Deinterleaves even and odd elements as halves of 64 bits, which LLVM vectorises where it compiles
/// elements two apart to scalars.
///
/// # Safety
/// `2 * TILES` elements are readable.
#[inline(always)]
unsafe fn deinterleave(row: *const f32) -> [TileLanes; 2] {
    // SAFETY: as the caller says.
    let pairs: [u64; TILES] = unsafe { row.cast::<[u64; TILES]>().read_unaligned() };
    let (low, high) = (
        pairs.map(|pair| f32::from_bits(pair as u32)),
        pairs.map(|pair| f32::from_bits((pair >> 32) as u32)),
    );
    if cfg!(target_endian = "little") { [low, high] } else { [high, low] }
}

/// The inverse of [`deinterleave`].
///
/// # Safety
/// `2 * TILES` elements are writable.
#[inline(always)]
unsafe fn store_interleaved([even, odd]: &[TileLanes; 2], to: *mut f32) {
    let [low, high] = if cfg!(target_endian = "little") { [even, odd] } else { [odd, even] };
    let pairs: [u64; TILES] =
        std::array::from_fn(|j| u64::from(high[j].to_bits()) << 32 | u64::from(low[j].to_bits()));
    // SAFETY: as the caller says.
    unsafe { to.cast::<[u64; TILES]>().write_unaligned(pairs) };
}

struct OutputTransform;
impl OutputLoop for OutputTransform {
    #[inline(always)]
    unsafe fn run<I: Isa>(row: &TileRow, finite: &mut bool) {
        let TileRow { from, from_step, to, to_step, tiles } = *row;
        // Infinities and NaN become NaN when multiplied by 0.
        let mut non_finite = [0.0; TILES];
        for start in starts(tiles) {
            let from = from.wrapping_add(start);
            // SAFETY: the function's contract.
            unsafe {
                let rows = [
                    load_rows(from, from_step),
                    load_rows(from.add(4 * from_step), from_step),
                    load_rows(from.add(8 * from_step), from_step),
                    load_rows(from.add(12 * from_step), from_step),
                ];
                let columns = [
                    output_1d(nth(&rows, 0)),
                    output_1d(nth(&rows, 1)),
                    output_1d(nth(&rows, 2)),
                    output_1d(nth(&rows, 3)),
                ];
                let (first, second) = (output_1d(nth(&columns, 0)), output_1d(nth(&columns, 1)));
                for outputs in [&first[0], &first[1], &second[0], &second[1]] {
                    (0..TILES).for_each(|j| non_finite[j] += outputs[j] * 0.0);
                }
                store_interleaved(&first, to.add(2 * start));
                store_interleaved(&second, to.add(to_step + 2 * start));
            }
        }
        *finite &= non_finite.iter().take(tiles).all(|&x| x == 0.0);
    }
}

/// Reads four vectors from rows a step apart.
///
/// # Safety
/// Each is readable.
#[inline(always)]
unsafe fn load_rows(from: *const f32, step: usize) -> [TileLanes; 4] {
    // SAFETY: as the caller says.
    unsafe { [*from.cast(), *from.add(step).cast(), *from.add(2 * step).cast(), *from.add(3 * step).cast()] }
}

/// The output transform along one dimension.
#[inline(always)]
fn output_1d([a, b, c, d]: [&TileLanes; 4]) -> [TileLanes; 2] {
    let (sum, difference) = (zip(b, c, |b, c| b + c), zip(b, c, |b, c| b - c));
    [zip(a, &sum, |a, sum| a + sum), zip(&difference, d, |difference, d| difference - d)]
}

struct FilterTransform;
impl FilterLoop for FilterTransform {
    #[inline(always)]
    unsafe fn run<I: Isa>(taps: &[*const f32; 9], to: *mut f32, to_step: usize, channels: usize) {
        for start in (0..channels).step_by(TILES) {
            let count = TILES.min(channels - start);
            // SAFETY: the function's contract.
            let taps = taps.map(|tap| unsafe { load_first(tap.add(start), count) });
            let [a, b, c, d, e, f, g, h, i] = taps.each_ref();
            let columns = [filter_1d([a, d, g]), filter_1d([b, e, h]), filter_1d([c, f, i])];
            let rows = [0, 1, 2, 3].map(|i| filter_1d(nth(&columns, i)));
            for (i, factors) in rows.as_flattened().iter().enumerate() {
                // SAFETY: the function's contract.
                unsafe { to.add(i * to_step + start).copy_from_nonoverlapping(factors.as_ptr(), count) };
            }
        }
    }
}

/// The first elements of a row, then zeros.
///
/// # Safety
/// `count` elements are readable, which are no more than a block has.
#[inline(always)]
unsafe fn load_first(row: *const f32, count: usize) -> TileLanes {
    let mut block = [0.0; TILES];
    // SAFETY: as the caller says.
    unsafe { row.copy_to_nonoverlapping(block.as_mut_ptr(), count) };
    block
}

/// The filter transform along one dimension.
#[inline(always)]
fn filter_1d([a, b, c]: [&TileLanes; 3]) -> [TileLanes; 4] {
    let ends = zip(a, c, |a, c| 0.5 * (a + c));
    [*a, zip(&ends, b, |ends, b| ends + 0.5 * b), zip(&ends, b, |ends, b| ends - 0.5 * b), *c]
}
