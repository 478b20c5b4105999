//! The products by AVX2, for 8 columns a register: by AVX-VNNI's `vpdpbusd` where the machine has it, as desktops
//! and laptops without AVX-512 do, else nibbles by `vpmaddubsw`, whose sums of a block fit in 16 bits.

use std::arch::x86_64::{__m256, __m256i};
use std::arch::x86_64::{
    _mm_loadu_si128, _mm256_add_epi16, _mm256_add_epi32, _mm256_and_si256, _mm256_castps_si256,
    _mm256_castsi256_ps, _mm256_cmpgt_epi32, _mm256_cvtepi32_ps, _mm256_cvtph_ps, _mm256_dpbusd_avx_epi32,
    _mm256_fmadd_ps, _mm256_load_ps, _mm256_load_si256, _mm256_madd_epi16, _mm256_maddubs_epi16,
    _mm256_maskload_epi32, _mm256_maskstore_ps, _mm256_mul_ps, _mm256_set1_epi8, _mm256_set1_epi16,
    _mm256_set1_epi32, _mm256_set1_ps, _mm256_setr_epi32, _mm256_setzero_ps, _mm256_setzero_si256,
    _mm256_srli_epi16, _mm256_store_ps, _mm256_store_si256,
};

use half::f16;

use super::{GROUP, IntegerPanels, PANEL_COLUMNS, PanelBlock, PanelProduct};
use crate::micro::dequantize::{CodeLayout, QUANTIZED_BLOCK, QuantizedMatrix};
use crate::micro::integer_dot::RoundedBlock;
use crate::micro::isa::{Level, has_avx_vnni, level};
use crate::micro::transposed_8x8;

/// Columns of a register.
const LANES: usize = 8;
/// Registers of columns that are summed together, in integers and in floats.
const VECTORS: usize = 2;
/// Rows whose sums fit in registers beside.
const ROWS: usize = 3;
/// Groups of a block.
const GROUPS: usize = QUANTIZED_BLOCK / GROUP;

/// The loops for a layout, where they are faster than floats.
pub(super) fn panels(layout: CodeLayout) -> Option<IntegerPanels> {
    // Floats of AVX-512 are as fast as pairs of bytes.
    by_vnni(layout).or_else(|| by_pairs(layout).filter(|_| level() == Level::Avx2))
}

/// The loops by AVX-VNNI.
pub(super) fn by_vnni(layout: CodeLayout) -> Option<IntegerPanels> {
    has_avx_vnni().then_some(IntegerPanels { pack: packs(layout), multiply: multiply_by_vnni })
}

/// The loops by AVX2 alone: pairs of bytes, signed and unsigned, do not fit in 16 bits, let alone a block's.
pub(super) fn by_pairs(layout: CodeLayout) -> Option<IntegerPanels> {
    let fits = layout == CodeLayout::Nibbles && level() >= Level::Avx2;
    fits.then_some(IntegerPanels { pack: packs(layout), multiply: multiply_by_pairs })
}

fn packs(layout: CodeLayout) -> unsafe fn(&QuantizedMatrix, *mut PanelBlock) {
    match layout {
        CodeLayout::Bytes => pack_bytes,
        CodeLayout::Nibbles => pack_nibbles,
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn pack_bytes(matrix: &QuantizedMatrix, to: *mut PanelBlock) {
    // SAFETY: the caller's promise.
    unsafe { pack(matrix, to, CodeLayout::Bytes) }
}

#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn pack_nibbles(matrix: &QuantizedMatrix, to: *mut PanelBlock) {
    // SAFETY: the caller's promise.
    unsafe { pack(matrix, to, CodeLayout::Nibbles) }
}

/// Rearranges all columns.
///
/// # Safety
/// As [`IntegerPanels::pack`]; the machine has AVX2.
#[inline(always)]
unsafe fn pack(matrix: &QuantizedMatrix, to: *mut PanelBlock, layout: CodeLayout) {
    let (blocks, words) = (matrix.first.blocks, layout.block_bytes() / 4);
    for start in (0..matrix.count).step_by(LANES) {
        // Columns that are not there are those of the last.
        let rows: [_; LANES] = std::array::from_fn(|lane| matrix.row((start + lane).min(matrix.count - 1)));
        for block in (0..blocks).step_by(LANES / words) {
            let there = words * (LANES / words).min(blocks - block);
            // SAFETY: the caller's promise; masked loads read what is there.
            unsafe {
                let mut by_row = [_mm256_setzero_ps(); LANES];
                for (words, row) in by_row.iter_mut().zip(&rows) {
                    let codes = row.codes.add(block * layout.block_bytes());
                    *words = _mm256_castsi256_ps(_mm256_maskload_epi32(codes.cast(), first(there)));
                }
                for (word, codes) in transposed_8x8(by_row)[..there].iter().enumerate() {
                    let to = &mut *to.add(block + word / words);
                    store_codes(to, layout, word % words, start, _mm256_castps_si256(*codes));
                }
            }
        }
        // SAFETY: the caller's promise.
        unsafe {
            let scales = rows.map(|row| row.scales);
            pack_floats(scales, blocks, |block| (&raw mut (*to.add(block)).scales[start]).cast());
            if rows[0].offsets.is_some() {
                let offsets = rows.map(|row| row.offsets.map_or(row.scales, |at| at.as_ptr().cast_const()));
                pack_floats(offsets, blocks, |block| (&raw mut (*to.add(block)).offsets[start]).cast());
            }
        }
    }
}

/// Stores a word of codes of 8 columns.
///
/// # Safety
/// The machine has AVX2.
#[inline(always)]
unsafe fn store_codes(to: &mut PanelBlock, layout: CodeLayout, word: usize, start: usize, codes: __m256i) {
    let mut store = |group: usize, codes: __m256i| {
        let to: *mut [u8; GROUP] = &raw mut to.codes[group][start];
        // SAFETY: the codes of 8 columns are a register, which the start divides.
        unsafe { _mm256_store_si256(to.cast(), codes) };
    };
    match layout {
        CodeLayout::Bytes => store(word, codes),
        CodeLayout::Nibbles => {
            // SAFETY: the caller's promise.
            unsafe {
                let lower = _mm256_set1_epi8(15);
                store(word, _mm256_and_si256(codes, lower));
                store(GROUPS / 2 + word, _mm256_and_si256(_mm256_srli_epi16::<4>(codes), lower));
            }
        }
    }
}

/// Rearranges a number of each block of 8 columns.
///
/// # Safety
/// As [`pack`]; `to` gives room for 8 numbers of a block.
#[inline(always)]
unsafe fn pack_floats(from: [*const f16; LANES], blocks: usize, to: impl Fn(usize) -> *mut f32) {
    for start in (0..blocks).step_by(LANES) {
        let some = LANES.min(blocks - start);
        // SAFETY: the caller's promise.
        unsafe {
            let mut floats = [_mm256_setzero_ps(); LANES];
            for (floats, from) in floats.iter_mut().zip(from) {
                let mut halves = [f16::ZERO; LANES];
                halves.as_mut_ptr().copy_from_nonoverlapping(from.add(start), some);
                *floats = _mm256_cvtph_ps(_mm_loadu_si128(halves.as_ptr().cast()));
            }
            for (number, floats) in transposed_8x8(floats)[..some].iter().enumerate() {
                _mm256_store_ps(to(start + number), *floats);
            }
        }
    }
}

/// The mask of the first lanes.
///
/// # Safety
/// The machine has AVX2.
#[inline(always)]
unsafe fn first(lanes: usize) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_cmpgt_epi32(_mm256_set1_epi32(lanes as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)) }
}

/// How the products of a block's codes are summed. Methods, so that they are compiled for the loop's instructions.
trait BlockSums {
    /// Adds the products of four codes of each of 8 columns with four of a row.
    ///
    /// # Safety
    /// The machine has the instructions.
    unsafe fn add(sums: __m256i, codes: __m256i, by: __m256i) -> __m256i;

    /// The sums as numbers of 32 bits.
    ///
    /// # Safety
    /// The machine has the instructions.
    unsafe fn whole(sums: __m256i) -> __m256i;
}

struct ByVnni;
impl BlockSums for ByVnni {
    #[inline(always)]
    unsafe fn add(sums: __m256i, codes: __m256i, by: __m256i) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe { _mm256_dpbusd_avx_epi32(sums, codes, by) }
    }
    #[inline(always)]
    unsafe fn whole(sums: __m256i) -> __m256i {
        sums
    }
}

/// Sums of 16 bits: at most 8 groups of 2 products of 15 and 127.
struct ByPairs;
impl BlockSums for ByPairs {
    #[inline(always)]
    unsafe fn add(sums: __m256i, codes: __m256i, by: __m256i) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe { _mm256_add_epi16(sums, _mm256_maddubs_epi16(codes, by)) }
    }
    #[inline(always)]
    unsafe fn whole(sums: __m256i) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe { _mm256_madd_epi16(sums, _mm256_set1_epi16(1)) }
    }
}

#[target_feature(enable = "avx2,fma,f16c,avxvnni")]
unsafe fn multiply_by_vnni(product: &PanelProduct) {
    // SAFETY: the caller's promise.
    unsafe { multiply::<ByVnni>(product) }
}

#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn multiply_by_pairs(product: &PanelProduct) {
    // SAFETY: the caller's promise.
    unsafe { multiply::<ByPairs>(product) }
}

/// # Safety
/// As [`IntegerPanels::multiply`]; the machine has the instructions.
#[inline(always)]
unsafe fn multiply<S: BlockSums>(product: &PanelProduct) {
    for column in (0..product.columns).step_by(VECTORS * LANES) {
        let mut row = 0;
        while row < product.count {
            let rest = product.count - row;
            let some = rest.div_ceil(rest.div_ceil(ROWS));
            // SAFETY: the caller's promise.
            unsafe {
                match some {
                    1 => rows::<S, 1>(product, row, column),
                    2 => rows::<S, 2>(product, row, column),
                    _ => rows::<S, ROWS>(product, row, column),
                }
            }
            row += some;
        }
    }
}

/// The products of some rows with the columns from one on.
///
/// # Safety
/// As [`multiply`].
#[inline(always)]
unsafe fn rows<S: BlockSums, const N: usize>(product: &PanelProduct, first_row: usize, column: usize) {
    let PanelProduct { blocks, zero, has_offsets, to, to_step, columns, .. } = *product;
    let rows: [_; N] = std::array::from_fn(|row| product.rows.from(first_row + row, blocks));
    // The compiler would sum a block row by row, with more registers than there are, if it knew how long that takes.
    let groups = std::hint::black_box(GROUPS);
    // SAFETY: the caller's promise.
    unsafe {
        let mut total = [[_mm256_setzero_ps(); VECTORS]; N];
        for block in 0..blocks {
            let panel = &*product.panel.add(block);
            let mut sums = [[_mm256_setzero_si256(); VECTORS]; N];
            for (group, codes) in panel.codes[..groups].iter().enumerate() {
                let codes = &raw const codes[column];
                let codes: [__m256i; VECTORS] =
                    [_mm256_load_si256(codes.cast()), _mm256_load_si256(codes.add(LANES).cast())];
                for (sums, rows) in sums.iter_mut().zip(&rows) {
                    let word = rows.codes.add(block * QUANTIZED_BLOCK + group * GROUP).cast::<i32>();
                    let by = _mm256_set1_epi32(word.read_unaligned());
                    for (sum, &codes) in sums.iter_mut().zip(&codes) {
                        *sum = S::add(*sum, codes, by);
                    }
                }
            }
            let scales = floats(&panel.scales, column);
            for ((total, sums), rows) in total.iter_mut().zip(&sums).zip(&rows) {
                let RoundedBlock { scale, sum: row_sum } = *rows.blocks.add(block);
                let (row_scale, shift) = (_mm256_set1_ps(scale), _mm256_set1_epi32(-zero * row_sum));
                for ((total, &sums), &scales) in total.iter_mut().zip(sums).zip(&scales) {
                    let sums = _mm256_cvtepi32_ps(_mm256_add_epi32(S::whole(sums), shift));
                    *total = _mm256_fmadd_ps(sums, _mm256_mul_ps(scales, row_scale), *total);
                }
                if has_offsets {
                    let sum = _mm256_set1_ps(scale * row_sum as f32);
                    for (total, &offsets) in total.iter_mut().zip(&floats(&panel.offsets, column)) {
                        *total = _mm256_fmadd_ps(offsets, sum, *total);
                    }
                }
            }
        }
        for (row, total) in total.iter().enumerate() {
            let to = to.offset((first_row + row) as isize * to_step).add(column);
            for (v, &total) in total.iter().enumerate() {
                let there = (columns - column).saturating_sub(LANES * v).min(LANES);
                _mm256_maskstore_ps(to.wrapping_add(LANES * v), first(there), total);
            }
        }
    }
}

/// A number of each of some columns.
///
/// # Safety
/// The machine has AVX2; so many columns follow.
#[inline(always)]
unsafe fn floats(numbers: &[f32; PANEL_COLUMNS], column: usize) -> [__m256; VECTORS] {
    let numbers = &raw const numbers[column];
    // SAFETY: as many numbers, of an aligned block.
    unsafe { [_mm256_load_ps(numbers), _mm256_load_ps(numbers.add(LANES))] }
}
