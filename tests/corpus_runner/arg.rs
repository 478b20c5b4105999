//! Arguments as the manifest writes them.

use kiln::base::{DType, Scalar};
use serde_json::Value;

/// One argument of a recorded call.
#[derive(Clone, Debug)]
pub enum Arg {
    /// Python's `None`.
    None,
    /// A truth value, an integer or a floating-point number.
    Number(Scalar),
    /// Text: a mode, a reduction, an equation.
    Text(String),
    /// An element type kiln has.
    DType(DType),
    /// An element type kiln has not.
    OtherDType(String),
    /// The input of this number.
    Tensor(usize),
    /// A list or a tuple.
    List(Vec<Arg>),
    /// A Python slice.
    Slice {
        /// First index taken.
        start: Option<i64>,
        /// First index no longer taken.
        stop: Option<i64>,
        /// Distance of the indices taken.
        step: Option<i64>,
    },
}

/// Decodes one argument.
///
/// # Errors
/// A form that the format does not have.
pub fn decode(value: &Value) -> Result<Arg, String> {
    match value {
        Value::Null => Ok(Arg::None),
        Value::Bool(b) => Ok(Arg::Number(Scalar::Bool(*b))),
        Value::Number(number) => match number.as_i64() {
            Some(i) => Ok(Arg::Number(Scalar::Int(i))),
            None => number.as_f64().map(|f| Arg::Number(Scalar::Float(f))).ok_or_else(|| format!("{number}")),
        },
        Value::String(text) => Ok(Arg::Text(text.clone())),
        Value::Array(items) => list(items),
        Value::Object(fields) => match fields.iter().next() {
            Some((key, value)) if fields.len() == 1 => tagged(key, value),
            _ => Err(format!("argument {value}")),
        },
    }
}

fn list(items: &[Value]) -> Result<Arg, String> {
    Ok(Arg::List(items.iter().map(decode).collect::<Result<_, _>>()?))
}

/// Decodes `{key: value}`, JSON's spelling of what it has no type for.
fn tagged(key: &str, value: &Value) -> Result<Arg, String> {
    let unknown = || format!("argument {{{key}: {value}}}");
    match (key, value) {
        ("t", _) => value.as_u64().map(|k| Arg::Tensor(k as usize)).ok_or_else(unknown),
        ("tuple", Value::Array(items)) => list(items),
        ("f", Value::String(text)) => match text.parse() {
            Ok(float) => Ok(Arg::Number(Scalar::Float(float))),
            Err(_) => Err(unknown()),
        },
        ("dtype", Value::String(name)) => Ok(match dtype(name) {
            Some(dtype) => Arg::DType(dtype),
            None => Arg::OtherDType(name.clone()),
        }),
        ("slice", Value::Array(bounds)) => match bounds.as_slice() {
            [start, stop, step] => {
                Ok(Arg::Slice { start: start.as_i64(), stop: stop.as_i64(), step: step.as_i64() })
            }
            _ => Err(unknown()),
        },
        _ => Err(unknown()),
    }
}

/// The type that PyTorch calls `name`.
pub fn dtype(name: &str) -> Option<DType> {
    Some(match name {
        "float64" => DType::F64,
        "float32" => DType::F32,
        "float16" => DType::F16,
        "bfloat16" => DType::BF16,
        "int64" => DType::I64,
        "int32" => DType::I32,
        "uint32" => DType::U32,
        "uint8" => DType::U8,
        "bool" => DType::Bool,
        _ => return None,
    })
}
