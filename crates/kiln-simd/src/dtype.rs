//! Element types, their sizes and PyTorch's promotion rules.

use std::fmt;
use std::str::FromStr;

/// The type of one tensor element.
///
/// Each occupies its natural number of bytes on every device; `Bool` is one
/// byte holding 0 or 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum DType {
    /// Truth value, one byte.
    Bool,
    /// Unsigned 8-bit integer.
    U8,
    /// Signed 32-bit integer.
    I32,
    /// Unsigned 32-bit integer.
    U32,
    /// Signed 64-bit integer; the type of indices.
    I64,
    /// IEEE half precision.
    F16,
    /// Brain floating point: the upper half of an `f32`.
    BF16,
    /// IEEE single precision; the default floating type.
    F32,
    /// IEEE double precision.
    F64,
}

/// The category of a type: promotion never leaves a lower category for a
/// scalar of the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Truth values.
    Bool,
    /// Integers, signed or not.
    Int,
    /// Floating-point numbers.
    Float,
}

impl DType {
    /// All types, in ascending order of promotion.
    pub const ALL: [DType; 9] = [
        DType::Bool,
        DType::U8,
        DType::I32,
        DType::U32,
        DType::I64,
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
    ];

    /// Bytes one element occupies.
    #[inline]
    pub const fn size(self) -> usize {
        match self {
            DType::Bool | DType::U8 => 1,
            DType::F16 | DType::BF16 => 2,
            DType::I32 | DType::U32 | DType::F32 => 4,
            DType::I64 | DType::F64 => 8,
        }
    }

    /// The category of this type.
    #[inline]
    pub const fn kind(self) -> Kind {
        match self {
            DType::Bool => Kind::Bool,
            DType::U8 | DType::I32 | DType::U32 | DType::I64 => Kind::Int,
            DType::F16 | DType::BF16 | DType::F32 | DType::F64 => Kind::Float,
        }
    }

    /// Whether this is a floating-point type.
    #[inline]
    pub const fn is_float(self) -> bool {
        matches!(self.kind(), Kind::Float)
    }

    /// Whether this is an integer type (not `Bool`).
    #[inline]
    pub const fn is_int(self) -> bool {
        matches!(self.kind(), Kind::Int)
    }

    /// The Rust and kiln spelling: `"f32"`, `"bool"`, ...
    #[inline]
    pub const fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::U8 => "u8",
            DType::I32 => "i32",
            DType::U32 => "u32",
            DType::I64 => "i64",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F32 => "f32",
            DType::F64 => "f64",
        }
    }

    /// The type arithmetic is carried out in: `f32` for the 16-bit floats,
    /// else the type itself.
    #[inline]
    pub const fn compute(self) -> DType {
        match self {
            DType::F16 | DType::BF16 => DType::F32,
            DType::Bool | DType::U8 | DType::I32 | DType::U32 | DType::I64 | DType::F32 | DType::F64 => self,
        }
    }

    /// The common type of two tensors, by PyTorch's lattice. `U32` joins
    /// `I32` at `I64`, and `F16` joins `BF16` at `F32`.
    #[inline]
    pub fn promote(self, other: DType) -> DType {
        use DType::{BF16, F16, F32, I32, I64, U32};
        if self == other {
            return self;
        }
        let (low, high) = if self < other { (self, other) } else { (other, self) };
        match (low, high) {
            (I32, U32) => I64,
            (F16, BF16) => F32,
            (_, high) => high,
        }
    }

    /// The floating type an integer tensor takes under a floating operation:
    /// itself when already floating, else the default `F32`.
    #[inline]
    pub const fn to_float(self) -> DType {
        if self.is_float() { self } else { DType::F32 }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Text that names no element type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownDType {
    /// The text.
    pub found: String,
}

impl UnknownDType {
    /// What would be accepted.
    pub const EXPECTED: &'static str = "one of bool, u8, i32, u32, i64, f16, bf16, f32, f64";
}

impl fmt::Display for UnknownDType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot parse dtype: expected {}, found {:?}", UnknownDType::EXPECTED, self.found)
    }
}

impl std::error::Error for UnknownDType {}

impl FromStr for DType {
    type Err = UnknownDType;
    /// Parses kiln's names and PyTorch's (`"float32"`, `"long"`, ...).
    fn from_str(s: &str) -> Result<DType, UnknownDType> {
        Ok(match s {
            "bool" => DType::Bool,
            "u8" | "uint8" | "byte" => DType::U8,
            "i32" | "int32" | "int" => DType::I32,
            "u32" | "uint32" => DType::U32,
            "i64" | "int64" | "long" => DType::I64,
            "f16" | "float16" | "half" => DType::F16,
            "bf16" | "bfloat16" => DType::BF16,
            "f32" | "float32" | "float" => DType::F32,
            "f64" | "float64" | "double" => DType::F64,
            _ => return Err(UnknownDType { found: s.into() }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promotion_follows_the_lattice() {
        assert_eq!(DType::U8.promote(DType::I32), DType::I32);
        assert_eq!(DType::I32.promote(DType::U32), DType::I64);
        assert_eq!(DType::F16.promote(DType::BF16), DType::F32);
        assert_eq!(DType::I64.promote(DType::F16), DType::F16);
        assert_eq!(DType::Bool.promote(DType::Bool), DType::Bool);
        for a in DType::ALL {
            for b in DType::ALL {
                assert_eq!(a.promote(b), b.promote(a));
            }
        }
    }
}
