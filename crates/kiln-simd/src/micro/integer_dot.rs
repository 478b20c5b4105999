//! Dot products of packed numbers with a vector that is rounded to 8 bits, in integers: a block's codes
//! are multiplied and summed exactly, and one float operation a block puts the sum to its scale. This is
//! how ggml multiplies these formats.

#[cfg(target_arch = "x86_64")]
mod vnni;

use crate::micro::dequantize::{CodeLayout, QUANTIZED_BLOCK, QuantizedMatrix, QuantizedRow, offset};
use crate::micro::half16::widen_f16;
use crate::micro::isa::{Isa, versioned};

/// What goes with a block of 32 codes of a rounded row.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct RoundedBlock {
    /// What a code is multiplied by.
    pub(super) scale: f32,
    /// The sum of the codes.
    pub(super) sum: i32,
}

/// Rows rounded to 8 bits, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct RoundedRows {
    /// Codes from -127 to 127.
    pub codes: *mut i8,
    /// One for each 32 codes.
    pub blocks: *mut RoundedBlock,
}

versioned! {
    /// A loop that rounds a block of elements to codes.
    RoundLoop, round_loop, base_round_loop,
    fn(elements: &[f32; QUANTIZED_BLOCK], codes: &mut [i8; QUANTIZED_BLOCK], to: &mut RoundedBlock)
}

impl RoundedBlock {
    /// The sum of what the codes stand for.
    #[inline(always)]
    fn meant_sum(self) -> f32 {
        self.scale * self.sum as f32
    }
}

impl RoundedRows {
    /// The rows from one on, each of so many blocks.
    #[must_use]
    #[inline]
    pub fn from(self, row: usize, blocks: usize) -> RoundedRows {
        RoundedRows {
            codes: self.codes.wrapping_add(row * blocks * QUANTIZED_BLOCK),
            blocks: self.blocks.wrapping_add(row * blocks),
        }
    }

    /// Rounds whole blocks to the nearest codes: an element is off by at most 1/254 of its block's largest. A
    /// block with an infinite element or a NaN is NaN.
    ///
    /// # Safety
    /// Codes and blocks are writable for as many elements.
    pub unsafe fn round(self, elements: &[f32]) {
        let (round, (elements, _)) = (round_loop::<Round>(), elements.as_chunks::<QUANTIZED_BLOCK>());
        for (number, block) in elements.iter().enumerate() {
            // SAFETY: the caller's promise; the loop is the machine's.
            unsafe {
                let codes = &mut *self.codes.cast::<[i8; QUANTIZED_BLOCK]>().add(number);
                round(block, codes, &mut *self.blocks.add(number));
            }
        }
    }
}

struct Round;
impl RoundLoop for Round {
    #[inline(always)]
    unsafe fn run<I: Isa>(
        elements: &[f32; QUANTIZED_BLOCK],
        codes: &mut [i8; QUANTIZED_BLOCK],
        to: &mut RoundedBlock,
    ) {
        // Magnitudes are in the order of their bits, those that are no numbers last; maxima of floats would
        // wait for each other.
        let most = elements.iter().fold(0, |most, x| most.max(x.abs().to_bits()));
        let most = Some(f32::from_bits(most)).filter(|most| most.is_finite()).unwrap_or(f32::NAN);
        // Elements so small that no factor makes them codes are zero.
        let factor = Some(127.0 / most).filter(|factor| factor.is_finite()).unwrap_or(0.0);
        let mut sum = 0i32;
        for (code, &x) in codes.iter_mut().zip(elements) {
            // Half away from zero.
            #[expect(clippy::manual_clamp, reason = "a NaN becomes a number")]
            let near = (x * factor + 0.5f32.copysign(x)).max(-127.0).min(127.0);
            // SAFETY: a number within the range of integers.
            let near: i32 = unsafe { near.to_int_unchecked() };
            *code = near as i8;
            sum += near;
        }
        *to = RoundedBlock { scale: most / 127.0, sum };
    }
}

versioned! {
    /// Sums over the blocks of rows.
    IntegerLoop, integer_loop, base_integer_loop, fn(matrix: &QuantizedMatrix, vector: RoundedRows)
}

/// A loop that writes the dot products of rows with a vector to each row's `to`.
///
/// # Safety
/// Codes, scales and offsets are readable for all blocks, of which the vector, the first of some rounded rows,
/// has as many, and a float a row is writable.
pub type IntegerDotFn = unsafe fn(matrix: &QuantizedMatrix, vector: RoundedRows);

/// The loop for a layout and a code of zero; `None` where codes do not fit in a signed byte.
pub fn integer_dot(layout: CodeLayout, zero: f32) -> Option<IntegerDotFn> {
    let by_level = match layout {
        CodeLayout::Bytes if zero == 128.0 => integer_loop::<Bytes>(),
        CodeLayout::Nibbles if (0.0..=128.0).contains(&zero) && zero.fract() == 0.0 => {
            integer_loop::<Nibbles>()
        }
        CodeLayout::Bytes | CodeLayout::Nibbles => return None,
    };
    #[cfg(target_arch = "x86_64")]
    let by_level = vnni::dot(layout).unwrap_or(by_level);
    Some(by_level)
}

/// Blocks whose scales are widened together.
const SOME: usize = 16;
/// Lanes of a partial sum: a register.
const LANES: usize = 8;

/// What the sums of some blocks' codes are multiplied by, and what is added to the product by lane.
///
/// `shift` is the distance of codes as they are summed from those that are meant.
///
/// # Safety
/// As [`IntegerDotFn`], for `some` blocks from `first` on.
#[inline(always)]
unsafe fn factors(
    row: &QuantizedRow,
    vector: RoundedRows,
    (first, some): (usize, usize),
    shift: f32,
    added: &mut [f32; SOME],
) -> [f32; SOME] {
    let mut scales = [0f32; SOME];
    for i in 0..some {
        let at = first + i;
        // SAFETY: the caller's promise.
        let (scale, of_vector) =
            unsafe { (widen_f16(row.scales.add(at).read()), vector.blocks.add(at).read()) };
        scales[i] = scale * of_vector.scale;
        added[i] -= shift * scale * of_vector.meant_sum();
    }
    if row.offsets.is_some() {
        for (i, added) in added[..some].iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            *added +=
                unsafe { offset(row.offsets, first + i) * vector.blocks.add(first + i).read().meant_sum() };
        }
    }
    scales
}

/// Codes as they lie. Methods, not closures, so that they are compiled for the loop's instruction set.
trait Codes {
    /// How.
    const LAYOUT: CodeLayout;

    /// A block's codes as they are summed.
    fn unpacked(codes: &[u8; QUANTIZED_BLOCK]) -> [i8; QUANTIZED_BLOCK];

    /// Adds the products of two blocks, scaled, to the lanes.
    ///
    /// # Safety
    /// Two blocks of codes and of the vector are readable; the machine has AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    unsafe fn add_by_avx2(total: &mut [f32; LANES], codes: *const u8, by: *const i8, scales: [f32; 2]);

    /// The sum of a block's products.
    ///
    /// # Safety
    /// A block of codes and one of the vector are readable.
    #[inline(always)]
    unsafe fn products(codes: *const u8, by: *const i8) -> i32 {
        let mut packed = [0u8; QUANTIZED_BLOCK];
        // SAFETY: the caller's promise.
        let by = unsafe {
            packed.as_mut_ptr().copy_from_nonoverlapping(codes, Self::LAYOUT.block_bytes());
            by.cast::<[i8; QUANTIZED_BLOCK]>().read()
        };
        Self::unpacked(&packed).iter().zip(&by).map(|(&a, &b)| i32::from(a) * i32::from(b)).sum()
    }
}

/// Each row's sum, of codes that lie `shift` above those that are meant.
///
/// # Safety
/// As [`IntegerDotFn`].
#[inline(always)]
unsafe fn dots<I: Isa, C: Codes>(matrix: &QuantizedMatrix, vector: RoundedRows, shift: f32) {
    for number in 0..matrix.count {
        // SAFETY: the caller's promise.
        unsafe { dot::<I, C>(&matrix.row(number), vector, shift) };
    }
}

/// A row's sum.
///
/// # Safety
/// As [`IntegerDotFn`].
#[inline(always)]
unsafe fn dot<I: Isa, C: Codes>(row: &QuantizedRow, vector: RoundedRows, shift: f32) {
    let (mut total, mut added) = ([0f32; LANES], [0f32; SOME]);
    for first in (0..row.blocks).step_by(SOME) {
        let some = SOME.min(row.blocks - first);
        // SAFETY: the caller's promise.
        let scales = unsafe { factors(row, vector, (first, some), shift, &mut added) };
        let codes = row.codes.wrapping_add(first * C::LAYOUT.block_bytes());
        let by = vector.codes.cast_const().wrapping_add(first * QUANTIZED_BLOCK);
        let at = |i: usize| {
            (codes.wrapping_add(i * C::LAYOUT.block_bytes()), by.wrapping_add(i * QUANTIZED_BLOCK))
        };
        let mut i = 0;
        #[cfg(target_arch = "x86_64")]
        while I::AVX2 && i + 2 <= some {
            let (codes, by) = at(i);
            // SAFETY: the caller's promise; the machine has the instructions.
            unsafe { C::add_by_avx2(&mut total, codes, by, [scales[i], scales[i + 1]]) };
            i += 2;
        }
        while i < some {
            let (codes, by) = at(i);
            // SAFETY: the caller's promise.
            total[i % LANES] += unsafe { C::products(codes, by) } as f32 * scales[i];
            i += 1;
        }
    }
    // SAFETY: the caller's promise.
    unsafe { row.to.write(total.iter().sum::<f32>() + added.iter().sum::<f32>()) }
}

struct Bytes;
impl IntegerLoop for Bytes {
    #[inline(always)]
    unsafe fn run<I: Isa>(matrix: &QuantizedMatrix, vector: RoundedRows) {
        // SAFETY: the caller's promise.
        unsafe { dots::<I, Bytes>(matrix, vector, 0.0) }
    }
}
impl Codes for Bytes {
    const LAYOUT: CodeLayout = CodeLayout::Bytes;
    #[inline(always)]
    fn unpacked(codes: &[u8; QUANTIZED_BLOCK]) -> [i8; QUANTIZED_BLOCK] {
        codes.map(|code| (code ^ 128) as i8)
    }
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn add_by_avx2(total: &mut [f32; LANES], codes: *const u8, by: *const i8, scales: [f32; 2]) {
        // SAFETY: the caller's promise.
        unsafe { avx2::add_bytes(total, codes, by, scales) }
    }
}

struct Nibbles;
impl IntegerLoop for Nibbles {
    #[inline(always)]
    unsafe fn run<I: Isa>(matrix: &QuantizedMatrix, vector: RoundedRows) {
        // SAFETY: the caller's promise.
        unsafe { dots::<I, Nibbles>(matrix, vector, matrix.first.zero) }
    }
}
impl Codes for Nibbles {
    const LAYOUT: CodeLayout = CodeLayout::Nibbles;
    #[inline(always)]
    fn unpacked(codes: &[u8; QUANTIZED_BLOCK]) -> [i8; QUANTIZED_BLOCK] {
        const HALF: usize = QUANTIZED_BLOCK / 2;
        let mut block = [0i8; QUANTIZED_BLOCK];
        for (j, pair) in codes[..HALF].iter().enumerate() {
            (block[j], block[HALF + j]) = ((pair & 15) as i8, (pair >> 4) as i8);
        }
        block
    }
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn add_by_avx2(total: &mut [f32; LANES], codes: *const u8, by: *const i8, scales: [f32; 2]) {
        // SAFETY: the caller's promise.
        unsafe { avx2::add_nibbles(total, codes, by, scales) }
    }
}

/// Products of two blocks by `vpmaddubsw`, which multiplies unsigned with signed bytes and adds pairs. No
/// pair exceeds 16 bits: 2 * 128 * 127.
#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        __m256i, _mm_loadu_si128, _mm_set1_ps, _mm256_abs_epi8, _mm256_add_epi16, _mm256_and_si256,
        _mm256_castsi128_si256, _mm256_cvtepi32_ps, _mm256_fmadd_ps, _mm256_inserti128_si256,
        _mm256_loadu_ps, _mm256_loadu_si256, _mm256_madd_epi16, _mm256_maddubs_epi16, _mm256_set_m128,
        _mm256_set1_epi8, _mm256_set1_epi16, _mm256_set1_ps, _mm256_sign_epi8, _mm256_srli_epi16,
        _mm256_storeu_ps, _mm256_xor_si256,
    };

    use super::LANES;

    /// # Safety
    /// Two blocks of codes and of the vector are readable; the machine has AVX2 and FMA.
    #[inline(always)]
    pub unsafe fn add_bytes(total: &mut [f32; LANES], codes: *const u8, by: *const i8, scales: [f32; 2]) {
        // SAFETY: the caller's promise.
        unsafe {
            let mut sum = _mm256_loadu_ps(total.as_ptr());
            for (i, scale) in scales.into_iter().enumerate() {
                let code = _mm256_loadu_si256(codes.cast::<__m256i>().add(i));
                let code = _mm256_xor_si256(code, _mm256_set1_epi8(-128));
                let by = _mm256_loadu_si256(by.cast::<__m256i>().add(i));
                let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(code), _mm256_sign_epi8(by, code));
                let fours = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
                sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(fours), _mm256_set1_ps(scale), sum);
            }
            _mm256_storeu_ps(total.as_mut_ptr(), sum);
        }
    }

    /// # Safety
    /// As [`add_bytes`].
    #[inline(always)]
    pub unsafe fn add_nibbles(total: &mut [f32; LANES], codes: *const u8, by: *const i8, scales: [f32; 2]) {
        // SAFETY: the caller's promise.
        unsafe {
            let sum = _mm256_loadu_ps(total.as_ptr());
            let pairs = _mm256_loadu_si256(codes.cast());
            let lower = _mm256_and_si256(pairs, _mm256_set1_epi8(15));
            let upper = _mm256_and_si256(_mm256_srli_epi16(pairs, 4), _mm256_set1_epi8(15));
            let (first, second) = (both_halves(by), both_halves(by.add(16)));
            let products =
                _mm256_add_epi16(_mm256_maddubs_epi16(lower, first), _mm256_maddubs_epi16(upper, second));
            let fours = _mm256_madd_epi16(products, _mm256_set1_epi16(1));
            let scale = _mm256_set_m128(_mm_set1_ps(scales[1]), _mm_set1_ps(scales[0]));
            let sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(fours), scale, sum);
            _mm256_storeu_ps(total.as_mut_ptr(), sum);
        }
    }

    /// The same half of two blocks.
    ///
    /// # Safety
    /// Both are readable; the machine has AVX2.
    #[inline(always)]
    unsafe fn both_halves(by: *const i8) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe {
            let (first, second) = (_mm_loadu_si128(by.cast()), _mm_loadu_si128(by.add(32).cast()));
            _mm256_inserti128_si256(_mm256_castsi128_si256(first), second, 1)
        }
    }
}
