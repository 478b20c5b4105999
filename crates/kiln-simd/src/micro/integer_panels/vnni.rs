//! The products by AVX-512's `vpdpbusd`: for 16 columns it multiplies four codes of each with the same four of a
//! row, and adds them to a sum without rounding.

use std::arch::x86_64::{__m512, __m512i};
use std::arch::x86_64::{
    _mm256_maskz_loadu_epi16, _mm512_and_si512, _mm512_castps_si512, _mm512_castsi512_ps, _mm512_cvtepi32_ps,
    _mm512_cvtph_ps, _mm512_dpbusd_epi32, _mm512_fmadd_ps, _mm512_load_ps, _mm512_load_si512,
    _mm512_mask_storeu_ps, _mm512_maskz_loadu_epi32, _mm512_mul_ps, _mm512_set1_epi8, _mm512_set1_epi32,
    _mm512_set1_ps, _mm512_setzero_ps, _mm512_setzero_si512, _mm512_srli_epi16, _mm512_store_ps,
    _mm512_store_si512,
};

use half::f16;

use super::{GROUP, IntegerPanels, PANEL_COLUMNS, PanelBlock, PanelProduct};
use crate::micro::dequantize::{CodeLayout, QUANTIZED_BLOCK, QuantizedMatrix, QuantizedRow};
use crate::micro::integer_dot::RoundedBlock;
use crate::micro::isa::has_vnni;
use crate::micro::memory::prefetch_l1;
use crate::micro::transposed_16x16;

/// Columns of a register.
const LANES: usize = 16;
/// Registers of a panel's columns.
const VECTORS: usize = PANEL_COLUMNS / LANES;
/// Rows whose sums fit in registers, in integers and in floats.
const ROWS: usize = 6;
/// Groups of a block.
const GROUPS: usize = QUANTIZED_BLOCK / GROUP;

/// The loops for a layout, where the machine has the instruction.
pub(super) fn panels(layout: CodeLayout) -> Option<IntegerPanels> {
    let pack = match layout {
        CodeLayout::Bytes => pack_bytes,
        CodeLayout::Nibbles => pack_nibbles,
    };
    has_vnni().then_some(IntegerPanels { pack, multiply })
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,f16c,fma,avx2")]
unsafe fn pack_bytes(matrix: &QuantizedMatrix, to: *mut PanelBlock) {
    let unpack = |by_column: [__m512; LANES], block: usize, vector: usize| {
        for (word, &codes) in by_column.iter().enumerate() {
            let codes = _mm512_castps_si512(codes);
            // SAFETY: a block behind the last is not there, and neither are its codes.
            unsafe { store_group(to, [block + word / GROUPS, word % GROUPS, vector], matrix, codes) };
        }
    };
    // SAFETY: the caller's promise.
    unsafe { pack(matrix, to, CodeLayout::Bytes, unpack) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,f16c,fma,avx2")]
unsafe fn pack_nibbles(matrix: &QuantizedMatrix, to: *mut PanelBlock) {
    const HALF: usize = GROUPS / 2;
    let lower = _mm512_set1_epi8(15);
    let unpack = |by_column: [__m512; LANES], block: usize, vector: usize| {
        for (word, &pairs) in by_column.iter().enumerate() {
            let (block, group, pairs) = (block + word / HALF, word % HALF, _mm512_castps_si512(pairs));
            let upper = _mm512_and_si512(_mm512_srli_epi16::<4>(pairs), lower);
            // SAFETY: as above.
            unsafe {
                store_group(to, [block, group, vector], matrix, _mm512_and_si512(pairs, lower));
                store_group(to, [block, HALF + group, vector], matrix, upper);
            }
        }
    };
    // SAFETY: the caller's promise.
    unsafe { pack(matrix, to, CodeLayout::Nibbles, unpack) }
}

/// Stores a group of codes of some columns, if their block is there.
///
/// # Safety
/// As many blocks as the matrix has are writable; the machine has AVX-512.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,f16c,fma,avx2")]
unsafe fn store_group(
    to: *mut PanelBlock,
    [block, group, vector]: [usize; 3],
    matrix: &QuantizedMatrix,
    codes: __m512i,
) {
    if block < matrix.first.blocks {
        // SAFETY: the caller's promise; the codes of 16 columns are a register.
        unsafe { _mm512_store_si512((&raw mut (*to.add(block)).codes[group][LANES * vector]).cast(), codes) };
    }
}

/// Rearranges all columns; `unpack` stores words of codes of 16 columns, of which the first is of a block.
///
/// # Safety
/// As [`IntegerPanels::pack`]; the machine has AVX-512.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,f16c,fma,avx2")]
unsafe fn pack(
    matrix: &QuantizedMatrix,
    to: *mut PanelBlock,
    layout: CodeLayout,
    unpack: impl Fn([__m512; LANES], usize, usize),
) {
    let (blocks, words) = (matrix.first.blocks, layout.block_bytes() / 4);
    for vector in 0..matrix.count.div_ceil(LANES) {
        // Columns that are not there are those of the last.
        let rows: [QuantizedRow; LANES] =
            std::array::from_fn(|lane| matrix.row((LANES * vector + lane).min(matrix.count - 1)));
        // The columns after these, which are a run where columns follow each other.
        let next = rows[0].codes.wrapping_offset(LANES as isize * matrix.codes_step);
        let next_scales = rows[0].scales.wrapping_offset(LANES as isize * matrix.scales_step);
        prefetch_l1(next_scales.cast(), LANES * blocks * size_of::<f16>());
        let step = LANES / words;
        for block in (0..blocks).step_by(step) {
            let mask = ((1u32 << (words * step.min(blocks - block))) - 1) as u16;
            // SAFETY: the caller's promise; masked loads read what is there.
            unsafe {
                let mut words = [_mm512_setzero_ps(); LANES];
                prefetch_l1(
                    next.wrapping_add(LANES * block * layout.block_bytes()),
                    LANES * size_of::<__m512>(),
                );
                for (words, row) in words.iter_mut().zip(&rows) {
                    let codes = row.codes.add(block * layout.block_bytes());
                    *words = _mm512_castsi512_ps(_mm512_maskz_loadu_epi32(mask, codes.cast()));
                }
                unpack(transposed_16x16(words), block, vector);
            }
        }
        // SAFETY: the caller's promise.
        unsafe {
            let scales = rows.map(|row| row.scales);
            pack_floats(scales, blocks, |block| (&raw mut (*to.add(block)).scales[LANES * vector]).cast());
            if rows[0].offsets.is_some() {
                let offsets = rows.map(|row| row.offsets.map_or(row.scales, |at| at.as_ptr().cast_const()));
                pack_floats(offsets, blocks, |block| {
                    (&raw mut (*to.add(block)).offsets[LANES * vector]).cast()
                });
            }
        }
    }
}

/// Rearranges a number of each block of 16 columns.
///
/// # Safety
/// As [`pack`]; `to` gives room for 16 numbers of a block.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,f16c,fma,avx2")]
unsafe fn pack_floats(from: [*const f16; LANES], blocks: usize, to: impl Fn(usize) -> *mut f32) {
    for start in (0..blocks).step_by(LANES) {
        let some = LANES.min(blocks - start);
        let mask = ((1u32 << some) - 1) as u16;
        // SAFETY: the caller's promise; masked loads read what is there.
        unsafe {
            let mut floats = [_mm512_setzero_ps(); LANES];
            for (floats, from) in floats.iter_mut().zip(from) {
                *floats = _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, from.add(start).cast()));
            }
            for (number, floats) in transposed_16x16(floats)[..some].iter().enumerate() {
                _mm512_store_ps(to(start + number), *floats);
            }
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,f16c,fma,avx2")]
unsafe fn multiply(product: &PanelProduct) {
    let mut row = 0;
    // SAFETY: the caller's promise.
    unsafe {
        while row < product.count {
            let some = even_part(product.count - row);
            match some {
                1 => rows::<1>(product, row),
                2 => rows::<2>(product, row),
                3 => rows::<3>(product, row),
                4 => rows::<4>(product, row),
                5 => rows::<5>(product, row),
                _ => rows::<ROWS>(product, row),
            }
            row += some;
        }
    }
}

/// How many of some rows come next, so that parts are about equal.
fn even_part(rows: usize) -> usize {
    rows.div_ceil(rows.div_ceil(ROWS))
}

/// The products of some rows.
///
/// # Safety
/// As [`IntegerPanels::multiply`]; the machine has AVX-512 with VNNI.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,f16c,fma,avx2")]
unsafe fn rows<const N: usize>(product: &PanelProduct, first: usize) {
    let PanelProduct { blocks, zero, has_offsets, to, to_step, columns, .. } = *product;
    let rows: [_; N] = std::array::from_fn(|row| product.rows.from(first + row, blocks));
    let mut total = [[_mm512_setzero_ps(); VECTORS]; N];
    // SAFETY: the caller's promise.
    unsafe {
        for block in 0..blocks {
            let panel = &*product.panel.add(block);
            let mut of_block = [RoundedBlock::default(); N];
            let mut sums = [[_mm512_setzero_si512(); VECTORS]; N];
            for ((of_block, rows), sums) in of_block.iter_mut().zip(&rows).zip(&mut sums) {
                *of_block = *rows.blocks.add(block);
                *sums = [_mm512_set1_epi32(-zero * of_block.sum); VECTORS];
            }
            for (group, codes) in panel.codes.iter().enumerate() {
                let codes: [__m512i; VECTORS] = [
                    _mm512_load_si512((&raw const codes[0]).cast()),
                    _mm512_load_si512((&raw const codes[LANES]).cast()),
                ];
                for (sums, rows) in sums.iter_mut().zip(&rows) {
                    let word = rows.codes.add(block * QUANTIZED_BLOCK + group * GROUP).cast::<i32>();
                    let by = _mm512_set1_epi32(word.read_unaligned());
                    for (sum, &codes) in sums.iter_mut().zip(&codes) {
                        *sum = _mm512_dpbusd_epi32(*sum, codes, by);
                    }
                }
            }
            let scales = floats(&panel.scales);
            for ((total, sums), row) in total.iter_mut().zip(&sums).zip(&of_block) {
                let scale = _mm512_set1_ps(row.scale);
                for ((total, &sum), &scales) in total.iter_mut().zip(sums).zip(&scales) {
                    *total = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_mul_ps(scales, scale), *total);
                }
            }
            if has_offsets {
                let offsets = floats(&panel.offsets);
                for (total, row) in total.iter_mut().zip(&of_block) {
                    let sum = _mm512_set1_ps(row.scale * row.sum as f32);
                    for (total, &offsets) in total.iter_mut().zip(&offsets) {
                        *total = _mm512_fmadd_ps(offsets, sum, *total);
                    }
                }
            }
        }
        for (row, total) in total.iter().enumerate() {
            let to = to.offset((first + row) as isize * to_step);
            for (v, &total) in total.iter().enumerate() {
                let there = columns.saturating_sub(LANES * v).min(LANES);
                _mm512_mask_storeu_ps(to.wrapping_add(LANES * v), ((1u32 << there) - 1) as u16, total);
            }
        }
    }
}

/// A number of each column.
///
/// # Safety
/// The machine has AVX-512.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,f16c,fma,avx2")]
fn floats(numbers: &[f32; PANEL_COLUMNS]) -> [__m512; VECTORS] {
    // SAFETY: as many numbers, of an aligned block.
    unsafe { [_mm512_load_ps(&raw const numbers[0]), _mm512_load_ps(&raw const numbers[LANES])] }
}
