//! The transforms of Winograd's F(2x2, 3x3) (Lavin and Gray, "Fast algorithms for
//! convolutional neural networks", 2016): 2 by 2 sums over windows of 3 by 3, by 16
//! products in the place of 36. All their factors are powers of two.

use crate::runtime::cpu::micro::isa::{Isa, versioned};

/// Tiles that a transform computes at a time; what it reads and writes is padded to
/// a multiple.
pub const TILES: usize = 16;

/// Products of a tile.
pub const PRODUCTS: usize = 16;

/// Elements of a row that the inputs of a block of tiles lie in, rounded up.
pub const READ: usize = 2 * TILES + 8;

/// Elements of a row of a block's outputs.
const WRITTEN: usize = 2 * TILES;

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
/// Each of the four rows is readable for `2 * TILES * blocks + 8` elements, each of the 16
/// lines of factors writable for `TILES * blocks`, for `blocks` blocks of [`TILES`]; what is
/// written overlaps nothing that is read.
pub fn input() -> unsafe fn(row: &TileRow) {
    each::<Input>()
}

/// Transforms the products to two rows of outputs, 2 elements a tile. Gives whether all
/// outputs of the tiles are finite.
///
/// # Safety
/// Each of the 16 lines of products is readable for `TILES * blocks` elements, both rows
/// writable for twice as many; else as [`input`].
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

struct Input;
impl Each for Input {
    #[inline(always)]
    unsafe fn run<I: Isa>(row: &TileRow) {
        let TileRow { from, from_step, to, to_step, tiles } = *row;
        for start in (0..tiles).step_by(TILES) {
            // SAFETY: the function's contract.
            let rows: [&[f32; READ]; 4] =
                std::array::from_fn(|i| unsafe { &*from.add(i * from_step + 2 * start).cast() });
            let across = down(rows);
            for (i, line) in across.iter().enumerate() {
                for (j, factors) in along(line).iter().enumerate() {
                    // SAFETY: the function's contract.
                    unsafe { to.add((4 * i + j) * to_step + start).cast::<[f32; TILES]>().write(*factors) };
                }
            }
        }
    }
}

/// Combines input rows.
#[inline(always)]
fn down(rows: [&[f32; READ]; 4]) -> [[f32; READ]; 4] {
    let mut lines = [[0.0; READ]; 4];
    for j in 0..READ {
        lines[0][j] = rows[0][j] - rows[2][j];
        lines[1][j] = rows[1][j] + rows[2][j];
        lines[2][j] = rows[2][j] - rows[1][j];
        lines[3][j] = rows[1][j] - rows[3][j];
    }
    lines
}

/// An element for each tile.
type Block = [f32; TILES];

/// Combines the elements of a row, four to a tile, tiles two apart.
#[inline(always)]
fn along(line: &[f32; READ]) -> [Block; 4] {
    let zip = |a: &Block, b: &Block, f: fn(f32, f32) -> f32| std::array::from_fn(|j| f(a[j], b[j]));
    let ([first, second], [third, fourth]) = (split::<0>(line), split::<2>(line));
    [
        zip(&first, &third, |a, b| a - b),
        zip(&second, &third, |a, b| a + b),
        zip(&third, &second, |a, b| a - b),
        zip(&second, &fourth, |a, b| a - b),
    ]
}

/// Elements at even and at odd distances from one: halves of 64 bits, which LLVM takes apart
/// whole vectors at a time, where elements two apart become scalars.
#[inline(always)]
fn split<const START: usize>(line: &[f32; READ]) -> [Block; 2] {
    const { assert!(START + 2 * TILES <= READ) };
    // SAFETY: so many elements follow, as just asserted.
    let pairs: [u64; TILES] = unsafe { line.as_ptr().add(START).cast::<[u64; TILES]>().read_unaligned() };
    let halves = [
        pairs.map(|pair| f32::from_bits(pair as u32)),
        pairs.map(|pair| f32::from_bits((pair >> 32) as u32)),
    ];
    if cfg!(target_endian = "little") { halves } else { [halves[1], halves[0]] }
}

struct Output;
impl Sums for Output {
    #[inline(always)]
    unsafe fn run<I: Isa>(row: &TileRow, finite: &mut bool) {
        let TileRow { from, from_step, to, to_step, tiles } = *row;
        for start in (0..tiles).step_by(TILES) {
            // SAFETY: the function's contract.
            let products: [&[f32; TILES]; PRODUCTS] =
                std::array::from_fn(|i| unsafe { &*from.add(i * from_step + start).cast() });
            let outputs = outputs(&products);
            for (i, row) in outputs.iter().enumerate() {
                // SAFETY: the function's contract.
                unsafe { to.add(i * to_step + 2 * start).cast::<[f32; WRITTEN]>().write(*row) };
                *finite &= all_finite(&row[..WRITTEN.min(2 * (tiles - start))]);
            }
        }
    }
}

/// Two rows of outputs.
#[inline(always)]
fn outputs(products: &[&[f32; TILES]; PRODUCTS]) -> [[f32; WRITTEN]; 2] {
    let mut rows = [[0.0; WRITTEN]; 2];
    let mut sums = [[[0.0; TILES]; 4]; 2];
    for q in 0..4 {
        let [a, b, c, d] = [0, 1, 2, 3].map(|i| products[4 * i + q]);
        for j in 0..TILES {
            sums[0][q][j] = a[j] + b[j] + c[j];
            sums[1][q][j] = b[j] - c[j] - d[j];
        }
    }
    for (row, [a, b, c, d]) in rows.iter_mut().zip(&sums) {
        for j in 0..TILES {
            row[2 * j] = a[j] + b[j] + c[j];
            row[2 * j + 1] = b[j] - c[j] - d[j];
        }
    }
    rows
}

#[inline(always)]
fn all_finite(values: &[f32]) -> bool {
    // A number that is not finite is none any more when multiplied by 0.
    values.iter().fold(true, |finite, x| finite & (x * 0.0 == 0.0))
}

struct Filter;
impl Spreads for Filter {
    #[inline(always)]
    unsafe fn run<I: Isa>(taps: &[*const f32; 9], to: *mut f32, to_step: usize, channels: usize) {
        // SAFETY: the function's contract.
        unsafe {
            let taps: [&[f32]; 9] = taps.map(|line| std::slice::from_raw_parts(line, channels));
            for (i, row) in ROWS.iter().enumerate() {
                for (j, col) in ROWS.iter().enumerate() {
                    let to = std::slice::from_raw_parts_mut(to.add((4 * i + j) * to_step), channels);
                    factors(taps, *row, *col, to);
                }
            }
        }
    }
}

/// What three taps are multiplied with to give each of four factors.
const ROWS: [[f32; 3]; 4] = [[1.0, 0.0, 0.0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0.0, 0.0, 1.0]];

#[inline(always)]
fn factors(taps: [&[f32]; 9], row: [f32; 3], col: [f32; 3], to: &mut [f32]) {
    for (channel, factor) in to.iter_mut().enumerate() {
        let mut sum = 0.0;
        for i in 0..3 {
            for j in 0..3 {
                if row[i] != 0.0 && col[j] != 0.0 {
                    sum += row[i] * col[j] * taps[3 * i + j][channel];
                }
            }
        }
        *factor = sum;
    }
}
