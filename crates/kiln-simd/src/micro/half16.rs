//! The 16-bit floats: widening is exact, narrowing rounds to nearest even,
//! and NaN stays NaN. Branch-free, so that the portable loops vectorise.

use half::{bf16, f16};

use crate::micro::alu::{Binary, Unary, VS, VV, micro};
use crate::micro::isa::{Isa, Level, level};
use crate::micro::ops::{Map1, Map2};
use crate::micro::{MicroFn, OperandKind};

/// Half precision as single. The exponent is rebiased by a multiplication,
/// which normalises subnormals on the way.
#[inline(always)]
pub(super) fn widen_f16(x: f16) -> f32 {
    let bits = u32::from(x.to_bits());
    let scaled = f32::from_bits((bits & 0x7fff) << 13) * f32::from_bits(0x7780_0000); // 2^112
    let special = if bits & 0x7c00 == 0x7c00 { 0x7f80_0000 } else { 0 };
    f32::from_bits((bits & 0x8000) << 16 | scaled.to_bits() | special)
}

/// Single precision rounded to half. Subnormal results come from an addition
/// of 0.5, whose last bit weighs as much as theirs.
#[inline(always)]
pub(super) fn narrow_f16(x: f32) -> f16 {
    let bits = x.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let normal = magnitude.wrapping_sub(0x3800_0000).wrapping_add(0xfff + (magnitude >> 13 & 1)) >> 13;
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
    let finite = if magnitude < 0x3880_0000 { subnormal } else { normal };
    let bounded = if magnitude >= 0x4780_0000 { 0x7c00 } else { finite };
    let nan = 0x7e00 | (magnitude >> 13 & 0x3ff);
    let result = if magnitude > 0x7f80_0000 { nan } else { bounded };
    f16::from_bits((bits >> 16 & 0x8000 | result) as u16)
}

/// Brain floating point as single.
#[inline(always)]
pub(super) fn widen_bf16(x: bf16) -> f32 {
    f32::from_bits(u32::from(x.to_bits()) << 16)
}

/// Single precision rounded to brain floating point.
#[inline(always)]
pub(super) fn narrow_bf16(x: f32) -> bf16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    let nan = bits >> 16 | 0x40;
    bf16::from_bits(if bits & 0x7fff_ffff > 0x7f80_0000 { nan } else { rounded } as u16)
}

/// Memory to register.
struct Widen;
impl Map1<f16> for Widen {
    type Out = f32;
    #[inline(always)]
    fn map<I: Isa>(x: f16) -> f32 {
        widen_f16(x)
    }
}
impl Map1<bf16> for Widen {
    type Out = f32;
    #[inline(always)]
    fn map<I: Isa>(x: bf16) -> f32 {
        widen_bf16(x)
    }
}

/// Register to memory.
struct NarrowF16;
impl Map1<f32> for NarrowF16 {
    type Out = f16;
    #[inline(always)]
    fn map<I: Isa>(x: f32) -> f16 {
        narrow_f16(x)
    }
}
struct NarrowBf16;
impl Map1<f32> for NarrowBf16 {
    type Out = bf16;
    #[inline(always)]
    fn map<I: Isa>(x: f32) -> bf16 {
        narrow_bf16(x)
    }
}

/// The loop for the machine: `$wide` with AVX-512, `$avx` with F16C, else `$portable`.
macro_rules! choose {
    ($wide:ident, $avx:expr, $portable:expr) => {
        match level() {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => avx512::$wide,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => $avx,
            #[cfg(not(target_arch = "x86_64"))]
            Level::Avx2 | Level::Avx512 => $portable,
            Level::Base => $portable,
        }
    };
}

/// The loop from half precision in memory to a register.
pub(super) fn load_f16() -> MicroFn {
    choose!(load_f16, f16c::load_f16, micro::<Unary<Widen, f16>>())
}

/// The loop from a register to half precision in memory.
pub(super) fn store_f16() -> MicroFn {
    choose!(store_f16, f16c::store_f16, micro::<Unary<NarrowF16, f32>>())
}

/// The loop that rounds a register to half precision, where there are instructions for it.
pub(super) fn round_f16() -> Option<MicroFn> {
    match level() {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => Some(avx512::round_f16),
        #[cfg(not(target_arch = "x86_64"))]
        Level::Avx512 => None,
        Level::Base | Level::Avx2 => None,
    }
}

/// The loop from brain floating point in memory to a register.
pub(super) fn load_bf16() -> MicroFn {
    micro::<Unary<Widen, bf16>>()
}

/// The loop from a register to brain floating point in memory.
pub(super) fn store_bf16() -> MicroFn {
    #[cfg(target_arch = "x86_64")]
    if level() == Level::Avx512 && is_x86_feature_detected!("avx512bf16") {
        return avx512::store_bf16;
    }
    micro::<Unary<NarrowBf16, f32>>()
}

/// Two elements side by side, the first in the low half.
struct InterleaveBf16;
impl Map2<u16> for InterleaveBf16 {
    type Out = u32;
    #[inline(always)]
    fn map<I: Isa>(x: u16, y: u16) -> u32 {
        u32::from(x) | u32::from(y) << 16
    }
}
impl Map2<f32> for InterleaveBf16 {
    type Out = u32;
    #[inline(always)]
    fn map<I: Isa>(x: f32, y: f32) -> u32 {
        <InterleaveBf16 as Map2<u16>>::map::<I>(narrow_bf16(x).to_bits(), narrow_bf16(y).to_bits())
    }
}

/// The loop that interleaves two rows of brain floating point, operands `a` and `b`, element by
/// element, `a`'s first: rows in memory, or in registers. `b` may be a broadcast.
pub fn interleave_bf16(registers: bool, second: OperandKind) -> MicroFn {
    match (registers, second) {
        (false, OperandKind::Vector) => micro::<Binary<InterleaveBf16, u16, VV>>(),
        (false, OperandKind::Broadcast) => micro::<Binary<InterleaveBf16, u16, VS>>(),
        (true, OperandKind::Vector) => micro::<Binary<InterleaveBf16, f32, VV>>(),
        (true, OperandKind::Broadcast) => micro::<Binary<InterleaveBf16, f32, VS>>(),
    }
}

/// The F16C instructions, eight elements at a time.
#[cfg(target_arch = "x86_64")]
mod f16c {
    use super::{NarrowF16, Unary, Widen, f16};
    use crate::micro::alu::Micro;
    use crate::micro::isa::Avx;
    use crate::micro::{MAX_OPERANDS, OperandPtrs, view, view_mut};
    use std::arch::x86_64::{
        _MM_FROUND_TO_NEAREST_INT, _mm_loadu_si128, _mm_storeu_si128, _mm256_cvtph_ps, _mm256_cvtps_ph,
        _mm256_loadu_ps, _mm256_storeu_ps,
    };
    use std::ptr;

    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) unsafe fn load_f16(dst: *mut u8, [a, ..]: OperandPtrs, n: usize, _next: *const u8) {
        // SAFETY: the contract of `MicroFn`; whole blocks lie inside `n`.
        unsafe {
            let (to, from): (&mut [f32], &[f16]) = (view_mut(dst, n), view(a, n));
            let (to, from) = (to.as_mut_ptr(), from.as_ptr());
            let whole = n & !7;
            for i in (0..whole).step_by(8) {
                _mm256_storeu_ps(to.add(i), _mm256_cvtph_ps(_mm_loadu_si128(from.add(i).cast())));
            }
            Unary::<Widen, f16>::run::<Avx>(
                to.add(whole).cast(),
                [from.add(whole).cast(); MAX_OPERANDS],
                n - whole,
                ptr::null(),
            );
        }
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) unsafe fn store_f16(dst: *mut u8, [a, ..]: OperandPtrs, n: usize, _next: *const u8) {
        // SAFETY: the contract of `MicroFn`; whole blocks lie inside `n`.
        unsafe {
            let (to, from): (&mut [f16], &[f32]) = (view_mut(dst, n), view(a, n));
            let (to, from) = (to.as_mut_ptr(), from.as_ptr());
            let whole = n & !7;
            for i in (0..whole).step_by(8) {
                let x = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(from.add(i)));
                _mm_storeu_si128(to.add(i).cast(), x);
            }
            Unary::<NarrowF16, f32>::run::<Avx>(
                to.add(whole).cast(),
                [from.add(whole).cast(); MAX_OPERANDS],
                n - whole,
                ptr::null(),
            );
        }
    }
}

/// Sixteen elements at a time, the remainder by masks.
#[cfg(target_arch = "x86_64")]
mod avx512 {
    use crate::micro::OperandPtrs;
    use std::arch::x86_64::*;

    const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT;

    /// The class bit of subnormal numbers.
    const SUBNORMAL: i32 = 0x20;

    /// Goes through `$n` elements by 16: `$body` of where they start and the mask of those
    /// that are there.
    macro_rules! by_sixteen {
        ($n:expr, |$i:ident, $mask:ident| $body:expr) => {
            let whole = $n / 16 * 16;
            for $i in (0..whole).step_by(16) {
                let $mask: __mmask16 = 0xffff;
                $body
            }
            if whole < $n {
                let ($i, $mask) = (whole, ((1u32 << ($n - whole)) - 1) as __mmask16);
                $body
            }
        };
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) unsafe fn load_f16(dst: *mut u8, [a, ..]: OperandPtrs, n: usize, _next: *const u8) {
        let (to, from) = (dst.cast::<f32>(), a.cast::<i16>());
        // SAFETY: the contract of `MicroFn`; masked-out elements are not accessed.
        unsafe {
            by_sixteen!(n, |i, mask| {
                let x = _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, from.add(i)));
                _mm512_mask_storeu_ps(to.add(i), mask, x)
            });
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) unsafe fn store_f16(dst: *mut u8, [a, ..]: OperandPtrs, n: usize, _next: *const u8) {
        let (to, from) = (dst.cast::<i16>(), a.cast::<f32>());
        // SAFETY: the contract of `MicroFn`; masked-out elements are not accessed.
        unsafe {
            by_sixteen!(n, |i, mask| {
                let x = _mm512_cvtps_ph::<NEAREST>(_mm512_maskz_loadu_ps(mask, from.add(i)));
                _mm256_mask_storeu_epi16(to.add(i), mask, x)
            });
        }
    }

    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn round_f16(dst: *mut u8, [a, ..]: OperandPtrs, n: usize, _next: *const u8) {
        let (to, from) = (dst.cast::<f32>(), a.cast::<f32>());
        // SAFETY: the contract of `MicroFn`; masked-out elements are not accessed.
        unsafe {
            by_sixteen!(n, |i, mask| {
                let x = _mm512_cvtps_ph::<NEAREST>(_mm512_maskz_loadu_ps(mask, from.add(i)));
                _mm512_mask_storeu_ps(to.add(i), mask, _mm512_cvtph_ps(x))
            });
        }
    }

    /// The instruction flushes subnormal numbers to zero; those are rounded by integer arithmetic.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
    pub(super) unsafe fn store_bf16(dst: *mut u8, [a, ..]: OperandPtrs, n: usize, _next: *const u8) {
        let (to, from) = (dst.cast::<i16>(), a.cast::<f32>());
        // SAFETY: the contract of `MicroFn`; masked-out elements are not accessed. Sixteen
        // bfloat16 are as many 16-bit integers.
        unsafe {
            by_sixteen!(n, |i, mask| {
                let x = _mm512_maskz_loadu_ps(mask, from.add(i));
                let subnormal = _mm512_fpclass_ps_mask::<SUBNORMAL>(x);
                let mut y: __m256i = std::mem::transmute(_mm512_cvtneps_pbh(x));
                if subnormal != 0 {
                    y = _mm256_mask_mov_epi16(y, subnormal, round_subnormal(x));
                }
                _mm256_mask_storeu_epi16(to.add(i), mask, y)
            });
        }
    }

    /// Numbers that are not NaN, rounded to the upper half of their bits.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn round_subnormal(x: __m512) -> __m256i {
        let bits = _mm512_castps_si512(x);
        let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
        let rounding = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
        _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(_mm512_add_epi32(bits, rounding)))
    }
}
