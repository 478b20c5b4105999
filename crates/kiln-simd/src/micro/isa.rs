//! Instruction sets: which one the machine has, and the wrappers that compile
//! one generic loop for each of them.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{_mm_load_ps, _mm_stream_ps, _mm256_load_ps, _mm256_stream_ps};
use std::sync::OnceLock;

/// An instruction set the loops are compiled for, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Whatever the compilation target guarantees.
    Base,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// x86-64 with AVX-512 F, BW, DQ and VL besides.
    Avx512,
}

/// The highest level this machine has; found once.
pub fn level() -> Level {
    #[cfg(test)]
    if let Some(level) = forced::get() {
        return level;
    }
    static LEVEL: OnceLock<Level> = OnceLock::new();
    *LEVEL.get_or_init(detect)
}

/// Whether the machine multiplies and sums bytes by AVX-512's VNNI; found once.
#[cfg(target_arch = "x86_64")]
pub(super) fn has_vnni() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    level() == Level::Avx512 && *HAS.get_or_init(|| is_x86_feature_detected!("avx512vnni"))
}

/// Whether the machine does so by AVX-VNNI, without AVX-512; found once.
#[cfg(target_arch = "x86_64")]
pub(super) fn has_avx_vnni() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    level() >= Level::Avx2 && *HAS.get_or_init(|| is_x86_feature_detected!("avxvnni"))
}

#[cfg(target_arch = "x86_64")]
fn detect() -> Level {
    let avx2 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c");
    let avx512 = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    match (avx2, avx512) {
        (true, true) => Level::Avx512,
        (true, false) => Level::Avx2,
        (false, _) => Level::Base,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> Level {
    Level::Base
}

/// What a generic loop may assume of the instruction set it is compiled for.
pub(super) trait Isa {
    /// Whether `mul_add` is one instruction; elsewhere it is a slow call.
    const FMA: bool;
    /// Whether rounding a float to an integral float is one instruction.
    const ROUND: bool;
    /// Whether there are AVX2 and FMA.
    const AVX2: bool;
    /// Stores a cache line non-temporally, where the machine can.
    ///
    /// # Safety
    /// `to` is valid for writing a cache line and aligned to one; the machine has the instruction set.
    unsafe fn store_non_temporal(to: *mut f32, line: &CacheLine);
}

/// The elements of one cache line.
#[repr(align(64))]
pub(super) struct CacheLine(pub [f32; CacheLine::ELEMENTS]);

impl CacheLine {
    /// Elements of a cache line.
    pub const ELEMENTS: usize = 16;
}

/// [`Level::Base`].
pub(super) struct Base;
impl Isa for Base {
    const FMA: bool = cfg!(any(target_arch = "aarch64", target_feature = "fma"));
    const ROUND: bool = cfg!(any(not(target_arch = "x86_64"), target_feature = "sse4.1"));
    const AVX2: bool = false;
    #[inline(always)]
    unsafe fn store_non_temporal(to: *mut f32, line: &CacheLine) {
        let from = line.0.as_ptr();
        // SAFETY: the caller's promise; every x86-64 has the instruction.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            for i in (0..CacheLine::ELEMENTS).step_by(4) {
                _mm_stream_ps(to.add(i), _mm_load_ps(from.add(i)));
            }
            #[cfg(not(target_arch = "x86_64"))]
            to.copy_from_nonoverlapping(from, CacheLine::ELEMENTS);
        }
    }
}

/// [`Level::Avx2`] and, since no loop distinguishes them, [`Level::Avx512`].
#[cfg(target_arch = "x86_64")]
pub(super) struct Avx;
#[cfg(target_arch = "x86_64")]
impl Isa for Avx {
    const FMA: bool = true;
    const ROUND: bool = true;
    const AVX2: bool = true;
    #[inline(always)]
    unsafe fn store_non_temporal(to: *mut f32, line: &CacheLine) {
        let from = line.0.as_ptr();
        // SAFETY: the caller's promise.
        unsafe {
            for i in (0..CacheLine::ELEMENTS).step_by(8) {
                _mm256_stream_ps(to.add(i), _mm256_load_ps(from.add(i)));
            }
        }
    }
}

/// Declares a trait of loops with one signature, and the function that gives
/// the instance of such a loop compiled for the machine's [`level`].
macro_rules! versioned {
    ($(#[$doc:meta])* $trait:ident, $pick:ident, $pick_base:ident, fn($($arg:ident: $t:ty),*)) => {
        $(#[$doc])*
        pub(super) trait $trait {
            /// The loop; implementations are `#[inline(always)]`, so that each
            /// wrapper compiles it for its own instruction set.
            ///
            /// # Safety
            /// As the signature's documentation says.
            unsafe fn run<I: $crate::micro::isa::Isa>($($arg: $t),*);
        }

        /// The loop compiled for the machine's instruction set.
        pub(super) fn $pick<K: $trait>() -> unsafe fn($($t),*) {
            #[cfg(target_arch = "x86_64")]
            use $crate::micro::isa;
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c")]
            unsafe fn avx2<K: $trait>($($arg: $t),*) {
                // SAFETY: the caller keeps the loop's contract.
                unsafe { K::run::<isa::Avx>($($arg),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
            unsafe fn avx512<K: $trait>($($arg: $t),*) {
                // SAFETY: the caller keeps the loop's contract.
                unsafe { K::run::<isa::Avx>($($arg),*) }
            }
            #[cfg(target_arch = "x86_64")]
            match isa::level() {
                isa::Level::Base => {}
                isa::Level::Avx2 => return avx2::<K>,
                isa::Level::Avx512 => return avx512::<K>,
            }
            $pick_base::<K>()
        }

        /// The loop compiled for the baseline only, for loops that gain
        /// nothing from vectors.
        pub(super) fn $pick_base<K: $trait>() -> unsafe fn($($t),*) {
            unsafe fn base<K: $trait>($($arg: $t),*) {
                // SAFETY: the caller keeps the loop's contract.
                unsafe { K::run::<$crate::micro::isa::Base>($($arg),*) }
            }
            base::<K>
        }
    };
}
pub(super) use versioned;

/// Runs tests at every level the machine has, not only the highest.
#[cfg(test)]
pub(super) mod forced {
    use super::{Level, detect};
    use std::cell::Cell;

    thread_local!(static FORCED: Cell<Option<Level>> = const { Cell::new(None) });

    pub(super) fn get() -> Option<Level> {
        FORCED.get()
    }

    /// Calls `test` once per level, which [`super::level`] returns meanwhile.
    pub fn each_level(mut test: impl FnMut(Level)) {
        for level in [Level::Base, Level::Avx2, Level::Avx512] {
            if level <= detect() {
                FORCED.set(Some(level));
                test(level);
            }
        }
        FORCED.set(None);
    }
}
