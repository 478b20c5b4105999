//! The products by AVX-512's `vpdpbusd`, which multiplies unsigned with signed bytes and sums four of them
//! without rounding: two blocks an instruction.
//!
//! Codes are unsigned as they lie. What the code of zero adds is taken away in integers as well. Rows are
//! multiplied four at a time, which reads the vector once for all of them. One that ends within what an
//! instruction reads is masked, so there is no other loop for its end.

use std::arch::x86_64::{__m512, __m512i};
use std::arch::x86_64::{
    _mm256_maskz_loadu_epi8, _mm256_maskz_loadu_epi16, _mm512_add_epi32, _mm512_and_si512,
    _mm512_castsi256_si512, _mm512_castsi512_ps, _mm512_cvtepi32_ps, _mm512_cvtph_ps, _mm512_dpbusd_epi32,
    _mm512_fmadd_ps, _mm512_loadu_si512, _mm512_maskz_loadu_epi8, _mm512_maskz_loadu_epi32, _mm512_mul_ps,
    _mm512_permutex2var_epi32, _mm512_permutexvar_ps, _mm512_reduce_add_ps, _mm512_set1_epi8,
    _mm512_set1_epi32, _mm512_setzero_ps, _mm512_setzero_si512, _mm512_shuffle_i64x2, _mm512_srlv_epi16,
    _mm512_sub_epi32,
};

use half::f16;

use super::{IntegerDotFn, QuantizedMatrix, QuantizedRow, RoundedRows, SOME};
use crate::micro::dequantize::{CodeLayout, QUANTIZED_BLOCK};
use crate::micro::isa::has_vnni;
use crate::micro::memory::prefetch_l1;
use crate::thresholds::INTEGER_PREFETCH_BYTES;

/// The loop for a layout, where the machine has the instruction.
pub(super) fn dot(layout: CodeLayout) -> Option<IntegerDotFn> {
    has_vnni().then_some(match layout {
        CodeLayout::Bytes => bytes,
        CodeLayout::Nibbles => nibbles,
    })
}

/// Rows at a time.
const ROWS: usize = 4;
/// Codes take about so many times as many bytes as scales.
const SCALE_SHARE: usize = 8;
/// Blocks of an instruction.
const PAIR: usize = 2;
/// By lane of a sum, the block of a pair.
const BLOCK_OF_LANE: [i32; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1];
/// By 16 bits of a pair's nibbles, where each block's lie twice: how far the half that is meant is shifted.
const SHIFTS: [u16; 32] =
    [0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4, 4, 4, 4, 4, 0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4, 4, 4, 4, 4];

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,f16c,fma,avx2")]
unsafe fn bytes(matrix: &QuantizedMatrix, vector: RoundedRows) {
    let unpacked = |codes: *const u8, is_pair: bool| {
        let mask = if is_pair { u64::MAX } else { u64::from(u32::MAX) };
        // SAFETY: the codes are readable.
        unsafe { _mm512_maskz_loadu_epi8(mask, codes.cast()) }
    };
    // SAFETY: the caller's promise.
    unsafe { all(matrix, vector, CodeLayout::Bytes, unpacked) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,f16c,fma,avx2")]
unsafe fn nibbles(matrix: &QuantizedMatrix, vector: RoundedRows) {
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
    vector: RoundedRows,
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
    vector: RoundedRows,
    layout: CodeLayout,
    unpacked: &impl Fn(*const u8, bool) -> __m512i,
) {
    let blocks = rows[0].blocks;
    let mut total = [_mm512_setzero_ps(); N];
    let zero = _mm512_set1_epi8(rows[0].zero as u8 as i8);
    // SAFETY: the caller's promise; masked loads read what is there.
    unsafe {
        // Rows mostly follow each other. Prefetched one by one, each would bring lines twice, and the first ones late.
        let scales = rows[0].scales.cast::<u8>().wrapping_add(INTEGER_PREFETCH_BYTES / SCALE_SHARE);
        prefetch_l1(scales, N * blocks * size_of::<f16>());
        for start in (0..blocks).step_by(SOME) {
            let end = blocks.min(start + SOME);
            let there = ((1u32 << (end - start)) - 1) as u16;
            let of_row = |numbers: *const f16| {
                _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(there, numbers.add(start).cast()))
            };
            let [by, codes_sums] = of_blocks(vector, start, end - start);
            // Intrinsics are not inlined into what calls closures, as `from_fn` does.
            let mut scales = [_mm512_setzero_ps(); N];
            for (scales, row) in scales.iter_mut().zip(rows) {
                *scales = _mm512_mul_ps(of_row(row.scales), by);
            }
            let sums = _mm512_mul_ps(by, codes_sums);
            for (total, row) in total.iter_mut().zip(rows) {
                if let Some(offsets) = row.offsets {
                    *total = _mm512_fmadd_ps(of_row(offsets.as_ptr()), sums, *total);
                }
            }
            let mut block = _mm512_loadu_si512(BLOCK_OF_LANE.as_ptr().cast());
            for pair in (start..end).step_by(PAIR) {
                let is_pair = pair + 1 < blocks;
                let mask = if is_pair { u64::MAX } else { u64::from(u32::MAX) };
                let by = _mm512_maskz_loadu_epi8(mask, vector.codes.add(pair * QUANTIZED_BLOCK));
                let some = N * PAIR * layout.block_bytes();
                prefetch_l1(rows[0].codes.wrapping_add(INTEGER_PREFETCH_BYTES + pair / PAIR * some), some);
                let of_zero = _mm512_dpbusd_epi32(_mm512_setzero_si512(), zero, by);
                for ((total, row), &scales) in total.iter_mut().zip(rows).zip(&scales) {
                    let codes = row.codes.add(pair * layout.block_bytes());
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

/// Scales and sums of codes of some blocks of a vector.
///
/// # Safety
/// So many blocks are readable; the machine has AVX-512.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,f16c,fma,avx2")]
unsafe fn of_blocks(vector: RoundedRows, first: usize, some: usize) -> [__m512; 2] {
    const EVEN: [i32; 16] = [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30];
    let (mask, from) = ((1u64 << (2 * some)) - 1, vector.blocks.wrapping_add(first).cast::<i32>());
    // SAFETY: the caller's promise; masked loads read what is there.
    unsafe {
        let lower = _mm512_maskz_loadu_epi32(mask as u16, from);
        let upper = _mm512_maskz_loadu_epi32((mask >> 16) as u16, from.wrapping_add(16));
        let even = _mm512_loadu_si512(EVEN.as_ptr().cast());
        let odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
        let scales = _mm512_permutex2var_epi32(lower, even, upper);
        let sums = _mm512_permutex2var_epi32(lower, odd, upper);
        [_mm512_castsi512_ps(scales), _mm512_cvtepi32_ps(sums)]
    }
}
