//! Registers as plain arrays, which the compiler turns into the target's
//! baseline vectors.

use super::simd::{self, Axpy, Dot, RegisterTile, RowCopy, SimdVector};
use super::{GemmElement, MicroKernel};

/// `N` elements.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Array<T, const N: usize>([T; N]);

impl<T: GemmElement, const N: usize> SimdVector for Array<T, N> {
    type Element = T;
    const COUNT: usize = N;
    const FREE_MASKS: bool = false;

    #[inline(always)]
    unsafe fn zero() -> Self {
        Array([T::ZERO; N])
    }
    #[inline(always)]
    unsafe fn splat(from: *const T) -> Self {
        // SAFETY: the caller vouches for the element.
        Array([unsafe { *from }; N])
    }
    #[inline(always)]
    unsafe fn load(from: *const T) -> Self {
        // SAFETY: the caller vouches for N elements; an array needs no more
        // alignment than an element.
        unsafe { from.cast::<Self>().read() }
    }
    #[inline(always)]
    unsafe fn load_first(from: *const T, count: usize) -> Self {
        // SAFETY: the caller vouches for `count` elements, at most N.
        unsafe {
            if count == N {
                return Self::load(from);
            }
            let mut lanes = Self::zero();
            for i in 0..count {
                lanes.0[i] = *from.add(i);
            }
            lanes
        }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut T) {
        // SAFETY: the caller vouches for N elements.
        unsafe { to.cast::<Self>().write(self) }
    }
    #[inline(always)]
    unsafe fn store_first(self, to: *mut T, count: usize) {
        for i in 0..count {
            // SAFETY: the caller vouches for `count` elements, at most N.
            unsafe { *to.add(i) = self.0[i] };
        }
    }
    #[inline(always)]
    unsafe fn multiply_add(self, x: Self, y: Self) -> Self {
        Array(std::array::from_fn(|i| self.0[i].multiply_add(x.0[i], y.0[i])))
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        Array(std::array::from_fn(|i| self.0[i].plus(other.0[i])))
    }
    #[inline(always)]
    unsafe fn sum(mut self) -> T {
        let mut width = N;
        while width > 1 {
            width /= 2;
            for i in 0..width {
                self.0[i] = self.0[i].plus(self.0[i + width]);
            }
        }
        self.0[0]
    }
    #[inline(always)]
    unsafe fn prefetch(_at: *const T) {}
}

unsafe fn tile<L: SimdVector, const R: usize, const V: usize>(tile: &RegisterTile<L::Element>) {
    // SAFETY: the caller keeps `simd::tile`'s contract.
    unsafe { simd::tile::<L, R, V>(tile) }
}

unsafe fn dot<L: SimdVector>(dot: &Dot<L::Element>) {
    // SAFETY: the caller keeps `simd::dot`'s contract.
    unsafe { simd::dot::<L>(dot) }
}

unsafe fn axpy<L: SimdVector>(axpy: &Axpy<L::Element>) {
    // SAFETY: the caller keeps `simd::axpy`'s contract.
    unsafe { simd::axpy::<L>(axpy) }
}

unsafe fn copy<L: SimdVector>(copying: &RowCopy<L::Element>) {
    // SAFETY: the caller keeps `simd::copy`'s contract.
    unsafe { simd::copy::<L>(copying) }
}

/// Transposes `N` by `N` elements one at a time.
unsafe fn transpose<T: Copy, const N: usize>(from: *const T, row: isize, to: *mut T, to_row: isize) {
    for i in 0..N as isize {
        for j in 0..N as isize {
            // SAFETY: the caller vouches for both blocks.
            unsafe { *to.offset(j * to_row + i) = *from.offset(i * row + j) };
        }
    }
}

/// The kernel with registers of `N` elements (16 bytes on today's baselines)
/// and tiles of 4 rows by 2 registers, or 8 where there are 32 registers.
pub(super) fn kernel<T: GemmElement, const N: usize>() -> MicroKernel<T> {
    MicroKernel {
        name: "portable",
        rows: if cfg!(target_arch = "aarch64") { 8 } else { 4 },
        columns: 2 * N,
        lanes: N,
        contiguous_k: false,
        tiles: &[
            &[tile::<Array<T, N>, 1, 1>, tile::<Array<T, N>, 1, 2>],
            &[tile::<Array<T, N>, 2, 1>, tile::<Array<T, N>, 2, 2>],
            &[tile::<Array<T, N>, 3, 1>, tile::<Array<T, N>, 3, 2>],
            &[tile::<Array<T, N>, 4, 1>, tile::<Array<T, N>, 4, 2>],
            #[cfg(target_arch = "aarch64")]
            &[tile::<Array<T, N>, 5, 1>, tile::<Array<T, N>, 5, 2>],
            #[cfg(target_arch = "aarch64")]
            &[tile::<Array<T, N>, 6, 1>, tile::<Array<T, N>, 6, 2>],
            #[cfg(target_arch = "aarch64")]
            &[tile::<Array<T, N>, 7, 1>, tile::<Array<T, N>, 7, 2>],
            #[cfg(target_arch = "aarch64")]
            &[tile::<Array<T, N>, 8, 1>, tile::<Array<T, N>, 8, 2>],
        ],
        dot: dot::<Array<T, N>>,
        axpy: axpy::<Array<T, N>>,
        copy: copy::<Array<T, N>>,
        transpose: transpose::<T, N>,
    }
}
