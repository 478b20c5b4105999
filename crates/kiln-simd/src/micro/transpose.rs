//! Loads of a tile whose rows, not columns, are adjacent in memory.

use half::{bf16, f16};

use crate::DType;
use crate::micro::isa::{Level, level};
use crate::micro::memory::MemoryElement;

/// A transposing load: `fn(dst, src, rows, cols, stride, ahead)` computes
/// `dst[r * cols + c] = src[r + c * stride]`, strides in elements. The tile `ahead` elements
/// further is read next, and is prefetched unless `ahead` is 0.
///
/// # Safety
/// `dst` is valid for `rows * cols` register elements, `src` at every position
/// read; both aligned, and they do not overlap.
pub type TransposeFn =
    unsafe fn(dst: *mut u8, src: *const u8, rows: usize, cols: usize, stride: isize, ahead: isize);

/// The transposing load of a type: shuffles of 16 or 8 vectors where the machine has them and
/// registers' elements have 4 bytes, else small blocks.
pub fn load_tile_transposed(dtype: DType) -> TransposeFn {
    match dtype {
        DType::I32 | DType::U32 | DType::F32 => four_bytes::<u32>(),
        DType::Bool | DType::U8 => blocks::<u8>,
        DType::I64 | DType::F64 => blocks::<u64>,
        DType::F16 => four_bytes::<f16>(),
        DType::BF16 => four_bytes::<bf16>(),
    }
}

/// What is shuffled in vectors of 4-byte elements.
#[cfg(not(target_arch = "x86_64"))]
use MemoryElement as Shuffled;
#[cfg(target_arch = "x86_64")]
use x86::Shuffled;

fn four_bytes<T: Shuffled>() -> TransposeFn {
    match level() {
        Level::Base => blocks::<T>,
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => x86::tile8::<T>,
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => x86::tile16::<T>,
        #[cfg(not(target_arch = "x86_64"))]
        Level::Avx2 | Level::Avx512 => blocks::<T>,
    }
}

/// Blocks of 8 by 8, so that each cache line is used whole while it is in L1.
unsafe fn blocks<T: MemoryElement>(
    dst: *mut u8,
    src: *const u8,
    rows: usize,
    cols: usize,
    stride: isize,
    _ahead: isize,
) {
    for r in (0..rows).step_by(8) {
        for c in (0..cols).step_by(8) {
            // SAFETY: the contract of `TransposeFn`, on a part of its tile.
            unsafe { block::<T>(dst, src, (r, rows.min(r + 8)), (c, cols.min(c + 8)), (cols, stride)) }
        }
    }
}

/// The elements of rows and columns from the first to before the second.
///
/// # Safety
/// As [`TransposeFn`], for tiles with `shape.0` columns and stride `shape.1`.
#[inline(always)]
unsafe fn block<T: MemoryElement>(
    dst: *mut u8,
    src: *const u8,
    rows: (usize, usize),
    cols: (usize, usize),
    shape: (usize, isize),
) {
    let (dst, src) = (dst.cast::<T::Register>(), src.cast::<T>());
    for c in cols.0..cols.1 {
        for r in rows.0..rows.1 {
            // SAFETY: the caller's promise.
            unsafe {
                let value = src.offset(r as isize + c as isize * shape.1).read();
                dst.add(r * shape.0 + c).write(value.widen());
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) mod x86 {
    use super::{MemoryElement, bf16, blocks, f16};
    use std::arch::x86_64::*;

    /// What is shuffled in vectors of 4-byte elements.
    pub(super) trait Shuffled: MemoryElement {
        /// Eight elements in register form.
        ///
        /// # Safety
        /// They are valid for reading; the machine has AVX2, FMA and F16C.
        unsafe fn load8(from: *const Self) -> __m256;
        /// Sixteen.
        ///
        /// # Safety
        /// They are valid for reading; the machine has the features of [`tile16`].
        unsafe fn load16(from: *const Self) -> __m512;
    }
    macro_rules! shuffled {
        ($($t:ty, |$from:ident| $load8:expr, $load16:expr;)*) => {$(
            impl Shuffled for $t {
                #[inline]
                #[target_feature(enable = "avx2,fma,f16c")]
                unsafe fn load8($from: *const $t) -> __m256 {
                    // SAFETY: the caller's promise.
                    unsafe { $load8 }
                }
                #[inline]
                #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
                unsafe fn load16($from: *const $t) -> __m512 {
                    // SAFETY: the caller's promise.
                    unsafe { $load16 }
                }
            }
        )*};
    }
    shuffled! {
        u32, |from| _mm256_loadu_ps(from.cast()), _mm512_loadu_ps(from.cast());
        f16, |from| _mm256_cvtph_ps(_mm_loadu_si128(from.cast())),
            _mm512_cvtph_ps(_mm256_loadu_si256(from.cast()));
        bf16, |from| _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast())))),
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()))));
    }

    /// Covers a tile with in-register transposes of `$side` by `$side`, the last of which overlap those
    /// before where the side is no divisor; a smaller tile is left to `$smaller`.
    macro_rules! tile {
        ($name:ident, $side:literal, $transpose:ident, $smaller:ident, $features:literal) => {
            #[target_feature(enable = $features)]
            pub(super) unsafe fn $name<T: Shuffled>(
                dst: *mut u8,
                src: *const u8,
                rows: usize,
                cols: usize,
                stride: isize,
                ahead: isize,
            ) {
                if rows < $side || cols < $side {
                    // SAFETY: the contract of `TransposeFn`; it needs fewer features.
                    return unsafe { $smaller::<T>(dst, src, rows, cols, stride, ahead) };
                }
                // SAFETY: the contract of `TransposeFn`, on parts of its tile.
                unsafe {
                    for r in (0..rows).step_by($side) {
                        let r = r.min(rows - $side);
                        for c in (0..cols).step_by($side) {
                            let c = c.min(cols - $side);
                            let from = src.cast::<T>().offset(r as isize + c as isize * stride);
                            // Prefetch the same block of the next tile, whose rows are in as many
                            // pages; to L2, since in L1 they would evict each other.
                            if ahead != 0 {
                                for row in 0..$side {
                                    let next = from.wrapping_offset(ahead + row * stride);
                                    _mm_prefetch::<_MM_HINT_T1>(next.cast());
                                }
                            }
                            $transpose(dst.cast::<f32>().add(r * cols + c), from, cols, stride);
                        }
                    }
                }
            }
        };
    }
    tile!(tile8, 8, transpose8x8, blocks, "avx2,fma,f16c");
    tile!(tile16, 16, transpose16x16, tile8, "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl");

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn transpose8x8<T: Shuffled>(dst: *mut f32, src: *const T, cols: usize, stride: isize) {
        let mut v = [_mm256_setzero_ps(); 8];
        for (c, v) in v.iter_mut().enumerate() {
            // SAFETY: column `c` of the caller's block.
            *v = unsafe { T::load8(src.offset(c as isize * stride)) };
        }
        for (r, &t) in transposed_8x8(v).iter().enumerate() {
            // SAFETY: row `r` of the caller's block.
            unsafe { _mm256_storeu_ps(dst.add(r * cols), t) };
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn transpose16x16<T: Shuffled>(dst: *mut f32, src: *const T, cols: usize, stride: isize) {
        let mut v = [_mm512_setzero_ps(); 16];
        for (c, v) in v.iter_mut().enumerate() {
            // SAFETY: column `c` of the caller's block.
            *v = unsafe { T::load16(src.offset(c as isize * stride)) };
        }
        for (r, &t) in transposed_16x16(v).iter().enumerate() {
            // SAFETY: row `r` of the caller's block.
            unsafe { _mm512_storeu_ps(dst.add(r * cols), t) };
        }
    }

    /// The columns of 8 rows.
    #[inline]
    #[target_feature(enable = "avx")]
    pub(crate) fn transposed_8x8(mut v: [__m256; 8]) -> [__m256; 8] {
        let mut t = v;
        for i in (0..8).step_by(2) {
            t[i] = _mm256_unpacklo_ps(v[i], v[i + 1]);
            t[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
        }
        for i in [0, 4] {
            v[i] = _mm256_shuffle_ps::<0x44>(t[i], t[i + 2]);
            v[i + 1] = _mm256_shuffle_ps::<0xee>(t[i], t[i + 2]);
            v[i + 2] = _mm256_shuffle_ps::<0x44>(t[i + 1], t[i + 3]);
            v[i + 3] = _mm256_shuffle_ps::<0xee>(t[i + 1], t[i + 3]);
        }
        for i in 0..4 {
            t[i] = _mm256_permute2f128_ps::<0x20>(v[i], v[i + 4]);
            t[i + 4] = _mm256_permute2f128_ps::<0x31>(v[i], v[i + 4]);
        }
        t
    }

    /// The columns of 16 rows.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn transposed_16x16(mut v: [__m512; 16]) -> [__m512; 16] {
        let mut t = v;
        for i in (0..16).step_by(2) {
            t[i] = _mm512_unpacklo_ps(v[i], v[i + 1]);
            t[i + 1] = _mm512_unpackhi_ps(v[i], v[i + 1]);
        }
        // v[4g + j] holds, in its 128-bit part p, row 4p + j of columns 4g...
        for i in (0..16).step_by(4) {
            v[i] = _mm512_shuffle_ps::<0x44>(t[i], t[i + 2]);
            v[i + 1] = _mm512_shuffle_ps::<0xee>(t[i], t[i + 2]);
            v[i + 2] = _mm512_shuffle_ps::<0x44>(t[i + 1], t[i + 3]);
            v[i + 3] = _mm512_shuffle_ps::<0xee>(t[i + 1], t[i + 3]);
        }
        // ... so a 4 by 4 transposition of those parts finishes.
        for j in 0..4 {
            let low01 = _mm512_shuffle_f32x4::<0x44>(v[j], v[j + 4]);
            let high01 = _mm512_shuffle_f32x4::<0xee>(v[j], v[j + 4]);
            let low23 = _mm512_shuffle_f32x4::<0x44>(v[j + 8], v[j + 12]);
            let high23 = _mm512_shuffle_f32x4::<0xee>(v[j + 8], v[j + 12]);
            t[j] = _mm512_shuffle_f32x4::<0x88>(low01, low23);
            t[j + 4] = _mm512_shuffle_f32x4::<0xdd>(low01, low23);
            t[j + 8] = _mm512_shuffle_f32x4::<0x88>(high01, high23);
            t[j + 12] = _mm512_shuffle_f32x4::<0xdd>(high01, high23);
        }
        t
    }
}
