//! The transforms of convolutions, together.

use super::Rng;
use crate::micro::isa::forced::each_level;
use crate::micro::winograd::{PRODUCTS, TILES, TileRow, filter, input, output};

const COUNTS: [usize; 7] = [1, 5, 15, 16, 17, 40, 48];

/// What nothing is to touch.
const GUARD: f32 = 7e7;

/// The factors of each product of some channels' filters.
fn factors(taps: &[Vec<f32>; 9]) -> Vec<f32> {
    let channels = taps[0].len();
    let mut factors = vec![GUARD; PRODUCTS * channels + 1];
    let lines = taps.each_ref().map(|line| line.as_ptr());
    // SAFETY: lines of `channels` elements, of vectors of their own.
    unsafe { filter()(&lines, factors.as_mut_ptr(), channels, channels) }
    assert_eq!(factors.pop(), Some(GUARD));
    factors
}

/// Two rows of outputs, of four rows of an input and a filter's factors, and whether they are
/// finite. Products that are none are not numbers.
fn outputs(rows: &[Vec<f32>; 4], factor: impl Fn(usize) -> f32, tiles: usize) -> ([Vec<f32>; 2], bool) {
    let held = tiles.max(TILES);
    let (read, written) = (2 * held + 2, 2 * held);
    let mut from = rows.concat();
    assert_eq!(from.len(), 4 * read);
    let mut products = vec![GUARD; PRODUCTS * held + 1];
    let mut to = vec![GUARD; 2 * written + 1];
    let mut finite = true;
    let mut row =
        TileRow { from: from.as_mut_ptr(), from_step: read, to: products.as_mut_ptr(), to_step: held, tiles };
    // SAFETY: lines as long as the contracts ask.
    unsafe {
        input()(&row);
        for (i, product) in products[..PRODUCTS * held].iter_mut().enumerate() {
            *product = if i % held < tiles { *product * factor(i / held) } else { f32::NAN };
        }
        row = TileRow {
            from: products.as_ptr(),
            from_step: held,
            to: to.as_mut_ptr(),
            to_step: written,
            tiles,
        };
        output()(&row, &mut finite);
    }
    assert_eq!((products.pop(), to.pop()), (Some(GUARD), Some(GUARD)));
    ([&to[..2 * tiles], &to[written..][..2 * tiles]].map(<[f32]>::to_vec), finite)
}

/// Sums over the windows of one row of outputs.
fn by_windows(rows: &[Vec<f32>], tap: impl Fn(usize) -> f32, count: usize) -> Vec<f32> {
    (0..count).map(|at| (0..9).map(|i| tap(i) * rows[i / 3][at + i % 3]).sum()).collect()
}

#[test]
fn transforms_give_sums_over_windows() {
    let mut rng = Rng(5);
    let mut line = |n: usize| (0..n).map(|_| (rng.unit() * 7.0).floor() as f32 - 3.0).collect::<Vec<f32>>();
    for tiles in COUNTS {
        let rows = [(); 4].map(|()| line(2 * tiles.max(TILES) + 2));
        for channels in COUNTS {
            let taps = [(); 9].map(|()| line(channels));
            each_level(|level| {
                let factors = factors(&taps);
                for channel in [0, channels / 2, channels - 1] {
                    let tap = |i: usize| taps[i][channel];
                    let (found, finite) = outputs(&rows, |i| factors[i * channels + channel], tiles);
                    let expected = [&rows[..3], &rows[1..]].map(|rows| by_windows(rows, tap, 2 * tiles));
                    assert_eq!((found, finite), (expected, true), "{level:?}: {channel} of {channels}");
                }
            });
        }
    }
}

/// The first and the last product of the first and the last line go into one output each.
#[test]
fn each_output_that_is_not_finite_is_told() {
    for tiles in COUNTS {
        let held = tiles.max(TILES);
        for (product, value) in [(0, f32::NAN), (3, f32::INFINITY), (12, f32::NEG_INFINITY), (15, f32::NAN)] {
            for tile in [0, tiles / 2, tiles - 1] {
                let mut products = vec![1.0; PRODUCTS * held];
                products[product * held + tile] = value;
                each_level(|level| {
                    let mut to = vec![0.0; 4 * held];
                    let mut finite = true;
                    let (from, to) = (products.as_ptr(), to.as_mut_ptr());
                    let row = TileRow { from, from_step: held, to, to_step: 2 * held, tiles };
                    // SAFETY: lines as long as the contract asks.
                    unsafe { output()(&row, &mut finite) };
                    assert!(!finite, "{level:?}: product {product} of tile {tile} of {tiles}");
                });
            }
        }
    }
}
