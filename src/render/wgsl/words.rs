//! How WGSL spells 64-bit integers on adapters without `SHADER_INT64`: pairs of 32-bit words, the
//! low one first, as they lie in memory. `prelude_words.wgsl` computes with them.

use crate::base::DType;

/// The type of a pair.
pub const TYPE: &str = "Words";

/// The suffix of functions on them.
pub const VERSION: &str = "words";

/// The declaration of that type, for texts that mention it.
pub const DECLARATION: &str = "alias Words = vec2<u32>;\n";

/// A number.
pub fn constant(value: i64) -> String {
    format!("Words({:#x}u, {:#x}u)", value as u32, (value >> 32) as u32)
}

/// A conversion from another type.
pub fn from(from: DType, x: &str) -> String {
    match from {
        DType::Bool => format!("unsigned_words(select(0u, 1u, {x}))"),
        DType::U8 | DType::U32 => format!("unsigned_words({x})"),
        DType::I32 => format!("signed_words({x})"),
        DType::I64 => x.into(),
        DType::F16 | DType::BF16 | DType::F32 => format!("integer_words({x})"),
        DType::F64 => panic!("64-bit floats without 64-bit integers"),
    }
}

/// A conversion to another type.
pub fn to(to: DType, x: &str) -> String {
    match to {
        DType::Bool => format!("any({x} != {})", constant(0)),
        DType::U8 => format!("(low_words({x}) & 0xffu)"),
        DType::U32 => format!("low_words({x})"),
        DType::I32 => format!("bitcast<i32>(low_words({x}))"),
        DType::I64 => x.into(),
        DType::F16 => format!("round_f16({})", self::to(DType::F32, x)),
        DType::BF16 => format!("round_bf16({})", self::to(DType::F32, x)),
        // Compilers know positions, and would drop a product with one that is zero.
        DType::F32 => format!("opaque_f32(float_words({x}))"),
        DType::F64 => panic!("64-bit floats without 64-bit integers"),
    }
}
