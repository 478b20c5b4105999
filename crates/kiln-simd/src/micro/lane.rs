//! Lane types: the elements of a micro-op's operands, which stay in L1.

use crate::DType;

/// The type of the elements of a register. The 16-bit floats exist in memory
/// only: loads widen them to `F32`, stores round them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LaneType {
    /// Single precision; also the register form of `F16` and `BF16`.
    F32,
    /// Double precision.
    F64,
    /// Signed 32-bit integers.
    I32,
    /// Unsigned 32-bit integers.
    U32,
    /// Signed 64-bit integers.
    I64,
    /// Bytes: `U8`, and `Bool` as 0 or 1.
    U8,
}

impl LaneType {
    /// The register form of an element type.
    #[inline]
    pub const fn of(dtype: DType) -> LaneType {
        match dtype {
            DType::Bool | DType::U8 => LaneType::U8,
            DType::I32 => LaneType::I32,
            DType::U32 => LaneType::U32,
            DType::I64 => LaneType::I64,
            DType::F16 | DType::BF16 | DType::F32 => LaneType::F32,
            DType::F64 => LaneType::F64,
        }
    }

    /// Bytes one element occupies in a register.
    #[inline]
    pub const fn size(self) -> usize {
        match self {
            LaneType::U8 => 1,
            LaneType::F32 | LaneType::I32 | LaneType::U32 => 4,
            LaneType::F64 | LaneType::I64 => 8,
        }
    }
}

/// A Rust type that is a lane, with the order its reductions use.
pub(super) trait Number: Copy + PartialOrd + 'static {
    /// Whether there are NaN and a negative zero.
    const FLOAT: bool;
    /// Additive identity.
    const ZERO: Self;
    /// Multiplicative identity.
    const ONE: Self;
    /// Identity of the maximum.
    const LOWEST: Self;
    /// Identity of the minimum.
    const HIGHEST: Self;
    /// Sum; integers wrap.
    fn plus(self, other: Self) -> Self;
    /// Difference; integers wrap.
    fn minus(self, other: Self) -> Self;
    /// Product; integers wrap.
    fn times(self, other: Self) -> Self;
    /// The larger by IEEE `maximum`: NaN wins, `+0` above `-0`.
    fn larger(self, other: Self) -> Self;
    /// The smaller by IEEE `minimum`: NaN wins, `-0` below `+0`.
    fn smaller(self, other: Self) -> Self;
    /// Whether this is NaN.
    fn nan(self) -> bool;
}

macro_rules! integer_number {
    ($($t:ty),*) => {$(
        impl Number for $t {
            const FLOAT: bool = false;
            const ZERO: $t = 0;
            const ONE: $t = 1;
            const LOWEST: $t = <$t>::MIN;
            const HIGHEST: $t = <$t>::MAX;
            #[inline(always)]
            fn plus(self, other: $t) -> $t { self.wrapping_add(other) }
            #[inline(always)]
            fn minus(self, other: $t) -> $t { self.wrapping_sub(other) }
            #[inline(always)]
            fn times(self, other: $t) -> $t { self.wrapping_mul(other) }
            #[inline(always)]
            fn larger(self, other: $t) -> $t { if self > other { self } else { other } }
            #[inline(always)]
            fn smaller(self, other: $t) -> $t { if self < other { self } else { other } }
            #[inline(always)]
            fn nan(self) -> bool { false }
        }
    )*};
}
integer_number!(u8, i32, u32, i64);

macro_rules! float_number {
    ($($t:ty),*) => {$(
        impl Number for $t {
            const FLOAT: bool = true;
            const ZERO: $t = 0.0;
            const ONE: $t = 1.0;
            const LOWEST: $t = <$t>::NEG_INFINITY;
            const HIGHEST: $t = <$t>::INFINITY;
            #[inline(always)]
            fn plus(self, other: $t) -> $t { self + other }
            #[inline(always)]
            fn minus(self, other: $t) -> $t { self - other }
            #[inline(always)]
            fn times(self, other: $t) -> $t { self * other }
            // Both orders of the hardware's maximum, which returns its second
            // operand for equal ones: anding the bits clears the sign of zero
            // if either is positive, and changes nothing else.
            #[inline(always)]
            fn larger(self, other: $t) -> $t {
                let ab = if self > other { self } else { other };
                let ba = if other > self { other } else { self };
                let m = <$t>::from_bits(ab.to_bits() & ba.to_bits());
                if self.nan() | other.nan() { self + other } else { m }
            }
            #[inline(always)]
            fn smaller(self, other: $t) -> $t {
                let ab = if self < other { self } else { other };
                let ba = if other < self { other } else { self };
                let m = <$t>::from_bits(ab.to_bits() | ba.to_bits());
                if self.nan() | other.nan() { self + other } else { m }
            }
            #[inline(always)]
            fn nan(self) -> bool { self.is_nan() }
        }
    )*};
}
float_number!(f32, f64);
