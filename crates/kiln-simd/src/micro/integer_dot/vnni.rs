//! The products by AVX-512's `vpdpbusd`, which multiplies unsigned with signed bytes and sums four of them
//! without rounding: two blocks an instruction.
//!
//! Codes are unsigned as they lie. What the code of zero adds is taken away in integers as well. Rows are
//! multiplied four at a time, which reads the vector once for all of them. One that ends within what an
//! instruction reads is masked, so there is no other loop for its end.

use std::arch::x86_64::{__m512, __m512i};
use std::arch::x86_64::{
    _MM_HINT_T0, _mm_prefetch, _mm256_maskz_loadu_epi8, _mm256_maskz_loadu_epi16, _mm512_add_epi32,
    _mm512_and_si512, _mm512_castsi256_si512, _mm512_cvtepi32_ps, _mm512_cvtph_ps, _mm512_dpbusd_epi32,
    _mm512_fmadd_ps, _mm512_loadu_si512, _mm512_maskz_loadu_epi8, _mm512_maskz_loadu_ps, _mm512_mul_ps,
    _mm512_permutexvar_ps, _mm512_reduce_add_ps, _mm512_set1_epi8, _mm512_set1_epi32, _mm512_setzero_ps,
    _mm512_setzero_si512, _mm512_shuffle_i64x2, _mm512_srlv_epi16, _mm512_sub_epi32,
};
use std::sync::LazyLock;

use half::f16;

use super::{IntegerDotFn, QuantizedMatrix, QuantizedRow, RoundedVector, SOME};
use crate::micro::dequantize::{CodeLayout, QUANTIZED_BLOCK};
use crate::micro::isa::{Level, level};
use crate::thresholds::PACKED_PREFETCH_BYTES;

/// The loop for a layout, where the machine has the instruction.
pub(super) fn dot(layout: CodeLayout) -> Option<IntegerDotFn> {
    static HAS: LazyLock<bool> = LazyLock::new(|| is_x86_feature_detected!("avx512vnni"));
    (level() == Level::Avx512 && *HAS).then_some(match layout {
        CodeLayout::Bytes => bytes,
        CodeLayout::Nibbles => nibbles,
    })
}

/// Rows at a time.
const ROWS: usize = 4;
/// Blocks of an instruction.
const PAIR: usize = 2;
/// By lane of a sum, the block of a pair.
const BLOCK_OF_LANE: [i32; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1];
/// By 16 bits of a pair's nibbles, where each block's lie twice: how far the half that is meant is shifted.
const SHIFTS: [u16; 32] =
    [0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4, 4, 4, 4, 4, 0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4, 4, 4, 4, 4];

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,f16c,fma,avx2")]
unsafe fn bytes(matrix: &QuantizedMatrix, vector: &RoundedVector) {
    let unpacked = |codes: *const u8, is_pair: bool| {
        let mask = if is_pair { u64::MAX } else { u64::from(u32::MAX) };
        // SAFETY: the codes are readable.
        unsafe { _mm512_maskz_loadu_epi8(mask, codes.cast()) }
    };
    // SAFETY: the caller's promise.
    unsafe { all(matrix, vector, CodeLayout::Bytes, unpacked) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,f16c,fma,avx2")]
unsafe fn nibbles(matrix: &QuantizedMatrix, vector: &RoundedVector) {
    // SAFETY: a constant of 64 bytes.
    let shifts = unsafe { _mm512_loadu_si512(SHIFTS.as_ptr().cast()) };
    let unpacked = |codes: *const u8, is_pair: bool| {
        let mask = if is_pair { u32::MAX } else { u32::from(u16::MAX) };
        // SAFETY: the codes are readable.
        let pairs = _mm512_castsi256_si512(unsafe { _mm256_maskz_loadu_epi8(mask, codes.cast()) });
        let twice = _mm512_shuffle_i64x2::<0b01_01_00_00>(pairs, pairs);
        _mm512_and_si512(_mm512_srlv_epi16(twice, shifts), _mm512_set1_epi8(15))
    };
    // SAFETY: the caller's promise.
    unsafe { all(matrix, vector, CodeLayout::Nibbles, unpacked) }
}

/// All rows; `unpacked` gives the codes of two blocks, or of one.
///
/// # Safety
/// As [`IntegerDotFn`]; the machine has AVX-512 with VNNI.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,f16c,fma,avx2")]
unsafe fn all(
    matrix: &QuantizedMatrix,
    vector: &RoundedVector,
    layout: CodeLayout,
    unpacked: impl Fn(*const u8, bool) -> __m512i,
) {
    let mut number = 0;
    // SAFETY: the caller's promise.
    unsafe {
        while number + ROWS <= matrix.count {
            let rows: [QuantizedRow; ROWS] = std::array::from_fn(|row| matrix.row(number + row));
            some(&rows, vector, layout, &unpacked);
            number += ROWS;
        }
        for last in number..matrix.count {
            some(&[matrix.row(last)], vector, layout, &unpacked);
        }
    }
}

/// Some rows together.
///
/// # Safety
/// As [`all`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,f16c,fma,avx2")]
unsafe fn some<const N: usize>(
    rows: &[QuantizedRow; N],
    vector: &RoundedVector,
    layout: CodeLayout,
    unpacked: &impl Fn(*const u8, bool) -> __m512i,
) {
    let blocks = rows[0].blocks;
    let mut total = [_mm512_setzero_ps(); N];
    let zero = _mm512_set1_epi8(rows[0].zero as u8 as i8);
    // SAFETY: the caller's promise; masked loads read what is there.
    unsafe {
        for start in (0..blocks).step_by(SOME) {
            let end = blocks.min(start + SOME);
            let there = ((1u32 << (end - start)) - 1) as u16;
            let of_vector = |numbers: &[f32]| _mm512_maskz_loadu_ps(there, numbers.as_ptr().add(start));
            let of_row = |numbers: *const f16| {
                _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(there, numbers.add(start).cast()))
            };
            let by = of_vector(&vector.scales);
            let scales: [__m512; N] = std::array::from_fn(|row| _mm512_mul_ps(of_row(rows[row].scales), by));
            let sums = of_vector(&vector.sums);
            for (total, row) in total.iter_mut().zip(rows) {
                if let Some(offsets) = row.offsets {
                    *total = _mm512_fmadd_ps(of_row(offsets.as_ptr()), sums, *total);
                }
            }
            let mut block = _mm512_loadu_si512(BLOCK_OF_LANE.as_ptr().cast());
            for pair in (start..end).step_by(PAIR) {
                let is_pair = pair + 1 < blocks;
                let mask = if is_pair { u64::MAX } else { u64::from(u32::MAX) };
                let by = _mm512_maskz_loadu_epi8(mask, vector.codes.as_ptr().add(pair * QUANTIZED_BLOCK));
                let of_zero = _mm512_dpbusd_epi32(_mm512_setzero_si512(), zero, by);
                for ((total, row), &scales) in total.iter_mut().zip(rows).zip(&scales) {
                    let codes = row.codes.add(pair * layout.block_bytes());
                    _mm_prefetch::<_MM_HINT_T0>(codes.wrapping_add(PACKED_PREFETCH_BYTES).cast());
                    let products = _mm512_dpbusd_epi32(_mm512_setzero_si512(), unpacked(codes, is_pair), by);
                    let products = _mm512_cvtepi32_ps(_mm512_sub_epi32(products, of_zero));
                    *total = _mm512_fmadd_ps(products, _mm512_permutexvar_ps(block, scales), *total);
                }
                block = _mm512_add_epi32(block, _mm512_set1_epi32(PAIR as i32));
            }
        }
        for (total, row) in total.into_iter().zip(rows) {
            row.to.write(_mm512_reduce_add_ps(total));
        }
    }
}
