//! How WGSL spells 64-bit integers on adapters without `SHADER_INT64`: pairs of 32-bit words, the
//! low one first, as they lie in memory. `prelude_words.wgsl` computes with them.

use crate::base::DType;
use crate::ir::AluOp;

/// The type of a pair.
pub const TYPE: &str = "Words";

/// The declaration of that type, for texts that mention it.
pub const DECLARATION: &str = "alias Words = vec2<u32>;\n";

/// A number.
pub fn constant(value: i64) -> String {
    format!("Words({:#x}u, {:#x}u)", value as u32, (value >> 32) as u32)
}

/// An operation.
pub fn alu(op: AluOp, x: &[String]) -> String {
    let infix = |sign: &str| format!("({} {sign} {})", x[0], x[1]);
    let call = |name: &str| format!("{name}_words({})", x.join(", "));
    match op {
        AluOp::Add => call("add"),
        AluOp::Sub => call("subtract"),
        AluOp::Mul => call("multiply"),
        AluOp::Div => call("quotient"),
        AluOp::Rem => call("remainder"),
        AluOp::Max => call("maximum"),
        AluOp::Min => call("minimum"),
        AluOp::Pow => call("power"),
        AluOp::Neg => call("negate"),
        AluOp::Abs => call("magnitude"),
        AluOp::Lt => call("less"),
        AluOp::Eq => format!("all({} == {})", x[0], x[1]),
        AluOp::And => infix("&"),
        AluOp::Or => infix("|"),
        AluOp::Xor => infix("^"),
        AluOp::Not => format!("(~{})", x[0]),
        AluOp::Shl => call("shift_left"),
        AluOp::Shr => call("shift_right"),
        AluOp::Where => format!("select({}, {}, {})", x[2], x[1], x[0]),
        AluOp::Recip
        | AluOp::Sqrt
        | AluOp::Exp2
        | AluOp::Log2
        | AluOp::Exp
        | AluOp::Log
        | AluOp::Sin
        | AluOp::Cos
        | AluOp::Tanh
        | AluOp::Erf
        | AluOp::Floor
        | AluOp::Trunc
        | AluOp::Round => panic!("{} of integers", op.name()),
    }
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
