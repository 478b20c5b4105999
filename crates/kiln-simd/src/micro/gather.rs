//! Loads from given positions.

use half::{bf16, f16};
use std::ptr::null;

use crate::DType;
#[cfg(target_arch = "x86_64")]
use crate::micro::isa::{Level, level};
use crate::micro::memory::{Float16, GATHER_CHUNK, MemoryElement};
use crate::micro::{MAX_OPERANDS, view, view_mut};

/// A gather `fn(dst, bases, index, n, row_stride)` of rows of `n` elements, `row_stride` bytes row_stride in the
/// register: each row has a base address, and all rows share the indices, in elements.
///
/// # Safety
/// The register is valid for as many rows as there are bases, memory at every position;
/// all aligned, and they do not overlap. Memory between two positions of a row is the input's.
pub type GatherFn =
    unsafe fn(dst: *mut u8, bases: &[*const u8], index: *const i64, n: usize, row_stride: usize);

/// Memory at given positions to a register.
pub fn load_gather(dtype: DType) -> GatherFn {
    match dtype {
        DType::Bool | DType::U8 => gather::<u8>,
        DType::I32 | DType::U32 | DType::F32 => words(),
        DType::I64 | DType::F64 => gather::<u64>,
        DType::F16 => gather_narrow::<f16>,
        DType::BF16 => gather_narrow::<bf16>,
    }
}

/// The loop over 32-bit elements.
fn words() -> GatherFn {
    #[cfg(target_arch = "x86_64")]
    if level() >= Level::Avx2 {
        return clustered::gather;
    }
    gather::<u32>
}

unsafe fn gather<T: MemoryElement>(
    dst: *mut u8,
    bases: &[*const u8],
    index: *const i64,
    n: usize,
    row_stride: usize,
) {
    for (row, base) in bases.iter().enumerate() {
        // SAFETY: the contract of `GatherFn`.
        unsafe {
            let to: &mut [T::Register] = view_mut(dst.add(row * row_stride), n);
            for (d, &i) in to.iter_mut().zip(view::<i64>(index.cast(), n)) {
                *d = base.cast::<T>().wrapping_offset(i as isize).read().widen();
            }
        }
    }
}

unsafe fn gather_narrow<T: Float16>(
    dst: *mut u8,
    bases: &[*const u8],
    index: *const i64,
    n: usize,
    row_stride: usize,
) {
    let widen = T::widen_all();
    let mut raw = [T::default(); GATHER_CHUNK];
    for (row, base) in bases.iter().enumerate() {
        for start in (0..n).step_by(GATHER_CHUNK) {
            let raw = &mut raw[..GATHER_CHUNK.min(n - start)];
            // SAFETY: the contract of `GatherFn`, on a part of a row.
            unsafe {
                for (i, raw) in raw.iter_mut().enumerate() {
                    let position = index.add(start + i).read() as isize;
                    *raw = base.cast::<T>().wrapping_offset(position).read();
                }
                let to = dst.add(row * row_stride + start * size_of::<f32>());
                widen(to, [raw.as_ptr().cast(); MAX_OPERANDS], raw.len(), null());
            }
        }
    }
}

/// Positions that are mostly close together, as those of an interpolation are: eight positions within
/// eight elements become one load of each row and one permutation.
#[cfg(target_arch = "x86_64")]
mod clustered {
    use std::arch::x86_64::{
        __m256i, _mm256_castps_si256, _mm256_castsi256_ps, _mm256_loadu_ps, _mm256_loadu_si256,
        _mm256_or_si256, _mm256_permute4x64_epi64, _mm256_permutevar8x32_ps, _mm256_set1_epi64x,
        _mm256_shuffle_ps, _mm256_storeu_ps, _mm256_sub_epi64, _mm256_testz_si256,
    };
    use std::ops::RangeInclusive;

    use crate::thresholds::SCATTERED_GATHER_RUN;

    /// Positions of one load.
    const LANES: usize = 8;
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn gather(
        dst: *mut u8,
        bases: &[*const u8],
        index: *const i64,
        n: usize,
        row_stride: usize,
    ) {
        let one_by_one = |at: usize, count: usize| {
            let to = dst.wrapping_add(at * size_of::<f32>());
            // SAFETY: the caller's promise, for a part of each row.
            unsafe { super::gather::<u32>(to, bases, index.add(at), count, row_stride) }
        };
        let Some(last) = n.checked_sub(LANES) else { return one_by_one(0, n) };
        // SAFETY: the caller's promise.
        let position = |at: usize| unsafe { index.add(at).read() };
        let (one, other) = (position(0), position(n - 1));
        let known = one.min(other)..=one.max(other);
        let mut at = 0;
        while at <= last {
            let window = window(position(at).min(position(at + LANES - 1)), &known);
            let picks = match window {
                // SAFETY: as many positions.
                Some(window) => unsafe { picks(index.add(at), window) },
                None => None,
            };
            let (Some(window), Some(picks)) = (window, picks) else {
                let count = SCATTERED_GATHER_RUN.min(n - at);
                one_by_one(at, count);
                at += count;
                continue;
            };
            for (row, base) in bases.iter().enumerate() {
                // SAFETY: the caller's promise: the window lies between the first position and the last.
                unsafe {
                    let elements = _mm256_loadu_ps(base.cast::<f32>().wrapping_offset(window as isize));
                    let to = dst.add(row * row_stride).cast::<f32>().add(at);
                    _mm256_storeu_ps(to, _mm256_permutevar8x32_ps(elements, picks));
                }
            }
            at += LANES;
        }
        one_by_one(at, n - at);
    }

    /// The start of [`LANES`] elements that are known to be readable, at a position or before; `None` if
    /// there are none.
    fn window(position: i64, known: &RangeInclusive<i64>) -> Option<i64> {
        let start = position.min(known.end() - (LANES as i64 - 1));
        (start >= *known.start()).then_some(start)
    }

    /// The permutation that picks positions from a window; `None` if one is outside.
    ///
    /// # Safety
    /// The instruction set, and [`LANES`] positions.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn picks(index: *const i64, window: i64) -> Option<__m256i> {
        let first = _mm256_set1_epi64x(window);
        // SAFETY: the caller's promise.
        let half = |half: usize| unsafe { _mm256_loadu_si256(index.add(half * LANES / 2).cast()) };
        let (these, those) = (_mm256_sub_epi64(half(0), first), _mm256_sub_epi64(half(1), first));
        let outside = _mm256_set1_epi64x(!(LANES as i64 - 1));
        if _mm256_testz_si256(_mm256_or_si256(these, those), outside) == 0 {
            return None;
        }
        let (these, those) = (_mm256_castsi256_ps(these), _mm256_castsi256_ps(those));
        // The low words of both, whose pairs alternate.
        let words = _mm256_castps_si256(_mm256_shuffle_ps::<0b10_00_10_00>(these, those));
        Some(_mm256_permute4x64_epi64::<0b11_01_10_00>(words))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn nothing_is_loaded_but_what_lies_between_positions() {
            let known = -3..=20;
            for position in -20..40 {
                let elements = window(position, &known).map(|start| start..=start + 7);
                let expected = match position {
                    ..-3 => None,
                    -3..14 => Some(position..=position + 7),
                    14.. => Some(13..=20),
                };
                assert_eq!(elements, expected, "at {position}");
            }
            assert_eq!(window(2, &(0..=6)), None);
        }
    }
}
