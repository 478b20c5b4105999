//! The innermost loops: register tiles, dot products and axpys, one set of
//! them for each element type and instruction set.

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx512bf16;
mod bf16x2;
mod difference;
mod portable;
mod simd;

use std::sync::OnceLock;

pub use bf16x2::Bf16x2;
pub use difference::{AbsoluteDifference, SquaredDifference};
pub use simd::{Axpy, Dot, Prefetches, RegisterTile, RowCopy};

/// Computes a register tile of one size.
pub type TileFunction<T> = unsafe fn(&RegisterTile<T>);

/// One instruction set's inner loops for elements `T`.
///
/// Each function needs the instruction set that the kernel was built for;
/// an element type lists only those that this processor has.
#[derive(Clone, Copy)]
pub struct MicroKernel<T: 'static> {
    /// What to call it.
    pub name: &'static str,
    /// Rows of the full register tile.
    pub rows: usize,
    /// Columns of the full register tile, a multiple of `lanes`.
    pub columns: usize,
    /// Elements in a vector register.
    pub lanes: usize,
    /// Whether tiles read A only where its rows are contiguous along k: `a_k_stride` is then 1.
    pub contiguous_k: bool,
    /// Register tiles, by rows less one, then by vectors less one.
    pub tiles: &'static [&'static [TileFunction<T>]],
    /// Four dot products with one vector.
    pub dot: unsafe fn(&Dot<T>),
    /// Adds a combination of rows to a row.
    pub axpy: unsafe fn(&Axpy<T>),
    /// Copies a matrix of contiguous rows.
    pub copy: unsafe fn(&RowCopy<T>),
    /// Transposes a square block of `lanes` by `lanes`.
    pub transpose: unsafe fn(*const T, isize, *mut T, isize),
}

impl<T: Copy> MicroKernel<T> {
    /// The kernel with narrower tiles, where those cover `columns` without a
    /// remainder of a single vector, whose few sums would wait for each other.
    #[inline]
    pub fn for_columns(&self, columns: usize) -> MicroKernel<T> {
        let (vectors, most) = (columns.div_ceil(self.lanes), self.columns / self.lanes);
        // Over many tiles that remainder no longer counts.
        let few = vectors < 4 * most;
        if few && most > 2 && vectors % most == 1 && vectors.is_multiple_of(most - 1) {
            return MicroKernel { columns: (most - 1) * self.lanes, ..*self };
        }
        *self
    }
}

/// A type of matrix elements; integers wrap.
///
/// Sealed: implemented for `f32`, `f64`, `i32`, `u32`, `i64`, `u8`, [`Bf16x2`],
/// [`SquaredDifference`] and [`AbsoluteDifference`].
pub trait GemmElement: Copy + Send + Sync + 'static + sealed::Sealed {
    /// The additive identity.
    const ZERO: Self;
    /// The kernels that this processor can run, best first; not empty.
    fn kernels() -> &'static [MicroKernel<Self>];
    /// `self * x + y`, rounded once where the target does that natively.
    fn multiply_add(self, x: Self, y: Self) -> Self;
    /// `self + x`.
    fn plus(self, x: Self) -> Self;
}

/// Whether this processor has a matrix unit for [`Bf16x2`]s, several times as fast as its vectors are at `f32`.
pub fn has_matrix_unit() -> bool {
    Bf16x2::kernels().iter().any(|kernel| kernel.contiguous_k)
}

mod sealed {
    /// Only this crate's types are matrix elements.
    pub trait Sealed {}
}

macro_rules! element {
    ($type:ty, $zero:expr, $multiply_add:expr, $plus:expr, [$($kernel:expr),*]) => {
        impl sealed::Sealed for $type {}
        impl GemmElement for $type {
            const ZERO: Self = $zero;
            fn kernels() -> &'static [MicroKernel<Self>] {
                static KERNELS: OnceLock<Vec<MicroKernel<$type>>> = OnceLock::new();
                KERNELS.get_or_init(|| [$($kernel),*].into_iter().flatten().collect())
            }
            #[inline(always)]
            fn multiply_add(self, x: Self, y: Self) -> Self {
                let multiply_add: fn(Self, Self, Self) -> Self = $multiply_add;
                multiply_add(self, x, y)
            }
            #[inline(always)]
            fn plus(self, x: Self) -> Self {
                let plus: fn(Self, Self) -> Self = $plus;
                plus(self, x)
            }
        }
    };
}

/// Whether `mul_add` is an instruction on the baseline of this target; a call
/// to the maths library is slower than a tile can bear.
const HAS_FMA: bool = cfg!(any(target_arch = "aarch64", target_feature = "fma"));

/// The kernels of an instruction set that only one architecture has.
macro_rules! x86 {
    ($kernels:expr) => {{
        #[cfg(target_arch = "x86_64")]
        let kernels = $kernels;
        #[cfg(not(target_arch = "x86_64"))]
        let kernels = None;
        kernels
    }};
}

element!(
    f32,
    0.0,
    |a, x, y| if HAS_FMA { a.mul_add(x, y) } else { a * x + y },
    |a, x| a + x,
    [x86!(avx512::f32()), x86!(avx2::f32()), Some(portable::kernel::<f32, 4>())]
);
element!(
    SquaredDifference,
    SquaredDifference(0.0),
    SquaredDifference::multiply_add,
    |a, x| SquaredDifference(a.0 + x.0),
    [
        x86!(avx512::squared_differences()),
        x86!(avx2::squared_differences()),
        Some(portable::kernel::<SquaredDifference, 4>())
    ]
);
element!(
    AbsoluteDifference,
    AbsoluteDifference(0.0),
    AbsoluteDifference::multiply_add,
    |a, x| AbsoluteDifference(a.0 + x.0),
    [
        x86!(avx512::absolute_differences()),
        x86!(avx2::absolute_differences()),
        Some(portable::kernel::<AbsoluteDifference, 4>())
    ]
);
element!(
    f64,
    0.0,
    |a, x, y| if HAS_FMA { a.mul_add(x, y) } else { a * x + y },
    |a, x| a + x,
    [x86!(avx512::f64()), x86!(avx2::f64()), Some(portable::kernel::<f64, 2>())]
);
element!(
    Bf16x2,
    Bf16x2::ZERO,
    Bf16x2::multiply_add,
    |a, x| Bf16x2::of_sum(a.sum() + x.sum()),
    [x86!(amx::bf16x2()), x86!(avx512bf16::bf16x2()), Some(portable::kernel::<Bf16x2, 4>())]
);
element!(
    i32,
    0,
    |a, x, y| a.wrapping_mul(x).wrapping_add(y),
    |a, x| a.wrapping_add(x),
    [x86!(avx512::i32()), x86!(avx2::i32()), Some(portable::kernel::<i32, 4>())]
);
element!(
    u32,
    0,
    |a, x, y| a.wrapping_mul(x).wrapping_add(y),
    |a, x| a.wrapping_add(x),
    [x86!(avx512::u32()), x86!(avx2::u32()), Some(portable::kernel::<u32, 4>())]
);
element!(
    i64,
    0,
    |a, x, y| a.wrapping_mul(x).wrapping_add(y),
    |a, x| a.wrapping_add(x),
    [Some(portable::kernel::<i64, 2>())]
);
element!(
    u8,
    0,
    |a, x, y| a.wrapping_mul(x).wrapping_add(y),
    |a, x| a.wrapping_add(x),
    [Some(portable::kernel::<u8, 16>())]
);
