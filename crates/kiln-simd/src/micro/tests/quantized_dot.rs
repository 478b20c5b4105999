//! Dot products of packed rows against the numbers that they stand for, at every level.

use std::ptr::NonNull;

use half::f16;

use crate::micro::isa::forced::each_level;
use crate::micro::{
    BlockedVector, CodeLayout, QUANTIZED_BLOCK, QuantizedMatrix, QuantizedRow, RoundedBlock, RoundedRows,
    dequantize, integer_dot, quantized_dot,
};

/// A packed row with its room, and a vector.
pub struct Case {
    pub codes: Vec<u8>,
    pub scales: Vec<f16>,
    offsets: Option<Vec<f16>>,
    elements: Vec<f32>,
    sums: Vec<f32>,
}

impl Case {
    pub fn new(layout: CodeLayout, blocks: usize, has_offsets: bool) -> Case {
        let floats = |first: f32| (0..blocks).map(|i| f16::from_f32(first * (i as f32 - 1.3))).collect();
        let elements: Vec<f32> = (0..blocks * QUANTIZED_BLOCK).map(|i| (0.37 * i as f32).sin()).collect();
        Case {
            codes: (0..blocks * layout.block_bytes()).map(|i| (i * 89 + 13) as u8).collect(),
            scales: floats(0.017),
            offsets: has_offsets.then(|| floats(0.19)),
            sums: elements.chunks(QUANTIZED_BLOCK).map(|block| block.iter().sum()).collect(),
            elements,
        }
    }

    fn row(&self, zero: f32, to: &mut [f32]) -> QuantizedRow {
        QuantizedRow {
            codes: self.codes.as_ptr(),
            scales: self.scales.as_ptr(),
            offsets: self.offsets.as_ref().and_then(|all| NonNull::new(all.as_ptr().cast_mut())),
            zero,
            blocks: self.scales.len(),
            to: to.as_mut_ptr(),
        }
    }

    /// The row cut into as many as there are results.
    pub fn matrix(&self, zero: f32, to: &mut [f32]) -> QuantizedMatrix {
        let count = to.len();
        let blocks = self.scales.len() / count;
        let step = blocks as isize;
        QuantizedMatrix {
            first: QuantizedRow { blocks, ..self.row(zero, to) },
            count,
            codes_step: (self.codes.len() / count) as isize,
            scales_step: step,
            offsets_step: step,
        }
    }

    fn vector(&self) -> BlockedVector {
        BlockedVector { elements: self.elements.as_ptr(), sums: self.sums.as_ptr() }
    }
}

/// Rows rounded to 8 bits.
pub struct Rounded {
    codes: Vec<i8>,
    blocks: Vec<RoundedBlock>,
}

impl Rounded {
    pub fn of(elements: &[f32]) -> Rounded {
        let blocks = elements.len() / QUANTIZED_BLOCK;
        let mut rounded =
            Rounded { codes: vec![0; elements.len()], blocks: vec![RoundedBlock::default(); blocks] };
        // SAFETY: there is as much room.
        unsafe { rounded.all().round(elements) };
        rounded
    }

    pub fn all(&mut self) -> RoundedRows {
        RoundedRows { codes: self.codes.as_mut_ptr(), blocks: self.blocks.as_mut_ptr() }
    }
}

pub const LAYOUTS: [(CodeLayout, f32); 3] =
    [(CodeLayout::Bytes, 128.0), (CodeLayout::Nibbles, 8.0), (CodeLayout::Nibbles, 0.0)];

#[test]
fn a_dot_product_is_that_of_the_numbers() {
    for ((layout, zero), blocks) in LAYOUTS.into_iter().flat_map(|l| [1, 3, 16, 37].map(|blocks| (l, blocks)))
    {
        for has_offsets in [false, true] {
            let case = Case::new(layout, blocks, has_offsets);
            let mut numbers = vec![0f32; blocks * QUANTIZED_BLOCK];
            // SAFETY: all of these have room for the blocks.
            unsafe { dequantize(layout)(&case.row(zero, &mut numbers)) };
            let terms = || numbers.iter().zip(&case.elements).map(|(&a, &b)| f64::from(a) * f64::from(b));
            let (expected, size) = (terms().sum::<f64>(), terms().map(f64::abs).sum::<f64>());
            each_level(|level| {
                let (dot, mut found) = (quantized_dot(layout, zero).unwrap(), [f32::NAN]);
                // SAFETY: as above.
                unsafe { dot(&case.row(zero, &mut found), &case.vector()) };
                let error = (f64::from(found[0]) - expected).abs();
                assert!(error < 1e-6 * size, "{layout:?}, {blocks} blocks at {level:?}: {error}");
            });
        }
    }
    assert!(quantized_dot(CodeLayout::Bytes, 8.0).is_none());
}

#[test]
fn integer_products_are_those_of_the_vector_rounded_to_eight_bits() {
    /// Some are multiplied together, and some are left.
    const ROWS: usize = 6;
    for ((layout, zero), blocks) in LAYOUTS.into_iter().flat_map(|l| [1, 2, 16, 37].map(|blocks| (l, blocks)))
    {
        for has_offsets in [false, true] {
            let case = Case::new(layout, ROWS * blocks, has_offsets);
            let (mut numbers, vector) =
                (vec![0f32; case.elements.len()], &case.elements[..blocks * QUANTIZED_BLOCK]);
            // SAFETY: all of these have room for the blocks.
            unsafe { dequantize(layout)(&case.row(zero, &mut numbers)) };
            // The vector rounded in double precision.
            let rounded = vector.chunks(QUANTIZED_BLOCK).flat_map(|block| {
                let step = f64::from(block.iter().fold(0f32, |most, x| most.max(x.abs()))) / 127.0;
                block.iter().map(move |&x| (f64::from(x) / step).round() * step)
            });
            let rounded: Vec<f64> = rounded.collect();
            each_level(|level| {
                let (dot, mut found) = (integer_dot(layout, zero).unwrap(), [f32::NAN; ROWS]);
                // SAFETY: as above.
                unsafe { dot(&case.matrix(zero, &mut found), Rounded::of(vector).all()) };
                for (row, (numbers, found)) in numbers.chunks(vector.len()).zip(found).enumerate() {
                    let terms = || numbers.iter().zip(&rounded).map(|(&a, b)| f64::from(a) * b);
                    let (expected, size) = (terms().sum::<f64>(), terms().map(f64::abs).sum::<f64>());
                    let error = (f64::from(found) - expected).abs();
                    let case = format!("row {row} of {layout:?}, {blocks} blocks at {level:?}");
                    assert!(error < 2e-6 * size, "{case}: {error} of {size}");
                }
            });
        }
    }
    assert!(integer_dot(CodeLayout::Bytes, 8.0).is_none());
}

#[test]
fn extreme_codes_do_not_overflow_and_what_is_no_number_stays_none() {
    for (code, (layout, zero)) in [0u8, 255].into_iter().flat_map(|code| LAYOUTS.map(|l| (code, l))) {
        let mut case = Case::new(layout, 2, false);
        case.codes.fill(code);
        case.scales.fill(f16::ONE);
        let number = match layout {
            CodeLayout::Bytes => f32::from(code) - zero,
            CodeLayout::Nibbles => f32::from(code & 15) - zero,
        };
        let product = |elements: &[f32]| {
            let (dot, mut found) = (integer_dot(layout, zero).unwrap(), [0f32]);
            // SAFETY: there are as many blocks.
            unsafe { dot(&case.matrix(zero, &mut found), Rounded::of(elements).all()) };
            found[0]
        };
        each_level(|level| {
            for x in [1.0, -1.0, 0.0, 1e-42] {
                let error = (product(&[x; 64]) - 64.0 * number * x).abs();
                assert!(error < 1e-3, "{layout:?} of {code} times {x} at {level:?}: {error}");
            }
            for wrong in [f32::NAN, f32::INFINITY] {
                let mut elements = [1.0; 64];
                elements[40] = wrong;
                assert!(product(&elements).is_nan(), "{layout:?}, {wrong} at {level:?}");
            }
        });
    }
}

#[test]
#[ignore = "a measurement"]
fn rate() {
    for (layout, zero) in LAYOUTS {
        let case = Case::new(layout, 48, zero == 0.0);
        let (dot, mut found) = (quantized_dot(layout, zero).unwrap(), [0f32]);
        let (row, vector) = (case.row(zero, &mut found), case.vector());
        let start = std::time::Instant::now();
        let rounds = 1_000_000;
        for _ in 0..rounds {
            // SAFETY: as above.
            unsafe { dot(std::hint::black_box(&row), std::hint::black_box(&vector)) };
        }
        let seconds = start.elapsed().as_secs_f64();
        let floats = rounds as f64 * 1536.0 / seconds / 1e9;
        let (dot, mut vector) = (integer_dot(layout, zero).unwrap(), Rounded::of(&case.elements));
        let matrix = case.matrix(zero, &mut found);
        let start = std::time::Instant::now();
        for _ in 0..rounds {
            // SAFETY: as above.
            unsafe { dot(std::hint::black_box(&matrix), std::hint::black_box(vector.all())) };
        }
        let integers = rounds as f64 * 1536.0 / start.elapsed().as_secs_f64() / 1e9;
        println!("{layout:?}, zero {zero}: {floats:.2} numbers a nanosecond, {integers:.2} in integers");
    }
}

#[test]
#[ignore = "a measurement"]
fn rate_from_memory() {
    // As many matrices as no cache holds.
    for (layout, zero) in [LAYOUTS[0], LAYOUTS[1]] {
        for (rows, k) in [(1536, 576), (576, 1536), (576, 576)] {
            let blocks = k / QUANTIZED_BLOCK;
            let count = (256 << 20) / (rows * blocks * layout.block_bytes());
            let cases: Vec<Case> = (0..count).map(|_| Case::new(layout, rows * blocks, false)).collect();
            let (dot, mut vector) = (integer_dot(layout, zero).unwrap(), Rounded::of(&vec![0.5f32; k]));
            let mut to = vec![0f32; rows];
            let mut best = f64::MAX;
            for _ in 0..3 {
                let start = std::time::Instant::now();
                for case in &cases {
                    // SAFETY: as above.
                    unsafe { dot(&case.matrix(zero, &mut to), vector.all()) };
                }
                best = best.min(start.elapsed().as_secs_f64());
            }
            let bytes = count * rows * blocks * (layout.block_bytes() + 2);
            println!("{layout:?} {rows} x {k}: {:.1} GB/s", bytes as f64 / best / 1e9);
        }
    }
}
