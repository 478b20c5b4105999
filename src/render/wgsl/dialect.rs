//! How WGSL spells things: the one place that says so.
//!
//! WGSL promises nothing of NaN, infinities, signed zeros and the order of
//! operations, and drivers' compilers use that. So float arithmetic goes
//! through the prelude, whose results pass a bitwise operation with a number
//! unknown to compilers; floats are compared as integers; and constants are
//! unknown numbers too.

use crate::base::{DType, Scalar};
use crate::ir::AluOp;
use crate::render::c_like::Dialect;
use crate::render::shader::argument_uniform;
use crate::render::target::GpuTarget;
use crate::render::wgsl::{sized, words};

/// WGSL, for a kernel with this many inputs.
#[derive(Clone, Copy, Debug)]
pub struct Wgsl {
    /// Inputs of the kernel.
    pub inputs: usize,
    /// Whether it has 64-bit integers; else they are pairs of words.
    pub int64: bool,
}

impl Wgsl {
    /// For a kernel with this many inputs, on a device.
    pub fn new(inputs: usize, target: &GpuTarget) -> Wgsl {
        Wgsl { inputs, int64: target.int64 }
    }

    /// The suffix of the prelude's version for a type.
    fn version(self, dtype: DType) -> &'static str {
        if dtype == DType::I64 && !self.int64 { words::VERSION } else { version(dtype) }
    }
}

/// A uniform.
pub fn word(number: usize) -> String {
    format!("uniforms[{}].{}", number / 4, ["x", "y", "z", "w"][number % 4])
}

/// The suffix of the prelude's version for a type.
fn version(dtype: DType) -> &'static str {
    match dtype {
        DType::F16 | DType::BF16 | DType::F32 => "f32",
        DType::F64 => "f64",
        DType::Bool => "bool",
        DType::U8 => "u8",
        DType::I32 => "i32",
        DType::U32 => "u32",
        DType::I64 => "i64",
    }
}

impl Dialect for Wgsl {
    fn register(&self, dtype: DType) -> &'static str {
        match dtype {
            DType::Bool => "bool",
            DType::U8 | DType::U32 => "u32",
            DType::I32 => "i32",
            DType::I64 if !self.int64 => words::TYPE,
            DType::I64 => "i64",
            DType::F16 | DType::BF16 | DType::F32 => "f32",
            DType::F64 => "f64",
        }
    }

    fn constant(&self, dtype: DType, bits: u64) -> String {
        let value = Scalar::from_bits(bits, dtype);
        match dtype {
            DType::Bool => value.as_bool().to_string(),
            DType::U8 | DType::U32 => format!("{}u", value.as_i64()),
            DType::I32 => match value.as_i64() as i32 {
                i32::MIN => "i32(-2147483648)".into(),
                value => format!("i32({value})"),
            },
            DType::I64 if !self.int64 => words::constant(value.as_i64()),
            DType::I64 => match value.as_i64() {
                i64::MIN => "(-9223372036854775807li - 1li)".into(),
                value if value < 0 => format!("({value}li)"),
                value => format!("{value}li"),
            },
            DType::F16 | DType::BF16 | DType::F32 => {
                let x = value.as_f64() as f32;
                format!("number_f32({:#010x}u /* {x:?} */)", x.to_bits())
            }
            DType::F64 => {
                format!("number_f64({:#018x}lu /* {:?} */)", value.as_f64().to_bits(), value.as_f64())
            }
        }
    }

    fn argument(&self, slot: u32, dtype: DType) -> String {
        let first = argument_uniform(self.inputs, slot as usize);
        let (low, high) = (word(first), word(first + 1));
        match dtype {
            DType::Bool => format!("({low} & 0xffu) != 0u"),
            DType::U8 => format!("{low} & 0xffu"),
            DType::U32 => low,
            DType::I32 => format!("bitcast<i32>({low})"),
            DType::I64 if !self.int64 => format!("Words({low}, {high})"),
            DType::I64 => format!("wide_i64({low}, {high})"),
            DType::F16 => format!("widen_f16({low})"),
            DType::BF16 => format!("widen_bf16({low})"),
            DType::F32 => format!("bitcast<f32>({low})"),
            DType::F64 => format!("bitcast<f64>(wide_u64({low}, {high}))"),
        }
    }

    fn alu(&self, op: AluOp, dtype: DType, x: &[String]) -> String {
        match dtype {
            DType::Bool => boolean(op, x),
            DType::U8 => byte(op, x),
            DType::I64 if !self.int64 => integer(op, IntegerSpelling::Words, x),
            DType::I64 => integer(op, IntegerSpelling::Wide, x),
            DType::I32 => integer(op, IntegerSpelling::Signed, x),
            DType::U32 => integer(op, IntegerSpelling::Unsigned, x),
            DType::F16 | DType::BF16 | DType::F32 | DType::F64 => float(op, dtype, x),
        }
    }

    fn cast(&self, from: DType, to: DType, x: &str) -> String {
        match (from, to) {
            (DType::I64, _) if !self.int64 => return words::to(to, x),
            (_, DType::I64) if !self.int64 => return words::from(from, x),
            (..) => {}
        }
        match to {
            DType::Bool => truth(from, x),
            DType::U8 | DType::I32 | DType::U32 | DType::I64 => to_integer(from, to, x),
            DType::F16 => format!("round_f16({})", self.cast(from, DType::F32, x)),
            DType::BF16 => format!("round_bf16({})", self.cast(from, DType::F32, x)),
            DType::F32 => match from {
                DType::Bool => format!("truth_f32({x})"),
                DType::F16 | DType::BF16 | DType::F32 => x.into(),
                // Compilers know positions, and would drop a product with one that is zero.
                DType::U8 | DType::I32 | DType::U32 | DType::I64 => format!("opaque_f32(f32({x}))"),
                DType::F64 => format!("f32({x})"),
            },
            DType::F64 => match from {
                DType::Bool => format!("truth_f64({x})"),
                DType::F64 => x.into(),
                DType::F16 | DType::BF16 | DType::F32 => format!("widen_f64({x})"),
                DType::U8 | DType::I32 | DType::U32 | DType::I64 => format!("f64({x})"),
            },
        }
    }

    fn bitcast(&self, from: DType, to: DType, x: &str) -> String {
        // Nothing else is as wide where these are words.
        if from == to {
            return x.into();
        }
        // Through the bits as an unsigned integer of that width.
        let bits = match from {
            DType::Bool => format!("select(0u, 1u, {x})"),
            DType::U8 | DType::U32 => x.into(),
            DType::I32 | DType::F32 => format!("bitcast<u32>({x})"),
            DType::F16 => format!("narrow_f16({x})"),
            DType::BF16 => format!("narrow_bf16({x})"),
            DType::I64 | DType::F64 => format!("bitcast<u64>({x})"),
        };
        match to {
            DType::Bool => format!("({bits} != 0u)"),
            DType::U8 | DType::U32 => bits,
            DType::I32 => format!("bitcast<i32>({bits})"),
            DType::F32 => format!("bitcast<f32>({bits})"),
            DType::F16 => format!("widen_f16({bits})"),
            DType::BF16 => format!("widen_bf16({bits})"),
            DType::I64 => format!("bitcast<i64>({bits})"),
            DType::F64 => format!("bitcast<f64>({bits})"),
        }
    }

    fn select(&self, condition: &str, yes: &str, no: &str) -> String {
        format!("select({no}, {yes}, {condition})")
    }
    fn widen(&self, position: &str) -> String {
        self.cast(DType::I32, DType::I64, position)
    }
    fn narrow(&self, index: &str, of: DType) -> String {
        self.cast(of, DType::I32, index)
    }
    fn clamp(&self, index: &str, of: DType, extent: usize) -> String {
        let last = extent.saturating_sub(1);
        if of == DType::I32 {
            format!("clamp({index}, 0, {})", sized::signed(last as i64))
        } else if self.int64 {
            format!("i32(clamp({index}, 0li, {}))", sized::wide(last))
        } else {
            format!("position_words({index}, {})", sized::signed(last as i64))
        }
    }
    fn differ(&self, of: DType, x: &str, y: &str) -> String {
        if of == DType::I64 && !self.int64 { format!("any({x} != {y})") } else { format!("{x} != {y}") }
    }
    fn position(&self, value: i64) -> String {
        sized::signed(value)
    }
    fn quotient(&self, position: &str, by: usize) -> String {
        format!("i32({})", sized::quotient(&format!("u32({position})"), by))
    }
    fn report(&self, index: &str, of: DType, extent: usize) -> String {
        format!("report_{}({index}, {});", self.version(of), sized::unsigned(extent))
    }
    fn define(&self, name: &str, _ty: &str, value: &str) -> String {
        format!("let {name} = {value};")
    }
    fn variable(&self, name: &str, ty: &str, value: &str) -> String {
        format!("var {name}: {ty} = {value};")
    }
    fn array(&self, name: &str, ty: &str, count: usize) -> String {
        format!("var {name}: array<{ty}, {count}>;")
    }
    fn for_loop(&self, name: &str, start: &str, end: &str, step: usize) -> String {
        format!("for (var {name}: i32 = {start}; {name} < {end}; {name} += {step})")
    }
    fn load(&self, input: u32, address: &str) -> String {
        format!("in{input}({address})")
    }
    fn vector_index(&self, input: u32, group: &str) -> String {
        format!("in{input}_vector_index({group})")
    }
    fn load4(&self, input: u32, quad: &str) -> String {
        format!("in{input}({quad})")
    }
    fn register4(&self, dtype: DType) -> String {
        format!("vec4<{}>", self.register(dtype))
    }
    fn load8(&self, input: u32, eighth: &str) -> String {
        format!("in{input}({eighth})")
    }
    fn register8(&self, dtype: DType) -> String {
        format!("Vec8_{}", self.register(dtype))
    }
    fn store8(&self, output: usize, eighth: &str, values: &[String; 8]) -> String {
        let [low, high] = [&values[..4], &values[4..]].map(|half| format!("vec4({})", half.join(", ")));
        format!("out{output}({eighth}, {low}, {high});")
    }
    fn store(&self, output: usize, address: &str, value: &str) -> String {
        format!("out{output}({address}, {value});")
    }
    fn store4(&self, output: usize, quad: &str, values: &[String; 4]) -> String {
        format!("out{output}({quad}, {});", values.join(", "))
    }
    fn call(&self, function: &str, dtype: DType, operands: &[&str]) -> String {
        format!("{function}_{}({})", self.version(dtype), operands.join(", "))
    }
    fn barrier(&self) -> String {
        "workgroupBarrier();".into()
    }
    fn exchanges(&self, dtype: DType) -> bool {
        dtype.size() == 4
    }
    fn lane_above(&self, _lanes: usize, value: &str, distance: usize) -> String {
        format!("subgroupShuffleDown({value}, {distance}u)")
    }
    fn first_lane(&self, _lanes: usize, value: &str) -> String {
        format!("subgroupBroadcastFirst({value})")
    }
}

fn boolean(op: AluOp, x: &[String]) -> String {
    match op {
        AluOp::Lt => format!("(!{} && {})", x[0], x[1]),
        AluOp::Eq => format!("({} == {})", x[0], x[1]),
        AluOp::And => format!("({} && {})", x[0], x[1]),
        AluOp::Or => format!("({} || {})", x[0], x[1]),
        AluOp::Xor => format!("({} != {})", x[0], x[1]),
        AluOp::Not => format!("(!{})", x[0]),
        AluOp::Where => format!("select({}, {}, {})", x[2], x[1], x[0]),
        AluOp::Max => format!("({} || {})", x[0], x[1]),
        AluOp::Min => format!("({} && {})", x[0], x[1]),
        AluOp::Add
        | AluOp::Sub
        | AluOp::Mul
        | AluOp::Div
        | AluOp::Rem
        | AluOp::Pow
        | AluOp::Neg
        | AluOp::Abs
        | AluOp::Recip
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
        | AluOp::Round
        | AluOp::Shl
        | AluOp::Shr => panic!("{} of truth values", op.name()),
    }
}

/// Bytes are 32-bit numbers below 256: what may leave the range is masked.
fn byte(op: AluOp, x: &[String]) -> String {
    match op {
        AluOp::Add | AluOp::Sub | AluOp::Mul | AluOp::Pow | AluOp::Neg | AluOp::Not => {
            format!("({} & 0xffu)", integer(op, IntegerSpelling::Unsigned, x))
        }
        AluOp::Shl => format!("(shift_left_u32({}, {}) & 0xffu)", x[0], x[1]),
        AluOp::Div
        | AluOp::Rem
        | AluOp::Max
        | AluOp::Min
        | AluOp::Abs
        | AluOp::Lt
        | AluOp::Eq
        | AluOp::And
        | AluOp::Or
        | AluOp::Xor
        | AluOp::Shr
        | AluOp::Where
        | AluOp::Recip
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
        | AluOp::Round => integer(op, IntegerSpelling::Unsigned, x),
    }
}

/// The integers that operations differ for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IntegerSpelling {
    Signed,
    Unsigned,
    /// Of 64 bits.
    Wide,
    /// Of 64 bits, as pairs of words.
    Words,
}

/// Pairs of words have functions in the place of arithmetic operators.
fn integer(op: AluOp, kind: IntegerSpelling, x: &[String]) -> String {
    let (words, suffix) = match kind {
        IntegerSpelling::Signed => (false, "i32"),
        IntegerSpelling::Unsigned => (false, "u32"),
        IntegerSpelling::Wide => (false, "i64"),
        IntegerSpelling::Words => (true, words::VERSION),
    };
    let infix = |sign: &str| format!("({} {sign} {})", x[0], x[1]);
    let call = |name: &str| format!("{name}_{suffix}({})", x.join(", "));
    let operator = |sign: &str, name: &str| if words { call(name) } else { infix(sign) };
    match op {
        AluOp::Add => operator("+", "add"),
        AluOp::Sub => operator("-", "subtract"),
        AluOp::Mul => operator("*", "multiply"),
        AluOp::Div => call("quotient"),
        AluOp::Rem => call("remainder"),
        AluOp::Max if words => call("maximum"),
        AluOp::Max => format!("max({}, {})", x[0], x[1]),
        AluOp::Min if words => call("minimum"),
        AluOp::Min => format!("min({}, {})", x[0], x[1]),
        AluOp::Pow => call("power"),
        AluOp::Neg => match kind {
            IntegerSpelling::Signed => format!("(0 - {})", x[0]),
            IntegerSpelling::Unsigned => format!("(0u - {})", x[0]),
            IntegerSpelling::Wide => format!("(0li - {})", x[0]),
            IntegerSpelling::Words => call("negate"),
        },
        AluOp::Abs => match kind {
            IntegerSpelling::Signed | IntegerSpelling::Wide => format!("abs({})", x[0]),
            IntegerSpelling::Unsigned => x[0].clone(),
            IntegerSpelling::Words => call("magnitude"),
        },
        AluOp::Lt => operator("<", "less"),
        AluOp::Eq if words => format!("all({} == {})", x[0], x[1]),
        AluOp::Eq => infix("=="),
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

fn float(op: AluOp, dtype: DType, x: &[String]) -> String {
    let call = |name: &str| format!("{name}_{}({})", version(dtype), x.join(", "));
    match op {
        AluOp::Add => call("add"),
        AluOp::Sub => call("subtract"),
        AluOp::Mul => call("multiply"),
        AluOp::Div => call("divide"),
        AluOp::Rem => call("remainder"),
        AluOp::Max => call("maximum"),
        AluOp::Min => call("minimum"),
        AluOp::Pow => call("power"),
        AluOp::Neg => call("negate"),
        AluOp::Abs => call("magnitude"),
        AluOp::Recip => call("reciprocal"),
        AluOp::Sqrt => call("root"),
        AluOp::Exp2 => call("exp2"),
        AluOp::Log2 => call("log2"),
        AluOp::Exp => call("exp"),
        AluOp::Log => call("log"),
        AluOp::Sin => call("sin"),
        AluOp::Cos => call("cos"),
        AluOp::Tanh => call("tanh"),
        AluOp::Erf => call("erf"),
        AluOp::Floor => call("floor"),
        AluOp::Trunc => call("trunc"),
        AluOp::Round => call("round"),
        AluOp::Lt => call("less"),
        AluOp::Eq => call("equal"),
        AluOp::Where => format!("select({}, {}, {})", x[2], x[1], x[0]),
        AluOp::And | AluOp::Or | AluOp::Xor | AluOp::Not | AluOp::Shl | AluOp::Shr => {
            panic!("{} of floats", op.name())
        }
    }
}

/// Whether a value differs from zero.
fn truth(from: DType, x: &str) -> String {
    match from {
        DType::Bool => x.into(),
        DType::U8 | DType::U32 => format!("({x} != 0u)"),
        DType::I32 => format!("({x} != 0)"),
        DType::I64 => format!("({x} != 0li)"),
        DType::F16 | DType::BF16 | DType::F32 => format!("((bitcast<u32>({x}) & 0x7fffffffu) != 0u)"),
        DType::F64 => format!("((bitcast<u64>({x}) & 0x7ffffffffffffffflu) != 0lu)"),
    }
}

/// Integers wrap; floats lose their fraction, and become the least integer
/// where they fit none. Unsigned types take the low bits of the `I64`.
fn to_integer(from: DType, to: DType, x: &str) -> String {
    let ty = match to {
        DType::I32 => "i32",
        DType::I64 => "i64",
        DType::Bool | DType::U8 | DType::U32 | DType::F16 | DType::BF16 | DType::F32 | DType::F64 => "u32",
    };
    let whole = match from {
        DType::Bool => format!("select({ty}(0), {ty}(1), {x})"),
        DType::U8 | DType::I32 | DType::U32 | DType::I64 if from == to => x.into(),
        DType::U8 if to == DType::U32 => x.into(),
        // naga 30 extends the sign where it converts unsigned to signed.
        DType::U8 | DType::U32 if to == DType::I64 => format!("bitcast<i64>(u64({x}))"),
        DType::U8 | DType::I32 | DType::U32 | DType::I64 => format!("{ty}({x})"),
        DType::F16 | DType::BF16 | DType::F32 if to == DType::I64 => format!("integer64_f32({x})"),
        DType::F16 | DType::BF16 | DType::F32 if to == DType::I32 => format!("integer_f32({x})"),
        DType::F16 | DType::BF16 | DType::F32 => format!("whole_f32({x})"),
        DType::F64 if to == DType::I32 => format!("integer_f64({x})"),
        DType::F64 => format!("{ty}(integer64_f64({x}))"),
    };
    if to == DType::U8 && !matches!(from, DType::Bool | DType::U8) {
        format!("({whole} & 0xffu)")
    } else {
        whole
    }
}
