//! How CUDA C spells things: the one place that says so.
//!
//! Floats are IEEE numbers whose operations are not contracted (the compiler
//! is told so), so that operators are the operations. What C leaves undefined
//! (signed overflow, division by zero, long shifts) goes through the prelude.

use crate::base::{DType, Scalar};
use crate::ir::AluOp;
use crate::kernel::Kernel;
use crate::render::c_like::{Dialect, emit};

/// CUDA C, for one kernel.
#[derive(Clone, Debug)]
pub struct Cuda {
    /// Types of the inputs' elements in memory.
    pub inputs: Vec<DType>,
    /// Types of the outputs' elements in memory.
    pub outputs: Vec<DType>,
    /// Whether positions exceed 32 bits.
    pub wide: bool,
}

impl Cuda {
    /// The language for a kernel.
    pub fn of(kernel: &Kernel, wide: bool) -> Cuda {
        Cuda {
            inputs: kernel.inputs.iter().map(|input| input.dtype).collect(),
            outputs: match kernel.scatter() {
                Some(scatter) => vec![scatter.dtype],
                None => kernel.stores.iter().map(|store| store.dtype).collect(),
            },
            wide,
        }
    }

    /// The element of an output, as it is now.
    pub fn element(&self, output: usize, address: &str) -> String {
        widened(self.outputs[output], &format!("out{output}[{address}]"))
    }
}

/// The type of elements in memory.
pub const fn storage(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool | DType::U8 => "u8",
        DType::F16 | DType::BF16 => "u16",
        DType::I32 => "i32",
        DType::U32 => "u32",
        DType::I64 => "i64",
        DType::F32 => "f32",
        DType::F64 => "f64",
    }
}

/// The type of values in registers.
pub const fn register(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "bool",
        DType::U8 | DType::U32 => "u32",
        DType::I32 => "i32",
        DType::I64 => "i64",
        DType::F16 | DType::BF16 | DType::F32 => "f32",
        DType::F64 => "f64",
    }
}

/// A value from what memory holds.
pub fn widened(dtype: DType, raw: &str) -> String {
    match dtype {
        DType::Bool => format!("({raw} != 0)"),
        DType::U8 => format!("(u32){raw}"),
        DType::F16 => format!("widen_f16({raw})"),
        DType::BF16 => format!("widen_bf16({raw})"),
        DType::I32 | DType::U32 | DType::I64 | DType::F32 | DType::F64 => raw.into(),
    }
}

/// What memory holds of a value.
pub fn narrowed(dtype: DType, value: &str) -> String {
    match dtype {
        DType::Bool | DType::U8 => format!("(u8){value}"),
        DType::F16 => format!("narrow_f16({value})"),
        DType::BF16 => format!("narrow_bf16({value})"),
        DType::I32 | DType::U32 | DType::I64 | DType::F32 | DType::F64 => value.into(),
    }
}

fn f32_literal(x: f32) -> String {
    match x {
        x if !x.is_finite() => format!("__uint_as_float({:#010x}u)", x.to_bits()),
        x if x.is_sign_negative() => format!("({x:?}f)"),
        x => format!("{x:?}f"),
    }
}

fn f64_literal(x: f64) -> String {
    match x {
        x if !x.is_finite() => format!("__longlong_as_double({:#018x}ull)", x.to_bits()),
        x if x.is_sign_negative() => format!("({x:?})"),
        x => format!("{x:?}"),
    }
}

fn i64_literal(x: i64) -> String {
    match x {
        i64::MIN => "(-9223372036854775807ll - 1)".into(),
        x if x < 0 => format!("({x}ll)"),
        x => format!("{x}ll"),
    }
}

impl Dialect for Cuda {
    fn register(&self, dtype: DType) -> &'static str {
        register(dtype)
    }

    fn position_type(&self) -> &'static str {
        if self.wide { "i64" } else { "i32" }
    }

    fn position(&self, value: i64) -> String {
        if self.wide { i64_literal(value) } else { emit::position(value) }
    }

    fn constant(&self, dtype: DType, bits: u64) -> String {
        let value = Scalar::from_bits(bits, dtype);
        match dtype {
            DType::Bool => value.as_bool().to_string(),
            DType::U8 | DType::U32 => format!("{}u", value.as_i64()),
            DType::I32 => emit::position(value.as_i64()),
            DType::I64 => i64_literal(value.as_i64()),
            DType::F16 | DType::BF16 | DType::F32 => f32_literal(value.as_f64() as f32),
            DType::F64 => f64_literal(value.as_f64()),
        }
    }

    fn argument(&self, slot: u32, dtype: DType) -> String {
        match dtype {
            DType::Bool => format!("((arg{slot} & 0xff) != 0)"),
            DType::U8 => format!("((u32)arg{slot} & 0xff)"),
            DType::U32 => format!("(u32)arg{slot}"),
            DType::I32 => format!("(i32)(u32)arg{slot}"),
            DType::I64 => format!("(i64)arg{slot}"),
            DType::F16 => format!("widen_f16((u16)arg{slot})"),
            DType::BF16 => format!("widen_bf16((u16)arg{slot})"),
            DType::F32 => format!("__uint_as_float((u32)arg{slot})"),
            DType::F64 => format!("__longlong_as_double((i64)arg{slot})"),
        }
    }

    fn alu(&self, op: AluOp, dtype: DType, x: &[String]) -> String {
        match dtype {
            DType::Bool => boolean(op, x),
            DType::U8 => byte(op, x),
            DType::I32 | DType::U32 | DType::I64 => integer(op, x),
            DType::F16 | DType::BF16 | DType::F32 => float(op, x, "f", "1.0f"),
            DType::F64 => float(op, x, "", "1.0"),
        }
    }

    fn cast(&self, from: DType, to: DType, x: &str) -> String {
        match to {
            DType::Bool => match from {
                DType::Bool => x.into(),
                DType::U8
                | DType::I32
                | DType::U32
                | DType::I64
                | DType::F16
                | DType::BF16
                | DType::F32
                | DType::F64 => format!("({x} != 0)"),
            },
            DType::U8 | DType::I32 | DType::U32 | DType::I64 => to_integer(from, to, x),
            DType::F16 => format!("round_f16({})", self.cast(from, DType::F32, x)),
            DType::BF16 => format!("round_bf16({})", self.cast(from, DType::F32, x)),
            DType::F32 => format!("(f32){x}"),
            DType::F64 => format!("(f64){x}"),
        }
    }

    fn bitcast(&self, from: DType, to: DType, x: &str) -> String {
        // Through the bits as an unsigned integer of that width.
        let bits = match from {
            DType::Bool | DType::U8 | DType::I32 | DType::U32 => format!("(u32){x}"),
            DType::F32 => format!("__float_as_uint({x})"),
            DType::F16 => format!("(u32)narrow_f16({x})"),
            DType::BF16 => format!("(u32)narrow_bf16({x})"),
            DType::I64 => x.into(),
            DType::F64 => format!("__double_as_longlong({x})"),
        };
        match to {
            DType::Bool => format!("({bits} != 0u)"),
            DType::U8 | DType::U32 => bits,
            DType::I32 => format!("(i32)({bits})"),
            DType::F32 => format!("__uint_as_float({bits})"),
            DType::F16 => format!("widen_f16((u16)({bits}))"),
            DType::BF16 => format!("widen_bf16((u16)({bits}))"),
            DType::I64 => format!("(i64)({bits})"),
            DType::F64 => format!("__longlong_as_double({bits})"),
        }
    }

    fn select(&self, condition: &str, yes: &str, no: &str) -> String {
        format!("({condition} ? {yes} : {no})")
    }
    fn widen(&self, position: &str) -> String {
        format!("(i64)({position})")
    }
    fn narrow(&self, index: &str, _of: DType) -> String {
        if self.wide { index.into() } else { format!("(i32)({index})") }
    }
    fn clamp(&self, wide: &str, _of: DType, extent: usize) -> String {
        self.narrow(&format!("clamped({wide}, {}ll)", extent.saturating_sub(1)), DType::I64)
    }
    fn lesser(&self, x: &str, y: &str) -> String {
        let ty = self.position_type();
        format!("minimum(({ty})({x}), ({ty})({y}))")
    }
    fn quotient(&self, position: &str, by: usize) -> String {
        match self.wide {
            true => format!("(i64)((u64)({position}) / {by}ull)"),
            false => format!("(i32)((u32)({position}) / {by}u)"),
        }
    }
    fn report(&self, wide: &str, _of: DType, extent: usize) -> String {
        format!("report(status, launch, {wide}, {extent}ll);")
    }
    fn define(&self, name: &str, ty: &str, value: &str) -> String {
        format!("const {ty} {name} = {value};")
    }
    fn variable(&self, name: &str, ty: &str, value: &str) -> String {
        format!("{ty} {name} = {value};")
    }
    fn array(&self, name: &str, ty: &str, count: usize) -> String {
        format!("{ty} {name}[{count}];")
    }
    fn unrolled(&self, head: String) -> String {
        format!("_Pragma(\"unroll\") {head}")
    }
    fn for_loop(&self, name: &str, start: &str, end: &str, step: usize) -> String {
        let ty = self.position_type();
        format!("for ({ty} {name} = {start}; {name} < {end}; {name} += {step})")
    }
    fn load(&self, input: u32, address: &str) -> String {
        widened(self.inputs[input as usize], &format!("in{input}[{address}]"))
    }
    fn load4(&self, input: u32, quad: &str) -> String {
        let version = match self.inputs[input as usize] {
            DType::Bool => "_bool",
            DType::U8 => "_u8",
            DType::F16 => "_f16",
            DType::BF16 => "_bf16",
            DType::I32 | DType::U32 | DType::I64 | DType::F32 | DType::F64 => "",
        };
        format!("load4{version}(in{input}, {quad})")
    }
    fn register4(&self, dtype: DType) -> String {
        format!("vec4<{}>", register(dtype))
    }
    fn load8(&self, input: u32, eighth: &str) -> String {
        let version = if self.inputs[input as usize] == DType::F16 { "f16" } else { "bf16" };
        format!("load8_{version}(in{input}, {eighth})")
    }
    fn register8(&self, dtype: DType) -> String {
        format!("vec8<{}>", register(dtype))
    }
    fn store(&self, output: usize, address: &str, value: &str) -> String {
        format!("out{output}[{address}] = {};", narrowed(self.outputs[output], value))
    }
    fn store4(&self, output: usize, quad: &str, values: &[String; 4]) -> String {
        let dtype = self.outputs[output];
        let values = values.each_ref().map(|value| narrowed(dtype, value));
        format!("store4<{}>(out{output}, {quad}, {});", storage(dtype), values.join(", "))
    }
    fn store8(&self, output: usize, eighth: &str, values: &[String; 8]) -> String {
        let values = values.each_ref().map(|value| narrowed(self.outputs[output], value));
        let (low, high) = (values[..4].join(", "), values[4..].join(", "));
        format!("store8(out{output}, {eighth}, {{{low}}}, {{{high}}});")
    }
    fn call(&self, function: &str, _dtype: DType, operands: &[&str]) -> String {
        format!("{function}({})", operands.join(", "))
    }
    fn barrier(&self) -> String {
        "__syncthreads();".into()
    }
    fn exchanges(&self, _dtype: DType) -> bool {
        true
    }
    fn lane_above(&self, lanes: usize, value: &str, distance: usize) -> String {
        format!("lane_above({}, {value}, {distance}u)", mask(lanes))
    }
    fn first_lane(&self, lanes: usize, value: &str) -> String {
        format!("first_lane({}, {value})", mask(lanes))
    }
}

/// The lanes of a warp that take part, as bits.
fn mask(lanes: usize) -> String {
    format!("{:#010x}u", if lanes >= 32 { u32::MAX } else { (1 << lanes) - 1 })
}

fn boolean(op: AluOp, x: &[String]) -> String {
    match op {
        AluOp::Lt => format!("(!{} && {})", x[0], x[1]),
        AluOp::Eq => format!("({} == {})", x[0], x[1]),
        AluOp::And | AluOp::Min => format!("({} && {})", x[0], x[1]),
        AluOp::Or | AluOp::Max => format!("({} || {})", x[0], x[1]),
        AluOp::Xor => format!("({} != {})", x[0], x[1]),
        AluOp::Not => format!("(!{})", x[0]),
        AluOp::Where => format!("({} ? {} : {})", x[0], x[1], x[2]),
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
        AluOp::Add | AluOp::Sub | AluOp::Mul | AluOp::Pow | AluOp::Neg | AluOp::Not | AluOp::Shl => {
            format!("({} & 0xffu)", integer(op, x))
        }
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
        | AluOp::Round => integer(op, x),
    }
}

fn integer(op: AluOp, x: &[String]) -> String {
    let infix = |sign: &str| format!("({} {sign} {})", x[0], x[1]);
    let call = |name: &str| format!("{name}({})", x.join(", "));
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
        AluOp::Lt => infix("<"),
        AluOp::Eq => infix("=="),
        AluOp::And => infix("&"),
        AluOp::Or => infix("|"),
        AluOp::Xor => infix("^"),
        AluOp::Not => format!("(~{})", x[0]),
        AluOp::Shl => call("shift_left"),
        AluOp::Shr => call("shift_right"),
        AluOp::Where => format!("({} ? {} : {})", x[0], x[1], x[2]),
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

/// Functions of single precision have a suffix.
fn float(op: AluOp, x: &[String], suffix: &str, one: &str) -> String {
    let infix = |sign: &str| format!("({} {sign} {})", x[0], x[1]);
    let call = |name: &str| format!("{name}{suffix}({})", x.join(", "));
    match op {
        AluOp::Add => infix("+"),
        AluOp::Sub => infix("-"),
        AluOp::Mul => infix("*"),
        AluOp::Div => infix("/"),
        AluOp::Rem => call("fmod"),
        AluOp::Max => format!("maximum({}, {})", x[0], x[1]),
        AluOp::Min => format!("minimum({}, {})", x[0], x[1]),
        AluOp::Pow => call("pow"),
        AluOp::Neg => format!("(-{})", x[0]),
        AluOp::Abs => call("fabs"),
        AluOp::Recip => format!("({one} / {})", x[0]),
        AluOp::Sqrt => call("sqrt"),
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
        AluOp::Round => call("rint"),
        AluOp::Lt => infix("<"),
        AluOp::Eq => infix("=="),
        AluOp::Where => format!("({} ? {} : {})", x[0], x[1], x[2]),
        AluOp::And | AluOp::Or | AluOp::Xor | AluOp::Not | AluOp::Shl | AluOp::Shr => {
            panic!("{} of floats", op.name())
        }
    }
}

/// Integers wrap; floats lose their fraction, and become the least integer
/// where they fit none. Unsigned types take the low bits of the `I64`.
fn to_integer(from: DType, to: DType, x: &str) -> String {
    let ty = register(to);
    let whole = match from {
        DType::Bool | DType::U8 | DType::I32 | DType::U32 | DType::I64 => format!("({ty}){x}"),
        DType::F16 | DType::BF16 | DType::F32 | DType::F64 => match to {
            DType::I32 => format!("to_i32({x})"),
            DType::I64 => format!("to_i64({x})"),
            DType::Bool | DType::U8 | DType::U32 | DType::F16 | DType::BF16 | DType::F32 | DType::F64 => {
                format!("(u32)to_i64({x})")
            }
        },
    };
    if to == DType::U8 && !matches!(from, DType::Bool | DType::U8) {
        format!("({whole} & 0xffu)")
    } else {
        whole
    }
}
