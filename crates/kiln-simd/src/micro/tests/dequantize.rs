//! Blocks of codes against the formula, at every level.

use half::f16;

use crate::micro::isa::forced::each_level;
use crate::micro::{CodeLayout, QUANTIZED_BLOCK, QuantizedRow, dequantize};

#[test]
fn blocks_become_code_times_scale() {
    let blocks = 3;
    for (layout, has_offsets) in
        [CodeLayout::Bytes, CodeLayout::Nibbles].into_iter().flat_map(|l| [(l, false), (l, true)])
    {
        let codes: Vec<u8> = (0..blocks * layout.block_bytes()).map(|i| (i * 89 + 13) as u8).collect();
        let floats = |first: f32| -> Vec<f16> {
            (0..blocks).map(|i| f16::from_f32(first * (i as f32 - 1.3))).collect()
        };
        let (scales, mut offsets) = (floats(0.17), floats(1.9));
        let code = |i: usize| {
            let (block, place) = (i / QUANTIZED_BLOCK * layout.block_bytes(), i % QUANTIZED_BLOCK);
            match layout {
                CodeLayout::Bytes => codes[block + place],
                CodeLayout::Nibbles => codes[block + place % 16] >> (place / 16 * 4) & 15,
            }
        };
        let expected: Vec<f32> = (0..blocks * QUANTIZED_BLOCK)
            .map(|i| {
                let (code, scale) = (f32::from(code(i)), scales[i / QUANTIZED_BLOCK].to_f32());
                let product = (code - 8.0) * scale;
                if has_offsets { product + offsets[i / QUANTIZED_BLOCK].to_f32() } else { product }
            })
            .collect();
        each_level(|level| {
            let mut to = vec![f32::NAN; expected.len()];
            let row = QuantizedRow {
                codes: codes.as_ptr(),
                scales: scales.as_ptr(),
                offsets: has_offsets.then(|| std::ptr::NonNull::new(offsets.as_mut_ptr()).unwrap()),
                zero: 8.0,
                blocks,
                to: to.as_mut_ptr(),
            };
            // SAFETY: all of these have room for the blocks.
            unsafe { dequantize(layout)(&row) };
            assert_eq!(to, expected, "{layout:?} at {level:?}");
        });
    }
}
