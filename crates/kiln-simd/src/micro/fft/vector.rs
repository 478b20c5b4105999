//! The vectors that transforms compute with. Loops over arrays do not become vectors here: there are too
//! many numbers at a time.

use crate::micro::fft::Point;

/// A vector.
///
/// # Safety
/// Every method needs the instruction set that the type stands for. Pointers need no alignment beyond an
/// element's.
pub(super) trait Vector: Copy {
    /// The element type.
    type Element: Point;
    /// Elements, a divisor of [`super::COLUMNS`].
    const WIDTH: usize;
    /// A number in every lane.
    unsafe fn splat(x: Self::Element) -> Self;
    /// `WIDTH` elements.
    unsafe fn load(from: *const Self::Element) -> Self;
    /// Writes all lanes.
    unsafe fn store(self, to: *mut Self::Element);
    /// The sum in each lane.
    unsafe fn plus(self, other: Self) -> Self;
    /// The difference.
    unsafe fn minus(self, other: Self) -> Self;
    /// The product.
    unsafe fn times(self, other: Self) -> Self;
    /// `self * x + y`.
    unsafe fn times_plus(self, x: Self, y: Self) -> Self;
    /// `self * x - y`.
    unsafe fn times_minus(self, x: Self, y: Self) -> Self;
}

/// One element, where nothing is known of the machine.
impl<T: Point> Vector for [T; 1] {
    type Element = T;
    const WIDTH: usize = 1;
    #[inline(always)]
    unsafe fn splat(x: T) -> [T; 1] {
        [x]
    }
    #[inline(always)]
    unsafe fn load(from: *const T) -> [T; 1] {
        // SAFETY: the caller's promise.
        unsafe { [from.read()] }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut T) {
        // SAFETY: the caller's promise.
        unsafe { to.write(self[0]) }
    }
    #[inline(always)]
    unsafe fn plus(self, other: [T; 1]) -> [T; 1] {
        [self[0].plus(other[0])]
    }
    #[inline(always)]
    unsafe fn minus(self, other: [T; 1]) -> [T; 1] {
        [self[0].minus(other[0])]
    }
    #[inline(always)]
    unsafe fn times(self, other: [T; 1]) -> [T; 1] {
        [self[0].times(other[0])]
    }
    #[inline(always)]
    unsafe fn times_plus(self, x: [T; 1], y: [T; 1]) -> [T; 1] {
        [self[0].times(x[0]).plus(y[0])]
    }
    #[inline(always)]
    unsafe fn times_minus(self, x: [T; 1], y: [T; 1]) -> [T; 1] {
        [self[0].times(x[0]).minus(y[0])]
    }
}

#[cfg(target_arch = "x86_64")]
macro_rules! avx2 {
    ($t:ty, $vector:ident, $width:literal, $splat:ident, $load:ident, $store:ident, $add:ident, $sub:ident,
     $mul:ident, $fma:ident, $fms:ident) => {
        impl Vector for std::arch::x86_64::$vector {
            type Element = $t;
            const WIDTH: usize = $width;
            #[inline(always)]
            unsafe fn splat(x: $t) -> Self {
                unsafe { std::arch::x86_64::$splat(x) }
            }
            #[inline(always)]
            unsafe fn load(from: *const $t) -> Self {
                unsafe { std::arch::x86_64::$load(from) }
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $t) {
                unsafe { std::arch::x86_64::$store(to, self) }
            }
            #[inline(always)]
            unsafe fn plus(self, other: Self) -> Self {
                unsafe { std::arch::x86_64::$add(self, other) }
            }
            #[inline(always)]
            unsafe fn minus(self, other: Self) -> Self {
                unsafe { std::arch::x86_64::$sub(self, other) }
            }
            #[inline(always)]
            unsafe fn times(self, other: Self) -> Self {
                unsafe { std::arch::x86_64::$mul(self, other) }
            }
            #[inline(always)]
            unsafe fn times_plus(self, x: Self, y: Self) -> Self {
                unsafe { std::arch::x86_64::$fma(self, x, y) }
            }
            #[inline(always)]
            unsafe fn times_minus(self, x: Self, y: Self) -> Self {
                unsafe { std::arch::x86_64::$fms(self, x, y) }
            }
        }
    };
}
#[cfg(target_arch = "x86_64")]
avx2!(
    f32,
    __m256,
    8,
    _mm256_set1_ps,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    _mm256_add_ps,
    _mm256_sub_ps,
    _mm256_mul_ps,
    _mm256_fmadd_ps,
    _mm256_fmsub_ps
);
#[cfg(target_arch = "x86_64")]
avx2!(
    f64,
    __m256d,
    4,
    _mm256_set1_pd,
    _mm256_loadu_pd,
    _mm256_storeu_pd,
    _mm256_add_pd,
    _mm256_sub_pd,
    _mm256_mul_pd,
    _mm256_fmadd_pd,
    _mm256_fmsub_pd
);
