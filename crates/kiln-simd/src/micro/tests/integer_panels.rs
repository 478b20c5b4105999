//! Products of rows with a panel against the dot products of each row alone.

use std::time::Instant;

use super::quantized_dot::{Case, LAYOUTS, Rounded};
use crate::micro::integer_panels::all_panels;
use crate::micro::{
    CodeLayout, IntegerPanels, PANEL_COLUMNS, PanelBlock, PanelProduct, QUANTIZED_BLOCK, integer_dot,
};

/// All loops that the machine can run, with the layouts and codes of zero that they are for.
fn everything() -> Vec<(IntegerPanels, CodeLayout, f32)> {
    let of =
        |(layout, zero): (CodeLayout, f32)| all_panels(layout).into_iter().map(move |l| (l, layout, zero));
    LAYOUTS.into_iter().flat_map(of).collect()
}

/// The products of `count` rows with the columns that a matrix has, and what is computed with them.
fn products(
    loops: IntegerPanels,
    case: &Case,
    (layout, zero): (CodeLayout, f32),
    [count, columns]: [usize; 2],
    elements: &[f32],
) -> Vec<f32> {
    let mut room = vec![0f32; columns];
    let matrix = case.matrix(zero, &mut room);
    let blocks = matrix.first.blocks;
    assert_eq!(layout.block_bytes() * blocks, matrix.codes_step as usize);
    let mut panel = vec![PanelBlock::default(); blocks];
    // A row of room between results, to see that nothing else is written.
    let (mut to, mut rows) = (vec![f32::NAN; count * (columns + 1)], Rounded::of(elements));
    // SAFETY: there is as much room.
    unsafe {
        (loops.pack)(&matrix, panel.as_mut_ptr());
        (loops.multiply)(&PanelProduct {
            panel: panel.as_ptr(),
            columns,
            blocks,
            zero: zero as i32,
            has_offsets: matrix.first.offsets.is_some(),
            rows: rows.all(),
            count,
            to: to.as_mut_ptr(),
            to_step: columns as isize + 1,
        });
    }
    assert!(to.chunks(columns + 1).all(|row| row[columns].is_nan()), "more than the products was written");
    to.chunks(columns + 1).flat_map(|row| row[..columns].to_vec()).collect()
}

#[test]
fn products_of_rows_are_the_dot_products_of_each() {
    let sizes = [1, 2, 5, 16, 19].into_iter().flat_map(|blocks| [1, 3, 16, 17, 32].map(|n| (blocks, n)));
    for ((loops, layout, zero), (blocks, columns)) in
        everything().into_iter().flat_map(|l| sizes.clone().map(move |s| (l, s)))
    {
        for (has_offsets, count) in [(false, 1), (true, 4), (false, 6), (true, 13)] {
            let case = Case::new(layout, columns * blocks, has_offsets);
            let k = blocks * QUANTIZED_BLOCK;
            let elements: Vec<f32> = (0..count * k).map(|i| (0.91 * i as f32).sin()).collect();
            let found = products(loops, &case, (layout, zero), [count, columns], &elements);
            let mut expected = vec![0f32; columns];
            for (row, found) in elements.chunks(k).zip(found.chunks(columns)) {
                let dot = integer_dot(layout, zero).unwrap();
                // SAFETY: there is as much room.
                unsafe { dot(&case.matrix(zero, &mut expected), Rounded::of(row).all()) };
                for (found, expected) in found.iter().zip(&expected) {
                    let error = (found - expected).abs();
                    assert!(error < 1e-4 * k as f32, "{layout:?}, {count} x {k} x {columns}: {error}");
                }
            }
        }
    }
}

#[test]
fn extreme_codes_do_not_overflow_in_panels_and_what_is_no_number_stays_none() {
    let cases = |code: u8| everything().into_iter().map(move |loops| (code, loops));
    for (code, (loops, layout, zero)) in [0u8, 255].into_iter().flat_map(cases) {
        let mut case = Case::new(layout, 2, false);
        case.codes.fill(code);
        case.scales.fill(half::f16::ONE);
        let number = match layout {
            CodeLayout::Bytes => f32::from(code) - zero,
            CodeLayout::Nibbles => f32::from(code & 15) - zero,
        };
        for x in [1.0, -1.0, 0.0, 1e-42] {
            let found = products(loops, &case, (layout, zero), [1, 1], &[x; 64]);
            assert!((found[0] - 64.0 * number * x).abs() < 1e-3, "{layout:?} of {code} times {x}");
        }
        for wrong in [f32::NAN, f32::INFINITY] {
            let mut elements = [1.0; 64];
            elements[40] = wrong;
            assert!(products(loops, &case, (layout, zero), [1, 1], &elements)[0].is_nan());
        }
    }
}

#[test]
#[ignore = "a measurement"]
fn rate_of_panels() {
    const BLOCKS: usize = 18;
    for (loops, layout, zero) in everything() {
        let case = Case::new(layout, PANEL_COLUMNS * BLOCKS, zero == 0.0);
        let (mut to, rounds) = (vec![0f32; 64 * PANEL_COLUMNS], 20_000);
        let matrix = case.matrix(zero, &mut to[..PANEL_COLUMNS]);
        let mut panel = vec![PanelBlock::default(); BLOCKS];
        let start = Instant::now();
        for _ in 0..rounds {
            // SAFETY: there is as much room.
            unsafe { (loops.pack)(std::hint::black_box(&matrix), panel.as_mut_ptr()) };
        }
        let numbers = (rounds * BLOCKS * QUANTIZED_BLOCK * PANEL_COLUMNS) as f64;
        print!(
            "{layout:?}, zero {zero}: packs {:.1} a nanosecond",
            numbers / start.elapsed().as_secs_f64() / 1e9
        );
        for count in [1, 2, 3, 6, 9, 48] {
            let elements = vec![0.5f32; count * BLOCKS * QUANTIZED_BLOCK];
            let mut rows = Rounded::of(&elements);
            let product = PanelProduct {
                panel: panel.as_ptr(),
                columns: PANEL_COLUMNS,
                blocks: BLOCKS,
                zero: zero as i32,
                has_offsets: zero == 0.0,
                rows: rows.all(),
                count,
                to: to.as_mut_ptr(),
                to_step: PANEL_COLUMNS as isize,
            };
            let start = Instant::now();
            for _ in 0..rounds {
                // SAFETY: there is as much room.
                unsafe { (loops.multiply)(std::hint::black_box(&product)) };
            }
            let rate = count as f64 * numbers / start.elapsed().as_secs_f64() / 1e9;
            print!("; {count} rows {rate:.0}");
        }
        let (dot, mut vector) = (integer_dot(layout, zero).unwrap(), Rounded::of(&[0.5f32; BLOCKS * 32]));
        let start = Instant::now();
        for _ in 0..rounds {
            // SAFETY: there is as much room.
            unsafe { dot(std::hint::black_box(&matrix), vector.all()) };
        }
        println!("; dots {:.1}", numbers / start.elapsed().as_secs_f64() / 1e9);
    }
}
