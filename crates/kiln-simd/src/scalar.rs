//! A number outside the graph: a Rust scalar given to an operation, or the
//! value of a constant node.

use std::fmt;

use half::{bf16, f16};

use crate::dtype::{DType, Kind};

/// A number with a category but no width; the tensor it meets decides the
/// width. `f32` constants are held exactly by `Float`, `u32` by `Int`.
#[derive(Clone, Copy, Debug)]
pub enum Scalar {
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
}

const TWO_63: f64 = 9_223_372_036_854_775_808.0;

impl Scalar {
    /// The category that takes part in promotion.
    #[inline]
    pub const fn kind(self) -> Kind {
        match self {
            Scalar::Bool(_) => Kind::Bool,
            Scalar::Int(_) => Kind::Int,
            Scalar::Float(_) => Kind::Float,
        }
    }

    /// The type of a tensor made of this scalar alone.
    #[inline]
    pub const fn default_dtype(self) -> DType {
        match self {
            Scalar::Bool(_) => DType::Bool,
            Scalar::Int(_) => DType::I64,
            Scalar::Float(_) => DType::F32,
        }
    }

    /// The common type of a tensor of type `dtype` and this scalar: the
    /// scalar counts only when its category is higher.
    #[inline]
    pub fn promote(self, dtype: DType) -> DType {
        if self.kind() > dtype.kind() { self.default_dtype() } else { dtype }
    }

    /// The value as `f64`; integers beyond 2^53 round.
    #[inline]
    pub fn as_f64(self) -> f64 {
        match self {
            Scalar::Bool(b) => f64::from(u8::from(b)),
            Scalar::Int(i) => i as f64,
            Scalar::Float(f) => f,
        }
    }

    /// The value as `i64`; a fraction is cut off, and NaN and what lies beyond
    /// the type are its least value, as in PyTorch and the x86 instruction.
    #[inline]
    pub fn as_i64(self) -> i64 {
        match self {
            Scalar::Bool(b) => i64::from(b),
            Scalar::Int(i) => i,
            Scalar::Float(f) if (-TWO_63..TWO_63).contains(&f) => f as i64,
            Scalar::Float(_) => i64::MIN,
        }
    }

    /// The value as `i32`: integers wrap, floats as in [`Scalar::as_i64`].
    fn as_i32(self) -> i32 {
        match self {
            Scalar::Bool(_) | Scalar::Int(_) => self.as_i64() as i32,
            Scalar::Float(_) => i32::try_from(self.as_i64()).unwrap_or(i32::MIN),
        }
    }

    /// Whether the value differs from zero (NaN does).
    #[inline]
    pub fn as_bool(self) -> bool {
        match self {
            Scalar::Bool(b) => b,
            Scalar::Int(i) => i != 0,
            Scalar::Float(f) => f != 0.0,
        }
    }

    /// The value as an element of `dtype`: integers wrap, floats round to
    /// the type's precision. Floats become integers by truncation; what does
    /// not fit an `I32` or `I64` is its least value, and unsigned types take
    /// the low bits of the `I64`.
    #[inline]
    pub fn cast(self, dtype: DType) -> Scalar {
        match dtype {
            DType::Bool => Scalar::Bool(self.as_bool()),
            DType::U8 => Scalar::Int(i64::from(self.as_i64() as u8)),
            DType::I32 => Scalar::Int(i64::from(self.as_i32())),
            DType::U32 => Scalar::Int(i64::from(self.as_i64() as u32)),
            DType::I64 => Scalar::Int(self.as_i64()),
            // By way of f32, as PyTorch rounds.
            DType::F16 => Scalar::Float(f16::from_f32(self.as_f32()).to_f64()),
            DType::BF16 => Scalar::Float(bf16::from_f32(self.as_f32()).to_f64()),
            DType::F32 => Scalar::Float(f64::from(self.as_f32())),
            DType::F64 => Scalar::Float(self.as_f64()),
        }
    }

    /// As `f32`, rounded once.
    fn as_f32(self) -> f32 {
        match self {
            Scalar::Int(x) => x as f32,
            Scalar::Bool(_) | Scalar::Float(_) => self.as_f64() as f32,
        }
    }

    /// The bytes of this value stored as `dtype`, in the low end of a `u64`.
    #[inline]
    pub fn to_bits(self, dtype: DType) -> u64 {
        match dtype {
            DType::Bool => u64::from(self.as_bool()),
            DType::U8 => u64::from(self.as_i64() as u8),
            DType::I32 => u64::from(self.as_i32() as u32),
            DType::U32 => u64::from(self.as_i64() as u32),
            DType::I64 => self.as_i64() as u64,
            DType::F16 => u64::from(f16::from_f32(self.as_f32()).to_bits()),
            DType::BF16 => u64::from(bf16::from_f32(self.as_f32()).to_bits()),
            DType::F32 => u64::from(self.as_f32().to_bits()),
            DType::F64 => self.as_f64().to_bits(),
        }
    }

    /// The inverse of [`Scalar::to_bits`]; bits above the type's width are ignored.
    #[inline]
    pub fn from_bits(bits: u64, dtype: DType) -> Scalar {
        match dtype {
            DType::Bool => Scalar::Bool(bits & 0xff != 0),
            DType::U8 => Scalar::Int(i64::from(bits as u8)),
            DType::I32 => Scalar::Int(i64::from(bits as u32 as i32)),
            DType::U32 => Scalar::Int(i64::from(bits as u32)),
            DType::I64 => Scalar::Int(bits as i64),
            DType::F16 => Scalar::Float(f16::from_bits(bits as u16).to_f64()),
            DType::BF16 => Scalar::Float(bf16::from_bits(bits as u16).to_f64()),
            DType::F32 => Scalar::Float(f64::from(f32::from_bits(bits as u32))),
            DType::F64 => Scalar::Float(f64::from_bits(bits)),
        }
    }

    /// Whether two scalars are the same bits (so `NaN` equals itself and
    /// `0.0` differs from `-0.0`).
    #[inline]
    pub fn same(self, other: Scalar) -> bool {
        match (self, other) {
            (Scalar::Bool(a), Scalar::Bool(b)) => a == b,
            (Scalar::Int(a), Scalar::Int(b)) => a == b,
            (Scalar::Float(a), Scalar::Float(b)) => a.to_bits() == b.to_bits(),
            (Scalar::Bool(_) | Scalar::Int(_) | Scalar::Float(_), _) => false,
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Bool(b) => write!(f, "{b}"),
            Scalar::Int(i) => write!(f, "{i}"),
            Scalar::Float(x) => write!(f, "{x:?}"),
        }
    }
}

macro_rules! scalar_from {
    ($($t:ty => |$x:ident| $e:expr),* $(,)?) => {$(
        impl From<$t> for Scalar { fn from($x: $t) -> Scalar { $e } }
    )*};
}
scalar_from!(
    bool => |x| Scalar::Bool(x),
    u8 => |x| Scalar::Int(i64::from(x)),
    i32 => |x| Scalar::Int(i64::from(x)),
    u32 => |x| Scalar::Int(i64::from(x)),
    i64 => |x| Scalar::Int(x),
    usize => |x| Scalar::Int(x as i64),
    f32 => |x| Scalar::Float(f64::from(x)),
    f64 => |x| Scalar::Float(x),
    f16 => |x| Scalar::Float(x.to_f64()),
    bf16 => |x| Scalar::Float(x.to_f64()),
);
