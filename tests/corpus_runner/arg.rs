//! Arguments as the manifest writes them.

use kiln::{DType, Scalar};
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
    /// A form that this reader does not know.
    Other(String),
}

/// Decodes one argument.
pub fn decode(value: &Value) -> Arg {
    let other = || Arg::Other(value.to_string());
    match value {
        Value::Null => Arg::None,
        Value::Bool(b) => Arg::Number(Scalar::Bool(*b)),
        Value::Number(number) => match number.as_i64() {
            Some(i) => Arg::Number(Scalar::Int(i)),
            None => number.as_f64().map_or_else(other, |f| Arg::Number(Scalar::Float(f))),
        },
        Value::String(text) => Arg::Text(text.clone()),
        Value::Array(items) => list(items),
        Value::Object(fields) => match fields.iter().next() {
            Some((key, value)) if fields.len() == 1 => tagged(key, value).unwrap_or_else(other),
            _ => other(),
        },
    }
}

fn list(items: &[Value]) -> Arg {
    Arg::List(items.iter().map(decode).collect())
}

/// Decodes `{key: value}`, JSON's spelling of what it has no type for.
fn tagged(key: &str, value: &Value) -> Option<Arg> {
    Some(match key {
        "t" => Arg::Tensor(usize::try_from(value.as_u64()?).ok()?),
        "tuple" => list(value.as_array()?),
        "f" => Arg::Number(Scalar::Float(value.as_str()?.parse().ok()?)),
        "dtype" => {
            let name = value.as_str()?;
            dtype(name).map_or_else(|| Arg::OtherDType(name.to_string()), Arg::DType)
        }
        "slice" => match value.as_array()?.as_slice() {
            [start, stop, step] => {
                Arg::Slice { start: start.as_i64(), stop: stop.as_i64(), step: step.as_i64() }
            }
            _ => return None,
        },
        _ => return None,
    })
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
